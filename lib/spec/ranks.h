/*
 * The cluster as frameworks see it that know ranks instead of roles: the chief, if there is one, is
 * rank 0, the workers follow by rising index. What a rank has in common with others on its host is
 * found by the host part of the addresses. Made once for all tasks of a spec: O(n log n).
 */
#ifndef TFC_SPEC_RANKS_H
#define TFC_SPEC_RANKS_H

#include "base/strv.h"
#include "spec/spec.h"

struct tfc__rank {
	const struct tfc__spec_task *task; /* borrowed from the spec */
	uint32_t host;                     /* number of its host, by the hosts' first ranks */
	uint32_t local_rank;               /* among the ranks of its host */
	uint32_t cross_rank;               /* among the ranks with the same local rank, by host */
};

struct tfc__ranks {
	struct tfc__rank *items; /* by rank */
	uint32_t *local_sizes;   /* by host */
	uint32_t *cross_sizes;   /* by local rank */
	uint32_t count;
	uint32_t host_count;
	char *hosts; /* the hosts' names, with commas between them */
};

/* The ranks of a spec, kept with it until it changes; NULL when out of memory. */
const struct tfc__ranks *tfc__ranks_of(const tfc_spec *spec);

void tfc__ranks_free(struct tfc__ranks *ranks);

/* A host's address without port and brackets. */
struct tfc__host_name {
	const char *text; /* not terminated */
	int len;
};
struct tfc__host_name tfc__host_name(const char *address);

/* The names of all frameworks in the order of their enum, and NULL. */
extern const char *const tfc__framework_names[];

/* The name of a framework, or NULL when it is none of the enum. */
const char *tfc__framework_name(enum tfc_framework framework);

/* Adds the variables of pytorch, jax or horovod. Errors: as tfc_spec_environ. */
int tfc__ranks_environ(const tfc_spec *spec, enum tfc_framework framework, const char *task_type,
		       uint32_t task_index, tfc_error *error, struct tfc__strv *env);

#endif
