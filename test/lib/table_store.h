/*
 * A store of a host's own: a table in memory, which answers later, and badly where a test says so.
 * It outlives nodes and contexts.
 */
#ifndef TEST_TABLE_STORE_H
#define TEST_TABLE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node_run.h"
#include <tfcluster/backend.h>

#define TABLE_ROWS 64

struct row {
	char key[128];
	void *data;
	uint64_t len;
	uint64_t version;
};

/* One write or removal. */
struct change {
	char key[128];
	void *data; /* NULL: removed */
	uint64_t len;
};

struct table {
	tfc_ctx *ctx;
	struct row rows[TABLE_ROWS]; /* in the order of keys: `count` of them */
	uint32_t count;
	uint64_t version;
	int failure; /* of every put: an enum tfc_err, or 0 */
	uint32_t refusals;
	uint32_t puts; /* that are done before it becomes TFC_ENOSPC; 0: it stays what it is */
	uint32_t lies; /* puts of a record that are done and answered with TFC_ESYS */
	uint32_t failed_drops; /* removals that fail */
	int list_failure;      /* of every list: an enum tfc_err, or 0 */
	uint32_t lists;        /* that the open node has requested */
	bool is_recorded;
	struct change *changes; /* in the order they came, when is_recorded */
	size_t change_count;
	/* The request under way. */
	tfc_store_done done;
	void *request;
	int32_t code;
	uint32_t first, answers;
};

/* As node_run_begin, with a node whose store is the table. It has not read the store yet. */
void table_node_open(struct node_run *run, struct table *table);
void table_await_read(struct node_run *run, struct table *table);
/* Both: opens the node and waits until it has read the store. */
void table_node_begin(struct node_run *run, struct table *table);
void table_free(struct table *table);

void table_set(struct table *table, const char *key, const void *data, uint64_t len);
bool table_has(const struct table *table, const char *key);
/* Of a key, or, with a slash at its end, of all below it; how many there were. */
uint32_t table_remove(struct table *table, const char *key);

#endif
