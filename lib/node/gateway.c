/*
 * The gateway's interface to the node: the other members and the connections to them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/user.h"
#include "feed/service.h"
#include "gateway/local.h"
#include "gateway/service.h"
#include "node/internal.h"

#define DRAIN_MS 5000

/* A pending drain call to a member. */
struct tfc__drain_call {
	struct tfc__link link;
	struct tfc__member_wait wait; /* for the connection; then: */
	struct tfc__rpc_call *call;   /* NULL: not sent yet */
	char name[64];
	bool is_off;
	void (*fn)(void *done_user, const tfc_error *error);
	void *done_user;
};

/* ---- the other members */

static bool gateway_members_next(void *user, struct tfc__gateway_member *member)
{
	const tfc_node *node = user;
	const struct tfc__link *all = &node->peers->all, *link = member->place;
	for (link = link ? link->next : all->next; link != all; link = link->next) {
		const struct tfc__node_peer *peer =
			tfc__container_of(link, const struct tfc__node_peer, link);
		if (!peer->member)
			continue;
		*member = (struct tfc__gateway_member){peer->name, link};
		return true;
	}
	return false;
}

static bool gateway_members_are_joining(void *user)
{
	const tfc_node *node = user;
	return tfc__members_are_joining(node->members);
}

static void gateway_members_connect(void *user, const char *name, struct tfc__member_wait *wait)
{
	const tfc_node *node = user;
	struct tfc__node_peer *peer = tfc__peers_find(node->peers, name);
	tfc_error error = TFC_ERROR_INIT;
	if (peer) {
		tfc__node_peer_connect(peer, wait);
	} else {
		tfc__fail(&error, TFC_ENOENT, "node", 0, "it is not a member");
		wait->fn(wait, NULL, &error);
	}
}

static const char *gateway_members_find(void *user, const char *node_id)
{
	const tfc_node *node = user;
	const struct tfc__named *named = tfc__name_find(&node->peers->ids, node_id);
	return named ? tfc__container_of(named, const struct tfc__node_peer, identified)->name
		     : NULL;
}

static void gateway_members_each(void *user, tfc_member_fn fn, void *fn_user)
{
	tfc_member_list(user, fn, fn_user);
}

/* ---- drain */

static void member_drain_end(struct tfc__drain_call *drain, const tfc_error *error)
{
	tfc__list_remove(&drain->link);
	tfc__list_remove(&drain->wait.link);
	drain->fn(drain->done_user, error);
	free(drain);
}

static void member_drain_on_end(void *user, int code, const msgpack_object *result,
				const tfc_error *error)
{
	member_drain_end(user, code < 0 ? error : NULL);
}

static void drain_on_connected(struct tfc__member_wait *wait, struct tfc__rpc *rpc,
			       const tfc_error *why)
{
	struct tfc__drain_call *drain = tfc__container_of(wait, struct tfc__drain_call, wait);
	struct tfc__buf params = {0};
	const struct tfc__rpc_options call = {
		.method = "node.drain",
		.params = &params,
		.timeout_ms = DRAIN_MS,
		.end = member_drain_on_end,
		.user = drain,
	};
	tfc_error error = TFC_ERROR_INIT;
	tfc__fields_write(&params, &tfc__drain_fields, &(struct tfc__drain_params){drain->is_off});
	int code = rpc ? tfc__rpc_call(rpc, &call, &error, &drain->call)
		       : tfc__fail(&error, TFC_ELOST, "node", 0, "cannot reach node %s: %s",
				   drain->name, why->text);
	tfc__buf_fini(&params);
	if (code < 0)
		member_drain_end(drain, &error);
}

static void gateway_members_drain(void *user, const char *name, bool is_off,
				  void (*fn)(void *done_user, const tfc_error *error),
				  void *done_user)
{
	tfc_node *node = user;
	tfc_error error = TFC_ERROR_INIT;
	if (strcmp(name, node->hello.name) == 0) {
		tfc__node_set_draining(node, !is_off);
		fn(done_user, NULL);
		return;
	}
	struct tfc__node_peer *peer = tfc__peers_find(node->peers, name);
	struct tfc__drain_call *call = NULL;
	if (!peer || !peer->member)
		tfc__fail(&error, TFC_ENOENT, "node", 0, "member \"%s\" not found", name);
	else if (!(call = calloc(1, sizeof(*call))))
		tfc__fail_nomem(&error, "node");
	if (!call) {
		fn(done_user, &error);
		return;
	}
	call->fn = fn;
	call->done_user = done_user;
	call->is_off = is_off;
	snprintf(call->name, sizeof(call->name), "%s", name);
	call->wait.fn = drain_on_connected;
	tfc__list_init(&call->wait.link);
	tfc__list_append(&node->drains, &call->link);
	tfc__node_peer_connect(peer, &call->wait);
}

static void gateway_members_watch(void *user, struct tfc__observer *observer)
{
	const tfc_node *node = user;
	tfc__members_watch(node->members, observer);
}

/* ---- the service */

static const struct tfc__gateway_members_ops members_ops = {
	gateway_members_next, gateway_members_are_joining, gateway_members_connect,
	gateway_members_find, gateway_members_each,        gateway_members_drain,
	gateway_members_watch};

static int find_submit_user(const char *text, struct tfc__gateway_service_options *service,
			    tfc_error *error)
{
	struct tfc__user user;
	service->submit_uid = service->submit_gid = UINT32_MAX;
	if (!text)
		return TFC_OK;
	int code = tfc__user_find(text, "/etc/passwd", "/etc/group", error, &user);
	if (code == TFC_OK) {
		service->submit_uid = user.uid;
		service->submit_gid = user.gid;
	}
	tfc__user_fini(&user);
	return code;
}

static int node_check_feed(void *user, const void *caller, const char *job, bool is_forwarded,
			   tfc_error *error)
{
	const tfc_node *node = user;
	return tfc__gateway_service_check_feed(node->gateway, caller, job, is_forwarded, error);
}

int tfc__node_open_gateway(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	struct tfc__gateway_service_options service = {
		.members = {&members_ops, node, node->hello.node_id},
		.hooks = node->hooks,
	};
	int code = find_submit_user(options->submit_user, &service, error);
	if (code < 0)
		return code;
	code = tfc__gateway_service_open(node->ctx, node->directory, &service, &node->gateway);
	if (code < 0)
		return code;
	const struct tfc__feed_service_options feeds = {
		.node = node->hello.name,
		.members = service.members,
		.check = node_check_feed,
		.user = node,
	};
	return tfc__feed_service_open(node->ctx, &feeds, error, &node->feeds);
}

void tfc__node_close_gateway(tfc_node *node)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ELOST, "node", 0, "the node was closed");
	TFC__LIST_EACH (link, &node->drains) {
		struct tfc__drain_call *call = tfc__container_of(link, struct tfc__drain_call,
								 link);
		if (call->call)
			tfc__rpc_drop(call->call);
		member_drain_end(call, &error);
	}
	tfc__feed_service_close(node->feeds);
	node->feeds = NULL;
	tfc__gateway_service_close(node->gateway);
	node->gateway = NULL;
}

int tfc__node_gateway_new(tfc_node *node, tfc_gateway **ret_gateway)
{
	const struct tfc__gateway_members members = {&members_ops, node, node->hello.node_id};
	return tfc__gateway_new(node->ctx, node->directory, &members, ret_gateway);
}
