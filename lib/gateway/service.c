/*
 * Each received call is a struct call: either a request to the node's own gateway, or a stream of
 * the events of a subscription, limited by the caller's credit.
 */
#include "gateway/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/version.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/names.h"
#include "bundle/transfer.h"
#include "gateway/event_wire.h"
#include "gateway/home.h"
#include "gateway/local.h"
#include "gateway/low_priority.h"
#include "gateway/request_params.h"
#include "gateway/rights.h"
#include "gateway/search.h"
#include "job/job.h"

#define ITEM_BYTES (32u << 10)
#define WATCH_ITEM_BYTES (2u << 10)            /* for a node, which holds one item of each member */
#define ANSWER_MAX (TFC__RPC_MESSAGE_MAX - 64) /* bytes of text in a message */

struct tfc__gateway_service {
	tfc_ctx *ctx;
	struct tfc__gateway_service_options options;
	tfc_gateway *gateway;
	struct tfc__link calls;
	struct tfc__low_priority low_priority;
};

struct call {
	struct tfc__link link;
	struct tfc__gateway_service *service;
	struct tfc__rpc_request *request;
	enum tfc_verb verb;
	tfc_op *op; /* of a request */
	/* Of a request whose response may be long, and which waits in the queue. */
	struct tfc__low_priority_request queued;
	struct tfc__received received; /* also of a stream whose job is being searched */
	struct tfc__search *search;
	/* Of a stream: */
	struct tfc__peer_id who; /* of a watch */
	tfc_sub *sub;
	struct tfc__sub_item item; /* events that were not sent yet */
	size_t item_bytes;         /* from this size on, it is sent before the turn is over */
	bool is_ended;
	tfc_error error; /* code below 0: the error with which the stream ends */
};

static void free_call(struct call *call)
{
	tfc__list_remove(&call->link);
	tfc__low_priority_leave(&call->queued);
	tfc__search_drop(call->search);
	tfc_sub_close(call->sub);
	tfc__received_fini(&call->received);
	tfc__sub_item_fini(&call->item);
	free(call);
}

static void fail_call(struct call *call, const tfc_error *error)
{
	tfc__rpc_fail(call->request, error);
	free_call(call);
}

static struct call *new_call(struct tfc__gateway_service *service, enum tfc_verb verb,
			     struct tfc__rpc_request *request)
{
	tfc_error error = TFC_ERROR_INIT;
	struct call *call = calloc(1, sizeof(*call));
	if (!call) {
		tfc__fail_nomem(&error, "gateway");
		tfc__rpc_fail(request, &error);
		return NULL;
	}
	call->service = service;
	call->verb = verb;
	call->request = request;
	tfc__list_append(&service->calls, &call->link);
	return call;
}

/* ---- requests */

static void on_reply(void *user, const tfc_reply *reply)
{
	struct call *call = user;
	call->op = NULL;
	if (reply->code < 0) {
		fail_call(call, reply->error);
		return;
	}
	tfc__rpc_reply_text(call->request, reply->text, reply->len);
	free_call(call);
}

/* For the response, and for the work to produce it. */
static int reserve(void *user, size_t bytes, tfc_error *error)
{
	const struct call *call = user;
	if (bytes > ANSWER_MAX)
		return tfc__fail(
			error, TFC_ETOOBIG, "gateway", 0,
			"response to %s has at least %zu bytes, more than a message may have (%u)",
			tfc_verb_name(call->verb), bytes, TFC__RPC_MESSAGE_MAX);
	return tfc__rpc_reserve(call->request, bytes, error);
}

static void on_cancel_request(void *user)
{
	struct call *call = user;
	tfc_error error = TFC_ERROR_INIT;
	if (call->op) {
		tfc_op_cancel(call->op);
		return;
	}
	tfc__fail(&error, TFC_ECANCELED, "gateway", 0, "request canceled");
	fail_call(call, &error);
}

/* A text that names the requester, for the record of a job. */
static void name_submitter(const struct tfc__peer_id *who, char *text, size_t size)
{
	if (who->uid != UINT32_MAX)
		snprintf(text, size, "uid %u", who->uid);
	else
		snprintf(text, size, "key %s, node %s", who->key_id, who->node_id);
}

static void send_request(struct call *call, const struct tfc__request_params *received)
{
	struct tfc__request_params params = *received;
	params.reserve = reserve;
	params.is_relayed = true;
	if (tfc__gateway_request(call->service->gateway, &params, 0, on_reply, call, &call->op) < 0)
		fail_call(call, tfc_ctx_error(call->service->ctx));
}

static void handle_request(struct call *call, const struct tfc__request_params *received,
			   const struct tfc__peer_id *who)
{
	char submitter[129], as[TFC__SUBMITTER_AS_SIZE];
	struct tfc__request_params params = *received;
	name_submitter(who, submitter, sizeof(submitter));
	tfc__rights_write_submitter(who, as);
	params.submitter = submitter;
	params.owner = tfc__rights_owner(&call->service->options, who);
	params.as = params.verb == TFC_VERB_SUBMIT ? as : NULL;
	tfc__rpc_watch(call->request, NULL, on_cancel_request, call);
	send_request(call, &params);
}

static void begin_queued(struct tfc__low_priority_request *queued)
{
	struct call *call = tfc__container_of(queued, struct call, queued);
	send_request(call, &call->received.params);
}

static bool is_long(enum tfc_verb verb)
{
	return verb == TFC_VERB_JOBS || verb == TFC_VERB_DESCRIBE || verb == TFC_VERB_SPEC ||
	       verb == TFC_VERB_EXPLAIN || verb == TFC_VERB_MEMBERS;
}

/* Queues a request whose response may be long. Takes ownership of `received`. */
static void queue_request(struct call *call, struct tfc__received *received, bool is_client)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__rpc *rpc = tfc__rpc_of(call->request);
	call->received = *received;
	*received = (struct tfc__received){.definition = NULL};
	call->queued.go = begin_queued;
	tfc__rpc_watch(call->request, NULL, on_cancel_request, call);
	if (tfc__low_priority_enqueue(&call->service->low_priority, rpc, is_client,
				      &call->queued) == TFC_OK)
		return;
	tfc__fail_nomem(&error, "gateway");
	fail_call(call, &error);
}

/* Responds with this node's own matches, for a member that searches. */
static void respond_find(struct call *call, const char *job)
{
	struct tfc__buf result = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc__search_respond(tfc__gateway_directory(call->service->gateway), job, &result);
	if (result.is_failed) {
		tfc__fail_nomem(&error, "gateway");
		fail_call(call, &error);
	} else {
		tfc__rpc_reply(call->request, &result);
		free_call(call);
	}
	tfc__buf_fini(&result);
}

/* ---- streams */

static int send_events(struct call *call)
{
	struct tfc__buf item = {0};
	int code = tfc__sub_item_write(&call->item, &item);
	if (code == TFC_OK)
		code = tfc__rpc_item(call->request, &item);
	if (code == TFC_OK)
		tfc__sub_item_clear(&call->item);
	tfc__buf_fini(&item);
	return code;
}

/* After END, or after an error of the stream or its job. */
static void end_stream(struct call *call)
{
	if (call->error.code < 0)
		tfc__rpc_fail(call->request, &call->error);
	else
		tfc__rpc_reply(call->request, NULL);
	free_call(call);
}

/* Without credit or buffer space, nothing is read for the stream and no files stay open. */
static void suspend_or_resume(struct call *call)
{
	if (!tfc__rpc_credit(call->request))
		tfc__sub_suspend(call->sub);
	else if (call->sub->is_paused)
		tfc_sub_resume(call->sub);
}

/* Sends the pending events if credit and buffer space allow; otherwise pauses the subscription. The
 * buffers are not kept between turns: their memory does not count against the client. */
static void flush(struct call *call)
{
	int code = tfc__sub_item_is_empty(&call->item) ? TFC_OK : send_events(call);
	if (code == TFC_ESTATE) {
		tfc__sub_suspend(call->sub);
		return;
	}
	if (code < 0) {
		tfc__fail(&call->error, code, "gateway", 0, "subscription failed: %s",
			  tfc_err_text(code));
		call->is_ended = true;
	}
	if (call->is_ended) {
		end_stream(call);
		return;
	}
	tfc__sub_item_fini(&call->item);
	suspend_or_resume(call);
}

/* The host may hide a job from a watch. */
static bool may_see(const struct call *call, const char *job)
{
	const struct tfc__request_params params = {.verb = TFC_VERB_WATCH, .job = job};
	return !*job || !call->service->options.hooks.authorize ||
	       tfc__rights_check(&call->service->options, &call->who, &params, NULL) == TFC_OK;
}

static void on_event(void *user, const tfc_event *event)
{
	struct call *call = user;
	if (event->kind == TFC_EVENT_LOST) {
		tfc__fail(&call->error, event->error_code, "gateway", 0, "%s", event->text);
		call->is_ended = true;
		return;
	}
	if (event->kind == TFC__SUB_ESTABLISHED) {
		tfc__sub_item_confirm(&call->item, event);
		return;
	}
	if (call->verb == TFC_VERB_WATCH && !may_see(call, event->job))
		return;
	tfc__sub_item_add(&call->item, tfc__sub_event(call->sub));
	call->is_ended = event->kind == TFC_EVENT_END;
	if (tfc__sub_item_bytes(&call->item) >= call->item_bytes &&
	    (send_events(call) < 0 || !tfc__rpc_credit(call->request)))
		tfc_sub_pause(call->sub); /* for the remainder of the turn, too */
}

/* Since the turn was scheduled, other streams may have filled the send buffer. */
static void on_turn_begins(void *user)
{
	struct call *call = user;
	if (!tfc__rpc_credit(call->request))
		tfc_sub_pause(call->sub);
}

/* If the memory limit is reached, the stream fails; the client resumes it later from its position.
 */
static void on_turned(void *user)
{
	struct call *call = user;
	tfc__sub_item_end_batch(&call->item);
	if (tfc__rpc_reserve(call->request, call->sub->held, &call->error) < 0)
		end_stream(call);
	else
		flush(call);
}

static void on_credit(void *user)
{
	flush(user);
}

static void on_cancel_stream(void *user)
{
	struct call *call = user;
	tfc__fail(&call->error, TFC_ECANCELED, "gateway", 0, "the subscription was canceled");
	end_stream(call);
}

static void begin_stream(struct call *call, const struct tfc__request_params *params)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__gateway_follow(call->service->gateway, params, true, on_event, call, &error,
				&call->sub) < 0 ||
	    tfc__rpc_reserve(call->request, call->sub->held, &error) < 0) {
		fail_call(call, &error);
		return;
	}
	call->item_bytes = call->verb == TFC_VERB_WATCH && params->is_forwarded ? WATCH_ITEM_BYTES
										: ITEM_BYTES;
	call->sub->turning = on_turn_begins;
	call->sub->turned = on_turned;
	tfc__rpc_watch(call->request, on_credit, on_cancel_stream, call);
}

static void on_found(void *user, const char *node, const char *id, const tfc_error *error)
{
	struct call *call = user;
	struct tfc__request_params params = call->received.params;
	call->search = NULL;
	params.job = id;
	if (error)
		fail_call(call, error);
	else
		begin_stream(call, &params);
}

/* A prefix or name may match jobs on several nodes, so all nodes are searched first. */
static bool is_to_be_found(const struct tfc__gateway_service *service,
			   const struct tfc__request_params *params)
{
	return !params->is_forwarded && !tfc__is_job_id(params->job) &&
	       tfc__gateway_members_next(&service->options.members,
					 &(struct tfc__gateway_member){NULL});
}

/* Takes ownership of `received`. */
static void find_stream(struct call *call, struct tfc__received *received)
{
	const struct tfc__gateway_service *service = call->service;
	tfc_error error = TFC_ERROR_INIT;
	call->received = *received;
	*received = (struct tfc__received){.definition = NULL};
	tfc__rpc_watch(call->request, NULL, on_cancel_request, call);
	if (tfc__search_begin(service->ctx, tfc__gateway_directory(service->gateway),
			      &service->options.members, call->received.params.job, on_found, call,
			      &call->search) < 0)
		tfc__fail_nomem(&error, "gateway");
	else
		tfc__rpc_reserve(call->request, tfc__search_bytes(call->search), &error);
	if (error.code < 0)
		fail_call(call, &error);
}

/* ---- calls */

/* A submit that a member forwards has the submitter that the member names. */
static int receive_submitter(const struct tfc__gateway_service *service,
			     const struct tfc__request_params *received, struct tfc__peer_id *who,
			     tfc_error *error)
{
	struct tfc__request_params params = *received;
	if (!received->is_forwarded || !received->as)
		return TFC_OK;
	int code = tfc__rights_submitter(received->as, who, error);
	params.is_forwarded = false;
	return code < 0 ? code : tfc__rights_check(&service->options, who, &params, error);
}

/* On success, `who` is the submitter. */
static int receive(const struct tfc__gateway_service *service, struct tfc__peer_id *who,
		   enum tfc_verb verb, const msgpack_object *map, struct tfc__received *received,
		   tfc_error *error)
{
	const struct tfc__request_params *params = &received->params;
	int code = tfc__request_params_read(received, verb, map, error);
	if (code == TFC_OK)
		code = tfc__rights_check(&service->options, who, params, error);
	if (code == TFC_OK && verb == TFC_VERB_SUBMIT)
		code = receive_submitter(service, params, who, error);
	received->params.has_minimal_env = who->uid != geteuid(); /* over tcp, uid is UINT32_MAX */
	if (code == TFC_OK)
		code = tfc__request_params_read_definition(received, error);
	if (code == TFC_OK && verb == TFC_VERB_SUBMIT && received->definition)
		code = tfc__rights_apply(&service->options, who, received->definition, error);
	return code;
}

/* Tells a client the identity of the node to which it will send its submit. */
static void respond_hello(const struct tfc__gateway_service *service,
			  struct tfc__rpc_request *request)
{
	const struct tfc__directory *directory = tfc__gateway_directory(service->gateway);
	struct tfc__server self;
	snprintf(self.node_id, sizeof(self.node_id), "%s", service->options.members.node_id);
	snprintf(self.name, sizeof(self.name), "%s",
		 tfc__agent_name(tfc__directory_agent(directory)));
	tfc__rpc_reply_message(request, &tfc__server_fields, &self);
}

/* The permission to submit includes that to upload a bundle. False: the method is neither of the
 * two. */
static bool serve_offer(struct tfc__gateway_service *service, const struct tfc__peer_id *who,
			struct tfc__rpc_request *request, const char *method,
			const msgpack_object *map)
{
	static const struct tfc__request_params params = {.verb = TFC_VERB_SUBMIT, .job = ""};
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__directory *directory = tfc__gateway_directory(service->gateway);
	struct tfc__bundles *bundles = tfc__agent_bundles(tfc__directory_agent(directory));
	struct tfc__bundle_offerer offerer = {.is_client = who->role != TFC__KEY_NODE,
					      .uid = who->uid};
	memcpy(offerer.key_id, who->key_id, sizeof(offerer.key_id));
	if (strcmp(method, TFC__BUNDLE_CHUNK) == 0)
		tfc__bundle_serve_chunk(bundles, request, map);
	else if (strcmp(method, TFC__BUNDLE_OFFER) != 0)
		return false;
	else if (tfc__rights_check(&service->options, who, &params, &error) < 0)
		tfc__rpc_fail(request, &error);
	else
		tfc__bundle_serve_offer(bundles, &offerer, request, map);
	return true;
}

/* The requests and events of 0.2 were others. A client that names no version speaks for itself. */
static int check_client(const struct tfc__gateway_service *service,
			const struct tfc__rpc_request *request, tfc_error *error)
{
	uint32_t version = tfc__rpc_peer_version(tfc__rpc_of(request)), own = tfc_version();
	const struct tfc__directory *directory = tfc__gateway_directory(service->gateway);
	if (!version || version >= TFC__V0_3)
		return TFC_OK;
	return tfc__fail(error, TFC_ENOTSUP, "gateway", 0,
			 "incompatible versions: node \"%s\" has %u.%u.%u and the client has "
			 "%u.%u.%u; update the client",
			 tfc__agent_name(tfc__directory_agent(directory)), own >> 16,
			 own >> 8 & 0xff, own & 0xff, version >> 16, version >> 8 & 0xff,
			 version & 0xff);
}

void tfc__gateway_service_serve(struct tfc__gateway_service *service,
				const struct tfc__peer_id *caller, struct tfc__rpc_request *request,
				const char *method, const msgpack_object *map)
{
	struct tfc__peer_id who = *caller;
	enum tfc_verb verb = tfc__verb_of_method(method);
	struct tfc__received received = {.definition = NULL};
	tfc_error error = TFC_ERROR_INIT;
	struct call *call;
	if (!request)
		return;
	if (check_client(service, request, &error) < 0) {
		tfc__rpc_fail(request, &error);
		return;
	}
	if (serve_offer(service, &who, request, method, map))
		return;
	if (strcmp(method, TFC__METHOD_HELLO) == 0) {
		respond_hello(service, request);
		return;
	}
	int code = verb ? receive(service, &who, verb, map, &received, &error)
			: tfc__fail(&error, TFC_ENOTSUP, "gateway", 0,
				    "the node's version does not support this request");
	if (code < 0)
		tfc__rpc_fail(request, &error);
	else if (!(call = new_call(service, verb, request)))
		;
	else if (verb == TFC_VERB_FIND)
		respond_find(call, received.params.job);
	else if (verb == TFC_VERB_SUBSCRIBE && is_to_be_found(service, &received.params))
		find_stream(call, &received);
	else if (verb == TFC_VERB_SUBSCRIBE || verb == TFC_VERB_WATCH) {
		call->who = who;
		begin_stream(call, &received.params);
	} else if (is_long(verb))
		queue_request(call, &received, caller->role != TFC__KEY_NODE);
	else
		handle_request(call, &received.params, &who);
	tfc__received_fini(&received);
}

/* ---- opening and closing */

int tfc__gateway_service_open(tfc_ctx *ctx, struct tfc__directory *directory,
			      const struct tfc__gateway_service_options *options,
			      struct tfc__gateway_service **ret_service)
{
	struct tfc__gateway_service *service = calloc(1, sizeof(*service));
	if (!service)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "gateway");
	service->ctx = ctx;
	service->options = *options;
	tfc__list_init(&service->calls);
	tfc__low_priority_init(&service->low_priority, ctx);
	int code = tfc__gateway_new(ctx, directory, &options->members, &service->gateway);
	if (code < 0) {
		free(service);
		return code;
	}
	*ret_service = service;
	return TFC_OK;
}

/* For calls that are closed before their reply is delivered. */
static void ignore_reply(void *user, const tfc_reply *reply)
{
}

void tfc__gateway_service_close(struct tfc__gateway_service *service)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!service)
		return;
	tfc__low_priority_close(&service->low_priority);
	tfc__fail(&error, TFC_ELOST, "gateway", 0, "the node was closed");
	TFC__LIST_EACH (link, &service->calls) {
		struct call *call = tfc__container_of(link, struct call, link);
		if (call->op) {
			struct tfc__request *request = tfc__container_of(call->op,
									 struct tfc__request, op);
			request->fn = ignore_reply;
			request->reserve = NULL;
		}
		fail_call(call, &error);
	}
	tfc_gateway_close(service->gateway);
	free(service);
}
