/* gateway: subscriptions deliver the reports of tasks to those who want them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node_run.h"
#include <tfcluster/log.h>

/* A job with reports of `count` workers that run a line of sh. The caller frees it. */
static char *reporting(uint32_t count, const char *script)
{
	return node_json("{'framework':'none','reports':true,'argv':['/bin/sh','-c','%s'],"
			 "'restart':{'backoff_s':[0,0]},'roles':{'worker':{'count':%u}}}",
			 script, count);
}

/* Submits the job and follows it to its end, with reports. */
static void run_reporting(struct node_run *run, struct follower *follower, uint32_t count,
			  const char *script)
{
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	char *json = reporting(count, script);
	char *id = node_submit(run, json);
	options.wants_reports = 1;
	node_follow(run, id, &options, follower);
	node_await_end(run, follower);
	free(id);
	free(json);
}

static void assert_reports(const struct follower *follower, const char *task, const char *expected)
{
	char *reports = node_reports(follower, task);
	assert_string_equal(reports ? reports : "", expected);
	free(reports);
}

static void assert_output(const struct follower *follower, const char *task, const char *expected)
{
	char *output = node_output(follower, task, 0);
	assert_string_equal(output ? output : "", expected);
	free(output);
}

#define BOTH_STREAMS                                                  \
	"echo $TFC_REPORT_FD; echo a$TFC_ATTEMPT >&4; echo out >&2; " \
	"printf \\\"b \\\\rc\\\\r\\\\n\\\\nunfinished\\\" >&4; "      \
	"[ $TFC_ATTEMPT = 2 ] || kill -9 $$"

static void reports_come_before_the_end_of_their_attempt(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	run_reporting(&run, &follower, 2, BOTH_STREAMS);
	for (uint32_t i = 0; i < 2; i++) {
		char task[16];
		snprintf(task, sizeof(task), "worker/%u", i);
		assert_reports(&follower, task,
			       "a1\nb \rc\r\n\nunfinished\na2\nb \rc\r\n\nunfinished\n");
		uint32_t attempt = 1;
		for (size_t k = 0; k < follower.count; k++) {
			const tfc_event *event = &follower.events[k].event;
			if (strcmp(follower.events[k].task, task) != 0)
				continue;
			if (event->kind == TFC_EVENT_REPORT) {
				assert_int_equal(event->attempt, attempt);
				assert_int_equal(event->stream, TFC_STREAM_REPORT);
				assert_string_equal(follower.events[k].node, "local");
				assert_true(event->time_ns > 0);
			}
			attempt += event->kind == TFC_EVENT_TASK &&
				   event->task_state >= TFC_TASK_EXITED;
		}
		assert_int_equal(attempt, 3);
	}
	node_follow_end(&follower);
	node_run_end(&run);
}

/* Neither among the events nor in the last lines of the job's end. */
static void people_do_not_see_reports(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','reports':true,'restart':{'max':0},"
			       "'argv':['/bin/sh','-c','echo out; echo report >&4; exit 3'],"
			       "'roles':{'worker':{}}}");
	const struct seen_event *end = node_run_job(&run, json, &follower);
	assert_string_equal(end->tail, "out\n");
	assert_output(&follower, "worker/0", "out\n");
	assert_null(node_find(&follower, TFC_EVENT_REPORT, NULL, 0, 0));
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void a_job_without_the_key_has_no_reports(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.wants_reports = 1;
	node_run_begin(&run, NULL);
	char *json = node_script(1, "echo ${TFC_REPORT_FD-none}; echo >&4");
	char *id = node_submit(&run, json);
	node_follow(&run, id, &options, &follower);
	node_await_end(&run, &follower);
	char *output = node_output(&follower, "worker/0", TFC_STREAM_STDOUT);
	assert_memory_equal(output, "none\n", 5);
	assert_null(node_find(&follower, TFC_EVENT_REPORT, NULL, 0, 0));
	free(output);
	free(id);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static bool is_line(const struct seen_event *seen)
{
	return seen->event.kind == TFC_EVENT_OUTPUT || seen->event.kind == TFC_EVENT_REPORT;
}

/* The lines of `rest` are those of `whole` behind event number `after`, or only the output. */
static void assert_continues(const struct follower *whole, size_t after,
			     const struct follower *rest, bool has_reports)
{
	size_t at = 0;
	for (size_t i = after + 1; i < whole->count; i++) {
		const struct seen_event *seen = &whole->events[i];
		if (!is_line(seen) || (seen->event.kind == TFC_EVENT_REPORT && !has_reports))
			continue;
		while (at < rest->count && !is_line(&rest->events[at]))
			at++;
		assert_true(at < rest->count);
		assert_int_equal(rest->events[at].event.kind, seen->event.kind);
		assert_int_equal(rest->events[at].event.is_partial, seen->event.is_partial);
		assert_string_equal(rest->events[at].data, seen->data);
		at++;
	}
	while (at < rest->count)
		assert_false(is_line(&rest->events[at++]));
}

/* Each stream has unfinished lines while the others go on. */
static void a_cursor_continues_behind_every_report(void **state)
{
	struct node_run run;
	struct follower whole = {0};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.wants_reports = 1;
	node_run_begin(&run, NULL);
	run_reporting(&run, &whole, 1,
		      "echo -n a; echo b >&4; echo -n c >&2; echo d >&4; "
		      "echo -n e >&4; echo f; echo >&2; echo g; echo h >&4; "
		      "head -c 70000 /dev/zero | tr \\\\\\\\0 x >&4; echo -n i; "
		      "[ $TFC_ATTEMPT = 2 ] || kill -9 $$");
	size_t reports = 0, outputs = 0;
	for (size_t i = 0; i < whole.count; i++) {
		if (!is_line(&whole.events[i]))
			continue;
		options.cursor = whole.events[i].cursor;
		for (options.wants_reports = 0; options.wants_reports < 2;
		     options.wants_reports++) {
			struct follower rest = {0};
			node_follow(&run, whole.job, &options, &rest);
			node_await_end(&run, &rest);
			assert_continues(&whole, i, &rest, options.wants_reports);
			node_follow_end(&rest);
		}
		reports += whole.events[i].event.kind == TFC_EVENT_REPORT;
		outputs += whole.events[i].event.kind == TFC_EVENT_OUTPUT;
	}
	assert_int_equal(reports, 2 * 5);
	assert_int_equal(outputs, 2 * 4);
	node_follow_end(&whole);
	node_run_end(&run);
}

static void reports_come_without_output(void **state)
{
	struct node_run run;
	struct follower whole = {0}, only = {0}, rest = {0};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.wants_reports = options.skip_output = 1;
	node_run_begin(&run, NULL);
	run_reporting(&run, &whole, 1, "echo out; echo a >&4; echo err >&2; echo b >&4; echo out");
	node_follow(&run, whole.job, &options, &only);
	node_await_end(&run, &only);
	assert_reports(&only, "worker/0", "a\nb\n");
	assert_null(node_find(&only, TFC_EVENT_OUTPUT, NULL, 0, 0));
	options.cursor = node_find(&only, TFC_EVENT_REPORT, NULL, 0, 0)->cursor;
	node_follow(&run, whole.job, &options, &rest);
	node_await_end(&run, &rest);
	assert_reports(&rest, "worker/0", "b\n");
	assert_output(&rest, "worker/0", "");
	node_follow_end(&whole);
	node_follow_end(&only);
	node_follow_end(&rest);
	node_run_end(&run);
}

/* ---- over a connection */

#define LINES 3000

static void every_report_comes_once_however_often_the_connection_breaks(void **state)
{
	struct node_run run;
	struct node_cutter cutter = {.run = &run, .most = 700, .seed = 1};
	struct follower follower = {.on_event = node_cut, .user = &cutter};
	unsigned next[2] = {0};
	node_run_begin_served(&run, NULL);
	run_reporting(&run, &follower, 1,
		      "p=$(printf %0200d 0); i=0; while [ $i -lt 3000 ]; do "
		      "echo $i $p; echo $i $p >&4; i=$((i+1)); done; [ $TFC_ATTEMPT = 2 ] || "
		      "kill -9 $$");
	assert_true(cutter.cuts >= 10);
	for (size_t i = 0; i < follower.count; i++) {
		const struct seen_event *seen = &follower.events[i];
		bool is_report = seen->event.kind == TFC_EVENT_REPORT;
		assert_int_not_equal(seen->event.kind, TFC_EVENT_GAP);
		if (!is_line(seen))
			continue;
		assert_int_equal(strtoul(seen->data, NULL, 10), next[is_report]++ % LINES);
		assert_int_equal(seen->event.attempt, (next[is_report] - 1) / LINES + 1);
	}
	assert_int_equal(next[0], 2 * LINES);
	assert_int_equal(next[1], 2 * LINES);
	node_follow_end(&follower);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_come_before_the_end_of_their_attempt),
		cmocka_unit_test(people_do_not_see_reports),
		cmocka_unit_test(a_job_without_the_key_has_no_reports),
		cmocka_unit_test(a_cursor_continues_behind_every_report),
		cmocka_unit_test(reports_come_without_output),
		cmocka_unit_test(every_report_comes_once_however_often_the_connection_breaks),
	};
	return cmocka_run_group_tests_name("gateway_reports", tests, NULL, NULL);
}
