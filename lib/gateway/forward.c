#include "gateway/forward.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "gateway/heartbeat.h"
#include "gateway/remote_request.h"
#include "gateway/request_params.h"
#include "gateway/search.h"

#define WINDOW 2 /* items of a subscription, buffered here for each client */

/* ---- a request about one job */

struct forwarding {
	struct tfc__forwarder *forwarder;
	struct tfc__request *request;
	struct tfc__search *search;
	struct tfc__received received; /* a copy of the request */
	struct tfc__buf params;
	struct tfc__msg msg;
	bool has_msg;
};

static void forwarding_free(struct forwarding *forwarding)
{
	tfc__search_drop(forwarding->search);
	tfc__received_fini(&forwarding->received);
	if (forwarding->has_msg)
		tfc__msg_fini(&forwarding->msg);
	tfc__buf_fini(&forwarding->params);
	free(forwarding);
}

static void forwarding_cancel(struct tfc__request *request)
{
	forwarding_free(request->impl);
}

static void forward_on_connected(struct tfc__member_wait *wait, struct tfc__rpc *rpc,
				 const tfc_error *why)
{
	struct tfc__remote_request *remote_request =
		tfc__container_of(wait, struct tfc__remote_request, wait);
	const struct tfc__forwarder *forwarder = remote_request->owner;
	const char *self = tfc__agent_name(tfc__directory_agent(forwarder->directory));
	tfc_error error = TFC_ERROR_INIT;
	if (rpc) {
		tfc__remote_request_send(remote_request, rpc);
		return;
	}
	tfc__fail(&error, TFC_ELOST, "gateway", 0, "node %.40s cannot reach node %.40s: %s", self,
		  remote_request->node, why->text);
	tfc__remote_request_fail(remote_request, &error);
}

static void forward_to_node(struct tfc__forwarder *forwarder,
			    struct tfc__remote_request *remote_request, const char *node)
{
	const struct tfc__gateway_members *members = &forwarder->members;
	remote_request->owner = forwarder;
	remote_request->wait.fn = forward_on_connected;
	snprintf(remote_request->node, sizeof(remote_request->node), "%s", node);
	members->ops->connect(members->user, node, &remote_request->wait);
}

static void forwarding_on_found(void *user, const char *node, const char *id,
				const tfc_error *error)
{
	struct forwarding *forwarding = user;
	struct tfc__request *request = forwarding->request;
	struct tfc__remote_request *remote_request;
	struct tfc__request_params params = forwarding->received.params;
	forwarding->search = NULL;
	request->cancel = NULL;
	params.job = id;
	params.is_forwarded = true;
	if (error) {
		request->error = *error;
		tfc__request_end(request, error->code);
	} else if (*node) {
		remote_request = tfc__remote_request_new(request, &params);
		if (remote_request)
			forward_to_node(forwarding->forwarder, remote_request, node);
	} else {
		tfc__request_end(request,
				 forwarding->forwarder->serve(forwarding->forwarder->directory,
							      &params, request));
	}
	forwarding_free(forwarding);
}

static int forwarding_copy_params(struct forwarding *forwarding,
				  const struct tfc__request_params *params)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__request_params_write(&forwarding->params, params);
	if (forwarding->params.is_failed ||
	    tfc__msg_parse(&forwarding->msg, forwarding->params.data, forwarding->params.len, NULL,
			   &error) < 0)
		return TFC_ENOMEM;
	forwarding->has_msg = true;
	return tfc__request_params_read(&forwarding->received, params->verb, &forwarding->msg.root,
					&error);
}

void tfc__forward(struct tfc__forwarder *forwarder, const struct tfc__request_params *params,
		  struct tfc__request *request)
{
	struct forwarding *forwarding = calloc(1, sizeof(*forwarding));
	int code = forwarding ? forwarding_copy_params(forwarding, params) : TFC_ENOMEM;
	if (code == TFC_OK) {
		forwarding->forwarder = forwarder;
		forwarding->request = request;
		code = tfc__search_begin(forwarder->ctx, forwarder->directory, &forwarder->members,
					 params->job, forwarding_on_found, forwarding,
					 &forwarding->search);
	}
	code = code < 0 ? tfc__fail_nomem(&request->error, "gateway")
			: tfc__request_reserve(request, tfc__search_bytes(forwarding->search));
	if (code < 0) {
		if (forwarding)
			forwarding_free(forwarding);
		tfc__request_end(request, code);
		return;
	}
	request->impl = forwarding;
	request->cancel = forwarding_cancel;
}

/* ---- a submit whose home is another node */

static int find_home(struct tfc__forwarder *forwarder, const struct tfc__request_params *params,
		     const char **ret_name, tfc_error *error)
{
	const struct tfc__gateway_members *members = &forwarder->members;
	const char *self = tfc__agent_name(tfc__directory_agent(forwarder->directory));
	const char *name = params->is_forwarded || !members->ops
				   ? NULL
				   : members->ops->find(members->user, params->home);
	if (!name)
		return tfc__fail(error, TFC_ELOST, "gateway", 0,
				 "node %.40s knows no member with node id %s", self, params->home);
	if (tfc__request_params_brings_bundle(params))
		return tfc__fail(error, TFC_ENOTSUP, "gateway", 0,
				 "a bundle must be sent directly to the node that the submit names "
				 "as its home; use the address of node %.60s as the gateway",
				 name);
	*ret_name = name;
	return TFC_OK;
}

void tfc__forward_submit(struct tfc__forwarder *forwarder, const struct tfc__request_params *params,
			 struct tfc__request *request)
{
	struct tfc__request_params forwarded = *params;
	struct tfc__remote_request *remote_request;
	const char *name = NULL;
	int code = find_home(forwarder, params, &name, &request->error);
	forwarded.is_forwarded = true;
	if (code < 0) {
		tfc__request_end(request, code);
	} else if ((remote_request = tfc__remote_request_new(request, &forwarded))) {
		tfc__request_params_add_home(&remote_request->params, params->home);
		forward_to_node(forwarder, remote_request, name);
	}
}

/* ---- heartbeats */

/* Of a node that has a job to which a client of this node is subscribed. It notices that the node
 * does not respond as early as for a client that is connected to it. */
struct job_node {
	struct tfc__link link;
	struct tfc__forwarder *forwarder;
	struct tfc__heartbeat heartbeat;
	char name[];
};

static struct job_node *job_node_of(struct tfc__heartbeat *heartbeat)
{
	return tfc__container_of(heartbeat, struct job_node, heartbeat);
}

static bool job_node_is_followed(struct tfc__heartbeat *heartbeat)
{
	const struct tfc__forwarder *forwarder = job_node_of(heartbeat)->forwarder;
	TFC__LIST_EACH (link, forwarder->subs)
		if (tfc__remote_sub_rpc(tfc__container_of(link, tfc_sub, link),
					&forwarder->route) == heartbeat->rpc)
			return true;
	return false;
}

static void job_node_report_silence(const struct job_node *node, tfc_sub *sub)
{
	tfc_error silent = TFC_ERROR_INIT;
	tfc__fail(&silent, TFC_ETIMEDOUT, "gateway", 0, "no response from node %.60s for %u s",
		  node->name, TFC__SILENT_S);
	tfc__remote_sub_set_silent(sub, node->name, &silent);
}

static void job_node_on_change(struct tfc__heartbeat *heartbeat)
{
	const struct job_node *node = job_node_of(heartbeat);
	const struct tfc__forwarder *forwarder = node->forwarder;
	TFC__LIST_EACH (link, forwarder->subs) {
		tfc_sub *sub = tfc__container_of(link, tfc_sub, link);
		if (tfc__remote_sub_rpc(sub, &forwarder->route) != heartbeat->rpc)
			continue;
		if (heartbeat->is_silent)
			job_node_report_silence(node, sub);
		else
			tfc__remote_sub_set_responding(sub);
	}
}

static struct job_node *job_node_find_or_add(struct tfc__forwarder *forwarder, const char *name)
{
	TFC__LIST_EACH (link, &forwarder->heartbeats) {
		struct job_node *node = tfc__container_of(link, struct job_node, link);
		if (strcmp(node->name, name) == 0)
			return node;
	}
	struct job_node *node = calloc(1, sizeof(*node) + strlen(name) + 1);
	if (!node)
		return NULL;
	strcpy(node->name, name);
	node->forwarder = forwarder;
	tfc__heartbeat_init(&node->heartbeat, forwarder->ctx);
	node->heartbeat.is_needed = job_node_is_followed;
	node->heartbeat.changed = job_node_on_change;
	tfc__list_append(&forwarder->heartbeats, &node->link);
	return node;
}

/* A subscription to a job of the node has begun. Out of memory: without a heartbeat. */
static void forwarder_begin_heartbeat(struct tfc__forwarder *forwarder, const char *name,
				      struct tfc__remote_sub *sub, struct tfc__rpc *rpc)
{
	struct job_node *node = job_node_find_or_add(forwarder, name);
	if (!node)
		return;
	if (node->heartbeat.rpc != rpc)
		tfc__heartbeat_end(&node->heartbeat);
	tfc__heartbeat_begin(&node->heartbeat, rpc);
	if (node->heartbeat.is_silent)
		job_node_report_silence(node, tfc__remote_sub_base(sub));
}

void tfc__forwarder_fini(struct tfc__forwarder *forwarder)
{
	TFC__LIST_EACH (link, &forwarder->heartbeats) {
		struct job_node *node = tfc__container_of(link, struct job_node, link);
		tfc__heartbeat_end(&node->heartbeat);
		tfc__list_remove(link);
		free(node);
	}
}

/* ---- subscriptions */

static void routing_on_found(void *user, const char *node, const char *id, const tfc_error *error);

/* The search for a subscription's route, and the wait for the connection to its node; stored in the
 * subscription's slot. */
struct routing {
	struct tfc__forwarder *forwarder;
	struct tfc__remote_sub *sub;
	struct tfc__search *search; /* NULL: it has ended */
	struct tfc__member_wait wait;
	char node[64];
	char id[17];
};

static void routing_cancel(struct tfc__route *route, struct tfc__remote_sub *sub)
{
	struct routing *routing = tfc__remote_sub_slot(sub);
	tfc__search_drop(routing->search);
	tfc__list_remove(&routing->wait.link);
	free(routing);
}

static void routing_on_connected(struct tfc__member_wait *wait, struct tfc__rpc *rpc,
				 const tfc_error *why)
{
	struct routing *routing = tfc__container_of(wait, struct routing, wait);
	const struct routing route = *routing;
	tfc_error error = TFC_ERROR_INIT;
	free(routing);
	if (rpc) {
		tfc__remote_sub_begin(route.sub, rpc, route.id);
		forwarder_begin_heartbeat(route.forwarder, route.node, route.sub, rpc);
		return;
	}
	tfc__fail(&error, TFC_ELOST, "gateway", 0, "cannot reach node %.60s: %s", route.node,
		  why->text);
	tfc__remote_sub_failed(route.sub, &error);
}

static void routing_begin(struct tfc__route *route, struct tfc__remote_sub *sub, const char *job)
{
	struct tfc__forwarder *forwarder = tfc__container_of(route, struct tfc__forwarder, route);
	struct routing *routing = calloc(1, sizeof(*routing));
	tfc_error error = TFC_ERROR_INIT;
	if (!routing || tfc__search_begin(forwarder->ctx, forwarder->directory, &forwarder->members,
					  job, routing_on_found, routing, &routing->search) < 0) {
		free(routing);
		tfc__fail_nomem(&error, "gateway");
		tfc__remote_sub_failed(sub, &error);
		return;
	}
	routing->forwarder = forwarder;
	routing->sub = sub;
	routing->wait.fn = routing_on_connected;
	tfc__list_init(&routing->wait.link);
	tfc__remote_sub_set_slot(sub, routing);
}

static void routing_on_found(void *user, const char *node, const char *id, const tfc_error *error)
{
	struct routing *routing = user;
	struct tfc__remote_sub *sub = routing->sub;
	struct tfc__forwarder *forwarder = routing->forwarder;
	const struct tfc__gateway_members *members = &forwarder->members;
	struct tfc__record *record;
	tfc_error lost = TFC_ERROR_INIT;
	routing->search = NULL;
	if (!error && *node) {
		snprintf(routing->node, sizeof(routing->node), "%s", node);
		snprintf(routing->id, sizeof(routing->id), "%s", id);
		tfc__remote_sub_set_node(sub, node);
		members->ops->connect(members->user, node, &routing->wait);
		return;
	}
	free(routing);
	if (!error && tfc__directory_find(forwarder->directory, id, &lost, &record) == TFC_OK)
		tfc__fail(&lost, TFC_EEXIST, "gateway", 0,
			  "job %.60s was submitted to this node meanwhile; subscribe again", id);
	tfc__remote_sub_failed(sub, error ? error : &lost);
}

void tfc__forwarder_init(struct tfc__forwarder *forwarder)
{
	tfc__list_init(&forwarder->heartbeats);
	forwarder->route = (struct tfc__route){
		.find = routing_begin,
		.cancel = routing_cancel,
		.patience_ms = TFC__RECONNECT_MS,
		.window = WINDOW,
		.is_forwarded = true,
	};
}
