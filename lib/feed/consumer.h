/*
 * Shared by consumer.c (the host's calls, and the node) and consumer_sources.c (the producers, and
 * their partitions).
 *
 * Each producer is a source. Batches wait in `ready` in the order in which they are handed out.
 */
#ifndef TFC_FEED_CONSUMER_H
#define TFC_FEED_CONSUMER_H

#include "feed/names.h"
#include "feed/positions.h"
#include "feed/stream.h"
#include "feed/table.h"
#include <tfcluster/feed.h>

struct feed_source {
	tfc_feed_consumer *consumer;
	struct tfc__link link;
	struct tfc__feed_stream *stream; /* NULL: it has died */
	char name[TFC__FEED_NAME_SIZE];  /* "" until its HELLO */
	bool is_ended;                   /* it has sent END */
	uint64_t window;                 /* of what it sends; 0: not known yet */
	uint64_t held_bytes;             /* of all its partitions */
	bool is_terminated;              /* it was sent TERMINATE */
	uint64_t positions_at; /* changes of the consumer before it was sent the positions */
	uint64_t changed_at;   /* and up to the last one that this source has made */
	bool is_stalled;       /* it has no room for what it would send next */
};

struct feed_part {
	uint64_t number;
	struct feed_source *source; /* NULL: it has died */
	uint64_t received;          /* rows */
	uint64_t done;              /* rows that the host has reported as consumed */
	bool is_finished;           /* it has `received` rows in all */
	/*
	 * Its rows are handed out as they arrive. Those of a partition that is still small are held
	 * back until it is complete: if its producer dies before, it is as if it had never been
	 * fed. A producer that has no room gets that of them when the host has nothing else.
	 */
	bool is_flowing;
	struct tfc__link held; /* struct tfc_feed_batch */
	uint64_t held_bytes;
};

struct tfc_feed_consumer {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	tfc_feed_fn fn;
	void *user;
	char task[TFC__FEED_TASK_SIZE];
	char queue[TFC__FEED_NAME_SIZE];
	uint64_t window;
	uint32_t multiple;
	bool is_in_step;
	struct tfc__feed_socket node; /* to the broker; closed after the end */
	struct tfc__link sources;
	uint32_t producers; /* how many must end; 0: not known yet */
	bool wants_results;
	struct tfc__link ready; /* struct tfc_feed_batch */
	struct tfc__feed_table parts;
	uint64_t changes;     /* rows and ends of partitions that have arrived */
	struct tfc__map done; /* the numbers of the partitions that are done */
	struct tfc__feed_positions committed;
	bool is_committing;                     /* partitions are done when they are committed */
	struct tfc__feed_shared_schema *schema; /* of the rows; NULL: not known before the end */
	bool has_given_columns;                 /* a batch, of rows or of none */
	struct tfc__feed_shared_schema *result_schema;
	struct tfc__timer patience; /* for sources that have died */
	struct tfc__work notify;
	bool wants_ready;
	bool is_terminated;
	tfc_error failure; /* code not 0: the END event */
	bool is_end_reported;

	/* in step */
	uint64_t steps; /* reported */
	bool is_report_end;
	bool has_report;
	uint64_t granted;
	uint64_t granted_padded;
	bool is_grant_final;
};

/* consumer.c */
/* Tells the host that there is something, if it waits. */
void tfc__feed_consumer_wake(tfc_feed_consumer *consumer);
/* Ends the consumer; the first reason counts. */
void tfc__feed_consumer_fail(tfc_feed_consumer *consumer, const tfc_error *why);

/* consumer_sources.c */
/* Takes over a connection with a producer, which the node has made. Acquires `fd`. */
void tfc__feed_consumer_add_source(tfc_feed_consumer *consumer, int fd);
/* A producer has left before this attempt began: the earlier ones had consumed all of it. */
void tfc__feed_consumer_add_end(tfc_feed_consumer *consumer, const char *name, uint32_t producers);
void tfc__feed_source_free(struct feed_source *source);
/* These three send; TFC_OK if the source has died. TFC_ENOMEM. */
int tfc__feed_source_report(struct feed_source *source);
int tfc__feed_source_terminate(struct feed_source *source);
int tfc__feed_source_send_committed(struct feed_source *source);
void tfc__feed_patience_is_over(struct tfc__timer *timer);
/* Hands out what is held back of producers that have no room. */
void tfc__feed_consumer_flow_stalled(tfc_feed_consumer *consumer);
/* Whether no further row comes. */
bool tfc__feed_queue_is_ended(const tfc_feed_consumer *consumer);
void tfc__feed_part_free(tfc_feed_consumer *consumer, struct feed_part *part);
void tfc__feed_drop_batches(struct tfc__link *batches);

#endif
