#include "base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <tfcluster/error.h>

#include "base/buf.h"

/*
 * jansson collects each token in a buffer that doubles. When it cannot, it drops the character
 * without an error; if that was the end of a string or a part of an escape, it reads and writes
 * beyond its memory. The text is therefore parsed as the second item of an array, whose first item
 * is a string that makes the buffer large enough for all that follows. The parser's request for the
 * end of that string is answered only if the buffer has grown as it should.
 */
enum { SOURCE_BEGIN, SOURCE_PADDING, SOURCE_PADDING_END, SOURCE_TEXT, SOURCE_END, SOURCE_PARTS };

struct json_source {
	const char *parts[SOURCE_PARTS];
	size_t lens[SOURCE_PARTS];
	size_t part;
};

#define BUFFER_MIN 16 /* the parser's buffer at first */

static size_t json_source_read(void *buffer, size_t size, void *data)
{
	struct json_source *source = data;
	while (source->part < SOURCE_PARTS && !source->lens[source->part])
		source->part++;
	if (source->part == SOURCE_PARTS || (source->part == SOURCE_PADDING_END && errno == ENOMEM))
		return 0;
	const char **at = &source->parts[source->part];
	size_t *left = &source->lens[source->part];
	size_t len = *left < size ? *left : size;
	if (source->part == SOURCE_PADDING) {
		memset(buffer, 'x', len);
	} else {
		memcpy(buffer, *at, len);
		*at += len;
	}
	*left -= len;
	return len;
}

/* NULL: out of memory (errno is ENOMEM), or the text is not one value. */
static json_t *json_load_padded(const char *text, size_t len, size_t flags)
{
	/* A power of two: the buffer does not grow at the last characters of the padding. */
	size_t padding = BUFFER_MIN;
	while (padding < len + 2)
		padding *= 2;
	struct json_source source = {
		.parts = {[SOURCE_BEGIN] = "[\"",
			  [SOURCE_PADDING_END] = "\",",
			  [SOURCE_TEXT] = text,
			  [SOURCE_END] = "]"},
		.lens = {[SOURCE_BEGIN] = 2,
			 [SOURCE_PADDING] = padding,
			 [SOURCE_PADDING_END] = 2,
			 [SOURCE_TEXT] = len,
			 [SOURCE_END] = 1},
	};
	json_t *pair = json_load_callback(json_source_read, &source, flags, NULL);
	json_t *value = json_array_size(pair) == 2 ? json_incref(json_array_get(pair, 1)) : NULL;
	json_decref(pair);
	if (value && !(flags & JSON_DECODE_ANY) && !json_is_array(value) &&
	    !json_is_object(value)) {
		json_decref(value);
		value = NULL;
	}
	return value;
}

int tfc__json_load(const char *text, size_t len, size_t flags, json_error_t *ret_reason,
		   json_t **ret_value)
{
	json_error_t reason;
	errno = 0;
	json_t *value = json_load_padded(text, len, flags);
	/* Alone, for a reason that speaks of the text only, in the memory that was just freed. */
	if (!value && errno != ENOMEM)
		value = json_loadb(text, len, flags, &reason);
	if (value) {
		*ret_value = value;
		return TFC_OK;
	}
	/* jansson leaves the error text empty when it fails before it starts to parse. */
	if (errno == ENOMEM || json_error_code(&reason) == json_error_out_of_memory ||
	    !*reason.text)
		return TFC_ENOMEM;
	if (ret_reason)
		*ret_reason = reason;
	return TFC_EPARSE;
}

static int json_add(const char *part, size_t len, void *data)
{
	struct tfc__buf *buf = data;
	tfc__buf_add(buf, part, len);
	return buf->is_failed ? -1 : 0;
}

char *tfc__json_dump(const json_t *value, size_t flags)
{
	struct tfc__buf buf = {0};
	if (json_dump_callback(value, json_add, &buf, flags) == 0 && !buf.is_failed)
		return tfc__buf_steal(&buf);
	tfc__buf_fini(&buf);
	return NULL;
}
