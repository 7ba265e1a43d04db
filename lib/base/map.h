/*
 * A map from numbers to numbers: open addressing with linear probing, no tombstones. Any number is
 * a key. Zeros are an empty map. Also part of the guard: needs nothing but malloc.
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

/* Room for `count` keys in all: until there are so many, tfc__map_set does not fail. False: out of
 * memory, and nothing has changed. */
bool tfc__map_reserve(struct tfc__map *map, uint32_t count);

/* Adds a key, or gives it another value. False: out of memory, and nothing has changed. */
bool tfc__map_set(struct tfc__map *map, uint64_t key, uint32_t value);

/* The value of a key, or `none`. */
uint32_t tfc__map_get(const struct tfc__map *map, uint64_t key, uint32_t none);

void tfc__map_remove(struct tfc__map *map, uint64_t key); /* one that is not there: no-op */
void tfc__map_fini(struct tfc__map *map);

#endif
