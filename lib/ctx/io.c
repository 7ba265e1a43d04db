#include "ctx/internal.h"

#include <errno.h>

int tfc__io_open(struct tfc__io *io, tfc_ctx *ctx, int fd, uint32_t events, tfc__io_fn fn)
{
	struct epoll_event event = {.events = events, .data.ptr = io};
	if (tfc__ctx_is_forked(ctx))
		return tfc__ctx_enter(ctx);
	if (epoll_ctl(ctx->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		return tfc__fail_errno(&ctx->error, "ctx", errno, "cannot watch descriptor %d", fd);
	*io = (struct tfc__io){.ctx = ctx, .fd = fd, .events = events, .fn = fn};
	return TFC_OK;
}

int tfc__io_set(struct tfc__io *io, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = io};
	if (io->events == events)
		return TFC_OK;
	if (tfc__ctx_is_forked(io->ctx))
		return tfc__ctx_enter(io->ctx);
	if (epoll_ctl(io->ctx->epoll_fd, EPOLL_CTL_MOD, io->fd, &event) < 0)
		return tfc__fail_errno(&io->ctx->error, "ctx", errno, "cannot watch descriptor %d",
				       io->fd);
	io->events = events;
	return TFC_OK;
}

/* The current batch may still contain the io; it is removed, because the caller may free it now. */
void tfc__io_close(struct tfc__io *io)
{
	tfc_ctx *ctx = io->ctx;
	if (!ctx)
		return;
	if (!tfc__ctx_is_forked(ctx))
		epoll_ctl(ctx->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
	for (int i = 0; i < ctx->batch_len; i++)
		if (ctx->batch[i].data.ptr == io)
			ctx->batch[i].data.ptr = NULL;
	io->ctx = NULL;
}

uint32_t tfc__ctx_walk_io(tfc_ctx *ctx)
{
	uint32_t called = 0;
	for (int i = 0; i < ctx->batch_len; i++) {
		struct tfc__io *io = ctx->batch[i].data.ptr;
		if (!io)
			continue;
		/* an earlier callback may have changed io->events */
		uint32_t events = ctx->batch[i].events & (io->events | EPOLLERR | EPOLLHUP);
		if (!events)
			continue;
		called++;
		io->fn(io, events);
	}
	ctx->batch_len = 0;
	return called;
}

int tfc__ctx_fetch_io(tfc_ctx *ctx, int want, int timeout_ms)
{
	int count = epoll_wait(ctx->epoll_fd, ctx->batch, want, timeout_ms);
	if (count < 0)
		return errno == EINTR ? 0
				      : tfc__fail_errno(&ctx->error, "ctx", errno,
							"cannot wait for events");
	ctx->batch_len = count;
	return count;
}

/*
 * Fetches no more events than the budget allows callbacks: epoll moves reported descriptors to the
 * end of its ready list, so events that were fetched and dropped could be passed over forever. The
 * context's own descriptors cost no budget; when they occupied places in a full batch, another
 * batch is fetched.
 */
int tfc__ctx_run_io(tfc_ctx *ctx, uint32_t *left)
{
	for (int own = 0; own <= 2 && *left > 0; own++) {
		int want = *left < IO_BATCH ? (int)*left : IO_BATCH;
		int count = tfc__ctx_fetch_io(ctx, want, 0);
		if (count < 0)
			return count;
		uint32_t called = tfc__ctx_walk_io(ctx);
		*left -= called;
		if (count < want || called == (uint32_t)count)
			break;
	}
	return TFC_OK;
}
