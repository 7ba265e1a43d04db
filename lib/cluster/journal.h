/*
 * What a job has said: its events in order, except for output, which is in the logs. Subscribers
 * read it by number, from the first entry on, at their own pace.
 */
#ifndef TFC_CLUSTER_JOURNAL_H
#define TFC_CLUSTER_JOURNAL_H

#include "base/list.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/gateway.h>

struct tfc__journal_entry {
	uint32_t kind; /* TFC_EVENT_JOB, TASK or END */
	uint32_t job_state;
	uint32_t generation;
	uint32_t task; /* number in the job; UINT32_MAX: none */
	uint32_t attempt;
	uint32_t task_state;
	int32_t pid;
	uint32_t reason;
	int32_t status;
	uint32_t exit_reason; /* TASK in a terminal state: enum tfc_exit_reason */
	uint32_t isolation;   /* TASK that has started: enum tfc_isolation */
	uint64_t time_ns;     /* CLOCK_REALTIME */
	uint64_t log_end;     /* TASK in a terminal state: its output ends here */
	uint64_t log_gap;     /* and this many bytes more are missing behind it */
	uint64_t user_us;
	uint64_t system_us;
	uint64_t max_rss_kib;
	char *node;      /* TASK, END: the name of the task's node; or "" */
	char *address;   /* TASK: or "" */
	char *text;      /* or "" */
	char **log_tail; /* END: or NULL */
};

/* Embedded in a reader; fn is called, in dispatch, after an entry was added. */
struct tfc__journal_reader {
	struct tfc__link link;
	void (*fn)(struct tfc__journal_reader *reader);
};

struct tfc__journal {
	struct tfc__journal_entry *entries;
	uint32_t count;
	uint32_t capacity;
	struct tfc__link readers;
	uint32_t *last_ends; /* per task: number of the entry that ended its latest attempt, + 1 */
	uint32_t task_count; /* of last_ends */
	uint32_t promised;   /* ends of attempts for which places are kept free */
};

/* TFC_OK, or TFC_ENOMEM: fit for tfc__journal_fini in any case. */
int tfc__journal_init(struct tfc__journal *journal);
void tfc__journal_fini(struct tfc__journal *journal);

/*
 * Keeps places free for the ends of attempts: two for each task, so that after an attempt's end
 * that of the next, which may not even begin, can be told as well. Called before every launch.
 * TFC_OK, or TFC_ENOMEM: then the launch is refused, and that end still has its place.
 */
int tfc__journal_promise(struct tfc__journal *journal, uint32_t task_count);

/*
 * Adds a copy and tells the readers; text and address may be NULL; log_tail is taken over. Out of
 * memory is TFC_ENOMEM, and nothing is told; but never for a first END and the promised ends of
 * attempts: they may come without their text and address then, but they come.
 */
int tfc__journal_add(struct tfc__journal *journal, const struct tfc__journal_entry *entry);

/* The entry that ended the latest attempt of a task, or NULL. Borrowed: until the next is added. */
const struct tfc__journal_entry *tfc__journal_last_end(const struct tfc__journal *journal,
						       uint32_t task);

/* Whether a task state ends an attempt. */
bool tfc__task_state_is_terminal(uint32_t state);

#endif
