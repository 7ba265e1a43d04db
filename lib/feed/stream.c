#include "feed/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct tfc__feed_stream {
	struct tfc__feed_socket socket;
	const struct tfc__feed_stream_ops *ops;
	void *user;
	bool is_failed;

	/* sending */
	struct tfc__feed_limits limits;
	struct tfc__feed_segment segment;
	struct tfc__feed_shared_schema *schema; /* the one that was sent */
	struct tfc__feed_layout layout;         /* of the last batch, for its memory */
	struct tfc__buf encoded;
	bool wants_room;

	/* receiving */
	struct tfc__feed_mapping *mapping;
	struct tfc__noted_fd wake; /* releases wait for room in the kernel; -1: no mapping */
	struct tfc__io waking;
	struct tfc__feed_shared_schema *received;
};

/* ---- receiving */

static int stream_receive_schema(struct tfc__feed_stream *stream,
				 const struct tfc__feed_message *message, tfc_error *error)
{
	struct tfc__feed_shared_schema *shared = NULL;
	struct tfc__feed_schema schema;
	int code = tfc__feed_schema_read(message->schema, message->schema_len, error, &schema);
	if (code < 0 || (code = tfc__feed_schema_share(&shared, &schema, error)) < 0)
		return code;
	tfc__feed_shared_schema_release(stream->received);
	stream->received = shared;
	return TFC_OK;
}

static void stream_flush(void *user)
{
	struct tfc__feed_stream *stream = user;
	if (stream->mapping && !tfc__feed_mapping_flush(stream->mapping))
		tfc__feed_socket_await_room(&stream->socket);
}

static void stream_woken(struct tfc__io *io, uint32_t events)
{
	struct tfc__feed_stream *stream = tfc__container_of(io, struct tfc__feed_stream, waking);
	eventfd_t count;
	(void)events;
	eventfd_read(stream->wake.fd, &count);
	stream_flush(stream);
}

static int stream_open_wake(struct tfc__feed_stream *stream, tfc_error *error)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return tfc__fail_errno(error, "feed", errno, "cannot make an eventfd");
	tfc__fd_note(stream->socket.ctx, &stream->wake, fd);
	return tfc__io_open(&stream->waking, stream->socket.ctx, fd, EPOLLIN, stream_woken);
}

/* The kernel drops a descriptor that the process has no number for. */
static int stream_check_descriptors(const struct tfc__feed_stream *stream, tfc_error *error)
{
	int fd = fcntl(stream->socket.fd.fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return tfc__fail_errno(error, "feed", errno, "cannot receive shared memory");
	close(fd);
	return TFC_OK;
}

static int stream_receive_segment(struct tfc__feed_stream *stream,
				  const struct tfc__feed_message *message, int fd, tfc_error *error)
{
	if (fd < 0 || stream->mapping) {
		if (fd < 0 && stream_check_descriptors(stream, error) < 0)
			return error->code;
		if (fd >= 0)
			close(fd);
		return tfc__fail(error, TFC_EPARSE, "feed", 0,
				 "the other end of the feed has sent its memory twice, or none");
	}
	int code = tfc__feed_mapping_open(fd, message->window, error, &stream->mapping);
	if (code == TFC_OK && (code = stream_open_wake(stream, error)) == TFC_OK)
		tfc__feed_mapping_set_socket(stream->mapping, stream->socket.fd.fd,
					     stream->wake.fd);
	return code;
}

static int stream_read_layout(const struct tfc__feed_stream *stream,
			      const struct tfc__feed_message *message, tfc_error *error,
			      struct tfc__feed_layout *ret_layout)
{
	struct tfc__msg msg;
	int code = tfc__msg_parse(&msg, message->layout, message->layout_len, NULL, error);
	if (code < 0)
		return code;
	code = tfc__feed_layout_read(&stream->received->schema, &msg.root, error, ret_layout);
	tfc__msg_fini(&msg);
	return code;
}

static int stream_receive_batch(struct tfc__feed_stream *stream,
				const struct tfc__feed_message *message, tfc_error *error,
				tfc_feed_batch **ret_batch)
{
	struct tfc__feed_layout layout = {0};
	if (!stream->mapping || !stream->received)
		return tfc__fail(error, TFC_EPARSE, "feed", 0,
				 "the other end of the feed has sent a batch before its memory "
				 "and its schema");
	int code = stream_read_layout(stream, message, error, &layout);
	if (code < 0) {
		tfc__feed_layout_fini(&layout);
		return code;
	}
	code = tfc__feed_batch_new(stream->mapping, stream->received, &layout, message->block,
				   message->at, message->bytes, error, ret_batch);
	if (code == TFC_OK) {
		(*ret_batch)->partition = message->partition;
		(*ret_batch)->offset = message->offset;
	}
	return code;
}

static void stream_break(struct tfc__feed_stream *stream, const tfc_error *why)
{
	stream->is_failed = true;
	stream->ops->down(stream->user, why);
}

static void stream_message(void *user, const struct tfc__feed_message *message, int fd)
{
	struct tfc__feed_stream *stream = user;
	tfc_error error = TFC_ERROR_INIT;
	tfc_feed_batch *batch = NULL;
	int code = TFC_OK;
	if (stream->is_failed) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (fd >= 0 && message->kind != TFC__FEED_SEGMENT) {
		close(fd);
		fd = -1;
	}
	switch (message->kind) {
	case TFC__FEED_SEGMENT:
		code = stream_receive_segment(stream, message, fd, &error);
		break;
	case TFC__FEED_SCHEMA:
		code = stream_receive_schema(stream, message, &error);
		break;
	case TFC__FEED_BATCH:
		code = stream_receive_batch(stream, message, &error, &batch);
		break;
	case TFC__FEED_RELEASE:
		if (!tfc__feed_segment_release(&stream->segment, message->block))
			code = tfc__fail(&error, TFC_EPARSE, "feed", 0,
					 "the other end of the feed has released memory that it "
					 "does not have");
		break;
	default:
		stream->ops->message(stream->user, message);
		return;
	}
	if (code < 0) {
		stream_break(stream, &error);
	} else if (batch) {
		stream->ops->batch(stream->user, batch);
	} else if (message->kind == TFC__FEED_RELEASE && stream->wants_room) {
		stream->wants_room = false;
		stream->ops->room(stream->user);
	}
}

static void stream_down(void *user, const tfc_error *why)
{
	struct tfc__feed_stream *stream = user;
	if (!stream->is_failed)
		stream_break(stream, why);
}

static const struct tfc__feed_socket_ops stream_socket_ops = {stream_message, stream_down,
							      stream_flush};

int tfc__feed_stream_open(tfc_ctx *ctx, int fd, const struct tfc__feed_stream_ops *ops, void *user,
			  tfc_error *error, struct tfc__feed_stream **ret_stream)
{
	struct tfc__feed_stream *stream = calloc(1, sizeof(*stream));
	if (!stream) {
		close(fd);
		return tfc__fail_nomem(error, "feed");
	}
	stream->ops = ops;
	stream->user = user;
	stream->segment.fd = -1;
	stream->wake.fd = -1;
	int code = tfc__feed_socket_open(&stream->socket, ctx, fd, &stream_socket_ops, stream,
					 error);
	if (code < 0) {
		free(stream);
		return code;
	}
	*ret_stream = stream;
	return TFC_OK;
}

void tfc__feed_stream_close(struct tfc__feed_stream *stream)
{
	if (!stream)
		return;
	if (stream->mapping)
		tfc__feed_mapping_set_socket(stream->mapping, -1, -1);
	tfc__feed_mapping_release(stream->mapping);
	tfc__io_close(&stream->waking);
	tfc__fd_close(&stream->wake);
	tfc__feed_socket_close(&stream->socket);
	tfc__feed_segment_close(&stream->segment);
	tfc__feed_shared_schema_release(stream->schema);
	tfc__feed_shared_schema_release(stream->received);
	tfc__feed_layout_fini(&stream->layout);
	tfc__buf_fini(&stream->encoded);
	free(stream);
}

/* ---- sending */

void tfc__feed_stream_set_limits(struct tfc__feed_stream *stream,
				 const struct tfc__feed_limits *limits)
{
	stream->limits = *limits;
}

int tfc__feed_stream_send(struct tfc__feed_stream *stream, const struct tfc__feed_message *message)
{
	return tfc__feed_socket_send(&stream->socket, message, -1);
}

static int stream_fail_send(int code, tfc_error *error)
{
	return tfc__fail(error, code, "feed", 0, "cannot send to the other end of the feed: %s",
			 tfc_err_text(code));
}

static int stream_send_schema(struct tfc__feed_stream *stream,
			      struct tfc__feed_shared_schema *schema, tfc_error *error)
{
	if (stream->schema == schema)
		return TFC_OK;
	struct tfc__buf buf = {0};
	tfc__feed_schema_write(&schema->schema, &buf);
	struct tfc__feed_message message = {.kind = TFC__FEED_SCHEMA,
					    .schema = buf.data,
					    .schema_len = buf.len};
	int code = buf.is_failed ? TFC_ENOMEM : tfc__feed_stream_send(stream, &message);
	tfc__buf_fini(&buf);
	if (code < 0)
		return stream_fail_send(code, error);
	tfc__feed_shared_schema_release(stream->schema);
	stream->schema = tfc__feed_shared_schema_keep(schema);
	return TFC_OK;
}

int tfc__feed_stream_end(struct tfc__feed_stream *stream, struct tfc__feed_shared_schema *schema)
{
	struct tfc__feed_message message = {.kind = TFC__FEED_END};
	int code = schema ? stream_send_schema(stream, schema, NULL) : TFC_OK;
	return code < 0 ? code : tfc__feed_stream_send(stream, &message);
}

struct tfc__feed_shared_schema *tfc__feed_stream_schema(const struct tfc__feed_stream *stream)
{
	return stream->received;
}

static int stream_prepare(struct tfc__feed_stream *stream, struct tfc__feed_shared_schema *schema,
			  tfc_error *error)
{
	if (!stream->segment.base) {
		int code = tfc__feed_segment_open(&stream->segment, stream->limits.window, error);
		if (code < 0)
			return code;
		struct tfc__feed_message message = {.kind = TFC__FEED_SEGMENT,
						    .window = stream->segment.size};
		code = tfc__feed_socket_send(&stream->socket, &message, stream->segment.fd);
		if (code < 0) {
			tfc__feed_segment_close(&stream->segment);
			return stream_fail_send(code, error);
		}
	}
	return stream_send_schema(stream, schema, error);
}

/* How many rows from `begin` on make a batch of about `chunk` bytes. */
static uint64_t stream_count_rows(const struct tfc__feed_stream *stream,
				  const struct tfc__feed_rows *rows, uint64_t begin)
{
	const struct tfc__feed_schema *schema = &stream->schema->schema;
	uint64_t left = rows->rows - begin, chunk = stream->limits.chunk, count = left;
	uint64_t multiple = stream->limits.multiple ? stream->limits.multiple : 1;
	while (count > 1) {
		uint64_t bytes = tfc__feed_layout_bytes(schema, rows, begin, count);
		if (bytes <= chunk + chunk / 8)
			break;
		uint64_t fitting = (uint64_t)((double)count * (double)chunk / (double)bytes);
		count = fitting && fitting < count ? fitting : count / 2;
	}
	if (count < left && count > multiple)
		count -= count % multiple;
	return count;
}

/* Finds a block for `*count` rows or fewer. */
static int stream_acquire(struct tfc__feed_stream *stream, const struct tfc__feed_rows *rows,
			  uint64_t begin, uint64_t *count, uint32_t *ret_block, tfc_error *error)
{
	uint64_t multiple = stream->limits.multiple ? stream->limits.multiple : 1;
	for (;;) {
		uint64_t bytes = tfc__feed_layout_bytes(&stream->schema->schema, rows, begin,
							*count);
		if (tfc__feed_segment_acquire(&stream->segment, bytes, ret_block))
			return TFC_OK;
		bool is_used = stream->segment.used_count > 0;
		/* Enough that is free in parts: the receiver may keep what is between them. */
		if (is_used && (*count == 1 || stream->segment.free_bytes < bytes))
			return TFC_EAGAIN;
		if (*count == 1)
			return tfc__fail(error, TFC_ETOOBIG, "feed", 0,
					 "row %llu has %llu bytes, more than the window of %llu; "
					 "set a larger window_bytes",
					 (unsigned long long)begin, (unsigned long long)bytes,
					 (unsigned long long)stream->segment.size);
		*count /= 2;
		if (*count > multiple)
			*count -= *count % multiple;
	}
}

static int stream_send_batch(struct tfc__feed_stream *stream, uint64_t partition, uint64_t offset,
			     const struct tfc__feed_rows *rows, uint64_t begin, uint64_t *count,
			     tfc_error *error)
{
	const struct tfc__feed_schema *schema = &stream->schema->schema;
	struct tfc__feed_layout *layout = &stream->layout;
	uint32_t number;
	int code = stream_acquire(stream, rows, begin, count, &number, error);
	if (code < 0)
		return code;
	const struct tfc__feed_block *block = &stream->segment.blocks[number];
	tfc__buf_clear(&stream->encoded);
	code = tfc__feed_layout_plan(schema, rows, begin, *count, layout);
	if (code == TFC_OK) {
		tfc__feed_layout_fill(schema, rows, begin, layout,
				      stream->segment.base + block->at);
		tfc__feed_layout_write(layout, &stream->encoded);
	}
	struct tfc__feed_message message = {
		.kind = TFC__FEED_BATCH,
		.block = number,
		.at = block->at,
		.bytes = layout->bytes,
		.partition = partition,
		.offset = offset,
		.layout = stream->encoded.data,
		.layout_len = stream->encoded.len,
	};
	if (code == TFC_OK)
		code = stream->encoded.is_failed ? TFC_ENOMEM
						 : tfc__feed_stream_send(stream, &message);
	if (code < 0) {
		tfc__feed_segment_release(&stream->segment, number);
		return stream_fail_send(code, error);
	}
	return TFC_OK;
}

int tfc__feed_stream_put(struct tfc__feed_stream *stream, uint64_t partition, uint64_t offset,
			 struct tfc__feed_shared_schema *schema, const struct tfc__feed_rows *rows,
			 uint64_t begin, tfc_error *error, uint64_t *ret_rows)
{
	uint64_t done = 0;
	int code = stream_prepare(stream, schema, error);
	while (code == TFC_OK && begin + done < rows->rows) {
		uint64_t count = stream_count_rows(stream, rows, begin + done);
		code = stream_send_batch(stream, partition, offset + done, rows, begin + done,
					 &count, error);
		if (code == TFC_OK)
			done += count;
	}
	if (code == TFC_EAGAIN && !stream->wants_room) {
		struct tfc__feed_message message = {.kind = TFC__FEED_STALLED};
		stream->wants_room = true;
		if (tfc__feed_stream_send(stream, &message) < 0)
			code = tfc__fail_nomem(error, "feed");
	}
	if (!done && code < 0)
		return code;
	*ret_rows = done;
	return TFC_OK;
}

bool tfc__feed_stream_is_flushed(const struct tfc__feed_stream *stream)
{
	return tfc__list_is_empty(&stream->socket.queue);
}

uint32_t tfc__feed_stream_blocks(const struct tfc__feed_stream *stream)
{
	return stream->segment.used_count;
}

bool tfc__feed_stream_has_room(const struct tfc__feed_stream *stream)
{
	return !stream->wants_room;
}
