/*
 * The journal of a job: its events in order, except output, which is in the logs. Subscribers read
 * it by number, from the first entry on, at their own pace.
 *
 * The journal also defines the state of the job: the digest is computed from its entries, now and
 * after a restart of the node. An entry is therefore not shown to readers before it is stored: if
 * there is a writer, new entries wait for it.
 */
#ifndef TFC_CLUSTER_JOURNAL_H
#define TFC_CLUSTER_JOURNAL_H

#include "agent/task.h"
#include "base/observers.h"
#include "proc/will.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/gateway.h>

struct tfc__journal_entry {
	uint32_t kind; /* TFC_EVENT_JOB, TASK or END */
	uint32_t job_state;
	uint32_t generation;
	uint64_t epoch; /* of the maintainer that added the entry */
	uint32_t task;  /* the task's number in the job; UINT32_MAX: none */
	uint32_t attempt;
	uint32_t task_state;
	int32_t pid;
	uint32_t reason;
	uint32_t isolation;    /* TASK that has started: enum tfc_isolation */
	uint64_t memory_limit; /* ... the limit in force, bytes; 0: none */
	uint64_t time_ns;      /* CLOCK_REALTIME */
	/* TASK in a terminal state. Its log_end is UINT64_MAX if that is unknown: the task was lost
	 * and its output ends where its log ends. Stored are reason, status, usage, log_end and
	 * log_gap; time_ns is on the core's clock. JOB and END have only the status. */
	struct tfc__attempt_end end;
	struct tfc__will_key will; /* TASK, starting: the last will that covers the attempt */
	char *node;                /* TASK, END: the name of the task's node; or "" */
	char *address;             /* TASK: or "" */
	char *text;                /* or "" */
	char **log_tail;           /* END: or NULL */
	char *error_line;          /* END: or "" */
	char **ignored_failures;   /* END: a text for each; or NULL */
};

/* Readers are notified of these in dispatch. */
enum tfc__journal_event {
	TFC__JOURNAL_SHOWN = 1, /* entries were added to the shown ones */
	TFC__JOURNAL_BLOCKED, /* entries could not be stored; the record's keeper has the reason */
	/* the job was removed, and with it the journal: after this no reader may use it */
	TFC__JOURNAL_FORGOTTEN,
};

/* The state of a task according to the shown entries. Strings live as long as the journal. */
struct tfc__journal_task {
	/* enum tfc_task_state; pending if there is no entry about it; always terminal after END */
	uint32_t state;
	uint32_t attempt;
	uint32_t generation;
	int32_t pid;        /* of a running attempt, else 0 */
	uint32_t isolation; /* this and the next: of the last attempt that started */
	uint64_t memory_limit;
	uint64_t started_ns; /* CLOCK_REALTIME when the attempt's program ran first; 0: not yet */
	bool is_done;        /* the last attempt ended by itself with exit code 0 */
	uint32_t last_end;   /* number of the entry that ended the latest attempt, + 1 */
	struct tfc__will_key will; /* covers the attempt; incarnation 0: none does */
	const char *node;
	const char *address;
};

/* Called after an entry was added that is not shown yet. tfc__journal_show is called later. */
struct tfc__journal_writer {
	void (*fn)(struct tfc__journal_writer *writer);
};

struct tfc__journal {
	struct tfc__journal_entry *entries;
	uint32_t count; /* entries shown */
	uint32_t added; /* entries added */
	uint32_t capacity;
	struct tfc__observers readers;      /* of enum tfc__journal_event */
	struct tfc__journal_writer *writer; /* NULL: entries are shown at once */
	uint32_t promised;                  /* ends of attempts for which space is reserved */
	/* The digest. */
	uint32_t job_state; /* enum tfc_job_state; pending at first */
	uint32_t generation;
	uint32_t last_of_job;      /* number of the last entry about the whole job, + 1; 0: none */
	uint32_t ready;            /* tasks that are ready */
	uint64_t restarts;         /* attempts after the first, of all tasks */
	uint64_t incidents;        /* what caused them: see journal_count_incident */
	uint32_t generation_begin; /* number of the first entry of the generation */
	uint32_t counted_generation; /* the latest whose start was counted as an incident */
	uint64_t started_ns; /* CLOCK_REALTIME of the first entry of a running job; 0: none */
	struct tfc__journal_task *tasks; /* see tfc__journal_task */
	uint32_t task_count;
};

/* Returns TFC_OK or TFC_ENOMEM. tfc__journal_fini may be called in either case. */
int tfc__journal_init(struct tfc__journal *journal);
void tfc__journal_fini(struct tfc__journal *journal);

/*
 * Reserves space for the ends of attempts. Each task has two: after the end of an attempt, that of
 * the next attempt, which may not even start, can be added as well. Called before every launch.
 * Returns TFC_OK, or TFC_ENOMEM: the launch must be refused, and the end of that attempt still has
 * its space.
 */
int tfc__journal_promise(struct tfc__journal *journal, uint32_t task_count);

/*
 * Adds a copy of an entry and notifies the writer or the readers. node, address, text and
 * error_line may be NULL; log_tail and ignored_failures are acquired. Returns TFC_ENOMEM and
 * notifies nobody if out of memory. A first END and the reserved ends of attempts never fail; their
 * text, address and error_line may be missing.
 */
int tfc__journal_add(struct tfc__journal *journal, const struct tfc__journal_entry *entry);

/* Shows the first `count` entries: updates the digest and notifies the readers. */
void tfc__journal_show(struct tfc__journal *journal, uint32_t count);

/* The state of a task; never NULL. Borrowed until the next entry is added. */
const struct tfc__journal_task *tfc__journal_task(const struct tfc__journal *journal,
						  uint32_t task);

/* The entry that ended the latest attempt of a task, or NULL. Borrowed until the next entry is
 * added. */
const struct tfc__journal_entry *tfc__journal_last_end(const struct tfc__journal *journal,
						       uint32_t task);

/* The last shown entry about the whole job, or NULL. Borrowed until the next entry is added. */
const struct tfc__journal_entry *tfc__journal_last_of_job(const struct tfc__journal *journal);

/* Whether the job has ended, as far as the journal is shown. */
static inline bool tfc__journal_has_ended(const struct tfc__journal *journal)
{
	return journal->job_state >= TFC_JOB_SUCCEEDED;
}

/* What the status of an entry is about an end; the others are 0. */
struct tfc__journal_exit {
	int32_t code;
	int32_t signal;
	int32_t error; /* enum tfc_err */
};
struct tfc__journal_exit tfc__journal_exit(const struct tfc__journal_entry *entry);

/* Whether a task state ends an attempt. */
bool tfc__task_state_is_terminal(uint32_t state);

#endif
