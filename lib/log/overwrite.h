/*
 * Carriage returns within a line, as progress bars (tqdm, Keras) write them: what follows a
 * carriage return overwrites the line. Carriage returns at the end of a line overwrite nothing;
 * "\r\n" ends a line as "\n" does.
 */
#ifndef TFC_LOG_OVERWRITE_H
#define TFC_LOG_OVERWRITE_H

#include <stddef.h>
#include <string.h>

/* The length of the text without the carriage returns at its end. */
static inline size_t tfc__line_trimmed(const char *text, size_t len)
{
	while (len && text[len - 1] == '\r')
		len--;
	return len;
}

/* How many bytes of a trimmed text are overwritten, with the carriage return that does it. */
static inline size_t tfc__line_overwritten(const char *text, size_t len)
{
	const char *last = len ? memrchr(text, '\r', len) : NULL;
	return last ? (size_t)(last - text) + 1 : 0;
}

#endif
