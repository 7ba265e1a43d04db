#include "gateway/gateway.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/options.h"

#define HOST_TAG_MAX 4096

/* A request under way. What it asks for is done at once; only the answer waits for dispatch. */
struct request {
	tfc_op op;
	struct tfc__link link;
	tfc_reply_fn fn;
	void *user;
	int code;
	tfc_error error;
	struct tfc__buf text;
};

static void free_request(tfc_op *op)
{
	struct request *request = tfc__container_of(op, struct request, op);
	tfc__buf_fini(&request->text);
	free(request);
}

static void end_request(tfc_op *op, int code)
{
	struct request *request = tfc__container_of(op, struct request, op);
	if (code < 0)
		tfc__fail(&request->error, code, "gateway", 0, "the request was %s",
			  code == TFC_ETIMEDOUT ? "not answered in time" : "canceled");
	else
		code = request->code;
	tfc_reply reply = {
		.size = sizeof(reply),
		.code = code,
		.error = &request->error,
		.text = code == TFC_OK && request->text.data ? request->text.data : "",
		.len = code == TFC_OK ? request->text.len : 0,
	};
	tfc__list_remove(&request->link);
	request->fn(request->user, &reply);
	free_request(op);
}

static int begin(tfc_gateway *gateway, uint32_t timeout_ms, tfc_reply_fn fn, void *user,
		 struct request **ret_request)
{
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	if (!fn)
		return tfc__ctx_fail(gateway->ctx, TFC_EINVAL, "gateway", 0,
				     "fn is NULL: a request needs somebody to answer");
	code = tfc__gateway_check(gateway);
	if (code < 0)
		return code;
	struct request *request = calloc(1, sizeof(*request));
	if (!request)
		return tfc__ctx_fail(gateway->ctx, TFC_ENOMEM, "gateway", 0, "out of memory");
	request->fn = fn;
	request->user = user;
	tfc__op_init(&request->op, gateway->ctx, timeout_ms, end_request);
	tfc__op_free_with(&request->op, free_request);
	tfc__list_append(&gateway->requests, &request->link);
	*ret_request = request;
	return TFC_OK;
}

static int finish(struct request *request, int code, tfc_op **ret_op)
{
	if (code == TFC_OK && request->text.is_failed)
		code = tfc__fail_nomem(&request->error, "gateway");
	request->code = code;
	tfc__op_finish(&request->op);
	if (ret_op)
		*ret_op = &request->op;
	return TFC_OK;
}

/* ---- opening and closing */

static void orphan_subs(tfc_gateway *gateway)
{
	TFC__LIST_EACH (link, &gateway->subs)
		tfc__sub_orphan(link);
}

/* What was asked for is answered still; nothing more can be. */
static void on_node_closed(struct tfc__directory_user *user)
{
	tfc_gateway *gateway = tfc__container_of(user, tfc_gateway, closing);
	orphan_subs(gateway);
	gateway->directory = NULL;
}

int tfc__gateway_check(tfc_gateway *gateway)
{
	if (gateway->directory)
		return TFC_OK;
	return tfc__ctx_fail(gateway->ctx, TFC_ESTATE, "gateway", 0,
			     "the node of this gateway is closed: close the gateway, too");
}

int tfc__gateway_new(tfc_ctx *ctx, struct tfc__directory *directory, tfc_gateway **ret_gateway)
{
	tfc_gateway *gateway = calloc(1, sizeof(*gateway));
	if (!gateway)
		return tfc__ctx_fail(ctx, TFC_ENOMEM, "gateway", 0, "out of memory");
	gateway->ctx = ctx;
	gateway->directory = directory;
	tfc__list_init(&gateway->requests);
	tfc__list_init(&gateway->subs);
	gateway->closing.fn = on_node_closed;
	tfc__directory_join(directory, &gateway->closing);
	*ret_gateway = gateway;
	return TFC_OK;
}

void tfc_gateway_close(tfc_gateway *gateway)
{
	if (!gateway || tfc__ctx_enter(gateway->ctx) < 0)
		return;
	TFC__LIST_EACH (link, &gateway->requests) {
		struct request *request = tfc__container_of(link, struct request, link);
		tfc__list_remove(link);
		request->code = tfc__fail(&request->error, TFC_ECANCELED, "gateway", 0,
					  "the gateway was closed before the answer was told");
	}
	orphan_subs(gateway);
	tfc__list_remove(&gateway->closing.link);
	free(gateway);
}

/* ---- requests */

int tfc_submit_options_init(tfc_submit_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

int tfc_stop_options_init(tfc_stop_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

static int submit(tfc_gateway *gateway, const tfc_job *job, const tfc_submit_options *options,
		  struct request *request)
{
	struct tfc__record *record;
	if (!job)
		return tfc__fail(&request->error, TFC_EINVAL, "gateway", 0, "job is NULL");
	if (options->host_tag_len > HOST_TAG_MAX)
		return tfc__fail(&request->error, TFC_EINVAL, "gateway", 0,
				 "host_tag_len is %llu: at most %d bytes",
				 (unsigned long long)options->host_tag_len, HOST_TAG_MAX);
	int code = tfc_job_validate(job, &request->error);
	if (code == TFC_OK)
		code = tfc__directory_submit(gateway->directory, job, options->host_tag,
					     options->host_tag_len, &request->error, &record);
	if (code == TFC_OK)
		tfc__buf_add_str(&request->text, record->id);
	return code;
}

int tfc_gateway_submit(tfc_gateway *gateway, const tfc_job *job, const tfc_submit_options *options,
		       tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	tfc_submit_options known;
	struct request *request = NULL;
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_submit_options",
				 tfc__ctx_error(gateway->ctx));
	if (code < 0 || (code = begin(gateway, known.timeout_ms, fn, user, &request)) < 0)
		return code;
	return finish(request, submit(gateway, job, &known, request), ret_op);
}

static int stop(tfc_gateway *gateway, const char *job, const tfc_stop_options *options,
		tfc_error *error)
{
	struct tfc__record *record;
	int code = tfc__directory_find(gateway->directory, job ? job : "", error, &record);
	if (code < 0)
		return code;
	if (record->is_ended)
		return tfc__fail(error, TFC_ESTATE, "gateway", 0, "job %s has ended", record->id);
	tfc__maintainer_stop(record->maintainer, options->interrupt_ms, options->is_kill);
	return TFC_OK;
}

int tfc_gateway_stop(tfc_gateway *gateway, const char *job, const tfc_stop_options *options,
		     tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	tfc_stop_options known;
	struct request *request = NULL;
	int code = tfc__ctx_enter(gateway ? gateway->ctx : NULL);
	if (code < 0)
		return code;
	code = tfc__options_copy(&known, sizeof(known), options, "gateway", "tfc_stop_options",
				 tfc__ctx_error(gateway->ctx));
	if (code < 0 || (code = begin(gateway, known.timeout_ms, fn, user, &request)) < 0)
		return code;
	return finish(request, stop(gateway, job, &known, &request->error), ret_op);
}

int tfc_gateway_explain(tfc_gateway *gateway, const tfc_job *job, uint32_t timeout_ms,
			tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	struct request *request = NULL;
	int code = begin(gateway, timeout_ms, fn, user, &request);
	if (code < 0)
		return code;
	const struct tfc__agent_job_info info = {.id = "0000000000000000", .job = job};
	if (!job)
		code = tfc__fail(&request->error, TFC_EINVAL, "gateway", 0, "job is NULL");
	else
		code = tfc_job_validate(job, &request->error);
	if (code == TFC_OK)
		code = tfc__agent_explain(tfc__directory_agent(gateway->directory), &info,
					  &request->text, &request->error);
	return finish(request, code, ret_op);
}

int tfc_gateway_list(tfc_gateway *gateway, uint32_t timeout_ms, tfc_reply_fn fn, void *user,
		     tfc_op **ret_op)
{
	struct request *request = NULL;
	const char *separator = "";
	int code = begin(gateway, timeout_ms, fn, user, &request);
	if (code < 0)
		return code;
	tfc__buf_add_char(&request->text, '[');
	TFC__LIST_EACH (link, tfc__directory_records(gateway->directory)) {
		tfc__buf_add_str(&request->text, separator);
		tfc__describe(tfc__container_of(link, struct tfc__record, link), false,
			      &request->text);
		separator = ",";
	}
	tfc__buf_add_char(&request->text, ']');
	return finish(request, TFC_OK, ret_op);
}

int tfc_gateway_describe(tfc_gateway *gateway, const char *job, uint32_t timeout_ms,
			 tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	struct request *request = NULL;
	struct tfc__record *record;
	int code = begin(gateway, timeout_ms, fn, user, &request);
	if (code < 0)
		return code;
	code = tfc__directory_find(gateway->directory, job ? job : "", &request->error, &record);
	if (code == TFC_OK)
		tfc__describe(record, true, &request->text);
	return finish(request, code, ret_op);
}

static int task_tf_config(const tfc_job *job, const tfc_spec *spec, const struct tfc__role *role,
			  uint32_t index, tfc_error *error, char **ret_json)
{
	tfc_spec *part = NULL;
	int code = 0;
	if (tfc__job_has_ranks(job))
		return tfc__fail(error, TFC_ENOTSUP, "gateway", 0,
				 "%s/%u: the job's framework has no TF_CONFIG", role->name, index);
	if (tfc__role_sees_part(job, role))
		code = tfc_spec_part(spec, index, error, &part);
	if (code == 0)
		code = tfc_spec_tf_config(part ? part : spec, tfc__job_strategy(job), role->name,
					  index, error, ret_json);
	tfc_spec_free(part);
	return code;
}

static int spec_text(tfc_gateway *gateway, const char *job, const char *task,
		     struct request *request)
{
	struct tfc__record *record;
	char *json;
	uint32_t index;
	int code = tfc__directory_find(gateway->directory, job ? job : "", &request->error,
				       &record);
	if (code < 0)
		return code;
	uint32_t number = tfc__find_task(record, task ? task : "");
	if (number == UINT32_MAX)
		return tfc__fail(&request->error, TFC_ENOENT, "gateway", 0, "job %s has no task %s",
				 record->id, task ? task : "");
	const tfc_spec *spec = tfc__maintainer_spec(record->maintainer);
	if (!spec)
		return tfc__fail(&request->error, TFC_ESTATE, "gateway", 0,
				 "job %s is not placed yet", record->id);
	const struct tfc__role *role =
		tfc__agent_task_role(tfc__maintainer_agent_job(record->maintainer), number, &index);
	code = task_tf_config(record->job, spec, role, index, &request->error, &json);
	if (code == TFC_OK) {
		tfc__buf_add_str(&request->text, json);
		tfc_free(json);
	}
	return code;
}

int tfc_gateway_spec(tfc_gateway *gateway, const char *job, const char *task, uint32_t timeout_ms,
		     tfc_reply_fn fn, void *user, tfc_op **ret_op)
{
	struct request *request = NULL;
	int code = begin(gateway, timeout_ms, fn, user, &request);
	if (code < 0)
		return code;
	return finish(request, spec_text(gateway, job, task, request), ret_op);
}
