/*
 * Each received call is a struct service_call: either a request to the node's own gateway, or a
 * stream of the events of a subscription, limited by the caller's credit.
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
#define WATCH_ITEM_BYTES (2u << 10) /* for a node, which holds one item of each member */
#define RESPONSE_MAX (TFC__RPC_MESSAGE_MAX - 64) /* bytes of text in a message */

struct tfc__gateway_service {
	tfc_ctx *ctx;
	struct tfc__gateway_service_options options;
	tfc_gateway *gateway;
	struct tfc__link calls;
	struct tfc__low_priority low_priority;
};

struct service_call {
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
	struct tfc__peer_id requester; /* of a watch */
	tfc_sub *sub;
	struct tfc__sub_item item; /* events that were not sent yet */
	size_t item_bytes;         /* from this size on, it is sent before the turn is over */
	bool is_ended;
	tfc_error error; /* code below 0: the error with which the stream ends */
};

static void service_call_free(struct service_call *call)
{
	tfc__list_remove(&call->link);
	tfc__low_priority_leave(&call->queued);
	tfc__search_drop(call->search);
	tfc_sub_close(call->sub);
	tfc__received_fini(&call->received);
	tfc__sub_item_fini(&call->item);
	free(call);
}

static void service_call_fail(struct service_call *call, const tfc_error *error)
{
	tfc__rpc_fail(call->request, error);
	service_call_free(call);
}

static struct service_call *service_call_new(struct tfc__gateway_service *service,
					     enum tfc_verb verb, struct tfc__rpc_request *request)
{
	tfc_error error = TFC_ERROR_INIT;
	struct service_call *call = calloc(1, sizeof(*call));
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

static void service_on_reply(void *user, const tfc_reply *reply)
{
	struct service_call *call = user;
	call->op = NULL;
	if (reply->code < 0) {
		service_call_fail(call, reply->error);
		return;
	}
	tfc__rpc_reply_text(call->request, reply->text, reply->len);
	service_call_free(call);
}

/* For the response, and for the work to produce it. */
static int service_reserve(void *user, size_t bytes, tfc_error *error)
{
	const struct service_call *call = user;
	if (bytes > RESPONSE_MAX)
		return tfc__fail(
			error, TFC_ETOOBIG, "gateway", 0,
			"response to %s has at least %zu bytes, more than a message may have (%u)",
			tfc_verb_name(call->verb), bytes, TFC__RPC_MESSAGE_MAX);
	return tfc__rpc_reserve(call->request, bytes, error);
}

static void on_cancel_request(void *user)
{
	struct service_call *call = user;
	tfc_error error = TFC_ERROR_INIT;
	if (call->op) {
		tfc_op_cancel(call->op);
		return;
	}
	tfc__fail(&error, TFC_ECANCELED, "gateway", 0, "request canceled");
	service_call_fail(call, &error);
}

static void service_send_request(struct service_call *call,
				 const struct tfc__request_params *received)
{
	struct tfc__request_params params = *received;
	params.reserve = service_reserve;
	params.is_relayed = true;
	if (tfc__gateway_request(call->service->gateway, &params, 0, service_on_reply, call,
				 &call->op) < 0)
		service_call_fail(call, tfc_ctx_error(call->service->ctx));
}

static void service_begin_request(struct service_call *call,
				  const struct tfc__request_params *received,
				  const struct tfc__peer_id *requester)
{
	char submitter[129], as[TFC__SUBMITTER_AS_SIZE];
	struct tfc__request_params params = *received;
	if (requester->uid != UINT32_MAX)
		snprintf(submitter, sizeof(submitter), "uid %u", requester->uid);
	else
		snprintf(submitter, sizeof(submitter), "key %s, node %s", requester->key_id,
			 requester->node_id);
	tfc__rights_write_submitter(requester, as);
	params.submitter = submitter;
	params.owner = tfc__rights_owner(&call->service->options, requester);
	params.as = params.verb == TFC_VERB_SUBMIT ? as : NULL;
	tfc__rpc_watch(call->request, NULL, on_cancel_request, call);
	service_send_request(call, &params);
}

static void begin_queued_request(struct tfc__low_priority_request *queued)
{
	struct service_call *call = tfc__container_of(queued, struct service_call, queued);
	service_send_request(call, &call->received.params);
}

static bool has_long_response(enum tfc_verb verb)
{
	return verb == TFC_VERB_JOBS || verb == TFC_VERB_DESCRIBE || verb == TFC_VERB_SPEC ||
	       verb == TFC_VERB_EXPLAIN || verb == TFC_VERB_MEMBERS;
}

/* Queues a request whose response may be long. Takes ownership of `received`. */
static void queue_request(struct service_call *call, struct tfc__received *received, bool is_client)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__rpc *rpc = tfc__rpc_of(call->request);
	call->received = *received;
	*received = (struct tfc__received){.definition = NULL};
	call->queued.begin = begin_queued_request;
	tfc__rpc_watch(call->request, NULL, on_cancel_request, call);
	if (tfc__low_priority_enqueue(&call->service->low_priority, rpc, is_client,
				      &call->queued) == TFC_OK)
		return;
	tfc__fail_nomem(&error, "gateway");
	service_call_fail(call, &error);
}

/* Responds with this node's own matches, for a member that searches. */
static void respond_find(struct service_call *call, const char *job)
{
	struct tfc__buf result = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc__search_respond(tfc__gateway_directory(call->service->gateway), job, &result);
	if (result.is_failed) {
		tfc__fail_nomem(&error, "gateway");
		service_call_fail(call, &error);
	} else {
		tfc__rpc_reply(call->request, &result);
		service_call_free(call);
	}
	tfc__buf_fini(&result);
}

/* ---- streams */

static int event_stream_send(struct service_call *call)
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
static void event_stream_end(struct service_call *call)
{
	if (call->error.code < 0)
		tfc__rpc_fail(call->request, &call->error);
	else
		tfc__rpc_reply(call->request, NULL);
	service_call_free(call);
}

/* Sends the pending events if credit and buffer space allow; otherwise pauses the subscription. The
 * buffers are not kept between turns: their memory does not count against the client. */
static void event_stream_flush(struct service_call *call)
{
	int code = tfc__sub_item_is_empty(&call->item) ? TFC_OK : event_stream_send(call);
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
		event_stream_end(call);
		return;
	}
	tfc__sub_item_fini(&call->item);
	/* Without credit or buffer space, nothing is read for the stream and no files stay open. */
	if (!tfc__rpc_credit(call->request))
		tfc__sub_suspend(call->sub);
	else if (call->sub->is_paused)
		tfc_sub_resume(call->sub);
}

static void event_stream_on_event(void *user, const tfc_event *event)
{
	struct service_call *call = user;
	const struct tfc__gateway_service_options *options = &call->service->options;
	const struct tfc__request_params params = {.verb = call->verb, .job = event->job};
	if (event->kind == TFC_EVENT_LOST) {
		tfc__fail(&call->error, event->error_code, "gateway", 0, "%s", event->text);
		call->is_ended = true;
		return;
	}
	if (event->kind == TFC__SUB_ESTABLISHED) {
		tfc__sub_item_confirm(&call->item, event);
		return;
	}
	/* The host may hide a job from a watch. */
	if (call->verb == TFC_VERB_WATCH && *event->job && options->hooks.authorize &&
	    tfc__rights_check(options, &call->requester, &params, NULL) < 0)
		return;
	tfc__sub_item_add(&call->item, call->sub->event);
	call->is_ended = event->kind == TFC_EVENT_END;
	if (tfc__sub_item_bytes(&call->item) >= call->item_bytes &&
	    (event_stream_send(call) < 0 || !tfc__rpc_credit(call->request)))
		tfc_sub_pause(call->sub); /* for the remainder of the turn, too */
}

/* Since the turn was scheduled, other streams may have filled the send buffer. */
static void event_stream_before_turn(void *user)
{
	struct service_call *call = user;
	if (!tfc__rpc_credit(call->request))
		tfc_sub_pause(call->sub);
}

/* If the memory limit is reached, the stream fails; the client resumes it later from its position.
 */
static void event_stream_after_turn(void *user)
{
	struct service_call *call = user;
	tfc__sub_item_end_batch(&call->item);
	if (tfc__rpc_reserve(call->request, call->sub->held, &call->error) < 0)
		event_stream_end(call);
	else
		event_stream_flush(call);
}

static void event_stream_on_credit(void *user)
{
	event_stream_flush(user);
}

static void event_stream_on_cancel(void *user)
{
	struct service_call *call = user;
	tfc__fail(&call->error, TFC_ECANCELED, "gateway", 0, "the subscription was canceled");
	event_stream_end(call);
}

static void event_stream_begin(struct service_call *call, const struct tfc__request_params *params)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__gateway_follow(call->service->gateway, params, true, event_stream_on_event, call,
				&error, &call->sub) < 0 ||
	    tfc__rpc_reserve(call->request, call->sub->held, &error) < 0) {
		service_call_fail(call, &error);
		return;
	}
	call->item_bytes = call->verb == TFC_VERB_WATCH && params->is_forwarded ? WATCH_ITEM_BYTES
										: ITEM_BYTES;
	call->sub->turning = event_stream_before_turn;
	call->sub->turned = event_stream_after_turn;
	tfc__rpc_watch(call->request, event_stream_on_credit, event_stream_on_cancel, call);
}

static void event_stream_on_found(void *user, const char *node, const char *id,
				  const tfc_error *error)
{
	struct service_call *call = user;
	struct tfc__request_params params = call->received.params;
	call->search = NULL;
	params.job = id;
	if (error)
		service_call_fail(call, error);
	else
		event_stream_begin(call, &params);
}

/* A prefix or name may match jobs on several nodes, so all nodes are searched first. */
static bool needs_search(const struct tfc__gateway_service *service,
			 const struct tfc__request_params *params)
{
	return !params->is_forwarded && !tfc__is_job_id(params->job) &&
	       tfc__gateway_has_members(&service->options.members);
}

/* Takes ownership of `received`. */
static void event_stream_find_job(struct service_call *call, struct tfc__received *received)
{
	const struct tfc__gateway_service *service = call->service;
	tfc_error error = TFC_ERROR_INIT;
	call->received = *received;
	*received = (struct tfc__received){.definition = NULL};
	tfc__rpc_watch(call->request, NULL, on_cancel_request, call);
	if (tfc__search_begin(service->ctx, tfc__gateway_directory(service->gateway),
			      &service->options.members, call->received.params.job,
			      event_stream_on_found, call, &call->search) < 0)
		tfc__fail_nomem(&error, "gateway");
	else
		tfc__rpc_reserve(call->request, tfc__search_bytes(call->search), &error);
	if (error.code < 0)
		service_call_fail(call, &error);
}

/* ---- calls */

/* A submit that a member forwards has the submitter that the member names. */
static int service_read_submitter(const struct tfc__gateway_service *service,
				  const struct tfc__request_params *received,
				  struct tfc__peer_id *requester, tfc_error *error)
{
	struct tfc__request_params params = *received;
	if (!received->is_forwarded || !received->as)
		return TFC_OK;
	int code = tfc__rights_submitter(received->as, requester, error);
	params.is_forwarded = false;
	return code < 0 ? code : tfc__rights_check(&service->options, requester, &params, error);
}

/* On success, `requester` is the submitter. */
static int service_read_request(const struct tfc__gateway_service *service,
				struct tfc__peer_id *requester, enum tfc_verb verb,
				const msgpack_object *map, struct tfc__received *received,
				tfc_error *error)
{
	const struct tfc__request_params *params = &received->params;
	int code = tfc__request_params_read(received, verb, map, error);
	if (code == TFC_OK)
		code = tfc__rights_check(&service->options, requester, params, error);
	if (code == TFC_OK && verb == TFC_VERB_SUBMIT)
		code = service_read_submitter(service, params, requester, error);
	received->params.has_minimal_env = requester->uid !=
					   geteuid(); /* over tcp, uid is UINT32_MAX */
	if (code == TFC_OK)
		code = tfc__request_params_read_definition(received, error);
	if (code == TFC_OK && verb == TFC_VERB_SUBMIT && received->definition)
		code = tfc__rights_apply(&service->options, requester, received->definition, error);
	return code;
}

int tfc__gateway_service_check_feed(const struct tfc__gateway_service *service,
				    const struct tfc__peer_id *caller, const char *job,
				    bool is_forwarded, tfc_error *error)
{
	const struct tfc__request_params params = {
		.verb = TFC_VERB_FEED,
		.job = job,
		.is_forwarded = is_forwarded,
	};
	return tfc__rights_check(&service->options, caller, &params, error);
}

static struct tfc__agent *service_agent(const struct tfc__gateway_service *service)
{
	return tfc__directory_agent(tfc__gateway_directory(service->gateway));
}

/* The permission to submit includes that to upload a bundle. False: the method is neither of the
 * two. */
static bool serve_offer(struct tfc__gateway_service *service, const struct tfc__peer_id *requester,
			struct tfc__rpc_request *request, const char *method,
			const msgpack_object *map)
{
	static const struct tfc__request_params params = {.verb = TFC_VERB_SUBMIT, .job = ""};
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__bundles *bundles = tfc__agent_bundles(service_agent(service));
	struct tfc__bundle_offerer offerer = {.is_client = requester->role != TFC__KEY_NODE,
					      .uid = requester->uid};
	memcpy(offerer.key_id, requester->key_id, sizeof(offerer.key_id));
	if (strcmp(method, TFC__BUNDLE_CHUNK) == 0)
		tfc__bundle_serve_chunk(bundles, request, map);
	else if (strcmp(method, TFC__BUNDLE_OFFER) != 0)
		return false;
	else if (tfc__rights_check(&service->options, requester, &params, &error) < 0)
		tfc__rpc_fail(request, &error);
	else
		tfc__bundle_serve_offer(bundles, &offerer, request, map);
	return true;
}

/* The requests and events of 0.2 were others. A client that names no version speaks for itself. */
static int check_client_version(const struct tfc__gateway_service *service,
				const struct tfc__rpc_request *request, tfc_error *error)
{
	uint32_t version = tfc__rpc_peer_version(tfc__rpc_of(request)), own = tfc_version();
	if (!version || version >= TFC__V0_3)
		return TFC_OK;
	return tfc__fail(error, TFC_ENOTSUP, "gateway", 0,
			 "incompatible versions: node \"%s\" has %u.%u.%u and the client has "
			 "%u.%u.%u; update the client",
			 tfc__agent_name(service_agent(service)), own >> 16, own >> 8 & 0xff,
			 own & 0xff, version >> 16, version >> 8 & 0xff, version & 0xff);
}

void tfc__gateway_service_serve(struct tfc__gateway_service *service,
				const struct tfc__peer_id *caller, struct tfc__rpc_request *request,
				const char *method, const msgpack_object *map)
{
	struct tfc__peer_id requester = *caller;
	enum tfc_verb verb = tfc__verb_of_method(method);
	struct tfc__received received = {.definition = NULL};
	tfc_error error = TFC_ERROR_INIT;
	struct service_call *call;
	if (!request)
		return;
	if (check_client_version(service, request, &error) < 0) {
		tfc__rpc_fail(request, &error);
		return;
	}
	if (serve_offer(service, &requester, request, method, map))
		return;
	if (strcmp(method, TFC__METHOD_HELLO) == 0) {
		struct tfc__server self;
		snprintf(self.node_id, sizeof(self.node_id), "%s",
			 service->options.members.node_id);
		snprintf(self.name, sizeof(self.name), "%s",
			 tfc__agent_name(service_agent(service)));
		tfc__rpc_reply_message(request, &tfc__server_fields, &self);
		return;
	}
	int code = verb ? service_read_request(service, &requester, verb, map, &received, &error)
			: tfc__fail(&error, TFC_ENOTSUP, "gateway", 0,
				    "the node's version does not support this request");
	if (code < 0)
		tfc__rpc_fail(request, &error);
	else if (!(call = service_call_new(service, verb, request)))
		;
	else if (verb == TFC_VERB_FIND)
		respond_find(call, received.params.job);
	else if (verb == TFC_VERB_SUBSCRIBE && needs_search(service, &received.params))
		event_stream_find_job(call, &received);
	else if (verb == TFC_VERB_SUBSCRIBE || verb == TFC_VERB_WATCH) {
		call->requester = requester;
		event_stream_begin(call, &received.params);
	} else if (has_long_response(verb))
		queue_request(call, &received, caller->role != TFC__KEY_NODE);
	else
		service_begin_request(call, &received.params, &requester);
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

void tfc__gateway_service_close(struct tfc__gateway_service *service)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!service)
		return;
	tfc__low_priority_close(&service->low_priority);
	tfc__fail(&error, TFC_ELOST, "gateway", 0, "the node was closed");
	TFC__LIST_EACH (link, &service->calls) {
		struct service_call *call = tfc__container_of(link, struct service_call, link);
		if (call->op)
			tfc__request_abandon(call->op);
		service_call_fail(call, &error);
	}
	tfc_gateway_close(service->gateway);
	free(service);
}
