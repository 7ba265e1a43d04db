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
	static const char *const hosts[] = {"reader=c:3,d:4", NULL};
	tfc_spec *spec;
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	struct tfc__task_order order;
	assert_int_equal(tfc_spec_new(&spec), TFC_OK);
	assert_int_equal(tfc_spec_add(spec, "worker", 0, "a:1", NULL), TFC_OK);
	assert_int_equal(tfc_spec_add(spec, "ps", 0, "b:2", NULL), TFC_OK);
	for (uint32_t kind = TFC__ORDER_END; kind <= TFC__ORDER_ENV; kind++) {
		const struct tfc__task_order sent = {
			.kind = (enum tfc__order_kind)kind,
			.task = 2,
			.number = 70000,
			.attempt = 4,
			.generation = 5,
			.spec = kind == TFC__ORDER_SPEC ? spec : NULL,
			.hosts = kind == TFC__ORDER_SPEC ? hosts : NULL,
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
			assert_string_equal(order.hosts[0], hosts[0]);
			assert_null(order.hosts[1]);
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

static const uint8_t states[TASKS] = {TFC__PROC_NONE, TFC__PROC_RUNNING, TFC__PROC_STOPPED};
static const struct tfc__inspected inspected[] = {{1, "loading"}, {2, ""}};

/* What each field has in some event. */
static const struct tfc__task_event events[] = {
	{.kind = TFC__AGENT_HELD, .task = 1, .number = 9, .address = "127.0.0.1:20000"},
	{.kind = TFC__AGENT_HELD, .task = 2, .number = 9, .address = ""},
	{.kind = TFC__AGENT_HOLD_FAILED,
	 .missing = 3,
	 .ports = 4,
	 .number = 70000,
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
	{.kind = TFC__AGENT_INSPECTED, .inspected_count = 2, .inspected = inspected},
	{.kind = TFC__AGENT_STATES, .number = 3, .states = states, .state_count = TASKS},
	{.kind = TFC__AGENT_NOTICE, .task = 1, .attempt = 2, .text = "continued after 7 s"},
};
#define EVENTS (sizeof(events) / sizeof(events[0]))

static void expect_text(const char *text, const char *expected)
{
	assert_string_equal(text ? text : "", expected ? expected : "");
}

static void expect_event(const struct tfc__task_event *event,
			 const struct tfc__task_event *expected)
{
	assert_int_equal(event->kind, expected->kind);
	assert_int_equal(event->task, expected->task);
	assert_int_equal(event->attempt, expected->attempt);
	assert_int_equal(event->missing, expected->missing);
	assert_int_equal(event->ports, expected->ports);
	assert_int_equal(event->number, expected->number);
	assert_int_equal(event->is_full, expected->is_full);
	assert_int_equal(event->is_lasting, expected->is_lasting);
	assert_int_equal(event->end.is_port_occupied, expected->end.is_port_occupied);
	assert_int_equal(event->end.is_bind_failed, expected->end.is_bind_failed);
	assert_int_equal(event->end.had_notice, expected->end.had_notice);
	assert_int_equal(!event->states, !expected->states);
	if (event->states)
		assert_memory_equal(event->states, expected->states, TASKS);
	assert_int_equal(event->silent_ms, expected->silent_ms);
	assert_int_equal(event->activity, expected->activity);
	assert_int_equal(event->inspected_count, expected->inspected_count);
	for (uint32_t i = 0; i < event->inspected_count; i++) {
		assert_int_equal(event->inspected[i].task, expected->inspected[i].task);
		assert_string_equal(event->inspected[i].text, expected->inspected[i].text);
	}
	assert_true(event->end.log_end == expected->end.log_end);
	expect_text(event->address, expected->address);
	expect_text(event->text, expected->text);
}

static void an_event_comes_as_it_was_sent(void **state)
{
	for (size_t i = 0; i < EVENTS; i++) {
		struct tfc__buf buf = {0};
		struct tfc__msg msg;
		struct tfc__reader reader = {.ahead_ns = 0};
		struct tfc__task_event event;
		tfc__event_write(&buf, &events[i]);
		parse(&buf, &msg);
		assert_int_equal(tfc__event_read(&reader, &msg.root, TASKS, NULL, &event), TFC_OK);
		expect_event(&event, &events[i]);
		assert_int_equal(event.process, 0);
		assert_null(event.log_tail);
		tfc__reader_fini(&reader);
		tfc__msg_fini(&msg);
		tfc__buf_fini(&buf);
	}
}

/* The reader's clock is two seconds ahead, both of the time of day and since it was started. */
static void an_end_comes_with_its_process_on_the_reader_s_clock(void **state)
{
	static const char *const tail[] = {"one", "t\xe9o", NULL};
	const struct tfc__task_event sent = {
		.kind = TFC__AGENT_EXITED,
		.task = 2,
		.attempt = 3,
		.process = TFC_PROCESS_EXITED,
		.pid = 70000,
		.isolation = TFC_ISOLATION_PIDNS,
		.memory_limit = 5000000002u,
		.end = {.reason = TFC_EXIT_SIGNAL,
			.status = -9,
			.is_oom = true,
			.is_port_occupied = true,
			.is_bind_failed = true,
			.had_notice = true,
			.time_ns = tfc__wall() - TFC__SECOND,
			.user_us = 300,
			.system_us = 70000,
			.max_rss_kib = 5000000000u,
			.log_end = UINT64_MAX,
			.log_gap = 6,
			.memory_limit = 5000000001u},
		.text = "killed for memory",
		.log_tail = tail,
		.error_line = "KeyError: 'lr'",
	};
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	struct tfc__reader reader = {.ahead_ns = 2 * TFC__SECOND};
	struct tfc__task_event event;
	tfc__event_write(&buf, &sent);
	parse(&buf, &msg);
	assert_int_equal(tfc__event_read(&reader, &msg.root, TASKS, NULL, &event), TFC_OK);
	expect_event(&event, &sent);
	assert_int_equal(event.process, TFC_PROCESS_EXITED);
	assert_int_equal(event.pid, 70000);
	assert_int_equal(event.isolation, TFC_ISOLATION_PIDNS);
	assert_true(event.memory_limit == 5000000002u);
	assert_int_equal(event.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(event.end.status, -9);
	assert_true(event.end.is_oom);
	assert_true(event.end.user_us == 300 && event.end.system_us == 70000);
	assert_true(event.end.max_rss_kib == 5000000000u && event.end.log_gap == 6);
	assert_true(event.end.memory_limit == 5000000001u);
	/* the writer says "one second ago", on a clock that is two seconds behind */
	assert_in_range(event.end.time_ns, sent.end.time_ns, sent.end.time_ns + 3 * TFC__SECOND);
	assert_string_equal(event.log_tail[1], "t\xe9o");
	assert_null(event.log_tail[2]);
	assert_string_equal(event.error_line, "KeyError: 'lr'");
	tfc__reader_fini(&reader);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
}

/* What the maintainer's node sends to an agent's: one order of each kind. */
static void orders_are_written_as_they_ever_were(void **state)
{
	static const char *const env[] = {"A=1", NULL};
	tfc_spec *spec;
	struct tfc__buf buf = {0};
	assert_int_equal(tfc_spec_new(&spec), TFC_OK);
	assert_int_equal(tfc_spec_add(spec, "worker", 0, "a:1", NULL), TFC_OK);
	const struct tfc__task_order orders[] = {
		{.kind = TFC__ORDER_END},
		{.kind = TFC__ORDER_HOLD, .task = 1, .number = 2},
		{.kind = TFC__ORDER_RELEASE, .task = 1},
		{.kind = TFC__ORDER_SPEC, .generation = 3, .spec = spec},
		{.kind = TFC__ORDER_ENV, .task = 1, .env = env},
		{.kind = TFC__ORDER_LAUNCH, .task = 1, .attempt = 2, .generation = 3},
		{.kind = TFC__ORDER_SIGNAL, .task = 1, .number = 2},
		{.kind = TFC__ORDER_STOP, .task = 1, .number = 70000},
		{.kind = TFC__ORDER_QUERY, .number = 4},
		{.kind = TFC__ORDER_STACKS, .task = 1, .number = 1},
		{.kind = TFC__ORDER_INSPECT, .number = 5},
	};
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		tfc__order_write(&buf, &orders[i]);
	golden_expect(&buf, "81a56f726465720183a56f7264657202a47461736b01a66e756d6265720282a5"
			    "6f7264657203a47461736b0183a56f7264657204aa67656e65726174696f6e03"
			    "a4737065639193a6776f726b657200a3613a3183a56f726465720ba47461736b"
			    "01a3656e7691a3413d3184a56f7264657205a47461736b01a7617474656d7074"
			    "02aa67656e65726174696f6e0383a56f7264657206a47461736b01a66e756d62"
			    "65720283a56f7264657207a47461736b01a66e756d626572ce0001117082a56f"
			    "7264657208a66e756d6265720483a56f7264657209a47461736b01a66e756d62"
			    "65720182a56f726465720aa66e756d62657205");
	tfc_spec_free(spec);
}

/* What it gets in return; the time of an end depends on the clock. */
static void events_are_written_as_they_ever_were(void **state)
{
	static const char *const tail[] = {"one", NULL};
	const struct tfc__task_event started = {.kind = TFC__AGENT_STARTED,
						.task = 1,
						.attempt = 2,
						.process = TFC_PROCESS_STARTED,
						.pid = 70000,
						.isolation = TFC_ISOLATION_CGROUP};
	const struct tfc__task_event ended = {.kind = TFC__AGENT_EXITED,
					      .task = 2,
					      .attempt = 3,
					      .process = TFC_PROCESS_EXITED,
					      .pid = 70000,
					      .isolation = TFC_ISOLATION_CGROUP,
					      .end = {.reason = TFC_EXIT_SIGNAL,
						      .status = 9,
						      .is_oom = true,
						      .is_port_occupied = true,
						      .is_bind_failed = true,
						      .had_notice = true,
						      .user_us = 300,
						      .system_us = 70000,
						      .max_rss_kib = 5000000000u,
						      .log_end = 7,
						      .log_gap = 6},
					      .text = "killed for memory",
					      .log_tail = tail};
	struct tfc__buf buf = {0};
	for (size_t i = 0; i < EVENTS; i++)
		tfc__event_write(&buf, &events[i]);
	golden_expect(&buf, "84a56576656e7401a47461736b01a66e756d62657209a761646472657373af31"
			    "32372e302e302e313a323030303083a56576656e7401a47461736b02a66e756d"
			    "6265720987a56576656e7402a76d697373696e6703a66e756d626572ce000111"
			    "70a5706f72747304a466756c6cc3a76c617374696e67c3a474657874b0746865"
			    "7265206973206e6f20706f727483a56576656e7404a47461736b01a761747465"
			    "6d70740283a56576656e7406a7617474656d707402a474657874a26e6f84a565"
			    "76656e7407a7617474656d707402a973696c656e745f6d73cd1388a474657874"
			    "a8697420776169747384a56576656e7408a973696c656e745f6d7301a8616374"
			    "697669747903a474657874a77772697474656e82a56576656e7409a66c6f6f6b"
			    "65649282a47461736b01a474657874a76c6f6164696e6781a47461736b0283a5"
			    "6576656e740aa66e756d62657203a6737461746573c40300010284a56576656e"
			    "740fa47461736b01a7617474656d707402a474657874b3636f6e74696e756564"
			    "20616674657220372073");
	tfc__event_write(&buf, &started);
	tfc__event_write(&buf, &ended);
	golden_expect(&buf, "84a56576656e7403a47461736b01a7617474656d707402a770726f6365737383"
			    "a46b696e6401a3706964ce00011170a969736f6c6174696f6e028aa56576656e"
			    "7405a47461736b02a7617474656d707403a8737472616e676572c3a763726f77"
			    "646564c3a66e6f74696365c3a76c6f675f656e6407a474657874b16b696c6c65"
			    "6420666f72206d656d6f7279a770726f636573738aa46b696e6402a3706964ce"
			    "00011170a6726561736f6e02a673746174757309a36f6f6dc3a7757365725f75"
			    "73cd012ca973797374656d5f7573ce00011170a77273735f6b6962cf00000001"
			    "2a05f200a76c6f675f67617006a969736f6c6174696f6e02a86c6f675f746169"
			    "6c91a36f6e65");
}

/* The reader's clock is two seconds ahead. */
static void a_zygote_comes_as_it_was_sent(void **state)
{
	static const char *const modules[] = {"tensorflow", "sklearn", NULL};
	const tfc_zygote zygote = {.state = TFC_ZYGOTE_FAILED,
				   .interpreter = "/usr/bin/python3",
				   .modules = modules,
				   .text = "cannot import sklearn",
				   .pid = 70000,
				   .attempts = 3,
				   .started_ns = tfc__wall() - TFC__SECOND,
				   .rss_bytes = 5000000001u,
				   .anonymous_bytes = 5000000000u};
	for (int is_gone = 0; is_gone < 2; is_gone++) {
		const struct tfc__task_event sent = {.kind = TFC__AGENT_ZYGOTE,
						     .task = 1,
						     .number = 9,
						     .zygote = is_gone ? NULL : &zygote};
		struct tfc__buf buf = {0};
		struct tfc__msg msg;
		struct tfc__reader reader = {.ahead_ns = 2 * TFC__SECOND};
		struct tfc__task_event event;
		tfc__event_write(&buf, &sent);
		parse(&buf, &msg);
		assert_int_equal(tfc__event_read(&reader, &msg.root, TASKS, NULL, &event), TFC_OK);
		expect_event(&event, &sent);
		assert_int_equal(!event.zygote, is_gone);
		if (event.zygote) {
			assert_int_equal(event.zygote->state, TFC_ZYGOTE_FAILED);
			assert_string_equal(event.zygote->interpreter, "/usr/bin/python3");
			assert_string_equal(event.zygote->modules[1], "sklearn");
			assert_null(event.zygote->modules[2]);
			assert_string_equal(event.zygote->text, "cannot import sklearn");
			assert_int_equal(event.zygote->pid, 70000);
			assert_int_equal(event.zygote->attempts, 3);
			assert_in_range(event.zygote->started_ns, zygote.started_ns,
					zygote.started_ns + 3 * TFC__SECOND);
			assert_true(event.zygote->rss_bytes == 5000000001u);
			assert_true(event.zygote->anonymous_bytes == 5000000000u);
		}
		tfc__reader_fini(&reader);
		tfc__msg_fini(&msg);
		tfc__buf_fini(&buf);
	}
}

/* What a zygote lacks is empty: nobody tests its texts for NULL. */
static void a_zygote_without_fields_has_no_null(void **state)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__msg msg;
	struct tfc__task_event event;
	struct tfc__buf buf = golden_parse("82a56576656e7410a67a79676f746580", &msg);
	assert_int_equal(tfc__event_read(&reader, &msg.root, TASKS, NULL, &event), TFC_OK);
	assert_int_equal(event.kind, TFC__AGENT_ZYGOTE);
	assert_string_equal(event.zygote->interpreter, "");
	assert_string_equal(event.zygote->text, "");
	assert_null(event.zygote->modules[0]);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
	tfc__reader_fini(&reader);
}

static void expect_refusal(const char *hex, const char *text)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__msg msg;
	struct tfc__task_event event;
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
	expect_refusal("81a47461736b03", "task: must be below 3, the number of the job's tasks");
	expect_refusal("81a66c6f6f6b65649181a47461736b03",
		       "task: must be below 3, the number of the job's tasks");
	expect_refusal("81a6737461746573c4020000", "states: must have 3 bytes");
	expect_refusal("81a56576656e740a", "states: must have 3 bytes");
	expect_refusal("81a56576656e7405", "process: is missing");
	expect_refusal("82a56576656e7410a67a79676f746581a3706964c3",
		       "zygote.pid: must be a whole number of 32 bits");
	expect_refusal("82a56576656e7410a67a79676f7465a178", "zygote: must be a map");
	expect_refusal("81a770726f6365737381a3706964c3",
		       "process.pid: must be a whole number of 32 bits");
}

static void expect_order_refusal(const struct tfc__task_order *sent, const char *text)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	struct tfc__task_order order;
	tfc_error error = TFC_ERROR_INIT;
	tfc__order_write(&buf, sent);
	parse(&buf, &msg);
	assert_int_equal(tfc__order_read(&reader, &msg.root, &error, &order), TFC_EPARSE);
	assert_string_equal(error.text, text);
	assert_int_equal(order.kind, sent->kind); /* also then */
	tfc_spec_free(order.spec);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
	tfc__reader_fini(&reader);
}

static void an_order_that_lacks_its_values_is_refused(void **state)
{
	static const char *const env[] = {"A=1", "B", NULL};
	expect_order_refusal(&(struct tfc__task_order){.kind = TFC__ORDER_SPEC, .generation = 1},
			     "spec: is missing");
	expect_order_refusal(&(struct tfc__task_order){.kind = TFC__ORDER_ENV, .env = env},
			     "env: must have a '=' in each line");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_order_comes_as_it_was_sent),
		cmocka_unit_test(an_event_comes_as_it_was_sent),
		cmocka_unit_test(a_zygote_comes_as_it_was_sent),
		cmocka_unit_test(a_zygote_without_fields_has_no_null),
		cmocka_unit_test(an_end_comes_with_its_process_on_the_reader_s_clock),
		cmocka_unit_test(orders_are_written_as_they_ever_were),
		cmocka_unit_test(events_are_written_as_they_ever_were),
		cmocka_unit_test(what_the_job_does_not_have_is_refused),
		cmocka_unit_test(an_order_that_lacks_its_values_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
