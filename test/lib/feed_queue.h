/*
 * A queue of a feed in one context: the broker of a node, the consumer of a task, and producers
 * that are driven by hand, so that they can lie. Rows are one column "x" of int64.
 */
#ifndef TEST_LIB_FEED_QUEUE_H
#define TEST_LIB_FEED_QUEUE_H

#include "feed/broker.h"
#include "feed/stream.h"
#include "feed_way.h"

#define WINDOW 65536u
#define ROWS 512u /* 4 KiB of int64 */

extern tfc_ctx *queue_ctx;
extern struct tfc__feed_broker *queue_broker;
extern char queue_address[TFC__FEED_ADDRESS_SIZE];
extern struct feed_way queue_way;
/* Producers come from another machine, through queue_way. To be set before queue_setup. */
extern bool queue_is_remote;

/* For cmocka: context and broker. */
int queue_setup(void **state);
int queue_teardown(void **state);

#define RUN_UNTIL(condition)                                  \
	for (int turn_ = 0; !(condition); turn_++) {          \
		assert_true(turn_ < 1000);                    \
		assert_true(tfc_ctx_run(queue_ctx, 10) >= 0); \
	}

struct queue_producer {
	struct tfc__feed_socket socket;
	struct tfc__feed_remote *remote; /* NULL: of this machine */
	struct tfc__feed_stream *stream;
	struct tfc__feed_shared_schema *schema;
	bool is_welcome, is_down, is_terminated, is_replaced;
	uint64_t position_rows; /* the last POSITION */
	uint32_t positions;
	uint64_t done[8]; /* by partition */
	uint64_t committed[8];
	uint64_t committed_rows; /* of the last checkpoint */
	uint32_t commits;        /* checkpoints that were reported */
	bool is_committed_first; /* before WELCOME */
	uint64_t padded;
	bool is_final;
};

struct queue_consumer {
	tfc_feed_consumer *feed;
	int code;   /* of the END event */
	void *user; /* the test's */
};

void queue_send(struct queue_producer *producer, struct tfc__feed_message message);

void queue_put(struct queue_producer *producer, uint64_t partition, uint64_t offset,
	       uint64_t count);

/* Sends `count` rows whose values are those of their offsets. Returns the code. */
int queue_put_rows(struct queue_producer *producer, uint64_t partition, uint64_t offset,
		   uint64_t count, uint64_t *ret_rows);

void queue_finish(struct queue_producer *producer, uint64_t partition, uint64_t rows);

void queue_end(struct queue_producer *producer);

/* The next batch; NULL at the end of the queue. */
tfc_feed_batch *queue_next(struct queue_consumer *consumer);

void queue_expect_nothing(struct queue_consumer *consumer);

/* Takes `rows` rows of a partition, which have the values of their offsets. */
void queue_expect_rows(struct queue_consumer *consumer, uint64_t partition, uint64_t offset,
		       uint64_t rows);

void queue_expect_end_of(struct queue_consumer *consumer, uint64_t partition, uint64_t rows);

/* Connects, until WELCOME. */
void queue_producer_connect(struct queue_producer *producer);
void queue_hello(struct queue_producer *producer, const char *name, uint32_t producers);
/* Both. */
void queue_producer_open(struct queue_producer *producer, const char *name, uint32_t producers);

void queue_producer_close(struct queue_producer *producer);

void queue_consumer_open(struct queue_consumer *consumer, uint32_t attempt, uint32_t is_in_step);

#endif
