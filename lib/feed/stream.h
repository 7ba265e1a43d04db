/*
 * One connection between a producer and a consumer. Both ends send batches of rows the same way: a
 * producer its rows, a consumer its results.
 */
#ifndef TFC_FEED_STREAM_H
#define TFC_FEED_STREAM_H

#include "feed/batch.h"
#include "feed/socket.h"

struct tfc__feed_stream;

/* Called in dispatch. The stream may be closed inside. */
struct tfc__feed_stream_ops {
	/* A message that the stream does not handle itself: any but SEGMENT, SCHEMA, BATCH,
	 * RELEASE. */
	void (*message)(void *user, const struct tfc__feed_message *message);
	/* The callee owns the batch. */
	void (*batch)(void *user, tfc_feed_batch *batch);
	/* There is room again after tfc__feed_stream_put returned TFC_EAGAIN. */
	void (*room)(void *user);
	/* The other end is gone or breaks the protocol. Nothing follows. */
	void (*down)(void *user, const tfc_error *why);
};

/* Acquires `fd`, also on failure. TFC_ENOMEM, TFC_ESYS. */
int tfc__feed_stream_open(tfc_ctx *ctx, int fd, const struct tfc__feed_stream_ops *ops, void *user,
			  tfc_error *error, struct tfc__feed_stream **ret_stream);
/* Batches of its receiver stay valid. NULL is a no-op. */
void tfc__feed_stream_close(struct tfc__feed_stream *stream);

/* What this end may have in flight, the bytes that a batch should have, and the number of rows of
 * which its own should be a multiple. To be set before the first put. */
struct tfc__feed_limits {
	uint64_t window;
	uint64_t chunk;
	uint32_t multiple;
};
void tfc__feed_stream_set_limits(struct tfc__feed_stream *stream,
				 const struct tfc__feed_limits *limits);

/* As tfc__feed_socket_send. */
int tfc__feed_stream_send(struct tfc__feed_stream *stream, const struct tfc__feed_message *message);

/*
 * Sends rows [begin, rows->rows) of a partition, in batches, as far as there is room; row `begin`
 * has the offset `offset`. *ret_rows is the number of rows sent. The schema lives as long as the
 * stream, unless another is given. The rows were checked. TFC_OK (all were sent, or some);
 * TFC_EAGAIN (none; `room` follows), TFC_ETOOBIG (a row is larger than the window), TFC_ENOMEM,
 * TFC_ENOSPC, TFC_EMFILE, TFC_ESYS.
 */
int tfc__feed_stream_put(struct tfc__feed_stream *stream, uint64_t partition, uint64_t offset,
			 struct tfc__feed_shared_schema *schema, const struct tfc__feed_rows *rows,
			 uint64_t begin, tfc_error *error, uint64_t *ret_rows);
/* Sends END, and before it the schema, if it was not sent: a receiver that got no rows then knows
 * their columns. NULL: there is none. As tfc__feed_socket_send. */
int tfc__feed_stream_end(struct tfc__feed_stream *stream, struct tfc__feed_shared_schema *schema);
/* What the other end has sent; NULL: nothing yet. */
struct tfc__feed_shared_schema *tfc__feed_stream_schema(const struct tfc__feed_stream *stream);
/* Whether the kernel has all that was sent: it arrives even if this process ends. */
bool tfc__feed_stream_is_flushed(const struct tfc__feed_stream *stream);
/* Bytes of this end that are in flight, in blocks that were not released. */
uint32_t tfc__feed_stream_blocks(const struct tfc__feed_stream *stream);
/* Whether a put of some rows could succeed now. */
bool tfc__feed_stream_has_room(const struct tfc__feed_stream *stream);

#endif
