/*
 * The lines that tasks have not finished, such as progress bars: a terminal shows the current text
 * of each in a row of its own, above the status line. output.c draws and erases these rows.
 */
#ifndef TFC_RUN_UNFINISHED_H
#define TFC_RUN_UNFINISHED_H

#include <stdbool.h>
#include <tfcluster/gateway.h>

#include "stream.h"

/* Without wrapping, a text that is wider than its characters suggest still takes one row. */
#define WRAP_OFF "\033[?7l"
#define WRAP_ON "\033[?7h"

struct unfinished {
	struct unfinished_line *lines;
	size_t count;
	bool is_changed; /* since unfinished_draw */
};

/* Sets the text of a line; `prefix` stands before it. */
void unfinished_set(struct unfinished *unfinished, size_t task, const char *prefix,
		    const tfc_event *event);

/* Removes the line of a task and stream (0: both), which is finished. */
void unfinished_remove(struct unfinished *unfinished, size_t task, uint32_t stream);
void unfinished_remove_all(struct unfinished *unfinished);

/* Adds as many rows as fit, each cut to `columns` and followed by a newline; returns their number.
 */
size_t unfinished_draw(struct unfinished *unfinished, struct stream *to, size_t rows,
		       size_t columns);

#endif
