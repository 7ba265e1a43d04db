/*
 * gateway: what an attempt has said on a node that is away is reported when the node is back: each
 * line once, with its attempt's number, and behind every cursor the lines that were not reported
 * before it.
 *
 * The nodes are played: what is in their logs, and whether they can be asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/internal.h"
#include "gateway/internal.h"

#define RECORDS 32
#define LOGS_READ_MAX 32 /* that a gateway reads at one time */
#define STEP 100         /* of positions, from record to record */

struct played_record {
	uint32_t attempt;
	const char *text;
};

struct node {
	const char *name;
	bool is_down;
	bool is_unknown; /* no source can even be opened */
	struct played_record records[RECORDS];
	uint32_t count;
	uint32_t most; /* records that it gives before it goes away; 0: all */
	struct tfc__link sources;
};

struct source {
	struct tfc__log_source base;
	struct tfc__link link;
	struct node *node;
	uint64_t position;
};

struct world {
	tfc_ctx *ctx;
	tfc_membership *membership;
	struct tfc__members *members;
	struct tfc__directory directory;
	struct tfc__record *record;
	struct node a, b;
};

/* ---- logs */

static int next(void *user, tfc_log_record *record, tfc_error *error)
{
	struct source *source = user;
	uint64_t number = source->position / STEP;
	if (source->node->is_down || (source->node->most && number >= source->node->most))
		return tfc__fail(error, TFC_ELOST, "test", 0, "down");
	if (number >= source->node->count)
		return 0;
	const struct played_record *played = &source->node->records[number];
	record->stream = TFC_STREAM_STDOUT;
	record->attempt = played->attempt;
	record->position = number * STEP;
	record->next = source->position = (number + 1) * STEP;
	record->data = played->text;
	record->len = strlen(played->text);
	return 1;
}

static void close_source(void *user)
{
	struct source *source = user;
	tfc__list_remove(&source->link);
	free(source);
}

static struct tfc__log_source *kept_log(void *agent, const char *id, const tfc_job *job,
					uint32_t task, uint64_t position, tfc_error *error)
{
	static const struct tfc__log_source_ops ops = {next, close_source};
	struct node *node = agent;
	if (node->is_unknown) {
		tfc__fail(error, TFC_ELOST, "test", 0, "no member");
		return NULL;
	}
	struct source *source = calloc(1, sizeof(*source));
	source->base.ops = &ops;
	source->node = node;
	source->position = position;
	tfc__list_append(&node->sources, &source->link);
	return &source->base;
}

static void wake(struct node *node)
{
	TFC__LIST_EACH (link, &node->sources) {
		struct source *source = tfc__container_of(link, struct source, link);
		if (source->base.wake)
			source->base.wake(source->base.user);
	}
}

static void say(struct node *node, uint32_t attempt, const char *text)
{
	node->records[node->count++] = (struct played_record){attempt, text};
	if (!node->is_down)
		wake(node);
}

static void set_down(struct node *node, bool is_down)
{
	node->is_down = is_down;
	wake(node);
}

/* ---- the world */

static struct tfc__agent_handle agent_of(void *user, const char *node)
{
	static const struct tfc__agent_ops ops = {.kept_log = kept_log};
	struct world *w = user;
	return (struct tfc__agent_handle){&ops, strcmp(node, "a") == 0 ? &w->a : &w->b};
}

static int begin_notifying(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	const tfc_member_info b = {.size = sizeof(b),
				   .name = "b",
				   .slots = 1,
				   .address = "tcp://127.0.0.1:1"};
	((struct world *)user)->membership = membership;
	return tfc_membership_put(membership, &b);
}

static void stop_notifying(void *user, tfc_membership *membership)
{
}

static void open_world(struct world *w)
{
	static const char job[] =
		"{\"framework\":\"none\",\"argv\":[\"x\"],\"roles\":{\"worker\":{}}}";
	static tfc_membership_ops membership = {
		.size = sizeof(membership),
		.start = begin_notifying,
		.stop = stop_notifying,
	};
	const tfc_member_info self = {.size = sizeof(self), .name = "a", .slots = 1};
	const struct tfc__members_options options = {.self = &self, .ops = &membership, .user = w};
	tfc_error error = TFC_ERROR_INIT;
	*w = (struct world){.a = {.name = "a"}, .b = {.name = "b"}};
	tfc__list_init(&w->a.sources);
	tfc__list_init(&w->b.sources);
	assert_int_equal(tfc_ctx_new(NULL, &error, &w->ctx), TFC_OK);
	assert_int_equal(tfc__members_open(w->ctx, &options, &error, &w->members), TFC_OK);
	assert_int_equal(tfc__nodes_open(w->ctx, w->members, agent_of, w, &error,
					 &w->directory.nodes),
			 TFC_OK);
	w->directory.ctx = w->ctx;
	w->record = tfc__record_new();
	w->record->directory = &w->directory;
	snprintf(w->record->id, sizeof(w->record->id), "0123456789abcdef");
	assert_int_equal(tfc_job_parse(job, strlen(job), NULL, &error, &w->record->job), TFC_OK);
}

static void close_world(struct world *w)
{
	assert_true(tfc__list_is_empty(&w->a.sources) && tfc__list_is_empty(&w->b.sources));
	tfc__record_free(w->record);
	tfc__nodes_close(w->directory.nodes);
	tfc__members_close(w->members);
	tfc_ctx_free(w->ctx);
}

static void add_entry(struct world *w, uint32_t state, uint32_t attempt, const struct node *node,
		      uint64_t log_end)
{
	const struct tfc__journal_entry entry = {.kind = TFC_EVENT_TASK,
						 .task_state = state,
						 .attempt = attempt,
						 .node = (char *)node->name,
						 .time_ns = 1,
						 .end.log_end = log_end};
	assert_int_equal(tfc__journal_add(&w->record->journal, &entry), TFC_OK);
}

static void start(struct world *w, uint32_t attempt, const struct node *node)
{
	add_entry(w, TFC_TASK_STARTING, attempt, node, 0);
	add_entry(w, TFC_TASK_RUNNING, attempt, node, 0);
}

static void exits(struct world *w, uint32_t attempt, const struct node *node)
{
	add_entry(w, TFC_TASK_EXITED, attempt, node, (uint64_t)node->count * STEP);
}

static void lose(struct world *w, uint32_t attempt, const struct node *node)
{
	add_entry(w, TFC_TASK_LOST, attempt, node, UINT64_MAX);
}

static void end_job(struct world *w)
{
	const struct tfc__journal_entry entry = {.kind = TFC_EVENT_END,
						 .job_state = TFC_JOB_SUCCEEDED,
						 .task = UINT32_MAX,
						 .time_ns = 1};
	assert_int_equal(tfc__journal_add(&w->record->journal, &entry), TFC_OK);
}

/* ---- who follows */

#define ATTEMPTS 8
#define EVENTS 128

struct said {
	char lines[ATTEMPTS][256]; /* by attempt, each with a newline */
};

struct follower {
	struct world *w;
	tfc_sub *sub;
	struct tfc__place place; /* of a bare one, as another node would keep it */
	bool is_bare;
	struct said said;
	char ends[64]; /* attempts in the order of their ends, "L" for LIVE, "." for END */
	uint32_t gaps;
	uint32_t count;
	char *cursors[EVENTS];
	struct said before[EVENTS]; /* what was said when the cursor was new */
	bool is_over;
};

static void on_event(void *user, const tfc_event *event)
{
	struct follower *follower = user;
	char *lines = follower->said.lines[event->attempt];
	const char *cursor = event->cursor;
	if (event->kind == TFC__SUB_ESTABLISHED) {
		assert_true(follower->is_bare);
		return;
	}
	if (follower->is_bare) {
		assert_int_equal(tfc__place_apply(&follower->place, &follower->sub->event->mark),
				 0);
		cursor = tfc__place_text(&follower->place);
	}
	if (event->kind == TFC_EVENT_OUTPUT)
		snprintf(lines + strlen(lines), 256 - strlen(lines), "%.*s\n", (int)event->data_len,
			 event->data);
	follower->gaps += event->kind == TFC_EVENT_GAP;
	follower->is_over |= event->kind == TFC_EVENT_END;
	char *ends = follower->ends + strlen(follower->ends);
	if (event->kind == TFC_EVENT_TASK && event->task_state >= TFC_TASK_EXITED)
		snprintf(ends, 4, "%u", event->attempt);
	if (event->kind == TFC_EVENT_END || event->kind == TFC_EVENT_LIVE)
		snprintf(ends, 4, event->kind == TFC_EVENT_END ? "." : "L");
	if (follower->is_over)
		return;
	assert_true(follower->count < EVENTS);
	follower->cursors[follower->count] = strdup(cursor);
	follower->before[follower->count++] = follower->said;
}

static struct tfc__local_reading reading;

static void follow(struct world *w, struct follower *follower, const char *cursor, bool is_bare)
{
	const tfc_subscribe_options options = {.size = sizeof(options),
					       .cursor = cursor,
					       .wants_live = 1};
	tfc_error error = TFC_ERROR_INIT;
	*follower = (struct follower){.w = w, .is_bare = is_bare};
	if (is_bare && cursor)
		assert_int_equal(tfc__place_read(&follower->place, 1, cursor), TFC_OK);
	if (tfc__local_subscribe(w->ctx, NULL, &reading, w->record, &options, is_bare, on_event,
				 follower, &error, &follower->sub) < 0)
		fail_msg("%s: %s", cursor ? cursor : "", error.text);
}

static void leave(struct follower *follower)
{
	tfc_sub_close(follower->sub);
	tfc__place_fini(&follower->place);
	for (uint32_t i = 0; i < follower->count; i++)
		free(follower->cursors[i]);
}

static void turn(struct world *w)
{
	while (tfc_ctx_run(w->ctx, 0) > 0)
		;
}

static void await_gaps(struct follower *follower, uint32_t count)
{
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND; follower->gaps < count;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(follower->w->ctx, 1000) >= 0);
	}
	turn(follower->w);
}

static void await_end(struct follower *follower)
{
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND; !follower->is_over;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(follower->w->ctx, 1000) >= 0);
	}
}

static void assert_said(const struct follower *follower, uint32_t attempt, const char *lines)
{
	assert_string_equal(follower->said.lines[attempt], lines);
}

/* All is ended, and all nodes are there: what comes behind a cursor is what was not reported
 * before. */
static void assert_cursors_go_on(struct world *w, const struct follower *seen)
{
	struct follower whole;
	follow(w, &whole, NULL, false);
	await_end(&whole);
	assert_int_equal(whole.gaps, 0);
	for (uint32_t i = 0; i < seen->count; i++) {
		struct follower late;
		follow(w, &late, seen->cursors[i], i % 2);
		await_end(&late);
		for (uint32_t k = 0; k < ATTEMPTS; k++) {
			char text[512];
			snprintf(text, sizeof(text), "%s%s", seen->before[i].lines[k],
				 late.said.lines[k]);
			if (strcmp(text, whole.said.lines[k]) != 0)
				fail_msg("behind %s, attempt %u: \"%s\" and \"%s\", not \"%s\"",
					 seen->cursors[i], k, seen->before[i].lines[k],
					 late.said.lines[k], whole.said.lines[k]);
		}
		leave(&late);
	}
	leave(&whole);
}

/* Attempt 1 has written more on b than was reported when b went away, the middle of a line among
 * it. */
static void lose_first_attempt(struct world *w, struct follower *follower)
{
	start(w, 1, &w->b);
	say(&w->b, 1, "one\n");
	say(&w->b, 1, "tw");
	turn(w);
	assert_said(follower, 1, "one\n");
	set_down(&w->b, true);
	say(&w->b, 1, "o\nthree\n");
	say(&w->b, 1, "four");
	lose(w, 1, &w->b);
	await_gaps(follower, 1);
	assert_string_equal(follower->ends, "L1");
}

static void lines_of_a_lost_attempt_come_when_its_node_is_back(void **state)
{
	struct world w;
	struct follower live, bare;
	open_world(&w);
	follow(&w, &live, NULL, false);
	follow(&w, &bare, NULL, true);
	lose_first_attempt(&w, &live);
	start(&w, 2, &w.a);
	say(&w.a, 2, "next\n");
	turn(&w);
	set_down(&w.b, false);
	say(&w.a, 2, "more\n");
	turn(&w);
	assert_said(&live, 1, "one\ntwo\nthree\nfour\n");
	assert_said(&live, 2, "next\nmore\n");
	exits(&w, 2, &w.a);
	end_job(&w);
	await_end(&live);
	await_end(&bare);
	assert_string_equal(live.ends, "L12.");
	assert_int_equal(live.gaps, 1);
	for (uint32_t i = 0; i < live.count; i++)
		assert_string_equal(live.cursors[i], bare.cursors[i]);
	assert_cursors_go_on(&w, &live);
	leave(&live);
	leave(&bare);
	close_world(&w);
}

/* The next attempts are on the same node: theirs is behind its output, in one log. */
static void a_later_attempt_on_the_same_node_is_reported_beside_it(void **state)
{
	struct world w;
	struct follower live;
	open_world(&w);
	follow(&w, &live, NULL, false);
	lose_first_attempt(&w, &live);
	w.b.is_down = false; /* nothing was reported yet */
	start(&w, 2, &w.a);
	say(&w.a, 2, "elsewhere\n");
	exits(&w, 2, &w.a);
	say(&w.b, 3, "again\n");
	start(&w, 3, &w.b);
	turn(&w);
	set_down(&w.b, false);
	turn(&w);
	assert_said(&live, 1, "one\ntwo\nthree\nfour\n");
	assert_said(&live, 3, "again\n");
	say(&w.b, 3, "and again\n");
	turn(&w);
	lose(&w, 3, &w.b);
	say(&w.b, 4, "at once\n");
	start(&w, 4, &w.b);
	turn(&w);
	exits(&w, 4, &w.b);
	end_job(&w);
	await_end(&live);
	assert_said(&live, 1, "one\ntwo\nthree\nfour\n");
	assert_said(&live, 2, "elsewhere\n");
	assert_said(&live, 3, "again\nand again\n");
	assert_said(&live, 4, "at once\n");
	assert_cursors_go_on(&w, &live);
	leave(&live);
	close_world(&w);
}

/* Where an attempt ended is known, but its node has gone before all was read. */
static void lines_of_an_ended_attempt_come_when_its_node_is_back(void **state)
{
	struct world w;
	struct follower live;
	open_world(&w);
	follow(&w, &live, NULL, false);
	start(&w, 1, &w.b);
	say(&w.b, 1, "one\n");
	turn(&w);
	set_down(&w.b, true);
	say(&w.b, 1, "two\n");
	say(&w.b, 1, "half");
	exits(&w, 1, &w.b);
	await_gaps(&live, 1);
	say(&w.b, 2, "not of the first\n");
	set_down(&w.b, false);
	turn(&w);
	assert_said(&live, 1, "one\ntwo\nhalf\n");
	start(&w, 2, &w.b);
	exits(&w, 2, &w.b);
	end_job(&w);
	await_end(&live);
	assert_said(&live, 1, "one\ntwo\nhalf\n");
	assert_said(&live, 2, "not of the first\n");
	assert_cursors_go_on(&w, &live);
	leave(&live);
	close_world(&w);
}

/* The end of the job waits a moment, not for ever; what is missing then was said. */
static void the_end_of_the_job_does_not_wait_for_a_node_that_stays_away(void **state)
{
	struct world w;
	struct follower live;
	open_world(&w);
	follow(&w, &live, NULL, false);
	lose_first_attempt(&w, &live);
	start(&w, 2, &w.a);
	say(&w.a, 2, "next\n");
	exits(&w, 2, &w.a);
	end_job(&w);
	await_end(&live);
	assert_int_equal(live.gaps, 1);
	assert_said(&live, 1, "one\n");
	set_down(&w.b, false);
	assert_cursors_go_on(&w, &live);
	leave(&live);
	close_world(&w);
}

/* The node was back, and went away again before all was reported: that is reported anew. */
static void what_is_missing_at_the_end_is_reported(void **state)
{
	struct world w;
	struct follower live;
	open_world(&w);
	follow(&w, &live, NULL, false);
	lose_first_attempt(&w, &live);
	w.b.most = 3;
	set_down(&w.b, false);
	turn(&w);
	assert_said(&live, 1, "one\ntwo\nthree\n");
	assert_int_equal(live.gaps, 1);
	end_job(&w);
	await_end(&live);
	assert_int_equal(live.gaps, 2);
	w.b.most = 0;
	assert_cursors_go_on(&w, &live);
	leave(&live);
	close_world(&w);
}

/* There is nothing that could say when it is back. */
static void a_node_that_is_no_member_is_queried_again_at_the_end(void **state)
{
	struct world w;
	struct follower live;
	open_world(&w);
	follow(&w, &live, NULL, false);
	start(&w, 1, &w.b);
	w.b.is_unknown = true;
	say(&w.b, 1, "one\n");
	lose(&w, 1, &w.b);
	await_gaps(&live, 1);
	w.b.is_unknown = false;
	end_job(&w);
	await_end(&live);
	assert_said(&live, 1, "one\n");
	assert_cursors_go_on(&w, &live);
	leave(&live);
	close_world(&w);
}

/* ---- logs that are read at the same time */

static uint32_t first_lines, second_lines;
static uint32_t first_lines_before; /* when the second subscription reported its first line */

static void count_line(void *user, const tfc_event *event)
{
	if (event->kind != TFC_EVENT_OUTPUT)
		return;
	if (user == &second_lines && !second_lines)
		first_lines_before = first_lines;
	++*(uint32_t *)user;
}

/* Lines for another process are reported in batches, of which a turn has many. */
static void a_subscription_with_much_output_yields_to_one_that_waits(void **state)
{
	enum { LINES = 20000 };
	static const tfc_subscribe_options options = {.size = sizeof(options)};
	static char text[2 * LINES + 1];
	tfc_error error = TFC_ERROR_INIT;
	tfc_sub *first, *second;
	struct world w;
	open_world(&w);
	for (size_t i = 0; i < 2 * LINES; i++)
		text[i] = i % 2 ? '\n' : 'x';
	start(&w, 1, &w.a);
	say(&w.a, 1, text);
	reading.count += LOGS_READ_MAX - 1;
	first_lines = second_lines = 0;
	assert_int_equal(tfc__local_subscribe(w.ctx, NULL, &reading, w.record, &options, true,
					      count_line, &first_lines, &error, &first),
			 TFC_OK);
	assert_int_equal(tfc__local_subscribe(w.ctx, NULL, &reading, w.record, &options, true,
					      count_line, &second_lines, &error, &second),
			 TFC_OK);
	turn(&w);
	assert_in_range(first_lines_before, 1, LINES / 2);
	assert_int_equal(first_lines, LINES);
	assert_int_equal(second_lines, LINES);
	tfc_sub_close(first);
	tfc_sub_close(second);
	assert_int_equal(reading.count, LOGS_READ_MAX - 1);
	reading.count = 0;
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_a_lost_attempt_come_when_its_node_is_back),
		cmocka_unit_test(a_later_attempt_on_the_same_node_is_reported_beside_it),
		cmocka_unit_test(lines_of_an_ended_attempt_come_when_its_node_is_back),
		cmocka_unit_test(the_end_of_the_job_does_not_wait_for_a_node_that_stays_away),
		cmocka_unit_test(what_is_missing_at_the_end_is_reported),
		cmocka_unit_test(a_node_that_is_no_member_is_queried_again_at_the_end),
		cmocka_unit_test(a_subscription_with_much_output_yields_to_one_that_waits),
	};
	return cmocka_run_group_tests_name("gateway_missing", tests, NULL, NULL);
}
