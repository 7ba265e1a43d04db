#include "feed/relay.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "feed/layout.h"
#include "feed/segment.h"

struct tfc__feed_relay {
	struct tfc__feed_socket socket;
	const struct tfc__feed_relay_ops *ops;
	void *user;
	bool is_down;
	bool is_finishing;
	struct tfc__work finished;
	uint64_t granted; /* WELCOME of the local end: memory of the other one may be as large */

	/* from the local end */
	struct tfc__feed_mapping *mapping;
	struct tfc__buf unsent;     /* a message */
	uint64_t send_at, send_len; /* rows that follow it, in the mapping */

	/* from the other machine */
	struct tfc__noted_fd memory; /* -1: none */
	uint64_t size;
	struct tfc__buf batch;      /* a batch whose rows are incomplete */
	uint64_t fill_at, fill_len; /* rows that are missing */
	uint8_t used_blocks[TFC__FEED_BLOCKS_MAX / 8];
	uint64_t held; /* cost of the frames whose messages wait for room in the kernel */
};

static int relay_refuse(tfc_error *error, const char *what)
{
	return tfc__fail(error, TFC_EPARSE, "feed", 0, "the other end of the feed has sent %s",
			 what);
}

static void relay_break(struct tfc__feed_relay *relay, const tfc_error *why)
{
	if (relay->is_down)
		return;
	relay->is_down = true;
	tfc__work_cancel(&relay->finished);
	relay->ops->down(relay->user, why);
}

static bool is_block_used(const struct tfc__feed_relay *relay, uint32_t block)
{
	return relay->used_blocks[block / 8] >> block % 8 & 1;
}

static int check_batch(const struct tfc__feed_message *message, uint64_t size, tfc_error *error)
{
	if (message->block >= TFC__FEED_BLOCKS_MAX || message->at % TFC__FEED_ALIGN ||
	    message->at > size || message->bytes > size - message->at)
		return relay_refuse(error, "a batch outside of its memory");
	return TFC_OK;
}

/* ---- to the other machine */

/* Sends the message and its rows, as far as possible; reads no other message before. */
static int relay_pump(struct tfc__feed_relay *relay, tfc_error *error)
{
	while (relay->unsent.len || relay->send_len) {
		uint64_t len = relay->send_len < TFC__FEED_PART ? relay->send_len : TFC__FEED_PART;
		struct tfc__feed_frame frame = {.message = relay->unsent.data,
						.message_len = relay->unsent.len,
						.data_len = len};
		if (len)
			frame.data = tfc__feed_mapping_base(relay->mapping) + relay->send_at;
		int code = relay->ops->send(relay->user, &frame);
		if (code == TFC_EAGAIN) {
			tfc__feed_socket_pause(&relay->socket, true);
			return TFC_OK;
		}
		if (code < 0)
			return tfc__fail(error, code, "feed", 0,
					 "cannot send to the other machine: %s",
					 tfc_err_text(code));
		tfc__buf_clear(&relay->unsent);
		relay->send_at += len;
		relay->send_len -= len;
	}
	int code = tfc__feed_socket_pause(&relay->socket, false);
	return code < 0 ? tfc__fail(error, code, "feed", 0, "cannot read the feed: %s",
				    tfc_err_text(code))
			: TFC_OK;
}

void tfc__feed_relay_resume(struct tfc__feed_relay *relay)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!relay->is_down && relay_pump(relay, &error) < 0)
		relay_break(relay, &error);
}

static int relay_map(struct tfc__feed_relay *relay, const struct tfc__feed_message *message,
		     int *fd, tfc_error *error)
{
	int segment = *fd;
	if (segment < 0 || relay->mapping)
		return relay_refuse(error, "its memory twice, or none");
	*fd = -1;
	return tfc__feed_mapping_open(segment, message->window, error, &relay->mapping);
}

static int relay_take(struct tfc__feed_relay *relay, const struct tfc__feed_message *message,
		      int *fd, tfc_error *error)
{
	int code = TFC_OK;
	switch (message->kind) {
	case TFC__FEED_SEGMENT:
		code = relay_map(relay, message, fd, error);
		break;
	case TFC__FEED_BATCH:
		code = check_batch(message,
				   relay->mapping ? tfc__feed_mapping_size(relay->mapping) : 0,
				   error);
		relay->send_at = message->at;
		relay->send_len = code == TFC_OK ? message->bytes : 0;
		break;
	case TFC__FEED_RELEASE:
		if (message->block < TFC__FEED_BLOCKS_MAX)
			relay->used_blocks[message->block / 8] &= (uint8_t) ~(1u << message->block %
											    8);
		break;
	case TFC__FEED_WELCOME:
		relay->granted = message->window;
		break;
	default:
		break;
	}
	if (code < 0)
		return code;
	tfc__buf_add(&relay->unsent, relay->socket.received, relay->socket.received_len);
	return relay->unsent.is_failed ? tfc__fail_nomem(error, "feed") : relay_pump(relay, error);
}

static void relay_message(void *user, const struct tfc__feed_message *message, int fd)
{
	struct tfc__feed_relay *relay = user;
	tfc_error error = TFC_ERROR_INIT;
	int code = relay->is_down ? TFC_OK : relay_take(relay, message, &fd, &error);
	if (fd >= 0)
		close(fd);
	if (code < 0)
		relay_break(relay, &error);
}

static void relay_down(void *user, const tfc_error *why)
{
	relay_break(user, why);
}

bool tfc__feed_relay_is_empty(const struct tfc__feed_relay *relay)
{
	int unread = 0;
	ioctl(relay->socket.fd.fd, SIOCINQ, &unread);
	return !unread && !relay->unsent.len && !relay->send_len;
}

/* ---- from the other machine */

static int relay_make_memory(struct tfc__feed_relay *relay, const struct tfc__feed_message *message,
			     tfc_error *error)
{
	uint64_t most = relay->granted >= TFC__FEED_WINDOW_MIN ? relay->granted
							       : TFC__FEED_WINDOW_MAX;
	int fd;
	if (relay->memory.fd >= 0 || !message->window || message->window > most)
		return relay_refuse(error, "its memory twice, or more of it than agreed");
	int code = tfc__feed_memory_make(message->window, error, &fd);
	if (code < 0)
		return code;
	tfc__fd_note(relay->socket.ctx, &relay->memory, fd);
	relay->size = message->window;
	return TFC_OK;
}

static int relay_begin_batch(struct tfc__feed_relay *relay, const struct tfc__feed_message *message,
			     tfc_error *error)
{
	int code = check_batch(message, relay->size, error);
	if (code < 0)
		return code;
	if (is_block_used(relay, message->block))
		return relay_refuse(error, "a batch in memory that was not released");
	relay->used_blocks[message->block / 8] |= (uint8_t)(1u << message->block % 8);
	relay->fill_at = message->at;
	relay->fill_len = message->bytes;
	return TFC_OK;
}

/* Copies rows to where the batch has them. Unlike a write to a mapping, this cannot fault. */
static int relay_fill(struct tfc__feed_relay *relay, const struct tfc__feed_frame *frame,
		      tfc_error *error)
{
	const uint8_t *data = frame->data;
	uint64_t len = frame->data_len;
	if (len > relay->fill_len)
		return relay_refuse(error, "more rows than its batch has");
	while (len) {
		ssize_t written = pwrite(relay->memory.fd, data, len, (off_t)relay->fill_at);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return tfc__fail_errno(error, "feed", written ? errno : ENOSPC,
					       "cannot write to shared memory");
		data += written;
		len -= (uint64_t)written;
		relay->fill_at += (uint64_t)written;
		relay->fill_len -= (uint64_t)written;
	}
	return TFC_OK;
}

static int relay_give(struct tfc__feed_relay *relay, const void *message, size_t len, int fd,
		      tfc_error *error)
{
	int code = tfc__feed_socket_send_bytes(&relay->socket, message, len, fd);
	return code < 0 ? tfc__fail(error, code, "feed", 0, "cannot pass on a message: %s",
				    tfc_err_text(code))
			: TFC_OK;
}

/* A batch waits for its rows. All other messages are passed on as they are, with fields that this
 * version does not know. */
static int relay_pass(struct tfc__feed_relay *relay, const struct tfc__feed_message *message,
		      const struct tfc__feed_frame *frame, tfc_error *error)
{
	int code = TFC_OK, fd = -1;
	switch (message->kind) {
	case TFC__FEED_REGISTER:
	case TFC__FEED_CONNECT:
	case TFC__FEED_CONNECTED:
	case TFC__FEED_REFUSED:
		return relay_refuse(error, "a message that is not one of a stream");
	case TFC__FEED_SEGMENT:
		code = relay_make_memory(relay, message, error);
		fd = relay->memory.fd;
		break;
	case TFC__FEED_BATCH:
		if ((code = relay_begin_batch(relay, message, error)) < 0)
			return code;
		tfc__buf_add(&relay->batch, frame->message, frame->message_len);
		return relay->batch.is_failed ? tfc__fail_nomem(error, "feed") : TFC_OK;
	default:
		break;
	}
	return code < 0 ? code : relay_give(relay, frame->message, frame->message_len, fd, error);
}

static int relay_receive(struct tfc__feed_relay *relay, const struct tfc__feed_frame *frame,
			 tfc_error *error)
{
	int code = TFC_OK;
	if (frame->message_len) {
		struct tfc__feed_parsed parsed;
		if (relay->batch.len || frame->message_len > TFC__FEED_MESSAGE_MAX)
			return relay_refuse(error, "a message in place of rows, or a long one");
		code = tfc__feed_message_parse(&parsed, frame->message, frame->message_len, error);
		if (code < 0)
			return code;
		code = relay_pass(relay, &parsed.message, frame, error);
		tfc__feed_parsed_fini(&parsed);
	}
	if (code == TFC_OK)
		code = relay_fill(relay, frame, error);
	if (code < 0 || !relay->batch.len || relay->fill_len)
		return code;
	code = relay_give(relay, relay->batch.data, relay->batch.len, -1, error);
	tfc__buf_clear(&relay->batch);
	return code;
}

static void relay_room(void *user)
{
	struct tfc__feed_relay *relay = user;
	uint64_t held = relay->held;
	relay->held = 0;
	if (held)
		relay->ops->handled(relay->user, held);
	if (relay->is_finishing)
		tfc__work_schedule(&relay->finished);
}

void tfc__feed_relay_receive(struct tfc__feed_relay *relay, const struct tfc__feed_frame *frame)
{
	tfc_error error = TFC_ERROR_INIT;
	if (relay->is_down)
		return;
	if (relay_receive(relay, frame, &error) < 0) {
		relay_break(relay, &error);
		return;
	}
	relay->held += tfc__feed_frame_cost(frame);
	if (tfc__list_is_empty(&relay->socket.queue))
		relay_room(relay);
	else
		tfc__feed_socket_await_room(&relay->socket);
}

static void relay_finished(struct tfc__work *work)
{
	struct tfc__feed_relay *relay = tfc__container_of(work, struct tfc__feed_relay, finished);
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ELOST, "feed", 0, "the other machine has closed the feed");
	relay_break(relay, &error);
}

void tfc__feed_relay_finish(struct tfc__feed_relay *relay)
{
	relay->is_finishing = true;
	if (tfc__list_is_empty(&relay->socket.queue))
		tfc__work_schedule(&relay->finished);
	else
		tfc__feed_socket_await_room(&relay->socket);
}

/* ---- opening and closing */

static const struct tfc__feed_socket_ops relay_socket_ops = {relay_message, relay_down, relay_room};

int tfc__feed_relay_open(tfc_ctx *ctx, int fd, const struct tfc__feed_relay_ops *ops, void *user,
			 tfc_error *error, struct tfc__feed_relay **ret_relay)
{
	struct tfc__feed_relay *relay = calloc(1, sizeof(*relay));
	if (!relay) {
		close(fd);
		return tfc__fail_nomem(error, "feed");
	}
	relay->ops = ops;
	relay->user = user;
	relay->memory.fd = -1;
	tfc__work_init(&relay->finished, ctx, relay_finished);
	int code = tfc__feed_socket_open(&relay->socket, ctx, fd, &relay_socket_ops, relay, error);
	if (code < 0) {
		free(relay);
		return code;
	}
	*ret_relay = relay;
	return TFC_OK;
}

void tfc__feed_relay_close(struct tfc__feed_relay *relay)
{
	if (!relay)
		return;
	tfc__work_cancel(&relay->finished);
	tfc__feed_socket_close(&relay->socket);
	tfc__feed_mapping_release(relay->mapping);
	tfc__fd_close(&relay->memory);
	tfc__buf_fini(&relay->unsent);
	tfc__buf_fini(&relay->batch);
	free(relay);
}
