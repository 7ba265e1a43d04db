/*
 * A pairing heap of timers (Fredman, Sedgewick, Sleator, Tarjan 1986). The root is the earliest
 * timer. The children of a node form a doubly linked list; the `prev` of its first member is the
 * parent.
 */
#include "ctx/internal.h"

#include <sys/timerfd.h>

#include "base/clock.h"

static struct tfc__timer *timers_meld(struct tfc__timer *a, struct tfc__timer *b)
{
	if (!a || !b)
		return a ? a : b;
	if (b->at < a->at) {
		struct tfc__timer *earlier = b;
		b = a;
		a = earlier;
	}
	b->prev = a;
	b->next = a->child;
	if (a->child)
		a->child->prev = b;
	a->child = b;
	return a;
}

/* Melds pairs from left to right, then the results from right to left, without recursion. */
static struct tfc__timer *timers_meld_siblings(struct tfc__timer *first)
{
	struct tfc__timer *pairs = NULL;
	while (first) {
		struct tfc__timer *a = first, *b = a->next;
		first = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		a = timers_meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	struct tfc__timer *root = NULL;
	while (pairs) {
		struct tfc__timer *pair = pairs;
		pairs = pair->next;
		pair->next = NULL;
		root = timers_meld(root, pair);
	}
	return root;
}

static void timer_remove(struct tfc__timer *timer)
{
	tfc_ctx *ctx = timer->ctx;
	struct tfc__timer *rest = timers_meld_siblings(timer->child);
	if (timer == ctx->timers) {
		ctx->timers = rest;
	} else {
		if (timer->prev->child == timer)
			timer->prev->child = timer->next;
		else
			timer->prev->next = timer->next;
		if (timer->next)
			timer->next->prev = timer->prev;
		ctx->timers = timers_meld(ctx->timers, rest);
	}
	timer->child = timer->next = timer->prev = NULL;
	timer->at = 0;
}

/* Setting a timerfd also clears its expiration, so the timerfd is never read. */
void tfc__ctx_arm(tfc_ctx *ctx)
{
	uint64_t at = ctx->timers ? ctx->timers->at : 0;
	if (at == ctx->armed_at || ctx->is_ending || tfc__ctx_is_forked(ctx))
		return;
	struct itimerspec when = {
		.it_value = {.tv_sec = (time_t)(at / TFC__SECOND),
			     .tv_nsec = (long)(at % TFC__SECOND)},
	};
	timerfd_settime(ctx->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
	uint64_t now = tfc__now();
	ctx->armed_at = at;
	ctx->due_at = at && at < now ? now : at;
}

/* Dispatch sets the timerfd once, at its end. */
static void timers_changed(tfc_ctx *ctx)
{
	if (!ctx->is_dispatching)
		tfc__ctx_arm(ctx);
}

void tfc__timer_init(struct tfc__timer *timer, tfc_ctx *ctx, tfc__timer_fn fn)
{
	*timer = (struct tfc__timer){.ctx = ctx, .fn = fn};
}

void tfc__timer_set(struct tfc__timer *timer, uint64_t at)
{
	if (timer->at)
		timer_remove(timer);
	timer->at = at ? at : 1; /* 0 means "not set" */
	timer->ctx->timers = timers_meld(timer->ctx->timers, timer);
	timers_changed(timer->ctx);
}

void tfc__timer_cancel(struct tfc__timer *timer)
{
	if (!timer->at)
		return;
	timer_remove(timer);
	timers_changed(timer->ctx);
}

int tfc__ctx_run_timers(tfc_ctx *ctx, uint32_t *left)
{
	if (!ctx->timers)
		return TFC_OK;
	uint64_t now = tfc__now();
	while (*left > 0 && ctx->timers && ctx->timers->at <= now) {
		struct tfc__timer *timer = ctx->timers;
		timer_remove(timer);
		--*left;
		timer->fn(timer);
	}
	return TFC_OK;
}
