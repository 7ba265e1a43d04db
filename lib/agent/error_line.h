/*
 * The line of a failed program's output that names the reason: what a person would quote. Pure.
 */
#ifndef TFC_AGENT_ERROR_LINE_H
#define TFC_AGENT_ERROR_LINE_H

#include <stdbool.h>

#define TFC__ERROR_LINE_LINES 400 /* of the log's end that are searched */
#define TFC__ERROR_LINE_SIZE 512
/* With the hint it is the agent's text about the end of an attempt. */
#define TFC__ERROR_QUOTE_SIZE 320

/* What may be quoted; each includes those before it. */
enum tfc__error_source {
	TFC__ERROR_FATAL = 1, /* the message of a runtime that aborts the program */
	TFC__ERROR_RAISED,    /* the exception of a Python traceback */
	TFC__ERROR_LAST,      /* the last line that is neither a log entry nor a warning */
};

struct tfc__error_line {
	char text[TFC__ERROR_LINE_SIZE]; /* plain text of one line; "": there is none */
	const char *hint;                /* the remedy, if the error is known; else NULL */
};

/* Finds the line in `lines`, which end with NULL. Returns whether there is one. */
bool tfc__error_line_find(char *const *lines, enum tfc__error_source source,
			  struct tfc__error_line *ret_line);

/* Writes a short form of the line, and the hint behind it. */
void tfc__error_line_quote(const struct tfc__error_line *line,
			   char ret_text[TFC__ERROR_QUOTE_SIZE]);

#endif
