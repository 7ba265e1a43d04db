/*
 * Shared by the files that implement a subscription to a job of this node: local_sub.c merges the
 * journal with the output and turns both into events; local_output.c reads the output.
 */
#ifndef TFC_GATEWAY_INTERNAL_H
#define TFC_GATEWAY_INTERNAL_H

#include "gateway/event_wire.h"
#include "gateway/gateway.h"

/* The logs that the subscriptions of a gateway are reading. Each is an open file and a buffer, so
 * their number is limited. Zeroed initially. */
struct tfc__local_reading {
	uint32_t count;
	struct tfc__link waiting; /* subscriptions that wait to open one more log */
};

/* The output of a task; or the missing output of an ended attempt, whose node was unreachable (in
 * sub->missing). */
struct followed {
	struct local_sub *sub;
	uint32_t task;
	/* Missing output: the journal entry that ended the attempt, + 1; else 0. */
	uint32_t end_entry;
	struct tfc__link missing_link; /* in sub->missing */
	struct tfc__lines lines;
	struct tfc__link grown; /* in sub->grown while there may be more to read */
	/* The journal entry that names the attempt and its node, + 1; 0: none. */
	uint32_t place_entry;
	struct tfc__link reading; /* in sub->reading if the last read found a line */
	size_t held;              /* what tfc__lines_bytes returned last */
	bool is_coming;           /* the last read returned TFC_EAGAIN: more output is on its way */
	bool is_damage_reported;  /* damage was logged; cleared when a line can be read again */
	bool is_missed;           /* missing output: reported as missing, and no line of it since */
};

struct local_sub {
	tfc_sub base;
	struct tfc__record *record;
	struct tfc__observer reader; /* of the journal */
	struct followed *tasks;      /* NULL: neither output nor reports are read */
	uint32_t task_count;
	struct tfc__link reading;               /* tasks whose log is being read */
	struct tfc__local_reading *all_reading; /* of its gateway; valid until detach */
	struct tfc__link waiting;               /* in all_reading->waiting */
	uint32_t turns;                         /* of reading while other subscriptions waited */
	/* In this turn. Each counts as a turn, because it has as many lines. */
	uint32_t whole_batches;
	uint32_t coming; /* tasks with is_coming */
	struct tfc__link grown;
	struct tfc__link missing;
	uint32_t lines_reported; /* of the first task in grown, in the current turn */
	struct tfc__place place;
	struct tfc__sub_event now; /* being reported; its mark is collected before */
	uint32_t job_state;        /* enum tfc_job_state, as of the last reported entry */
	struct tfc__timer retry;   /* set when out of memory, or while a node is unreachable */
	uint32_t tries;            /* consecutive failed attempts to read */
	uint64_t lost_since;       /* when the end of an attempt began to wait for a node, or 0 */
	bool is_bare;
	bool is_established; /* and this was reported */
	bool wants_live;     /* and LIVE was not reported yet */
	bool wants_progress;
	bool skips_output;
	bool has_cursors;      /* its events have cursors */
	bool wants_reports;    /* and the job has reports */
	bool is_store_checked; /* since the journal notified last: `blocked` is up to date */
	char *blocked;         /* the last report that events wait to be stored; NULL: none */
	bool was_removed;      /* the job was forgotten: record is NULL */
	char job[17];
};

static inline const struct tfc__journal_entry *tfc__local_entry(const struct local_sub *sub,
								uint32_t number)
{
	return &sub->record->journal.entries[number];
}

static inline struct followed *tfc__missing_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct followed, missing_link);
}

static inline bool tfc__ends_attempt(const struct tfc__journal_entry *entry)
{
	return entry->kind == TFC_EVENT_TASK && tfc__task_state_is_terminal(entry->task_state);
}

/* ---- local_sub.c */

/* Without is_bare, events have cursors. With is_bare, they are sent to another process, and
 * tfc__sub_event has their marks. */
int tfc__local_subscribe(tfc_ctx *ctx, struct tfc__link *list, struct tfc__local_reading *reading,
			 struct tfc__record *record, const tfc_subscribe_options *options,
			 bool is_bare, tfc_event_fn fn, void *user, tfc_error *error,
			 tfc_sub **ret_sub);

/* Reports a line or a gap of a task. text: a description of the gap, or "". */
void tfc__local_report_line(struct local_sub *sub, const struct followed *task,
			    const struct tfc__line *line, const char *text);

/* ---- local_output.c */

/* The node that has the task's output; "" before the task has begun. */
const char *tfc__followed_node(const struct local_sub *sub, const struct followed *task);

/* Whether a task's log may be read now. If not, the subscription is woken when it may. */
bool tfc__local_may_read(struct local_sub *sub, struct followed *task);
/* Closes the logs that are being read; reading resumes later from the same position. is_suspended:
 * the subscription is paused. Otherwise a turn has ended, and the logs are closed only if other
 * subscriptions have waited for many turns. */
void tfc__local_suspend(tfc_sub *base, bool is_suspended);
/* Closes the log. It is reopened at the same position. */
void tfc__followed_park(struct followed *task);
/* Begins to read behind the cursor; NULL: from the start. */
void tfc__followed_begin(struct followed *task, const struct tfc__lines_cursor *cursor);
/* Reading continues at `position`; all output before it was reported. */
void tfc__followed_read_from(struct followed *task, uint64_t position);

/* Call when an entry is reported, and for each entry before the cursor at which the subscription
 * begins. */
void tfc__local_note_entry(struct local_sub *sub, uint32_t number);

/* Reports one line of a task's log that begins before `until`. Returns 1; 0: no line now;
 * TFC_ENOMEM or TFC_ELOST: try again later; TFC_EAGAIN: the subscription is woken when there is
 * more. A damaged log is not read further, and the damage is logged. */
int tfc__followed_read_line(struct local_sub *sub, struct followed *task, uint64_t until);
/* The same up to the attempt's end, including an unterminated last line and a gap for what is
 * missing. 0: everything was reported. */
int tfc__followed_read_end(struct local_sub *sub, struct followed *task,
			   const struct tfc__journal_entry *end);
/* Skips the unread output before the attempt's end. Returns 1 and reports a gap, or 0 if nothing
 * was skipped. */
int tfc__followed_skip_end(struct local_sub *sub, struct followed *task,
			   const struct tfc__journal_entry *end);

/* Reports that the missing output of an attempt is unavailable at present. */
void tfc__missing_report(struct local_sub *sub, struct followed *task,
			 const struct tfc__journal_entry *end);
/* Follows the missing output of the attempt that entry `number` ended, from `cursor` on. TFC_OK or
 * TFC_ENOMEM. */
int tfc__missing_begin(struct local_sub *sub, uint32_t number,
		       const struct tfc__lines_cursor *cursor);
void tfc__missing_end(struct followed *missing);
/* Reports one line of missing output; returns as tfc__followed_read_line. At the end of the output,
 * frees `missing`. */
int tfc__missing_read_line(struct local_sub *sub, struct followed *missing);
/* Tries again to open the logs of missing output whose nodes could not be reached. */
void tfc__missing_retry(struct local_sub *sub);

#endif
