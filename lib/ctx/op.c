#include "ctx/internal.h"

#include "base/clock.h"

static void op_end(tfc_op *op, int code)
{
	op->is_ending = true;
	tfc__list_remove(&op->link);
	op->end(op, code);
}

static void op_expire(struct tfc__timer *timer)
{
	op_end(tfc__container_of(timer, tfc_op, deadline), TFC_ETIMEDOUT);
}

static void op_report(struct tfc__work *work)
{
	tfc_op *op = tfc__container_of(work, tfc_op, work);
	op_end(op, op->code);
}

void tfc__op_init(tfc_op *op, tfc_ctx *ctx, uint32_t timeout_ms, tfc__op_end_fn end_fn)
{
	tfc__timer_init(&op->deadline, ctx, op_expire);
	tfc__work_init(&op->work, ctx, op_report);
	tfc__list_init(&op->link);
	op->end = end_fn;
	op->free = NULL;
	op->code = TFC_OK;
	op->is_ending = false;
	if (timeout_ms)
		tfc__timer_set(&op->deadline, tfc__now() + timeout_ms * TFC__MS);
}

void tfc__op_free_with(tfc_op *op, void (*free_fn)(tfc_op *op))
{
	op->free = free_fn;
	tfc__list_append(op->work.ctx->ops.next, &op->link); /* before all others */
}

void tfc__op_free_last(tfc_op *op, void (*free_fn)(tfc_op *op))
{
	op->free = free_fn;
	tfc__list_append(&op->work.ctx->ops, &op->link);
}

void tfc__ctx_drop_ops(tfc_ctx *ctx)
{
	ctx->is_ending = true;
	TFC__LIST_EACH (link, &ctx->ops) {
		tfc_op *op = tfc__container_of(link, tfc_op, link);
		tfc__op_drop(op); /* also its work and deadline, which others are linked to */
		op->free(op);
	}
}

/* The first call to end an operation decides its code; the deadline no longer applies. */
static void op_begin_end(tfc_op *op, int code)
{
	if (op->is_ending)
		return;
	op->is_ending = true;
	op->code = code;
	tfc__timer_cancel(&op->deadline);
	tfc__work_schedule(&op->work);
}

void tfc__op_finish(tfc_op *op)
{
	op_begin_end(op, TFC_OK);
}

void tfc_op_cancel(tfc_op *op)
{
	if (op)
		op_begin_end(op, TFC_ECANCELED);
}

void tfc__op_drop(tfc_op *op)
{
	op->is_ending = true;
	tfc__list_remove(&op->link);
	tfc__timer_cancel(&op->deadline);
	tfc__work_cancel(&op->work);
}
