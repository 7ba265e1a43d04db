/* Updates that are spread: in front of and behind other messages, and in rounds of their own. */
#include <tfcluster/member.h>

#include "member/gossip_state.h"

/* How often an update is sent by each member: enough that all get it (SWIM 4.1). */
static uint32_t gossip_spread_limit(const struct tfc__gossip *g)
{
	uint32_t log = tfc__gossip_log10_milli(g->there + 1);
	uint32_t limit = (GOSSIP_SPREAD_FACTOR * log + 999) / 1000;
	return limit < GOSSIP_SPREAD_QUEUES ? limit : GOSSIP_SPREAD_QUEUES;
}

void tfc__gossip_spread_stop(struct tfc__gossip *g, struct gossip_peer *peer)
{
	if (tfc__list_is_empty(&peer->spread))
		return;
	tfc__list_remove(&peer->spread);
	g->spread_count--;
}

/* A newer update takes the place of the one that is being spread. */
void tfc__gossip_spread(struct tfc__gossip *g, struct gossip_peer *peer)
{
	tfc__gossip_spread_stop(g, peer);
	if (g->mode == GOSSIP_WAITING || g->mode == GOSSIP_LOST_KEY)
		return;
	if (!g->spread_count && g->spread_at < g->now)
		g->spread_at = g->now;
	peer->sent = 0;
	tfc__list_append(&g->queues[0], &peer->spread);
	g->spread_count++;
}

void tfc__gossip_spread_clear(struct tfc__gossip *g)
{
	for (uint32_t i = 0; i < GOSSIP_SPREAD_QUEUES; i++)
		TFC__LIST_EACH (link, &g->queues[i])
			tfc__gossip_spread_stop(g, tfc__container_of(link, struct gossip_peer,
								     spread));
}

void tfc__gossip_peer_update(const struct gossip_peer *peer, struct tfc__gossip_message *ret_update)
{
	static const enum tfc__gossip_type types[] = {
		[TFC_MEMBER_SUSPECT] = TFC__GOSSIP_SUSPECT,
		[TFC_MEMBER_DOWN] = TFC__GOSSIP_DOWN,
		[TFC_MEMBER_LEFT] = TFC__GOSSIP_LEFT,
	};
	if (peer->state == TFC_MEMBER_ALIVE) {
		tfc__gossip_peer_record(peer, ret_update);
		return;
	}
	*ret_update = (struct tfc__gossip_message){.type = types[peer->state],
						   .id = peer->id,
						   .incarnation = peer->incarnation};
	if (peer->suspicion) /* the latest suspector is what others may not know yet */
		ret_update->from = peer->suspicion->from[peer->suspicion->from_count - 1];
}

/* The updates that were sent least go first. Some that do not fit are passed over. */
void tfc__gossip_spread_fill(struct tfc__gossip *g)
{
	uint32_t limit = gossip_spread_limit(g), left = g->spread_count, misfits = 0;
	struct tfc__link sent;
	tfc__list_init(&sent);
	for (uint32_t i = 0; i < GOSSIP_SPREAD_QUEUES && left && misfits < 4; i++) {
		TFC__LIST_EACH (link, &g->queues[i]) {
			struct gossip_peer *peer = tfc__container_of(link, struct gossip_peer,
								     spread);
			struct tfc__gossip_message update;
			left--;
			tfc__gossip_peer_update(peer, &update);
			if (tfc__gossip_frame_add(g, &update)) {
				tfc__list_remove(link);
				tfc__list_append(&sent, link);
			} else if (++misfits == 4) {
				break;
			}
		}
	}
	TFC__LIST_EACH (link, &sent) {
		struct gossip_peer *peer = tfc__container_of(link, struct gossip_peer, spread);
		tfc__list_remove(link);
		if (++peer->sent < limit)
			tfc__list_append(&g->queues[peer->sent], link);
		else
			g->spread_count--;
	}
}

void tfc__gossip_spread_tick(struct tfc__gossip *g)
{
	if (!g->spread_count || g->now < g->spread_at)
		return;
	for (uint32_t i = 0; i < GOSSIP_FANOUT && g->spread_count; i++) {
		const struct gossip_peer *peer = tfc__gossip_peer_random(g, NULL);
		if (!peer)
			break;
		tfc__gossip_frame_begin(g, g->options.datagram_max);
		tfc__gossip_frame_send(g, &peer->address, true);
	}
	/* Updates that nobody has yet do not wait: many join at once. */
	bool is_behind = !tfc__list_is_empty(&g->queues[0]);
	g->spread_at = g->now + (is_behind ? g->options.spread_ns / 4 : g->options.spread_ns);
}

/*
 * Members that are down are announced to, so that both sides of a partition find each other when it
 * has healed, and forgotten after a time. About two members in a second announce to each that is
 * down, whatever the number of members.
 */
void tfc__gossip_heal_tick(struct tfc__gossip *g)
{
	uint32_t gone = g->count - g->there;
	if (!gone || g->now < g->heal_at)
		return;
	g->heal_at = g->now + 4 * g->options.interval_ns;
	struct gossip_peer *peer = g->order[g->there + tfc__gossip_random(g, gone)];
	if (g->now - peer->since >= g->options.reclaim_ns) {
		tfc__gossip_peer_remove(g, peer);
		return;
	}
	if (peer->state != TFC_MEMBER_DOWN || tfc__gossip_random(g, g->there) >= 4 * gone)
		return;
	struct tfc__gossip_message m;
	tfc__gossip_frame_begin(g, g->options.datagram_max);
	tfc__gossip_peer_update(peer, &m);
	tfc__gossip_frame_add(g, &m);
	tfc__gossip_peer_record(g->self, &m);
	tfc__gossip_frame_add(g, &m);
	m = (struct tfc__gossip_message){.type = TFC__GOSSIP_QUERY};
	tfc__gossip_frame_add(g, &m);
	tfc__gossip_frame_send(g, &peer->address, false);
}
