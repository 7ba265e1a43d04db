/* What other members say: about each other, and about this node. */
#include <string.h>
#include <tfcluster/member.h>

#include "member/gossip_state.h"

/* ---- about this node */

static void gossip_pause(struct tfc__gossip *g, enum gossip_mode mode)
{
	g->mode = mode;
	tfc__gossip_probe_void(g);
	tfc__gossip_spread_clear(g);
	tfc__gossip_sync_soon(g);
}

void tfc__gossip_request_generation(struct tfc__gossip *g)
{
	struct gossip_action *a = tfc__gossip_act(g, TFC__GOSSIP_DO_GENERATION);
	if (a)
		a->generation = g->generation_seen;
}

static void gossip_need_generation(struct tfc__gossip *g, uint32_t seen)
{
	if (g->mode == GOSSIP_WAITING && seen <= g->generation_seen)
		return;
	gossip_pause(g, GOSSIP_WAITING);
	g->generation_seen = seen;
	tfc__gossip_request_generation(g);
}

void tfc__gossip_self_advance(struct tfc__gossip *g, uint64_t seen)
{
	uint64_t incarnation = g->self->incarnation > seen ? g->self->incarnation : seen;
	uint64_t next = tfc__gossip_incarnation_next(incarnation);
	if (next == incarnation) {
		gossip_need_generation(g, tfc__gossip_generation(incarnation));
		return;
	}
	tfc__gossip_peer_set(g, g->self, next, g->self->state);
	tfc__gossip_spread(g, g->self);
}

void tfc__gossip_lose_name(struct tfc__gossip *g, const struct gossip_peer *winner)
{
	gossip_pause(g, GOSSIP_LOST_NAME);
	g->lost_to = winner->id;
	tfc__gossip_peer_set(g, g->self, tfc__gossip_incarnation_next(g->self->incarnation),
			     TFC_MEMBER_LEFT);
	tfc__gossip_spread(g, g->self);
}

void tfc__gossip_check_lost(struct tfc__gossip *g, const struct gossip_peer *peer)
{
	if (g->mode != GOSSIP_LOST_NAME || !tfc__gossip_id_equal(&peer->id, &g->lost_to) ||
	    (tfc__gossip_is_there(peer) && strcmp(peer->text, g->self->text) == 0))
		return;
	uint64_t next = tfc__gossip_incarnation_next(g->self->incarnation);
	if (next == g->self->incarnation)
		gossip_need_generation(g, tfc__gossip_generation(next));
	else
		tfc__gossip_resume(g, next);
}

/* `other` has the name and the address of the other process, `generation` that of the record. No
 * frame is being written: the name is stored among the frames. */
static void gossip_report_twin(struct tfc__gossip *g, struct gossip_peer *peer,
			       const struct tfc__gossip_message *other, uint32_t generation,
			       bool is_self_lost)
{
	if (peer->is_conflict)
		return;
	peer->is_conflict = true;
	struct gossip_action *a = tfc__gossip_act(g, TFC__GOSSIP_DO_CONFLICT);
	if (!a)
		return;
	a->peer = a->other = peer;
	a->to = other->address;
	a->generation = generation;
	a->offset = g->out.len;
	tfc__buf_add(&g->out, other->name, other->name_len);
	tfc__buf_add(&g->out, "", 1);
	a->len = g->out.len - a->offset;
	a->is_self_lost = is_self_lost;
}

/* This node's own key, alive at another address: the same state directory was started twice. */
static void gossip_meet_twin(struct tfc__gossip *g, const struct tfc__gossip_message *m)
{
	uint32_t generation = tfc__gossip_generation(m->incarnation);
	bool is_newer = generation > tfc__gossip_generation(g->self->incarnation);
	if (is_newer || tfc__gossip_address_compare(&m->address, &g->self->address) > 0) {
		if (g->mode != GOSSIP_LOST_KEY) {
			gossip_pause(g, GOSSIP_LOST_KEY);
			gossip_report_twin(g, g->self, m, generation, true);
		}
		g->generation_seen = generation;
		return;
	}
	gossip_report_twin(g, g->self, m, generation, false);
	if (g->mode == GOSSIP_RUNNING && m->incarnation >= g->self->incarnation)
		tfc__gossip_self_advance(g, m->incarnation);
}

static void gossip_apply_to_self(struct tfc__gossip *g, const struct tfc__gossip_message *m,
				 struct gossip_origin *origin)
{
	uint32_t seen = tfc__gossip_generation(m->incarnation);
	uint32_t own = tfc__gossip_generation(g->self->incarnation);
	bool is_record = m->type == TFC__GOSSIP_RECORD;
	bool is_there = is_record && m->state <= TFC_MEMBER_SUSPECT;
	bool is_elsewhere = is_record &&
			    tfc__gossip_address_compare(&m->address, &g->self->address) != 0;
	if (g->mode == GOSSIP_LEAVING || g->mode == GOSSIP_LEFT || g->mode == GOSSIP_LOST_NAME)
		return;
	if (seen < own) {
		origin->is_accused = true;
		return;
	}
	/* No copy of this node was started so often. The number would be on disk for ever. */
	if (seen - own > GOSSIP_GENERATION_STEP_MAX)
		return;
	if (is_there && is_elsewhere) {
		gossip_meet_twin(g, m);
		return;
	}
	if (seen > own) {
		/* A suspicion does not say where the newer process is; its record follows. */
		if (m->type != TFC__GOSSIP_SUSPECT)
			gossip_need_generation(g, seen);
		return;
	}
	if (g->mode == GOSSIP_LOST_KEY && !is_there && m->type != TFC__GOSSIP_SUSPECT) {
		gossip_need_generation(g, seen);
		return;
	}
	if (g->mode != GOSSIP_RUNNING)
		return;
	bool is_alive = is_record && m->state == TFC_MEMBER_ALIVE;
	if (m->incarnation > g->self->incarnation ||
	    (m->incarnation == g->self->incarnation && !is_alive)) {
		tfc__gossip_self_advance(g, m->incarnation);
		if (!is_alive)
			tfc__gossip_awareness_add(g, 1);
		origin->is_accused = true;
	} else if (m->incarnation < g->self->incarnation) {
		origin->is_accused = true;
	}
}

/* ---- about others */

/* What a push-pull brings was spread before, but for the sender's own record, if it has just
 * joined: two sides that differ much would flood the rest. */
static void gossip_spread_on(struct tfc__gossip *g, struct gossip_peer *peer,
			     const struct gossip_origin *origin)
{
	if (!origin->is_stream || tfc__gossip_id_equal(&peer->id, &origin->sender))
		tfc__gossip_spread(g, peer);
	else
		tfc__gossip_spread_stop(g, peer);
}

/* One key at two addresses in one generation. Both may run; all members keep the same one, whatever
 * arrives last. */
static void gossip_apply_twin(struct tfc__gossip *g, struct gossip_peer *peer,
			      const struct tfc__gossip_message *m,
			      const struct gossip_origin *origin)
{
	uint32_t generation = tfc__gossip_generation(m->incarnation), changes;
	struct tfc__gossip_message known;
	bool is_won = tfc__gossip_address_compare(&m->address, &peer->address) > 0;
	tfc__gossip_peer_record(peer, &known);
	gossip_report_twin(g, peer, is_won ? &known : m, generation, false);
	if (!is_won || !tfc__gossip_peer_describe(g, peer, m, &changes))
		return;
	uint64_t incarnation = m->incarnation > peer->incarnation ? m->incarnation
								  : peer->incarnation;
	tfc__gossip_peer_set(g, peer, incarnation, TFC_MEMBER_ALIVE);
	tfc__gossip_report(g, peer, changes);
	gossip_spread_on(g, peer, origin);
}

static void gossip_apply_alive(struct tfc__gossip *g, struct gossip_peer *peer,
			       const struct tfc__gossip_message *m,
			       const struct gossip_origin *origin)
{
	uint32_t changes, generation = tfc__gossip_generation(m->incarnation);
	uint32_t known = tfc__gossip_generation(peer->incarnation);
	bool is_new = generation > known;
	bool was_there = tfc__gossip_is_there(peer);
	if (was_there && generation == known &&
	    tfc__gossip_address_compare(&m->address, &peer->address) != 0) {
		gossip_apply_twin(g, peer, m, origin);
		return;
	}
	if (m->incarnation <= peer->incarnation || !tfc__gossip_peer_describe(g, peer, m, &changes))
		return;
	tfc__gossip_peer_set(g, peer, m->incarnation, TFC_MEMBER_ALIVE);
	if (changes)
		tfc__gossip_report(g, peer, changes);
	tfc__gossip_peer_claim_name(g, peer);
	tfc__gossip_check_lost(g, peer);
	gossip_spread_on(g, peer, origin);
	if (!was_there && !is_new) /* back from a partition: both sides have much to say */
		tfc__gossip_sync_soon(g);
}

/* Down or left. A gone member's incarnation still rises with what is said of it: an older "alive"
 * that arrives late must not revive it. */
static void gossip_apply_gone(struct tfc__gossip *g, struct gossip_peer *peer, uint64_t incarnation,
			      uint32_t state, const struct gossip_origin *origin)
{
	if (incarnation < peer->incarnation)
		return;
	if (!tfc__gossip_is_there(peer)) {
		peer->incarnation = incarnation;
		return;
	}
	tfc__gossip_peer_set(g, peer, incarnation, state);
	gossip_spread_on(g, peer, origin);
}

static void gossip_apply_record(struct tfc__gossip *g, const struct tfc__gossip_message *m,
				const struct gossip_origin *origin)
{
	struct gossip_peer *peer = tfc__gossip_peer_find(g, &m->id);
	bool is_there = m->state <= TFC_MEMBER_SUSPECT;
	if (!peer && is_there) {
		peer = tfc__gossip_peer_add(g, m);
		if (!peer)
			return;
		tfc__gossip_peer_claim_name(g, peer);
		gossip_spread_on(g, peer, origin);
	} else if (!peer) {
		return; /* nobody needs to remember more dead members */
	} else if (is_there) {
		gossip_apply_alive(g, peer, m, origin);
	}
	if (m->state == TFC_MEMBER_LEFT)
		gossip_apply_gone(g, peer, m->incarnation, TFC_MEMBER_LEFT, origin);
	else if (m->state == TFC_MEMBER_DOWN && !tfc__gossip_is_there(peer))
		gossip_apply_gone(g, peer, m->incarnation, TFC_MEMBER_DOWN, origin);
	else if (m->state != TFC_MEMBER_ALIVE)
		/* Someone who was cut off may believe that many are down: they get the time to
		 * refute it. */
		tfc__gossip_suspect(g, peer, m->incarnation, &origin->sender);
}

void tfc__gossip_apply(struct tfc__gossip *g, const struct tfc__gossip_message *m,
		       struct gossip_origin *origin)
{
	if (tfc__gossip_id_equal(&m->id, &g->self->id)) {
		gossip_apply_to_self(g, m, origin);
		return;
	}
	if (m->type == TFC__GOSSIP_RECORD) {
		gossip_apply_record(g, m, origin);
		return;
	}
	struct gossip_peer *peer = tfc__gossip_peer_find(g, &m->id);
	if (!peer)
		return;
	if (m->incarnation < peer->incarnation && peer->state == TFC_MEMBER_ALIVE)
		origin->correction = peer;
	if (m->type == TFC__GOSSIP_SUSPECT)
		tfc__gossip_suspect(g, peer, m->incarnation, &m->from);
	else if (m->type == TFC__GOSSIP_DOWN)
		gossip_apply_gone(g, peer, m->incarnation, TFC_MEMBER_DOWN, origin);
	else
		gossip_apply_gone(g, peer, m->incarnation, TFC_MEMBER_LEFT, origin);
}
