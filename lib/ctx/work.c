#include "ctx/internal.h"

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

/* The eventfd may stay readable for one dispatch that finds nothing; a cancel is not worth a call.
 */
void tfc__work_cancel(struct tfc__work *work)
{
	if (work->ctx)
		tfc__list_remove(&work->link);
}

/* A marker ends the turn: what is scheduled meanwhile comes behind it and waits for the next. */
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
