#include "store_kinds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a store such as a host brings: rows in the host's memory, and answers that come later */

#define ROWS 64

struct row {
	char *key;
	char *data;
	uint64_t len;
	uint64_t version;
};

struct call {
	tfc_store_done done;
	void *request;
	int32_t code;
	tfc_store_value values[ROWS];
	uint32_t count;
	const char *text;
};

struct table {
	tfc_ctx *ctx;
	struct row rows[ROWS]; /* key NULL: free */
	uint64_t version;
	struct call *call; /* the one under way */
};

static struct table host_table;

static void answer_now(void *user)
{
	struct table *table = user;
	struct call *call = table->call;
	table->call = NULL;
	if (call)
		call->done(call->request, call->code, call->values, call->count, call->text);
	free(call);
}

/* What the library hands over when it closes needs no answer. */
static struct call *new_call(struct table *table, tfc_store_done done, void *request)
{
	struct call *call = calloc(1, sizeof(*call));
	*call = (struct call){.done = done, .request = request};
	free(table->call);
	table->call = call;
	assert_int_equal(tfc_ctx_post(table->ctx, answer_now, table), TFC_OK);
	return call;
}

static struct row *row_of(struct table *table, const char *key)
{
	for (int i = 0; i < ROWS; i++)
		if (table->rows[i].key && strcmp(table->rows[i].key, key) == 0)
			return &table->rows[i];
	return NULL;
}

static void add_value(struct call *call, const struct row *row)
{
	call->values[call->count++] = (tfc_store_value){.size = sizeof(tfc_store_value),
							.key = row->key,
							.data = row->data,
							.len = row->len,
							.version = row->version};
}

static void table_get(void *store, const char *key, tfc_store_done done, void *request)
{
	struct call *call = new_call(store, done, request);
	const struct row *row = row_of(store, key);
	call->code = row ? TFC_OK : TFC_ENOENT;
	if (row)
		add_value(call, row);
}

static int compare_rows(const void *a, const void *b)
{
	const struct row *one = a, *other = b;
	return strcmp(one->key ? one->key : "", other->key ? other->key : "");
}

static void table_list(void *store, const char *prefix, tfc_store_done done, void *request)
{
	struct table *table = store;
	struct call *call = new_call(table, done, request);
	qsort(table->rows, ROWS, sizeof(struct row), compare_rows);
	for (int i = 0; i < ROWS; i++)
		if (table->rows[i].key && strncmp(table->rows[i].key, prefix, strlen(prefix)) == 0)
			add_value(call, &table->rows[i]);
}

static void free_row(struct row *row)
{
	free(row->key);
	free(row->data);
	*row = (struct row){0};
}

static void table_put(void *store, const char *key, const void *data, uint64_t len,
		      uint64_t version, tfc_store_done done, void *request)
{
	struct table *table = store;
	struct call *call = new_call(table, done, request);
	struct row *row = row_of(table, key);
	if (version != UINT64_MAX && version != (row ? row->version : 0)) {
		call->code = TFC_ESTATE;
		return;
	}
	for (int i = 0; i < ROWS && !row; i++)
		row = table->rows[i].key ? NULL : &table->rows[i];
	free_row(row);
	*row = (struct row){.key = strdup(key),
			    .data = malloc(len + 1),
			    .len = len,
			    .version = ++table->version};
	if (len)
		memcpy(row->data, data, len);
	add_value(call, row);
}

static void table_remove(void *store, const char *key, tfc_store_done done, void *request)
{
	struct table *table = store;
	struct call *call = new_call(table, done, request);
	bool is_folder = key[strlen(key) - 1] == '/';
	uint32_t count = 0;
	for (int i = 0; i < ROWS; i++) {
		struct row *row = &table->rows[i];
		if (!row->key || (is_folder ? strncmp(row->key, key, strlen(key)) != 0
					    : strcmp(row->key, key) != 0))
			continue;
		free_row(row);
		count++;
	}
	call->code = is_folder || count ? TFC_OK : TFC_ENOENT;
	call->text = call->code < 0 ? "the host knows no such row" : NULL;
}

static void table_close(void *store)
{
	struct table *table = store;
	for (int i = 0; i < ROWS; i++)
		free_row(&table->rows[i]);
	free(table->call);
	table->call = NULL;
}

static int open_table(tfc_ctx *ctx, const char *place, tfc_error *error,
		      struct tfc__store **ret_store)
{
	static const tfc_store_ops ops = {
		.size = sizeof(ops),
		.get = table_get,
		.list = table_list,
		.put = table_put,
		.remove = table_remove,
		.close = table_close,
	};
	host_table = (struct table){.ctx = ctx};
	return tfc__store_open_ops(ctx, &ops, &host_table, error, ret_store);
}

/* ---- the library's own */

static int open_memory(tfc_ctx *ctx, const char *place, tfc_error *error,
		       struct tfc__store **ret_store)
{
	return tfc__store_open_memory(ctx, error, ret_store);
}

const struct store_kind test_store_kinds[] = {
	{"memory", open_memory, false},
	{"local", tfc__store_open_local, true},
	{"host", open_table, false},
};
const size_t test_store_kind_count = sizeof(test_store_kinds) / sizeof(*test_store_kinds);
