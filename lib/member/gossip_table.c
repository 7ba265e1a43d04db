/* The table of members: by key, by name, and in the order in which they are probed. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/member.h>

#include "member/gossip_state.h"

struct gossip_peer *tfc__gossip_peer_find(struct tfc__gossip *g, const struct tfc__gossip_id *id)
{
	const struct gossip_peer key = {.id = *id};
	return tfc__gossip_index_find(g, &g->by_id, &key);
}

bool tfc__gossip_peer_is_at(const struct gossip_peer *peer,
			    const struct tfc__gossip_address *address)
{
	return peer && memcmp(&peer->address, address, sizeof(*address)) == 0;
}

/* ---- order */

static void gossip_order_swap(struct tfc__gossip *g, uint32_t a, uint32_t b)
{
	struct gossip_peer *first = g->order[a], *second = g->order[b];
	g->order[a] = second;
	second->position = a;
	g->order[b] = first;
	first->position = b;
}

void tfc__gossip_shuffle(struct tfc__gossip *g)
{
	for (uint32_t i = g->there; i > 2; i--)
		gossip_order_swap(g, i - 1, 1 + tfc__gossip_random(g, i - 1));
}

/* A member that was not there takes a random place among those that this round still probes. */
static void gossip_order_enter(struct tfc__gossip *g, struct gossip_peer *peer)
{
	gossip_order_swap(g, peer->position, g->there);
	g->there++;
	uint32_t first = g->probe_next < peer->position ? g->probe_next : peer->position;
	gossip_order_swap(g, peer->position,
			  first + tfc__gossip_random(g, peer->position - first + 1));
}

static void gossip_order_leave(struct tfc__gossip *g, struct gossip_peer *peer)
{
	/* Keeps apart those that were probed in this round and those that were not. */
	if (peer->position < g->probe_next) {
		g->probe_next--;
		gossip_order_swap(g, peer->position, g->probe_next);
	}
	g->there--;
	gossip_order_swap(g, peer->position, g->there);
}

struct gossip_peer *tfc__gossip_peer_random(struct tfc__gossip *g,
					    const struct gossip_peer *not_this)
{
	bool is_excluded = not_this && not_this != g->self && tfc__gossip_is_there(not_this);
	if (g->there < 2 + (uint32_t)is_excluded)
		return NULL;
	struct gossip_peer *peer = g->order[1 + tfc__gossip_random(g, g->there - 1)];
	if (peer != not_this)
		return peer;
	uint32_t next = peer->position + 1 + tfc__gossip_random(g, g->there - 2);
	return g->order[next < g->there ? next : next - g->there + 1];
}

/* ---- rows */

static bool gossip_table_grow(struct tfc__gossip *g)
{
	if (g->count < g->capacity)
		return true;
	uint32_t capacity = g->capacity ? g->capacity + g->capacity / 2 : 8;
	struct gossip_peer **grown = realloc(g->order, capacity * sizeof(struct gossip_peer *));
	if (!grown)
		return false;
	g->order = grown;
	g->capacity = capacity;
	return true;
}

bool tfc__gossip_peer_describe(struct tfc__gossip *g, struct gossip_peer *peer,
			       const struct tfc__gossip_message *record, uint32_t *ret_changes)
{
	uint32_t changes = 0;
	bool is_renamed = !peer->text || peer->name_len != record->name_len ||
			  memcmp(peer->text, record->name, record->name_len) != 0;
	if (is_renamed || peer->meta_len != record->meta_len ||
	    memcmp(peer->text + peer->name_len + 1, record->meta, record->meta_len) != 0) {
		char *text = malloc(record->name_len + 1 + record->meta_len);
		if (!text) {
			g->is_nomem = true;
			return false;
		}
		memcpy(text, record->name, record->name_len);
		text[record->name_len] = '\0';
		if (record->meta_len)
			memcpy(text + record->name_len + 1, record->meta, record->meta_len);
		if (is_renamed && peer->text)
			tfc__gossip_index_remove(g, &g->by_name, peer);
		free(peer->text);
		peer->text = text;
		peer->name_len = (uint8_t)record->name_len;
		peer->meta_len = (uint16_t)record->meta_len;
		changes |= TFC__GOSSIP_META_CHANGED;
	}
	if (tfc__gossip_address_compare(&peer->address, &record->address) != 0) {
		bool is_hashed = g->count > peer->position && g->order[peer->position] == peer &&
				 tfc__gossip_is_there(peer);
		if (is_hashed)
			tfc__gossip_hash(g, peer);
		peer->address = record->address;
		if (is_hashed)
			tfc__gossip_hash(g, peer);
		changes |= TFC__GOSSIP_ADDRESS_CHANGED;
	}
	*ret_changes = changes;
	return true;
}

void tfc__gossip_peer_free(struct gossip_peer *peer)
{
	free(peer->suspicion);
	free(peer->text);
	free(peer);
}

static void gossip_report_full(struct tfc__gossip *g)
{
	const uint64_t minute = UINT64_C(60000000000);
	if (g->is_full_reported && g->now - g->full_reported_at < minute)
		return;
	g->is_full_reported = true;
	g->full_reported_at = g->now;
	tfc__gossip_act(g, TFC__GOSSIP_DO_FULL);
}

struct gossip_peer *tfc__gossip_peer_add(struct tfc__gossip *g,
					 const struct tfc__gossip_message *record)
{
	if (g->count >= g->options.member_max) {
		if (g->there == g->count) {
			gossip_report_full(g);
			return NULL;
		}
		uint32_t gone = tfc__gossip_random(g, g->count - g->there);
		tfc__gossip_peer_remove(g, g->order[g->there + gone]);
	}
	struct gossip_peer *peer = calloc(1, sizeof(*peer));
	uint32_t changes;
	if (!peer || !gossip_table_grow(g) || !tfc__gossip_index_reserve(g, &g->by_id) ||
	    !tfc__gossip_index_reserve(g, &g->by_name) ||
	    !tfc__gossip_peer_describe(g, peer, record, &changes)) {
		if (peer)
			tfc__gossip_peer_free(peer);
		g->is_nomem = true;
		return NULL;
	}
	tfc__list_init(&peer->spread);
	peer->id = record->id;
	peer->incarnation = record->incarnation;
	peer->state = TFC_MEMBER_ALIVE;
	peer->since = g->now;
	peer->is_hidden = true; /* until it has its name */
	peer->position = g->count;
	g->order[g->count++] = peer;
	tfc__gossip_index_set(g, &g->by_id, peer);
	gossip_order_enter(g, peer);
	tfc__gossip_hash(g, peer);
	return peer;
}

void tfc__gossip_peer_remove(struct tfc__gossip *g, struct gossip_peer *peer)
{
	assert(!tfc__gossip_is_there(peer));
	tfc__gossip_report(g, peer, TFC__GOSSIP_REMOVED);
	tfc__gossip_spread_stop(g, peer);
	tfc__gossip_index_remove(g, &g->by_name, peer);
	tfc__gossip_index_remove(g, &g->by_id, peer);
	g->count--;
	gossip_order_swap(g, peer->position, g->count);
	tfc__list_append(&g->removed, &peer->spread);
}

static void gossip_name_pass_on(struct tfc__gossip *g, const struct gossip_peer *gone);

void tfc__gossip_peer_set(struct tfc__gossip *g, struct gossip_peer *peer, uint64_t incarnation,
			  uint32_t state)
{
	bool was_there = tfc__gossip_is_there(peer);
	uint32_t changes = 0;
	if (was_there)
		tfc__gossip_hash(g, peer);
	if (tfc__gossip_generation(incarnation) > tfc__gossip_generation(peer->incarnation)) {
		peer->is_conflict = false;
		changes |= state == TFC_MEMBER_ALIVE ? TFC__GOSSIP_RESTARTED : 0;
	}
	peer->incarnation = incarnation;
	if (peer->state != state) {
		peer->state = (uint8_t)state;
		peer->since = g->now;
		changes |= TFC__GOSSIP_STATE_CHANGED;
	}
	bool is_there = tfc__gossip_is_there(peer);
	if (is_there)
		tfc__gossip_hash(g, peer);
	if (state != TFC_MEMBER_SUSPECT)
		tfc__gossip_suspicion_end(g, peer);
	if (peer == g->self)
		return;
	if (is_there && !was_there)
		gossip_order_enter(g, peer);
	if (was_there && !is_there) {
		gossip_order_leave(g, peer);
		tfc__gossip_probe_forget(g, peer);
		if (state == TFC_MEMBER_DOWN)
			tfc__gossip_count_down(g);
	}
	if (changes)
		tfc__gossip_report(g, peer, changes);
	if (was_there && !is_there) {
		tfc__gossip_check_lost(g, peer);
		gossip_name_pass_on(g, peer);
	}
}

/* ---- names */

/* Of two members with one name, that of the higher generation has it. */
static bool gossip_name_is_won(const struct gossip_peer *a, const struct gossip_peer *b)
{
	uint32_t first = tfc__gossip_generation(a->incarnation);
	uint32_t second = tfc__gossip_generation(b->incarnation);
	if (first != second)
		return first > second;
	return memcmp(a->id.bytes, b->id.bytes, sizeof(a->id.bytes)) > 0;
}

static void gossip_hide(struct tfc__gossip *g, struct gossip_peer *peer)
{
	tfc__gossip_report(g, peer, TFC__GOSSIP_REMOVED);
	peer->is_hidden = true;
}

void tfc__gossip_peer_claim_name(struct tfc__gossip *g, struct gossip_peer *peer)
{
	struct gossip_peer *holder = tfc__gossip_index_find(g, &g->by_name, peer);
	if (holder && holder != peer && tfc__gossip_is_there(holder)) {
		peer->is_contested = holder->is_contested = true;
		bool is_won = gossip_name_is_won(peer, holder);
		struct gossip_peer *loser = is_won ? holder : peer;
		/* A loser that was shown, or has just come, is reported once. */
		struct gossip_action *a = tfc__gossip_act(g, TFC__GOSSIP_DO_CONFLICT);
		if (a) {
			a->peer = is_won ? peer : holder;
			a->other = loser;
			a->is_self_lost = loser == g->self;
		}
		if (loser == g->self)
			tfc__gossip_lose_name(g, peer);
		if (!is_won) {
			if (!peer->is_hidden)
				gossip_hide(g, peer);
			return;
		}
	}
	if (holder && holder != peer && holder != g->self && !holder->is_hidden)
		gossip_hide(g, holder);
	if (!tfc__gossip_index_reserve(g, &g->by_name)) {
		g->is_nomem = true;
		return;
	}
	tfc__gossip_index_set(g, &g->by_name, peer);
	if (peer->is_hidden) {
		peer->is_hidden = false;
		tfc__gossip_report(g, peer, TFC__GOSSIP_ADDED);
	}
}

/* A member is gone: another one that had to do without the name may have it now. Only members whose
 * names were contested are worth the search: many may go at once. */
static void gossip_name_pass_on(struct tfc__gossip *g, const struct gossip_peer *gone)
{
	if (!gone->is_contested || gone->is_hidden)
		return;
	for (uint32_t i = 1; i < g->there; i++)
		if (g->order[i]->is_hidden && tfc__gossip_name_equal(g->order[i], gone)) {
			tfc__gossip_peer_claim_name(g, g->order[i]);
			return;
		}
}

/* ---- views */

void tfc__gossip_peer_view(const struct gossip_peer *peer, struct tfc__gossip_member *ret_member)
{
	*ret_member = (struct tfc__gossip_member){
		.id = peer->id,
		.incarnation = peer->incarnation,
		.state = peer->state,
		.address = peer->address,
		.name = peer->text,
		.meta = (const uint8_t *)peer->text + peer->name_len + 1,
		.meta_len = peer->meta_len,
		.since = peer->since,
		.received_at = peer->received_at,
		.rtt_ns = (uint64_t)peer->rtt_us * 1000,
	};
}

void tfc__gossip_peer_record(const struct gossip_peer *peer, struct tfc__gossip_message *ret_record)
{
	*ret_record = (struct tfc__gossip_message){
		.type = TFC__GOSSIP_RECORD,
		.id = peer->id,
		.incarnation = peer->incarnation,
		.state = peer->state,
		.address = peer->address,
		.name = (const uint8_t *)peer->text,
		.name_len = peer->name_len,
		.meta = (const uint8_t *)peer->text + peer->name_len + 1,
		.meta_len = peer->meta_len,
	};
}
