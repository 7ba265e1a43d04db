/* node: for which attempts a last will counts that a maintainer receives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "agent_order.h"
#include "agent_pair.h"
#include "base/clock.h"
#include "node/internal.h"
#include "proc_run.h"

#define LEASE_MS 10000 /* longer than any test: whatever is lost is lost by a will */
#define PATIENCE (30 * TFC__SECOND)
#define ID "0123456789abcdef"
static const struct tfc__will_key none;
#define WILL "its process has died, and its guard has ended the job's tasks there"

/* The will to which the node has committed itself, as the maintainer knows it; another one than
 * `before`. */
static struct tfc__will_key await_will(struct agent_pair *pair, const struct tfc__will_key *before)
{
	const struct tfc__will_key *will = &pair->remote->will;
	for (uint64_t end = tfc__now() + PATIENCE;
	     !will->incarnation || tfc__will_key_is_equal(will, before);) {
		assert_true(tfc__now() < end);
		agent_pair_run_for(pair, 10);
	}
	return *will;
}

static void start_task(struct agent_pair *pair, struct paired_job *job)
{
	paired_open_task(pair, job, 1, "'wait'");
	paired_start(job, 1);
	paired_await(job, TFC__AGENT_STARTED, 0, 1);
}

static bool receive_will(struct agent_pair *pair, struct tfc__will_key key)
{
	return tfc__remote_agent_receive_will(pair->remote, &key);
}

static void assert_lost_by_will(struct paired_job *job)
{
	assert_string_equal(paired_await(job, TFC__AGENT_LOST, 0, 1)->text, WILL);
}

static void a_will_counts_for_the_tasks_of_its_incarnation_and_no_other_does(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, LEASE_MS);
	start_task(&pair, &job);
	struct tfc__will_key will = await_will(&pair, &none), other = will;
	other.incarnation ^= 1;
	assert_false(receive_will(&pair, other));
	for (size_t i = 0; i < sizeof(will.commitment); i++) {
		other = will;
		other.commitment[i] ^= 1;
		assert_false(receive_will(&pair, other));
	}
	assert_int_equal(paired_count(&job, TFC__AGENT_LOST, 0), 0);
	assert_true(receive_will(&pair, will));
	assert_lost_by_will(&job);
	assert_false(receive_will(&pair, will)); /* nothing here waits for it any more */
	paired_close(&job);
	agent_pair_end(&pair);
}

/* A message of the node that was sent before its death may still be on its way: the job is lost
 * when the connection has ended. */
static void a_will_waits_for_what_the_connection_still_has(void **state)
{
	struct agent_pair pair;
	static struct paired_job job;
	agent_pair_up(&pair, LEASE_MS);
	start_task(&pair, &job);
	struct tfc__will_key will = await_will(&pair, &none);
	assert_true(receive_will(&pair, will));
	agent_pair_run_for(&pair, 100);
	assert_int_equal(paired_count(&job, TFC__AGENT_LOST, 0), 0);
	agent_pair_cut(&pair);
	uint64_t begin = tfc__now();
	assert_lost_by_will(&job);
	assert_true(tfc__now() - begin < 500 * TFC__MS);
	paired_close(&job);
	agent_pair_end(&pair);
}

/* The tasks are of the process that was there before. */
static void the_will_of_a_restarted_node_says_nothing_of_earlier_tasks(void **state)
{
	struct agent_pair pair;
	static struct paired_job job, next;
	agent_pair_up(&pair, LEASE_MS);
	start_task(&pair, &job);
	struct tfc__will_key first = await_will(&pair, &none);
	agent_pair_reboot(&pair);
	agent_pair_connect(&pair);
	struct tfc__will_key second = await_will(&pair, &first);
	assert_int_not_equal(second.incarnation, first.incarnation);
	assert_false(receive_will(&pair, second));
	assert_int_equal(paired_count(&job, TFC__AGENT_LOST, 0), 0);
	assert_true(receive_will(&pair, first)); /* late */
	assert_lost_by_will(&job);
	paired_close(&job);
	start_task(&pair, &next); /* of the process that is there now */
	assert_false(receive_will(&pair, first));
	assert_int_equal(paired_count(&next, TFC__AGENT_LOST, 0), 0);
	paired_close(&next);
	agent_pair_end(&pair);
}

/* A later epoch has the will of its tasks from its journal. */
static void a_later_epoch_goes_by_its_journal(void **state)
{
	static const char json[] = "{'argv': ['true'], 'roles': {'worker': {'count': 1}}}";
	struct tfc__will_key first = {.incarnation = 77, .commitment = {7}};
	const struct tfc__will_key *const known[] = {&first, &none};
	for (int i = 0; i < 2; i++) {
		struct agent_pair pair;
		static struct paired_job job;
		agent_pair_begin(&pair, LEASE_MS);
		assert_int_equal(tfc__guard_start(pair.ctx), TFC_OK);
		paired_resume(&pair, &job, ID, 2, json, known[i]);
		agent_pair_connect(&pair);
		struct tfc__will_key present = await_will(&pair, &none);
		assert_false(receive_will(&pair, present));
		assert_int_equal(receive_will(&pair, first), i == 0);
		if (i == 1) {
			/* the response says that nothing of an earlier incarnation is alive */
			agent_query(job.ops, job.handle, 5);
			paired_await(&job, TFC__AGENT_STATES, 0, 1);
			assert_true(receive_will(&pair, present));
		}
		paired_close(&job);
		agent_pair_end(&pair);
	}
}

/* The first guard was killed, and with it the will: what the second one has started is not covered.
 */
static void the_will_of_an_earlier_guard_says_nothing_of_later_tasks(void **state)
{
	struct agent_pair pair;
	static struct paired_job job, next;
	agent_pair_up(&pair, LEASE_MS);
	start_task(&pair, &job);
	struct tfc__will_key first = await_will(&pair, &none);
	kill(tfc__guard_pid(pair.ctx), SIGKILL);
	paired_await(&job, TFC__AGENT_EXITED, 0, 1);
	paired_close(&job);
	start_task(&pair, &next);
	struct tfc__will_key second = await_will(&pair, &first);
	assert_int_equal(second.incarnation, first.incarnation);
	assert_false(receive_will(&pair, first));
	assert_int_equal(paired_count(&next, TFC__AGENT_LOST, 0), 0);
	assert_true(receive_will(&pair, second));
	assert_lost_by_will(&next);
	paired_close(&next);
	agent_pair_end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_will_counts_for_the_tasks_of_its_incarnation_and_no_other_does),
		cmocka_unit_test(a_will_waits_for_what_the_connection_still_has),
		cmocka_unit_test(the_will_of_a_restarted_node_says_nothing_of_earlier_tasks),
		cmocka_unit_test(a_later_epoch_goes_by_its_journal),
		cmocka_unit_test(the_will_of_an_earlier_guard_says_nothing_of_later_tasks),
	};
	return cmocka_run_group_tests_name("node_will", tests, NULL, NULL);
}
