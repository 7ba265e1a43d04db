/*
 * Shared by producer.c (the host's calls), producer_messages.c (what consumers say) and
 * producer_tasks.c (the tasks of the job, and the connections to their consumers).
 */
#ifndef TFC_FEED_PRODUCER_H
#define TFC_FEED_PRODUCER_H

#include "feed/names.h"
#include "feed/positions.h"
#include "feed/remote.h"
#include "feed/stream.h"
#include "feed/table.h"
#include <tfcluster/feed.h>

/* A task that is fed. */
struct feed_task {
	tfc_feed_producer *producer;
	struct tfc__link link;
	char name[TFC__FEED_TASK_SIZE];
	char node[64];
	uint32_t attempt;
	bool is_running;
	bool has_exited; /* with status 0: it reads nothing any more */

	/* the way to its consumer */
	struct tfc__feed_socket broker; /* while it is looked for */
	struct tfc__feed_remote
		*remote;               /* NULL: not looked for, and not used, on another machine */
	bool is_remote;                /* its consumer was reached there */
	struct tfc__feed_remote *over; /* its node learns that the producer has left; or NULL */
	struct tfc__feed_stream *stream; /* NULL: none */
	bool is_welcome;                 /* WELCOME was received: rows can be sent */
	bool has_read;                   /* it was welcome once */
	bool is_end_sent; /* END; it stays so without a stream if the task had consumed all */
	uint64_t unreached_since; /* ns; 0: its node answers */
	uint64_t unreached_limit; /* ns: how long that may last, by what it is */
	bool was_reached;         /* its node has answered before */
	struct tfc__timer retry;
	uint32_t retries;   /* in a row, without a WELCOME */
	uint32_t shortages; /* refusals in a row because its node has no descriptor or memory */

	uint64_t rows_put;  /* in all, of its attempt */
	uint64_t rows_open; /* put, and not reported as consumed */
	bool is_terminated;

	bool is_committing;                   /* rows are done when a checkpoint has them */
	struct tfc__feed_positions committed; /* those of its checkpoint */
	uint64_t committed_rows;              /* of all of them, as it says */

	/* in step */
	bool is_in_step;
	uint64_t steps;
	bool is_step_end;
	uint64_t granted, granted_padded; /* what it was sent last */
	bool is_grant_final;
};

struct feed_partition {
	uint64_t number;
	struct feed_task *task; /* NULL: not assigned */
	uint64_t put;           /* rows */
	uint64_t most_put;      /* the most that `put` was, over all tasks that had it */
	uint64_t skip;          /* rows that its consumer has already: they are not sent */
	uint64_t done;          /* rows consumed, or committed */
	uint64_t results;       /* rows for which results came */
	uint64_t total;
	bool is_finished;
	bool is_known_whole; /* its consumer has all of it, from this producer's previous process */
	bool is_committed;   /* a checkpoint has all of it, which is `committed_total` rows */
	uint64_t committed_total;
	bool is_replaying; /* REPLAY is about to be reported */
	bool is_owed;      /* REPLAY was reported, and the host has not finished it since */
};

struct tfc_feed_producer {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	tfc_feed_fn fn;
	void *user;
	char job[64]; /* id, once it is known */
	char queue[TFC__FEED_NAME_SIZE];
	char name[TFC__FEED_NAME_SIZE];
	char only_task[TFC__FEED_TASK_SIZE]; /* "": all that train */
	uint32_t producers;
	bool wants_results;
	bool is_replayable;
	struct tfc__feed_limits limits;

	tfc_op *describing;
	tfc_sub *sub;
	struct tfc__link tasks;
	bool is_open; /* the tasks are known */
	bool has_ps;  /* it feeds the workers of parameter servers */

	struct tfc__feed_shared_schema *schema;
	struct tfc__feed_table partitions; /* not done */
	bool is_ending;                    /* tfc_feed_producer_end */
	bool is_terminated;
	bool is_over;         /* END was reported, or is about to be */
	bool is_end_reported; /* the host gets no event after END */
	bool *is_closed;      /* while the host's function runs: set by close */
	bool wants_ready;
	tfc_error failure;
	struct tfc__timer over;     /* until END is reported, though a node does not respond */
	struct tfc__work notify;    /* READY and END */
	struct tfc__work completed; /* partitions that were complete when they were finished */
};

/* producer.c */
void tfc__feed_producer_fail(tfc_feed_producer *producer, const tfc_error *why);
void tfc__feed_producer_wake(tfc_feed_producer *producer);
/* Calls the host. Returns false if it has closed the producer. */
bool tfc__feed_producer_report(tfc_feed_producer *producer, tfc_feed_event *event);
/* Reports END if all partitions are done, after tfc_feed_producer_end. */
void tfc__feed_producer_check_end(tfc_feed_producer *producer);
/* NULL: out of memory. */
struct feed_partition *tfc__feed_partition_add(tfc_feed_producer *producer, uint64_t number);
void tfc__feed_partition_free(tfc_feed_producer *producer, struct feed_partition *partition);

/* producer_messages.c */
/* Handles a message from the consumer of a task. */
void tfc__feed_task_receive(struct feed_task *task, const struct tfc__feed_message *message);
void tfc__feed_task_receive_result(struct feed_task *task, tfc_feed_batch *batch);
/* Returns false if the host has closed the producer: the task is freed. */
bool tfc__feed_task_is_down(struct feed_task *task);
/* Notes what the checkpoints of the tasks have of a partition that is new to this producer.
 * TFC_ESTATE: rows that it may not skip. */
int tfc__feed_partition_commit(tfc_feed_producer *producer, struct feed_partition *partition,
			       tfc_error *error);

/* producer_tasks.c */
int tfc__feed_tasks_open(tfc_feed_producer *producer, const char *job);
/* Lets the nodes know that all is consumed, for later attempts of the tasks. */
void tfc__feed_tasks_report_over(tfc_feed_producer *producer);
/* Whether one of them on another machine has not responded. tfc__feed_producer_wake follows. */
bool tfc__feed_tasks_await_over(const tfc_feed_producer *producer);
void tfc__feed_tasks_close(tfc_feed_producer *producer);

#endif
