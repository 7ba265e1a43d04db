#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

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

static void add_json_escape(struct tfc__buf *buf, uint32_t c)
{
	switch (c) {
	case '"':
		tfc__buf_add_str(buf, "\\\"");
		break;
	case '\\':
		tfc__buf_add_str(buf, "\\\\");
		break;
	case '\n':
		tfc__buf_add_str(buf, "\\n");
		break;
	case '\r':
		tfc__buf_add_str(buf, "\\r");
		break;
	case '\t':
		tfc__buf_add_str(buf, "\\t");
		break;
	default:
		tfc__buf_addf(buf, "\\u%04x", c);
	}
}

static void add_json(struct tfc__buf *buf, const char *text, size_t len, bool is_any_bytes)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t plain = 0; /* bytes before s[i] that need no change and are not added yet */
	tfc__buf_add_char(buf, '"');
	for (size_t i = 0; i < len;) {
		size_t n = tfc__utf8_len(text + i, len - i);
		size_t same;
		uint32_t code = n ? tfc__utf8_read(text + i, &same) : 0;
		if (n && code != '"' && code != '\\' && !tfc__utf8_is_control(code)) {
			i += n;
			plain += n;
			continue;
		}
		tfc__buf_add(buf, s + i - plain, plain);
		plain = 0;
		if (n)
			add_json_escape(buf, code);
		else if (is_any_bytes)
			tfc__buf_addf(buf, "\\\\x%02x", s[i]);
		else
			tfc__buf_add_str(buf, "\\ufffd");
		i += n + !n;
	}
	tfc__buf_add(buf, s + len - plain, plain);
	tfc__buf_add_char(buf, '"');
}

void tfc__buf_add_json(struct tfc__buf *buf, const char *text, size_t len)
{
	add_json(buf, text, len, false);
}

void tfc__buf_add_json_bytes(struct tfc__buf *buf, const char *data, size_t len)
{
	add_json(buf, data, len, true);
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
