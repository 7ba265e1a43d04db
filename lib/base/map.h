/*
 * A map from 64-bit to 32-bit numbers: open addressing with linear probing, no tombstones. Every
 * number is a valid key. A zero-initialized map is empty. Also part of the guard: depends on malloc
 * only.
 */
#ifndef TFC_BASE_MAP_H
#define TFC_BASE_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct tfc__map_entry {
	uint64_t key;
	uint32_t value;
	bool is_used;
};

struct tfc__map {
	struct tfc__map_entry *entries;
	uint32_t capacity; /* a power of two, or 0 */
	uint32_t count;
};

/* Reserves room for `count` keys in total: tfc__map_set does not fail until the map holds that
 * many. Returns false when out of memory; the map is then unchanged. */
bool tfc__map_reserve(struct tfc__map *map, uint32_t count);

/* Adds a key or replaces its value. Returns false when out of memory; the map is then unchanged. */
bool tfc__map_set(struct tfc__map *map, uint64_t key, uint32_t value);

/* The value of a key, or `none` when the key is absent. */
uint32_t tfc__map_get(const struct tfc__map *map, uint64_t key, uint32_t none);

void tfc__map_remove(struct tfc__map *map, uint64_t key); /* a no-op when the key is absent */
void tfc__map_clear(struct tfc__map *map);                /* keeps its memory */
void tfc__map_fini(struct tfc__map *map);

#endif
