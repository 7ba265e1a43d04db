#include "base/map.h"

#include <stdlib.h>

/* Multiplication spreads consecutive keys (Knuth, vol. 3, 6.4); the high bits of the product are
 * the well-mixed ones. */
static uint32_t map_first_slot(const struct tfc__map *map, uint64_t key)
{
	uint64_t spread = key * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(spread >> 32) & (map->capacity - 1);
}

/* The slot that holds the key, or the free slot where it belongs. A free slot always exists: at
 * most 3/4 are used. */
static struct tfc__map_entry *map_find_slot(const struct tfc__map *map, uint64_t key)
{
	uint32_t at = map_first_slot(map, key);
	while (map->entries[at].is_used && map->entries[at].key != key)
		at = (at + 1) & (map->capacity - 1);
	return &map->entries[at];
}

bool tfc__map_reserve(struct tfc__map *map, uint32_t count)
{
	uint32_t capacity = map->capacity ? map->capacity : 16;
	while (capacity - capacity / 4 < count)
		capacity *= 2;
	if (capacity == map->capacity)
		return true;
	struct tfc__map grown = {calloc(capacity, sizeof(*grown.entries)), capacity, map->count};
	if (!grown.entries)
		return false;
	for (uint32_t i = 0; i < map->capacity; i++)
		if (map->entries[i].is_used)
			*map_find_slot(&grown, map->entries[i].key) = map->entries[i];
	free(map->entries);
	*map = grown;
	return true;
}

bool tfc__map_set(struct tfc__map *map, uint64_t key, uint32_t value)
{
	if (!tfc__map_reserve(map, map->count + 1))
		return false;
	struct tfc__map_entry *entry = map_find_slot(map, key);
	map->count += !entry->is_used;
	*entry = (struct tfc__map_entry){key, value, true};
	return true;
}

uint32_t tfc__map_get(const struct tfc__map *map, uint64_t key, uint32_t none)
{
	const struct tfc__map_entry *entry = map->count ? map_find_slot(map, key) : NULL;
	return entry && entry->is_used ? entry->value : none;
}

/* Moves later entries of the probe sequence into the hole, so that a lookup does not stop there. */
void tfc__map_remove(struct tfc__map *map, uint64_t key)
{
	struct tfc__map_entry *hole = map->count ? map_find_slot(map, key) : NULL;
	if (!hole || !hole->is_used)
		return;
	uint32_t mask = map->capacity - 1, at = (uint32_t)(hole - map->entries);
	for (uint32_t next = (at + 1) & mask; map->entries[next].is_used;
	     next = (next + 1) & mask) {
		uint32_t first = map_first_slot(map, map->entries[next].key);
		if (((next - first) & mask) < ((next - at) & mask))
			continue; /* its probe sequence starts after the hole */
		map->entries[at] = map->entries[next];
		at = next;
	}
	map->entries[at].is_used = false;
	map->count--;
}

void tfc__map_clear(struct tfc__map *map)
{
	for (uint32_t i = 0; i < map->capacity; i++)
		map->entries[i].is_used = false;
	map->count = 0;
}

void tfc__map_fini(struct tfc__map *map)
{
	free(map->entries);
	*map = (struct tfc__map){0};
}
