#include "table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tfc_run.h"

static char *print(const char *format, va_list args)
{
	char *text;
	if (vasprintf(&text, format, args) < 0)
		die_without_memory();
	return text;
}

static char *print_printable(const char *format, va_list args)
{
	char *text = print(format, args), *shown = printable(text, "");
	free(text);
	return shown;
}

static void append(struct text *text, const char *more)
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
	char *more = print(format, args);
	va_end(args);
	append(text, more);
	free(more);
}

void text_add_line(struct text *text, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *line = print_printable(format, args);
	va_end(args);
	append(text, line);
	append(text, "\n");
	free(line);
}

void table_add(struct table *table, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *cell = print_printable(format, args);
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

char *table_end(struct table *table)
{
	struct text text = {.data = NULL};
	size_t widths[TABLE_COLUMNS_MAX] = {0};
	for (size_t i = 0; i < table->count; i++) {
		size_t len = strlen(table->cells[i]), *width = &widths[i % table->columns];
		*width = len > *width ? len : *width;
	}
	for (size_t i = 0; i < table->count; i++) {
		size_t column = i % table->columns;
		bool is_last = column + 1 == table->columns;
		text_add(&text, "%-*s%s", is_last ? 0 : (int)widths[column], table->cells[i],
			 is_last ? "\n" : "  ");
		free(table->cells[i]);
	}
	free(table->cells);
	return text.data;
}
