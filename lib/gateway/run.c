/*
 * Submit and follow in one call. The subscription that the host owns makes the submit, and opens
 * a second subscription to the job when the reply has come. That one calls the host's function
 * itself, and is paused, resumed and closed with the first.
 */
#include "gateway/gateway.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/options.h"

struct run {
	tfc_sub sub; /* sub.following: the subscription to the job */
	tfc_gateway *gateway;
	tfc_op *op; /* the submit; NULL: it is over */
	tfc_reply_fn reply_fn;
	void (*progress)(void *user, uint64_t sent, uint64_t total);
	tfc_subscribe_options options;
	char *cursor; /* options.cursor */
	char job[17];
	tfc_error error; /* reported by LOST */
};

static struct run *run_of(tfc_sub *sub)
{
	return tfc__container_of(sub, struct run, sub);
}

/* The subscription is also woken without a failure: by tfc_sub_resume. */
static int run_report(tfc_sub *sub)
{
	if (!run_of(sub)->error.code)
		return 0;
	tfc__sub_report_lost(sub, run_of(sub)->job, &run_of(sub)->error);
	return 1;
}

static void run_free(tfc_sub *sub)
{
	struct run *run = run_of(sub);
	if (run->op)
		tfc__request_abandon(run->op);
	tfc_sub_close(sub->following);
	free(run->cursor);
	free(run);
}

static void run_on_progress(void *user, uint64_t sent, uint64_t total)
{
	struct run *run = user;
	if (run)
		run->progress(run->sub.user, sent, total);
}

/* Opens the subscription before the host is called, which may close everything. */
static void run_on_reply(void *user, const tfc_reply *reply)
{
	struct run *run = user;
	tfc_sub *sub = &run->sub;
	run->op = NULL;
	sub->is_ended = reply->code < 0;
	if (reply->code == TFC_OK) {
		tfc_gateway *gateway = run->gateway;
		memcpy(run->job, reply->text, sizeof(run->job));
		int code = tfc__gateway_check(gateway, &run->error);
		if (code == TFC_OK)
			code = gateway->ops->subscribe(gateway, run->job, &run->options, sub->fn,
						       sub->user, &run->error, &sub->following);
		if (code == TFC_OK)
			sub->following->is_paused = sub->is_paused;
		else
			tfc__sub_wake(sub);
	}
	run->reply_fn(sub->user, reply);
}

static int run_submit(struct run *run, const tfc_job *job, const tfc_submit_options *options)
{
	tfc_submit_options known;
	int code = tfc__options_copy(&known, sizeof(known), options, "gateway",
				     "tfc_submit_options", 0, tfc__ctx_error(run->gateway->ctx));
	if (code < 0)
		return code;
	run->progress = known.progress;
	if (known.progress)
		known.progress = run_on_progress;
	return tfc_gateway_submit(run->gateway, job, &known, run_on_reply, run, &run->op);
}

int tfc_gateway_run(tfc_gateway *gateway, const tfc_job *job,
		    const tfc_submit_options *submit_options,
		    const tfc_subscribe_options *subscribe_options, tfc_reply_fn reply_fn,
		    tfc_event_fn event_fn, void *user, tfc_sub **ret_sub)
{
	static const struct tfc__sub_ops ops = {
		.report = run_report,
		.free = run_free,
	};
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(gateway->ctx);
	if (!reply_fn || !event_fn || !ret_sub)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "%s is NULL",
				 !reply_fn   ? "reply_fn"
				 : !event_fn ? "event_fn"
					     : "ret_sub");
	struct run *run = calloc(1, sizeof(*run));
	if (!run)
		return tfc__fail_nomem(error, "gateway");
	run->gateway = gateway;
	run->reply_fn = reply_fn;
	tfc__sub_init(&run->sub, &ops, gateway->ctx, NULL, event_fn, user);
	code = tfc__options_copy(&run->options, sizeof(run->options), subscribe_options, "gateway",
				 "tfc_subscribe_options", 0, error);
	if (code == TFC_OK && run->options.cursor) {
		run->options.cursor = run->cursor = strdup(run->options.cursor);
		code = run->cursor ? TFC_OK : tfc__fail_nomem(error, "gateway");
	}
	if (code == TFC_OK)
		code = run_submit(run, job, submit_options);
	if (code < 0) {
		run_free(&run->sub);
		return code;
	}
	tfc__sub_open(&run->sub);
	*ret_sub = &run->sub;
	return TFC_OK;
}
