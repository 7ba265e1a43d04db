/* node: events that are not stored yet, as while the store has no room, are neither shown nor acted
 * on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "table_store.h"

static void note_drained(void *user)
{
	*(bool *)user = true;
}

static bool is_set(void *user)
{
	return *(bool *)user;
}

#define END_WAITS "cannot store the job's events: the grid is full; they are reported once stored"

static bool is_running(void *user)
{
	return node_find(user, TFC_EVENT_TASK, "driver/0", TFC_TASK_READY, 0);
}

/* Events that wait are in no subscription; the job's description says so. */
static void await_events_that_wait(struct node_run *run, const char *id)
{
	uint64_t until = tfc__now() + 20 * TFC__SECOND;
	for (bool waits = false; !waits;) {
		char *job = node_describe(run, id);
		waits = strstr(job, END_WAITS) != NULL;
		free(job);
		assert_true(tfc__now() < until);
	}
}

/* A job whose task has ended while nothing could be stored; its id. */
static char *run_to_unstored_end(struct node_run *run, struct table *table,
				 struct follower *follower)
{
	char gate[4200];
	table_node_begin(run, table);
	snprintf(gate, sizeof(gate), "%s/gate", run->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	char *json = node_json("{'framework': 'none', 'roles': {'driver': {'argv': ['/bin/sh', "
			       "'-c', 'read line <%s']}}}",
			       gate);
	char *id = node_submit(run, json);
	node_follow(run, id, NULL, follower);
	node_await(run, is_running, follower, "a task that runs");
	table->failure = TFC_ENOSPC;
	int fd = open(gate, O_RDWR | O_CLOEXEC);
	assert_int_equal(write(fd, "\n", 1), 1);
	await_events_that_wait(run, id);
	assert_null(node_find(follower, TFC_EVENT_TASK, "driver/0", TFC_TASK_EXITED, 0));
	assert_false(follower->is_ended);
	close(fd);
	unlink(gate);
	free(json);
	return id;
}

static void end(struct node_run *run, struct follower *follower, char *id, struct table *table)
{
	node_follow_end(follower);
	node_run_end(run);
	free(id);
	table_free(table);
}

static bool has_refused(void *user)
{
	return ((struct table *)user)->refusals > 1;
}

/* Else a later term, which does not know of it, would use its number again. */
static void a_task_is_launched_once_that_is_stored(void **state)
{
	struct table table = {.puts = 2}; /* of the submit: the first segment, the record */
	struct node_run run;
	struct follower follower = {0};
	char ran[4200];
	table_node_begin(&run, &table);
	snprintf(ran, sizeof(ran), "%s/ran", run.dir);
	char *json = node_json("{'framework': 'none', 'roles': {'driver': {'argv': ['/bin/sh', "
			       "'-c', 'echo >%s']}}}",
			       ran);
	char *id = node_submit(&run, json);
	node_await(&run, has_refused, &table, "a second try");
	assert_int_equal(access(ran, F_OK), -1);
	table.failure = 0;
	node_follow(&run, id, NULL, &follower);
	assert_int_equal(node_await_end(&run, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	assert_int_equal(unlink(ran), 0);
	free(json);
	end(&run, &follower, id, &table);
}

static void events_are_shown_once_they_are_stored(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0}, after = {0};
	char *id = run_to_unstored_end(&run, &table, &follower);
	node_stop(&run, id, false); /* it has not ended, as far as anybody knows */
	table.failure = 0;
	assert_int_equal(node_await_end(&run, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	node_follow_end(&follower);
	node_run_end(&run);
	table_node_begin(&run, &table);
	node_follow(&run, id, NULL, &after);
	assert_int_equal(node_await_end(&run, &after)->event.epoch, 1);
	end(&run, &after, id, &table);
}

/* Nobody saw the end: the job may run again. */
static void an_end_that_was_never_stored_was_never_shown(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0}, after = {0};
	char *id = run_to_unstored_end(&run, &table, &follower);
	tfc_node_close(run.node);
	run.node = NULL;
	assert_true(tfc_ctx_run(run.ctx, 0) >= 0);
	assert_false(follower.is_ended);
	node_follow_end(&follower);
	node_run_end(&run);
	table.failure = 0;
	table_node_begin(&run, &table);
	node_follow(&run, id, NULL, &after);
	assert_int_equal(node_await_end(&run, &after)->event.epoch, 2);
	end(&run, &after, id, &table);
}

/* That makes room, and a job that is not there never runs. */
static void a_job_whose_end_waits_can_be_forgotten(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	struct answer reply = {0};
	char *id = run_to_unstored_end(&run, &table, &follower);
	assert_int_equal(tfc_gateway_forget(run.gateway, id, NULL, node_answer, &reply, NULL), 0);
	node_await_answer(&run, &reply);
	assert_int_equal(reply.code, TFC_OK);
	assert_false(follower.is_ended);
	assert_int_equal(table.count, 0);
	node_answer_clear(&reply);
	end(&run, &follower, id, &table);
}

static void a_node_leaves_although_an_end_waits(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	bool is_drained = false;
	char *id = run_to_unstored_end(&run, &table, &follower);
	assert_int_equal(tfc_node_leave(run.node, note_drained, &is_drained), TFC_OK);
	node_await(&run, is_set, &is_drained, "an end of the leave");
	assert_false(follower.is_ended);
	end(&run, &follower, id, &table);
}

/* ---- shutdown */

struct shutdown {
	const struct table *table;
	int count;
	int failure_then; /* of the table, when it was reported */
};

static void note_shut_down(void *user)
{
	struct shutdown *shutdown = user;
	shutdown->count++;
	shutdown->failure_then = shutdown->table->failure;
}

static bool has_shut_down(void *user)
{
	return ((struct shutdown *)user)->count > 0;
}

static void check_next_epoch(struct table *table, const char *id, uint64_t epoch, uint32_t state)
{
	struct node_run run;
	struct follower after = {0};
	table->failure = 0;
	table_node_begin(&run, table);
	node_follow(&run, id, NULL, &after);
	const struct seen_event *over = node_await_end(&run, &after);
	assert_int_equal(over->event.epoch, epoch);
	assert_int_equal(over->event.job_state, state);
	node_follow_end(&after);
	node_run_end(&run);
}

static void a_shutdown_waits_for_an_end_that_can_be_stored(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	struct shutdown shutdown = {&table};
	char *id = run_to_unstored_end(&run, &table, &follower);
	assert_int_equal(tfc_node_shutdown(run.node, note_shut_down, &shutdown), TFC_OK);
	uint32_t refusals = table.refusals;
	while (table.refusals == refusals) /* it has retried once */
		assert_true(tfc_ctx_run(run.ctx, -1) >= 0);
	assert_int_equal(shutdown.count, 0);
	table.failure = 0;
	node_await(&run, has_shut_down, &shutdown, "the shutdown");
	assert_int_equal(shutdown.failure_then, 0);
	assert_int_equal(node_await_end(&run, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	assert_null(strstr(run.log, "cannot store how"));
	node_follow_end(&follower);
	node_run_end(&run);
	check_next_epoch(&table, id, 1, TFC_JOB_SUCCEEDED);
	assert_int_equal(shutdown.count, 1);
	free(id);
	table_free(&table);
}

/* The host may end. The job is not lost: it runs again. */
static void shutdown_without_the_end(int failure)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	struct shutdown shutdown = {&table};
	char *id = run_to_unstored_end(&run, &table, &follower);
	table.failure = failure;
	uint64_t begin = tfc__now();
	assert_int_equal(tfc_node_shutdown(run.node, note_shut_down, &shutdown), TFC_OK);
	node_await(&run, has_shut_down, &shutdown, "the shutdown");
	assert_in_range(tfc__now() - begin, 4 * TFC__SECOND, 20 * TFC__SECOND);
	assert_false(follower.is_ended);
	const char *line = strstr(run.log, "cannot store how 1 of the node's jobs ended");
	assert_non_null(line);
	assert_null(strstr(line + 1, "cannot store how 1 of the node's jobs ended"));
	node_run_close(&run);
	line = strstr(run.log, "the node closes, but the job's last events are not stored");
	assert_non_null(line);
	node_follow_end(&follower);
	node_run_end(&run);
	assert_int_equal(shutdown.count, 1);
	check_next_epoch(&table, id, 2, TFC_JOB_FAILED); /* it ran again: its gate is gone */
	free(id);
	table_free(&table);
}

static void a_shutdown_ends_although_the_disk_stays_full(void **state)
{
	shutdown_without_the_end(TFC_ENOSPC);
}

static void a_shutdown_ends_although_the_disk_fails(void **state)
{
	shutdown_without_the_end(TFC_ESYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_is_launched_once_that_is_stored),
		cmocka_unit_test(events_are_shown_once_they_are_stored),
		cmocka_unit_test(an_end_that_was_never_stored_was_never_shown),
		cmocka_unit_test(a_job_whose_end_waits_can_be_forgotten),
		cmocka_unit_test(a_node_leaves_although_an_end_waits),
		cmocka_unit_test(a_shutdown_waits_for_an_end_that_can_be_stored),
		cmocka_unit_test(a_shutdown_ends_although_the_disk_stays_full),
		cmocka_unit_test(a_shutdown_ends_although_the_disk_fails),
	};
	return cmocka_run_group_tests_name("node_unstored", tests, NULL, NULL);
}
