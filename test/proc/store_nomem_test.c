/* store, directory: whichever allocation fails, the answer says so and nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "cluster/journal_msg.h"
#include "cluster/record.h"
#include "failing_malloc.h"
#include "leaks.h"
#include "proc_run.h"
#include "store/store.h"

static tfc_ctx *ctx;
static char dir[LEAKS_PATH];
static char path[LEAKS_PATH + 8];

struct answer {
	bool has_come;
	int code;
};

static void take(void *user, int code, const tfc_store_value *values, uint32_t count,
		 const tfc_error *error)
{
	*(struct answer *)user = (struct answer){true, code};
}

static int await(const struct tfc__store_op *op, struct answer *answer)
{
	uint64_t until = tfc__now() + 30 * TFC__SECOND;
	if (!op)
		return TFC_ENOMEM;
	while (!answer->has_come && tfc__now() < until)
		assert_true(tfc_ctx_run(ctx, 1000) >= 0);
	assert_true(answer->has_come);
	return answer->code;
}

/* A helper that cannot be written to or read from is given up: what became of the write is unknown,
 * and the next request starts another. */
static int use(struct tfc__store *store)
{
	struct answer put = {0}, list = {0}, gone = {0};
	int code = await(tfc__store_put(store, "a/b", "c", 1, UINT64_MAX, take, &put), &put);
	if (code == TFC_OK)
		code = await(tfc__store_list(store, "a/", take, &list), &list);
	if (code == TFC_OK)
		code = await(tfc__store_remove(store, "a/", take, &gone), &gone);
	tfc__store_close(store);
	return code == TFC_ELOST ? TFC_ENOMEM : code;
}

static int use_memory(void)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__store *store;
	int code = failing_said(tfc__store_open_memory(ctx, &error, &store), &error);
	return code < 0 ? code : use(store);
}

static int use_local(void)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__store *store;
	int code = tfc__store_open_local(ctx, path, &error, &store);
	if (code == TFC_ELOST)
		return TFC_ENOMEM;
	return code < 0 ? code : use(store);
}

static int setup(void **state)
{
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/state", dir);
	return proc_ctx_new(&ctx);
}

static int teardown(void **state)
{
	tfc_ctx_free(ctx);
	return tfc__remove_tree(dir);
}

static void a_store_in_memory_reports_that_there_is_none(void **state)
{
	failing_sweep(use_memory, 6);
}

static void a_store_in_a_directory_reports_that_there_is_none(void **state)
{
	failing_sweep(use_local, 8);
}

/* ---- records and journals as bytes */

static const uint8_t seal_key[TFC__STORE_SEAL_SIZE] = {7};
static const uint8_t *const seal_keys[] = {seal_key, NULL};

static int write_and_read(void)
{
	static const char json[] = "{\"secret_env\": {\"A\": \"b\"}, \"roles\": {\"driver\": "
				   "{\"argv\": [\"true\"]}}}";
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf buf = {0};
	struct tfc__record *record = tfc__record_new(), *again = tfc__record_new();
	int code = record && again ? TFC_OK : TFC_ENOMEM;
	if (code == TFC_OK)
		code = tfc_job_parse(json, sizeof(json) - 1, NULL, &error, &record->job);
	if (code == TFC_OK) {
		strcpy(record->id, "0123456789abcdef");
		record->epoch = 1;
		code = tfc__record_write(record, seal_key, &buf, &error);
	}
	if (code == TFC_OK)
		code = tfc__record_read(again, buf.data, buf.len, seal_keys, &error);
	if (code == TFC_OK)
		assert_string_equal(again->job->secret_env.items[0], "A=b");
	tfc__buf_fini(&buf);
	tfc__record_free(record);
	tfc__record_free(again);
	/* The JSON library may lose a character of a key for want of memory without a word (lexer
	 * of jansson 2.14): then the job in the record is none, and the record is left alone. */
	return code == TFC_EPARSE && failing_has_struck() ? TFC_ENOMEM : code;
}

static void a_record_is_whole_or_not_there(void **state)
{
	failing_sweep(write_and_read, 20);
}

static int fill(struct tfc__journal *journal)
{
	int code = TFC_OK;
	for (uint32_t i = 0; i < 3 && code == TFC_OK; i++) {
		struct tfc__journal_entry entry = {.kind = TFC_EVENT_TASK,
						   .task = i,
						   .task_state = TFC_TASK_READY,
						   .node = (char *)"n",
						   .address = (char *)"a:1",
						   .text = (char *)"so"};
		code = tfc__journal_add(journal, &entry);
	}
	return code;
}

static int copy_journal(void)
{
	struct tfc__journal journal, again;
	struct tfc__buf buf = {0};
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__journal_init(&journal), other = tfc__journal_init(&again);
	if (code == TFC_OK && (code = other) == TFC_OK && (code = fill(&journal)) == TFC_OK) {
		tfc__journal_write(&journal, 0, journal.count, &buf);
		code = buf.is_failed ? TFC_ENOMEM
				     : tfc__journal_read(&again, buf.data, buf.len, 3, &error);
	}
	if (code == TFC_OK) {
		assert_int_equal(again.count, 3);
		assert_string_equal(again.entries[2].address, "a:1");
	}
	tfc__buf_fini(&buf);
	tfc__journal_fini(&journal);
	tfc__journal_fini(&again);
	return code;
}

static void a_journal_is_read_or_there_is_no_memory(void **state)
{
	failing_sweep(copy_journal, 10);
}

/* ---- client keys */

static int keep_twice(void)
{
	static const struct tfc__client_key key = {.text = "one", .owner = 7, .digest = {1}};
	struct tfc__client_keys keys;
	struct tfc__store *store;
	tfc_error error = TFC_ERROR_INIT;
	char job[17] = "";
	int code = failing_said(tfc__store_open_memory(ctx, &error, &store), &error);
	if (code < 0)
		return code;
	tfc__client_keys_init(&keys, ctx, store);
	code = tfc__client_keys_keep(&keys, &key, "0000000000000001");
	if (code == TFC_OK) { /* whatever fails from here on */
		assert_int_equal(tfc__client_keys_keep(&keys, &key, "0000000000000001"), TFC_OK);
		assert_int_equal(tfc__client_keys_find(&keys, &key, &error, job), TFC_OK);
		assert_string_equal(job, "0000000000000001");
		code = failing_has_struck() ? TFC_ENOMEM : TFC_OK;
	}
	tfc__client_keys_fini(&keys);
	tfc__store_close(store);
	return code;
}

static void a_client_key_that_is_kept_is_never_lost(void **state)
{
	failing_sweep(keep_twice, 6);
}

static int restore_keys(void)
{
	const tfc_store_value values[] = {
		{.size = sizeof(*values), .key = "keys/00000000000000000000000000000001"},
		{.size = sizeof(*values), .key = "keys/00000000000000000000000000000002"},
	};
	struct tfc__client_keys keys;
	tfc__client_keys_init(&keys, ctx, NULL);
	int code = tfc__client_keys_restore(&keys, values, 2);
	tfc__client_keys_fini(&keys);
	return code;
}

static void client_keys_are_restored_or_there_is_no_memory(void **state)
{
	failing_sweep(restore_keys, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_store_in_memory_reports_that_there_is_none),
		cmocka_unit_test(a_store_in_a_directory_reports_that_there_is_none),
		cmocka_unit_test(a_record_is_whole_or_not_there),
		cmocka_unit_test(a_journal_is_read_or_there_is_no_memory),
		cmocka_unit_test(a_client_key_that_is_kept_is_never_lost),
		cmocka_unit_test(client_keys_are_restored_or_there_is_no_memory),
	};
	return cmocka_run_group_tests_name("store_nomem", tests, setup, teardown);
}
