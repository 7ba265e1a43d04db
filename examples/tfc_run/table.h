/* Text that grows, and tables whose columns are as wide as their widest cell. */
#ifndef TFC_RUN_TABLE_H
#define TFC_RUN_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct text {
	char *data; /* NULL while empty; freed by the caller */
	size_t len;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds a line, made printable, and a newline. */
void text_add_line(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A duration, rounded down: "45s", "12m", "3h", "2d". */
#define DURATION_SIZE 32
void duration_text(uint64_t ms, char ret_text[DURATION_SIZE]);

/* An amount of memory, as one word for a table: "16GiB", "1.5GiB", "512MiB". */
#define MEMORY_SIZE 32
void memory_text(uint64_t bytes, char ret_text[MEMORY_SIZE]);

#define TABLE_COLUMNS_MAX 16

struct table {
	size_t columns;
	char **cells; /* row by row, the heads first */
	size_t count;
};

/* heads: NULL-terminated. */
void table_begin(struct table *table, const char *const *heads);
/* Adds the next cell, made printable, from left to right, row by row. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the lines, which the caller frees. Frees the table. columns: the terminal's width, to
 * which the last column is cut; 0: nothing is cut. If that leaves little of it, a row takes two
 * lines. */
char *table_end(struct table *table, size_t columns);

/* The width of the terminal that is standard output; 0: it is no terminal. */
size_t stdout_columns(void);

#endif
