#include "transport/pipe.h"

#include <stdlib.h>

#include "transport/registry.h"

struct tfc_pipe {
	const struct tfc__transport *transport;
	void *impl;
	tfc__pipe_fn fn; /* NULL: no owner yet */
	void *user;
	uint32_t pending_events; /* reported in the next turn */
	struct tfc__work work;
};

struct tfc_listener {
	tfc_ctx *ctx;
	const struct tfc__transport *transport;
	void *impl;
	tfc__listener_pipe_fn fn;
	void *user;
};

static void pipe_report_events(struct tfc__work *work)
{
	tfc_pipe *pipe = tfc__container_of(work, tfc_pipe, work);
	uint32_t events = pipe->pending_events;
	pipe->pending_events = 0;
	if (pipe->fn)
		pipe->fn(pipe->user, events);
}

static tfc_pipe *pipe_new(tfc_ctx *ctx, const struct tfc__transport *transport)
{
	tfc_pipe *pipe = calloc(1, sizeof(*pipe));
	if (!pipe)
		return NULL;
	pipe->transport = transport;
	tfc__work_init(&pipe->work, ctx, pipe_report_events);
	return pipe;
}

static void pipe_report_later(tfc_pipe *pipe, uint32_t events)
{
	pipe->pending_events |= events;
	tfc__work_schedule(&pipe->work);
}

void tfc_pipe_ready(tfc_pipe *pipe, uint32_t events)
{
	if (!pipe)
		return;
	if (pipe->transport->is_level && pipe->fn)
		pipe->fn(pipe->user, events);
	else
		pipe_report_later(pipe, events);
}

int tfc__pipe_dial(tfc_ctx *ctx, const char *address, uint32_t flags, tfc__pipe_fn fn, void *user,
		   tfc_error *error, tfc_pipe **ret_pipe)
{
	struct tfc__transport *transport;
	int code = tfc__transport_find(ctx, address, error, &transport);
	if (code < 0)
		return code;
	tfc_pipe *pipe = pipe_new(ctx, transport);
	if (!pipe)
		return tfc__fail_nomem(error, "transport");
	code = transport->ops.dial(transport->impl, address, flags, pipe, &pipe->impl, error);
	if (code < 0) {
		tfc__work_cancel(&pipe->work);
		free(pipe);
		return code;
	}
	tfc__pipe_set_owner(pipe, fn, user);
	*ret_pipe = pipe;
	return TFC_OK;
}

void tfc__pipe_set_owner(tfc_pipe *pipe, tfc__pipe_fn fn, void *user)
{
	pipe->fn = fn;
	pipe->user = user;
}

int tfc__pipe_describe(tfc_pipe *pipe, tfc_error *error, tfc_pipe_info *ret_info)
{
	*ret_info = (tfc_pipe_info){.size = sizeof(*ret_info)};
	int code = pipe->transport->ops.describe(pipe->impl, ret_info, error);
	ret_info->address[sizeof(ret_info->address) - 1] = '\0';
	if (ret_info->group_count > TFC_PIPE_GROUPS_MAX)
		ret_info->group_count = TFC_PIPE_GROUPS_MAX;
	return code;
}

int64_t tfc__pipe_read(tfc_pipe *pipe, void *data, size_t len, tfc_error *error)
{
	return pipe->transport->ops.read(pipe->impl, data, len, error);
}

int64_t tfc__pipe_write(tfc_pipe *pipe, const void *data, size_t len, tfc_error *error)
{
	return pipe->transport->ops.write(pipe->impl, data, len, error);
}

void tfc__pipe_want(tfc_pipe *pipe, uint32_t events)
{
	pipe->transport->ops.want(pipe->impl, events);
}

bool tfc__pipe_is_drained(const tfc_pipe *pipe, size_t requested, int64_t got)
{
	return got <= 0 || (pipe->transport->is_level && (size_t)got < requested);
}

void tfc__pipe_again(tfc_pipe *pipe)
{
	if (!pipe->transport->is_level)
		pipe_report_later(pipe, TFC_PIPE_EVENT_READABLE);
}

void tfc__pipe_close(tfc_pipe *pipe)
{
	if (!pipe)
		return;
	tfc__work_cancel(&pipe->work);
	pipe->transport->ops.close(pipe->impl);
	free(pipe);
}

/* ---- listeners */

int tfc_listener_accept(tfc_listener *listener, void *pipe_impl, tfc_pipe **ret_pipe)
{
	if (!listener || !ret_pipe)
		return TFC_EINVAL;
	tfc_pipe *pipe = pipe_new(listener->ctx, listener->transport);
	if (!pipe)
		return TFC_ENOMEM;
	pipe->impl = pipe_impl;
	int code = listener->fn(listener->user, pipe);
	if (code < 0) {
		free(pipe);
		return code;
	}
	*ret_pipe = pipe;
	/* it may have become readable before it had an owner */
	pipe_report_later(pipe, TFC_PIPE_EVENT_READABLE | TFC_PIPE_EVENT_WRITABLE);
	return TFC_OK;
}

int tfc__listener_open(tfc_ctx *ctx, const char *address, uint32_t flags, tfc__listener_pipe_fn fn,
		       void *user, tfc_error *error, tfc_listener **ret_listener)
{
	struct tfc__transport *transport;
	int code = tfc__transport_find(ctx, address, error, &transport);
	if (code < 0)
		return code;
	tfc_listener *listener = calloc(1, sizeof(*listener));
	if (!listener)
		return tfc__fail_nomem(error, "transport");
	*listener = (struct tfc_listener){ctx, transport, NULL, fn, user};
	code = transport->ops.listen(transport->impl, address, flags, listener, &listener->impl,
				     error);
	if (code < 0) {
		free(listener);
		return code;
	}
	*ret_listener = listener;
	return TFC_OK;
}

const char *tfc__listener_address(const tfc_listener *listener)
{
	return listener->transport->ops.listener_address(listener->impl);
}

void tfc__listener_close(tfc_listener *listener)
{
	if (!listener)
		return;
	listener->transport->ops.listener_close(listener->impl);
	free(listener);
}
