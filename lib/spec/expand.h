/*
 * Placeholders in argv and environment values: {task_type} {task_index} {port} {address}
 * {chief_hosts} {worker_hosts} {ps_hosts} {attempt} {job}. {{name}} stands for a literal {name};
 * any other brace is copied unchanged.
 */
#ifndef TFC_SPEC_EXPAND_H
#define TFC_SPEC_EXPAND_H

#include <tfcluster/spec.h>

struct tfc__expand {
	const tfc_spec *spec; /* for the *_hosts lists: comma-separated */
	const char *job;      /* id */
	const char *task_type;
	uint32_t task_index;
	uint32_t attempt;
	const char *address; /* "" when the task has no port */
};

/* Returns the text with all placeholders replaced, which the caller frees; NULL when out of
 * memory. */
char *tfc__expand(const struct tfc__expand *values, const char *text);

#endif
