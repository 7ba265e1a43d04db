/*
 * A growing list of strings, NULL-terminated at all times: argv and environments. A
 * zero-initialized list is empty and valid. Errors are sticky, as in buf.h.
 */
#ifndef TFC_BASE_STRV_H
#define TFC_BASE_STRV_H

#include <stdbool.h>
#include <stddef.h>

struct tfc__strv {
	char **items; /* NULL until something is added */
	size_t count;
	size_t capacity;
	bool is_failed;
};

void tfc__strv_add(struct tfc__strv *strv, const char *text); /* copies */
void tfc__strv_take(struct tfc__strv *strv, char *text); /* takes ownership; NULL marks failure */
void tfc__strv_add_all(struct tfc__strv *strv, const char *const *items); /* NULL: none */

/* Sets NAME=value in a list that is an environment; replaces an existing entry. */
void tfc__strv_set_env(struct tfc__strv *strv, const char *name, const char *value);
/* As tfc__strv_set_env, from "NAME=value"; takes ownership. NULL marks failure. */
void tfc__strv_set_variable(struct tfc__strv *strv, char *text);
/* For many variables that were added with tfc__strv_add or _take: of those with the same name,
 * keeps the last, in the place of the first. */
void tfc__strv_merge_env(struct tfc__strv *strv);
void tfc__strv_unset_env(struct tfc__strv *strv, const char *name);

/* The value of NAME in a NULL-terminated environment, or NULL. Borrowed. */
const char *tfc__env_get(const char *const *env, const char *name);

char **tfc__strv_steal(struct tfc__strv *strv); /* the caller frees it with tfc_strv_free; NULL only
						   after a failure */
void tfc__strv_fini(struct tfc__strv *strv);

#endif
