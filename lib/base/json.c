#include "base/json.h"

#include <errno.h>
#include <tfcluster/error.h>

int tfc__json_load(const char *text, size_t len, size_t flags, json_error_t *ret_reason,
		   json_t **ret_value)
{
	json_error_t reason;
	errno = 0;
	json_t *value = json_loadb(text, len, flags, &reason);
	/* It leaves out a character of a string that it cannot make room for, and says nothing. */
	if (value && errno == ENOMEM) {
		json_decref(value);
		return TFC_ENOMEM;
	}
	if (value) {
		*ret_value = value;
		return TFC_OK;
	}
	/* The library has no words for it when it cannot even begin. */
	if (errno == ENOMEM || json_error_code(&reason) == json_error_out_of_memory ||
	    !*reason.text)
		return TFC_ENOMEM;
	if (ret_reason)
		*ret_reason = reason;
	return TFC_EPARSE;
}
