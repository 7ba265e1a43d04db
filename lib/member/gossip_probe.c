/*
 * Probes: a ping; then other members ping as well; then a ping over a stream. And what this node
 * does for the probes of others.
 */
#include <tfcluster/member.h>

#include "member/gossip_state.h"

void tfc__gossip_awareness_add(struct tfc__gossip *g, int delta)
{
	int awareness = (int)g->awareness + delta;
	if (awareness < 0)
		awareness = 0;
	g->awareness = awareness > GOSSIP_AWARENESS_MAX ? GOSSIP_AWARENESS_MAX
							: (uint32_t)awareness;
}

/* ---- this node's probes */

/* The suspicion of a member is sent to it in front of the ping (Lifeguard, "Buddy System"). */
static void gossip_add_ping(struct tfc__gossip *g, const struct gossip_peer *target, uint32_t seq)
{
	struct tfc__gossip_message m;
	if (target->state != TFC_MEMBER_ALIVE) {
		tfc__gossip_peer_update(target, &m);
		tfc__gossip_frame_add(g, &m);
	}
	m = (struct tfc__gossip_message){.type = TFC__GOSSIP_PING, .seq = seq};
	tfc__gossip_frame_add(g, &m);
}

static void gossip_send_ping(struct tfc__gossip *g, const struct gossip_peer *target, uint32_t seq)
{
	tfc__gossip_frame_begin(g, g->options.datagram_max);
	gossip_add_ping(g, target, seq);
	tfc__gossip_frame_send(g, &target->address, true);
}

static void gossip_ask_others(struct tfc__gossip *g, struct gossip_probe *probe)
{
	const struct gossip_peer *helpers[GOSSIP_INDIRECT];
	uint32_t count = 0;
	for (uint32_t i = 0; i < 2 * GOSSIP_INDIRECT && count < GOSSIP_INDIRECT; i++) {
		const struct gossip_peer *helper = tfc__gossip_peer_random(g, probe->target);
		bool is_new = helper != NULL;
		for (uint32_t j = 0; j < count; j++)
			is_new &= helpers[j] != helper;
		if (is_new)
			helpers[count++] = helper;
	}
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_PING_REQ,
					.seq = probe->seq + 1,
					.id = probe->target->id,
					.address = probe->target->address};
	for (uint32_t i = 0; i < count; i++) {
		tfc__gossip_frame_begin(g, g->options.datagram_max);
		tfc__gossip_frame_add(g, &m);
		tfc__gossip_frame_send(g, &helpers[i]->address, true);
	}
	probe->nacks_expected = count;
}

static void gossip_probe_start(struct tfc__gossip *g, struct gossip_probe *probe,
			       struct gossip_peer *target)
{
	uint64_t length = g->options.interval_ns * (g->awareness + 1);
	g->seq += 2;
	*probe = (struct gossip_probe){
		.stage = GOSSIP_STAGE_DIRECT,
		.target = target,
		.seq = g->seq - 1,
		.begin = g->now,
		.next_at = g->now + length * 2 / 5,
		.end_at = g->now + length,
	};
	gossip_send_ping(g, target, probe->seq);
}

/* Requests from GOSSIP_PROBES - 1 members at once; more are left to the periodic probe. */
void tfc__gossip_probe_now(struct tfc__gossip *g, struct gossip_peer *peer)
{
	struct gossip_probe *probe = NULL;
	if (peer->state != TFC_MEMBER_ALIVE)
		return;
	for (uint32_t i = 0; i < GOSSIP_PROBES; i++) {
		if (g->probes[i].stage && g->probes[i].target == peer)
			return;
		if (i && !g->probes[i].stage)
			probe = &g->probes[i];
	}
	if (!probe)
		return;
	gossip_probe_start(g, probe, peer);
	gossip_ask_others(g, probe);
	probe->stage = GOSSIP_STAGE_STREAM; /* its stream is what was refused */
	probe->next_at = probe->end_at;
}

static void gossip_probe_end(struct tfc__gossip *g, struct gossip_probe *probe)
{
	/* Only the periodic probe measures how well this node itself is connected. */
	if (probe == &g->probes[0]) {
		tfc__gossip_awareness_add(g, -1);
		g->failures = 0;
	}
	probe->stage = GOSSIP_STAGE_NONE;
}

static void gossip_probe_fail(struct tfc__gossip *g, struct gossip_probe *probe)
{
	struct gossip_peer *target = probe->target;
	probe->stage = GOSSIP_STAGE_NONE;
	if (probe == &g->probes[0]) {
		g->failures++;
		/* Members that were asked and did not even say that they got no response: the
		 * fault may be here. */
		if (!probe->nacks_expected)
			tfc__gossip_awareness_add(g, 1);
		else if (probe->nacks < probe->nacks_expected)
			tfc__gossip_awareness_add(g, (int)(probe->nacks_expected - probe->nacks));
	}
	tfc__gossip_suspect(g, target, target->incarnation, &g->self->id);
}

static void gossip_probe_advance(struct tfc__gossip *g, struct gossip_probe *probe)
{
	uint64_t length = probe->end_at - probe->begin;
	switch (probe->stage) {
	case GOSSIP_STAGE_DIRECT:
		gossip_send_ping(g, probe->target, probe->seq);
		gossip_ask_others(g, probe);
		probe->stage = GOSSIP_STAGE_INDIRECT;
		probe->next_at = probe->begin + length * 3 / 5;
		break;
	case GOSSIP_STAGE_INDIRECT:
		gossip_send_ping(g, probe->target, probe->seq);
		tfc__gossip_frame_begin(g, g->options.stream_max);
		gossip_add_ping(g, probe->target, probe->seq);
		tfc__gossip_frame_request(g, GOSSIP_STREAM_PING, &probe->target->address,
					  &probe->target->id);
		probe->stage = GOSSIP_STAGE_STREAM;
		probe->next_at = probe->end_at;
		break;
	case GOSSIP_STAGE_STREAM:
		gossip_probe_fail(g, probe);
		break;
	case GOSSIP_STAGE_NONE:
		break;
	}
}

/* Round-robin through a shuffled order (SWIM 4.3): each member is probed once in a round. */
static struct gossip_peer *gossip_probe_pick(struct tfc__gossip *g)
{
	if (g->there < 2)
		return NULL;
	if (g->probe_next >= g->there) {
		tfc__gossip_shuffle(g);
		g->probe_next = 1;
	}
	return g->order[g->probe_next++];
}

/* ---- pings for others */

void tfc__gossip_ping_for(struct tfc__gossip *g, const struct tfc__gossip_message *request,
			  const struct tfc__gossip_id *sender,
			  const struct tfc__gossip_address *from)
{
	bool is_asker_known = tfc__gossip_peer_is_at(tfc__gossip_peer_find(g, sender), from);
	struct tfc__gossip_message m = {.type = TFC__GOSSIP_NACK, .seq = request->seq};
	if (tfc__gossip_id_equal(&request->id, &g->self->id))
		return;
	if (g->relay_count == GOSSIP_RELAYS) {
		tfc__gossip_frame_begin(g, g->options.datagram_max);
		tfc__gossip_frame_add(g, &m);
		tfc__gossip_frame_send(g, from, is_asker_known);
		return;
	}
	uint32_t at = (g->relay_first + g->relay_count++) % GOSSIP_RELAYS;
	g->relays[at] = (struct gossip_relay){
		.seq = ++g->seq,
		.asked_seq = request->seq,
		.target = request->id,
		.asked_by = *from,
		.is_asker_known = is_asker_known,
		.deadline = g->now + g->options.interval_ns * 2 / 5,
	};
	m = (struct tfc__gossip_message){.type = TFC__GOSSIP_PING, .seq = g->seq};
	tfc__gossip_frame_begin(g, g->options.datagram_max);
	tfc__gossip_frame_add(g, &m);
	tfc__gossip_frame_send(g, &request->address,
			       tfc__gossip_peer_is_at(tfc__gossip_peer_find(g, &request->id),
						      &request->address));
}

static void gossip_relay_respond(struct tfc__gossip *g, struct gossip_relay *relay,
				 enum tfc__gossip_type type)
{
	struct tfc__gossip_message m = {.type = type, .seq = relay->asked_seq};
	relay->is_done = true;
	tfc__gossip_frame_begin(g, g->options.datagram_max);
	tfc__gossip_frame_add(g, &m);
	tfc__gossip_frame_send(g, &relay->asked_by, relay->is_asker_known);
}

static void gossip_relay_tick(struct tfc__gossip *g)
{
	while (g->relay_count && g->relays[g->relay_first].deadline <= g->now) {
		struct gossip_relay *relay = &g->relays[g->relay_first];
		g->relay_first = (g->relay_first + 1) % GOSSIP_RELAYS;
		g->relay_count--;
		if (!relay->is_done)
			gossip_relay_respond(g, relay, TFC__GOSSIP_NACK);
	}
}

/* ---- responses */

void tfc__gossip_probe_contact(struct tfc__gossip *g, struct gossip_peer *peer)
{
	peer->received_at = g->now;
	for (uint32_t i = 0; i < GOSSIP_PROBES; i++)
		if (g->probes[i].stage && g->probes[i].target == peer)
			gossip_probe_end(g, &g->probes[i]);
}

/* Smoothed as TCP does it (RFC 6298, 2). */
static void gossip_measure(struct gossip_peer *peer, uint64_t rtt_ns)
{
	uint32_t us = rtt_ns / 1000 > UINT32_MAX ? UINT32_MAX : (uint32_t)(rtt_ns / 1000);
	if (!us)
		us = 1;
	peer->rtt_us = peer->rtt_us ? (uint32_t)(((uint64_t)peer->rtt_us * 7 + us) / 8) : us;
}

void tfc__gossip_ack(struct tfc__gossip *g, uint32_t seq, const struct tfc__gossip_id *sender)
{
	for (uint32_t i = 0; i < GOSSIP_PROBES; i++) {
		struct gossip_probe *probe = &g->probes[i];
		struct gossip_peer *target = probe->target;
		if (!probe->stage || (seq != probe->seq && seq != probe->seq + 1))
			continue;
		bool is_asked = seq == probe->seq + 1 && probe->nacks_expected;
		if (seq == probe->seq && tfc__gossip_id_equal(sender, &target->id)) {
			/* later, it is not known which ping was acknowledged */
			if (probe->stage == GOSSIP_STAGE_DIRECT)
				gossip_measure(target, g->now - probe->begin);
			target->received_at = g->now;
		} else if (!is_asked) {
			return; /* another node is at the target's address, or nobody was asked */
		}
		gossip_probe_end(g, probe);
		return;
	}
	for (uint32_t i = 0; i < g->relay_count; i++) {
		struct gossip_relay *relay = &g->relays[(g->relay_first + i) % GOSSIP_RELAYS];
		if (relay->seq == seq && !relay->is_done &&
		    tfc__gossip_id_equal(sender, &relay->target)) {
			gossip_relay_respond(g, relay, TFC__GOSSIP_ACK);
			return;
		}
	}
}

void tfc__gossip_nack(struct tfc__gossip *g, uint32_t seq)
{
	for (uint32_t i = 0; i < GOSSIP_PROBES; i++) {
		struct gossip_probe *probe = &g->probes[i];
		if (probe->stage && probe->seq + 1 == seq && probe->nacks < probe->nacks_expected)
			probe->nacks++;
	}
}

/* ---- time */

void tfc__gossip_probe_tick(struct tfc__gossip *g)
{
	gossip_relay_tick(g);
	for (uint32_t i = 0; i < GOSSIP_PROBES; i++)
		if (g->probes[i].stage && g->probes[i].next_at <= g->now)
			gossip_probe_advance(g, &g->probes[i]);
	if (g->now < g->probe_at)
		return;
	/* A probe that was slowed down ends before the next one begins. */
	if (g->probes[0].stage) {
		g->probe_at = g->probes[0].end_at;
		return;
	}
	g->probe_at = g->now + g->options.interval_ns * (g->awareness + 1);
	struct gossip_peer *target = gossip_probe_pick(g);
	if (target)
		gossip_probe_start(g, &g->probes[0], target);
}

uint64_t tfc__gossip_probe_wake_at(const struct tfc__gossip *g)
{
	uint64_t at = g->there > 1 ? g->probe_at : UINT64_MAX;
	for (uint32_t i = 0; i < GOSSIP_PROBES; i++)
		if (g->probes[i].stage && g->probes[i].next_at < at)
			at = g->probes[i].next_at;
	if (g->relay_count && g->relays[g->relay_first].deadline < at)
		at = g->relays[g->relay_first].deadline;
	return at;
}

void tfc__gossip_probe_void(struct tfc__gossip *g)
{
	for (uint32_t i = 0; i < GOSSIP_PROBES; i++)
		g->probes[i].stage = GOSSIP_STAGE_NONE;
	g->relay_count = 0;
}

void tfc__gossip_probe_forget(struct tfc__gossip *g, const struct gossip_peer *peer)
{
	for (uint32_t i = 0; i < GOSSIP_PROBES; i++)
		if (g->probes[i].target == peer)
			g->probes[i].stage = GOSSIP_STAGE_NONE;
}
