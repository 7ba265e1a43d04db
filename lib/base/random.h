/*
 * Random numbers for distributing work; not for secrets. splitmix64 (Steele, Lea, Flood: "Fast
 * splittable pseudorandom number generators", 2014). The state is the seed and is owned by the
 * caller; equal seeds give equal sequences.
 */
#ifndef TFC_BASE_RANDOM_H
#define TFC_BASE_RANDOM_H

#include <stdint.h>

static inline uint64_t tfc__random_next(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#endif
