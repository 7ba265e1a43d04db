/*
 * The cluster as seen by frameworks that use ranks instead of roles. The chief, if there is one, is
 * rank 0; the workers follow by rising index. Ranks are on the same host if the host parts of their
 * addresses are equal. The ranks are computed once for all tasks of a spec, in O(n log n).
 */
#ifndef TFC_SPEC_RANKS_H
#define TFC_SPEC_RANKS_H

#include "base/strv.h"
#include "spec/spec.h"

/* The ranks of a spec are kept with its common part (struct tfc__spec_common). */
void tfc__ranks_free(struct tfc__ranks *ranks);

/* The names of all frameworks, in the order of enum tfc_framework, followed by NULL. */
extern const char *const tfc__framework_names[];

/* The name of a framework, or NULL for a value outside the enum. */
const char *tfc__framework_name(enum tfc_framework framework);

/* Adds the environment variables of pytorch, jax or horovod. Errors: those of tfc_spec_environ. */
int tfc__ranks_environ(const tfc_spec *spec, enum tfc_framework framework, const char *task_type,
		       uint32_t task_index, tfc_error *error, struct tfc__strv *env);

#endif
