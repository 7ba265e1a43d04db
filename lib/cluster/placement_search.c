/*
 * Searches for any way to place tasks of several kinds, when placing one task after the other has
 * failed. Tasks of one kind are interchangeable, so the search varies only how many of them run on
 * each node.
 */
#include "cluster/internal.h"

/* The recursion is as deep as kinds times nodes, and the stack is the host's. */
#define DEPTH_MAX 256

struct search {
	struct tfc__placing *place;
	uint32_t item_count;
	uint32_t steps;
};

static struct tfc__place_item *item_at(const struct search *search, uint32_t i)
{
	return &search->place->items[i];
}

static bool is_open(const struct search *search, uint32_t i)
{
	return item_at(search, i)->node == UINT32_MAX;
}

static bool is_same_kind(const struct tfc__place_need *a, const struct tfc__place_need *b)
{
	return a->memory == b->memory && a->gpus == b->gpus && a->is_pooled == b->is_pooled &&
	       a->fixed == b->fixed;
}

/* The index of the first item from `i` on that has no node. */
static uint32_t next_open(const struct search *search, uint32_t i)
{
	while (i < search->item_count && !is_open(search, i))
		i++;
	return i;
}

/* The number of items without a node of the kind that begins at item `first`. *ret_end is the index
 * of the next kind. */
static uint32_t count_kind(const struct search *search, uint32_t first, uint32_t *ret_end)
{
	uint32_t count = 0, i = first;
	for (; i < search->item_count; i++) {
		if (!is_same_kind(&item_at(search, i)->need, &item_at(search, first)->need))
			break;
		count += is_open(search, i);
	}
	*ret_end = i;
	return count;
}

static uint32_t node_count_of(const struct search *search)
{
	return search->place->request->node_count;
}

static bool has_room(const struct search *search, const struct tfc__place_need *need,
		     uint32_t first_node, uint32_t count)
{
	uint64_t sum = 0;
	for (uint32_t i = first_node; i < node_count_of(search) && sum < count; i++) {
		uint64_t fit = tfc__place_fit(&search->place->rooms[i], need);
		sum += fit < count ? fit : count;
	}
	return sum >= count;
}

/* Assigns a node to `count` items of the kind that begins at item `first`, or clears it. */
static void mark(struct search *search, uint32_t first, uint32_t count, uint32_t node, bool gives)
{
	for (uint32_t i = first; count; i++) {
		if (item_at(search, i)->node != (gives ? UINT32_MAX : node))
			continue;
		item_at(search, i)->node = gives ? node : UINT32_MAX;
		count--;
	}
}

static bool place_kinds(struct search *search, uint32_t first);

/* Places `left` items of the kind that begins at item `first` on this node and the following ones,
 * and then the other kinds. */
static bool place_kind(struct search *search, uint32_t first, uint32_t next, uint32_t node,
		       uint32_t left)
{
	const struct tfc__place_need *need = &item_at(search, first)->need;
	if (!left)
		return place_kinds(search, next);
	if (++search->steps > TFC__PLACE_STEPS || !has_room(search, need, node, left))
		return false;
	struct tfc__place_room *room = &search->place->rooms[node];
	uint64_t fit = tfc__place_fit(room, need);
	for (uint32_t count = fit < left ? (uint32_t)fit : left;; count--) {
		tfc__place_acquire(room, need, count);
		mark(search, first, count, node, true);
		if (place_kind(search, first, next, node + 1, left - count))
			return true;
		mark(search, first, count, node, false);
		tfc__place_acquire(room, need, -(int64_t)count);
		if (!count)
			return false;
	}
}

static bool place_kinds(struct search *search, uint32_t first)
{
	uint32_t next;
	first = next_open(search, first);
	if (first == search->item_count)
		return true;
	uint32_t count = count_kind(search, first, &next);
	return place_kind(search, first, next, 0, count);
}

bool tfc__place_search(struct tfc__placing *place)
{
	struct search search = {place, place->request->task_count, 0};
	uint32_t kinds = 0;
	for (uint32_t i = next_open(&search, 0), end; i < search.item_count;
	     i = next_open(&search, end)) {
		count_kind(&search, i, &end);
		kinds++;
	}
	/* with one kind, placing one task after the other has tried every way */
	if (kinds < 2 || (uint64_t)kinds * node_count_of(&search) > DEPTH_MAX)
		return false;
	return place_kinds(&search, 0);
}
