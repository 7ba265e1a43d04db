/*
 * Parses JSON and distinguishes a syntax error from an allocation failure. jansson (2.14) reports a
 * string that it could not allocate as a syntax error, and goes on after some failures as if
 * nothing had happened; errno distinguishes them, as every failing malloc sets it (POSIX).
 */
#ifndef TFC_BASE_JSON_H
#define TFC_BASE_JSON_H

#include <jansson.h>

/*
 * Like json_loadb. Returns TFC_OK; TFC_EPARSE with *ret_reason (may be NULL) filled; or TFC_ENOMEM.
 * The caller owns *ret_value.
 */
int tfc__json_load(const char *text, size_t len, size_t flags, json_error_t *ret_reason,
		   json_t **ret_value);

/*
 * Like json_dumps, which leaves out what it could not allocate memory for. The caller frees the
 * text; NULL only when out of memory.
 */
char *tfc__json_dump(const json_t *value, size_t flags);

#endif
