/* gateway: what a log has lost is reported as a gap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node_run.h"

static bool has_line(void *user)
{
	return ((struct follower *)user)->output > 0;
}

/* It reads the first line, then so much is written that its place is rotated away. */
static void what_was_rotated_away_is_reported_as_a_gap(void **state)
{
	struct node_run run;
	struct follower slow = {.on_event = NULL}, states = {0};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	node_run_begin(&run, NULL);
	char *json =
		node_json("{'framework':'none','argv':['/bin/sh','-c','echo one; read x < %s/go; "
			  "head -c 150000000 /dev/zero | tr \\\\\\\\000 x; echo last'],"
			  "'roles':{'worker':{}}}",
			  run.dir);
	char *fifo;
	assert_true(asprintf(&fifo, "mkfifo %s/go", run.dir) > 0);
	assert_int_equal(system(fifo), 0);
	node_start(&run, json, &slow);
	node_await(&run, has_line, &slow, "a line");
	tfc_sub_pause(slow.sub);
	options.skip_output = 1;
	node_follow(&run, slow.job, &options, &states);
	fifo[0] = 0;
	sprintf(fifo, "echo>%s/go", run.dir);
	assert_int_equal(system(fifo), 0);
	node_await_end(&run, &states);
	slow.is_output_dropped = true;
	tfc_sub_resume(slow.sub);
	node_await_end(&run, &slow);
	const struct seen_event *gap = node_find(&slow, TFC_EVENT_GAP, "worker/0", 0, 0);
	assert_non_null(gap);
	assert_true(gap->event.data_len > 1000000);
	free(fifo);
	free(json);
	node_follow_end(&slow);
	node_follow_end(&states);
	node_run_end(&run);
}

struct counted {
	uint64_t lines; /* up to here, since the first that there was */
	uint64_t gap;   /* bytes */
};

/* First the gap, then whole lines that are one behind the other. */
static void count_lines(struct follower *follower, const tfc_event *event)
{
	struct counted *counted = follower->user;
	if (event->kind == TFC_EVENT_GAP) {
		assert_int_equal(counted->lines, 0);
		counted->gap += event->data_len;
	}
	if (event->kind != TFC_EVENT_OUTPUT)
		return;
	assert_true(counted->gap > 0);
	assert_int_equal(event->data_len, 200);
	uint64_t number = strtoull(event->data + 180, NULL, 10);
	if (counted->lines)
		assert_int_equal(number, counted->lines + 1);
	counted->lines = number;
}

/* 160 MB of numbers, 200 digits each, written in blocks that end within lines. */
static void a_replay_of_a_rotated_log_begins_with_a_gap_and_a_whole_line(void **state)
{
	struct node_run run;
	struct counted counted = {0};
	struct follower states = {0};
	struct follower late = {.on_event = count_lines,
				.user = &counted,
				.is_output_dropped = true};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.skip_output = 1;
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['seq','-f','%%0200.0f','800000'],"
			       "'roles':{'worker':{}}}");
	char *id = node_submit(&run, json);
	node_follow(&run, id, &options, &states);
	node_await_end(&run, &states);
	node_follow(&run, id, NULL, &late);
	node_await_end(&run, &late);
	assert_int_equal(counted.lines, 800000);
	free(id);
	free(json);
	node_follow_end(&late);
	node_follow_end(&states);
	node_run_end(&run);
}

static void assert_gap(const struct follower *follower)
{
	const struct seen_event *gap = node_find(follower, TFC_EVENT_GAP, "worker/0", 0, 0);
	assert_non_null(gap);
	assert_true(gap->event.data_len > 0);
	assert_int_equal(node_find(follower, TFC_EVENT_END, NULL, 0, 0)->event.job_state,
			 TFC_JOB_SUCCEEDED);
}

/* Somebody cuts the file, or writes over it, while its task waits to say more. Who has read so far
 * loses what comes behind, or nothing. */
static void check_spoilt_log(const char *spoil, bool is_behind_lost)
{
	struct node_run run;
	struct follower live = {0}, late = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['/bin/sh','-c','echo one; mkfifo %s/go;"
			       "read x < %s/go; echo two; echo three'],'roles':{'worker':{}}}",
			       run.dir, run.dir);
	char *command;
	assert_true(asprintf(&command,
			     "cd %s && until test -p go; do :; done && "
			     "f=$(find . -name 'worker-0.*') && %s && echo > go",
			     run.dir, spoil) > 0);
	node_start(&run, json, &live);
	node_await(&run, has_line, &live, "a line");
	assert_int_equal(system(command), 0);
	node_await_end(&run, &live);
	node_follow(&run, live.job, NULL, &late);
	node_await_end(&run, &late);
	if (is_behind_lost)
		assert_gap(&live);
	assert_gap(&late);
	free(command);
	free(json);
	node_follow_end(&live);
	node_follow_end(&late);
	node_run_end(&run);
}

static void what_a_cut_log_has_lost_is_reported_as_a_gap(void **state)
{
	check_spoilt_log(": > $f", true);
}

static void what_a_spoilt_log_has_lost_is_reported_as_a_gap(void **state)
{
	check_spoilt_log("tr '\\0-\\377' x < $f > g && cat g > $f", false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_rotated_away_is_reported_as_a_gap),
		cmocka_unit_test(a_replay_of_a_rotated_log_begins_with_a_gap_and_a_whole_line),
		cmocka_unit_test(what_a_cut_log_has_lost_is_reported_as_a_gap),
		cmocka_unit_test(what_a_spoilt_log_has_lost_is_reported_as_a_gap),
	};
	return cmocka_run_group_tests_name("gateway_gap", tests, NULL, NULL);
}
