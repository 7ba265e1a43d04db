/* host: a context and all under it wander from thread to thread, one at a time. Under
 * ThreadSanitizer this shows that nothing in it is bound to a thread or shared with one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "host.h"

#define THREADS 4
#define TURNS 5 /* dispatches of a thread before the next one takes over */

struct baton {
	pthread_mutex_t mutex;
	pthread_cond_t passed;
	int holder;
	int turns; /* of all threads */
	struct host *host;
};

struct runner {
	struct baton *baton;
	int number;
};

static bool take(struct baton *baton, int number)
{
	pthread_mutex_lock(&baton->mutex);
	while (baton->holder != number && !baton->host->is_over)
		pthread_cond_wait(&baton->passed, &baton->mutex);
	return !baton->host->is_over;
}

static void pass_on(struct baton *baton)
{
	baton->holder = (baton->holder + 1) % THREADS;
	pthread_cond_broadcast(&baton->passed);
	pthread_mutex_unlock(&baton->mutex);
}

static void *dispatch_in_turn(void *user)
{
	struct runner *runner = user;
	while (take(runner->baton, runner->number)) {
		for (int i = 0; i < TURNS && !runner->baton->host->is_over; i++) {
			host_run(runner->baton->host);
			runner->baton->turns++;
		}
		pass_on(runner->baton);
	}
	pass_on(runner->baton);
	return NULL;
}

static void *open_and_submit(void *user)
{
	host_open(user, &host_linked);
	host_submit(user, "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.02; done");
	return NULL;
}

static void *close_it(void *user)
{
	host_close(user);
	return NULL;
}

static void run_in_thread(void *(*work)(void *), void *user)
{
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, work, user), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_context_wanders_from_thread_to_thread(void **state)
{
	struct host host;
	struct baton baton = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, .host = &host};
	struct runner runners[THREADS];
	pthread_t threads[THREADS];
	run_in_thread(open_and_submit, &host);
	for (int i = 0; i < THREADS; i++) {
		runners[i] = (struct runner){&baton, i};
		assert_int_equal(pthread_create(&threads[i], NULL, dispatch_in_turn, &runners[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_string_equal(host.output, "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
	assert_int_equal(host.state, TFC_JOB_SUCCEEDED);
	assert_true(baton.turns > TURNS); /* more than one thread had a share */
	run_in_thread(close_it, &host);
}

/* Every call from a thread of its own. */
static void *run_once(void *user)
{
	host_run(user);
	return NULL;
}

static void every_dispatch_may_be_another_thread_s(void **state)
{
	struct host host;
	run_in_thread(open_and_submit, &host);
	while (!host.is_over)
		run_in_thread(run_once, &host);
	assert_int_equal(host.state, TFC_JOB_SUCCEEDED);
	run_in_thread(close_it, &host);
}

/* Two contexts, each on a thread of its own. */
static void *run_a_job(void *user)
{
	struct host host;
	open_and_submit(&host);
	host_await_end(&host);
	*(uint32_t *)user = host.state;
	host_close(&host);
	return NULL;
}

static void contexts_on_threads_of_their_own_share_nothing(void **state)
{
	pthread_t threads[THREADS];
	uint32_t states[THREADS] = {0};
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_a_job, &states[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(states[i], TFC_JOB_SUCCEEDED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_context_wanders_from_thread_to_thread),
		cmocka_unit_test(every_dispatch_may_be_another_thread_s),
		cmocka_unit_test(contexts_on_threads_of_their_own_share_nothing),
	};
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
