/*
 * A dispatch runs turns; in each turn every source runs what was due when the turn began. The
 * dispatch ends when a turn had nothing to do, or when the budget or the time slice is used up.
 */
#include "ctx/internal.h"

#include <poll.h>

#include "base/clock.h"

enum {
	DEFAULT_BUDGET = 64,
};

#define SLICE (2 * TFC__MS)     /* ns after which no further turn begins */
#define STALL (2 * TFC__SECOND) /* a busy machine may cause a shorter one */

typedef int (*source_fn)(tfc_ctx *ctx, uint32_t *left);

static const source_fn sources[SOURCE_COUNT] = {
	tfc__ctx_run_work,
	tfc__ctx_run_posts,
	tfc__ctx_run_timers,
	tfc__ctx_run_io,
};

/*
 * Turns run the sources in a fixed order. When a source uses up the budget, the next dispatch
 * begins with the source after it, so that a source that always has work cannot starve another.
 * Returns 1 when descriptors were polled last and none was ready.
 */
static int ctx_run_turn(tfc_ctx *ctx, uint32_t *left)
{
	uint32_t first = ctx->first_source, before = 0;
	ctx->first_source = 0;
	for (uint32_t i = 0; i < SOURCE_COUNT; i++) {
		uint32_t at = (first + i) % SOURCE_COUNT;
		before = *left;
		int code = sources[at](ctx, left);
		if (code < 0)
			return code;
		if (*left == 0) {
			ctx->first_source = (at + 1) % SOURCE_COUNT;
			return 0;
		}
	}
	return first == 0 && *left == before;
}

static int ctx_refuse_reentrance(tfc_ctx *ctx)
{
	if (!ctx->is_dispatching)
		return TFC_OK;
	return tfc__ctx_fail(
		ctx, TFC_ESTATE, "ctx", 0,
		"tfc_ctx_dispatch was called inside a callback; return to the loop first");
}

void tfc__ctx_watch_stalls(tfc_ctx *ctx, struct tfc__observer *observer)
{
	tfc__observers_add(&ctx->stalls, observer);
}

static void ctx_check_stall(tfc_ctx *ctx, uint64_t now)
{
	int64_t suspended = (int64_t)(tfc__boot_time() - now), since = ctx->suspended_ns;
	uint64_t begin = ctx->due_at > ctx->checked_at ? ctx->due_at : ctx->checked_at;
	uint64_t stall = ctx->due_at && now > begin ? now - begin : 0;
	ctx->checked_at = now;
	ctx->suspended_ns = suspended;
	if (suspended > since)
		stall += (uint64_t)(suspended - since);
	if (stall >= STALL)
		tfc__observers_notify(&ctx->stalls, &stall);
}

static int ctx_dispatch(tfc_ctx *ctx, uint32_t left)
{
	uint64_t start = tfc__now();
	int code;
	bool is_done = false, is_cut = false; /* no work is left; work may be left */
	tfc__ctx_clear_wake(ctx);
	ctx->is_dispatching = true;
	ctx_check_stall(ctx, start);
	tfc__ctx_walk_io(ctx);
	do {
		code = ctx_run_turn(ctx, &left);
		uint64_t now = tfc__now();
		ctx_check_stall(ctx, now); /* in a callback */
		bool is_due = ctx->timers && ctx->timers->at <= now;
		is_done = code == 1 && !is_due && !tfc__ctx_is_waiting(ctx);
		is_cut = left == 0 || now - start >= SLICE;
	} while (code >= 0 && !is_done && !is_cut);
	ctx->is_dispatching = false;

	tfc__ctx_arm(ctx);
	bool is_waiting = tfc__ctx_signal(ctx);
	if (code < 0)
		return code;
	struct pollfd poller = {.fd = ctx->epoll_fd, .events = POLLIN};
	return is_waiting || (!is_done && poll(&poller, 1, 0) > 0);
}

int tfc_ctx_dispatch(tfc_ctx *ctx, uint32_t budget)
{
	int code = tfc__ctx_enter(ctx);
	if (code == TFC_OK)
		code = ctx_refuse_reentrance(ctx);
	return code < 0 ? code : ctx_dispatch(ctx, budget ? budget : DEFAULT_BUDGET);
}

/* The wait also fetches the ready descriptors: one system call less than poll and dispatch. */
int tfc_ctx_run(tfc_ctx *ctx, int timeout_ms)
{
	int code = tfc__ctx_enter(ctx);
	if (code == TFC_OK)
		code = ctx_refuse_reentrance(ctx);
	if (code == TFC_OK)
		code = tfc__ctx_fetch_io(ctx, IO_BATCH, timeout_ms < 0 ? -1 : timeout_ms);
	return code > 0 ? ctx_dispatch(ctx, DEFAULT_BUDGET) : code;
}

/* ---- deferred work */

void tfc__work_init(struct tfc__work *work, tfc_ctx *ctx, tfc__work_fn fn)
{
	tfc__list_init(&work->link);
	work->ctx = ctx;
	work->fn = fn;
}

void tfc__work_schedule(struct tfc__work *work)
{
	tfc_ctx *ctx = work->ctx;
	if (!tfc__list_is_empty(&work->link))
		return;
	tfc__list_append(&ctx->work, &work->link);
	if (!ctx->is_dispatching)
		tfc__ctx_signal(ctx);
}

/* Leaves the eventfd readable, which costs at most one dispatch without work: cheaper than a system
 * call for every cancel. */
void tfc__work_cancel(struct tfc__work *work)
{
	if (work->ctx)
		tfc__list_remove(&work->link);
}

/* A marker ends the turn: work that a callback schedules goes behind the marker and runs in the
 * next turn. */
int tfc__ctx_run_work(tfc_ctx *ctx, uint32_t *left)
{
	struct tfc__link *marker = &ctx->work_marker;
	tfc__list_append(&ctx->work, marker);
	while (*left > 0 && ctx->work.next != marker) {
		struct tfc__work *work = tfc__container_of(ctx->work.next, struct tfc__work, link);
		tfc__list_remove(&work->link);
		--*left;
		work->fn(work);
	}
	tfc__list_remove(marker);
	return TFC_OK;
}
