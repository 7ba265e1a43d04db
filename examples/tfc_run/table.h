/* Text that grows, and columns that are as wide as what stands in them. */
#ifndef TFC_RUN_TABLE_H
#define TFC_RUN_TABLE_H

#include <stddef.h>

struct text {
	char *data; /* NULL while nothing was added; free */
	size_t len;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define TABLE_COLUMNS_MAX 16

struct table {
	size_t columns;
	char **cells; /* row by row, the heads first */
	size_t count;
};

/* heads: NULL-terminated. */
void table_begin(struct table *table, const char *const *heads);
/* The next cell, from left to right and from row to row. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The lines; free. The table is gone. */
char *table_end(struct table *table);

#endif
