#include "gateway/sub.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "gateway/gateway.h"

#define EVENTS_PER_TURN 64

static bool sub_may_report(const tfc_sub *sub)
{
	return !sub->is_paused && !sub->is_ended && !sub->is_closed;
}

static void sub_detach(tfc_sub *sub)
{
	if (sub->is_detached)
		return;
	sub->is_detached = true;
	if (sub->ops->detach)
		sub->ops->detach(sub);
	tfc__list_remove(&sub->link);
	tfc__work_cancel(&sub->work);
}

static void sub_run_turn(struct tfc__work *work)
{
	tfc_sub *sub = tfc__container_of(work, tfc_sub, work);
	int reported = 0;
	sub->is_reporting = true;
	if (sub->turning)
		sub->turning(sub->user);
	while (reported < EVENTS_PER_TURN && sub_may_report(sub) && sub->ops->report(sub))
		reported++;
	if (sub->ops->suspend && !sub->is_detached)
		sub->ops->suspend(sub, false);
	if (sub->turned && !sub->is_closed)
		sub->turned(sub->user);
	sub->is_reporting = false;
	if (sub->is_closed)
		sub->ops->free(sub);
	else if (reported == EVENTS_PER_TURN && sub_may_report(sub))
		tfc__work_schedule(&sub->work);
}

void tfc__sub_init(tfc_sub *sub, const struct tfc__sub_ops *ops, tfc_ctx *ctx,
		   struct tfc__link *list, tfc_event_fn fn, void *user)
{
	sub->ops = ops;
	sub->ctx = ctx;
	sub->fn = fn;
	sub->user = user;
	tfc__list_init(&sub->link);
	if (list)
		tfc__list_append(list, &sub->link);
	tfc__work_init(&sub->work, ctx, sub_run_turn);
}

static void sub_close_handle(struct tfc__handle *handle)
{
	tfc_sub_close(tfc__container_of(handle, tfc_sub, handle));
}

void tfc__sub_open(tfc_sub *sub)
{
	tfc__handle_open(sub->ctx, &sub->handle, TFC__HANDLE_SUBSCRIPTION, sub_close_handle);
}

void tfc__sub_wake(tfc_sub *sub)
{
	if (!sub_may_report(sub) || sub->is_detached)
		return;
	if (sub->wake)
		sub->wake(sub);
	else
		tfc__work_schedule(&sub->work);
}

int tfc__sub_pull(tfc_sub *sub)
{
	sub->is_reporting = true;
	int reported = sub_may_report(sub) && sub->ops->report(sub);
	sub->is_reporting = false;
	if (sub->is_closed)
		sub->ops->free(sub);
	return reported;
}

void tfc__sub_suspend(tfc_sub *sub)
{
	sub->is_paused = true;
	if (sub->ops->suspend && !sub->is_detached)
		sub->ops->suspend(sub, true);
}

void tfc__sub_orphan(tfc_sub *sub)
{
	sub_detach(sub);
	sub->is_ended = true;
}

void tfc__sub_report_lost(tfc_sub *sub, const char *job, const tfc_error *error)
{
	tfc_event event = TFC__EVENT_INIT;
	event.kind = TFC_EVENT_LOST;
	event.time_ns = tfc__wall();
	event.job = job;
	event.error_code = error->code;
	event.text = error->text;
	sub->is_ended = true;
	sub->fn(sub->user, &event);
}

int tfc_subscribe_options_init(tfc_subscribe_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

/* ---- a subscription that only reports why the subscription failed */

struct refused_sub {
	tfc_sub sub;
	tfc_error error;
	char job[];
};

static int refused_report(tfc_sub *sub)
{
	struct refused_sub *refused = tfc__container_of(sub, struct refused_sub, sub);
	tfc__sub_report_lost(sub, refused->job, &refused->error);
	return 1;
}

static void refused_free(tfc_sub *sub)
{
	free(tfc__container_of(sub, struct refused_sub, sub));
}

static int refused_new(tfc_gateway *gateway, const char *job, tfc_event_fn fn, void *user,
		       tfc_error *error, tfc_sub **ret_sub)
{
	static const struct tfc__sub_ops ops = {
		.report = refused_report,
		.free = refused_free,
	};
	struct refused_sub *refused = calloc(1, sizeof(*refused) + strlen(job) + 1);
	if (!refused)
		return tfc__fail_nomem(error, "gateway");
	strcpy(refused->job, job);
	refused->error = *error;
	tfc__sub_init(&refused->sub, &ops, gateway->ctx, &gateway->subs, fn, user);
	tfc__sub_wake(&refused->sub);
	*ret_sub = &refused->sub;
	return TFC_OK;
}

static int check_arguments(tfc_gateway *gateway, tfc_event_fn fn, tfc_sub **ret_sub)
{
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	if (!fn || !ret_sub)
		return tfc__ctx_fail(gateway->ctx, TFC_EINVAL, "gateway", 0, "%s is NULL",
				     fn ? "ret_sub" : "fn");
	return tfc__gateway_check(gateway, tfc__ctx_error(gateway->ctx));
}

/* Errors about the job or the cursor are not returned but reported by LOST. */
static int open_or_refuse(tfc_gateway *gateway, int code, const char *job, tfc_event_fn fn,
			  void *user, tfc_sub **ret_sub)
{
	if (code < 0 && code != TFC_ENOMEM)
		code = refused_new(gateway, job, fn, user, tfc__ctx_error(gateway->ctx), ret_sub);
	if (code == TFC_OK)
		tfc__sub_open(*ret_sub);
	return code;
}

int tfc_gateway_subscribe(tfc_gateway *gateway, const char *job,
			  const tfc_subscribe_options *options, tfc_event_fn fn, void *user,
			  tfc_sub **ret_sub)
{
	tfc_subscribe_options known;
	int code = check_arguments(gateway, fn, ret_sub);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(gateway->ctx);
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_subscribe_options",
				 0, error);
	if (code < 0)
		return code;
	job = job ? job : "";
	code = gateway->ops->subscribe(gateway, job, &known, fn, user, error, ret_sub);
	return open_or_refuse(gateway, code, job, fn, user, ret_sub);
}

int tfc_watch_options_init(tfc_watch_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

int tfc_gateway_watch(tfc_gateway *gateway, const tfc_watch_options *options, tfc_event_fn fn,
		      void *user, tfc_sub **ret_sub)
{
	tfc_watch_options known;
	int code = check_arguments(gateway, fn, ret_sub);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(gateway->ctx);
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_watch_options", 0,
				 error);
	if (code < 0)
		return code;
	code = gateway->ops->watch(gateway, &known, fn, user, error, ret_sub);
	return open_or_refuse(gateway, code, "", fn, user, ret_sub);
}

void tfc_sub_pause(tfc_sub *sub)
{
	for (; sub && tfc__ctx_enter(sub->ctx) == TFC_OK; sub = sub->following)
		sub->is_paused = true;
}

void tfc_sub_resume(tfc_sub *sub)
{
	for (; sub && tfc__ctx_enter(sub->ctx) == TFC_OK; sub = sub->following) {
		sub->is_paused = false;
		tfc__sub_wake(sub);
	}
}

void tfc_sub_close(tfc_sub *sub)
{
	if (!sub || tfc__ctx_enter(sub->ctx) < 0 || sub->is_closed)
		return;
	tfc__handle_closed(&sub->handle);
	sub_detach(sub);
	sub->is_closed = true;
	if (!sub->is_reporting)
		sub->ops->free(sub);
}
