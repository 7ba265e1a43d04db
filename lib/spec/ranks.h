/*
 * The cluster as seen by frameworks that use ranks instead of roles. The chief, if there is one, is
 * rank 0; the workers follow by rising index. Ranks are on the same host if the host parts of their
 * addresses are equal. The ranks are computed once for all tasks of a spec, in O(n log n).
 */
#ifndef TFC_SPEC_RANKS_H
#define TFC_SPEC_RANKS_H

#include "base/strv.h"
#include "spec/spec.h"

struct tfc__rank {
	const struct tfc__spec_task *task; /* borrowed from the spec */
	uint32_t host;                     /* number of its host, in the order of first ranks */
	uint32_t local_rank;               /* its number among the ranks of its host */
	uint32_t cross_rank;               /* its number among equal local ranks, by host */
};

struct tfc__ranks {
	struct tfc__rank *items; /* by rank */
	uint32_t *local_sizes;   /* by host */
	uint32_t *cross_sizes;   /* by local rank */
	uint32_t count;
	uint32_t host_count;
	char *hosts; /* the hosts' names, comma-separated */
};

/* The ranks of a spec, owned by the spec and valid until it changes; NULL when out of memory. */
const struct tfc__ranks *tfc__ranks_of(const tfc_spec *spec);

void tfc__ranks_free(struct tfc__ranks *ranks);

/* The host part of an address, without port and brackets. Borrowed. */
struct tfc__host_name {
	const char *text; /* not NUL-terminated */
	int len;
};
struct tfc__host_name tfc__host_name(const char *address);

/* The names of all frameworks, in the order of enum tfc_framework, followed by NULL. */
extern const char *const tfc__framework_names[];

/* The name of a framework, or NULL for a value outside the enum. */
const char *tfc__framework_name(enum tfc_framework framework);

/* Adds the environment variables of pytorch, jax or horovod. Errors: those of tfc_spec_environ. */
int tfc__ranks_environ(const tfc_spec *spec, enum tfc_framework framework, const char *task_type,
		       uint32_t task_index, tfc_error *error, struct tfc__strv *env);

#endif
