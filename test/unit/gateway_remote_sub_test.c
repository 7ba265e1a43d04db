/* gateway: what a subscription over a connection does with the batches that come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/event_wire.h"
#include "gateway/remote_sub.h"
#include "rpc_kept.h"

#define JOB "0123456789abcdef"

/* ---- the node */

static char cursor[64]; /* of the last request */
static char asked[64];  /* its job */

static void keep_subscription(struct rpc_end *end, struct tfc__rpc_request *request,
			      const char *method, const msgpack_object *params)
{
	assert_string_equal(method, "gateway.subscribe");
	tfc__msg_get_text(params, "key", cursor, sizeof(cursor));
	tfc__msg_get_text(params, "job", asked, sizeof(asked));
	keep(end, request, method, params);
}

static void send_event(uint32_t kind, const char *lines, size_t lines_len, const char *text,
		       uint64_t skip)
{
	const struct tfc__sub_event event = {
		.event = {.size = sizeof(tfc_event),
			  .kind = kind,
			  .job = JOB,
			  .name = "",
			  .task_type = kind == TFC_EVENT_OUTPUT ? "worker" : ""},
		.mark = {.next = 5,
			 .task = kind == TFC_EVENT_OUTPUT ? 0 : UINT32_MAX,
			 .ended_task = UINT32_MAX,
			 .missing = UINT32_MAX,
			 .missing_over = UINT32_MAX,
			 .cursor = {{{0x10, skip}, {0x10, skip}, {0x10, skip}}}},
		.lines = lines,
		.lines_len = lines_len,
		.output = text,
		.output_len = strlen(text),
	};
	struct tfc__sub_item item = {.count = 0};
	struct tfc__buf bytes = {0};
	tfc__sub_item_add(&item, &event);
	assert_int_equal(tfc__sub_item_write(&item, &bytes), TFC_OK);
	assert_int_equal(tfc__rpc_item(requests[request_count - 1], &bytes), TFC_OK);
	tfc__sub_item_fini(&item);
	tfc__buf_fini(&bytes);
}

/* Three lines of a record at 0x10: "a", "b", "c". */
#define TABLE "\x18\x10\x02\x10\x02\x10\x10"
#define TABLE_LEN 7
#define TEXT "a\nb\nc\n"

/* ---- the subscriber */

static struct seen {
	tfc_sub *sub;
	char text[64]; /* of all lines */
	char cursor[64];
	uint32_t pause_at, close_at; /* after so many lines */
	uint32_t lines;
	bool is_over;
	bool may_be_lost;
	char lost[128]; /* the text of LOST */
} seen;

static void on_event(void *user, const tfc_event *event)
{
	if (event->kind == TFC_EVENT_LOST) {
		assert_true(seen.may_be_lost);
		assert_int_equal(event->error_code, TFC_ELOST);
		strcpy(seen.lost, event->text);
	}
	seen.is_over |= event->kind == TFC_EVENT_END;
	if (event->kind != TFC_EVENT_OUTPUT)
		return;
	assert_string_equal(event->job, JOB);
	assert_string_equal(event->task_type, "worker");
	strncat(seen.text, event->data, event->data_len);
	strcpy(seen.cursor, event->cursor);
	seen.lines++;
	if (seen.lines == seen.pause_at)
		tfc_sub_pause(seen.sub);
	if (seen.lines == seen.close_at)
		tfc_sub_close(seen.sub);
}

static void find(struct tfc__route *route, struct tfc__remote_sub *sub, const char *job)
{
	tfc__remote_sub_begin(sub, near->rpc, job);
}

static struct tfc__route route = {.find = find, .patience_ms = 60000, .window = 4};

static void subscribe_to(const char *job, bool is_bare, tfc_event_fn fn, uint32_t pause_at,
			 uint32_t close_at)
{
	static const tfc_subscribe_options options = {.size = sizeof(options)};
	tfc_error error = TFC_ERROR_INIT;
	seen = (struct seen){.pause_at = pause_at, .close_at = close_at};
	far->serve = keep_subscription;
	assert_int_equal(tfc__remote_subscribe(ctx, NULL, &route, job, &options, is_bare, fn, NULL,
					       &error, &seen.sub),
			 TFC_OK);
	rpc_run(ctx);
	assert_int_equal(request_count, 1);
	assert_string_equal(cursor, "");
	assert_string_equal(asked, job);
}

static void subscribe(bool is_bare, tfc_event_fn fn, uint32_t pause_at, uint32_t close_at)
{
	subscribe_to(JOB, is_bare, fn, pause_at, close_at);
}

static void await_requests(uint32_t count)
{
	while (request_count < count)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
}

static void await_lost(const char *text)
{
	while (!seen.lost[0])
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	assert_string_equal(seen.lost, text);
}

static void finish(void)
{
	tfc_sub_close(seen.sub);
	while (request_count)
		answer(--request_count, 0);
	rpc_run(ctx);
}

/* ---- tests */

static void each_line_has_its_cursor_and_may_be_paused_at(void **state)
{
	subscribe(false, on_event, 2, 0);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, TEXT, 6);
	send_event(TFC_EVENT_END, NULL, 0, "", 0);
	rpc_run(ctx);
	assert_string_equal(seen.text, "ab");
	assert_string_equal(seen.cursor, "5_0.10+4");
	assert_int_equal(credits, 0);
	tfc_sub_resume(seen.sub);
	rpc_run(ctx);
	assert_int_equal(credits, 1);
	assert_string_equal(seen.text, "abc");
	assert_string_equal(seen.cursor, "5_0.10+6");
	assert_true(seen.is_over);
	finish();
}

/* The node's next item would be asked for behind "b". */
static void a_connection_lost_within_a_batch_continues_behind_the_last_line(void **state)
{
	subscribe(false, on_event, 2, 0);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, TEXT, 6);
	rpc_run(ctx);
	const tfc_error lost = {.code = TFC_ELOST, .component = "wire", .text = "it is lost"};
	tfc__rpc_fail(requests[--request_count], &lost);
	rpc_run(ctx);
	assert_int_equal(request_count, 1);
	assert_string_equal(cursor, "5_0.10+4");
	tfc_sub_resume(seen.sub);
	send_event(TFC_EVENT_OUTPUT, "\x18\x10\x06\x10\x06", 5, "c\n", 6);
	rpc_run(ctx);
	assert_string_equal(seen.text, "abc");
	finish();
}

/* The node that is connected next may know another job of that name. */
static void a_job_found_by_its_name_is_followed_by_its_id(void **state)
{
	subscribe_to("twin", false, on_event, 0, 0);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, TEXT, 6);
	rpc_run(ctx);
	const tfc_error lost = {.code = TFC_ELOST, .component = "wire", .text = "it is lost"};
	tfc__rpc_fail(requests[--request_count], &lost);
	rpc_run(ctx);
	assert_int_equal(request_count, 1);
	assert_string_equal(asked, JOB);
	finish();
}

/* Who has followed nothing yet waits for nobody. */
static void a_job_of_an_unreachable_node_is_lost_at_once_unless_it_was_followed(void **state)
{
	const tfc_error lost = {.code = TFC_ELOST, .component = "gateway", .text = "it is on a"};
	subscribe(false, on_event, 0, 0);
	seen.may_be_lost = true;
	tfc__rpc_fail(requests[--request_count], &lost);
	rpc_run(ctx);
	assert_string_equal(seen.lost, "it is on a");
	assert_int_equal(request_count, 0);
	finish();
	subscribe(false, on_event, 0, 0);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, TEXT, 6);
	rpc_run(ctx);
	for (int i = 0; i < 3; i++) {
		tfc__rpc_fail(requests[--request_count], &lost);
		await_requests(1);
	}
	finish();
}

static void closing_within_a_batch_is_legal(void **state)
{
	subscribe(false, on_event, 0, 2);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, TEXT, 6);
	rpc_run(ctx);
	assert_string_equal(seen.text, "ab");
	assert_int_equal(cancels, 1);
	seen.sub = NULL;
	finish();
}

/* What is wrong with a batch is wrong with the lines from there on. */
static void malformed_lines_are_requested_again(void **state)
{
	static const struct {
		const char *table;
		size_t table_len;
		const char *text, *seen, *cursor;
		uint64_t skip;
	} batches[] = {
		{TABLE, TABLE_LEN, "a\nb\nc", "ab", "5_0.10+4", 6},
		{TABLE, TABLE_LEN, "a\nb\nc\nd\n", "abc", "5_0.10+6", 6}, /* more text than lines */
		{"\x18\x10\x02\x10\x02\x14", 6, TEXT, "a", "5_0.10+2", 6}, /* "b" lacks its time */
		{TABLE, TABLE_LEN, TEXT, "ab", "5_0.10+4", 7}, /* not the end that was said */
		{"\x80", 1, TEXT, "", "", 6},
	};
	for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		subscribe(false, on_event, 0, 0);
		send_event(TFC_EVENT_OUTPUT, batches[i].table, batches[i].table_len,
			   batches[i].text, batches[i].skip);
		rpc_run(ctx);
		assert_string_equal(seen.text, batches[i].seen);
		await_requests(2);
		assert_string_equal(cursor, batches[i].cursor);
		finish();
	}
}

static void send_malformed(void)
{
	send_event(TFC_EVENT_OUTPUT, "\x80", 1, TEXT, 6);
	rpc_run(ctx);
}

/* The delays grow, until a line could be reported. */
static void a_batch_that_stays_malformed_ends_in_lost(void **state)
{
	uint64_t begun = tfc__now();
	uint32_t sent = 0;
	subscribe(false, on_event, 0, 0);
	while (sent < 4) {
		send_malformed();
		await_requests(++sent + 1);
	}
	assert_true(tfc__now() >= begun + (0 + 50 + 100 + 200) * TFC__MS);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, TEXT, 6);
	rpc_run(ctx);
	assert_string_equal(seen.text, "abc");
	begun = tfc__now();
	seen.may_be_lost = true;
	route.patience_ms = 500;
	for (sent = 0; !seen.lost[0]; sent++) {
		uint32_t count = request_count;
		send_malformed();
		while (request_count == count && !seen.lost[0])
			assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	}
	assert_string_equal(seen.lost, "the gateway sent a malformed event");
	assert_true(tfc__now() >= begun + 500 * TFC__MS);
	assert_in_range(sent, 1, 6); /* at 0, 0, 50, 150, 350 and 750 ms */
	assert_string_equal(cursor, "5_0.10+6");
	route.patience_ms = 60000;
	finish();
}

/* Also when the end arrives while items wait to be reported. */
static void a_stream_that_ends_without_end_is_requested_again(void **state)
{
	subscribe(false, on_event, 2, 0);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, TEXT, 6);
	answer(--request_count, 0);
	rpc_run(ctx);
	assert_string_equal(seen.text, "ab");
	assert_int_equal(request_count, 0);
	tfc_sub_resume(seen.sub);
	await_requests(1);
	assert_string_equal(seen.text, "abc");
	assert_string_equal(cursor, "5_0.10+6");
	seen.may_be_lost = true;
	route.patience_ms = 100;
	while (!seen.lost[0]) {
		if (request_count)
			answer(--request_count, 0);
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	}
	await_lost("the gateway ended the subscription before the job ended");
	route.patience_ms = 60000;
	finish();
}

static void a_large_item_counts_while_it_is_held(void **state)
{
	enum { LARGE = 1 << 20 };
	char *text = malloc(LARGE + 3);
	assert_non_null(text);
	memset(text, 'x', LARGE);
	strcpy(text + LARGE, "\nb");
	subscribe(false, on_event, 0, 0);
	size_t held = seen.sub->held;
	assert_true(held < LARGE);
	tfc_sub_pause(seen.sub);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, text, 6);
	rpc_run(ctx);
	assert_in_range(seen.sub->held, LARGE, LARGE + held);
	tfc_sub_resume(seen.sub);
	await_requests(2);
	assert_int_equal(seen.sub->held, held);
	free(text);
	finish();
}

static void note_batch(void *user, const tfc_event *event)
{
	const struct tfc__sub_event *whole = seen.sub->event;
	assert_ptr_equal(event, &whole->event);
	assert_int_equal(event->data_len, strlen(TEXT));
	assert_memory_equal(event->data, TEXT, event->data_len);
	assert_int_equal(whole->lines_len, TABLE_LEN);
	assert_memory_equal(whole->lines, TABLE, TABLE_LEN);
	assert_int_equal(whole->mark.cursor.reported[1].skip, 6);
	seen.lines++;
}

static void a_batch_is_passed_on_as_it_is(void **state)
{
	subscribe(true, note_batch, 0, 0);
	send_event(TFC_EVENT_OUTPUT, TABLE, TABLE_LEN, TEXT, 6);
	rpc_run(ctx);
	assert_int_equal(seen.lines, 1);
	const tfc_error lost = {.code = TFC_ELOST, .component = "wire", .text = "it is lost"};
	tfc__rpc_fail(requests[--request_count], &lost);
	rpc_run(ctx);
	assert_string_equal(cursor, "5_0.10+6");
	finish();
}

/* ---- watches */

static void keep_watch(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		       const msgpack_object *params)
{
	assert_string_equal(method, "gateway.watch");
	keep(end, request, method, params);
}

static char seen_node[80];

static void note_node(void *user, const tfc_event *event)
{
	snprintf(seen_node, sizeof(seen_node), "%s", event->node);
}

static void send_seen(const char *node)
{
	const struct tfc__sub_event event = {
		.event = {.size = sizeof(tfc_event),
			  .kind = TFC_EVENT_NODE_SEEN,
			  .job = "",
			  .name = "",
			  .host_tag = "",
			  .task_type = "",
			  .node = node,
			  .address = "",
			  .text = "",
			  .data = ""},
		.output = "",
		.lines = "",
		.mark = {.task = UINT32_MAX,
			 .ended_task = UINT32_MAX,
			 .missing = UINT32_MAX,
			 .missing_over = UINT32_MAX,
			 .watch = TFC__WATCH_SET},
	};
	struct tfc__sub_item item = {.count = 0};
	struct tfc__buf bytes = {0};
	tfc__sub_item_add(&item, &event);
	assert_int_equal(tfc__sub_item_write(&item, &bytes), TFC_OK);
	assert_int_equal(tfc__rpc_item(requests[request_count - 1], &bytes), TFC_OK);
	tfc__sub_item_fini(&item);
	tfc__buf_fini(&bytes);
	rpc_run(ctx);
}

/* Its name becomes part of a cursor. */
static void a_node_with_a_bad_name_is_refused(void **state)
{
	static const tfc_subscribe_options options = {.size = sizeof(options)};
	static const char *const bad[] = {
		"", "a,b", "a:b", "a b",
		"0123456789012345678901234567890123456789012345678901234567890123"};
	tfc_error error = TFC_ERROR_INIT;
	far->serve = keep_watch;
	assert_int_equal(tfc__remote_subscribe(ctx, NULL, &route, NULL, &options, true, note_node,
					       NULL, &error, &seen.sub),
			 TFC_OK);
	rpc_run(ctx);
	send_seen("a");
	assert_string_equal(seen_node, "a");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint32_t requests_before = request_count;
		send_seen(bad[i]);
		assert_string_equal(seen_node, "a");
		while (request_count == requests_before)
			assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	}
	finish();
}

/* A watch of a cluster has one for each member, within the limit of its client. */
static void a_watch_of_a_member_is_small(void **state)
{
	static const tfc_subscribe_options options = {.size = sizeof(options)};
	struct tfc__route to_member = route;
	tfc_error error = TFC_ERROR_INIT;
	to_member.window = 1;
	to_member.is_forwarded = true;
	far->serve = keep_watch;
	assert_int_equal(tfc__remote_subscribe(ctx, NULL, &to_member, NULL, &options, true,
					       note_node, NULL, &error, &seen.sub),
			 TFC_OK);
	assert_true(seen.sub->held > 0 && seen.sub->held <= 20 << 10);
	rpc_run(ctx);
	finish();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_line_has_its_cursor_and_may_be_paused_at),
		TEST(a_connection_lost_within_a_batch_continues_behind_the_last_line),
		TEST(a_job_found_by_its_name_is_followed_by_its_id),
		TEST(a_job_of_an_unreachable_node_is_lost_at_once_unless_it_was_followed),
		TEST(closing_within_a_batch_is_legal),
		TEST(malformed_lines_are_requested_again),
		TEST(a_batch_that_stays_malformed_ends_in_lost),
		TEST(a_stream_that_ends_without_end_is_requested_again),
		TEST(a_large_item_counts_while_it_is_held),
		TEST(a_batch_is_passed_on_as_it_is),
		TEST(a_node_with_a_bad_name_is_refused),
		TEST(a_watch_of_a_member_is_small),
	};
	return cmocka_run_group_tests_name("gateway_remote_sub", tests, NULL, NULL);
}
