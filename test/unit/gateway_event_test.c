/* gateway: an event as JSON, and a job's end as an exit status. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <tfcluster/gateway.h>
#include <tfcluster/log.h>
#include <tfcluster/memory.h>

#define NOON_NS 1769860800000001000u /* 2026-01-31, and a microsecond */

/* What every event has, strings included. */
static tfc_event make_event(enum tfc_event_kind kind)
{
	return (tfc_event){
		.size = sizeof(tfc_event),
		.kind = kind,
		.time_ns = NOON_NS,
		.cursor = "",
		.job = "0123456789abcdef",
		.name = "digits",
		.generation = 2,
		.epoch = 1,
		.task_type = "worker",
		.attempt = 3,
		.node = "",
		.address = "",
		.text = "",
		.data = "",
	};
}

static void assert_json(const tfc_event *event, const char *expected)
{
	static const char head[] = "{\"time\":\"2026-01-31T12:00:00.000001Z\",\"event\":";
	char *json = NULL;
	assert_int_equal(tfc_event_json(event, &json), TFC_OK);
	assert_memory_equal(json, head, sizeof(head) - 1);
	assert_string_equal(json + sizeof(head) - 1, expected);
	tfc_free(json);
}

static void a_job_reports_its_state(void **state)
{
	tfc_event event = make_event(TFC_EVENT_JOB);
	event.job_state = TFC_JOB_RESTARTING;
	event.text = "a \"peer\" died";
	assert_json(&event, "\"job\",\"job\":\"0123456789abcdef\",\"name\":\"digits\","
			    "\"state\":\"restarting\",\"generation\":2,\"epoch\":1,"
			    "\"text\":\"a \\\"peer\\\" died\"}");
}

/* Of a host whose headers end before the last fields: what lies behind is not looked at. */
static void the_copy_of_an_older_host_is_read_as_far_as_it_goes(void **state)
{
	tfc_event event = make_event(TFC_EVENT_TASK);
	event.task_state = TFC_TASK_FAILED;
	event.reason = TFC_END_EXIT;
	event.exit_reason = TFC_EXIT_CODE;
	event.max_rss_kib = 77;
	event.size = offsetof(tfc_event, max_rss_kib);
	char *json = NULL;
	assert_int_equal(tfc_event_json(&event, &json), TFC_OK);
	assert_null(strstr(json, "77"));
	tfc_free(json);
	event.size = sizeof(event);
	assert_int_equal(tfc_event_json(&event, &json), TFC_OK);
	assert_non_null(strstr(json, "\"max_rss_kib\":77"));
	tfc_free(json);
	event.size = 0;
	assert_int_equal(tfc_event_json(&event, &json), TFC_EINVAL);
}

static void a_task_reports_how_it_ended_once_it_has(void **state)
{
	tfc_event event = make_event(TFC_EVENT_TASK);
	event.task_state = TFC_TASK_READY;
	event.pid = 42;
	event.node = "local";
	event.address = "127.0.0.1:20000";
	assert_json(&event, "\"task\",\"task\":\"worker/0\",\"attempt\":3,\"state\":\"ready\","
			    "\"generation\":2,\"node\":\"local\",\"pid\":42,"
			    "\"address\":\"127.0.0.1:20000\"}");
	event.task_state = TFC_TASK_FAILED;
	event.reason = TFC_END_CONSEQUENCE;
	event.exit_reason = TFC_EXIT_SIGNAL;
	event.signal = SIGTERM;
	event.user_us = 5;
	event.isolation = TFC_ISOLATION_PIDNS;
	assert_json(&event, "\"task\",\"task\":\"worker/0\",\"attempt\":3,\"state\":\"failed\","
			    "\"generation\":2,\"node\":\"local\",\"pid\":42,"
			    "\"address\":\"127.0.0.1:20000\",\"isolation\":\"pidns\",\"signal\":15,"
			    "\"reason\":\"consequence\",\"user_us\":5,\"system_us\":0,"
			    "\"max_rss_kib\":0}");
}

static void the_text_of_an_unfinished_line_is_an_event_of_its_own(void **state)
{
	tfc_event event = make_event(TFC_EVENT_PROGRESS);
	event.stream = TFC_STREAM_STDERR;
	event.data = " 50%|#####     | 1/2";
	event.data_len = strlen(event.data);
	event.cursor = "c1";
	assert_json(&event, "\"progress\",\"task\":\"worker/0\",\"attempt\":3,"
			    "\"stream\":\"stderr\",\"text\":\" 50%|#####     | 1/2\","
			    "\"cursor\":\"c1\"}");
}

static void output_keeps_every_byte(void **state)
{
	tfc_event event = make_event(TFC_EVENT_OUTPUT);
	event.stream = TFC_STREAM_STDERR;
	event.data = "a\xff\n";
	event.data_len = 2;
	event.cursor = "c1";
	assert_json(&event, "\"output\",\"task\":\"worker/0\",\"attempt\":3,\"stream\":\"stderr\","
			    "\"text\":\"a\\\\xff\",\"cursor\":\"c1\"}");
	event.is_partial = 1;
	assert_json(&event, "\"output\",\"task\":\"worker/0\",\"attempt\":3,\"stream\":\"stderr\","
			    "\"text\":\"a\\\\xff\",\"partial\":true,\"cursor\":\"c1\"}");
}

static void a_report_has_no_stream(void **state)
{
	tfc_event event = make_event(TFC_EVENT_REPORT);
	event.stream = TFC_STREAM_REPORT;
	event.data = "{\"loss\":1}\r";
	event.data_len = strlen(event.data);
	event.cursor = "c1";
	assert_json(&event, "\"report\",\"task\":\"worker/0\",\"attempt\":3,"
			    "\"text\":\"{\\\"loss\\\":1}\\r\",\"cursor\":\"c1\"}");
	event.is_partial = 1;
	assert_json(&event, "\"report\",\"task\":\"worker/0\",\"attempt\":3,"
			    "\"text\":\"{\\\"loss\\\":1}\\r\",\"partial\":true,\"cursor\":\"c1\"}");
}

static void a_gap_reports_how_much_is_lost(void **state)
{
	tfc_event event = make_event(TFC_EVENT_GAP);
	event.data_len = 9000000000u;
	assert_json(&event, "\"gap\",\"task\":\"worker/0\",\"attempt\":3,\"bytes\":9000000000,"
			    "\"cursor\":\"\"}");
	event.data_len = 0;
	event.text = "it is on node b";
	assert_json(&event, "\"gap\",\"task\":\"worker/0\",\"attempt\":3,\"bytes\":0,"
			    "\"text\":\"it is on node b\",\"cursor\":\"\"}");
}

static void the_end_reports_who_decided_and_its_last_lines(void **state)
{
	static const char *const lines[] = {"one", "t\xe9o", NULL};
	static const char *const ignored[] = {"worker/1 exited with 1", NULL};
	tfc_event event = make_event(TFC_EVENT_END);
	event.job_state = TFC_JOB_FAILED;
	event.reason = TFC_END_EXIT;
	event.exit_code = 4;
	event.log_tail = lines;
	event.ignored_failures = ignored;
	event.text = "worker/0 exited with 4: KeyError: 'lr'";
	event.error_line = "KeyError: 'lr'";
	assert_json(&event,
		    "\"end\",\"job\":\"0123456789abcdef\",\"name\":\"digits\","
		    "\"state\":\"failed\",\"exit\":4,\"decided_by\":\"worker/0\","
		    "\"reason\":\"exit\",\"text\":\"worker/0 exited with 4: KeyError: 'lr'\","
		    "\"log_tail\":[\"one\",\"t\\\\xe9o\"],\"error_line\":\"KeyError: 'lr'\","
		    "\"ignored_failures\":[\"worker/1 exited with 1\"]}");
	event.task_type = "";
	event.log_tail = event.ignored_failures = NULL;
	event.job_state = TFC_JOB_STOPPED;
	event.reason = TFC_END_STOPPED;
	event.signal = SIGINT;
	event.text = event.error_line = "";
	assert_json(&event,
		    "\"end\",\"job\":\"0123456789abcdef\",\"name\":\"digits\","
		    "\"state\":\"stopped\",\"exit\":130,\"decided_by\":null,"
		    "\"reason\":\"stopped\",\"text\":\"\",\"log_tail\":[],\"error_line\":\"\","
		    "\"ignored_failures\":[]}");
}

static void a_subscription_reports_that_it_is_lost_or_live(void **state)
{
	tfc_event event = make_event(TFC_EVENT_LOST);
	event.error_code = TFC_ENOENT;
	event.text = "no such job: x";
	assert_json(&event, "\"lost\",\"job\":\"0123456789abcdef\",\"reason\":\"TFC_ENOENT\","
			    "\"text\":\"no such job: x\"}");
	event = make_event(TFC_EVENT_LIVE);
	assert_json(&event, "\"live\",\"job\":\"0123456789abcdef\"}");
	event = make_event(TFC_EVENT_RECONNECTING);
	event.error_code = TFC_ELOST;
	event.node = "b";
	event.text = "retrying";
	assert_json(&event, "\"reconnecting\",\"job\":\"0123456789abcdef\",\"node\":\"b\","
			    "\"reason\":\"TFC_ELOST\",\"text\":\"retrying\"}");
	event = make_event(TFC_EVENT_RECONNECTED);
	event.text = "following again";
	assert_json(&event, "\"reconnected\",\"job\":\"0123456789abcdef\","
			    "\"text\":\"following again\"}");
}

static void what_is_no_event_is_refused(void **state)
{
	tfc_event event = make_event(TFC_EVENT_REPORT + 1);
	char *json = (char *)"untouched";
	assert_int_equal(tfc_event_json(&event, &json), TFC_EINVAL);
	event.kind = 0;
	assert_int_equal(tfc_event_json(&event, &json), TFC_EINVAL);
	assert_int_equal(tfc_event_json(NULL, &json), TFC_EINVAL);
	assert_string_equal(json, "untouched");
}

static void each_end_has_the_exit_status_that_shells_know(void **state)
{
	static const struct {
		uint32_t state, reason;
		int32_t exit_code, signal;
		int expected;
	} cases[] = {
		{TFC_JOB_SUCCEEDED, TFC_END_EXIT, 3, 0, 0},
		{TFC_JOB_FAILED, TFC_END_EXIT, 255, 0, 255},
		{TFC_JOB_FAILED, TFC_END_SIGNAL, 0, SIGSEGV, 139},
		{TFC_JOB_FAILED, TFC_END_DEADLINE, 0, 0, 124},
		{TFC_JOB_FAILED, TFC_END_LOST, 0, 0, 125},
		{TFC_JOB_FAILED, TFC_END_REFUSED, 0, 0, 125},
		{TFC_JOB_FAILED, TFC_END_FOREIGN_LISTENER, 0, 0, 125},
		{TFC_JOB_FAILED, TFC_END_NOT_EXECUTABLE, 0, 0, 126},
		{TFC_JOB_FAILED, TFC_END_NOT_FOUND, 0, 0, 127},
		{TFC_JOB_STOPPED, TFC_END_STOPPED, 0, 0, 143},
		{TFC_JOB_STOPPED, TFC_END_STOPPED, 0, SIGHUP, 129},
	};
	tfc_event event = make_event(TFC_EVENT_END);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		event.job_state = cases[i].state;
		event.reason = cases[i].reason;
		event.exit_code = cases[i].exit_code;
		event.signal = cases[i].signal;
		assert_int_equal(tfc_event_exit_status(&event), cases[i].expected);
	}
	event.kind = TFC_EVENT_TASK;
	assert_int_equal(tfc_event_exit_status(&event), TFC_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_reports_its_state),
		cmocka_unit_test(the_copy_of_an_older_host_is_read_as_far_as_it_goes),
		cmocka_unit_test(a_task_reports_how_it_ended_once_it_has),
		cmocka_unit_test(the_text_of_an_unfinished_line_is_an_event_of_its_own),
		cmocka_unit_test(output_keeps_every_byte),
		cmocka_unit_test(a_report_has_no_stream),
		cmocka_unit_test(a_gap_reports_how_much_is_lost),
		cmocka_unit_test(the_end_reports_who_decided_and_its_last_lines),
		cmocka_unit_test(a_subscription_reports_that_it_is_lost_or_live),
		cmocka_unit_test(what_is_no_event_is_refused),
		cmocka_unit_test(each_end_has_the_exit_status_that_shells_know),
	};
	return cmocka_run_group_tests_name("gateway_event", tests, NULL, NULL);
}
