/*
 * The calls that carry a stream between a producer and a task's node on another machine
 * (doc/internals/methods.md). Messages are those of message.h, without descriptors; a batch is
 * followed by its rows.
 */
#ifndef TFC_FEED_FRAME_H
#define TFC_FEED_FRAME_H

#include "base/names.h"
#include "feed/message.h"
#include "feed/names.h"

#define TFC__FEED_PREFIX "feed."
#define TFC__FEED_METHOD_CONNECT "feed.connect"
#define TFC__FEED_METHOD_SEND "feed.send"

#define TFC__FEED_PART (64u << 10)  /* bytes of rows in a frame */
#define TFC__FEED_CREDIT (1u << 20) /* bytes on their way to the task's node */
#define TFC__FEED_ITEMS 32          /* frames on their way to the producer */

/* The params of feed.connect. */
struct tfc__feed_connect {
	char job[TFC__JOB_ID_SIZE];
	char task[TFC__FEED_TASK_SIZE];
	char queue[TFC__FEED_NAME_SIZE];
	char node[64]; /* of the task */
	bool is_forwarded;
	char producer[TFC__FEED_NAME_SIZE]; /* its name; "": an older one has not sent it */
	/* No stream: the producer leaves, as in TFC__FEED_OVER. */
	bool is_over;
	uint32_t producers;
	uint32_t attempt;
};
extern const struct tfc__fields tfc__feed_connect_fields;

/* The params of feed.send, and an item of feed.connect. */
struct tfc__feed_frame {
	/* feed.send: as the first item has named the stream */
	uint64_t stream;
	/* In items: the caller may send so many bytes more (tfc__feed_frame_cost). */
	uint64_t credit;
	const void *message;
	uint64_t message_len;
	const void *data; /* the next rows of the last batch */
	uint64_t data_len;
};

void tfc__feed_frame_write(struct tfc__buf *buf, const struct tfc__feed_frame *frame);
/* Messages and rows are borrowed. TFC_EPARSE. */
int tfc__feed_frame_read(const msgpack_object *object, tfc_error *error,
			 struct tfc__feed_frame *ret_frame);
/* The credit that sending it takes. */
uint64_t tfc__feed_frame_cost(const struct tfc__feed_frame *frame);

#endif
