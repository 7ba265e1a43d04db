/*
 * Messages of tfc_run before there is an output, and suggestions for mistyped words.
 */
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "tfc_run.h"

size_t read_utf8(const char *text, uint32_t *ret_code)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t len = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
	uint32_t code = len == 1 ? s[0] : s[0] & (0x7Fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((s[i] & 0xC0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3Fu);
	}
	bool is_wrong = (len == 3 && code < 0x800) || (len == 4 && code < 0x10000) ||
			(code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF;
	*ret_code = code;
	return is_wrong ? 0 : len;
}

bool is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C || code == 0x200E ||
	       code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
	       (code >= 0x2066 && code <= 0x2069);
}

static int write_escape(char *to, uint32_t code)
{
	switch (code) {
	case '\n':
		return sprintf(to, "\\n");
	case '\r':
		return sprintf(to, "\\r");
	case '\t':
		return sprintf(to, "\\t");
	default:
		return sprintf(to, "\\u%04x", code);
	}
}

char *printable(const char *text, const char *keep)
{
	char *escaped = malloc(6 * strlen(text) + 1), *to = escaped;
	if (!escaped)
		die_without_memory();
	while (*text) {
		uint32_t code;
		size_t len = read_utf8(text, &code);
		if (!len) {
			to += sprintf(to, "\\x%02x", (unsigned char)*text);
			len = 1;
		} else if (is_control(code) && !(code < 0x80 && strchr(keep, (int)code))) {
			to += write_escape(to, code);
		} else {
			memcpy(to, text, len);
			to += len;
		}
		text += len;
	}
	*to = '\0';
	return escaped;
}

static bool begins_and_ends_with(const char *text, const char *begin, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);
	return strncmp(text, begin, strlen(begin)) == 0 && len >= end_len &&
	       strcmp(text + len - end_len, end) == 0;
}

/* What to do about an error of the library, in words of tfc_run; or "". */
static const char *error_hint(const char *text)
{
	if (begins_and_ends_with(text, "cannot reach a gateway: ", "") &&
	    (strstr(text, ": no such socket") || strstr(text, ": its server has ended")))
		return "; no node runs here: start one with \"tfc_run node\", or name a node with "
		       "--gateway; jobs of \"tfc_run local\" have no node and are not listed";
	if (begins_and_ends_with(text, "job \"", "\" not found"))
		return "; \"tfc_run ps --all\" lists all jobs";
	if (begins_and_ends_with(text, "member \"", "\" not found"))
		return "; \"tfc_run members\" lists all nodes";
	return "";
}

char *message_line(const char *text)
{
	/* As the library's messages contain them; a job or a file may have the name of an option.
	 */
	static const struct {
		const char *text, *replacement;
	} options[] = {
		{"set key_file ", "set --key "},
		{"(key_file)", "(--key)"},
		{"set its option submit_user", "set its option --submit-user"},
		{"(pass_env)", "(--pass-env)"},
		{"(advertise)", "(--advertise)"},
		{"set rank, rank_count and rendezvous", "set --rank, --size and --rendezvous"},
		{"; set rank_count", "; set --size"},
		{"rank_count is", "--size is"},
		{"below rank_count", "below --size"},
		{"rank is set, but rank_count", "--rank is set, but --size"},
		{"min_ranks is", "--min-nodes is"},
		{"or set slots", "or set --slots"},
		{"rendezvous is missing", "--rendezvous is missing"},
		{"directory of rendezvous", "directory of --rendezvous"},
		{"; set rendezvous to", "; set --rendezvous to"},
		{"key_data is empty", "TFC_KEY_DATA is empty"},
		{"key_data:", "TFC_KEY_DATA:"},
	};
	char *plain = printable(text, "");
	const char *hint = error_hint(plain);
	char *line = malloc(2 * strlen(plain) + strlen(hint) + 1), *to;
	if (!line)
		die_without_memory();
	to = line;
	bool is_quoted = false;
	for (const char *at = plain; *at;) {
		size_t i = 0, count = sizeof(options) / sizeof(options[0]);
		is_quoted ^= *at == '"';
		while (i < count && strncmp(at, options[i].text, strlen(options[i].text)) != 0)
			i++;
		if (i < count && !is_quoted) {
			to = stpcpy(to, options[i].replacement);
			at += strlen(options[i].text);
		} else {
			*to++ = *at++;
		}
	}
	strcpy(to, hint);
	free(plain);
	return line;
}

int complain(const char *format, ...)
{
	char *text;
	va_list args;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0)
		die_without_memory();
	char *line = message_line(text);
	fprintf(stderr, "tfc_run: %s\n", line);
	free(line);
	free(text);
	return -1;
}

int read_file(const char *path, char **ret_text, size_t *ret_len)
{
	char *text = NULL;
	size_t capacity = 0;
	FILE *file = fopen(path, "re");
	ssize_t len = file ? getdelim(&text, &capacity, '\0', file) : -1;
	int error = len >= 0 || (file && feof(file)) ? 0 : errno;
	if (file)
		fclose(file);
	if (!error && len < 0 && !(text = realloc(text, 1)))
		die_without_memory();
	if (error) {
		free(text);
		return error;
	}
	*ret_len = len > 0 ? (size_t)len : 0;
	text[*ret_len] = '\0';
	*ret_text = text;
	return 0;
}

void die_without_memory(void)
{
	static const char text[] = "tfc_run: out of memory; the tasks are stopped\n";
	ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)written;
	_exit(RUN_FAILED);
}

size_t fitting_len(const char *text, size_t columns)
{
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	locale_t before = utf8 ? uselocale(utf8) : (locale_t)0; /* for mbrtowc and wcwidth */
	size_t at = 0, used = 0, left = strlen(text), len;
	mbstate_t state = {0};
	wchar_t character;
	while (left && (len = mbrtowc(&character, text + at, left, &state)) <= left) {
		int width = wcwidth(character);
		used += width < 0 ? 1 : (size_t)width;
		if (used > columns)
			break;
		at += len;
		left -= len;
	}
	if (utf8) {
		uselocale(before);
		freelocale(utf8);
	}
	return at;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

#define COMPARED_MAX 64 /* longer words are similar to none */

/* The edit distance: how many letters must be changed, added, dropped or swapped with their
 * neighbor to turn `a` into `b`. */
static size_t distance(const char *a, const char *b)
{
	size_t edits[COMPARED_MAX][COMPARED_MAX]; /* of the first i letters and the first j */
	size_t a_len = strlen(a), b_len = strlen(b);
	if (a_len >= COMPARED_MAX || b_len >= COMPARED_MAX)
		return COMPARED_MAX;
	for (size_t i = 0; i <= a_len; i++)
		for (size_t j = 0; j <= b_len; j++) {
			size_t *here = &edits[i][j];
			*here = i + j;
			if (!i || !j)
				continue;
			*here = least(edits[i - 1][j], edits[i][j - 1]) + 1;
			*here = least(*here, edits[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				*here = least(*here, edits[i - 2][j - 2] + 1);
		}
	return edits[a_len][b_len];
}

const char *nearest(const char *word, const char *const *names, size_t count, size_t stride)
{
	size_t best = strlen(word) / 3 + 2; /* less similar words are not suggested */
	const char *found = NULL;
	for (size_t i = 0; i < count; i++) {
		const char *name = *(const char *const *)((const char *)names + i * stride);
		size_t edits = name ? distance(word, name) : best;
		/* more than half of the letters must be right */
		if (edits < best && (2 * edits < strlen(word) || 2 * edits < strlen(name))) {
			best = edits;
			found = name;
		}
	}
	return found;
}
