/*
 * What a job has said: its events in order, except for output, which is in the logs. Subscribers
 * read it by number, from the first entry on, at their own pace.
 *
 * It is also the truth about the job: how it stands is what its entries say (the digest), now and
 * after the node has come back. So an entry is shown to nobody before it is kept: with a writer,
 * entries wait until it has stored them.
 */
#ifndef TFC_CLUSTER_JOURNAL_H
#define TFC_CLUSTER_JOURNAL_H

#include "base/observers.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/gateway.h>

struct tfc__journal_entry {
	uint32_t kind; /* TFC_EVENT_JOB, TASK or END */
	uint32_t job_state;
	uint32_t generation;
	uint64_t epoch; /* the term of the maintainer that added it */
	uint32_t task;  /* number in the job; UINT32_MAX: none */
	uint32_t attempt;
	uint32_t task_state;
	int32_t pid;
	uint32_t reason;
	int32_t status;
	uint32_t exit_reason; /* TASK in a terminal state: enum tfc_exit_reason */
	uint32_t isolation;   /* TASK that has started: enum tfc_isolation */
	uint64_t time_ns;     /* CLOCK_REALTIME */
	uint64_t log_end;     /* TASK in a terminal state: its output ends here; UINT64_MAX: where
				 its log ends, whenever that can be read: it was lost */
	uint64_t log_gap;     /* and this many bytes more are missing behind it */
	uint64_t user_us;
	uint64_t system_us;
	uint64_t max_rss_kib;
	char *node;              /* TASK, END: the name of the task's node; or "" */
	char *address;           /* TASK: or "" */
	char *text;              /* or "" */
	char **log_tail;         /* END: or NULL */
	char **ignored_failures; /* END: a sentence of each; or NULL */
};

/* What readers are notified of, in dispatch. */
enum tfc__journal_event {
	TFC__JOURNAL_SHOWN = 1, /* more entries */
	TFC__JOURNAL_FORGOTTEN, /* the job, and with it the journal: no reader is in it any more
				   after this */
};

/* How a task stands, by the entries that are shown. Strings live as long as the journal. */
struct tfc__journal_task {
	uint32_t state; /* enum tfc_task_state; pending when nothing was told of it; after END
			   always a terminal one */
	uint32_t attempt;
	uint32_t generation;
	int32_t pid;        /* of a running attempt, else 0 */
	uint32_t isolation; /* of the last attempt that has started */
	bool is_done;       /* the last attempt ended by itself with exit code 0 */
	uint32_t last_end;  /* number of the entry that ended the latest attempt, + 1 */
	const char *node;
	const char *address;
};

/* Called after an entry was added that nobody is shown yet: tfc__journal_show comes some time. */
struct tfc__journal_writer {
	void (*fn)(struct tfc__journal_writer *writer);
};

struct tfc__journal {
	struct tfc__journal_entry *entries;
	uint32_t count; /* entries that are shown */
	uint32_t added; /* entries that are there */
	uint32_t capacity;
	struct tfc__observers readers;      /* of enum tfc__journal_event */
	struct tfc__journal_writer *writer; /* NULL: entries are shown at once */
	uint32_t promised;                  /* ends of attempts for which places are kept free */
	/* The digest. */
	uint32_t job_state; /* enum tfc_job_state; pending at first */
	uint32_t generation;
	uint32_t said;     /* number of the latest entry about the whole job, + 1; 0: none */
	uint32_t ready;    /* tasks that are ready */
	uint64_t restarts; /* attempts behind the first, of all tasks */
	struct tfc__journal_task *tasks; /* see tfc__journal_task */
	uint32_t task_count;
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
 * Adds a copy, and tells the writer or the readers; node, text and address may be NULL; log_tail is
 * taken over. Out of memory is TFC_ENOMEM, and nothing is told; but never for a first END and the
 * promised ends of attempts: they may come without their text and address then, but they come.
 */
int tfc__journal_add(struct tfc__journal *journal, const struct tfc__journal_entry *entry);

/* Shows the first `count` entries: takes them into the digest and tells the readers. */
void tfc__journal_show(struct tfc__journal *journal, uint32_t count);

/* How a task stands; never NULL. Borrowed: until the next entry is added. */
const struct tfc__journal_task *tfc__journal_task(const struct tfc__journal *journal,
						  uint32_t task);

/* The entry that ended the latest attempt of a task, or NULL. Borrowed: until the next is added. */
const struct tfc__journal_entry *tfc__journal_last_end(const struct tfc__journal *journal,
						       uint32_t task);

/* Whether a task state ends an attempt. */
bool tfc__task_state_is_terminal(uint32_t state);

#endif
