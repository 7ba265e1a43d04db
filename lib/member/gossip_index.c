/* The members by id and by name. The hashes are seeded: nobody can choose ids that collide. */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "member/gossip_state.h"

static uint64_t index_mix(uint64_t a, uint64_t b)
{
	uint64_t state = a;
	state = tfc__random_next(&state) ^ b;
	return tfc__random_next(&state);
}

/* The place of the hash of the member's id or name. */
static uint32_t index_first(const struct tfc__gossip *g, const struct gossip_index *index,
			    const struct gossip_peer *peer)
{
	uint64_t number = g->options.seed;
	if (index->is_by_name) {
		for (size_t i = 0; i < peer->name_len; i += 8) {
			size_t left = peer->name_len - i;
			uint8_t part[8] = {0};
			memcpy(part, peer->text + i, left < 8 ? left : 8);
			number = index_mix(number, tfc__gossip_read_u64(part));
		}
	} else {
		number = index_mix(tfc__gossip_read_u64(peer->id.bytes) ^ number,
				   tfc__gossip_read_u64(peer->id.bytes + 8));
	}
	return (uint32_t)number & (index->capacity - 1);
}

static bool index_is_same(const struct gossip_index *index, const struct gossip_peer *a,
			  const struct gossip_peer *b)
{
	return index->is_by_name ? tfc__gossip_name_equal(a, b)
				 : tfc__gossip_id_equal(&a->id, &b->id);
}

/* The place of the member, or the free one where it belongs. A free one always exists: at most 3/4
 * are used. */
static uint32_t index_place(const struct tfc__gossip *g, const struct gossip_index *index,
			    const struct gossip_peer *peer)
{
	uint32_t at = index_first(g, index, peer);
	while (index->peers[at] && !index_is_same(index, index->peers[at], peer))
		at = (at + 1) & (index->capacity - 1);
	return at;
}

bool tfc__gossip_index_reserve(const struct tfc__gossip *g, struct gossip_index *index)
{
	if (index->count < index->capacity - index->capacity / 4)
		return true;
	struct gossip_index grown = *index;
	grown.capacity = index->capacity ? 2 * index->capacity : 16;
	grown.peers = calloc(grown.capacity, sizeof(struct gossip_peer *));
	if (!grown.peers)
		return false;
	for (uint32_t i = 0; i < index->capacity; i++)
		if (index->peers[i])
			grown.peers[index_place(g, &grown, index->peers[i])] = index->peers[i];
	free(index->peers);
	*index = grown;
	return true;
}

struct gossip_peer *tfc__gossip_index_find(const struct tfc__gossip *g,
					   const struct gossip_index *index,
					   const struct gossip_peer *key)
{
	return index->count ? index->peers[index_place(g, index, key)] : NULL;
}

void tfc__gossip_index_set(const struct tfc__gossip *g, struct gossip_index *index,
			   struct gossip_peer *peer)
{
	struct gossip_peer **place = &index->peers[index_place(g, index, peer)];
	index->count += !*place;
	*place = peer;
}

/* Moves later members of the probe sequence into the hole, so that a search does not stop there. */
void tfc__gossip_index_remove(const struct tfc__gossip *g, struct gossip_index *index,
			      const struct gossip_peer *peer)
{
	if (tfc__gossip_index_find(g, index, peer) != peer)
		return;
	uint32_t mask = index->capacity - 1, at = index_place(g, index, peer);
	for (uint32_t next = (at + 1) & mask; index->peers[next]; next = (next + 1) & mask) {
		uint32_t first = index_first(g, index, index->peers[next]);
		if (((next - first) & mask) < ((next - at) & mask))
			continue; /* its probe sequence starts after the hole */
		index->peers[at] = index->peers[next];
		at = next;
	}
	index->peers[at] = NULL;
	index->count--;
}
