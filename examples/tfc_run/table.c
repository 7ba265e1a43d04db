#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tfc_run.h"

static char *format_text(const char *format, va_list args)
{
	char *text;
	if (vasprintf(&text, format, args) < 0)
		die_without_memory();
	return text;
}

static char *format_printable(const char *format, va_list args)
{
	char *text = format_text(format, args), *shown = printable(text, "");
	free(text);
	return shown;
}

static void text_append(struct text *text, const char *more)
{
	size_t len = strlen(more);
	char *data = realloc(text->data, text->len + len + 1);
	if (!data)
		die_without_memory();
	memcpy(data + text->len, more, len + 1);
	text->data = data;
	text->len += len;
}

void text_add(struct text *text, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *more = format_text(format, args);
	va_end(args);
	text_append(text, more);
	free(more);
}

void text_add_line(struct text *text, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *line = format_printable(format, args);
	va_end(args);
	text_append(text, line);
	text_append(text, "\n");
	free(line);
}

void duration_text(uint64_t ms, char ret_text[DURATION_SIZE])
{
	static const struct {
		uint64_t least, unit;
		char letter;
	} units[] = {{172800, 86400, 'd'}, {7200, 3600, 'h'}, {120, 60, 'm'}, {0, 1, 's'}};
	uint64_t seconds = ms / 1000;
	size_t i = 0;
	while (seconds < units[i].least)
		i++;
	snprintf(ret_text, DURATION_SIZE, "%llu%c", (unsigned long long)(seconds / units[i].unit),
		 units[i].letter);
}

void memory_text(uint64_t bytes, char ret_text[MEMORY_SIZE])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double size = (double)bytes;
	size_t unit = 0;
	for (; size >= 1024 && unit < 5; unit++)
		size /= 1024;
	snprintf(ret_text, MEMORY_SIZE, "%.5g%s", (double)(uint64_t)(size * 10) / 10, units[unit]);
}

void table_add(struct table *table, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *cell = format_printable(format, args);
	va_end(args);
	char **cells = reallocarray(table->cells, table->count + 1, sizeof(*cells));
	if (!cells)
		die_without_memory();
	table->cells = cells;
	cells[table->count++] = cell;
}

void table_begin(struct table *table, const char *const *heads)
{
	*table = (struct table){.columns = 0};
	for (; heads[table->columns]; table->columns++)
		table_add(table, "%s", heads[table->columns]);
}

size_t stdout_columns(void)
{
	struct winsize window;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

static void add_last_cell(struct text *text, const char *cell, size_t room)
{
	bool is_cut = cell[fitting_len(cell, room)] != '\0';
	int len = (int)fitting_len(cell, is_cut ? room - strlen("...") : room);
	text_add(text, "%.*s%s\n", len, cell, is_cut ? "..." : "");
}

#define LEAST_ROOM 24 /* columns of which something can be read */

char *table_end(struct table *table, size_t columns)
{
	struct text text = {.data = NULL};
	size_t widths[TABLE_COLUMNS_MAX] = {0};
	for (size_t i = 0; i < table->count; i++) {
		size_t len = strlen(table->cells[i]), *width = &widths[i % table->columns];
		*width = len > *width ? len : *width;
	}
	size_t used = 0, room = SIZE_MAX;
	for (size_t i = 0; i + 1 < table->columns; i++)
		used += widths[i] + 2;
	if (columns >= used + LEAST_ROOM)
		room = columns - used;
	else if (columns) /* the last column wraps */
		room = 2 * columns >= used + LEAST_ROOM ? 2 * columns - used : LEAST_ROOM;
	for (size_t i = 0; i < table->count; i++) {
		size_t column = i % table->columns;
		if (column + 1 < table->columns)
			text_add(&text, "%-*s  ", (int)widths[column], table->cells[i]);
		else
			add_last_cell(&text, table->cells[i], room);
		free(table->cells[i]);
	}
	free(table->cells);
	return text.data;
}
