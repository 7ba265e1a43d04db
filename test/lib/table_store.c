#include "table_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "folder.h"
#include "leaks.h"

#define LISTS_AT_START 2 /* the client keys and the jobs */

static void answer(void *user)
{
	struct table *table = user;
	tfc_store_value values[TABLE_ROWS];
	tfc_store_done done = table->done;
	table->done = NULL;
	for (uint32_t i = 0; i < table->answers; i++) {
		const struct row *row = &table->rows[table->first + i];
		values[i] = (tfc_store_value){.size = sizeof(*values),
					      .key = row->key,
					      .data = row->data,
					      .len = row->len,
					      .version = row->version};
	}
	if (done)
		done(table->request, table->code, values, table->answers,
		     table->code == TFC_ENOSPC ? "the grid is full" : NULL);
}

static void answer_later(struct table *table, tfc_store_done done, void *request, int32_t code,
			 uint32_t first, uint32_t answers)
{
	table->done = done;
	table->request = request;
	table->code = code;
	table->first = first;
	table->answers = answers;
	assert_int_equal(tfc_ctx_post(table->ctx, answer, table), TFC_OK);
}

static uint32_t place_of(const struct table *table, const char *key)
{
	uint32_t place = 0;
	while (place < table->count && strcmp(table->rows[place].key, key) < 0)
		place++;
	return place;
}

static bool is_at(const struct table *table, uint32_t place, const char *key)
{
	return place < table->count && strcmp(table->rows[place].key, key) == 0;
}

static uint32_t count_below(const struct table *table, uint32_t place, const char *prefix)
{
	uint32_t count = 0;
	while (place + count < table->count &&
	       strncmp(table->rows[place + count].key, prefix, strlen(prefix)) == 0)
		count++;
	return count;
}

static void get(void *store, const char *key, tfc_store_done done, void *request)
{
	uint32_t place = place_of(store, key);
	bool is_there = is_at(store, place, key);
	answer_later(store, done, request, is_there ? TFC_OK : TFC_ENOENT, place, is_there);
}

static void list(void *store, const char *prefix, tfc_store_done done, void *request)
{
	uint32_t place = place_of(store, prefix);
	struct table *table = store;
	table->lists++;
	answer_later(store, done, request, table->list_failure, place,
		     table->list_failure ? 0 : count_below(store, place, prefix));
}

static void drop(struct table *table, uint32_t place, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		free(table->rows[place + i].data);
	memmove(&table->rows[place], &table->rows[place + count],
		(table->count - place - count) * sizeof(*table->rows));
	table->count -= count;
}

static void record(struct table *table, const char *key, const void *data, uint64_t len)
{
	size_t count = table->change_count++;
	if (!table->is_recorded)
		return;
	if ((count & (count - 1)) == 0)
		table->changes = realloc(table->changes,
					 (count ? 2 * count : 1) * sizeof(*table->changes));
	struct change *change = &table->changes[count];
	*change = (struct change){.len = len, .data = data ? malloc(len + 1) : NULL};
	snprintf(change->key, sizeof(change->key), "%s", key);
	if (data)
		memcpy(change->data, data, len);
}

void table_set(struct table *table, const char *key, const void *data, uint64_t len)
{
	uint32_t place = place_of(table, key);
	if (is_at(table, place, key))
		drop(table, place, 1);
	assert_true(table->count < TABLE_ROWS);
	memmove(&table->rows[place + 1], &table->rows[place],
		(table->count++ - place) * sizeof(*table->rows));
	struct row *row = &table->rows[place];
	*row = (struct row){.data = malloc(len + 1), .len = len, .version = ++table->version};
	snprintf(row->key, sizeof(row->key), "%s", key);
	memcpy(row->data, data, len);
	record(table, key, data, len);
}

static void put(void *store, const char *key, const void *data, uint64_t len, uint64_t version,
		tfc_store_done done, void *request)
{
	struct table *table = store;
	uint32_t place = place_of(table, key);
	bool is_there = is_at(table, place, key);
	if (table->failure) {
		table->refusals++;
		answer_later(table, done, request, table->failure, 0, 0);
		return;
	}
	if (version != UINT64_MAX && version != (is_there ? table->rows[place].version : 0)) {
		answer_later(table, done, request, TFC_ESTATE, 0, 0);
		return;
	}
	table_set(table, key, data, len);
	if (table->lies && strstr(key, "/record")) {
		table->lies--;
		answer_later(table, done, request, TFC_ESYS, 0, 0);
		return;
	}
	answer_later(table, done, request, TFC_OK, place, 1);
	if (table->puts && --table->puts == 0)
		table->failure = TFC_ENOSPC;
}

uint32_t table_remove(struct table *table, const char *key)
{
	uint32_t place = place_of(table, key);
	bool is_folder = key[strlen(key) - 1] == '/';
	uint32_t count = is_folder ? count_below(table, place, key) : is_at(table, place, key);
	drop(table, place, count);
	record(table, key, NULL, 0);
	return count;
}

static void remove_rows(void *store, const char *key, tfc_store_done done, void *request)
{
	struct table *table = store;
	bool is_folder = key[strlen(key) - 1] == '/';
	if (table->failed_drops) {
		table->failed_drops--;
		answer_later(table, done, request, TFC_ESYS, 0, 0);
		return;
	}
	uint32_t count = table_remove(table, key);
	answer_later(table, done, request, is_folder || count ? TFC_OK : TFC_ENOENT, 0, 0);
}

static void close_store(void *store)
{
	((struct table *)store)->done = NULL;
}

static tfc_store_ops make_ops(void)
{
	tfc_store_ops ops = TFC_STORE_OPS_INIT;
	ops.get = get;
	ops.list = list;
	ops.put = put;
	ops.remove = remove_rows;
	ops.close = close_store;
	return ops;
}

void table_node_open(struct node_run *run, struct table *table)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	const tfc_store_ops ops = make_ops();
	*run = (struct node_run){.fds = folder_count_fds()};
	ctx.helper_dir = getenv("TFC_HELPER_DIR");
	ctx.log = node_keep_log;
	ctx.log_user = run;
	ctx.log_level = TFC_LOG_INFO;
	assert_int_equal(tfc_ctx_new(&ctx, &error, &run->ctx), 0);
	assert_int_equal(tfc__make_private_dir(leaks_temp_dir(), "tfc-node-", "test", &error,
					       &run->dir),
			 0);
	table->ctx = run->ctx;
	table->lists = 0;
	node.temp_dir = run->dir;
	node.store = &ops;
	node.store_impl = table;
	if (tfc_node_open(run->ctx, &node, &run->node) < 0)
		fail_msg("%s", tfc_ctx_error(run->ctx)->text);
	gateway.node = run->node;
	assert_int_equal(tfc_gateway_open(run->ctx, &gateway, &run->gateway), 0);
}

static bool is_read(void *user)
{
	const struct table *table = user;
	return table->lists == LISTS_AT_START && !table->done;
}

void table_await_read(struct node_run *run, struct table *table)
{
	node_await(run, is_read, table, "the store to be read");
}

void table_node_begin(struct node_run *run, struct table *table)
{
	table_node_open(run, table);
	table_await_read(run, table);
}

void table_free(struct table *table)
{
	drop(table, 0, table->count);
	for (size_t i = 0; table->is_recorded && i < table->change_count; i++)
		free(table->changes[i].data);
	free(table->changes);
}

bool table_has(const struct table *table, const char *key)
{
	return is_at(table, place_of(table, key), key);
}
