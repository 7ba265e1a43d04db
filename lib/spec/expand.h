/*
 * Placeholders in argv and environment values: {task_type} {task_index} {port} {address} {attempt}
 * {job}, and {ROLE_hosts} for TensorFlow's roles and every role of the job. {{name}} stands for a
 * literal {name}; ${name} and any other brace are copied unchanged.
 */
#ifndef TFC_SPEC_EXPAND_H
#define TFC_SPEC_EXPAND_H

#include <stdbool.h>
#include <tfcluster/spec.h>

struct tfc__expand {
	const tfc_spec *spec;     /* for the {ROLE_hosts} of the cluster: comma-separated */
	const char *const *hosts; /* those of other roles: "ROLE=address,address"; or NULL */
	const char *job;          /* id */
	const char *task_type;
	uint32_t task_index;
	uint32_t attempt;
	const char *address; /* "" when the task has no port */
	size_t left;         /* bytes that may still be inserted, of TFC__EXPAND_MAX */
};

/* What execve accepts at most as arguments and environment: 3/4 of the kernel's _STK_LIM. */
#define TFC__EXPAND_MAX ((size_t)6 << 20)

/*
 * Replaces all placeholders of a text, and subtracts the inserted bytes from values->left. The
 * caller frees *ret_text. Returns TFC_OK; TFC_ENOMEM; TFC_ETOOBIG if an insertion makes the text
 * longer than TFC__ENV_STRING_MAX, or exceeds values->left.
 */
int tfc__expand(struct tfc__expand *values, const char *text, tfc_error *error, char **ret_text);

#define TFC__PLACEHOLDER_SIZE 80

/* A {name} that is not a placeholder, but was probably meant to be one. */
struct tfc__placeholder_typo {
	char name[TFC__PLACEHOLDER_SIZE];
	char near[TFC__PLACEHOLDER_SIZE]; /* the most similar placeholder; "": none is similar */
};

/*
 * Finds the first typo in a text. A name is one if it ends in _hosts, or if it is at most two edits
 * from a placeholder and no more than half of its letters differ. `roles` are the names of the
 * job's roles, NULL-terminated. Returns false if there is none.
 */
bool tfc__expand_find_typo(const char *text, const char *const *roles,
			   struct tfc__placeholder_typo *ret_typo);

#endif
