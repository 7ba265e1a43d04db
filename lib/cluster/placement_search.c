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

static struct tfc__place_item *search_item(const struct search *search, uint32_t i)
{
	return &search->place->items[i];
}

static bool search_is_open(const struct search *search, uint32_t i)
{
	return search_item(search, i)->node == UINT32_MAX;
}

/* The index of the first item from `i` on that has no node. */
static uint32_t search_next_open(const struct search *search, uint32_t i)
{
	while (i < search->item_count && !search_is_open(search, i))
		i++;
	return i;
}

/* The number of items without a node of the kind that begins at item `first`. *ret_end is the index
 * of the next kind. */
static uint32_t search_count_kind(const struct search *search, uint32_t first, uint32_t *ret_end)
{
	uint32_t count = 0, i = first;
	for (; i < search->item_count; i++) {
		if (tfc__place_compare_needs(&search_item(search, i)->need,
					     &search_item(search, first)->need))
			break;
		count += search_is_open(search, i);
	}
	*ret_end = i;
	return count;
}

static bool search_has_room(const struct search *search, const struct tfc__place_need *need,
			    uint32_t first_node, uint32_t count)
{
	uint64_t sum = 0;
	for (uint32_t i = first_node; i < search->place->request->node_count && sum < count; i++) {
		uint64_t fit = tfc__place_fit(&search->place->rooms[i], need);
		sum += fit < count ? fit : count;
	}
	return sum >= count;
}

/* Assigns a node to `count` items of the kind that begins at item `first`, or clears it. */
static void search_mark(struct search *search, uint32_t first, uint32_t count, uint32_t node,
			bool is_placing)
{
	for (uint32_t i = first; count; i++) {
		if (search_item(search, i)->node != (is_placing ? UINT32_MAX : node))
			continue;
		search_item(search, i)->node = is_placing ? node : UINT32_MAX;
		count--;
	}
}

static bool search_kinds(struct search *search, uint32_t first);

/* Places `left` items of the kind that begins at item `first` on this node and the following ones,
 * and then the other kinds. */
static bool search_kind(struct search *search, uint32_t first, uint32_t next, uint32_t node,
			uint32_t left)
{
	const struct tfc__place_need *need = &search_item(search, first)->need;
	if (!left)
		return search_kinds(search, next);
	if (++search->steps > TFC__PLACE_STEPS || !search_has_room(search, need, node, left))
		return false;
	struct tfc__place_room *room = &search->place->rooms[node];
	uint64_t fit = tfc__place_fit(room, need);
	for (uint32_t count = fit < left ? (uint32_t)fit : left;; count--) {
		tfc__place_acquire(room, need, count);
		search_mark(search, first, count, node, true);
		if (search_kind(search, first, next, node + 1, left - count))
			return true;
		search_mark(search, first, count, node, false);
		tfc__place_acquire(room, need, -(int64_t)count);
		if (!count)
			return false;
	}
}

static bool search_kinds(struct search *search, uint32_t first)
{
	uint32_t next;
	first = search_next_open(search, first);
	if (first == search->item_count)
		return true;
	uint32_t count = search_count_kind(search, first, &next);
	return search_kind(search, first, next, 0, count);
}

bool tfc__place_search(struct tfc__placing *place)
{
	struct search search = {place, place->request->task_count, 0};
	uint32_t kinds = 0;
	for (uint32_t i = search_next_open(&search, 0), end; i < search.item_count;
	     i = search_next_open(&search, end)) {
		search_count_kind(&search, i, &end);
		kinds++;
	}
	/* with one kind, placing one task after the other has tried every way */
	if (kinds < 2 || (uint64_t)kinds * place->request->node_count > DEPTH_MAX)
		return false;
	return search_kinds(&search, 0);
}
