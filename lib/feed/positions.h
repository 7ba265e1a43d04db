/* What a checkpoint has of a queue: positions in ascending order of their partitions. */
#ifndef TFC_FEED_POSITIONS_H
#define TFC_FEED_POSITIONS_H

#include <tfcluster/feed.h>

#include <stdbool.h>

/* Zeroed: none. */
struct tfc__feed_positions {
	tfc_feed_position *list;
	uint32_t count;
	uint32_t capacity;
	uint64_t rows; /* of all positions */
};

/* TFC_EINVAL: it is not one, or not behind the last one. TFC_ENOMEM. */
int tfc__feed_positions_add(struct tfc__feed_positions *positions,
			    const tfc_feed_position *position);
/* NULL: the checkpoint has no row of the partition. */
const tfc_feed_position *tfc__feed_positions_find(const struct tfc__feed_positions *positions,
						  uint64_t partition);
bool tfc__feed_position_has(const tfc_feed_position *position, uint64_t partition);
void tfc__feed_positions_clear(struct tfc__feed_positions *positions);
void tfc__feed_positions_fini(struct tfc__feed_positions *positions);

#endif
