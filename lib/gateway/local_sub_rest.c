/*
 * The rest of an attempt's output: its end was told while the node that has it was away. It is told
 * behind that end, when the node is back; the attempt's number says whose it is. In the log it ends
 * where the attempt ended or, when nobody knows where that was, in front of the next attempt.
 */
#include "gateway/internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

/* A node that is no member does not say that it is back. */
#define ASK_AGAIN (10 * TFC__SECOND)

void tfc__rest_tell_missed(struct local_sub *sub, struct followed *task,
			   const struct tfc__journal_entry *end)
{
	char text[128];
	const struct tfc__line line = {
		.stream = TFC_STREAM_GAP,
		.attempt = end->attempt,
		.time_ns = end->time_ns,
		.cursor = tfc__lines_cursor(&task->lines),
	};
	snprintf(text, sizeof(text), "the rest of its output is on node %.60s, which is down",
		 tfc__followed_node(sub, task));
	task->is_missed = true;
	tfc__local_tell_line(sub, task, &line, text);
}

/* The entry that began what entry `number` ended; where there is none, that one. */
static uint32_t begin_of(const struct local_sub *sub, uint32_t number)
{
	const struct tfc__journal_entry *end = tfc__local_entry(sub, number);
	for (uint32_t i = number; i-- > 0;) {
		const struct tfc__journal_entry *entry = tfc__local_entry(sub, i);
		if (entry->kind == TFC_EVENT_TASK && entry->task == end->task &&
		    entry->attempt == end->attempt && entry->node[0])
			return i;
	}
	return number;
}

static struct followed *new_rest(struct local_sub *sub, uint32_t number,
				 const struct tfc__lines_cursor *cursor)
{
	const struct tfc__journal_entry *end = tfc__local_entry(sub, number);
	struct followed *rest = calloc(1, sizeof(*rest));
	if (!rest)
		return NULL;
	rest->sub = sub;
	rest->task = end->task;
	rest->end_entry = number + 1;
	rest->place_entry = begin_of(sub, number) + 1;
	rest->is_missed = true;
	tfc__lines_init(&rest->lines, cursor);
	rest->lines.attempt = end->attempt;
	sub->base.held += sizeof(*rest);
	tfc__list_init(&rest->grown);
	tfc__list_init(&rest->reading);
	tfc__list_append(&sub->rests, &rest->rest);
	tfc__followed_mark_grown(rest);
	return rest;
}

int tfc__rest_begin(struct local_sub *sub, uint32_t number, const struct tfc__lines_cursor *cursor)
{
	struct tfc__mark *mark = &sub->mark;
	tfc__piece_write(&mark->piece, cursor);
	if ((!sub->is_bare && tfc__place_set_rest(&sub->place, number, &mark->piece) < 0) ||
	    !new_rest(sub, number, cursor))
		return TFC_ENOMEM;
	mark->rest = number;
	return TFC_OK;
}

void tfc__rest_end(struct followed *rest)
{
	tfc__followed_park(rest);
	tfc__lines_fini(&rest->lines);
	tfc__followed_count(rest);
	rest->sub->base.held -= sizeof(*rest);
	tfc__list_remove(&rest->grown);
	tfc__list_remove(&rest->rest);
	rest->sub->mark.rest_over = rest->end_entry - 1;
	free(rest);
}

int tfc__rest_read_line(struct local_sub *sub, struct followed *rest)
{
	int code = tfc__followed_read_end(sub, rest, tfc__local_entry(sub, rest->end_entry - 1));
	if (code > 0)
		rest->is_missed = false;
	if (code == TFC_ELOST && !rest->lines.source && !sub->retry.at)
		tfc__timer_set(&sub->retry, tfc__now() + ASK_AGAIN);
	if (code == 0)
		tfc__rest_end(rest);
	return code;
}

void tfc__rests_try_again(struct local_sub *sub)
{
	TFC__LIST_EACH (link, &sub->rests)
		if (!tfc__rest_of(link)->lines.source)
			tfc__followed_mark_grown(tfc__rest_of(link));
}
