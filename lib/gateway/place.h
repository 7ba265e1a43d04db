/*
 * The position of a subscription: it has reported the journal entries before `next` and, of each
 * task's output, what lies before the task's line cursor. Where a task has no line cursor, the
 * position follows from the journal: the output of its ended attempts was reported, and none of a
 * later attempt.
 *
 * Output of an ended attempt may still be missing because its node is unreachable. Then the entry
 * that ended the attempt also has a line cursor, until the missing output was reported.
 *
 * As text, the position is the cursor that events carry; it is the same on every node: "NEXT[g]",
 * then for each task with a line cursor "_TASK." and the line cursor, which is "POSITION[+SKIP]"
 * for both streams, or one for stdout, ',' and one for stderr, and ';' and one for reports where it
 * is not the later one of the others; and for each such entry "~ENTRY." and its line cursor.
 * Numbers are hexadecimal.
 */
#ifndef TFC_GATEWAY_PLACE_H
#define TFC_GATEWAY_PLACE_H

#include "cluster/changes.h"
#include "log/lines.h"

#define TFC__CURSOR_TEXT_SIZE 104 /* six numbers, five separators, a NUL */

/* The text of a line cursor; "" for none. */
struct tfc__cursor_text {
	char text[TFC__CURSOR_TEXT_SIZE];
};

/* The change of a subscription's position by the event that is being reported. */
struct tfc__mark {
	uint32_t next;
	bool is_gap_reported;
	uint32_t task;       /* OUTPUT and GAP: the task with a new line cursor; else UINT32_MAX */
	uint32_t ended_task; /* the task whose attempt ended and whose line cursor is removed; else
				UINT32_MAX */
	uint32_t missing;    /* the entry with a new line cursor; else UINT32_MAX */
	uint32_t missing_over; /* the entry whose line cursor is removed; else UINT32_MAX */
	struct tfc__lines_cursor cursor; /* of `task`, or of `missing` */
	/* Of a watch: the change of its position for the event's node. */
	enum tfc__watch_mark {
		TFC__WATCH_NONE,   /* it is no watch */
		TFC__WATCH_KEEP,   /* no change */
		TFC__WATCH_SET,    /* the position is `at` */
		TFC__WATCH_REMOVE, /* nothing is known of the node any more */
	} watch;
	struct tfc__changes_position at;
};

extern const struct tfc__mark tfc__no_mark; /* no change */

/* The missing output of the attempt that an entry ended. */
struct tfc__place_missing {
	uint32_t entry;
	struct tfc__lines_cursor cursor;
};

struct tfc__place_task {
	struct tfc__lines_cursor cursor;
	uint32_t text_at, text_len; /* of a task with a line cursor: its part of the text */
};

struct tfc__place {
	uint32_t next;
	bool is_gap_reported; /* the gap that belongs to entry `next`, the end of an attempt, was
			     reported too */
	uint32_t task_count;
	struct tfc__place_task *tasks;
	uint64_t *has_cursor;               /* a bit per task: few tasks have a line cursor */
	uint64_t *has_any;                  /* a bit per word of has_cursor: it is not 0 */
	struct tfc__place_missing *missing; /* sorted by entry */
	uint32_t missing_count;
	struct tfc__buf text; /* space for NEXT and 'g', then the parts of tasks and entries */
	bool is_text_current; /* it has the parts */
};

/* A zeroed place is valid and is the beginning. Allocates the line cursors of task_count tasks:
 * TFC_OK or TFC_ENOMEM. */
int tfc__place_reserve(struct tfc__place *place, uint32_t task_count);
/* Sets the line cursor of a task below task_count; NULL removes it. */
void tfc__place_set(struct tfc__place *place, uint32_t task,
		    const struct tfc__lines_cursor *cursor);
/* The line cursor of a task, or NULL. Valid until the place changes. */
static inline const struct tfc__lines_cursor *tfc__place_cursor(const struct tfc__place *place,
								uint32_t task)
{
	bool has_cursor = task < place->task_count && place->has_cursor[task / 64] >> task % 64 & 1;
	return has_cursor ? &place->tasks[task].cursor : NULL;
}
/* Applies a mark: TFC_OK; TFC_ENOMEM: the place is unchanged. */
int tfc__place_apply(struct tfc__place *place, const struct tfc__mark *mark);
/* Sets the line cursor of an entry; replacing a line cursor allocates nothing. TFC_OK or
 * TFC_ENOMEM. */
int tfc__place_set_missing(struct tfc__place *place, uint32_t entry,
			   const struct tfc__lines_cursor *cursor);
void tfc__place_fini(struct tfc__place *place);

/* Allocated bytes. */
size_t tfc__place_bytes(const struct tfc__place *place);

/* The cursor; "" when out of memory. Valid until the place changes. After a change of one task,
 * only that task's part is written anew. */
const char *tfc__place_text(struct tfc__place *place);

/* Parses a cursor into a zeroed place, and allocates line cursors for the tasks that have one.
 * TFC_OK, TFC_EINVAL (not in the form that tfc__place_text writes, or a task not below task_count),
 * TFC_ENOMEM. Call tfc__place_fini in any case. */
int tfc__place_read(struct tfc__place *place, uint32_t task_count, const char *text);

void tfc__cursor_write(struct tfc__cursor_text *text, const struct tfc__lines_cursor *cursor);
bool tfc__cursor_read(const char *text, struct tfc__lines_cursor *ret_cursor);

#endif
