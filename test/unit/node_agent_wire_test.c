/* node: orders and events of agents come as they were sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "golden.h"
#include "node/agent_wire.h"

#define TASKS 3

static void parse(struct tfc__buf *buf, struct tfc__msg *msg)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_false(buf->is_failed);
	if (tfc__msg_parse(msg, buf->data, buf->len, NULL, &error) < 0)
		fail_msg("%s", error.text);
}

static void an_order_comes_as_it_was_sent(void **state)
{
	static const char *const env[] = {"A=1", "B=", NULL};
	tfc_spec *spec;
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	struct tfc__order order;
	assert_int_equal(tfc_spec_new(&spec), TFC_OK);
	assert_int_equal(tfc_spec_add(spec, "worker", 0, "a:1", NULL), TFC_OK);
	assert_int_equal(tfc_spec_add(spec, "ps", 0, "b:2", NULL), TFC_OK);
	for (uint32_t kind = TFC__ORDER_END; kind <= TFC__ORDER_ENV; kind++) {
		const struct tfc__order sent = {
			.kind = (enum tfc__order_kind)kind,
			.task = 2,
			.number = 70000,
			.attempt = 4,
			.generation = 5,
			.spec = kind == TFC__ORDER_SPEC ? spec : NULL,
			.env = kind == TFC__ORDER_ENV ? env : NULL,
		};
		tfc__order_write(&buf, &sent);
		parse(&buf, &msg);
		struct tfc__reader reader = {.ahead_ns = 0};
		assert_int_equal(tfc__order_read(&reader, &msg.root, NULL, &order), TFC_OK);
		assert_int_equal(order.kind, kind);
		assert_int_equal(order.task, 2);
		assert_int_equal(order.number, 70000);
		assert_int_equal(order.attempt, 4);
		assert_int_equal(order.generation, 5);
		assert_int_equal(!order.spec, kind != TFC__ORDER_SPEC);
		if (order.spec) {
			assert_int_equal(tfc_spec_count(order.spec, "worker"), 1);
			assert_int_equal(tfc_spec_count(order.spec, NULL), 2);
		}
		assert_int_equal(!order.env, kind != TFC__ORDER_ENV);
		if (order.env) {
			assert_string_equal(order.env[0], "A=1");
			assert_string_equal(order.env[1], "B=");
			assert_null(order.env[2]);
		}
		tfc_spec_free(order.spec);
		tfc__reader_fini(&reader);
		tfc__msg_fini(&msg);
		tfc__buf_fini(&buf);
	}
	tfc_spec_free(spec);
}

static const uint8_t states[TASKS] = {TFC__AGENT_NONE, TFC__AGENT_RUNNING, TFC__AGENT_STOPPED};
static const struct tfc__agent_looked looked[] = {{1, "loading"}, {2, ""}};

/* What each field has in some event. */
static const struct tfc__agent_event events[] = {
	{.kind = TFC__AGENT_HELD, .task = 1, .query = 9, .address = "127.0.0.1:20000"},
	{.kind = TFC__AGENT_HELD, .task = 2, .query = 9, .address = ""},
	{.kind = TFC__AGENT_HOLD_FAILED,
	 .missing = 3,
	 .ports = 4,
	 .query = 70000,
	 .is_full = true,
	 .is_lasting = true,
	 .text = "there is no port"},
	{.kind = TFC__AGENT_READY, .task = 1, .attempt = 2},
	{.kind = TFC__AGENT_REFUSED, .attempt = 2, .text = "no"},
	{.kind = TFC__AGENT_STALLED, .attempt = 2, .silent_ms = 5000, .text = "it waits"},
	{.kind = TFC__AGENT_STACKED,
	 .silent_ms = 1,
	 .activity = TFC__ACTIVITY_WAITING,
	 .text = "written"},
	{.kind = TFC__AGENT_LOOKED, .looked_count = 2, .looked = looked},
	{.kind = TFC__AGENT_ANSWER, .query = 3, .states = states},
};
#define EVENTS (sizeof(events) / sizeof(events[0]))

static void expect_text(const char *text, const char *expected)
{
	assert_string_equal(text ? text : "", expected ? expected : "");
}

static void expect_event(const struct tfc__agent_event *event,
			 const struct tfc__agent_event *expected)
{
	assert_int_equal(event->kind, expected->kind);
	assert_int_equal(event->task, expected->task);
	assert_int_equal(event->attempt, expected->attempt);
	assert_int_equal(event->missing, expected->missing);
	assert_int_equal(event->ports, expected->ports);
	assert_int_equal(event->query, expected->query);
	assert_int_equal(event->is_full, expected->is_full);
	assert_int_equal(event->is_lasting, expected->is_lasting);
	assert_int_equal(event->is_stranger, expected->is_stranger);
	assert_int_equal(event->is_crowded_out, expected->is_crowded_out);
	assert_int_equal(event->had_notice, expected->had_notice);
	assert_int_equal(!event->states, !expected->states);
	if (event->states)
		assert_memory_equal(event->states, expected->states, TASKS);
	assert_int_equal(event->silent_ms, expected->silent_ms);
	assert_int_equal(event->activity, expected->activity);
	assert_int_equal(event->looked_count, expected->looked_count);
	for (uint32_t i = 0; i < event->looked_count; i++) {
		assert_int_equal(event->looked[i].task, expected->looked[i].task);
		assert_string_equal(event->looked[i].text, expected->looked[i].text);
	}
	assert_true(event->log_end == expected->log_end);
	expect_text(event->address, expected->address);
	expect_text(event->text, expected->text);
}

static void an_event_comes_as_it_was_sent(void **state)
{
	for (size_t i = 0; i < EVENTS; i++) {
		struct tfc__buf buf = {0};
		struct tfc__msg msg;
		struct tfc__reader reader = {.ahead_ns = 0};
		struct tfc__event event;
		tfc__event_write(&buf, &events[i], TASKS, NULL);
		parse(&buf, &msg);
		assert_int_equal(tfc__event_read(&reader, &msg.root, TASKS, NULL, &event), TFC_OK);
		expect_event(&event.event, &events[i]);
		assert_null(event.event.process);
		assert_null(event.log_tail);
		tfc__reader_fini(&reader);
		tfc__msg_fini(&msg);
		tfc__buf_fini(&buf);
	}
}

/* The reader's clock is two seconds ahead, both of the time of day and since it was started. */
static void an_end_comes_with_its_process_on_the_reader_s_clock(void **state)
{
	static char *const tail[] = {(char *)"one", (char *)"t\xe9o", NULL};
	const tfc_process_event process = {
		.size = sizeof(process),
		.kind = TFC_PROCESS_EXITED,
		.pid = 70000,
		.reason = TFC_EXIT_SIGNAL,
		.status = -9,
		.is_oom = 1,
		.time_ns = tfc__wall() - TFC__SECOND,
		.user_us = 300,
		.system_us = 70000,
		.max_rss_kib = 5000000000u,
		.log_end = 7,
		.log_dropped = 8,
		.log_gap = 6,
		.isolation = TFC_ISOLATION_PIDNS,
		.text = "killed for memory",
	};
	const struct tfc__agent_event sent = {.kind = TFC__AGENT_EXITED,
					      .task = 2,
					      .attempt = 3,
					      .is_stranger = true,
					      .is_crowded_out = true,
					      .had_notice = true,
					      .log_end = UINT64_MAX,
					      .process = &process};
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	struct tfc__reader reader = {.ahead_ns = 2 * TFC__SECOND};
	struct tfc__event event;
	tfc__event_write(&buf, &sent, TASKS, tail);
	parse(&buf, &msg);
	assert_int_equal(tfc__event_read(&reader, &msg.root, TASKS, NULL, &event), TFC_OK);
	expect_event(&event.event, &sent);
	const tfc_process_event *got = event.event.process;
	assert_int_equal(got->size, sizeof(*got));
	assert_int_equal(got->kind, TFC_PROCESS_EXITED);
	assert_int_equal(got->pid, 70000);
	assert_int_equal(got->reason, TFC_EXIT_SIGNAL);
	assert_int_equal(got->status, -9);
	assert_int_equal(got->is_oom, 1);
	assert_true(got->user_us == 300 && got->system_us == 70000);
	assert_true(got->max_rss_kib == 5000000000u);
	assert_true(got->log_end == 7 && got->log_dropped == 8 && got->log_gap == 6);
	assert_int_equal(got->isolation, TFC_ISOLATION_PIDNS);
	assert_string_equal(got->text, "killed for memory");
	/* the writer says "one second ago", on a clock that is two seconds behind */
	assert_in_range(got->time_ns, process.time_ns, process.time_ns + 3 * TFC__SECOND);
	assert_string_equal(event.log_tail[1], "t\xe9o");
	assert_null(event.log_tail[2]);
	tfc__reader_fini(&reader);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
}

static void expect_refusal(const char *hex, const char *text)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__msg msg;
	struct tfc__event event;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf buf = golden_parse(hex, &msg);
	assert_int_equal(tfc__event_read(&reader, &msg.root, TASKS, &error, &event), TFC_EPARSE);
	assert_string_equal(error.text, text);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
	tfc__reader_fini(&reader);
}

static void what_the_job_does_not_have_is_refused(void **state)
{
	expect_refusal("81a47461736b03", "task: the job has only 3");
	expect_refusal("81a66c6f6f6b65649181a47461736b03", "task: the job has only 3");
	expect_refusal("81a6737461746573c4020000", "states: must have 3 bytes");
	expect_refusal("81a56576656e740a", "states: must have 3 bytes");
	expect_refusal("81a56576656e7405", "process: is missing");
	expect_refusal("81a770726f6365737381a3706964c3",
		       "process.pid: must be a whole number of 32 bits");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_order_comes_as_it_was_sent),
		cmocka_unit_test(an_event_comes_as_it_was_sent),
		cmocka_unit_test(an_end_comes_with_its_process_on_the_reader_s_clock),
		cmocka_unit_test(what_the_job_does_not_have_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
