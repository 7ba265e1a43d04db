/* Suspicions: their timers, confirmations, and how many there are at once. */
#include <stdlib.h>
#include <tfcluster/member.h>

#include "member/gossip_state.h"

/* ---- the heap of deadlines */

static void gossip_heap_put(struct tfc__gossip *g, uint32_t at, struct gossip_peer *peer)
{
	g->heap[at] = peer;
	peer->suspicion->at = at;
}

static void gossip_heap_up(struct tfc__gossip *g, struct gossip_peer *peer)
{
	uint32_t at = peer->suspicion->at;
	while (at && g->heap[(at - 1) / 2]->suspicion->deadline > peer->suspicion->deadline) {
		gossip_heap_put(g, at, g->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	gossip_heap_put(g, at, peer);
}

static void gossip_heap_down(struct tfc__gossip *g, struct gossip_peer *peer)
{
	uint32_t at = peer->suspicion->at;
	for (;;) {
		uint32_t child = 2 * at + 1;
		if (child >= g->suspects)
			break;
		if (child + 1 < g->suspects &&
		    g->heap[child + 1]->suspicion->deadline < g->heap[child]->suspicion->deadline)
			child++;
		if (g->heap[child]->suspicion->deadline >= peer->suspicion->deadline)
			break;
		gossip_heap_put(g, at, g->heap[child]);
		at = child;
	}
	gossip_heap_put(g, at, peer);
}

/* Room for one more. Returns false when out of memory. */
static bool gossip_heap_grow(struct tfc__gossip *g)
{
	if (g->suspects < g->heap_capacity)
		return true;
	uint32_t capacity = g->heap_capacity ? 2 * g->heap_capacity : 8;
	struct gossip_peer **grown = realloc(g->heap, capacity * sizeof(struct gossip_peer *));
	if (!grown)
		return false;
	g->heap = grown;
	g->heap_capacity = capacity;
	return true;
}

/* ---- suspicions */

/* A suspicion begins with the longest time, and each independent suspector shortens it (Lifeguard,
 * "LHA-Suspicion"): max - (max - min) * log(c + 1) / log(k + 1). */
static uint64_t gossip_suspicion_time(const struct gossip_suspicion *s)
{
	uint32_t confirmed = s->from_count - 1U;
	if (!s->needed || confirmed >= s->needed)
		return s->min_ns;
	uint64_t part = tfc__gossip_log10_milli(confirmed + 1) * UINT64_C(1000) /
			tfc__gossip_log10_milli(s->needed + 1U);
	return s->max_ns - (s->max_ns - s->min_ns) / 1000 * part;
}

/* This long before a suspicion ends, it is checked. */
static uint64_t gossip_check_lead(const struct tfc__gossip *g)
{
	return g->options.interval_ns / 2;
}

static uint64_t gossip_check_time(const struct tfc__gossip *g, const struct gossip_suspicion *s)
{
	return s->begin + gossip_suspicion_time(s) - gossip_check_lead(g);
}

/* The refutation may have been lost on the way here. Whoever knows it sends it. */
static void gossip_suspicion_check(struct tfc__gossip *g, struct gossip_peer *peer)
{
	struct tfc__gossip_message m;
	tfc__gossip_peer_update(peer, &m);
	for (uint32_t i = 0; i < GOSSIP_INDIRECT; i++) {
		const struct gossip_peer *other = tfc__gossip_peer_random(g, peer);
		if (!other)
			break;
		tfc__gossip_frame_begin(g, g->options.datagram_max);
		tfc__gossip_frame_add(g, &m);
		tfc__gossip_frame_send(g, &other->address, true);
	}
	peer->suspicion->is_checked = true;
	peer->suspicion->deadline = g->now + gossip_check_lead(g);
	gossip_heap_down(g, peer);
}

static void gossip_suspicion_confirm(struct tfc__gossip *g, struct gossip_peer *peer,
				     const struct tfc__gossip_id *from)
{
	struct gossip_suspicion *s = peer->suspicion;
	if (s->from_count > s->needed)
		return;
	for (uint32_t i = 0; i < s->from_count; i++)
		if (tfc__gossip_id_equal(&s->from[i], from))
			return;
	s->from[s->from_count++] = *from;
	if (!s->is_checked) {
		s->deadline = gossip_check_time(g, s);
		gossip_heap_up(g, peer);
	}
	tfc__gossip_spread(g, peer);
}

void tfc__gossip_suspect(struct tfc__gossip *g, struct gossip_peer *peer, uint64_t incarnation,
			 const struct tfc__gossip_id *from)
{
	if (incarnation < peer->incarnation)
		return;
	if (!tfc__gossip_is_there(peer)) {
		peer->incarnation = incarnation;
		return;
	}
	if (peer->suspicion) {
		tfc__gossip_peer_set(g, peer, incarnation, TFC_MEMBER_SUSPECT);
		gossip_suspicion_confirm(g, peer, from);
		return;
	}
	struct gossip_suspicion *s = gossip_heap_grow(g) ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		g->is_nomem = true;
		return;
	}
	uint32_t log = tfc__gossip_log10_milli(g->there);
	s->min_ns = g->options.interval_ns / 1000 * (log < 1000 ? 1000 : log) * g->options.alpha;
	s->max_ns = s->min_ns * g->options.beta;
	s->begin = g->now;
	/* All but the suspector and the member itself can confirm it. */
	uint32_t others = g->there - 2;
	s->needed = (uint8_t)(others < GOSSIP_CONFIRMATIONS ? others : GOSSIP_CONFIRMATIONS);
	s->from[s->from_count++] = *from;
	s->deadline = gossip_check_time(g, s);
	peer->suspicion = s;
	s->at = g->suspects++;
	gossip_heap_up(g, peer);
	tfc__gossip_peer_set(g, peer, incarnation, TFC_MEMBER_SUSPECT);
	tfc__gossip_spread(g, peer);
	tfc__gossip_check_cut_off(g);
}

void tfc__gossip_suspicion_end(struct tfc__gossip *g, struct gossip_peer *peer)
{
	struct gossip_suspicion *s = peer->suspicion;
	if (!s)
		return;
	struct gossip_peer *last = g->heap[--g->suspects];
	if (last != peer) {
		gossip_heap_put(g, s->at, last);
		gossip_heap_up(g, last);
		gossip_heap_down(g, last);
	}
	peer->suspicion = NULL;
	free(s);
}

void tfc__gossip_suspicion_extend(struct tfc__gossip *g, uint64_t gap)
{
	for (uint32_t i = 0; i < g->suspects; i++) {
		g->heap[i]->suspicion->begin += gap;
		g->heap[i]->suspicion->deadline += gap;
	}
}

void tfc__gossip_suspicion_tick(struct tfc__gossip *g)
{
	while (g->suspects && g->heap[0]->suspicion->deadline <= g->now) {
		struct gossip_peer *peer = g->heap[0];
		if (!peer->suspicion->is_checked) {
			gossip_suspicion_check(g, peer);
			continue;
		}
		tfc__gossip_peer_set(g, peer, peer->incarnation, TFC_MEMBER_DOWN);
		tfc__gossip_spread(g, peer);
	}
}

/* ---- too many at once */

static uint64_t gossip_recent_part(const struct tfc__gossip *g)
{
	uint64_t window = g->options.interval_ns * g->options.alpha * g->options.beta;
	return g->now / (window / GOSSIP_RECENT_PARTS + 1);
}

static void gossip_recent_advance(struct tfc__gossip *g)
{
	uint64_t part = gossip_recent_part(g);
	for (uint32_t i = 0; i < GOSSIP_RECENT_PARTS && g->recent_part < part; i++) {
		g->recent_part++;
		uint32_t *count = &g->recent[g->recent_part % GOSSIP_RECENT_PARTS];
		g->recent_total -= *count;
		*count = 0;
	}
	g->recent_part = part;
}

void tfc__gossip_count_down(struct tfc__gossip *g)
{
	gossip_recent_advance(g);
	g->recent[g->recent_part % GOSSIP_RECENT_PARTS]++;
	g->recent_total++;
	tfc__gossip_check_cut_off(g);
}

void tfc__gossip_check_cut_off(struct tfc__gossip *g)
{
	if (!g->is_cut_off && g->suspects + g->recent_total < 2)
		return;
	gossip_recent_advance(g);
	uint32_t vanished = g->suspects + g->recent_total;
	/* Who is alone probes slowly: it suspects few at once, but each that it probes. */
	bool is_cut_off = vanished >= 2 && (3 * vanished > g->there + g->recent_total ||
					    g->failures >= GOSSIP_FAILURES);
	if (is_cut_off == g->is_cut_off)
		return;
	g->is_cut_off = is_cut_off;
	struct gossip_action *a = tfc__gossip_act(g, TFC__GOSSIP_DO_CUT_OFF);
	if (a)
		a->is_cut_off = is_cut_off;
}
