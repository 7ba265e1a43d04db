#include "base/json_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/utf8.h"

static void json_new_line(struct tfc__json_writer *json)
{
	tfc__buf_addf(&json->buf, "\n%*s", 2 * (int)json->block_depth, "");
}

/* Separates what comes next from what is before it. */
static void json_separate(struct tfc__json_writer *json)
{
	bool is_line = json->block_depth && !json->depth;
	if (json->position == TFC__JSON_AFTER_VALUE)
		tfc__buf_add_str(&json->buf, json->is_spaced && !is_line ? ", " : ",");
	if (json->position != TFC__JSON_AFTER_NAME && is_line)
		json_new_line(json);
	json->position = TFC__JSON_AFTER_VALUE;
}

void tfc__json_begin(struct tfc__json_writer *json, char bracket)
{
	json_separate(json);
	tfc__buf_add_char(&json->buf, bracket);
	json->position = TFC__JSON_FIRST;
	json->depth++;
}

void tfc__json_begin_block(struct tfc__json_writer *json)
{
	tfc__json_begin(json, '{');
	json->depth--;
	json->block_depth++;
}

void tfc__json_end(struct tfc__json_writer *json, char bracket)
{
	if (json->depth) {
		json->depth--;
	} else {
		json->block_depth--;
		if (json->position != TFC__JSON_FIRST)
			json_new_line(json);
	}
	tfc__buf_add_char(&json->buf, bracket);
	json->position = TFC__JSON_AFTER_VALUE;
}

void tfc__json_name_bytes(struct tfc__json_writer *json, const char *name, size_t len)
{
	tfc__json_bytes(json, name, len);
	tfc__buf_add_str(&json->buf, json->is_spaced ? ": " : ":");
	json->position = TFC__JSON_AFTER_NAME;
}

void tfc__json_name(struct tfc__json_writer *json, const char *name)
{
	tfc__json_name_bytes(json, name, strlen(name));
}

void tfc__json_raw(struct tfc__json_writer *json, const char *text, size_t len)
{
	if (!len)
		return;
	json_separate(json);
	tfc__buf_add(&json->buf, text, len);
}

void tfc__json_null(struct tfc__json_writer *json)
{
	tfc__json_raw(json, "null", 4);
}

void tfc__json_bool(struct tfc__json_writer *json, bool value)
{
	tfc__json_raw(json, value ? "true" : "false", value ? 4 : 5);
}

void tfc__json_int(struct tfc__json_writer *json, int64_t value)
{
	json_separate(json);
	tfc__buf_addf(&json->buf, "%lld", (long long)value);
}

void tfc__json_uint(struct tfc__json_writer *json, uint64_t value)
{
	json_separate(json);
	tfc__buf_addf(&json->buf, "%llu", (unsigned long long)value);
}

void tfc__json_real(struct tfc__json_writer *json, double value)
{
	if (value > -9e18 && value < 9e18 && value == (double)(long long)value) {
		tfc__json_int(json, (long long)value);
		return;
	}
	/* jansson writes and reads numbers independently of the host's locale. */
	bool is_exact = false;
	for (size_t digits = 15; digits <= 17 && !is_exact; digits++) {
		json_t *number = json_real(value);
		char *text = tfc__json_dump(number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
		json_decref(number);
		number = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
		is_exact = number && json_number_value(number) == value;
		json_decref(number);
		if (is_exact)
			tfc__json_raw(json, text, strlen(text));
		free(text);
	}
	if (!is_exact) /* 17 digits are always exact: this is out of memory */
		json->buf.is_failed = true;
}

static void json_add_escape(struct tfc__buf *buf, uint32_t c)
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

void tfc__json_bytes(struct tfc__json_writer *json, const char *data, size_t len)
{
	struct tfc__buf *buf = &json->buf;
	const unsigned char *s = (const unsigned char *)data;
	size_t plain = 0; /* bytes before s[i] that need no change and are not added yet */
	json_separate(json);
	tfc__buf_add_char(buf, '"');
	for (size_t i = 0; i < len;) {
		size_t n = tfc__utf8_len(data + i, len - i);
		size_t same;
		uint32_t code = n ? tfc__utf8_read(data + i, &same) : 0;
		if (n && code != '"' && code != '\\' && !tfc__utf8_is_control(code)) {
			i += n;
			plain += n;
			continue;
		}
		tfc__buf_add(buf, s + i - plain, plain);
		plain = 0;
		if (n)
			json_add_escape(buf, code);
		else
			tfc__buf_addf(buf, "\\\\x%02x", s[i]);
		i += n + !n;
	}
	tfc__buf_add(buf, s + len - plain, plain);
	tfc__buf_add_char(buf, '"');
}

void tfc__json_text(struct tfc__json_writer *json, const char *text)
{
	if (text)
		tfc__json_bytes(json, text, strlen(text));
	else
		tfc__json_null(json);
}

void tfc__json_textf(struct tfc__json_writer *json, const char *format, ...)
{
	char text[256];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tfc__json_text(json, text);
}

void tfc__json_time(struct tfc__json_writer *json, uint64_t time_ns)
{
	time_t seconds = (time_t)(time_ns / 1000000000u);
	struct tm utc = {0};
	char text[32] = "";
	if (gmtime_r(&seconds, &utc))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	tfc__json_textf(json, "%s.%06uZ", text, (unsigned)(time_ns % 1000000000u / 1000u));
}
