/* node: thieves that bind the pool's ports flat out delay a job, but neither stop nor blame it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "campaign.h"
#include "node_run.h"
#include "sockets.h"

enum { FIRST = 13000, LAST = 13015, THIEVES = 2, WORKERS = 3 };

static _Atomic uint32_t *stolen; /* shared with the thieves */

/* Listens on whatever it can get, for as long as it takes to ask for the next. */
static void steal(int fd, const void *seed)
{
	struct campaign_random random = {*(const uint64_t *)seed};
	pid_t parent = getppid();
	while (getppid() == parent) {
		uint16_t port = (uint16_t)(FIRST + campaign_pick(&random, LAST - FIRST + 1));
		const char *address = test_addresses[campaign_pick(&random, TEST_ADDRESSES)];
		int listener = test_listen(address, port, (int)campaign_pick(&random, 4));
		if (listener < 0)
			continue;
		atomic_fetch_add(stolen, 1);
		close(listener);
	}
}

static uint16_t port_of(const struct seen_event *seen)
{
	return (uint16_t)atoi(strrchr(seen->address, ':') + 1);
}

/* The last attempt of a task that has become ready. */
static const struct seen_event *find_ready(const struct follower *follower, const char *task)
{
	const struct seen_event *ready = NULL;
	for (size_t i = 0; i < follower->count; i++) {
		const struct seen_event *seen = &follower->events[i];
		if (seen->event.kind != TFC_EVENT_TASK || strcmp(seen->task, task) != 0)
			continue;
		if (seen->event.task_state == TFC_TASK_READY)
			ready = seen;
		else if (ready && seen->event.attempt == ready->event.attempt)
			ready = NULL;
	}
	return ready;
}

static bool are_all_ready(void *user)
{
	char task[16];
	for (int i = 0; i < WORKERS; i++) {
		snprintf(task, sizeof(task), "worker/%d", i);
		if (!find_ready(user, task))
			return false;
	}
	return true;
}

/* No end but the kill that the test asked for, and those of which a stranger was the cause. */
static void assert_verdicts(const struct follower *follower, const pid_t *killed, int count)
{
	int outsiders = 0, passers_by = 0;
	for (size_t i = 0; i < follower->count; i++) {
		const struct seen_event *seen = &follower->events[i];
		if (seen->event.kind != TFC_EVENT_TASK || seen->event.task_state != TFC_TASK_FAILED)
			continue;
		bool is_ours = false;
		for (int k = 0; k < count; k++)
			is_ours |= seen->event.pid == killed[k];
		if (is_ours && seen->event.reason == TFC_END_SIGNAL)
			continue;
		if (seen->event.reason == TFC_END_FOREIGN_LISTENER)
			outsiders++;
		else if (strstr(seen->text, "could not bind port"))
			passers_by++;
		else
			fail_msg("%s: %s", seen->task, seen->text);
	}
	printf("%d kills, %d strangers, %d passers-by\n", count, outsiders, passers_by);
}

static void a_job_among_thieves_starts_and_restarts_with_the_right_verdicts(void **state)
{
	const int kills = (int)campaign_length(20);
	struct node_run run;
	struct follower follower = {0};
	struct test_child thieves[THIEVES];
	uint64_t seeds[THIEVES];
	pid_t *killed = calloc((size_t)kills, sizeof(*killed));
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.port_first = FIRST;
	options.port_last = LAST;
	node_run_begin(&run, &options);
	for (int i = 0; i < THIEVES; i++) {
		seeds[i] = campaign_seed("port_thieves") + (uint64_t)i;
		thieves[i] = test_child_start(steal, &seeds[i]);
	}
	char *json = node_json("{'framework':'none','argv':['%s','listen','wait'],'grace_s':0.5,"
			       "'restart':{'scope':'task','backoff_s':[0,0.1],'max':10000},"
			       "'roles':{'worker':{'count':%d,'ready':'listen'}}}",
			       node_task_program(), WORKERS);
	node_start(&run, json, &follower);
	for (int i = 0; i < kills; i++) {
		node_await(&run, are_all_ready, &follower, "all are ready");
		const struct seen_event *ready = find_ready(&follower, "worker/1");
		assert_int_equal(test_count_intruders(port_of(ready)), 0);
		killed[i] = ready->event.pid;
		kill(killed[i], SIGKILL);
		node_await_task(&run, &follower, "worker/1", TFC_TASK_FAILED, ready->event.attempt);
	}
	node_await(&run, are_all_ready, &follower, "all are ready");
	for (int i = 0; i < THIEVES; i++)
		test_child_kill(&thieves[i]);
	assert_verdicts(&follower, killed, kills);
	free(killed);
	assert_true(atomic_load(stolen) > 0);
	node_stop(&run, follower.job, false);
	node_await_end(&run, &follower);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static int share_count(void **state)
{
	stolen = mmap(NULL, sizeof(*stolen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return stolen == MAP_FAILED ? -1 : 0;
}

static int unshare_count(void **state)
{
	return munmap(stolen, sizeof(*stolen));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_among_thieves_starts_and_restarts_with_the_right_verdicts),
	};
	return cmocka_run_group_tests_name("port_thieves", tests, share_count, unshare_count);
}
