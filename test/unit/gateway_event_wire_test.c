/* gateway: an event comes to a subscriber as it was sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/event_wire.h"
#include "golden.h"
#include <tfcluster/log.h>
#include <tfcluster/process.h>

static const char *const tail[] = {"one", "t\xe9o", NULL};
static const char *const ignored[] = {"worker/1 exited with 1", NULL};

#define HEAD                                                                      \
	.size = sizeof(tfc_event), .time_ns = 1769860800000001000u, .cursor = "", \
	.job = "0123456789abcdef", .name = "digits", .host_tag = "tag", .host_tag_len = 3

static const struct reported {
	const char *hex;
	tfc_event event;
	struct tfc__mark mark;
} all[] = {
	{
		"89a16b01a27473cf188fcf053de383e8a26a7303a16702a16503a178a3776879a26d6e04a26d"
		"67c3a26d6fce00011170",
		{HEAD, .kind = TFC_EVENT_JOB, .job_state = TFC_JOB_RUNNING, .generation = 2,
		 .epoch = 3, .task_type = "", .node = "", .address = "", .text = "why", .data = ""},
		{.next = 4,
		 .is_gap_reported = true,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .rest = UINT32_MAX,
		 .rest_over = 70000},
	},
	{
		"de0018a16b02a27473cf188fcf053de383e8a27474a6776f726b6572a2746904a16105a26a73"
		"03a17307a16702a16503a16ea161a170ce00011170a26164a3613a31a369736f03a27374f7a1"
		"7202a2787202a178a66b696c6c6564a175cd012ca27379ce00011170a3727373cf000000012a"
		"05f200a26d6e05a26d63a431662b32a26d6504a26d7207",
		{HEAD,
		 .kind = TFC_EVENT_TASK,
		 .job_state = TFC_JOB_RUNNING,
		 .generation = 2,
		 .epoch = 3,
		 .task_type = "worker",
		 .task_index = 4,
		 .attempt = 5,
		 .task_state = TFC_TASK_FAILED,
		 .pid = 70000,
		 .node = "a",
		 .address = "a:1",
		 .reason = TFC_END_SIGNAL,
		 .exit_code = -9,
		 .text = "killed",
		 .data = "",
		 .user_us = 300,
		 .system_us = 70000,
		 .max_rss_kib = 5000000000u,
		 .exit_reason = TFC_EXIT_SIGNAL,
		 .isolation = TFC_ISOLATION_PIDNS},
		{.next = 5,
		 .task = UINT32_MAX,
		 .ended_task = 4,
		 .rest = 7,
		 .rest_over = UINT32_MAX,
		 .piece = {{{0x1f, 2}, {0x1f, 2}}}},
	},
	{
		"8ba16b03a27473cf188fcf053de383e8a27474a6776f726b6572a2746904a16105a16602a164"
		"c40374e96fa27074c3a26d6e05a26d63a23232a26d7404",
		{HEAD, .kind = TFC_EVENT_OUTPUT, .task_type = "worker", .task_index = 4,
		 .attempt = 5, .node = "", .address = "", .text = "", .stream = TFC_STREAM_STDERR,
		 .is_partial = 1, .data = "t\xe9o", .data_len = 3},
		{.next = 5,
		 .task = 4,
		 .ended_task = UINT32_MAX,
		 .rest = UINT32_MAX,
		 .rest_over = UINT32_MAX,
		 .piece = {{{0x22, 0}, {0x22, 0}}}},
	},
	{
		"87a16b03a27473cf188fcf053de383e8a27474a6776f726b6572a16101a26d6e05a26d63a232"
		"33a26d7404",
		{HEAD, .kind = TFC_EVENT_OUTPUT, .task_type = "worker", .attempt = 1, .node = "",
		 .address = "", .text = "", .data = "", .data_len = 0},
		{.next = 5,
		 .task = 4,
		 .ended_task = UINT32_MAX,
		 .rest = UINT32_MAX,
		 .rest_over = UINT32_MAX,
		 .piece = {{{0x23, 0}, {0x23, 0}}}},
	},
	{
		"87a16b04a27473cf188fcf053de383e8a27474a6776f726b6572a16101a2646ccf000000012a"
		"05f200a178af6974206973206f6e206e6f64652062a26d6e05",
		{HEAD, .kind = TFC_EVENT_GAP, .task_type = "worker", .attempt = 1, .node = "",
		 .address = "", .text = "it is on node b", .data = "", .data_len = 5000000000u},
		{.next = 5,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .rest = UINT32_MAX,
		 .rest_over = UINT32_MAX},
	},
	{
		"8aa16b05a27473cf188fcf053de383e8a27474a6776f726b6572a26a7307a2737404a17201a1"
		"78a3776879a26c7492a36f6e65c40374e96fa2696691b6776f726b65722f3120657869746564"
		"20776974682031a26d6e06",
		{HEAD, .kind = TFC_EVENT_END, .job_state = TFC_JOB_FAILED, .task_type = "worker",
		 .node = "", .address = "", .reason = TFC_END_EXIT, .exit_code = 4, .text = "why",
		 .log_tail = tail, .ignored_failures = ignored, .data = ""},
		{.next = 6,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .rest = UINT32_MAX,
		 .rest_over = UINT32_MAX},
	},
	{
		"88a16b05a27473cf188fcf053de383e8a27474a6776f726b6572a26a7307a2736709a17202a26572"
		"f6a26d6e06",
		{HEAD, .kind = TFC_EVENT_END, .job_state = TFC_JOB_FAILED, .task_type = "worker",
		 .node = "", .address = "", .reason = TFC_END_SIGNAL, .signal = 9,
		 .error_code = TFC_ENOENT, .text = "", .data = ""},
		{.next = 6,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .rest = UINT32_MAX,
		 .rest_over = UINT32_MAX},
	},
	{
		"83a16b07a27473cf188fcf053de383e8a26d6e06",
		{HEAD, .kind = TFC_EVENT_LIVE, .task_type = "", .node = "", .address = "",
		 .text = "", .data = ""},
		{.next = 6,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .rest = UINT32_MAX,
		 .rest_over = UINT32_MAX},
	},
};

static void expect_lines(const char *const *lines, const char *const *expected)
{
	for (size_t i = 0; expected && expected[i]; i++)
		assert_string_equal(lines[i], expected[i]);
	assert_true(!lines || !lines[expected ? 2 - (expected == ignored) : 0]);
}

static void expect_event(const tfc_event *event, const tfc_event *expected)
{
	assert_int_equal(event->size, expected->size);
	assert_int_equal(event->kind, expected->kind);
	assert_true(event->time_ns == expected->time_ns);
	assert_string_equal(event->cursor, "");
	assert_string_equal(event->job, expected->job);
	assert_string_equal(event->name, expected->name);
	assert_int_equal(event->host_tag_len, expected->host_tag_len);
	assert_memory_equal(event->host_tag, expected->host_tag, expected->host_tag_len);
	assert_int_equal(event->job_state, expected->job_state);
	assert_int_equal(event->generation, expected->generation);
	assert_true(event->epoch == expected->epoch);
	assert_string_equal(event->task_type, expected->task_type);
	assert_int_equal(event->task_index, expected->task_index);
	assert_int_equal(event->attempt, expected->attempt);
	assert_int_equal(event->task_state, expected->task_state);
	assert_int_equal(event->pid, expected->pid);
	assert_string_equal(event->node, expected->node);
	assert_string_equal(event->address, expected->address);
	assert_int_equal(event->reason, expected->reason);
	assert_int_equal(event->exit_code, expected->exit_code);
	assert_int_equal(event->signal, expected->signal);
	assert_int_equal(event->error_code, expected->error_code);
	assert_string_equal(event->text, expected->text);
	expect_lines(event->log_tail, expected->log_tail);
	expect_lines(event->ignored_failures, expected->ignored_failures);
	assert_int_equal(event->stream, expected->stream);
	assert_int_equal(event->is_partial, expected->is_partial);
	assert_true(event->data_len == expected->data_len);
	if (event->kind == TFC_EVENT_OUTPUT)
		assert_memory_equal(event->data, expected->data, expected->data_len);
	assert_true(event->user_us == expected->user_us);
	assert_true(event->system_us == expected->system_us);
	assert_true(event->max_rss_kib == expected->max_rss_kib);
	assert_int_equal(event->exit_reason, expected->exit_reason);
	assert_int_equal(event->isolation, expected->isolation);
}

static void expect_mark(const struct tfc__mark *mark, const struct tfc__mark *expected)
{
	assert_int_equal(mark->next, expected->next);
	assert_int_equal(mark->is_gap_reported, expected->is_gap_reported);
	assert_int_equal(mark->task, expected->task);
	assert_int_equal(mark->ended_task, expected->ended_task);
	assert_int_equal(mark->rest, expected->rest);
	assert_int_equal(mark->rest_over, expected->rest_over);
	assert_memory_equal(&mark->piece, &expected->piece, sizeof(mark->piece));
}

/* The same reader, one after the other: nothing of an event is left in the next. */
static void an_event_comes_as_it_was_sent(void **state)
{
	struct tfc__reader head_reader = {.ahead_ns = 0}, reader = {.ahead_ns = 0};
	struct tfc__sub_event got;
	tfc_event first;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct tfc__buf head = {0}, body = {0};
		struct tfc__msg head_msg, body_msg;
		tfc_error error = TFC_ERROR_INIT;
		tfc__sub_event_write_head(&head, &all[i].event);
		tfc__sub_event_write(&body, &all[i].event, &all[i].mark);
		assert_int_equal(tfc__msg_parse(&head_msg, head.data, head.len, NULL, NULL),
				 TFC_OK);
		assert_int_equal(tfc__msg_parse(&body_msg, body.data, body.len, NULL, NULL),
				 TFC_OK);
		tfc__reader_clear(&head_reader);
		tfc__reader_clear(&reader);
		assert_int_equal(tfc__sub_event_read_head(&head_reader, &head_msg.root, &error,
							  &first),
				 TFC_OK);
		if (tfc__sub_event_read(&reader, &first, &body_msg.root, &error, &got) < 0)
			fail_msg("%s", error.text);
		expect_event(&got.event, &all[i].event);
		expect_mark(&got.mark, &all[i].mark);
		tfc__msg_fini(&head_msg);
		tfc__msg_fini(&body_msg);
		tfc__buf_fini(&head);
		golden_expect(&body, all[i].hex);
	}
	tfc__reader_fini(&head_reader);
	tfc__reader_fini(&reader);
}

static void expect_refusal(const char *hex, int code, const char *text)
{
	static const tfc_event head = {.job = "", .name = ""};
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__sub_event event;
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf buf = golden_parse(hex, &msg);
	assert_int_equal(tfc__sub_event_read(&reader, &head, &msg.root, &error, &event), code);
	assert_string_equal(error.text, text);
	tfc__reader_fini(&reader);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
}

/* One of a later version is passed over; one that is damaged is not. */
static void a_kind_that_nobody_knows_is_not_a_damaged_event(void **state)
{
	expect_refusal("81a16b08", TFC_ENOTSUP,
		       "an event of a kind that this version does not know");
	expect_refusal("81a16b06", TFC_ENOTSUP,
		       "an event of a kind that this version does not know");
	expect_refusal("80", TFC_ENOTSUP, "an event of a kind that this version does not know");
	expect_refusal("82a16b01a26a73a131", TFC_EPARSE,
		       "js: must be a number from 0 to 4294967295");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_comes_as_it_was_sent),
		cmocka_unit_test(a_kind_that_nobody_knows_is_not_a_damaged_event),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
