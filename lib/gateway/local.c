/* The gateway of the node in this process. Requests about jobs of this node are handled here;
 * others are forwarded. */
#include "gateway/local.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/names.h"
#include "gateway/forward.h"
#include "gateway/internal.h"
#include "gateway/request_params.h"
#include "gateway/results.h"
#include "gateway/watch.h"

struct local_gateway {
	tfc_gateway base;
	struct tfc__forwarder forwarder; /* its directory: NULL once the node is closed */
	struct tfc__observer closing;    /* of the directory */
	struct tfc__local_reading reading;
};

static struct local_gateway *local_gateway_of(tfc_gateway *gateway)
{
	return tfc__container_of(gateway, struct local_gateway, base);
}

/* ---- responses */

struct directory_call {
	struct tfc__directory_callback callback;
	struct tfc__request *request;
};

static void directory_call_on_end(struct tfc__directory_callback *callback, int code,
				  const tfc_error *error, struct tfc__record *record)
{
	struct directory_call *call = tfc__container_of(callback, struct directory_call, callback);
	struct tfc__request *request = call->request;
	free(call);
	if (code < 0)
		request->error = *error;
	else if (record)
		tfc__buf_add_str(&request->text, record->id);
	tfc__request_end(request, code);
}

static void directory_call_cancel(struct tfc__request *request)
{
	struct directory_call *call = request->impl;
	tfc__directory_callback_cancel(&call->callback);
	free(call);
}

static struct directory_call *directory_call_begin(struct tfc__request *request)
{
	struct directory_call *call = malloc(sizeof(*call));
	if (!call)
		return NULL;
	*call = (struct directory_call){.callback = {.fn = directory_call_on_end},
					.request = request};
	request->impl = call;
	request->cancel = directory_call_cancel;
	return call;
}

/* The request was completed synchronously. */
static void directory_call_free(struct directory_call *call)
{
	call->request->cancel = NULL;
	free(call);
}

static int local_gateway_submit(struct tfc__forwarder *forwarder,
				const struct tfc__request_params *params,
				struct tfc__request *request)
{
	char id[17];
	struct tfc__submit submit = {
		.job = params->definition,
		.host_tag = params->host_tag,
		.host_tag_len = params->host_tag_len,
		.client_key = {.owner = params->owner},
		.submitter = params->submitter,
		.has_minimal_env = params->has_minimal_env,
	};
	snprintf(submit.client_key.text, sizeof(submit.client_key.text), "%s",
		 params->client_key ? params->client_key : "");
	snprintf(request->home, sizeof(request->home), "%s",
		 forwarder->members.node_id ? forwarder->members.node_id : "");
	int code = tfc__request_params_digest(params, &request->error, submit.client_key.digest);
	if (code < 0)
		return code;
	struct directory_call *call = directory_call_begin(request);
	if (!call)
		return tfc__fail_nomem(&request->error, "gateway");
	code = tfc__directory_submit(forwarder->directory, &submit, &call->callback,
				     &request->error, id);
	if (code == TFC_OK && !id[0])
		return TFC__LATER;
	if (code == TFC_OK)
		tfc__buf_add_str(&request->text, id);
	directory_call_free(call);
	return code;
}

static bool is_home(const struct tfc__forwarder *forwarder,
		    const struct tfc__request_params *params)
{
	const char *own = forwarder->members.node_id;
	return !params->home || (own && strcmp(params->home, own) == 0);
}

static int local_gateway_forget(struct tfc__directory *directory, const char *job,
				struct tfc__request *request)
{
	struct directory_call *call = directory_call_begin(request);
	if (!call)
		return tfc__fail_nomem(&request->error, "gateway");
	int code = tfc__directory_forget(directory, job, &call->callback, &request->error);
	if (code == TFC_OK)
		return TFC__LATER;
	directory_call_free(call);
	return code;
}

static int local_gateway_stop(struct tfc__record *record, const struct tfc__request_params *params,
			      struct tfc__request *request)
{
	uint32_t state = tfc__record_state(record);
	if (state > TFC_JOB_STOPPING && state != TFC_JOB_STOPPED)
		return tfc__fail(&request->error, TFC_ESTATE, "gateway", 0, "job %s has ended",
				 record->id);
	if (state != TFC_JOB_STOPPED) /* else repeated, perhaps: the first response was lost */
		tfc__directory_stop(record, params->interrupt_ms, params->is_kill);
	tfc__buf_add_str(&request->text, record->id);
	return TFC_OK;
}

/* The jobs of this node become the text of the request. */
static int local_gateway_jobs(struct tfc__directory *directory, struct tfc__request *request,
			      uint32_t *ret_count)
{
	uint32_t count = 0;
	int code = tfc__request_reserve(request, 0);
	TFC__LIST_EACH (link, tfc__directory_records(directory)) {
		struct tfc__job_summary summary;
		if (code < 0)
			return code;
		tfc__summarize(tfc__container_of(link, struct tfc__record, link), &summary);
		tfc__job_write(&request->text, &summary.info);
		count++;
		code = tfc__request_reserve(request, 0);
	}
	TFC__LIST_EACH (link, tfc__directory_damaged(directory)) {
		if (code < 0)
			return code;
		tfc_job_info damaged;
		tfc__summarize_damaged(directory,
				       tfc__container_of(link, struct tfc__damaged, link),
				       &damaged);
		tfc__job_write(&request->text, &damaged);
		count++;
		code = tfc__request_reserve(request, 0);
	}
	*ret_count = count;
	return code;
}

static int add_tf_config(const struct tfc__record *record, const tfc_spec *spec,
			 const struct tfc__role *role, uint32_t index, struct tfc__request *request)
{
	const tfc_job *job = record->job;
	char *json;
	if (tfc__job_has_ranks(job) || job->framework == TFC_FRAMEWORK_NONE)
		return tfc__fail(&request->error, TFC_ENOTSUP, "gateway", 0,
				 "%s/%u: the job's framework does not use TF_CONFIG", role->name,
				 index);
	int code = tfc_spec_tf_config(spec, tfc__job_strategy(job), role->name, index,
				      &request->error, &json);
	if (code < 0)
		return code;
	tfc__buf_add_str(&request->text, json);
	tfc_free(json);
	return TFC_OK;
}

static int add_environ(const struct tfc__record *record, const tfc_spec *spec,
		       const struct tfc__role *role, uint32_t index, struct tfc__request *request)
{
	const tfc_job *job = record->job;
	char **env;
	int code = tfc_spec_environ(spec, (enum tfc_framework)job->framework,
				    tfc__job_strategy(job), role->name, index, &request->error,
				    &env);
	if (code < 0)
		return code;
	for (char **variable = env; *variable; variable++)
		tfc__buf_addf(&request->text, "%s\n", *variable);
	tfc__buf_addf(&request->text, "TFC_EPOCH=%llu\nTFC_GENERATION=%u\n",
		      (unsigned long long)record->epoch, tfc__record_generation(record));
	tfc_strv_free(env);
	return TFC_OK;
}

static int find_task(const struct tfc__record *record, const char *name, tfc_error *error,
		     uint32_t *ret_number)
{
	*ret_number = tfc__find_task(record, name);
	if (*ret_number != UINT32_MAX)
		return TFC_OK;
	return tfc__fail(error, TFC_ENOENT, "gateway", 0, "job %s has no task \"%.60s\"%s",
			 record->id, name,
			 strchr(name, '/') ? "" : "; a task is type/index, such as worker/0");
}

static int local_gateway_spec(struct tfc__record *record, const struct tfc__request_params *params,
			      struct tfc__request *request)
{
	tfc_spec *part = NULL;
	uint32_t index, number;
	int code = find_task(record, params->task, &request->error, &number);
	if (code < 0)
		return code;
	tfc_spec *whole;
	code = tfc__record_spec(record, &request->error, &whole);
	if (code < 0)
		return code;
	const struct tfc__role *role = tfc__job_task_role(record->job, number, &index);
	if (tfc__role_sees_part(record->job, role))
		code = tfc_spec_part(whole, index, &request->error, &part);
	if (code == TFC_OK)
		code = (params->is_environ ? add_environ : add_tf_config)(record,
									  part ? part : whole, role,
									  index, request);
	tfc_spec_free(part);
	tfc_spec_free(whole);
	return code;
}

/* SIGNAL and STACKS. */
static int local_gateway_order(struct tfc__record *record, const struct tfc__request_params *params,
			       struct tfc__request *request)
{
	bool is_signal = params->verb == TFC_VERB_SIGNAL;
	uint32_t number;
	if (is_signal && (params->signal < 1 || params->signal > (uint32_t)SIGRTMAX))
		return tfc__fail(&request->error, TFC_EINVAL, "gateway", 0,
				 "signal %u does not exist", params->signal);
	int code = find_task(record, params->task, &request->error, &number);
	if (code < 0)
		return code;
	uint32_t state = tfc__journal_task(&record->journal, number)->state;
	if (!record->maintainer || (state != TFC_TASK_RUNNING && state != TFC_TASK_READY))
		return tfc__fail(&request->error, TFC_ESTATE, "gateway", 0,
				 "%s of job %s does not run now: it is %s", params->task,
				 record->id, tfc_task_state_name(state));
	code = tfc__maintainer_order_task(record->maintainer, number,
					  is_signal ? TFC__ORDER_SIGNAL : TFC__ORDER_STACKS,
					  is_signal ? params->signal : 0, &request->error);
	if (code == TFC_OK)
		tfc__buf_add_str(&request->text, record->id);
	return code;
}

static int serve_job_request(struct tfc__directory *directory,
			     const struct tfc__request_params *params, struct tfc__request *request)
{
	struct tfc__record *record;
	if (params->verb == TFC_VERB_FORGET)
		return local_gateway_forget(directory, params->job, request);
	int code = tfc__directory_find(directory, params->job, &request->error, &record);
	if (code < 0)
		return code;
	if (params->verb == TFC_VERB_STOP)
		return local_gateway_stop(record, params, request);
	if (params->verb == TFC_VERB_SPEC)
		return local_gateway_spec(record, params, request);
	if (params->verb == TFC_VERB_SIGNAL || params->verb == TFC_VERB_STACKS)
		return local_gateway_order(record, params, request);
	tfc__describe(record, &request->text);
	return TFC_OK;
}

/* ---- members */

static void add_member(void *user, uint32_t change, const tfc_member_info *member)
{
	struct tfc__result_items *members = user;
	tfc__member_write(&members->items, member);
	members->count++;
}

static int local_gateway_members(struct tfc__forwarder *forwarder, struct tfc__request *request)
{
	const struct tfc__gateway_members *members = &forwarder->members;
	struct tfc__result_items items = {.count = 0};
	const tfc_member_info alone = {
		.name = tfc__agent_name(tfc__directory_agent(forwarder->directory)),
		.state = TFC_MEMBER_ALIVE,
		.is_self = 1,
	};
	if (members->ops)
		members->ops->each(members->user, add_member, &items);
	else
		add_member(&items, 0, &alone);
	tfc__members_write(&request->text, &items);
	tfc__buf_fini(&items.items);
	return TFC_OK;
}

struct drain_call {
	struct tfc__request *request; /* NULL: the request was canceled */
};

static void drain_call_cancel(struct tfc__request *request)
{
	((struct drain_call *)request->impl)->request = NULL;
}

static void drain_call_on_end(void *user, const tfc_error *error)
{
	struct drain_call *call = user;
	struct tfc__request *request = call->request;
	free(call);
	if (!request)
		return;
	if (error)
		request->error = *error;
	tfc__request_end(request, error ? error->code : TFC_OK);
}

static void local_gateway_drain(struct tfc__forwarder *forwarder,
				const struct tfc__request_params *params,
				struct tfc__request *request)
{
	const struct tfc__gateway_members *members = &forwarder->members;
	struct drain_call *call = members->ops ? calloc(1, sizeof(*call)) : NULL;
	if (!call) {
		tfc__request_end(request,
				 members->ops ? tfc__fail_nomem(&request->error, "gateway")
					      : tfc__fail(&request->error, TFC_ENOENT, "gateway", 0,
							  "member \"%.60s\" not found; this node "
							  "has no other members",
							  params->node));
		return;
	}
	call->request = request;
	request->impl = call;
	request->cancel = drain_call_cancel;
	members->ops->drain(members->user, params->node, params->is_off, drain_call_on_end, call);
}

/* ---- requests */

/* Whether other members may have the job. A request forwarded by a member is handled here, because
 * that member has already chosen this node; a complete id exists on one node only.
 */
static bool may_be_elsewhere(const struct tfc__forwarder *forwarder,
			     const struct tfc__request_params *params)
{
	tfc_error error;
	struct tfc__record *record;
	if (!tfc__gateway_has_members(&forwarder->members) || params->is_forwarded)
		return false;
	return !tfc__is_job_id(params->job) ||
	       tfc__directory_find(forwarder->directory, params->job, &error, &record) < 0;
}

static void local_gateway_handle(tfc_gateway *gateway, const struct tfc__request_params *params,
				 struct tfc__request *request)
{
	struct tfc__forwarder *forwarder = &local_gateway_of(gateway)->forwarder;
	struct tfc__directory *directory = forwarder->directory;
	uint32_t count;
	int code;
	switch (params->verb) {
	case TFC_VERB_SUBMIT:
		if (is_home(forwarder, params))
			tfc__request_end(request, local_gateway_submit(forwarder, params, request));
		else
			tfc__forward_submit(forwarder, params, request);
		return;
	case TFC_VERB_EXPLAIN:
		tfc__request_end(request, tfc__explain(directory, params, request));
		return;
	case TFC_VERB_MEMBERS:
		tfc__request_end(request, local_gateway_members(forwarder, request));
		return;
	case TFC_VERB_DRAIN:
		local_gateway_drain(forwarder, params, request);
		return;
	case TFC_VERB_JOBS:
		code = local_gateway_jobs(directory, request, &count);
		if (code < 0)
			tfc__request_end(request, code);
		else
			tfc__list_jobs(forwarder, count, params->is_forwarded, request);
		return;
	default:
		if (may_be_elsewhere(forwarder, params))
			tfc__forward(forwarder, params, request);
		else
			tfc__request_end(request, serve_job_request(directory, params, request));
	}
}

/* For another member, only the jobs of this node. */
static int watch_for_peer(tfc_gateway *gateway, const struct tfc__request_params *params,
			  tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub)
{
	struct tfc__forwarder *forwarder = &local_gateway_of(gateway)->forwarder;
	const char *self = tfc__agent_name(tfc__directory_agent(forwarder->directory));
	const char *cursor = params->client_key ? params->client_key : "";
	struct tfc__watch_position position = {.slots = NULL};
	const tfc_watch_options options = {
		.size = sizeof(options),
		.wants_live = params->wants_live,
		.cursor = cursor,
	};
	if (!params->is_forwarded)
		return tfc__watch_all(forwarder, &gateway->subs, &options, true, fn, user, error,
				      ret_sub);
	int code = tfc__watch_position_read(&position, cursor);
	if (code == TFC_OK)
		code = tfc__node_watch(gateway->ctx, &gateway->subs, forwarder->directory,
				       tfc__watch_position_find(&position, self), fn, user, error,
				       ret_sub);
	else
		tfc__fail(error, code, "gateway", 0, "cannot read the cursor of a watch: %s",
			  tfc_err_text(code));
	tfc__watch_position_fini(&position);
	return code;
}

static int local_gateway_watch(tfc_gateway *gateway, const tfc_watch_options *options,
			       tfc_event_fn fn, void *user, tfc_error *error, tfc_sub **ret_sub)
{
	return tfc__watch_all(&local_gateway_of(gateway)->forwarder, &gateway->subs, options, false,
			      fn, user, error, ret_sub);
}

static void local_gateway_connect(tfc_gateway *gateway, const char *node,
				  struct tfc__member_wait *wait)
{
	const struct local_gateway *local = local_gateway_of(gateway);
	const struct tfc__gateway_members *members = &local->forwarder.members;
	tfc_error error = TFC_ERROR_INIT;
	if (local->forwarder.directory && members->ops) {
		members->ops->connect(members->user, node, wait);
		return;
	}
	tfc__fail(&error, TFC_ENOENT, "gateway", 0, "the node has no members");
	wait->fn(wait, NULL, &error);
}

int tfc__gateway_follow(tfc_gateway *gateway, const struct tfc__request_params *params,
			bool is_bare, tfc_event_fn fn, void *user, tfc_error *error,
			tfc_sub **ret_sub)
{
	struct tfc__forwarder *forwarder = &local_gateway_of(gateway)->forwarder;
	struct tfc__record *record;
	if (params->verb == TFC_VERB_WATCH)
		return watch_for_peer(gateway, params, fn, user, error, ret_sub);
	const tfc_subscribe_options options = {
		.size = sizeof(options),
		.skip_output = params->skip_output,
		.cursor = params->client_key,
		.wants_live = params->wants_live,
		.wants_progress = params->wants_progress,
		.wants_reports = params->wants_reports,
		.wants_reconnects = params->wants_reconnects,
	};
	int code = tfc__directory_find(forwarder->directory, params->job, error, &record);
	if (code == TFC_OK)
		return tfc__local_subscribe(gateway->ctx, &gateway->subs,
					    &local_gateway_of(gateway)->reading, record, &options,
					    is_bare, fn, user, error, ret_sub);
	if ((code != TFC_ENOENT && code != TFC_EPARSE) ||
	    !tfc__gateway_has_members(&forwarder->members) || params->is_forwarded)
		return code;
	code = tfc__remote_subscribe(gateway->ctx, &gateway->subs, &forwarder->route, params->job,
				     &options, is_bare, fn, user, error, ret_sub);
	if (code == TFC_OK && params->patience_ms)
		tfc__remote_sub_set_patience(*ret_sub, params->patience_ms);
	return code;
}

static int local_gateway_subscribe(tfc_gateway *gateway, const char *job,
				   const tfc_subscribe_options *options, tfc_event_fn fn,
				   void *user, tfc_error *error, tfc_sub **ret_sub)
{
	const struct tfc__request_params params = {
		.verb = TFC_VERB_SUBSCRIBE,
		.job = job,
		.client_key = options->cursor,
		.skip_output = options->skip_output,
		.wants_live = options->wants_live,
		.wants_progress = options->wants_progress,
		.wants_reports = options->wants_reports,
		.wants_reconnects = options->wants_reconnects,
	};
	return tfc__gateway_follow(gateway, &params, false, fn, user, error, ret_sub);
}

/* ---- opening and closing */

static int local_gateway_check(tfc_gateway *gateway, tfc_error *error)
{
	if (local_gateway_of(gateway)->forwarder.directory)
		return TFC_OK;
	return tfc__fail(error, TFC_ESTATE, "gateway", 0,
			 "the node of this gateway is closed; close the gateway");
}

/* Pending requests still get a reply; new ones fail. */
static void local_gateway_on_node_closed(struct tfc__observer *user, const void *event)
{
	struct local_gateway *gateway = tfc__container_of(user, struct local_gateway, closing);
	TFC__LIST_EACH (link, &gateway->base.requests) {
		struct tfc__request *request = tfc__container_of(link, struct tfc__request, link);
		if (!request->cancel)
			continue;
		request->cancel(request);
		tfc__request_end(request,
				 tfc__fail(&request->error, TFC_ESTATE, "gateway", 0,
					   "the node was closed before the request completed"));
	}
	tfc__gateway_orphan_subs(&gateway->base);
	tfc__forwarder_fini(&gateway->forwarder);
	gateway->forwarder.directory = NULL;
}

struct tfc__directory *tfc__gateway_directory(tfc_gateway *gateway)
{
	return local_gateway_of(gateway)->forwarder.directory;
}

static void local_gateway_close(tfc_gateway *base)
{
	struct local_gateway *gateway = local_gateway_of(base);
	tfc__observer_remove(&gateway->closing);
	tfc__forwarder_fini(&gateway->forwarder);
	free(gateway);
}

int tfc__gateway_new(tfc_ctx *ctx, struct tfc__directory *directory,
		     const struct tfc__gateway_members *members, tfc_gateway **ret_gateway)
{
	static const struct tfc__gateway_ops ops = {
		.handle = local_gateway_handle,
		.subscribe = local_gateway_subscribe,
		.watch = local_gateway_watch,
		.connect = local_gateway_connect,
		.check = local_gateway_check,
		.close = local_gateway_close,
	};
	struct local_gateway *gateway = calloc(1, sizeof(*gateway));
	if (!gateway)
		return tfc__ctx_fail(ctx, TFC_ENOMEM, "gateway", 0, "out of memory");
	tfc__gateway_init(&gateway->base, ctx, &ops);
	gateway->forwarder.ctx = ctx;
	gateway->forwarder.directory = directory;
	gateway->forwarder.subs = &gateway->base.subs;
	gateway->forwarder.serve = serve_job_request;
	if (members)
		gateway->forwarder.members = *members;
	tfc__forwarder_init(&gateway->forwarder);
	tfc__observer_init(&gateway->closing, local_gateway_on_node_closed);
	tfc__directory_join(directory, &gateway->closing);
	*ret_gateway = &gateway->base;
	return TFC_OK;
}
