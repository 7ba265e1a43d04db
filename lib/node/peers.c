#include "node/peers.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/internal.h"
#include "transport/address.h"

#define GOODBYE_MS 500

void tfc__peers_exit(struct tfc__peers *peers)
{
	if (--peers->busy || !peers->is_closed)
		return;
	TFC__LIST_EACH (link, &peers->all) {
		struct tfc__node_peer *peer = tfc__container_of(link, struct tfc__node_peer, link);
		free(peer->name);
		free(peer->address);
		free(peer->logged);
		free(peer);
	}
	free(peers);
}

/* ---- this node */

void tfc__peers_write_hello(struct tfc__peers *peers, const char *to, struct tfc__buf *buf)
{
	struct tfc__hello hello = *peers->options.hello;
	snprintf(hello.to, sizeof(hello.to), "%s", to);
	tfc__member_info(tfc__members_self(peers->options.members), &hello.offer);
	tfc__hello_write(&hello, buf);
}

static void peers_notify_state(struct tfc__peers *peers)
{
	struct tfc__buf params = {0};
	tfc__peers_write_hello(peers, "", &params);
	TFC__LIST_EACH (link, &peers->all) {
		struct tfc__node_peer *peer = tfc__container_of(link, struct tfc__node_peer, link);
		struct tfc__rpc *rpc = tfc__node_peer_rpc(peer);
		if (rpc && !params.is_failed)
			tfc__rpc_notify(rpc, "node.state", &params);
	}
	tfc__buf_fini(&params);
}

/* ---- the table of members */

struct tfc__node_peer *tfc__peers_find_or_add(struct tfc__peers *peers, const char *node_name)
{
	struct tfc__node_peer *peer = tfc__peers_find(peers, node_name);
	if (peer || !(peer = calloc(1, sizeof(*peer))))
		return peer;
	if (!(peer->name = strdup(node_name))) {
		free(peer);
		return NULL;
	}
	peer->peers = peers;
	tfc__list_init(&peer->identified.link);
	tfc__observers_init(&peer->watches);
	tfc__list_init(&peer->waits);
	tfc__timer_init(&peer->redial, peers->ctx, tfc__node_peer_on_redial);
	tfc__timer_init(&peer->idle, peers->ctx, tfc__node_peer_on_idle);
	tfc__list_append(&peers->all, &peer->link);
	tfc__name_add(&peers->names, &peer->named, peer->name);
	return peer;
}

void tfc__node_peer_index_id(struct tfc__node_peer *peer)
{
	tfc__name_remove(&peer->identified);
	if (peer->member && *peer->node_id)
		tfc__name_add(&peer->peers->ids, &peer->identified, peer->node_id);
}

/* The member was removed, has another address, or was unreachable for too long: closes its
 * connections. */
static void node_peer_disconnect(struct tfc__node_peer *peer)
{
	bool was_up = peer->is_up;
	tfc__timer_cancel(&peer->redial);
	tfc__node_peer_hang_up(peer);
	peer->is_up = false;
	tfc__callers_drop(peer, NULL);
	if (was_up)
		tfc__node_peer_report(peer, false);
}

/* With gossip: the connection does not show what has become of the member. */
static void node_peer_note_state(struct tfc__node_peer *peer)
{
	struct tfc__peers *peers = peer->peers;
	uint32_t state = peer->member->state;
	if (state == TFC_MEMBER_DOWN || state == TFC_MEMBER_LEFT) {
		peer->was_alive = false;
		tfc__node_peer_end_waits(peer, NULL);
	} else if (state == TFC_MEMBER_ALIVE && !peer->was_alive) {
		peer->was_alive = true;
		tfc__node_peer_redial(peer);
		if (peers->options.alive && !peers->is_closed)
			peers->options.alive(peers->options.user, peer);
	}
}

static void peers_update_member(struct tfc__peers *peers, struct tfc__member *member,
				enum tfc__member_change change)
{
	struct tfc__node_peer *peer = tfc__peers_find_or_add(peers, member->name);
	if (!peer) {
		tfc__log(peers->ctx, TFC_LOG_ERROR, "node", member->name, "out of memory");
	} else if (change == TFC__MEMBER_REMOVED) {
		peer->member = member->owner = NULL;
		tfc__name_remove(&peer->identified);
		node_peer_disconnect(peer);
		tfc__node_peer_end_waits(peer, NULL);
	} else {
		peer->member = member;
		member->owner = peer;
		if (!*peer->boot_id || peers->options.is_gossip)
			snprintf(peer->node_id, sizeof(peer->node_id), "%s",
				 member->node_id ? member->node_id : "");
		tfc__node_peer_index_id(peer);
		if (member->address && peer->address &&
		    strcmp(peer->address, member->address) != 0) {
			node_peer_disconnect(peer);
			peer->failures = 0;
		} else if (member->state == TFC_MEMBER_DOWN && (peer->is_up || peer->callers)) {
			node_peer_disconnect(peer);
		}
		if (!peers->is_closed && !peer->redial.at && tfc__node_peer_is_needed(peer))
			tfc__node_peer_dial(peer);
		if (!peers->is_closed && peers->options.is_gossip)
			node_peer_note_state(peer);
	}
}

void tfc__peers_adopt(struct tfc__peers *peers, struct tfc__member *member)
{
	peers_update_member(peers, member, TFC__MEMBER_ADDED);
}

static void peers_on_member(struct tfc__observer *watch, const void *event)
{
	struct tfc__peers *peers = tfc__container_of(watch, struct tfc__peers, watch);
	const struct tfc__member_event *what = event;
	tfc__peers_enter(peers);
	if (what->member->is_self && !peers->left)
		peers_notify_state(peers);
	else if (!what->member->is_self)
		peers_update_member(peers, what->member, what->change);
	tfc__peers_exit(peers);
}

/* ---- leaving */

static void peers_on_left(struct tfc__timer *timer)
{
	struct tfc__peers *peers = tfc__container_of(timer, struct tfc__peers, leaving);
	void (*fn)(void *user) = peers->left;
	TFC__LIST_EACH (link, &peers->all) {
		struct tfc__node_peer *peer = tfc__container_of(link, struct tfc__node_peer, link);
		if (peer->bye)
			tfc__rpc_drop(peer->bye);
		peer->bye = NULL;
	}
	fn(peers->left_user);
}

static void on_bye_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct tfc__node_peer *peer = user;
	struct tfc__peers *peers = peer->peers;
	peer->bye = NULL;
	if (--peers->goodbyes == 0)
		tfc__timer_set(&peers->leaving, tfc__now());
}

void tfc__peers_leave(struct tfc__peers *peers, void (*fn)(void *user), void *user)
{
	peers_notify_state(peers); /* before the goodbye, after which later messages are ignored */
	peers->left = fn;
	peers->left_user = user;
	TFC__LIST_EACH (link, &peers->all) {
		struct tfc__node_peer *peer = tfc__container_of(link, struct tfc__node_peer, link);
		struct tfc__rpc_options call = {.method = "node.bye",
						.end = on_bye_end,
						.user = peer};
		/* Also before the response to our hello: the member handles the hello first. */
		struct tfc__rpc *rpc = peer->dialed ? tfc__peer_rpc(peer->dialed) : NULL;
		if (!rpc)
			rpc = tfc__caller_rpc_of(peer);
		if (rpc && tfc__rpc_call(rpc, &call, NULL, &peer->bye) == TFC_OK)
			peers->goodbyes++;
	}
	tfc__timer_set(&peers->leaving, tfc__now() + (peers->goodbyes ? GOODBYE_MS * TFC__MS : 0));
}

/* ---- the peers as a whole */

static void peers_on_refusal(struct tfc__work *work)
{
	struct tfc__peers *peers = tfc__container_of(work, struct tfc__peers, refusing);
	tfc_error error = peers->refusal;
	if (peers->options.refused)
		peers->options.refused(peers->options.user, &error);
}

static bool peers_adopt_all(struct tfc__peers *peers)
{
	const struct tfc__link *members = tfc__members_all(peers->options.members);
	bool is_done = true;
	for (const struct tfc__link *link = members->next; link != members; link = link->next) {
		struct tfc__member *member = tfc__container_of(link, struct tfc__member, link);
		if (member->is_self || member->is_out)
			continue;
		tfc__peers_adopt(peers, member);
		is_done = is_done && member->owner;
	}
	return is_done;
}

int tfc__peers_open(tfc_ctx *ctx, const struct tfc__peers_options *options, tfc_error *error,
		    struct tfc__peers **ret_peers)
{
	struct tfc__peers *peers = calloc(1, sizeof(*peers));
	if (!peers)
		return tfc__fail_nomem(error, "node");
	peers->ctx = ctx;
	peers->options = *options;
	peers->random = strtoull(options->hello->boot_id, NULL, 16);
	tfc__list_init(&peers->all);
	tfc__names_init(&peers->names);
	tfc__names_init(&peers->ids);
	tfc__list_init(&peers->callers);
	tfc__work_init(&peers->refusing, ctx, peers_on_refusal);
	tfc__timer_init(&peers->leaving, ctx, peers_on_left);
	tfc__observer_init(&peers->watch, peers_on_member);
	peers->prober.fn = tfc__node_peer_on_probe;
	tfc__members_watch(options->members, &peers->watch);
	tfc__members_set_prober(options->members, &peers->prober);
	if (!peers_adopt_all(peers)) {
		tfc__peers_close(peers);
		return tfc__fail_nomem(error, "node");
	}
	*ret_peers = peers;
	return TFC_OK;
}

void tfc__peers_close(struct tfc__peers *peers)
{
	if (!peers || peers->is_closed)
		return;
	peers->is_closed = true;
	tfc__observer_remove(&peers->watch);
	tfc__members_set_prober(peers->options.members, NULL);
	tfc__work_cancel(&peers->refusing);
	tfc__timer_cancel(&peers->leaving);
	tfc__callers_close(peers);
	TFC__LIST_EACH (link, &peers->all) {
		struct tfc__node_peer *peer = tfc__container_of(link, struct tfc__node_peer, link);
		tfc__observers_close(&peer->watches);
		if (peer->member)
			peer->member->owner = NULL;
		if (peer->bye)
			tfc__rpc_drop(peer->bye);
		tfc__timer_cancel(&peer->redial);
		tfc__node_peer_hang_up(peer);
		peer->is_up = false;
		TFC__LIST_EACH (wait, &peer->waits)
			tfc__list_remove(wait);
	}
	tfc__peers_enter(peers);
	tfc__peers_exit(peers);
}

bool tfc__peers_are_on_demand(const struct tfc__peers *peers)
{
	return peers->options.is_gossip;
}

/* ---- a member */

struct tfc__node_peer *tfc__peers_find(struct tfc__peers *peers, const char *node_name)
{
	struct tfc__named *named = tfc__name_find(&peers->names, node_name);
	return named ? tfc__container_of(named, struct tfc__node_peer, named) : NULL;
}

struct tfc__rpc *tfc__node_peer_rpc(const struct tfc__node_peer *peer)
{
	return peer->is_up ? tfc__peer_rpc(peer->dialed) : NULL;
}

bool tfc__node_peer_address(const struct tfc__node_peer *peer,
			    struct tfc__will_address *ret_address)
{
	const char *address = peer->is_up    ? tfc__peer_id(peer->dialed)->address
			      : peer->member ? peer->member->address
					     : NULL;
	struct tfc__tcp_host host;
	if (!address || tfc__tcp_parse(address, NULL, &host) < 0 || host.count == 0)
		return false;
	const struct sockaddr_in *v4 = (const void *)&host.addresses[0];
	const struct sockaddr_in6 *v6 = (const void *)&host.addresses[0];
	*ret_address = (struct tfc__will_address){.port = host.port,
						  .has_datagrams = peer->peers->options.is_gossip};
	ret_address->is_ipv6 = host.addresses[0].ss_family == AF_INET6;
	if (ret_address->is_ipv6) {
		memcpy(ret_address->ip, &v6->sin6_addr, sizeof(v6->sin6_addr));
		ret_address->scope = v6->sin6_scope_id;
	} else {
		memcpy(ret_address->ip, &v4->sin_addr, sizeof(v4->sin_addr));
	}
	return true;
}

bool tfc__node_peer_is_reachable(const struct tfc__node_peer *peer)
{
	return peer->is_up || (peer->peers->options.is_gossip && peer->member &&
			       peer->member->state == TFC_MEMBER_ALIVE);
}

const char *tfc__node_peer_name(const struct tfc__node_peer *peer)
{
	return peer->name;
}

void tfc__node_peer_watch(struct tfc__node_peer *peer, struct tfc__observer *observer)
{
	tfc__observers_add(&peer->watches, observer);
}
