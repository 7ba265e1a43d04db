/*
 * Accepted connections: from members, which send a hello first, and from clients of the gateway.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/internal.h"

/* A node that sent something within this time is certainly alive, so another one of its name is
 * refused. */
#define SURELY_ALIVE_NS (2 * TFC__SECOND)

static void caller_free(struct tfc__caller *caller)
{
	if (caller->member)
		caller->member->callers--;
	tfc__list_remove(&caller->link);
	tfc__peer_close(caller->peer);
	free(caller);
}

/* ---- whether a caller is the member that it claims to be */

static bool node_peer_is_connected(const struct tfc__node_peer *peer)
{
	return peer->is_up || peer->callers;
}

/* Refuses a caller that expects another node here: it would hang up and dial again. */
static int caller_check_dialed_name(const struct tfc__caller *caller,
				    const struct tfc__hello *hello, tfc_error *error)
{
	const char *name = caller->peers->options.hello->name;
	if (!*hello->to || strcmp(hello->to, name) == 0)
		return TFC_OK;
	return tfc__fail(error, TFC_ENOENT, "node", 0,
			 "node \"%s\" is listed as \"%s\" in the members file of node \"%s\"; use "
			 "the same name in all members files",
			 name, hello->to, hello->name);
}

static int caller_check_name(const struct tfc__caller *caller, const struct tfc__hello *hello,
			     struct tfc__node_peer **ret_peer, tfc_error *error)
{
	struct tfc__peers *peers = caller->peers;
	const struct tfc__peer_id *id = tfc__peer_id(caller->peer);
	struct tfc__node_peer *peer = tfc__peers_find(peers, hello->name);
	if (strcmp(hello->name, peers->options.hello->name) == 0)
		return tfc__fail(error, TFC_EEXIST, "node", 0,
				 "two nodes have the name \"%s\": this one and the one at %s; "
				 "give one of them another name",
				 hello->name, id->address);
	if ((!peer || !peer->member) && peers->options.is_gossip)
		return tfc__fail(error, TFC_EAGAIN, "node", 0,
				 "node \"%s\" does not know node \"%s\" yet",
				 peers->options.hello->name, hello->name);
	if (!peer || !peer->member)
		return tfc__fail(error, TFC_ENOENT, "node", 0,
				 "node \"%s\" is not in the members file of node \"%s\"; use the "
				 "same name in all members files",
				 hello->name, peers->options.hello->name);
	/* A second node is refused: the known one is alive (TFC_EEXIST) or may be (TFC_EAGAIN). */
	bool is_alive = tfc__now() - peer->received_at < SURELY_ALIVE_NS;
	if (node_peer_is_connected(peer) && strcmp(peer->node_id, hello->node_id) != 0)
		return tfc__fail(error, is_alive ? TFC_EEXIST : TFC_EAGAIN, "node", 0,
				 "two nodes have the name \"%s\": %s%s and one at %s; give one of "
				 "them another name",
				 hello->name,
				 peer->member->address ? "one at " : "one without an address",
				 peer->member->address ? peer->member->address : "", id->address);
	*ret_peer = peer;
	return TFC_OK;
}

static int caller_check_identity(const struct tfc__caller *caller, const struct tfc__hello *hello,
				 const struct tfc__node_peer *peer, tfc_error *error)
{
	static const char sentence[] =
		"nodes \"%s\" and \"%s\" have the same identity: the state directory of one is a "
		"copy of the other's; remove the file \"identity\" in the copy";
	struct tfc__peers *peers = caller->peers;
	const struct tfc__peer_id *id = tfc__peer_id(caller->peer);
	const char *pinned = peer->member->node_id;
	if (*id->node_id && strcmp(id->node_id, hello->node_id) != 0)
		return tfc__fail(error, TFC_EACCES, "node", 0,
				 "node \"%s\" reported an identity that is not its own",
				 hello->name);
	if (pinned && strcmp(pinned, hello->node_id) != 0)
		return tfc__fail(error, TFC_EACCES, "node", 0,
				 "node \"%s\" has node id %s, but its member entry requires %s",
				 hello->name, hello->node_id, pinned);
	if (strcmp(hello->node_id, peers->options.hello->node_id) == 0)
		return tfc__fail(error, TFC_EEXIST, "node", 0, sentence, hello->name,
				 peers->options.hello->name);
	TFC__LIST_EACH (link, tfc__names_like(&peers->ids, hello->node_id)) {
		const struct tfc__node_peer *other =
			tfc__container_of(link, const struct tfc__node_peer, identified.link);
		if (other != peer && node_peer_is_connected(other) &&
		    strcmp(other->node_id, hello->node_id) == 0)
			return tfc__fail(error, TFC_EEXIST, "node", 0, sentence, hello->name,
					 other->name);
	}
	return TFC_OK;
}

/* Makes the caller a connection of its member, or fails with the reason. */
static int caller_attach(struct tfc__caller *caller, const struct tfc__hello *hello,
			 tfc_error *error)
{
	struct tfc__node_peer *peer = NULL;
	int code = tfc__hello_check(caller->peers->options.hello, hello, error);
	if (code < 0 || (code = caller_check_dialed_name(caller, hello, error)) < 0 ||
	    (code = caller_check_name(caller, hello, &peer, error)) < 0 ||
	    (code = caller_check_identity(caller, hello, peer, error)) < 0)
		return code;
	if (caller->member == peer)
		return TFC_OK;
	/* Connections of the previous incarnation are dead. */
	if (strcmp(peer->boot_id, hello->boot_id) != 0)
		tfc__callers_drop(peer, caller);
	if (caller->member)
		caller->member->callers--;
	caller->member = peer;
	peer->callers++;
	tfc__node_peer_learn(peer, hello);
	tfc__node_peer_redial(peer);
	return TFC_OK;
}

static void caller_serve_hello(struct tfc__caller *caller, struct tfc__rpc_request *request,
			       const msgpack_object *params)
{
	struct tfc__peers *peers = caller->peers;
	struct tfc__hello hello = {0};
	struct tfc__buf response = {0};
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__hello_read(params, &error, &hello);
	if (code == TFC_OK)
		code = caller_attach(caller, &hello, &error);
	tfc__peers_write_hello(peers, "", &response);
	if (code == TFC_OK && response.is_failed)
		code = tfc__fail_nomem(&error, "node");
	if (code < 0)
		tfc__rpc_fail(request, &error);
	else
		tfc__rpc_reply(request, &response);
	if (code == TFC_EEXIST)
		tfc__log(peers->ctx, TFC_LOG_WARNING, "node", hello.name, "%s", error.text);
	else if (code < 0 && !(code == TFC_EAGAIN && peers->options.is_gossip))
		tfc__log(peers->ctx, TFC_LOG_INFO, "node", hello.name, "refused the node at %s: %s",
			 tfc__peer_id(caller->peer)->address, error.text);
	tfc__buf_fini(&response);
	tfc__hello_fini(&hello);
}

/* ---- the calls of members */

static void caller_serve_state(struct tfc__caller *caller, const msgpack_object *params)
{
	struct tfc__hello hello = {0};
	tfc_error error = TFC_ERROR_INIT;
	if (caller->member && tfc__hello_read(params, &error, &hello) == TFC_OK)
		tfc__node_peer_learn(caller->member, &hello);
	tfc__hello_fini(&hello);
}

static void caller_serve_node(struct tfc__caller *caller, struct tfc__rpc_request *request,
			      const char *method, const msgpack_object *params)
{
	struct tfc__node_peer *peer = caller->member;
	tfc_error error = TFC_ERROR_INIT;
	if (!request) {
		if (strcmp(method, "node.state") == 0)
			caller_serve_state(caller, params);
	} else if (tfc__peer_id(caller->peer)->role != TFC__KEY_NODE) {
		tfc__fail(&error, TFC_EACCES, "node", 0,
			  "%s: permission denied: only nodes may make this request", method);
		tfc__rpc_fail(request, &error);
	} else if (strcmp(method, "node.hello") == 0) {
		caller_serve_hello(caller, request, params);
	} else if (strcmp(method, "node.ping") == 0 || strcmp(method, "node.idle") == 0) {
		tfc__rpc_reply(request, NULL);
	} else if (strcmp(method, "node.bye") == 0) {
		if (peer)
			tfc__node_peer_left(peer);
		tfc__rpc_reply(request, NULL);
	} else {
		caller->peers->options.serve(caller->peers->options.user, caller, request, method,
					     params);
	}
}

static void caller_on_serve(struct tfc__peer *connection, void *user,
			    struct tfc__rpc_request *request, const char *method,
			    const msgpack_object *params)
{
	struct tfc__caller *caller = user;
	struct tfc__peers *peers = caller->peers;
	tfc__peers_enter(peers);
	if (caller->member)
		tfc__node_peer_received(caller->member);
	caller->is_idle = request && strcmp(method, "node.idle") == 0;
	if (strncmp(method, "node.", 5) == 0)
		caller_serve_node(caller, request, method, params);
	else
		peers->options.serve(peers->options.user, caller, request, method, params);
	tfc__peers_exit(peers);
}

static void caller_on_down(struct tfc__peer *connection, void *user, const tfc_error *why)
{
	struct tfc__caller *caller = user;
	struct tfc__peers *peers = caller->peers;
	struct tfc__node_peer *peer = caller->member;
	bool was_idle = caller->is_idle;
	caller_free(caller);
	if (was_idle || !peer || !peer->member || peer->has_left || node_peer_is_connected(peer))
		return;
	tfc__members_broken(peers->options.members, peer->member, false);
	if (!peers->options.is_gossip)
		return;
	peer->failures = 0;
	tfc__node_peer_dial(peer); /* the result shows whether the process has ended */
}

static const struct tfc__peer_ops caller_ops = {NULL, caller_on_serve, caller_on_down};

void tfc__peers_accept(void *user, struct tfc__peer *peer)
{
	struct tfc__peers *peers = user;
	struct tfc__caller *caller = calloc(1, sizeof(*caller));
	if (!caller) /* the transport closes the connection */
		return;
	caller->peers = peers;
	caller->peer = peer;
	tfc__list_append(&peers->callers, &caller->link);
	tfc__peer_accept(peer, &caller_ops, caller);
}

struct tfc__rpc *tfc__caller_rpc_of(const struct tfc__node_peer *peer)
{
	TFC__LIST_EACH (link, &peer->peers->callers) {
		struct tfc__caller *caller = tfc__container_of(link, struct tfc__caller, link);
		if (caller->member == peer)
			return tfc__peer_rpc(caller->peer);
	}
	return NULL;
}

void tfc__callers_drop(struct tfc__node_peer *peer, const struct tfc__caller *except)
{
	TFC__LIST_EACH (link, &peer->peers->callers) {
		struct tfc__caller *caller = tfc__container_of(link, struct tfc__caller, link);
		if (caller->member == peer && caller != except)
			caller_free(caller);
	}
}

void tfc__callers_close(struct tfc__peers *peers)
{
	TFC__LIST_EACH (link, &peers->callers)
		caller_free(tfc__container_of(link, struct tfc__caller, link));
}

struct tfc__node_peer *tfc__caller_member(const struct tfc__caller *caller)
{
	return caller->member;
}

struct tfc__peer *tfc__caller_peer(const struct tfc__caller *caller)
{
	return caller->peer;
}
