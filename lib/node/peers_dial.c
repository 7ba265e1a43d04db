#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "node/internal.h"

#define HELLO_MS 5000
#define DIAL_MS 3000 /* a lost packet of the handshake is sent again after one second */
#define BACKOFF_MS 10
#define BACKOFF_MAX_MS 1000
#define BACKOFF_GONE_MS 3000 /* to a node that is down: it dials us itself when it returns */
#define GONE_AFTER (20 * TFC__SECOND) /* of silence: before, the leases of its tasks may hold */
#define BACKOFF_REFUSED_MS 10000 /* to a node that refuses us: an operator has to fix the cause */
/* A wait ends with the first failure, and without a need nothing is dialed again. But a node that
 * does not know this one yet soon does, and a process that has closed the connection may be about
 * to end. */
#define UNCLEAR_MAX 8
/* A connection is closed when this long, or up to twice as long, nothing was called over it. */
#define IDLE (10 * TFC__SECOND)

/* Logs the text, unless it was the last one logged. */
static void node_peer_log(struct tfc__node_peer *peer, const char *text)
{
	if (peer->logged && strcmp(peer->logged, text) == 0)
		return;
	free(peer->logged);
	peer->logged = strdup(text); /* out of memory: it is logged again */
	tfc__log(peer->peers->ctx, TFC_LOG_WARNING, "node", peer->name, "%s", text);
}

void tfc__node_peer_report(struct tfc__node_peer *peer, bool is_up)
{
	tfc__observers_notify(&peer->watches, &is_up);
}

void tfc__node_peer_received(struct tfc__node_peer *peer)
{
	if (peer->has_left)
		return;
	peer->received_at = tfc__now();
	if (peer->member)
		tfc__members_received(peer->peers->options.members, peer->member);
}

void tfc__node_peer_unreached(struct tfc__node_peer *peer)
{
	if (peer->member)
		tfc__members_unreached(peer->peers->options.members, peer->member);
}

void tfc__node_peer_left(struct tfc__node_peer *peer)
{
	peer->has_left = true;
	if (peer->member)
		tfc__members_left(peer->peers->options.members, peer->member);
}

void tfc__node_peer_learn(struct tfc__node_peer *peer, const struct tfc__hello *hello)
{
	tfc_error error = TFC_ERROR_INIT;
	if (strcmp(peer->boot_id, hello->boot_id) != 0)
		peer->has_left = false;
	memcpy(peer->node_id, hello->node_id, sizeof(peer->node_id));
	tfc__node_peer_index_id(peer);
	memcpy(peer->boot_id, hello->boot_id, sizeof(peer->boot_id));
	free(peer->logged);
	peer->logged = NULL;
	if (peer->member && tfc__members_learn(peer->peers->options.members, peer->member,
					       &hello->offer, &error) < 0)
		node_peer_log(peer, error.text);
	tfc__node_peer_received(peer);
}

/* ---- the dialed connection */

void tfc__node_peer_hang_up(struct tfc__node_peer *peer)
{
	if (peer->hello)
		tfc__rpc_drop(peer->hello);
	if (peer->ping)
		tfc__rpc_drop(peer->ping);
	if (peer->idle_call)
		tfc__rpc_drop(peer->idle_call);
	peer->hello = peer->ping = peer->idle_call = NULL;
	tfc__timer_cancel(&peer->idle);
	tfc__peer_close(peer->dialed);
	peer->dialed = NULL;
}

static void schedule_redial(struct tfc__node_peer *peer)
{
	const struct tfc__member *member = peer->member;
	uint32_t most = BACKOFF_MAX_MS, ms = BACKOFF_MS;
	if (!member || !member->address || peer->peers->left || peer->dialed ||
	    !tfc__node_peer_is_needed(peer))
		return;
	if (peer->is_refused)
		most = BACKOFF_REFUSED_MS;
	else if (member->state == TFC_MEMBER_LEFT ||
		 (member->state == TFC_MEMBER_DOWN && tfc__now() > peer->received_at + GONE_AFTER))
		most = BACKOFF_GONE_MS;
	for (uint32_t i = 0; i < peer->failures && ms < most; i++)
		ms *= 2;
	ms = ms < most ? ms : most;
	ms = ms / 2 + (uint32_t)(tfc__random_next(&peer->peers->random) % (ms / 2 + 1));
	tfc__timer_set(&peer->redial, tfc__now() + ms * TFC__MS);
	peer->failures++;
}

/* Nobody listens there. ENOENT: no such memory address, or a removed unix socket. */
static bool is_refusal(const tfc_error *why)
{
	return why && (why->sys_errno == ECONNREFUSED || why->code == TFC_ENOENT ||
		       (why->code == TFC_EUNREACH && why->sys_errno == ENOENT));
}

static void dial_failed(struct tfc__node_peer *peer, const tfc_error *why)
{
	const struct tfc__peers *peers = peer->peers;
	bool is_first = !peer->failures || peer->is_unclear;
	peer->is_unclear = peers->options.is_gossip && why && !is_refusal(why) &&
			   (why->code == TFC_EAGAIN || why->code == TFC_ELOST) &&
			   peer->failures < UNCLEAR_MAX;
	if (!peer->is_unclear)
		tfc__node_peer_end_waits(peer, why);
	if (peers->is_closed)
		return;
	schedule_redial(peer);
	if (is_first && !peer->is_unclear && peer->keepers && peers->options.is_gossip)
		tfc__node_peer_report(peer, false);
}

/* The connection was lost or could not be established: `why`. */
static void dialed_lost(struct tfc__node_peer *peer, const tfc_error *why)
{
	struct tfc__peers *peers = peer->peers;
	bool was_up = peer->is_up;
	tfc__node_peer_hang_up(peer);
	peer->is_up = peer->is_refused = false;
	if (!peer->callers && peer->member && !peer->has_left) {
		if (was_up || is_refusal(why))
			tfc__members_broken(peers->options.members, peer->member, !was_up);
		else
			tfc__node_peer_unreached(peer);
	}
	if (was_up) {
		tfc__node_peer_report(peer, false);
		peer->failures = 0;
	}
	if (peers->is_closed)
		return;
	if (was_up) /* immediately: the result shows whether the process has ended */
		tfc__node_peer_dial(peer);
	else
		dial_failed(peer, why);
}

/* Another process listens there, and refuses us or is not the dialed node: the member may be alive
 * or not. Retries with back-off, more slowly unless the cause may be temporary. */
static void dialed_refused(struct tfc__node_peer *peer, const tfc_error *error)
{
	struct tfc__peers *peers = peer->peers;
	if (!(error->code == TFC_EAGAIN && peers->options.is_gossip))
		node_peer_log(peer, error->text);
	tfc__node_peer_hang_up(peer);
	peer->is_refused = error->code != TFC_EAGAIN && error->code != TFC_ENOMEM;
	dial_failed(peer, error);
	/* Two nodes have the same name or identity: the one that came last has to stop. */
	if (error->code == TFC_EEXIST && !peers->was_accepted) {
		peers->was_accepted = true; /* reported once */
		peers->refusal = *error;
		tfc__work_schedule(&peers->refusing);
	}
}

/* Whether the node that accepted us, under the name that we dialed, has the identity that it
 * claims. */
static int dialed_check_hello(const struct tfc__node_peer *peer, const struct tfc__hello *hello,
			      tfc_error *error)
{
	const struct tfc__hello *own = peer->peers->options.hello;
	const struct tfc__peer_id *id = tfc__peer_id(peer->dialed);
	if (*id->node_id && strcmp(id->node_id, hello->node_id) != 0)
		return tfc__fail(error, TFC_EACCES, "node", 0,
				 "node \"%s\" reported an identity that is not its own",
				 peer->name);
	return tfc__hello_check(own, hello, error);
}

static void on_hello_end(void *user, int code, const msgpack_object *result, const tfc_error *why)
{
	struct tfc__node_peer *peer = user;
	struct tfc__peers *peers = peer->peers;
	struct tfc__hello hello = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc__peers_enter(peers);
	peer->hello = NULL;
	if (code == TFC_ELOST || code == TFC_ETIMEDOUT || !peer->member) {
		dialed_lost(peer, why);
	} else if (code < 0) {
		dialed_refused(peer, why);
	} else if (tfc__hello_read(result, &error, &hello) < 0 ||
		   dialed_check_hello(peer, &hello, &error) < 0) {
		dialed_refused(peer, &error);
	} else {
		peers->was_accepted = peer->is_up = true;
		peer->is_refused = peer->is_unclear = false;
		peer->failures = 0;
		peer->idle_sent = 0;
		if (peers->options.is_gossip)
			tfc__timer_set(&peer->idle, tfc__now() + IDLE);
		tfc__node_peer_learn(peer, &hello);
		tfc__node_peer_report(peer, true);
		tfc__node_peer_end_waits(peer, NULL);
		if (peers->options.connected && !peers->is_closed)
			peers->options.connected(peers->options.user, peer);
	}
	tfc__hello_fini(&hello);
	tfc__peers_exit(peers);
}

static void dialed_on_up(struct tfc__peer *connection, void *user)
{
	struct tfc__node_peer *peer = user;
	struct tfc__peers *peers = peer->peers;
	struct tfc__buf params = {0};
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__rpc_options call = {
		.method = "node.hello",
		.params = &params,
		.timeout_ms = HELLO_MS,
		.end = on_hello_end,
		.user = peer,
	};
	tfc__peers_enter(peers);
	tfc__peers_write_hello(peers, peer->name, &params);
	if (tfc__rpc_call(tfc__peer_rpc(connection), &call, &error, &peer->hello) < 0)
		dialed_lost(peer, &error);
	tfc__buf_fini(&params);
	tfc__peers_exit(peers);
}

static void dialed_on_down(struct tfc__peer *connection, void *user, const tfc_error *why)
{
	struct tfc__node_peer *peer = user;
	struct tfc__peers *peers = peer->peers;
	/* Of key, identity, version, or protocol. */
	bool is_mismatch = why && (why->code == TFC_EACCES || why->code == TFC_ENOTSUP ||
				   why->code == TFC_EPARSE);
	tfc__peers_enter(peers);
	/* A node that ends may close the connection too, but then nobody accepts the next one. */
	if (!peer->is_up && peer->failures && why && why->code == TFC_ELOST)
		node_peer_log(peer, why->text);
	if (!peer->is_up && is_mismatch && why->code == TFC_EACCES && peer->member)
		tfc__members_mismatched(peer->member);
	if (!peer->is_up && is_mismatch)
		dialed_refused(peer, why);
	else
		dialed_lost(peer, why);
	tfc__peers_exit(peers);
}

/* The member makes its calls over the connection that it dialed; only its goodbye may come here,
 * when that connection is not established yet. */
static void dialed_on_serve(struct tfc__peer *connection, void *user,
			    struct tfc__rpc_request *request, const char *method,
			    const msgpack_object *params)
{
	struct tfc__node_peer *peer = user;
	struct tfc__peers *peers = peer->peers;
	tfc_error error = TFC_ERROR_INIT;
	if (!request)
		return; /* no notification is sent over this connection */
	tfc__peers_enter(peers);
	if (strcmp(method, "node.bye") == 0) {
		tfc__node_peer_left(peer);
		tfc__rpc_reply(request, NULL);
	} else {
		tfc__fail(&error, TFC_ENOTSUP, "node", 0,
			  "%s: requests of this connection are not served; open another connection",
			  method);
		tfc__rpc_fail(request, &error);
	}
	tfc__peers_exit(peers);
}

static const struct tfc__peer_ops dialed_ops = {dialed_on_up, dialed_on_serve, dialed_on_down};

void tfc__node_peer_dial(struct tfc__node_peer *peer)
{
	struct tfc__peers *peers = peer->peers;
	tfc_error error = TFC_ERROR_INIT;
	if (!peer->member || !peer->member->address || peer->dialed || peers->left)
		return;
	struct tfc__dial_options options = {
		.address = peer->member->address,
		.keyring = peers->options.keyring,
		.role = TFC__KEY_NODE,
		.identity = peers->options.identity,
		.pinned_node_id = peer->member->node_id,
		.timeout_ms = DIAL_MS,
	};
	tfc__timer_cancel(&peer->redial);
	free(peer->address);
	peer->address = strdup(peer->member->address);
	if (!peer->address)
		tfc__fail_nomem(&error, "node");
	if (!peer->address ||
	    tfc__peer_dial(peers->ctx, &options, &dialed_ops, peer, &error, &peer->dialed) < 0) {
		peer->dialed = NULL;
		if (!is_refusal(&error))
			node_peer_log(peer, error.text);
		tfc__peers_enter(peers);
		dialed_lost(peer, &error);
		tfc__peers_exit(peers);
	}
}

void tfc__node_peer_on_redial(struct tfc__timer *timer)
{
	struct tfc__node_peer *peer = tfc__container_of(timer, struct tfc__node_peer, redial);
	if (tfc__node_peer_is_needed(peer))
		tfc__node_peer_dial(peer);
}

void tfc__node_peer_redial(struct tfc__node_peer *peer)
{
	peer->failures = 0;
	if (tfc__node_peer_is_needed(peer))
		tfc__node_peer_dial(peer);
}

/* ---- on demand */

bool tfc__node_peer_is_needed(const struct tfc__node_peer *peer)
{
	return !peer->peers->options.is_gossip || peer->keepers || peer->is_unclear ||
	       !tfc__list_is_empty(&peer->waits);
}

void tfc__node_peer_keep(struct tfc__node_peer *peer, bool is_kept)
{
	if (!is_kept) {
		peer->keepers--;
	} else if (peer->keepers++ == 0) {
		tfc__node_peer_redial(peer);
		if (!peer->dialed && !peer->redial.at) /* it cannot be dialed */
			tfc__node_peer_report(peer, false);
	}
}

/* Why the member is not dialed for a wait. Without gossip, a member that is suspect was dialed
 * already, in vain. */
static int node_peer_check_dial(const struct tfc__node_peer *peer, tfc_error *error)
{
	const struct tfc__member *member = peer->member;
	bool is_gossip = peer->peers->options.is_gossip;
	if (!member)
		return tfc__fail(error, TFC_ELOST, "node", 0, "it is not a member");
	if (!member->address || peer->peers->left ||
	    (!is_gossip && member->state != TFC_MEMBER_ALIVE))
		return tfc__fail(error, TFC_ELOST, "node", 0, "no connection");
	if (member->state == TFC_MEMBER_DOWN)
		return tfc__fail(error, TFC_ELOST, "node", 0, "it is down");
	if (member->state == TFC_MEMBER_LEFT)
		return tfc__fail(error, TFC_ELOST, "node", 0, "it has left");
	return TFC_OK;
}

void tfc__node_peer_connect(struct tfc__node_peer *peer, struct tfc__member_wait *wait)
{
	tfc_error why = TFC_ERROR_INIT;
	if (peer->is_up) {
		wait->fn(wait, tfc__node_peer_rpc(peer), NULL);
	} else if (node_peer_check_dial(peer, &why) < 0) {
		wait->fn(wait, NULL, &why);
	} else {
		tfc__list_append(&peer->waits, &wait->link);
		tfc__node_peer_dial(peer);
	}
}

void tfc__node_peer_end_waits(struct tfc__node_peer *peer, const tfc_error *why)
{
	tfc_error state = TFC_ERROR_INIT;
	struct tfc__link waits;
	tfc__list_init(&waits);
	tfc__list_move(&waits, &peer->waits);
	if (!why && node_peer_check_dial(peer, &state) == TFC_OK)
		tfc__fail(&state, TFC_ELOST, "node", 0, "no connection");
	why = why ? why : &state;
	while (!tfc__list_is_empty(&waits)) {
		struct tfc__member_wait *wait = tfc__container_of(waits.next,
								  struct tfc__member_wait, link);
		struct tfc__rpc *rpc = tfc__node_peer_rpc(peer);
		tfc__list_remove(&wait->link);
		wait->fn(wait, rpc, rpc ? NULL : why);
	}
}

static void on_idle_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct tfc__node_peer *peer = user;
	struct tfc__peers *peers = peer->peers;
	const struct tfc__rpc *rpc = tfc__peer_rpc(peer->dialed);
	peer->idle_call = NULL;
	if (code == TFC_ELOST)
		return;
	/* What was sent after node.idle may not have arrived. */
	if (code < 0 || tfc__node_peer_is_needed(peer) || tfc__rpc_open_calls(rpc) ||
	    tfc__rpc_sent(rpc) != peer->idle_sent) {
		tfc__timer_set(&peer->idle, tfc__now() + IDLE);
		return;
	}
	tfc__peers_enter(peers);
	tfc__node_peer_hang_up(peer);
	peer->is_up = false;
	free(peer->address); /* the member may have another one by now */
	peer->address = NULL;
	tfc__node_peer_report(peer, false);
	tfc__peers_exit(peers);
}

/* The member must not take the end of the connection for the end of this node. */
void tfc__node_peer_on_idle(struct tfc__timer *timer)
{
	struct tfc__node_peer *peer = tfc__container_of(timer, struct tfc__node_peer, idle);
	struct tfc__rpc *rpc = tfc__peer_rpc(peer->dialed);
	const struct tfc__rpc_options call = {
		.method = "node.idle",
		.timeout_ms = HELLO_MS,
		.end = on_idle_end,
		.user = peer,
	};
	bool is_used = tfc__node_peer_is_needed(peer) || tfc__rpc_open_calls(rpc) ||
		       tfc__rpc_sent(rpc) != peer->idle_sent;
	int code = is_used ? TFC_OK : tfc__rpc_call(rpc, &call, NULL, &peer->idle_call);
	peer->idle_sent = tfc__rpc_sent(rpc);
	if (is_used || code < 0)
		tfc__timer_set(timer, tfc__now() + IDLE);
}

/* ---- probes */

static void on_ping_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct tfc__node_peer *peer = user;
	peer->ping = NULL;
	if (code != TFC_OK)
		return;
	tfc__node_peer_received(peer);
	peer->rtt_ns = tfc__now() - peer->pinged_at;
}

void tfc__node_peer_on_probe(struct tfc__member_prober *prober, struct tfc__member *member)
{
	struct tfc__node_peer *peer = member->owner;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__rpc_options call = {.method = "node.ping", .end = on_ping_end, .user = peer};
	if (!peer) /* it could not be created before: out of memory */
		tfc__peers_adopt(tfc__container_of(prober, struct tfc__peers, prober), member);
	if (!peer || !peer->is_up || peer->ping)
		return;
	peer->pinged_at = tfc__now();
	if (tfc__rpc_call(tfc__peer_rpc(peer->dialed), &call, &error, &peer->ping) < 0)
		peer->ping = NULL;
}
