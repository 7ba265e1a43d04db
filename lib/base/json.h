/*
 * Reading JSON with an error that is right. jansson (2.14) takes a string that it had no memory for
 * as a wrong one; what tells the two apart is errno, which every failing malloc sets (POSIX).
 */
#ifndef TFC_BASE_JSON_H
#define TFC_BASE_JSON_H

#include <jansson.h>

/*
 * As json_loadb. TFC_OK; TFC_EPARSE with *ret_reason (may be NULL) filled, or TFC_ENOMEM. The
 * caller owns *ret_value.
 */
int tfc__json_load(const char *text, size_t len, size_t flags, json_error_t *ret_reason,
		   json_t **ret_value);

#endif
