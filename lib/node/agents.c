#include "node/agents.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/name_table.h"
#include "bundle/transfer.h"
#include "node/agent_service.h"
#include "node/remote_agent.h"

#define PREFIX "agent."
#define RECENT_WILLS 16

/* Another node, once its agent has been used. */
struct reached {
	struct tfc__link link;
	struct tfc__named named;
	struct tfc__node_peer *peer;
	struct tfc__observer watch; /* of the connection */
	struct tfc__remote_agent *agent;
};

struct tfc__node_agents {
	tfc_ctx *ctx;
	struct tfc__peers *peers;
	struct tfc__agent *agent;
	struct tfc__agent_service *service;
	char *self;
	uint32_t lease_ms;
	uint64_t instance;
	struct tfc__link reached;
	struct tfc__name_table names; /* of `reached` */
	/* The last wills that were known here: repetitions are acknowledged, too. A ring. */
	struct tfc__will_key wills[RECENT_WILLS];
	uint32_t will_count;
};

static void reached_on_connection(struct tfc__observer *watch, const void *event)
{
	struct reached *reached = tfc__container_of(watch, struct reached, watch);
	const bool *is_up = event;
	struct tfc__rpc *rpc = *is_up ? tfc__node_peer_rpc(reached->peer) : NULL;
	if (rpc)
		tfc__remote_agent_up(reached->agent, rpc);
	else
		tfc__remote_agent_down(reached->agent);
}

static void reached_on_unreached(void *user)
{
	struct reached *reached = user;
	tfc__node_peer_unreached(reached->peer);
}

static void reached_on_use(void *user, bool is_used)
{
	const struct reached *reached = user;
	tfc__node_peer_keep(reached->peer, is_used);
}

static struct reached *reached_new(struct tfc__node_agents *agents, struct tfc__node_peer *peer)
{
	struct reached *reached = calloc(1, sizeof(*reached));
	if (!reached)
		return NULL;
	const struct tfc__remote_agent_options options = {
		.self = agents->self,
		.node = tfc__node_peer_name(peer),
		.instance = agents->instance,
		.lease_ms = agents->lease_ms,
		.bundles = tfc__agent_bundles(agents->agent),
		.unreached = reached_on_unreached,
		.use = tfc__peers_are_on_demand(agents->peers) ? reached_on_use : NULL,
		.user = reached,
	};
	if (tfc__remote_agent_open(agents->ctx, &options, &reached->agent) < 0) {
		free(reached);
		return NULL;
	}
	reached->peer = peer;
	tfc__observer_init(&reached->watch, reached_on_connection);
	tfc__list_append(&agents->reached, &reached->link);
	tfc__name_add(&agents->names, &reached->named, tfc__node_peer_name(peer));
	tfc__node_peer_watch(peer, &reached->watch);
	if (tfc__node_peer_rpc(peer))
		reached_on_connection(&reached->watch, &(bool){true});
	return reached;
}

struct tfc__agent_handle tfc__node_agents_of(struct tfc__node_agents *agents, const char *node)
{
	const struct tfc__agent_handle none = {NULL, NULL};
	if (strcmp(node, agents->self) == 0)
		return (struct tfc__agent_handle){&tfc__local_agent_ops, agents->agent};
	struct tfc__named *named = tfc__name_find(&agents->names, node);
	struct tfc__node_peer *peer = named ? NULL : tfc__peers_find_or_add(agents->peers, node);
	struct reached *reached = named  ? tfc__container_of(named, struct reached, named)
				  : peer ? reached_new(agents, peer)
					 : NULL;
	return reached ? (struct tfc__agent_handle){&tfc__remote_agent_ops, reached->agent} : none;
}

void tfc__node_agents_forget(struct tfc__node_agents *agents, const msgpack_object *params)
{
	tfc__agent_service_forget(agents->service, params);
}

void tfc__node_agents_expire(struct tfc__node_agents *agents, const char *node)
{
	tfc__agent_service_expire(agents->service, node);
}

bool tfc__node_agents_receive_will(void *user, const uint8_t *message)
{
	struct tfc__node_agents *agents = user;
	struct tfc__will_key key;
	bool is_known = false;
	tfc__will_key_of(message, &key);
	TFC__LIST_EACH (link, &agents->reached)
		is_known |= tfc__remote_agent_receive_will(
			tfc__container_of(link, struct reached, link)->agent, &key);
	for (uint32_t i = 0; i < RECENT_WILLS; i++)
		if (tfc__will_key_is_equal(&agents->wills[i], &key))
			return true;
	if (is_known)
		agents->wills[agents->will_count++ % RECENT_WILLS] = key;
	return is_known;
}

/* Where the last will is sent. */
static bool agents_address_of(void *user, const char *name, struct tfc__will_address *ret_address)
{
	const struct tfc__node_agents *agents = user;
	struct tfc__node_peer *peer = tfc__peers_find(agents->peers, name);
	return peer && tfc__node_peer_address(peer, ret_address);
}

bool tfc__node_agents_serve(struct tfc__node_agents *agents, struct tfc__caller *caller,
			    struct tfc__rpc_request *request, const char *method,
			    const msgpack_object *params)
{
	bool is_member = tfc__caller_member(caller);
	tfc_error error = TFC_ERROR_INIT;
	if (strncmp(method, PREFIX, strlen(PREFIX)) != 0 &&
	    !(is_member && strncmp(method, TFC__BUNDLE_PREFIX, strlen(TFC__BUNDLE_PREFIX)) == 0))
		return false;
	if (is_member) {
		tfc__agent_service_serve(agents->service, request, method, params);
	} else if (request) {
		tfc__fail(&error, TFC_EACCES, "node", 0,
			  "permission denied: only members may request %.64s", method);
		tfc__rpc_fail(request, &error);
	}
	return true;
}

int tfc__node_agents_open(tfc_ctx *ctx, const struct tfc__node_agents_options *options,
			  struct tfc__node_agents **ret_agents)
{
	struct tfc__node_agents *agents = calloc(1, sizeof(*agents));
	if (!agents)
		return tfc__fail_nomem(tfc__ctx_error(ctx), "node");
	agents->ctx = ctx;
	agents->peers = options->peers;
	agents->agent = options->agent;
	agents->lease_ms = options->lease_ms;
	randombytes_buf(&agents->instance, sizeof(agents->instance));
	agents->instance |= 1; /* not 0 */
	tfc__list_init(&agents->reached);
	tfc__names_init(&agents->names);
	agents->self = strdup(options->self);
	const struct tfc__agent_service_options service = {
		.agent = options->agent,
		.identity = options->identity,
		.keyring = options->keyring,
		.address_of = agents_address_of,
		.user = agents,
	};
	int code = agents->self ? tfc__agent_service_open(ctx, &service, &agents->service)
				: tfc__fail_nomem(tfc__ctx_error(ctx), "node");
	if (code < 0)
		tfc__node_agents_close(agents);
	else
		*ret_agents = agents;
	return code;
}

void tfc__node_agents_close(struct tfc__node_agents *agents)
{
	if (!agents)
		return;
	TFC__LIST_EACH (link, &agents->reached) {
		struct reached *reached = tfc__container_of(link, struct reached, link);
		tfc__observer_remove(&reached->watch);
		tfc__remote_agent_close(reached->agent);
		tfc__list_remove(link);
		free(reached);
	}
	tfc__agent_service_close(agents->service);
	free(agents->self);
	free(agents);
}
