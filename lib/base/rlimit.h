/*
 * The resource limits of setrlimit(2) by name: RLIMIT_NOFILE is "nofile".
 */
#ifndef TFC_BASE_RLIMIT_H
#define TFC_BASE_RLIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TFC__RLIMITS 15 /* number of known limits */

const char *tfc__rlimit_name(uint32_t resource); /* NULL: unknown */
bool tfc__rlimit_find(const char *name, uint32_t *ret_resource);

/* All names in alphabetical order; NULL for an index past the last. */
const char *tfc__rlimit_nth(size_t i);

/* A set of limits; each resource occurs at most once. */
struct tfc__rlimit {
	uint32_t resource;
	uint64_t soft; /* UINT64_MAX: unlimited */
	uint64_t hard;
};

struct tfc__rlimits {
	uint32_t count;
	struct tfc__rlimit items[TFC__RLIMITS];
};

#endif
