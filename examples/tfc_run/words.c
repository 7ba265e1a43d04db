/*
 * What tfc_run says before there is an output, and what a mistyped word was meant to be.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tfc_run.h"

int complain(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("tfc_run: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return -1;
}

void die_without_memory(void)
{
	static const char text[] = "tfc_run: out of memory; the tasks are stopped\n";
	ssize_t written = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)written;
	_exit(RUN_FAILED);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many letters must be changed, added or dropped to make `b` of `a`. */
static size_t distance(const char *a, const char *b)
{
	size_t row[64];
	size_t b_len = strlen(b);
	if (b_len >= 64)
		return 64;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t change = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			row[j] = least(change, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[b_len];
}

const char *nearest(const char *word, const char *const *names, size_t count, size_t stride)
{
	size_t best = strlen(word) / 3 + 2; /* further away is no help */
	const char *found = NULL;
	for (size_t i = 0; i < count; i++) {
		const char *name = *(const char *const *)((const char *)names + i * stride);
		size_t edits = name ? distance(word, name) : best;
		if (edits < best && edits < strlen(name)) {
			best = edits;
			found = name;
		}
	}
	return found;
}
