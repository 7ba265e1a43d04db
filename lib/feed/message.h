/*
 * The control protocol of the feed (doc/internals/feed.md): one msgpack map per message of a
 * SOCK_SEQPACKET socket, some with a descriptor. Rows travel in shared memory, and only their
 * layout in a message.
 */
#ifndef TFC_FEED_MESSAGE_H
#define TFC_FEED_MESSAGE_H

#include "wire/fields.h"

#define TFC__FEED_VERSION 1
#define TFC__FEED_MESSAGE_MAX (128u << 10) /* bytes */

/* The numbers are on the wire. */
enum tfc__feed_kind {
	/* to the node, and its responses */
	TFC__FEED_REGISTER = 1,  /* from a consumer: task, attempt, queue */
	TFC__FEED_CONNECT = 2,   /* from a producer: task, queue, producer */
	TFC__FEED_CONNECTED = 3, /* to both, with the descriptor of a stream between them */
	TFC__FEED_REFUSED = 4,   /* code, text */

	/* between producer and consumer; the first three once, in this order */
	/* from the consumer, for each partition it has: partition, rows, offset: rows that are
	 * consumed, is_end if it has all of them. Both are UINT64_MAX if all are consumed. */
	TFC__FEED_POSITION = 5,
	TFC__FEED_WELCOME = 6,  /* from the consumer: version, window, multiple, is_in_step */
	TFC__FEED_HELLO = 7,    /* from the producer: version, producer, producers, wants_results */
	TFC__FEED_SEGMENT = 8,  /* window, with the descriptor of the sender's memory */
	TFC__FEED_SCHEMA = 9,   /* schema, of the batches that follow */
	TFC__FEED_BATCH = 10,   /* block, at, bytes, layout, partition, offset */
	TFC__FEED_RELEASE = 11, /* block: its memory may be used again */
	TFC__FEED_FINISH = 12,  /* partition, rows: that is all of it */
	TFC__FEED_DONE = 13,    /* from the consumer: partition, rows */
	TFC__FEED_REPORT = 14,  /* from the consumer: steps, is_end */
	TFC__FEED_GRANT = 15,   /* from the producer: steps, padded_steps, is_end */
	TFC__FEED_TERMINATE = 16, /* from the consumer */
	TFC__FEED_END = 17, /* from the producer: no further partition comes to this consumer */
	/* from the consumer: partition, partitions, rows, is_end: a position of its checkpoint, as
	 * tfc_feed_position. One with 0 partitions comes first: the others replace those of the
	 * checkpoint before, and have `rows` rows in all. */
	TFC__FEED_COMMITTED = 18,
	/* from a producer to the node of a task, and from there to the consumer of a later attempt:
	 * task, attempt, queue, producer, producers: all its partitions are done */
	TFC__FEED_OVER = 19,
	/* from the sender of rows: it has no room for the next ones; see `is_flowing` */
	TFC__FEED_STALLED = 20,
	/* from the consumer: another producer has said that it has this name */
	TFC__FEED_REPLACED = 21,
};

/* Strings are borrowed. */
struct tfc__feed_message {
	uint32_t kind; /* enum tfc__feed_kind */
	int32_t code;
	const char *text;
	const char *task;
	const char *queue;
	uint32_t attempt;
	uint32_t version;
	const char *producer;
	uint32_t producers;
	bool wants_results;
	bool is_in_step;
	bool is_end;
	uint64_t window;
	uint32_t multiple;
	uint32_t block;
	uint64_t at;
	uint64_t bytes;
	uint64_t partition;
	uint64_t partitions;
	uint64_t offset;
	uint64_t rows;
	uint64_t steps;
	uint64_t padded_steps;
	const void *schema;
	uint64_t schema_len;
	const void *layout;
	uint64_t layout_len;
};

void tfc__feed_message_write(struct tfc__buf *buf, const struct tfc__feed_message *message);

/* A message that was parsed. Its strings live until tfc__feed_parsed_fini. */
struct tfc__feed_parsed {
	struct tfc__feed_message message;
	struct tfc__msg msg;
	struct tfc__reader reader;
};

/* TFC_OK, TFC_EPARSE or TFC_ENOMEM. After TFC_OK, call tfc__feed_parsed_fini. */
int tfc__feed_message_parse(struct tfc__feed_parsed *parsed, const void *data, size_t len,
			    tfc_error *error);
void tfc__feed_parsed_fini(struct tfc__feed_parsed *parsed);

#endif
