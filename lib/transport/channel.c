#include "transport/internal.h"

#include <stdlib.h>
#include <string.h>

int tfc__channel_fail(struct tfc__channel *channel, int code, const char *format, ...)
{
	va_list args;
	if (channel->failure.code)
		return channel->failure.code;
	va_start(args, format);
	tfc__vfail(&channel->failure, code, "transport", 0, format, args);
	va_end(args);
	return code;
}

static void channel_stop(struct tfc__channel *channel)
{
	tfc__work_cancel(&channel->work);
	tfc__pipe_close(channel->pipe);
	channel->pipe = NULL;
	tfc__noise_free(channel->noise);
	channel->noise = NULL;
	tfc__noise_cipher_fini(&channel->sending);
	tfc__noise_cipher_fini(&channel->receiving);
	tfc__stream_fini(channel);
	tfc__stream_account(channel);
	channel->share = NULL;
}

static void channel_free(struct tfc__channel *channel)
{
	channel_stop(channel);
	free(channel);
}

/* Returns from a callback, in which the owner may have closed the channel. True: it is freed. */
static bool channel_free_if_closed(struct tfc__channel *channel)
{
	channel->is_busy = false;
	if (!channel->is_closed)
		return false;
	channel_free(channel);
	return true;
}

/* ---- events */

static int channel_step(struct tfc__channel *channel, uint32_t events)
{
	int code = TFC_OK;
	if (channel->state == CONNECTING) {
		tfc_pipe_info info;
		code = tfc__pipe_describe(channel->pipe, &channel->failure, &info);
		if (code == TFC_ESTATE) /* not connected yet */
			code = TFC_OK;
		else if (code >= 0)
			code = tfc__handshake_begin(channel);
	}
	if (code == TFC_OK && channel->state != CONNECTING && channel->state != UP)
		code = tfc__handshake_read(channel);
	if (code == TFC_OK && channel->state == UP && !channel->is_closed &&
	    (events & TFC_PIPE_EVENT_READABLE || channel->has_unread))
		code = tfc__stream_read(channel);
	if (code == TFC_OK && channel->state != CONNECTING && !channel->is_closed) {
		code = tfc__stream_write(channel);
		/* A failed write ends the channel. The other end may have sent the reason before
		 * it closed the connection, so what was received is read first. */
		if (code < 0 && channel->state == UP)
			tfc__stream_read(channel);
	}
	tfc__stream_account(channel);
	if (code == TFC_OK && channel->is_full && !channel->is_closed &&
	    !tfc__stream_is_full(channel)) {
		channel->is_full = false;
		channel->ops->room(channel->user);
	}
	return code;
}

static void channel_run(struct tfc__channel *channel, uint32_t events)
{
	if (channel->state == DOWN || channel->is_busy)
		return;
	channel->is_busy = true;
	int code = channel->failure.code;
	if (code == TFC_OK)
		code = channel_step(channel, events);
	if (channel_free_if_closed(channel) || code >= 0)
		return;
	channel->state = DOWN;
	channel_stop(channel);
	channel->is_busy = true;
	channel->ops->down(channel->user, &channel->failure);
	channel_free_if_closed(channel);
}

static void channel_on_pipe(void *user, uint32_t events)
{
	channel_run(user, events);
}

/* A message was queued, the pipe was dialed, or either of them failed. */
static void channel_on_work(struct tfc__work *work)
{
	channel_run(tfc__container_of(work, struct tfc__channel, work), 0);
}

/* ---- opening and closing */

static struct tfc__channel *channel_new(tfc_ctx *ctx, const struct tfc__channel_options *options,
					const struct tfc__channel_ops *ops, void *user)
{
	struct tfc__channel *channel = calloc(1, sizeof(*channel));
	if (!channel)
		return NULL;
	channel->ctx = ctx;
	channel->options = *options;
	channel->ops = ops;
	channel->user = user;
	channel->failure.component = "";
	channel->state = options->is_dialer ? CONNECTING : AWAIT_PREAMBLE;
	tfc__work_init(&channel->work, ctx, channel_on_work);
	tfc__list_init(&channel->queue);
	return channel;
}

int tfc__channel_accept(tfc_ctx *ctx, tfc_pipe *pipe, const struct tfc__channel_options *options,
			const struct tfc__channel_ops *ops, void *user,
			struct tfc__channel **ret_channel)
{
	struct tfc__channel *channel = channel_new(ctx, options, ops, user);
	if (!channel)
		return TFC_ENOMEM;
	channel->pipe = pipe;
	tfc__pipe_set_owner(pipe, channel_on_pipe, channel);
	*ret_channel = channel;
	return TFC_OK;
}

int tfc__channel_dial(tfc_ctx *ctx, const char *address, uint32_t flags,
		      const struct tfc__channel_options *options,
		      const struct tfc__channel_ops *ops, void *user, tfc_error *error,
		      struct tfc__channel **ret_channel)
{
	struct tfc__channel *channel = channel_new(ctx, options, ops, user);
	tfc_error why = TFC_ERROR_INIT;
	if (!channel)
		return tfc__fail_nomem(error, "transport");
	int code = tfc__pipe_dial(ctx, address, flags, channel_on_pipe, channel, &why,
				  &channel->pipe);
	if (code == TFC_EINVAL || code == TFC_ENOMEM) {
		if (error)
			*error = why;
		channel_free(channel);
		return code;
	}
	channel->failure = why;
	tfc__work_schedule(&channel->work); /* the pipe may be connected already, or have failed */
	*ret_channel = channel;
	return TFC_OK;
}

void tfc__channel_close(struct tfc__channel *channel)
{
	if (!channel)
		return;
	channel->is_closed = true;
	if (!channel->is_busy) {
		channel_free(channel);
		return;
	}
	if (channel->share)
		tfc__quota_set_bytes(channel->share, 0);
	channel->share = NULL;
}

/* ---- sending and queries */

void tfc__channel_send(struct tfc__channel *channel, struct tfc__buf *message)
{
	if (channel->state != UP || channel->failure.code) {
		tfc__buf_fini(message);
		return;
	}
	tfc__stream_queue(channel, message);
	tfc__stream_account(channel);
	tfc__work_schedule(&channel->work);
}

void tfc__channel_limit(struct tfc__channel *channel, struct tfc__quota_share *share)
{
	channel->share = share;
}

bool tfc__channel_has_room(struct tfc__channel *channel)
{
	if (tfc__stream_is_full(channel))
		channel->is_full = true;
	else if (!channel->share || tfc__quota_has_room(channel->share))
		return true;
	return false;
}

size_t tfc__channel_backlog(const struct tfc__channel *channel)
{
	return channel->queued + channel->out.len - channel->out_at;
}

const struct tfc__key *tfc__channel_key(const struct tfc__channel *channel)
{
	return channel->has_key ? &channel->key : NULL;
}

const uint8_t *tfc__channel_remote(const struct tfc__channel *channel)
{
	return channel->options.is_noise ? channel->remote : NULL;
}

void tfc__channel_refuse(struct tfc__channel *channel)
{
	if (channel->state != UP && channel->state != DOWN)
		tfc__handshake_refuse(channel);
}

tfc_pipe *tfc__channel_pipe(const struct tfc__channel *channel)
{
	return channel->pipe;
}
