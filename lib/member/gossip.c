#include "member/gossip_internal.h"

#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "member/generation.h"
#include "port/tcp_user.h"

/* For how long a node tries to join while its name is in use: the holder may have died unnoticed.
 */
#define NAME_PATIENCE (5 * TFC__SECOND)
#define LOG_PAUSE (10 * TFC__SECOND) /* between two texts about refused datagrams */

static const uint8_t magic[TFC__DATAGRAM_MAGIC] = {'T', 'F', 'G', TFC__GOSSIP_VERSION};

/* ---- conflicts */

static void gossip_on_refusing(struct tfc__work *work)
{
	struct tfc__gossip_membership *gossip =
		tfc__container_of(work, struct tfc__gossip_membership, refusing);
	tfc_error error = gossip->refusal;
	if (gossip->options.refused)
		gossip->options.refused(gossip->options.user, &error);
}

static void on_conflict(struct tfc__gossip_membership *gossip,
			const struct tfc__gossip_action *action)
{
	const struct tfc__gossip_member *kept = &action->member, *lost = &action->other;
	char kept_at[TFC__GOSSIP_ADDRESS_TEXT], lost_at[TFC__GOSSIP_ADDRESS_TEXT];
	tfc_error error = TFC_ERROR_INIT;
	tfc__gossip_address_write(&kept->address, kept_at);
	tfc__gossip_address_write(&lost->address, lost_at);
	if (tfc__gossip_id_equal(&kept->id, &lost->id))
		tfc__fail(&error, TFC_EEXIST, "member", 0,
			  "nodes \"%s\" at %s and \"%s\" at %s have the same identity: the state "
			  "directory of one is a copy of the other's; remove the file \"identity\" "
			  "in the copy",
			  kept->name, kept_at, lost->name, lost_at);
	else
		tfc__fail(&error, TFC_EEXIST, "member", 0,
			  "two nodes have the name \"%s\": one at %s and one at %s; give one of "
			  "them another name",
			  kept->name, kept_at, lost_at);
	tfc__log(gossip->ctx, TFC_LOG_WARNING, "member", lost->name, "%s; the one at %s %s",
		 error.text, lost_at,
		 action->is_self_lost ? "is this node, which no longer takes part" : "is ignored");
	if (action->is_self_lost && !gossip->was_refused) {
		gossip->was_refused = true; /* reported once */
		gossip->refusal = error;
		tfc__work_schedule(&gossip->refusing);
	}
}

/* ---- actions */

static void send_datagram(struct tfc__gossip_membership *gossip,
			  const struct tfc__gossip_action *action)
{
	uint8_t bytes[TFC__DATAGRAM_MAX];
	struct sockaddr_storage to;
	if (action->len > sizeof(bytes) - TFC__SEALED_OVERHEAD)
		return;
	tfc__gossip_address_to(&action->to, &to);
	tfc__seal(gossip->sealing, action->bytes, action->len, bytes);
	tfc__datagrams_send(gossip->datagrams, &to, bytes, action->len + TFC__SEALED_OVERHEAD);
}

static void reply(struct tfc__gossip_membership *gossip, const struct tfc__gossip_action *action)
{
	struct tfc__rpc_request *request = gossip->serving;
	if (!request || !action->len)
		return;
	gossip->serving = NULL;
	tfc__gossip_stream_reply(gossip, request, action);
}

static void store_generation(struct tfc__gossip_membership *gossip, uint32_t seen)
{
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_GENERATION};
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__generation_next(gossip->state_dir, seen + 1, &error, &event.generation);
	if (code < 0) {
		if (!gossip->is_generation_late)
			tfc__log(gossip->ctx, TFC_LOG_ERROR, "member", "",
				 "this node takes no part in gossip until it can store generation "
				 "%u, because other nodes have seen generation %u of it: %s; it "
				 "keeps trying",
				 seen + 1, seen, error.text);
		gossip->is_generation_late = true;
		return;
	}
	gossip->is_generation_late = false;
	tfc__log(gossip->ctx, TFC_LOG_INFO, "member", "",
		 "the state of this node is older than what the other nodes have seen of it; it "
		 "continues with generation %u",
		 event.generation);
	tfc__sealing_set_generation(gossip->sealing, event.generation);
	tfc__gossip_membership_step(gossip, &event);
}

static void log_cut_off(struct tfc__gossip_membership *gossip, bool is_cut_off)
{
	if (is_cut_off)
		tfc__log(gossip->ctx, TFC_LOG_WARNING, "member", "",
			 "more than a third of the members became unreachable at once; this node "
			 "may be the one that is cut off");
	else
		tfc__log(gossip->ctx, TFC_LOG_INFO, "member", "", "enough members respond again");
}

static void gossip_on_leaving(struct tfc__work *work)
{
	struct tfc__gossip_membership *gossip =
		tfc__container_of(work, struct tfc__gossip_membership, leaving);
	gossip->left(gossip->left_user);
}

/* Returns the generation that was seen if a higher one is to be stored, else 0. The actions that
 * follow are carried out first. */
static void carry_out(struct tfc__gossip_membership *gossip,
		      const struct tfc__gossip_action *action, uint32_t *ret_generation)
{
	switch (action->kind) {
	case TFC__GOSSIP_DO_SEND:
		send_datagram(gossip, action);
		break;
	case TFC__GOSSIP_DO_REQUEST:
		tfc__gossip_stream_open(gossip, action);
		break;
	case TFC__GOSSIP_DO_REPLY:
		reply(gossip, action);
		break;
	case TFC__GOSSIP_DO_MEMBER:
		tfc__gossip_rows_update(gossip, &action->member, action->changes);
		break;
	case TFC__GOSSIP_DO_CONFLICT:
		on_conflict(gossip, action);
		break;
	case TFC__GOSSIP_DO_GENERATION:
		*ret_generation = action->generation;
		break;
	case TFC__GOSSIP_DO_JOINED:
		tfc__gossip_join_succeeded(gossip, &action->to);
		break;
	case TFC__GOSSIP_DO_JOIN_FAILED:
		if (!*gossip->join_error)
			tfc__gossip_join_failed(gossip, &action->to, NULL);
		break;
	case TFC__GOSSIP_DO_LEFT:
		if (gossip->left)
			tfc__work_schedule(&gossip->leaving);
		break;
	case TFC__GOSSIP_DO_CUT_OFF:
		log_cut_off(gossip, action->is_cut_off);
		break;
	case TFC__GOSSIP_DO_FULL:
		tfc__log(gossip->ctx, TFC_LOG_WARNING, "member", "",
			 "cannot add a member: the table has its maximum of members");
		break;
	}
}

void tfc__gossip_membership_step(struct tfc__gossip_membership *gossip,
				 const struct tfc__gossip_event *event)
{
	const struct tfc__gossip_action *action;
	uint32_t generation = 0;
	tfc__gossip_step(gossip->core, event, tfc__now());
	while ((action = tfc__gossip_next(gossip->core)))
		carry_out(gossip, action, &generation);
	if (generation)
		store_generation(gossip, generation);
	tfc__timer_set(&gossip->wake, tfc__gossip_wake_at(gossip->core));
}

/* ---- events */

static void gossip_on_wake(struct tfc__timer *timer)
{
	struct tfc__gossip_membership *gossip =
		tfc__container_of(timer, struct tfc__gossip_membership, wake);
	tfc__gossip_membership_step(gossip, &(struct tfc__gossip_event){.kind = TFC__GOSSIP_TICK});
}

static void refuse_datagram(struct tfc__gossip_membership *gossip,
			    const struct sockaddr_storage *from, const char *why)
{
	char text[TFC__GOSSIP_ADDRESS_TEXT];
	uint64_t now = tfc__now();
	gossip->refused_count++;
	if (gossip->refused_logged_at && now - gossip->refused_logged_at < LOG_PAUSE)
		return;
	tfc__tcp_write(from, text, sizeof(text));
	tfc__log(gossip->ctx, TFC_LOG_WARNING, "member", "",
		 "refused a datagram from %s: %s (%u refused since the last message)",
		 text + strlen("tcp://"), why, gossip->refused_count);
	gossip->refused_count = 0;
	gossip->refused_logged_at = now;
}

/* Without a key, datagrams are accepted from this user and root of this machine only. */
static bool is_own_user(const struct tfc__gossip_membership *gossip,
			const struct sockaddr_storage *from)
{
	struct sockaddr_storage here;
	uint32_t uid;
	tfc__gossip_address_to(&gossip->address, &here);
	return tfc__tcp_is_loopback(from) && tfc__udp_user(from, &here, &uid) == 0 &&
	       (uid == geteuid() || uid == 0);
}

static void gossip_on_datagram(struct tfc__datagram_receiver *receiver,
			       const struct sockaddr_storage *from, const uint8_t *bytes,
			       size_t len)
{
	struct tfc__gossip_membership *gossip =
		tfc__container_of(receiver, struct tfc__gossip_membership, receiver);
	uint8_t text[TFC__DATAGRAM_MAX];
	struct tfc__sealed_sender sender;
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_DATAGRAM, .bytes = text};
	if (!gossip->options.keyring && !is_own_user(gossip, from)) {
		refuse_datagram(gossip, from,
				"without a key file, only this user's nodes on this machine are "
				"accepted");
		return;
	}
	int code = tfc__unseal(gossip->sealing, bytes, len, text, &sender);
	if (code == TFC_ENOENT)
		refuse_datagram(gossip, from,
				"it is sealed with a key that this node does not have");
	else if (code == TFC_EPARSE || code == TFC_EACCES)
		refuse_datagram(gossip, from,
				"it was changed on its way, or is not a datagram of a node");
	if (code < 0 || !tfc__gossip_address_from(from, &event.from))
		return;
	memcpy(event.id.bytes, sender.id, sizeof(event.id.bytes));
	event.generation = sender.generation;
	event.len = (size_t)code;
	tfc__gossip_membership_step(gossip, &event);
}

/* A member whose process has ended refuses connections: it is down for this node at once. One that
 * only others can reach is suspect for this node. The state machine asks others, too, and decides
 * for all. */
static void gossip_on_evidence(struct tfc__member_evidence *evidence,
			       const struct tfc__member *member, enum tfc__member_observation what)
{
	struct tfc__gossip_membership *gossip =
		tfc__container_of(evidence, struct tfc__gossip_membership, evidence);
	struct tfc__gossip_row *row = tfc__gossip_row_find(gossip, member->name);
	if (!row || !gossip->core)
		return;
	bool is_received = what == TFC__MEMBER_RECEIVED;
	struct tfc__gossip_event event = {.kind = is_received ? TFC__GOSSIP_CONTACT
							      : TFC__GOSSIP_BROKEN,
					  .id = row->id};
	row->is_refused = what == TFC__MEMBER_REFUSED || (row->is_refused && !is_received);
	row->is_unreached = what == TFC__MEMBER_UNREACHED || (row->is_unreached && !is_received);
	tfc__gossip_row_show_state(gossip, row);
	tfc__gossip_membership_step(gossip, &event);
}

/* This node's own entry has changed: what it offers, or whether it is drained. */
static void gossip_on_member_event(struct tfc__observer *watch, const void *what)
{
	struct tfc__gossip_membership *gossip =
		tfc__container_of(watch, struct tfc__gossip_membership, watch);
	const struct tfc__member_event *change = what;
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_SET_META};
	tfc_member_info info;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf meta = {0};
	if (!change->member->is_self)
		return;
	tfc__member_info(change->member, &info);
	if (tfc__gossip_meta_write(&info, &error, &meta) < 0) {
		tfc__log(gossip->ctx, TFC_LOG_WARNING, "member", "",
			 "cannot report a change of this node to the others: %s", error.text);
	} else if (meta.len != gossip->meta.len ||
		   memcmp(meta.data, gossip->meta.data, meta.len) != 0) {
		event.bytes = (const uint8_t *)meta.data;
		event.len = meta.len;
		tfc__gossip_membership_step(gossip, &event);
		tfc__buf_fini(&gossip->meta);
		gossip->meta = meta;
		return;
	}
	tfc__buf_fini(&meta);
}

bool tfc__gossip_membership_contact(struct tfc__gossip_membership *gossip, const char *name,
				    uint64_t *ret_received_at, uint64_t *ret_rtt_ns)
{
	const struct tfc__named *named = tfc__name_find(&gossip->names, name);
	struct tfc__gossip_member member;
	if (!named ||
	    !tfc__gossip_find(gossip->core,
			      &tfc__container_of(named, const struct tfc__gossip_row, named)->id,
			      &member))
		return false;
	*ret_received_at = member.received_at;
	*ret_rtt_ns = member.rtt_ns;
	return true;
}

/* A node that is new here must not have the name of one that is alive. The latter is probed at
 * once: it may have ended without a sign. */
static int check_name(struct tfc__gossip_membership *gossip,
		      const struct tfc__gossip_params *params, tfc_error *error)
{
	const struct tfc__member *self = tfc__members_self(gossip->members);
	const struct tfc__gossip_row *row = tfc__gossip_row_find(gossip, params->name);
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_BROKEN};
	bool is_self = strcmp(params->name, self->name) == 0;
	char id[2 * TFC__GOSSIP_ID_SIZE + 1], address[TFC__GOSSIP_ADDRESS_TEXT];
	struct tfc__gossip_member holder;
	if (is_self)
		tfc__gossip_at(gossip->core, 0, &holder);
	else if (!row || tfc__gossip_is_gone(row->state) || row->is_refused ||
		 !tfc__gossip_find(gossip->core, &row->id, &holder))
		return TFC_OK;
	tfc__gossip_id_write(&holder.id, id);
	if (strcmp(id, params->node_id) == 0)
		return TFC_OK;
	tfc__gossip_address_write(&holder.address, address);
	tfc__fail(error, TFC_EEXIST, "member", 0,
		  "two nodes have the name \"%s\": one at %s and one at %s; give one of them "
		  "another name",
		  params->name, address, params->address);
	if (!is_self) {
		event.id = row->id;
		tfc__gossip_membership_step(gossip, &event);
	}
	return TFC_EEXIST;
}

void tfc__gossip_name_refused(struct tfc__gossip_membership *gossip, const tfc_error *why)
{
	uint64_t now = tfc__now();
	if (!gossip->refused_since) {
		gossip->refused_since = now;
		tfc__log(gossip->ctx, TFC_LOG_WARNING, "member", "", "%s", why->text);
	}
	if (gossip->was_accepted || gossip->was_refused ||
	    now - gossip->refused_since < NAME_PATIENCE)
		return;
	gossip->was_refused = true;
	gossip->refusal = *why;
	tfc__work_schedule(&gossip->refusing);
}

void tfc__gossip_membership_serve(struct tfc__gossip_membership *gossip,
				  struct tfc__rpc_request *request, const char *node_id,
				  const msgpack_object *map)
{
	struct tfc__gossip_event event = {.kind = TFC__GOSSIP_REQUEST};
	struct tfc__gossip_params params;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__gossip_params_read(map, node_id, &error, &params, &event);
	if (code == TFC_OK && gossip->core)
		code = check_name(gossip, &params, &error);
	if (code < 0) {
		tfc__rpc_fail(request, &error);
		return;
	}
	gossip->serving = request;
	if (gossip->core)
		tfc__gossip_membership_step(gossip, &event);
	if (!gossip->serving)
		return;
	gossip->serving = NULL;
	tfc__fail(&error, TFC_EINVAL, "member", 0, "node.gossip: not a message of a node");
	tfc__rpc_fail(request, &error);
}

void tfc__gossip_membership_leave(struct tfc__gossip_membership *gossip, void (*fn)(void *user),
				  void *user)
{
	gossip->left = fn;
	gossip->left_user = user;
	if (gossip->core)
		tfc__gossip_membership_step(gossip,
					    &(struct tfc__gossip_event){.kind = TFC__GOSSIP_LEAVE});
	else
		tfc__work_schedule(&gossip->leaving);
}

/* ---- beginning */

static int gossip_make_core(struct tfc__gossip_membership *gossip, uint32_t generation,
			    const struct tfc__gossip_id *id, tfc_error *error)
{
	struct tfc__gossip_options options = {
		.id = *id,
		.generation = generation,
		.name = tfc__members_self(gossip->members)->name,
		.address = gossip->address,
		.meta = (const uint8_t *)gossip->meta.data,
		.meta_len = gossip->meta.len,
		.datagram_max = TFC__DATAGRAM_MAX - TFC__SEALED_OVERHEAD,
		.interval_ns = gossip->options.interval_ns,
	};
	randombytes_buf(&options.seed, sizeof(options.seed));
	gossip->core = tfc__gossip_new(&options, tfc__now());
	return gossip->core ? TFC_OK : tfc__fail_nomem(error, "member");
}

static bool is_link_local(const struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* The address at which others reach this node becomes that of its own entry. */
static int gossip_set_own_address(struct tfc__gossip_membership *gossip, const char *address,
				  tfc_error *error)
{
	struct tfc__tcp_host host;
	tfc_member_info info;
	int code = tfc__tcp_parse(address, error, &host);
	if (code < 0)
		return code;
	if (is_link_local(&host.addresses[0]))
		return tfc__fail(error, TFC_EINVAL, "member", 0,
				 "gossip: \"%.80s\" is an address of one link; give one that "
				 "all nodes can reach",
				 address + strlen("tcp://"));
	if (!host.count || !host.port ||
	    !tfc__gossip_address_from(&host.addresses[0], &gossip->address))
		return tfc__fail(error, TFC_EINVAL, "member", 0,
				 "gossip: \"%.80s\" must be a numeric address and a port",
				 address + strlen("tcp://"));
	tfc__member_info(tfc__members_self(gossip->members), &info);
	info.address = address;
	code = tfc_membership_put(tfc__members_face(gossip->members), &info);
	if (code < 0)
		*error = *tfc__ctx_error(gossip->ctx);
	return code;
}

int tfc__gossip_membership_begin(struct tfc__gossip_membership *gossip,
				 struct tfc__datagrams *datagrams, const char *address,
				 tfc_error *error)
{
	struct tfc__gossip_id id = {{0}};
	tfc_member_info info;
	uint32_t generation;
	sodium_hex2bin(id.bytes, sizeof(id.bytes), tfc__identity_id(gossip->options.identity),
		       TFC__NODE_ID_SIZE - 1, NULL, NULL, NULL);
	int code = gossip_set_own_address(gossip, address, error);
	tfc__member_info(tfc__members_self(gossip->members), &info);
	if (code < 0 || (code = tfc__gossip_meta_write(&info, error, &gossip->meta)) < 0 ||
	    (code = tfc__generation_next(gossip->state_dir, 1, error, &generation)) < 0 ||
	    (code = tfc__sealing_new(gossip->options.keyring, magic, id.bytes, generation, error,
				     &gossip->sealing)) < 0 ||
	    (code = gossip_make_core(gossip, generation, &id, error)) < 0)
		return code;
	gossip->datagrams = datagrams;
	memcpy(gossip->receiver.magic, magic, sizeof(magic));
	gossip->receiver.fn = gossip_on_datagram;
	tfc__datagrams_add(datagrams, &gossip->receiver);
	gossip->evidence.fn = gossip_on_evidence;
	tfc__members_set_evidence(gossip->members, &gossip->evidence);
	tfc__members_watch(gossip->members, &gossip->watch);
	tfc__timer_set(&gossip->wake, tfc__gossip_wake_at(gossip->core));
	tfc__gossip_join_begin(gossip);
	return TFC_OK;
}

/* ---- opening and closing */

int tfc__gossip_membership_new(const struct tfc__gossip_membership_options *options,
			       tfc_error *error, struct tfc__gossip_membership **ret_gossip)
{
	struct tfc__gossip_membership *gossip = calloc(1, sizeof(*gossip));
	if (!gossip)
		return tfc__fail_nomem(error, "member");
	gossip->options = *options;
	tfc__list_init(&gossip->rows);
	tfc__list_init(&gossip->streams);
	tfc__list_init(&gossip->receiver.link);
	tfc__names_init(&gossip->names);
	tfc__names_init(&gossip->ids);
	tfc__observer_init(&gossip->watch, gossip_on_member_event);
	int code = tfc__gossip_seeds_set(gossip, options->seeds, error);
	if (code == TFC_OK && options->state_dir &&
	    !(gossip->state_dir = strdup(options->state_dir)))
		code = tfc__fail_nomem(error, "member");
	if (code < 0)
		tfc__gossip_membership_free(gossip);
	else
		*ret_gossip = gossip;
	return code;
}

void tfc__gossip_membership_free(struct tfc__gossip_membership *gossip)
{
	if (!gossip)
		return;
	tfc__gossip_rows_free(gossip);
	tfc__gossip_seeds_free(gossip);
	tfc__gossip_free(gossip->core);
	tfc__sealing_free(gossip->sealing);
	tfc__buf_fini(&gossip->meta);
	free(gossip->state_dir);
	free(gossip);
}

static int gossip_start(void *impl, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	struct tfc__gossip_membership *gossip = impl;
	gossip->ctx = ctx;
	gossip->members = tfc__members_of(membership);
	tfc__timer_init(&gossip->wake, ctx, gossip_on_wake);
	tfc__work_init(&gossip->refusing, ctx, gossip_on_refusing);
	tfc__work_init(&gossip->leaving, ctx, gossip_on_leaving);
	return TFC_OK;
}

static void gossip_stop(void *impl, tfc_membership *membership)
{
	struct tfc__gossip_membership *gossip = impl;
	tfc__timer_cancel(&gossip->wake);
	tfc__work_cancel(&gossip->refusing);
	tfc__work_cancel(&gossip->leaving);
	tfc__observer_remove(&gossip->watch);
	tfc__members_set_evidence(gossip->members, NULL);
	tfc__datagrams_remove(&gossip->receiver);
	if (gossip->core)
		tfc__gossip_join_stop(gossip);
	tfc__gossip_streams_close(gossip);
}

const tfc_membership_ops tfc__gossip_membership_ops = {
	.size = sizeof(tfc_membership_ops),
	.flags = TFC_MEMBERSHIP_REPORTS_STATES,
	.start = gossip_start,
	.stop = gossip_stop,
};
