/*
 * The node's connections: which members it dials, where it listens, and which part serves each
 * call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/version.h>

#include "base/clock.h"
#include "base/file.h"
#include "bundle/transfer.h"
#include "feed/frame.h"
#include "feed/service.h"
#include "node/internal.h"

#define SOCKET_NAME "node.sock"

static void node_serve_drain(tfc_node *node, struct tfc__rpc_request *request,
			     const msgpack_object *params)
{
	struct tfc__drain_params drain;
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__params_read(NULL, &tfc__drain_fields, params, &error, &drain) < 0) {
		tfc__rpc_fail(request, &error);
		return;
	}
	tfc__node_set_draining(node, !drain.is_off);
	tfc__rpc_reply(request, NULL);
}

static void node_serve(void *user, struct tfc__caller *caller, struct tfc__rpc_request *request,
		       const char *method, const msgpack_object *params)
{
	tfc_node *node = user;
	const struct tfc__peer_id *who = tfc__peer_id(tfc__caller_peer(caller));
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__node_agents_serve(node->agents, caller, request, method, params))
		return;
	if (strncmp(method, "gateway.", 8) == 0 ||
	    strncmp(method, TFC__BUNDLE_PREFIX, strlen(TFC__BUNDLE_PREFIX)) == 0) {
		tfc__gateway_service_serve(node->gateway, who, request, method, params);
	} else if (strncmp(method, TFC__FEED_PREFIX, strlen(TFC__FEED_PREFIX)) == 0) {
		tfc__feed_service_serve(node->feeds, who, tfc__peer_rpc(tfc__caller_peer(caller)),
					request, method, params);
	} else if (!request) {
		return;
	} else if (strcmp(method, "node.drain") == 0) {
		node_serve_drain(node, request, params);
	} else if (strcmp(method, "node.gossip") == 0 && node->gossip) {
		tfc__gossip_membership_serve(node->gossip, request, who->node_id, params);
	} else if (strcmp(method, "node.known") == 0) {
		tfc__node_serve_known(node, request, params);
	} else {
		tfc__fail(&error, TFC_ENOTSUP, "node", 0,
			  "the node's version does not support the request %s", method);
		tfc__rpc_fail(request, &error);
	}
}

static void node_on_member(void *user, struct tfc__node_peer *peer)
{
	tfc__node_query_remote_job_logs(user, peer);
}

static void node_on_refused(void *user, const tfc_error *error)
{
	tfc_node *node = user;
	if (node->hooks.refused)
		node->hooks.refused(node->hooks.user, error);
}

int tfc__node_connect(tfc_node *node, tfc_error *error)
{
	struct tfc__hello *hello = &node->hello;
	const struct tfc__member *self = tfc__members_self(node->members);
	if (tfc__random_hex(hello->boot_id) < 0)
		return tfc__fail(error, TFC_ESYS, "node", 0,
				 "cannot get random bytes for a boot id");
	hello->protocol = TFC__NODE_PROTOCOL;
	hello->version = tfc_version();
	snprintf(hello->name, sizeof(hello->name), "%s", self->name);
	snprintf(hello->node_id, sizeof(hello->node_id), "%s", tfc__identity_id(node->identity));
	struct tfc__peers_options options = {
		.members = node->members,
		.keyring = node->keyring,
		.identity = node->identity,
		.hello = hello,
		.serve = node_serve,
		.connected = node_on_member,
		.alive = node_on_member,
		.refused = node_on_refused,
		.is_gossip = node->gossip,
		.user = node,
	};
	return tfc__peers_open(node->ctx, &options, error, &node->peers);
}

static int listen_at(tfc_node *node, const tfc_node_options *options, const char *address,
		     tfc_error *error)
{
	struct tfc__listen_options listen = {
		.address = address,
		.keyring = node->keyring,
		.identity = node->identity,
		.quota = &node->quota,
		.groups = options->groups,
		.group_count = options->groups ? options->group_count : 0,
		.will = tfc__node_agents_receive_will,
		.will_user = node->agents,
	};
	int code = tfc__peer_listen(node->ctx, &listen, tfc__peers_accept, node->peers, error,
				    &node->listeners[node->listener_count]);
	if (code == TFC_OK)
		node->listener_count++;
	return code;
}

/* The limit keeps a flood of forged wills cheap. Each will comes over tcp as well. */
#define WILLS_A_SECOND 1000

static bool may_verify_will(tfc_node *node)
{
	uint64_t second = tfc__now() / TFC__SECOND;
	if (node->will_second != second) {
		node->will_second = second;
		node->will_count = 0;
	}
	return node->will_count++ < WILLS_A_SECOND;
}

/* A last will proves itself: the sender's address and its datagram prove nothing. The response is
 * shorter, and there is none to a will that is not known here. */
static void node_on_will(struct tfc__datagram_receiver *receiver,
			 const struct sockaddr_storage *from, const uint8_t *bytes, size_t len)
{
	tfc_node *node = tfc__container_of(receiver, tfc_node, wills);
	uint8_t ack[TFC__WILL_ACK];
	if (!tfc__will_is_message(bytes, len) || !may_verify_will(node) ||
	    !tfc__node_agents_receive_will(node->agents, bytes))
		return;
	tfc__will_ack(bytes, ack);
	tfc__datagrams_send(node->datagrams, from, ack, sizeof(ack));
}

void tfc__node_receive_wills(tfc_node *node)
{
	memcpy(node->wills.magic, TFC__WILL_MAGIC, sizeof(node->wills.magic));
	node->wills.fn = node_on_will;
	tfc__datagrams_add(node->datagrams, &node->wills);
}

static int listen_in_state_dir(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	char *address;
	if (asprintf(&address, "unix:%s/" SOCKET_NAME, options->state_dir) < 0)
		return tfc__fail_nomem(error, "node");
	int code = listen_at(node, options, address, error);
	free(address);
	return code;
}

/* Listens at the configured addresses, else at its own address in the member list; also at the unix
 * socket for programs on this machine. */
int tfc__node_listen(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	const struct tfc__member *self = tfc__members_self(node->members);
	const char *const own[] = {self->address, NULL};
	const char *const *at = options->listen ? options->listen : own;
	const struct tfc__quota_limits limits = {
		.connections = options->client_connections,
		.key_connections = options->key_connections,
		.requests = options->client_requests,
		.key_requests = options->key_requests,
		.connection_requests = options->connection_requests,
		.bytes = options->client_bytes,
		.key_bytes = options->key_bytes,
		.connection_bytes = options->connection_bytes,
	};
	uint32_t count = 0;
	int code = TFC_OK;
	tfc__quota_init(&node->quota, node->ctx, &limits);
	while (at[count])
		count++;
	node->listeners = calloc(count + 1, sizeof(struct tfc__peer_listener *));
	if (!node->listeners)
		return tfc__fail_nomem(error, "node");
	for (uint32_t i = 0; i < count && code == TFC_OK; i++)
		code = listen_at(node, options, at[i], error);
	if (code == TFC_OK && count > 0 &&
	    tfc__members_set_own_address(node->members, tfc_node_address(node, 0)) < 0)
		code = tfc__fail_nomem(error, "node");
	if (code == TFC_OK && options->state_dir)
		code = listen_in_state_dir(node, options, error);
	return code;
}

void tfc__node_stop_listening(tfc_node *node)
{
	for (uint32_t i = 0; i < node->listener_count; i++)
		tfc__peer_listener_close(node->listeners[i]);
	free(node->listeners);
	node->listeners = NULL;
	node->listener_count = 0;
}

void tfc__node_disconnect(tfc_node *node)
{
	tfc__peers_close(node->peers);
	tfc__quota_fini(&node->quota);
}
