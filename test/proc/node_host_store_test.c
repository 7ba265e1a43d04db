/* node: jobs in a store of the host's own, which answers later, and sometimes badly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"
#include <tfcluster/backend.h>

#define ROWS 64

struct row {
	char key[128];
	void *data;
	uint64_t len;
	uint64_t version;
};

/* It outlives nodes and contexts. */
struct table {
	tfc_ctx *ctx;
	struct row rows[ROWS]; /* in the order of keys: `count` of them */
	uint32_t count;
	uint64_t version;
	int failure; /* of every put: an enum tfc_err, or 0 */
	/* The request under way. */
	tfc_store_done done;
	void *request;
	int32_t code;
	uint32_t first, answers;
};

static void answer(void *user)
{
	struct table *table = user;
	tfc_store_value values[ROWS];
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
	answer_later(store, done, request, TFC_OK, place, count_below(store, place, prefix));
}

static void drop(struct table *table, uint32_t place, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		free(table->rows[place + i].data);
	memmove(&table->rows[place], &table->rows[place + count],
		(table->count - place - count) * sizeof(*table->rows));
	table->count -= count;
}

static void put(void *store, const char *key, const void *data, uint64_t len, uint64_t version,
		tfc_store_done done, void *request)
{
	struct table *table = store;
	uint32_t place = place_of(table, key);
	bool is_there = is_at(table, place, key);
	if (table->failure) {
		answer_later(table, done, request, table->failure, 0, 0);
		return;
	}
	if (version != UINT64_MAX && version != (is_there ? table->rows[place].version : 0)) {
		answer_later(table, done, request, TFC_ESTATE, 0, 0);
		return;
	}
	if (is_there)
		drop(table, place, 1);
	assert_true(table->count < ROWS);
	memmove(&table->rows[place + 1], &table->rows[place],
		(table->count++ - place) * sizeof(*table->rows));
	struct row *row = &table->rows[place];
	*row = (struct row){.data = malloc(len + 1), .len = len, .version = ++table->version};
	snprintf(row->key, sizeof(row->key), "%s", key);
	memcpy(row->data, data, len);
	answer_later(table, done, request, TFC_OK, place, 1);
}

static void remove_rows(void *store, const char *key, tfc_store_done done, void *request)
{
	struct table *table = store;
	uint32_t place = place_of(table, key);
	bool is_folder = key[strlen(key) - 1] == '/';
	uint32_t count = is_folder ? count_below(table, place, key) : is_at(table, place, key);
	drop(table, place, count);
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

/* As node_run_begin, with the context told to the table. */
static void begin(struct node_run *run, struct table *table)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	const tfc_store_ops ops = make_ops();
	*run = (struct node_run){.fds = folder_count_fds()};
	ctx.helper_dir = getenv("TFC_HELPER_DIR");
	assert_int_equal(tfc_ctx_new(&ctx, &error, &run->ctx), 0);
	assert_int_equal(tfc__make_private_dir(leaks_temp_dir(), "tfc-node-", "test", &error,
					       &run->dir),
			 0);
	table->ctx = run->ctx;
	node.temp_dir = run->dir;
	node.store = &ops;
	node.store_user = table;
	if (tfc_node_open(run->ctx, &node, &run->node) < 0)
		fail_msg("%s", tfc_ctx_error(run->ctx)->text);
	gateway.node = run->node;
	assert_int_equal(tfc_gateway_open(run->ctx, &gateway, &run->gateway), 0);
}

static void free_table(struct table *table)
{
	drop(table, 0, table->count);
}

static bool has_listed(void *user)
{
	return ((struct table *)user)->done == NULL;
}

static int ask(struct node_run *run, const char *job, char text[256])
{
	struct answer reply = {0};
	assert_int_equal(tfc_gateway_describe(run->gateway, job, 0, node_answer, &reply, NULL), 0);
	node_await_answer(run, &reply);
	snprintf(text, 256, "%s", reply.error);
	int code = reply.code;
	node_answer_clear(&reply);
	return code;
}

static void a_job_is_there_as_soon_as_the_store_has_answered(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	struct answer early = {0};
	char text[256];
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	char *json = node_json("{'roles': {'driver': {'argv': ['/bin/sh', '-c', 'exit 3']}}}");
	node_run_job(&run, json, &follower);
	char *id = strdup(follower.job);
	node_follow_end(&follower);
	node_run_end(&run);
	begin(&run, &table);
	/* Put before the store has answered. */
	assert_int_equal(tfc_gateway_describe(run.gateway, id, 0, node_answer, &early, NULL), 0);
	node_await_answer(&run, &early);
	assert_int_equal(early.code, TFC_EAGAIN);
	node_answer_clear(&early);
	node_await(&run, has_listed, &table, "the list");
	assert_int_equal(ask(&run, id, text), TFC_OK);
	node_run_end(&run);
	free(id);
	free(json);
	free_table(&table);
}

static void a_job_that_cannot_be_stored_is_refused(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct answer reply = {0}, all = {0};
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	table.failure = TFC_ENOSPC;
	char *json = node_json("{'roles': {'driver': {'argv': ['true']}}}");
	node_submit_for(&run, json, NULL, &reply);
	assert_int_equal(reply.code, TFC_ENOSPC);
	assert_string_equal(reply.error, "the grid is full");
	assert_int_equal(tfc_gateway_list(run.gateway, 0, node_answer, &all, NULL), 0);
	node_await_answer(&run, &all);
	assert_string_equal(all.text, "[]");
	node_answer_clear(&all);
	node_answer_clear(&reply);
	node_run_end(&run);
	free(json);
	free_table(&table);
}

/* What it could not store is stored once that works again. */
static void a_job_goes_on_while_its_store_fails(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0}, after = {0};
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	char *json = node_json("{'roles': {'driver': {'argv': ['true']}}}");
	char *id = node_submit(&run, json);
	table.failure = TFC_ENOSPC;
	node_follow(&run, id, NULL, &follower);
	assert_int_equal(node_await_end(&run, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	table.failure = 0;
	node_follow_end(&follower);
	node_run_end(&run);
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	node_follow(&run, id, NULL, &after);
	assert_int_equal(node_await_end(&run, &after)->event.epoch, 1);
	node_follow_end(&after);
	node_run_end(&run);
	free(id);
	free(json);
	free_table(&table);
}

static void secrets_need_a_place_that_keeps_them(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct answer reply = {0};
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	char *json = node_json(
		"{'secret_env': {'A': 'b'}, 'roles': {'driver': {'argv': ['true']}}}");
	node_submit_for(&run, json, NULL, &reply);
	assert_int_equal(reply.code, TFC_ENOTSUP);
	node_answer_clear(&reply);
	node_run_end(&run);
	free(json);
	free_table(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_is_there_as_soon_as_the_store_has_answered),
		cmocka_unit_test(a_job_that_cannot_be_stored_is_refused),
		cmocka_unit_test(a_job_goes_on_while_its_store_fails),
		cmocka_unit_test(secrets_need_a_place_that_keeps_them),
	};
	return cmocka_run_group_tests_name("node_host_store", tests, NULL, NULL);
}
