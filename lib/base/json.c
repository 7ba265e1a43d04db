#include "base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <tfcluster/error.h>

struct json_text {
	const char *at;
	const char *end;
	bool was_short; /* out of memory at the end of a string */
};

/*
 * When jansson cannot grow a string, it drops the character without an error, and clears errno when
 * it parses the next number. The text is therefore passed in parts that end with a quotation mark,
 * and errno is checked after each part.
 */
static size_t json_text_next_part(void *buffer, size_t size, void *data)
{
	struct json_text *text = data;
	size_t len = (size_t)(text->end - text->at);
	text->was_short = text->was_short || errno == ENOMEM;
	if (!len)
		return 0;
	if (len > size)
		len = size;
	const char *quote = memchr(text->at, '"', len);
	if (quote)
		len = (size_t)(quote - text->at) + 1;
	memcpy(buffer, text->at, len);
	text->at += len;
	return len;
}

int tfc__json_load(const char *text, size_t len, size_t flags, json_error_t *ret_reason,
		   json_t **ret_value)
{
	json_error_t reason;
	struct json_text source = {text, text + len, false};
	errno = 0;
	json_t *value = json_load_callback(json_text_next_part, &source, flags, &reason);
	if (value && (source.was_short || errno == ENOMEM)) {
		json_decref(value);
		return TFC_ENOMEM;
	}
	if (value) {
		*ret_value = value;
		return TFC_OK;
	}
	/* jansson leaves the error text empty when it fails before it starts to parse. */
	if (source.was_short || errno == ENOMEM ||
	    json_error_code(&reason) == json_error_out_of_memory || !*reason.text)
		return TFC_ENOMEM;
	if (ret_reason)
		*ret_reason = reason;
	return TFC_EPARSE;
}
