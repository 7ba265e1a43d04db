/*
 * Between the files of a subscription to a job of this node: local_sub.c merges the journal and the
 * output, and makes events of them; local_output.c reads the output.
 */
#ifndef TFC_GATEWAY_INTERNAL_H
#define TFC_GATEWAY_INTERNAL_H

#include "gateway/gateway.h"
#include "gateway/place.h"

/* Logs in the middle of being read, over all subscriptions of a gateway: each is a file that is
 * open, and a buffer, so there are only so many. Zeroed at first. */
struct tfc__local_reading {
	uint32_t count;
	struct tfc__link waiting; /* subscriptions that would read one more */
};

/* A task's output; or the rest of an attempt's that has ended, whose node was away (in sub->rests).
 */
struct followed {
	struct local_sub *sub;
	uint32_t task;
	uint32_t end_entry; /* a rest: the journal entry that ended it, + 1; else 0 */
	struct tfc__link rest;
	struct tfc__lines lines;
	struct tfc__link grown; /* in sub->grown while there may be more to read */
	uint32_t place_entry;   /* the journal entry that says which attempt it is of, and on which
				   node, + 1; 0: none */
	struct tfc__link reading; /* in sub->reading: there was more when it was read last */
	size_t held;              /* what tfc__lines_bytes said last */
	bool is_coming;           /* more is on its way */
	bool is_damage_told;      /* until a line could be read again */
	bool is_missed;           /* a rest: that it is out of reach was told, and no line since */
};

struct local_sub {
	tfc_sub base;
	struct tfc__record *record;
	struct tfc__observer reader; /* of the journal */
	struct followed *tasks;      /* NULL: without output */
	uint32_t task_count;
	struct tfc__link reading;               /* tasks in the middle of being read */
	struct tfc__local_reading *all_reading; /* of its gateway; until detached */
	struct tfc__link waiting;               /* in all_reading->waiting */
	uint32_t turns;                         /* in which it has read while others waited */
	uint32_t coming;                        /* tasks with is_coming */
	struct tfc__link grown;
	struct tfc__link rests;
	uint32_t lines_told; /* of the first task in grown, in its turn */
	struct tfc__place place;
	struct tfc__mark mark;
	uint32_t job_state;      /* as the entries say that were told: enum tfc_job_state */
	struct tfc__timer retry; /* set while there is no memory to read on, or a node is lost */
	uint32_t tries;          /* in vain, one after the other */
	uint64_t lost_since;     /* when the end of an attempt began to wait for a node; 0: not */
	bool is_bare;
	bool wants_live; /* and was not told yet */
	bool is_gone;    /* somebody has forgotten the job: record is NULL */
	char job[17];
};

static inline const struct tfc__journal_entry *tfc__local_entry(const struct local_sub *sub,
								uint32_t number)
{
	return &sub->record->journal.entries[number];
}

static inline struct followed *tfc__rest_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct followed, rest);
}

static inline bool tfc__ends_attempt(const struct tfc__journal_entry *entry)
{
	return entry->kind == TFC_EVENT_TASK && tfc__task_state_is_terminal(entry->task_state);
}

/* ---- local_sub.c */

/* Without is_bare its events carry cursors; with it who passes them on asks for tfc__sub_mark. */
int tfc__local_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__local_reading *reading,
			 struct tfc__record *record, const tfc_subscribe_options *options,
			 bool is_bare, tfc_event_fn fn, void *user, tfc_error *error,
			 tfc_sub **ret_sub);

/* A line or a gap of a task; text: "", or what is known of the gap. */
void tfc__local_tell_line(struct local_sub *sub, const struct followed *task,
			  const struct tfc__line *line, const char *text);

/* ---- local_output.c */

/* The node that a task's output is on; "" before it has begun. */
const char *tfc__followed_node(const struct local_sub *sub, const struct followed *task);

/* Whether a task's log may be read now; if not, the subscription is woken when it may. */
bool tfc__local_may_read(struct local_sub *sub, struct followed *task);
/* Closes the logs in the middle of being read, to go on from there: for as long as it is paused, or
 * (a turn is over) because others have waited for long. */
void tfc__local_rest(tfc_sub *base, bool is_resting);
/* Closes the log; it is opened again where it was. */
void tfc__followed_park(struct followed *task);
/* All before `position` was told. */
void tfc__followed_read_from(struct followed *task, uint64_t position);

/* An entry is told, or lies before the cursor that the subscription begins with. */
void tfc__local_note_entry(struct local_sub *sub, uint32_t number);

/* Tells one line of a task's log that begins before `until`: 1, 0 nothing there now, TFC_ENOMEM and
 * TFC_ELOST: later, TFC_EAGAIN: it will wake us. A damaged log ends its reading, and is told. */
int tfc__followed_read_line(struct local_sub *sub, struct followed *task, uint64_t until);
/* The same up to an attempt's end, with what it did not end and what is missing: 0, all was told.
 */
int tfc__followed_read_end(struct local_sub *sub, struct followed *task,
			   const struct tfc__journal_entry *end);
/* Gives up what is there before the attempt's end: 1, and it was told as a gap, or 0. */
int tfc__followed_skip_end(struct local_sub *sub, struct followed *task,
			   const struct tfc__journal_entry *end);

/* Tells that the rest of an attempt's output cannot be had now. */
void tfc__rest_tell_missed(struct local_sub *sub, struct followed *task,
			   const struct tfc__journal_entry *end);
/* Follows the rest of the attempt that an entry ended, behind a cursor: TFC_OK or TFC_ENOMEM. */
int tfc__rest_begin(struct local_sub *sub, uint32_t number, const struct tfc__lines_cursor *cursor);
void tfc__rest_end(struct followed *rest);
/* Tells a line of it; as tfc__followed_read_line. At its end the rest is gone. */
int tfc__rest_read_line(struct local_sub *sub, struct followed *rest);
/* Those whose nodes could not even be asked are tried again. */
void tfc__rests_try_again(struct local_sub *sub);

#endif
