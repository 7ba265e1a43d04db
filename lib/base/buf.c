#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIM_LEAST 65536 /* bytes; trimming smaller buffers fragments the heap */

char *tfc__buf_reserve(struct tfc__buf *buf, size_t len)
{
	if (buf->is_failed)
		return NULL;
	if (buf->capacity - buf->len > len)
		return buf->data + buf->len;
	size_t capacity = buf->capacity ? buf->capacity : len + 1 > 64 ? len + 1 : 64;
	while (capacity - buf->len <= len)
		capacity *= 2;
	char *data = realloc(buf->data, capacity);
	if (!data) {
		buf->is_failed = true;
		return NULL;
	}
	buf->data = data;
	buf->capacity = capacity;
	return data + buf->len;
}

void tfc__buf_grow(struct tfc__buf *buf, size_t len)
{
	buf->len += len;
	buf->data[buf->len] = '\0';
}

void tfc__buf_add(struct tfc__buf *buf, const void *data, size_t len)
{
	char *end = tfc__buf_reserve(buf, len);
	if (!end)
		return;
	if (len)
		memcpy(end, data, len);
	tfc__buf_grow(buf, len);
}

void tfc__buf_add_str(struct tfc__buf *buf, const char *text)
{
	tfc__buf_add(buf, text, strlen(text));
}

void tfc__buf_add_char(struct tfc__buf *buf, char c)
{
	tfc__buf_add(buf, &c, 1);
}

void tfc__buf_addf(struct tfc__buf *buf, const char *format, ...)
{
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	int len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	char *end = len < 0 ? NULL : tfc__buf_reserve(buf, (size_t)len);
	if (end) {
		vsnprintf(end, (size_t)len + 1, format, again);
		tfc__buf_grow(buf, (size_t)len);
	}
	va_end(again);
}

void tfc__buf_clear(struct tfc__buf *buf)
{
	buf->len = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

char *tfc__buf_steal(struct tfc__buf *buf)
{
	tfc__buf_add(buf, NULL, 0); /* an empty buffer is an empty string */
	char *data = buf->data;
	if (buf->is_failed) {
		free(data);
		data = NULL;
	}
	*buf = (struct tfc__buf){0};
	return data;
}

void tfc__buf_trim(struct tfc__buf *buf)
{
	char *data = NULL;
	if (buf->len >= TRIM_LEAST && buf->capacity - buf->len > buf->len / 8)
		data = realloc(buf->data, buf->len + 1);
	if (!data)
		return;
	buf->data = data;
	buf->capacity = buf->len + 1;
}

void tfc__buf_fini(struct tfc__buf *buf)
{
	free(buf->data);
	*buf = (struct tfc__buf){0};
}
