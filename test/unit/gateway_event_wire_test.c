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

/* {"job": "0123456789abcdef", "name": "digits", "tag": bin "tag"} */
#define HEAD_BYTES                                                                            \
	"83a36a6f62b030313233343536373839616263646566a46e616d65a6646967697473a3746167c403746" \
	"167"

static const struct reported {
	const char *hex;
	tfc_event event;
	struct tfc__mark mark;
	const char *lines;
	uint64_t lines_len;
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
		 .missing = UINT32_MAX,
		 .missing_over = 70000},
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
		 .missing = 7,
		 .missing_over = UINT32_MAX,
		 .cursor = {{{0x1f, 2}, {0x1f, 2}, {0x1f, 2}}}},
	},
	{
		"8ba16b03a27473cf188fcf053de383e8a27474a6776f726b6572a2746904a16105a16ea161a1"
		"64c40474e96f0aa26c6ec4053b22002200a26d6e05a26d63a23232a26d7404",
		{HEAD, .kind = TFC_EVENT_OUTPUT, .task_type = "worker", .task_index = 4,
		 .attempt = 5, .node = "a", .address = "", .text = "", .data = "t\xe9o\n",
		 .data_len = 4},
		{.next = 5,
		 .task = 4,
		 .ended_task = UINT32_MAX,
		 .missing = UINT32_MAX,
		 .missing_over = UINT32_MAX,
		 .cursor = {{{0x22, 0}, {0x22, 0}, {0x22, 0}}}},
		"\x3b\x22\0\x22\0",
		5,
	},
	{
		"89a16b03a27473cf188fcf053de383e8a27474a6776f726b6572a16101a164c4010aa26c6ec4"
		"050823002300a26d6e05a26d63a23233a26d7203",
		{HEAD, .kind = TFC_EVENT_OUTPUT, .task_type = "worker", .attempt = 1, .node = "",
		 .address = "", .text = "", .data = "\n", .data_len = 1},
		{.next = 5,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .missing = 3,
		 .missing_over = UINT32_MAX,
		 .cursor = {{{0x23, 0}, {0x23, 0}, {0x23, 0}}}},
		"\x08\x23\0\x23\0",
		5,
	},
	{
		"87a16b04a27473cf188fcf053de383e8a27474a6776f726b6572a16101a2646ccf000000012a"
		"05f200a178af6974206973206f6e206e6f64652062a26d6e05",
		{HEAD, .kind = TFC_EVENT_GAP, .task_type = "worker", .attempt = 1, .node = "",
		 .address = "", .text = "it is on node b", .data = "", .data_len = 5000000000u},
		{.next = 5,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .missing = UINT32_MAX,
		 .missing_over = UINT32_MAX},
	},
	{
		"88a16b0fa27473cf188fcf053de383e8a27474a6776f726b6572a16101a16ea161a2737202a1"
		"64c403353025a26d6e05",
		{HEAD, .kind = TFC_EVENT_PROGRESS, .task_type = "worker", .attempt = 1, .node = "a",
		 .address = "", .text = "", .stream = TFC_STREAM_STDERR, .data = "50%",
		 .data_len = 3},
		{.next = 5,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .missing = UINT32_MAX,
		 .missing_over = UINT32_MAX},
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
		 .missing = UINT32_MAX,
		 .missing_over = UINT32_MAX},
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
		 .missing = UINT32_MAX,
		 .missing_over = UINT32_MAX},
	},
	{
		"83a16b07a27473cf188fcf053de383e8a26d6e06",
		{HEAD, .kind = TFC_EVENT_LIVE, .task_type = "", .node = "", .address = "",
		 .text = "", .data = ""},
		{.next = 6,
		 .task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .missing = UINT32_MAX,
		 .missing_over = UINT32_MAX},
	},
	{
		"8fa16b09a27473cf188fcf053de383e8a26a7303a16701a16502a16ea161a2776ab030313233"
		"343536373839616263646566a2776ea6646967697473a27774c403746167a2777607a27772cd"
		"012ca2776d02a27769cf188fcf053de383e8a2776105a27763ce00011170",
		{HEAD, .kind = TFC_EVENT_CHANGED, .job_state = TFC_JOB_RUNNING, .generation = 1,
		 .epoch = 2, .task_type = "", .node = "a", .address = "", .text = "", .data = "",
		 .version = 7, .restarts = 300},
		{.task = UINT32_MAX,
		 .ended_task = UINT32_MAX,
		 .missing = UINT32_MAX,
		 .missing_over = UINT32_MAX,
		 .watch = TFC__WATCH_SET,
		 .at = {1769860800000001000u, 5, 70000}},
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
	if (event->kind == TFC_EVENT_OUTPUT || event->kind == TFC_EVENT_PROGRESS)
		assert_memory_equal(event->data, expected->data, expected->data_len);
	assert_true(event->user_us == expected->user_us);
	assert_true(event->system_us == expected->system_us);
	assert_true(event->max_rss_kib == expected->max_rss_kib);
	assert_int_equal(event->exit_reason, expected->exit_reason);
	assert_int_equal(event->isolation, expected->isolation);
	assert_int_equal(event->version, expected->version);
	assert_int_equal(event->restarts, expected->restarts);
}

static void expect_mark(const struct tfc__mark *mark, const struct tfc__mark *expected)
{
	assert_int_equal(mark->next, expected->next);
	assert_int_equal(mark->is_gap_reported, expected->is_gap_reported);
	assert_int_equal(mark->task, expected->task);
	assert_int_equal(mark->ended_task, expected->ended_task);
	assert_int_equal(mark->missing, expected->missing);
	assert_int_equal(mark->missing_over, expected->missing_over);
	assert_memory_equal(&mark->cursor, &expected->cursor, sizeof(mark->cursor));
	assert_int_equal(mark->watch, expected->watch);
	assert_int_equal(mark->at.incarnation, expected->at.incarnation);
	assert_int_equal(mark->at.appeared, expected->at.appeared);
	assert_int_equal(mark->at.changed, expected->at.changed);
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
		const struct tfc__sub_event sent = {
			.event = all[i].event,
			.mark = all[i].mark,
			.lines = all[i].lines,
			.lines_len = all[i].lines_len,
			.output = all[i].lines ? all[i].event.data : NULL,
			.output_len = all[i].lines ? all[i].event.data_len : 0,
		};
		head = golden_bytes(HEAD_BYTES);
		tfc__sub_event_write(&body, &sent);
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
		assert_int_equal(got.lines_len, all[i].lines_len);
		assert_memory_equal(got.lines, all[i].lines_len ? all[i].lines : "", got.lines_len);
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
	expect_refusal("81a16b11", TFC_ENOTSUP, "unknown kind of event");
	expect_refusal("81a16b06", TFC_ENOTSUP, "unknown kind of event");
	expect_refusal("80", TFC_ENOTSUP, "unknown kind of event");
	expect_refusal("82a16b01a26a73a131", TFC_EPARSE,
		       "js: must be a number from 0 to 4294967295");
}

/* ---- items */

static struct tfc__sub_event line_of(uint32_t task, const char *text, uint64_t skip)
{
	return (struct tfc__sub_event){
		.event = {HEAD, .kind = TFC_EVENT_OUTPUT, .task_type = "worker", .task_index = task,
			  .attempt = 1, .node = "a", .address = "", .text = "",
			  .stream = TFC_STREAM_STDOUT, .data = text, .data_len = strlen(text)},
		.mark = {.next = 5,
			 .task = task,
			 .ended_task = UINT32_MAX,
			 .missing = UINT32_MAX,
			 .missing_over = UINT32_MAX,
			 .cursor = {{{0x40, skip}, {0x40, skip}, {0x40, skip}}}},
	};
}

static void expect_item(struct tfc__sub_item *item, const char *hex)
{
	struct tfc__buf bytes = {0};
	assert_int_equal(tfc__sub_item_write(item, &bytes), TFC_OK);
	assert_true(tfc__sub_item_bytes(item) <= bytes.len);
	golden_expect(&bytes, hex);
	tfc__sub_item_clear(item);
	assert_true(tfc__sub_item_is_empty(item));
	assert_int_equal(tfc__sub_item_bytes(item), 0);
}

static void an_item_may_have_no_events(void **state)
{
	struct tfc__sub_item item = {.count = 0};
	const struct tfc__sub_event line = line_of(0, "one", 4);
	tfc__sub_item_confirm(&item, &line.event);
	assert_false(tfc__sub_item_is_empty(&item));
	expect_item(&item, "9183a36a6f62b030313233343536373839616263646566a46e616d65a66469676974"
			   "73a3746167c403746167");
	tfc__sub_item_confirm(&item, &line.event);
	tfc__sub_item_add(&item, &line);
	expect_item(&item,
		    "9283a36a6f62b030313233343536373839616263646566a46e616d65a6646967697473a37461"
		    "67c40374616789a16b03a27474a6776f726b6572a16101a16ea161a164c4046f6e650aa26c6e"
		    "c40e3ce8878eefd3e0f3c71840044004a26d6e05a26d63a434302b34a26d7400");
	tfc__sub_item_fini(&item);
}

static void lines_of_a_task_are_one_event(void **state)
{
	struct tfc__sub_item item = {.count = 0};
	const struct tfc__sub_event lines[] = {line_of(0, "one", 4), line_of(0, "", 5),
					       line_of(0, "three", 11), line_of(1, "x", 2)};
	struct tfc__sub_event live = {
		.event = {HEAD, .kind = TFC_EVENT_LIVE, .task_type = "", .node = "", .address = "",
			  .text = "", .data = ""},
		.mark = {.next = 5,
			 .task = UINT32_MAX,
			 .ended_task = UINT32_MAX,
			 .missing = UINT32_MAX,
			 .missing_over = UINT32_MAX},
	};
	for (size_t i = 0; i < 4; i++)
		tfc__sub_item_add(&item, &lines[i]);
	tfc__sub_item_add(&item, &live);
	expect_item(&item,
		    "9483a36a6f62b030313233343536373839616263646566a46e616d65a6646967697473a37461"
		    "67c40374616789a16b03a27474a6776f726b6572a16101a16ea161a164c40b6f6e650a0a7468"
		    "7265650aa26c6ec4103ce8878eefd3e0f3c718400440040050a26d6e05a26d63a434302b62a2"
		    "6d74008aa16b03a27474a6776f726b6572a2746901a16101a16ea161a164c402780aa26c6ec4"
		    "0e1ce8878eefd3e0f3c71840024002a26d6e05a26d63a434302b32a26d740183a16b07a27473"
		    "cf188fcf053de383e8a26d6e05");
	/* What was passed on by another node stays as it is; a line behind it begins a batch. */
	struct tfc__sub_event passed_on = lines[0];
	passed_on.lines = "\x38\x40\x04\x40\x04";
	passed_on.lines_len = 5;
	passed_on.output = "one\n";
	passed_on.output_len = 4;
	tfc__sub_item_add(&item, &passed_on);
	tfc__sub_item_add(&item, &lines[1]);
	expect_item(&item,
		    "9383a36a6f62b030313233343536373839616263646566a46e616d65a6646967697473a37461"
		    "67c4037461678aa16b03a27473cf188fcf053de383e8a27474a6776f726b6572a16101a16ea1"
		    "61a164c4046f6e650aa26c6ec4053840044004a26d6e05a26d63a434302b34a26d740089a16b"
		    "03a27474a6776f726b6572a16101a16ea161a164c4010aa26c6ec40e0ce8878eefd3e0f3c718"
		    "40054005a26d6e05a26d63a434302b35a26d7400");
	tfc__sub_item_fini(&item);
}

/* Output and reports of a task are one batch, whose lines say what they are. */
static void reports_are_lines_of_the_same_event(void **state)
{
	static const tfc_event head = {.job = "", .name = ""};
	struct tfc__sub_item item = {.count = 0};
	struct tfc__sub_event lines[] = {line_of(0, "one", 4), line_of(0, "r", 6),
					 line_of(0, "s\r", 9), line_of(0, "two", 13)};
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__sub_event event;
	struct tfc__msg msg;
	struct tfc__buf bytes = {0};
	struct tfc__line_batch_reader batch;
	struct tfc__line line;
	for (size_t i = 0; i < 4; i++) {
		bool is_report = i == 1 || i == 2;
		lines[i].has_reports = true;
		lines[i].event.kind = is_report ? TFC_EVENT_REPORT : TFC_EVENT_OUTPUT;
		lines[i].event.stream = is_report ? TFC_STREAM_REPORT : TFC_STREAM_STDOUT;
		lines[i].mark.cursor.reported[2].skip -= i == 1;
		tfc__sub_item_add(&item, &lines[i]);
	}
	tfc__sub_item_end_batch(&item);
	assert_int_equal(item.count, 1);
	assert_int_equal(tfc__msg_parse(&msg, item.events.data, item.events.len, NULL, NULL), 0);
	assert_int_equal(tfc__sub_event_read(&reader, &head, &msg.root, NULL, &event), TFC_OK);
	assert_int_equal(event.event.kind, TFC_EVENT_OUTPUT);
	assert_true(event.has_reports);
	assert_memory_equal(&event.mark.cursor, &lines[3].mark.cursor, sizeof(event.mark.cursor));
	tfc__line_batch_read(&batch, event.output, event.output_len, event.lines, event.lines_len,
			     event.has_reports);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(tfc__line_batch_next(&batch, &line), 1);
		assert_int_equal(line.stream, lines[i].event.stream);
		assert_int_equal(line.len, lines[i].event.data_len);
		assert_memory_equal(line.data, lines[i].event.data, line.len);
		assert_memory_equal(&line.cursor, &lines[i].mark.cursor, sizeof(line.cursor));
	}
	assert_int_equal(tfc__line_batch_next(&batch, &line), 0);

	/* A node that passes the event on does not read the lines. */
	tfc__sub_event_write(&bytes, &event);
	assert_int_equal(bytes.len, item.events.len);
	assert_memory_equal(bytes.data, item.events.data, bytes.len);
	tfc__buf_fini(&bytes);
	tfc__reader_fini(&reader);
	tfc__msg_fini(&msg);
	tfc__sub_item_fini(&item);
}

/* Whatever a line says of the position beside its own cursor is not said of the line before. */
static void a_line_with_another_mark_begins_a_batch(void **state)
{
	struct tfc__sub_item item = {.count = 0};
	struct tfc__sub_event line = line_of(0, "one", 4);
	tfc__sub_item_add(&item, &line);
	tfc__sub_item_add(&item, &line);
	assert_int_equal(item.count, 0);
	line.mark.missing_over = 2;
	tfc__sub_item_add(&item, &line);
	assert_int_equal(item.count, 1);
	line.mark.missing_over = UINT32_MAX;
	tfc__sub_item_add(&item, &line);
	assert_int_equal(item.count, 1);
	line.event.attempt++;
	tfc__sub_item_add(&item, &line);
	assert_int_equal(item.count, 2);
	line.mark.task = UINT32_MAX;
	line.mark.missing = 4;
	tfc__sub_item_add(&item, &line);
	assert_int_equal(item.count, 3);
	line.mark.missing = 3;
	tfc__sub_item_add(&item, &line);
	tfc__sub_item_end_batch(&item);
	assert_int_equal(item.count, 5);
	tfc__sub_item_end_batch(&item);
	assert_int_equal(item.count, 5);
	tfc__sub_item_fini(&item);
}

/* Other kinds may have the same keys, from a hostile node. */
static void only_output_has_text_and_only_a_gap_has_a_length_without_text(void **state)
{
	static const struct {
		const char *hex; /* d: bin "ab", dl: 0xffffffff */
		uint32_t kind;
		uint64_t data_len;
	} events[] = {
		{"83a16b01a164c4026162a2646cceffffffff", TFC_EVENT_JOB, 0},
		{"86a16b03a164c4026162a2646cceffffffffa26c6ec40100a26d63a131a26d7400",
		 TFC_EVENT_OUTPUT, 2},
		{"83a16b04a164c4026162a2646cceffffffff", TFC_EVENT_GAP, UINT32_MAX},
		{"83a16b09a164c4026162a2646cceffffffff", TFC_EVENT_CHANGED, 0},
	};
	static const tfc_event head = {.job = "", .name = ""};
	struct tfc__reader reader = {.ahead_ns = 0};
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		struct tfc__sub_event got;
		struct tfc__msg msg;
		struct tfc__buf buf = golden_parse(events[i].hex, &msg);
		assert_int_equal(tfc__sub_event_read(&reader, &head, &msg.root, NULL, &got),
				 TFC_OK);
		assert_int_equal(got.event.kind, events[i].kind);
		assert_true(got.event.data_len == events[i].data_len);
		if (events[i].kind == TFC_EVENT_OUTPUT)
			assert_memory_equal(got.event.data, "ab", 2);
		else
			assert_string_equal(got.event.data, "");
		tfc__reader_clear(&reader);
		tfc__msg_fini(&msg);
		tfc__buf_fini(&buf);
	}
	tfc__reader_fini(&reader);
}

static void output_without_lines_or_a_cursor_is_refused(void **state)
{
	static const char text[] =
		"output must have lines (ln), and a cursor (mc) of a task (mt) or "
		"of missing output (mr)";
	/* of version 0.2 */
	expect_refusal("84a16b03a164c40161a26d740aa26d63a131", TFC_EPARSE, text);
	expect_refusal("84a16b03a164c40161a26c6ec4050801000100a26d7400", TFC_EPARSE, text);
	expect_refusal("84a16b03a164c40161a26c6ec4050801000100a26d63a131", TFC_EPARSE, text);
	expect_refusal("82a16b01a26d63a178", TFC_EPARSE, "mc: must be the cursor of a line");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_item_may_have_no_events),
		cmocka_unit_test(lines_of_a_task_are_one_event),
		cmocka_unit_test(reports_are_lines_of_the_same_event),
		cmocka_unit_test(a_line_with_another_mark_begins_a_batch),
		cmocka_unit_test(only_output_has_text_and_only_a_gap_has_a_length_without_text),
		cmocka_unit_test(output_without_lines_or_a_cursor_is_refused),
		cmocka_unit_test(an_event_comes_as_it_was_sent),
		cmocka_unit_test(a_kind_that_nobody_knows_is_not_a_damaged_event),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
