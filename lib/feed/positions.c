#include "feed/positions.h"

#include <stdlib.h>

int tfc__feed_positions_add(struct tfc__feed_positions *positions,
			    const tfc_feed_position *position)
{
	const tfc_feed_position *last = positions->count ? &positions->list[positions->count - 1]
							 : NULL;
	uint64_t rows;
	if (!position->partitions || position->partitions > UINT64_MAX - position->partition ||
	    (position->partitions > 1 && !position->is_whole) || position->reserved ||
	    (last && position->partition < last->partition + last->partitions) ||
	    __builtin_mul_overflow(position->rows, position->partitions, &rows) ||
	    __builtin_add_overflow(rows, positions->rows, &rows))
		return TFC_EINVAL;
	if (positions->count == positions->capacity) {
		uint32_t capacity = positions->capacity ? 2 * positions->capacity : 16;
		tfc_feed_position *list = realloc(positions->list, capacity * sizeof(*list));
		if (!list)
			return TFC_ENOMEM;
		positions->list = list;
		positions->capacity = capacity;
	}
	positions->list[positions->count++] = *position;
	positions->rows = rows;
	return TFC_OK;
}

bool tfc__feed_position_has(const tfc_feed_position *position, uint64_t partition)
{
	return partition >= position->partition &&
	       partition - position->partition < position->partitions;
}

const tfc_feed_position *tfc__feed_positions_find(const struct tfc__feed_positions *positions,
						  uint64_t partition)
{
	uint32_t low = 0, high = positions->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const tfc_feed_position *position = &positions->list[middle];
		if (tfc__feed_position_has(position, partition))
			return position;
		if (position->partition < partition)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

void tfc__feed_positions_clear(struct tfc__feed_positions *positions)
{
	positions->count = 0;
	positions->rows = 0;
}

void tfc__feed_positions_fini(struct tfc__feed_positions *positions)
{
	free(positions->list);
	*positions = (struct tfc__feed_positions){0};
}
