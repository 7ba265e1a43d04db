/*
 * Key paths: their text in error messages and their line in the file. The JSON parser records no
 * lines for values; the text is therefore scanned again when there is an error to report, along the
 * one path, without a tree or recursion.
 */
#include "job/job_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

void tfc__key_path_push(struct tfc__key_path *path, const char *part)
{
	if (path->count < TFC__KEY_PATH_MAX)
		path->parts[path->count++] = part;
}

void tfc__key_path_push_element(struct tfc__key_path *path, size_t index)
{
	snprintf(path->own, sizeof(path->own), "[%zu]", index);
	tfc__key_path_push(path, path->own);
}

/* Pushes the name of "NAME=value". */
void tfc__key_path_push_variable(struct tfc__key_path *path, const char *variable)
{
	snprintf(path->own, sizeof(path->own), "%.*s", (int)strcspn(variable, "="), variable);
	tfc__key_path_push(path, path->own);
}

void tfc__key_path_pop(struct tfc__key_path *path)
{
	path->count--;
}

int tfc__key_fail(const struct tfc__key_path *path, tfc_error *error, int code, const char *format,
		  ...)
{
	char text[160] = ""; /* leaves room for the message */
	size_t len = 0;
	for (uint32_t i = 0; i < path->count && len < sizeof(text) - 1; i++) {
		const char *part = path->parts[i];
		int n = snprintf(text + len, sizeof(text) - len, "%s%s",
				 i && part[0] != '[' ? "." : "", part);
		len += n > 0 ? (size_t)n : 0;
	}
	va_list args;
	va_start(args, format);
	tfc__vfail(error, code, "job", 0, format, args);
	va_end(args);
	return path->count ? tfc__fail_prefix(error, code, "%s: ", text) : code;
}

struct cursor {
	const char *at;
	const char *end;
	uint32_t line;
	uint32_t part_line; /* line of the part that was entered last */
};

static char cursor_peek(struct cursor *c)
{
	for (; c->at < c->end && strchr(" \t\r\n", *c->at); c->at++)
		c->line += *c->at == '\n';
	return c->at < c->end ? *c->at : '\0';
}

/* Reads the text between a string's quotes, without decoding escapes. */
static const char *cursor_read_string(struct cursor *c, size_t *ret_len)
{
	const char *start = ++c->at;
	while (c->at < c->end && *c->at != '"')
		c->at += *c->at == '\\' ? 2 : 1;
	*ret_len = (size_t)(c->at - start);
	c->at++;
	return start;
}

static void cursor_skip_value(struct cursor *c)
{
	size_t depth = 0, len;
	do {
		char first = cursor_peek(c);
		if (first == '"') {
			cursor_read_string(c, &len);
			continue;
		}
		depth += first == '{' || first == '[';
		depth -= first == '}' || first == ']';
		c->at++;
		if (!strchr("{}[],:", first)) /* the rest of a number or a word */
			while (c->at < c->end && !strchr("{}[],: \t\r\n", *c->at))
				c->at++;
	} while (depth && c->at < c->end);
}

/* Moves into an object, to the value of `name`. */
static bool cursor_enter_member(struct cursor *c, const char *name)
{
	while (cursor_peek(c) == '{' || cursor_peek(c) == ',') {
		c->at++;
		if (cursor_peek(c) != '"')
			return false;
		c->part_line = c->line;
		size_t len;
		const char *key = cursor_read_string(c, &len);
		if (cursor_peek(c) == ':')
			c->at++;
		if (len == strlen(name) && memcmp(key, name, len) == 0)
			return true;
		cursor_skip_value(c);
	}
	return false;
}

/* Moves into a list, to its element number `index`. */
static bool cursor_enter_element(struct cursor *c, size_t index)
{
	if (cursor_peek(c) != '[')
		return false;
	c->at++;
	for (; index; index--) {
		cursor_skip_value(c);
		if (cursor_peek(c) != ',')
			return false;
		c->at++;
	}
	cursor_peek(c);
	c->part_line = c->line;
	return true;
}

uint32_t tfc__key_line(const char *json, size_t len, const struct tfc__key_path *path)
{
	struct cursor c = {json, json + len, 1, 1};
	cursor_peek(&c);
	c.part_line = c.line;
	for (uint32_t i = 0; i < path->count; i++) {
		const char *part = path->parts[i];
		bool is_there = part[0] == '['
					? cursor_enter_element(&c, strtoul(part + 1, NULL, 10))
					: cursor_enter_member(&c, part);
		if (!is_there)
			break;
	}
	return c.part_line;
}
