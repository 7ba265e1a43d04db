/*
 * Messages as bytes.
 *
 * Plain: length (4 bytes, big-endian), message.
 * Noise: records, each with its length (4 bytes) and one Noise transport message of up to 65535
 * bytes. A record of the full 65535 bytes is continued by the next record. A truncated message is
 * therefore always detected, and only the message itself has to be sealed.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/internal.h"

#define CHUNK (TFC__NOISE_MESSAGE_MAX - TFC__NOISE_TAG) /* of a message, in a full record */
#define OUT_MAX (UINT32_C(256) << 10)                   /* bytes encoded ahead of the pipe */
#define TURN_MAX (UINT32_C(1) << 20) /* bytes per turn, so that other connections are served */
#define READ (UINT32_C(64) << 10)    /* bytes per read */
#define KEEP (UINT32_C(4) << 10)     /* a larger buffer is freed when it is empty */

/* Limit of the bytes queued for a dialer that does not read and has no quota. */
#define UNREAD_MAX (UINT32_C(8) << 20)
#define FULL (UNREAD_MAX / 2) /* above it no stream adds an item */

struct outgoing {
	struct tfc__link link;
	struct tfc__buf message;
	size_t at; /* of the first byte that was not encoded yet */
	bool is_begun;
};

static int stream_fail_nomem(struct tfc__channel *channel)
{
	return tfc__channel_fail(channel, TFC_ENOMEM, "out of memory");
}

/* ---- sending */

int tfc__stream_put(struct tfc__channel *channel, const void *data, size_t len)
{
	tfc__buf_add(&channel->out, data, len);
	return channel->out.is_failed ? stream_fail_nomem(channel) : TFC_OK;
}

void tfc__stream_queue(struct tfc__channel *channel, struct tfc__buf *message)
{
	struct outgoing *one = message->is_failed || message->len > TFC__RPC_MESSAGE_MAX
				       ? NULL
				       : calloc(1, sizeof(*one));
	if (!one) {
		bool is_large = !message->is_failed && message->len > TFC__RPC_MESSAGE_MAX;
		tfc__buf_fini(message);
		if (is_large)
			tfc__channel_fail(channel, TFC_ETOOBIG, "message exceeds %u bytes",
					  TFC__RPC_MESSAGE_MAX);
		else
			stream_fail_nomem(channel);
		return;
	}
	one->message = *message;
	tfc__buf_trim(&one->message);
	*message = (struct tfc__buf){0};
	channel->queued += one->message.len;
	channel->held += one->message.len;
	tfc__list_append(&channel->queue, &one->link);
}

static void free_outgoing(struct tfc__channel *channel, struct outgoing *one)
{
	channel->queued -= one->message.len - one->at;
	channel->held -= one->message.len;
	tfc__list_remove(&one->link);
	tfc__buf_fini(&one->message);
	free(one);
}

/* Encodes the next chunk of a message. The length comes before the first chunk. */
static int encode_plain(struct tfc__channel *channel, struct outgoing *one, size_t len)
{
	uint8_t head[HEAD];
	write_length(head, one->message.len);
	if (!one->is_begun)
		tfc__stream_put(channel, head, HEAD);
	return len ? tfc__stream_put(channel, one->message.data + one->at, len)
		   : channel->failure.code;
}

static int encode_sealed(struct tfc__channel *channel, struct outgoing *one, size_t len)
{
	size_t sealed = len + TFC__NOISE_TAG;
	uint8_t *at = (uint8_t *)tfc__buf_reserve(&channel->out, HEAD + sealed);
	if (!at)
		return stream_fail_nomem(channel);
	write_length(at, sealed);
	const char *plain = len ? one->message.data + one->at : "";
	int code = tfc__noise_seal(&channel->sending, plain, len, at + HEAD);
	if (code < 0)
		return tfc__channel_fail(
			channel, code,
			"the connection has reached the limit of messages under one key");
	tfc__buf_grow(&channel->out, HEAD + sealed);
	return TFC_OK;
}

static int encode_chunk(struct tfc__channel *channel, struct outgoing *one)
{
	size_t left = one->message.len - one->at, len = left < CHUNK ? left : CHUNK;
	int code = channel->options.is_noise ? encode_sealed(channel, one, len)
					     : encode_plain(channel, one, len);
	if (code < 0)
		return code;
	one->is_begun = true;
	one->at += len;
	channel->queued -= len;
	/* a full record is followed by another one, which may be empty */
	if (one->at == one->message.len && !(channel->options.is_noise && len == CHUNK))
		free_outgoing(channel, one);
	return TFC_OK;
}

/* Whether the channel stops reading because the dialer sends requests and does not read the
 * responses. Only the acceptor stops: otherwise both ends could wait for each other. */
static bool stream_is_paused(const struct tfc__channel *channel)
{
	uint64_t max = channel->share ? channel->share->quota->limits.connection_bytes : UNREAD_MAX;
	return !channel->options.is_dialer && channel->queued > max;
}

bool tfc__stream_is_full(const struct tfc__channel *channel)
{
	uint64_t max = channel->share ? channel->share->quota->limits.connection_bytes : FULL;
	return tfc__channel_backlog(channel) > max;
}

void tfc__stream_account(struct tfc__channel *channel)
{
	if (channel->share)
		tfc__quota_set_bytes(channel->share, channel->held + channel->out.len +
							     channel->in.len - channel->in_at +
							     channel->partial.len);
}

static void stream_await(struct tfc__channel *channel, uint32_t events)
{
	tfc__pipe_want(channel->pipe,
		       events | (stream_is_paused(channel) ? 0 : TFC_PIPE_EVENT_READABLE));
	if (channel->has_unread && !stream_is_paused(channel))
		tfc__work_schedule(&channel->work);
}

static int encode_queued(struct tfc__channel *channel)
{
	struct tfc__buf *out = &channel->out;
	int code = channel->failure.code;
	/* Keeps the buffer from growing when the reader accepts little at a time. */
	if (channel->out_at >= OUT_MAX / 2) {
		memmove(out->data, out->data + channel->out_at, out->len - channel->out_at);
		out->len -= channel->out_at;
		channel->out_at = 0;
	}
	while (code == TFC_OK && !tfc__list_is_empty(&channel->queue) &&
	       out->len - channel->out_at < OUT_MAX)
		code = encode_chunk(channel,
				    tfc__container_of(channel->queue.next, struct outgoing, link));
	return code;
}

int tfc__stream_write(struct tfc__channel *channel)
{
	struct tfc__buf *out = &channel->out;
	int64_t written = 0;
	while (written < TURN_MAX) {
		int code = encode_queued(channel);
		size_t len = out->len - channel->out_at;
		if (code < 0)
			return code;
		if (!len) {
			stream_await(channel, 0);
			return TFC_OK;
		}
		int64_t count = tfc__pipe_write(channel->pipe, out->data + channel->out_at, len,
						&channel->failure);
		if (count < 0)
			return (int)count;
		written += count;
		channel->out_at += (size_t)count;
		if ((size_t)count < len)
			break;
		channel->out_at = 0;
		if (out->capacity > KEEP && tfc__list_is_empty(&channel->queue))
			tfc__buf_fini(out);
		else
			tfc__buf_clear(out);
	}
	if (written >= TURN_MAX)
		tfc__work_schedule(&channel->work);
	else
		stream_await(channel, TFC_PIPE_EVENT_WRITABLE);
	return TFC_OK;
}

/* ---- receiving */

static int stream_fail_large(struct tfc__channel *channel)
{
	return tfc__channel_fail(channel, TFC_ETOOBIG,
				 "the peer sent a message of more than %u bytes",
				 TFC__RPC_MESSAGE_MAX);
}

static int stream_keep_chunk(struct tfc__channel *channel, const char *data, size_t len)
{
	struct tfc__buf *partial = &channel->partial;
	channel->received += len;
	if (channel->received > TFC__RPC_MESSAGE_MAX)
		return stream_fail_large(channel);
	if (channel->refusal.code)
		return TFC_OK;
	tfc__stream_account(channel);
	if (channel->share && tfc__quota_check(channel->share, len, &channel->refusal) < 0) {
		/* The rest of the message will be dropped. Only its beginning is kept, which
		 * identifies the message. */
		const char *begin = partial->len ? partial->data : data;
		size_t have = partial->len ? partial->len : len;
		memset(channel->begin, 0, sizeof(channel->begin));
		memcpy(channel->begin, begin,
		       have < sizeof(channel->begin) ? have : sizeof(channel->begin));
		tfc__buf_fini(partial);
		return TFC_OK;
	}
	tfc__buf_add(partial, data, len);
	return partial->is_failed ? stream_fail_nomem(channel) : TFC_OK;
}

static int stream_on_chunk(struct tfc__channel *channel, const char *data, size_t len, bool is_last)
{
	if (is_last && !channel->received) { /* the whole message: it is not copied */
		channel->ops->message(channel->user, data, len);
		return TFC_OK;
	}
	int code = stream_keep_chunk(channel, data, len);
	if (code < 0 || !is_last)
		return code;
	struct tfc__buf whole = channel->partial;
	tfc_error refusal = channel->refusal;
	channel->partial = (struct tfc__buf){0};
	channel->received = 0;
	channel->refusal.code = 0;
	tfc__stream_account(channel);
	if (refusal.code)
		channel->ops->refused(channel->user, channel->begin, sizeof(channel->begin),
				      &refusal);
	else
		channel->ops->message(channel->user, whole.data, whole.len);
	tfc__buf_fini(&whole);
	return TFC_OK;
}

/* Returns 1 if a chunk was passed on, 0 if it is not complete yet. */
static int read_sealed_chunk(struct tfc__channel *channel)
{
	size_t have = channel->in.len - channel->in_at;
	if (have < HEAD)
		return 0;
	size_t len = read_length((const uint8_t *)channel->in.data + channel->in_at);
	if (len > TFC__NOISE_MESSAGE_MAX)
		return stream_fail_large(channel);
	if (len < TFC__NOISE_TAG)
		return tfc__channel_fail(channel, TFC_EPARSE, "record too short");
	if (have < HEAD + len)
		return 0;
	char *data = channel->in.data + channel->in_at + HEAD;
	channel->in_at += HEAD + len;
	if (tfc__noise_open(&channel->receiving, data, len, data) < 0)
		return tfc__channel_fail(channel, TFC_EACCES, "a message was altered in transit");
	len -= TFC__NOISE_TAG;
	int code = stream_on_chunk(channel, data, len, len < CHUNK);
	return code < 0 ? code : 1;
}

/* The same without Noise. A long message is passed on in chunks of whatever was received. */
static int read_plain_chunk(struct tfc__channel *channel)
{
	size_t have = channel->in.len - channel->in_at, len = channel->left;
	if (!len) {
		if (have < HEAD)
			return 0;
		len = read_length((const uint8_t *)channel->in.data + channel->in_at);
		if (len > TFC__RPC_MESSAGE_MAX)
			return stream_fail_large(channel);
		have -= HEAD;
		if (have < len && len <= READ)
			return 0;
		channel->in_at += HEAD;
	}
	size_t count = have < len ? have : len;
	channel->left = len - count;
	if (!count && len)
		return 0;
	const char *data = channel->in.data + channel->in_at;
	channel->in_at += count;
	int code = stream_on_chunk(channel, data, count, !channel->left);
	return code < 0 ? code : 1;
}

/* Removes what was passed on. An empty buffer is freed unless it is small. */
static void stream_drop_consumed(struct tfc__channel *channel)
{
	struct tfc__buf *in = &channel->in;
	if (!channel->in_at)
		return;
	in->len -= channel->in_at;
	if (in->len)
		memmove(in->data, in->data + channel->in_at, in->len);
	else if (in->capacity > KEEP)
		tfc__buf_fini(in);
	channel->in_at = 0;
}

/* Bytes stay in the pipe until tfc__stream_write has made room. */
static bool wait_for_reader(struct tfc__channel *channel)
{
	channel->has_unread = stream_is_paused(channel);
	return channel->has_unread;
}

int tfc__stream_read(struct tfc__channel *channel)
{
	for (size_t total = 0; total < TURN_MAX;) {
		if (wait_for_reader(channel))
			return TFC_OK;
		char *at = tfc__buf_reserve(&channel->in, READ);
		if (!at)
			return stream_fail_nomem(channel);
		int64_t count = tfc__pipe_read(channel->pipe, at, READ, &channel->failure);
		if (count < 0)
			return (int)count;
		tfc__buf_grow(&channel->in, (size_t)count);
		total += (size_t)count;
		int code = 1;
		while (code == 1 && !stream_is_paused(channel) && !channel->is_closed)
			code = channel->options.is_noise ? read_sealed_chunk(channel)
							 : read_plain_chunk(channel);
		if (code < 0)
			return code;
		if (channel->is_closed)
			return TFC_OK;
		bool is_drained = tfc__pipe_is_drained(channel->pipe, READ, count);
		stream_drop_consumed(channel);
		if (is_drained && !wait_for_reader(channel)) {
			if (!channel->in.len && channel->in.capacity > KEEP)
				tfc__buf_fini(&channel->in);
			return TFC_OK;
		}
	}
	if (!wait_for_reader(channel))
		tfc__pipe_again(channel->pipe);
	return TFC_OK;
}

void tfc__stream_fini(struct tfc__channel *channel)
{
	TFC__LIST_EACH (link, &channel->queue)
		free_outgoing(channel, tfc__container_of(link, struct outgoing, link));
	tfc__buf_fini(&channel->in);
	tfc__buf_fini(&channel->partial);
	tfc__buf_fini(&channel->out);
	channel->in_at = channel->out_at = 0;
}
