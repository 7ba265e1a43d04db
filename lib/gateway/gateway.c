/* The public requests: validated here, handled by the gateway's kind. */
#include "gateway/gateway.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/options.h"
#include "gateway/results.h"

#define HOST_TAG_MAX 4096
#define CLIENT_KEY_MAX 64

/* ---- pending requests */

static void request_free(tfc_op *op)
{
	struct tfc__request *request = tfc__container_of(op, struct tfc__request, op);
	tfc__buf_fini(&request->text);
	free(request);
}

static void request_cancel(struct tfc__request *request)
{
	if (request->cancel)
		request->cancel(request);
	request->cancel = NULL;
}

static void request_on_end(tfc_op *op, int code)
{
	struct tfc__request *request = tfc__container_of(op, struct tfc__request, op);
	struct tfc__result result = {.jobs.size = 0};
	request_cancel(request);
	if (code < 0)
		tfc__fail(&request->error, code, "gateway", 0, "request %s",
			  code == TFC_ETIMEDOUT ? "timed out" : "canceled");
	else
		code = request->code;
	if (code == TFC_OK && request->result)
		code = tfc__result_read(&result, request->result, request->text.data,
					request->text.len, &request->error);
	const struct tfc__buf *text = request->result ? &result.json.buf : &request->text;
	tfc_reply reply = {
		.size = sizeof(reply),
		.code = code,
		.error = &request->error,
		.text = code == TFC_OK && text->data ? text->data : "",
		.len = code == TFC_OK ? text->len : 0,
		.home = request->home,
	};
	if (code == TFC_OK)
		tfc__result_set(&result, request->result, &reply);
	tfc__list_remove(&request->link);
	request->fn(request->user, &reply);
	tfc__result_fini(&result);
	request_free(op);
}

int tfc__request_reserve(struct tfc__request *request, size_t besides)
{
	struct tfc__buf *text = &request->text;
	int code = request->reserve
			   ? request->reserve(request->user, text->len + besides, &request->error)
			   : TFC_OK;
	if (code < 0)
		tfc__buf_fini(text);
	return code;
}

void tfc__request_end(struct tfc__request *request, int code)
{
	if (code == TFC__LATER)
		return;
	if (code == TFC_OK && request->text.is_failed)
		code = tfc__fail_nomem(&request->error, "gateway");
	if (code == TFC_OK) {
		tfc__buf_trim(&request->text);
		code = tfc__request_reserve(request, 0);
	}
	request->cancel = NULL;
	request->code = code;
	tfc__op_finish(&request->op);
}

/* The context is freed before the request has completed. */
static void request_drop(tfc_op *op)
{
	request_cancel(tfc__container_of(op, struct tfc__request, op));
	request_free(op);
}

static bool is_node_id(const char *text)
{
	return strlen(text) == TFC__NODE_ID_SIZE - 1 &&
	       strspn(text, "0123456789abcdef") == TFC__NODE_ID_SIZE - 1;
}

static int check_params(const struct tfc__request_params *params, tfc_error *error)
{
	bool has_job = params->verb == TFC_VERB_SUBMIT || params->verb == TFC_VERB_EXPLAIN;
	if (has_job && !params->definition)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "job is NULL");
	if (params->host_tag_len > HOST_TAG_MAX)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "host_tag_len is %llu; the limit is %d bytes",
				 (unsigned long long)params->host_tag_len, HOST_TAG_MAX);
	if (params->client_key && strlen(params->client_key) > CLIENT_KEY_MAX)
		return tfc__fail(error, TFC_EINVAL, "gateway", 0, "client_key exceeds %d bytes",
				 CLIENT_KEY_MAX);
	if (params->home && !is_node_id(params->home))
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "home \"%.40s\" is not a node id, which has 32 hexadecimal digits",
				 params->home);
	if (params->home && !(params->client_key && *params->client_key))
		return tfc__fail(error, TFC_EINVAL, "gateway", 0,
				 "home requires client_key, so that the node can recognize a "
				 "repeated submit");
	return has_job ? tfc_job_validate(params->definition, error) : TFC_OK;
}

int tfc__gateway_request(tfc_gateway *gateway, const struct tfc__request_params *params,
			 uint32_t timeout_ms, tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	if (!fn)
		return tfc__ctx_fail(gateway->ctx, TFC_EINVAL, "gateway", 0,
				     "fn is NULL; a request needs a callback");
	code = tfc__gateway_check(gateway, tfc__ctx_error(gateway->ctx));
	if (code < 0)
		return code;
	struct tfc__request *request = calloc(1, sizeof(*request));
	if (!request)
		return tfc__ctx_fail(gateway->ctx, TFC_ENOMEM, "gateway", 0, "out of memory");
	request->fn = fn;
	request->user = user;
	request->reserve = params->reserve;
	if (tfc__is_typed(params->verb) && !params->is_relayed)
		request->result = params->verb;
	tfc__op_init(&request->op, gateway->ctx, timeout_ms, request_on_end);
	tfc__op_free_with(&request->op, request_drop);
	tfc__list_append(&gateway->requests, &request->link);
	code = check_params(params, &request->error);
	if (code == TFC_OK && params->home)
		memcpy(request->home, params->home, sizeof(request->home));
	if (code < 0)
		tfc__request_end(request, code);
	else
		gateway->ops->handle(gateway, params, request);
	if (ret_op)
		*ret_op = &request->op;
	return TFC_OK;
}

static void ignore_reply(void *user, const tfc_reply *reply)
{
}

void tfc__request_abandon(tfc_op *op)
{
	struct tfc__request *request = tfc__container_of(op, struct tfc__request, op);
	request->fn = ignore_reply;
	request->user = NULL;
	request->reserve = NULL;
	tfc_op_cancel(op);
}

/* ---- opening and closing */

void tfc__gateway_init(tfc_gateway *gateway, tfc_ctx *ctx, const struct tfc__gateway_ops *ops)
{
	gateway->ctx = ctx;
	gateway->ops = ops;
	tfc__list_init(&gateway->requests);
	tfc__list_init(&gateway->subs);
}

int tfc__gateway_check(tfc_gateway *gateway, tfc_error *error)
{
	return gateway->ops->check ? gateway->ops->check(gateway, error) : TFC_OK;
}

void tfc__gateway_orphan_subs(tfc_gateway *gateway)
{
	TFC__LIST_EACH (link, &gateway->subs)
		tfc__sub_orphan(tfc__container_of(link, tfc_sub, link));
}

void tfc_gateway_close(tfc_gateway *gateway)
{
	if (!gateway || tfc__ctx_enter(gateway->ctx) < 0)
		return;
	tfc__handle_closed(&gateway->handle);
	TFC__LIST_EACH (link, &gateway->requests) {
		struct tfc__request *request = tfc__container_of(link, struct tfc__request, link);
		tfc__list_remove(link);
		request_cancel(request);
		tfc__request_end(request,
				 tfc__fail(&request->error, TFC_ECANCELED, "gateway", 0,
					   "the gateway was closed before the request completed"));
	}
	tfc__gateway_orphan_subs(gateway);
	gateway->ops->close(gateway);
}

/* ---- requests */

int tfc_submit_options_init(tfc_submit_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

int tfc_request_options_init(tfc_request_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

int tfc_stop_options_init(tfc_stop_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

int tfc_signal_options_init(tfc_signal_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

int tfc_gateway_submit(tfc_gateway *gateway, const tfc_job *job, const tfc_submit_options *options,
		       tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	tfc_submit_options known;
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_submit_options", 0,
				 tfc__ctx_error(gateway->ctx));
	if (code < 0)
		return code;
	const struct tfc__request_params params = {
		.verb = TFC_VERB_SUBMIT,
		.definition = job,
		.host_tag = known.host_tag,
		.host_tag_len = known.host_tag_len,
		.client_key = known.client_key,
		.home = known.home,
		.owner = geteuid(),
		.progress = known.progress,
	};
	return tfc__gateway_request(gateway, &params, known.timeout_ms, fn, user, ret_op);
}

int tfc_gateway_stop(tfc_gateway *gateway, const char *job, const tfc_stop_options *options,
		     tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	tfc_stop_options known;
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_stop_options", 0,
				 tfc__ctx_error(gateway->ctx));
	if (code < 0)
		return code;
	const struct tfc__request_params params = {
		.verb = TFC_VERB_STOP,
		.job = job ? job : "",
		.interrupt_ms = known.interrupt_ms,
		.is_kill = known.is_kill,
	};
	return tfc__gateway_request(gateway, &params, known.timeout_ms, fn, user, ret_op);
}

int tfc_gateway_signal(tfc_gateway *gateway, const char *job, const char *task,
		       const tfc_signal_options *options, tfc_reply_fn fn, void *user,
		       tfc_op **ret_op)
{
	tfc_signal_options known;
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_signal_options", 0,
				 tfc__ctx_error(gateway->ctx));
	if (code < 0)
		return code;
	const struct tfc__request_params params = {
		.verb = TFC_VERB_SIGNAL,
		.job = job ? job : "",
		.task = task ? task : "",
		.signal = known.signal ? known.signal : SIGKILL,
	};
	return tfc__gateway_request(gateway, &params, known.timeout_ms, fn, user, ret_op);
}

static int request_with_options(tfc_gateway *gateway, const struct tfc__request_params *params,
				const tfc_request_options *options, tfc_reply_fn fn, void *user,
				tfc_op **ret_op)
{
	tfc_request_options known;
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_request_options",
				 0, tfc__ctx_error(gateway->ctx));
	if (code < 0)
		return code;
	return tfc__gateway_request(gateway, params, known.timeout_ms, fn, user, ret_op);
}

int tfc_gateway_explain(tfc_gateway *gateway, const tfc_job *job,
			const tfc_request_options *options, tfc_reply_fn fn, void *user,
			tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_EXPLAIN, .definition = job};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_jobs(tfc_gateway *gateway, const tfc_request_options *options, tfc_reply_fn fn,
		     void *user, tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_JOBS};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_describe(tfc_gateway *gateway, const char *job, const tfc_request_options *options,
			 tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_DESCRIBE,
						   .job = job ? job : ""};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_tf_config(tfc_gateway *gateway, const char *job, const char *task,
			  const tfc_request_options *options, tfc_reply_fn fn, void *user,
			  tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_SPEC,
						   .job = job ? job : "",
						   .task = task ? task : ""};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_stacks(tfc_gateway *gateway, const char *job, const char *task,
		       const tfc_request_options *options, tfc_reply_fn fn, void *user,
		       tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_STACKS,
						   .job = job ? job : "",
						   .task = task ? task : ""};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_forget(tfc_gateway *gateway, const char *job, const tfc_request_options *options,
		       tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_FORGET, .job = job ? job : ""};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_environ(tfc_gateway *gateway, const char *job, const char *task,
			const tfc_request_options *options, tfc_reply_fn fn, void *user,
			tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_SPEC,
						   .job = job ? job : "",
						   .task = task ? task : "",
						   .is_environ = true};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_members(tfc_gateway *gateway, const tfc_request_options *options, tfc_reply_fn fn,
			void *user, tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_MEMBERS};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_drain(tfc_gateway *gateway, const char *node, const tfc_request_options *options,
		      tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_DRAIN,
						   .node = node ? node : ""};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}

int tfc_gateway_undrain(tfc_gateway *gateway, const char *node, const tfc_request_options *options,
			tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_DRAIN,
						   .node = node ? node : "",
						   .is_off = true};
	return request_with_options(gateway, &params, options, fn, user, ret_op);
}
