/* The gateway on a node in this process: what is asked for is done at once. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "gateway/gateway.h"
#include "gateway/local_sub.h"

struct local_gateway {
	tfc_gateway base;
	struct tfc__directory *directory; /* NULL once its node is closed */
	struct tfc__directory_user closing;
};

static struct local_gateway *of(tfc_gateway *gateway)
{
	return tfc__container_of(gateway, struct local_gateway, base);
}

/* ---- answers */

static int submit(struct tfc__directory *directory, const struct tfc__question *question,
		  struct tfc__request *request)
{
	struct tfc__record *record;
	const struct tfc__submit submit = {
		.job = question->definition,
		.host_tag = question->host_tag,
		.host_tag_len = question->host_tag_len,
		.client_key = question->client_key,
	};
	int code = tfc__directory_submit(directory, &submit, &request->error, &record);
	if (code == TFC_OK)
		tfc__buf_add_str(&request->text, record->id);
	return code;
}

static int stop(struct tfc__record *record, const struct tfc__question *question,
		struct tfc__request *request)
{
	if (record->is_ended)
		return tfc__fail(&request->error, TFC_ESTATE, "gateway", 0, "job %s has ended",
				 record->id);
	tfc__maintainer_stop(record->maintainer, question->interrupt_ms, question->is_kill);
	return TFC_OK;
}

static int list(struct tfc__directory *directory, struct tfc__request *request)
{
	const char *separator = "";
	tfc__buf_add_char(&request->text, '[');
	TFC__LIST_EACH (link, tfc__directory_records(directory)) {
		tfc__buf_add_str(&request->text, separator);
		tfc__describe(tfc__container_of(link, struct tfc__record, link), false,
			      &request->text);
		separator = ",";
	}
	tfc__buf_add_char(&request->text, ']');
	return TFC_OK;
}

static int explain(struct tfc__directory *directory, const struct tfc__question *question,
		   struct tfc__request *request)
{
	const struct tfc__agent_job_info info = {.id = "0000000000000000",
						 .job = question->definition};
	return tfc__agent_explain(tfc__directory_agent(directory), &info, &request->text,
				  &request->error);
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

static int spec(struct tfc__record *record, const struct tfc__question *question,
		struct tfc__request *request)
{
	char *json;
	uint32_t index;
	uint32_t number = tfc__find_task(record, question->task);
	if (number == UINT32_MAX)
		return tfc__fail(&request->error, TFC_ENOENT, "gateway", 0, "job %s has no task %s",
				 record->id, question->task);
	const tfc_spec *spec = tfc__maintainer_spec(record->maintainer);
	if (!spec)
		return tfc__fail(&request->error, TFC_ESTATE, "gateway", 0,
				 "job %s is not placed yet", record->id);
	const struct tfc__role *role = tfc__job_task_role(record->job, number, &index);
	int code = task_tf_config(record->job, spec, role, index, &request->error, &json);
	if (code == TFC_OK) {
		tfc__buf_add_str(&request->text, json);
		tfc_free(json);
	}
	return code;
}

static int about_job(struct tfc__directory *directory, const struct tfc__question *question,
		     struct tfc__request *request)
{
	struct tfc__record *record;
	int code = tfc__directory_find(directory, question->job, &request->error, &record);
	if (code < 0)
		return code;
	if (question->verb == TFC__STOP)
		return stop(record, question, request);
	if (question->verb == TFC__SPEC)
		return spec(record, question, request);
	tfc__describe(record, true, &request->text);
	return TFC_OK;
}

static int answer(struct tfc__directory *directory, const struct tfc__question *question,
		  struct tfc__request *request)
{
	switch (question->verb) {
	case TFC__SUBMIT:
		return submit(directory, question, request);
	case TFC__LIST:
		return list(directory, request);
	case TFC__EXPLAIN:
		return explain(directory, question, request);
	default:
		return about_job(directory, question, request);
	}
}

static void ask(tfc_gateway *gateway, const struct tfc__question *question,
		struct tfc__request *request)
{
	tfc__request_end(request, answer(of(gateway)->directory, question, request));
}

static int subscribe(tfc_gateway *gateway, const char *job, const tfc_subscribe_options *options,
		     tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub)
{
	struct tfc__record *record;
	int code = tfc__directory_find(of(gateway)->directory, job, error, &record);
	if (code < 0)
		return code;
	return tfc__local_subscribe(gateway->ctx, &gateway->subs, record, options, false, fn, user,
				    error, ret_sub);
}

/* ---- opening and closing */

static int check(tfc_gateway *gateway, tfc_error *error)
{
	if (of(gateway)->directory)
		return TFC_OK;
	return tfc__fail(error, TFC_ESTATE, "gateway", 0,
			 "the node of this gateway is closed: close the gateway, too");
}

/* What was asked for is answered still; nothing more can be. */
static void on_node_closed(struct tfc__directory_user *user)
{
	struct local_gateway *gateway = tfc__container_of(user, struct local_gateway, closing);
	tfc__gateway_orphan_subs(&gateway->base);
	gateway->directory = NULL;
}

static void close_gateway(tfc_gateway *base)
{
	struct local_gateway *gateway = of(base);
	tfc__list_remove(&gateway->closing.link);
	free(gateway);
}

int tfc__gateway_new(tfc_ctx *ctx, struct tfc__directory *directory, tfc_gateway **ret_gateway)
{
	static const struct tfc__gateway_ops ops = {ask, subscribe, check, close_gateway};
	struct local_gateway *gateway = calloc(1, sizeof(*gateway));
	if (!gateway)
		return tfc__ctx_fail(ctx, TFC_ENOMEM, "gateway", 0, "out of memory");
	tfc__gateway_init(&gateway->base, ctx, &ops);
	gateway->directory = directory;
	gateway->closing.fn = on_node_closed;
	tfc__directory_join(directory, &gateway->closing);
	*ret_gateway = &gateway->base;
	return TFC_OK;
}
