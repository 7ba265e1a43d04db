/* What every store promises: the library's own, and one that a host brings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "leaks.h"
#include "store_kinds.h"

#define ANY UINT64_MAX

struct bench {
	const struct store_kind *kind;
	tfc_ctx *ctx;
	struct tfc__store *store;
	char place[LEAKS_PATH + 16];
	char dir[LEAKS_PATH];
};

static void open_store(struct bench *bench)
{
	tfc_error error = TFC_ERROR_INIT;
	if (bench->kind->open(bench->ctx, bench->place, &error, &bench->store) < 0)
		fail_msg("%s: %s", bench->kind->name, error.text);
}

static void begin(struct bench *bench, const struct store_kind *kind)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = getenv("TFC_HELPER_DIR");
	*bench = (struct bench){.kind = kind};
	leaks_make_dir(bench->dir);
	snprintf(bench->place, sizeof(bench->place), "%s/state", bench->dir);
	assert_int_equal(tfc_ctx_new(&options, NULL, &bench->ctx), TFC_OK);
	open_store(bench);
}

static void end(struct bench *bench)
{
	char command[LEAKS_PATH + 16];
	tfc__store_close(bench->store);
	tfc_ctx_free(bench->ctx);
	snprintf(command, sizeof(command), "rm -rf %s", bench->dir);
	assert_int_equal(system(command), 0);
}

typedef void (*promise)(struct bench *bench);

static void check_all(promise is_kept)
{
	for (size_t i = 0; i < test_store_kind_count; i++) {
		struct bench bench;
		begin(&bench, &test_store_kinds[i]);
		is_kept(&bench);
		end(&bench);
	}
}

static struct store_answer put(struct bench *bench, const char *key, const char *value,
			       uint64_t version)
{
	return test_store_put(bench->ctx, bench->store, key, value, version);
}

static void assert_value(struct bench *bench, const char *key, const char *expected)
{
	struct store_answer answer = test_store_get(bench->ctx, bench->store, key);
	char text[128];
	snprintf(text, sizeof(text), "%s=%s\n", key, expected);
	assert_int_equal(answer.code, TFC_OK);
	assert_int_equal(answer.count, 1);
	assert_string_equal(answer.text, text);
}

static void assert_none(struct bench *bench, const char *key)
{
	struct store_answer answer = test_store_get(bench->ctx, bench->store, key);
	assert_int_equal(answer.code, TFC_ENOENT);
	assert_int_equal(answer.count, 0);
	assert_true(answer.text[0]);
}

/* ---- the promises */

static void keep_value(struct bench *bench)
{
	assert_none(bench, "jobs/a/record");
	assert_int_equal(put(bench, "jobs/a/record", "one", ANY).code, TFC_OK);
	assert_value(bench, "jobs/a/record", "one");
	assert_int_equal(put(bench, "jobs/a/record", "", ANY).code, TFC_OK);
	assert_value(bench, "jobs/a/record", "");
	assert_none(bench, "jobs/a/recor");
	assert_none(bench, "jobs/b/record");
}

static void what_is_put_is_got(void **state)
{
	check_all(keep_value);
}

static void compare_and_set(struct bench *bench)
{
	assert_int_equal(put(bench, "k", "0", 7).code, TFC_ESTATE);
	struct store_answer first = put(bench, "k", "1", 0);
	assert_int_equal(first.code, TFC_OK);
	assert_int_equal(put(bench, "k", "x", 0).code, TFC_ESTATE);
	struct store_answer second = put(bench, "k", "2", first.version);
	assert_int_equal(second.code, TFC_OK);
	assert_true(second.version > first.version);
	assert_int_equal(put(bench, "k", "x", first.version).code, TFC_ESTATE);
	assert_value(bench, "k", "2");
	assert_int_equal(test_store_get(bench->ctx, bench->store, "k").version, second.version);
}

static void only_the_requested_version_is_replaced(void **state)
{
	check_all(compare_and_set);
}

static void remove_and_write_again(struct bench *bench)
{
	struct store_answer first = put(bench, "k", "1", 0);
	assert_int_equal(test_store_remove(bench->ctx, bench->store, "k").code, TFC_OK);
	assert_none(bench, "k");
	assert_int_equal(test_store_remove(bench->ctx, bench->store, "k").code, TFC_ENOENT);
	struct store_answer again = put(bench, "k", "2", 0);
	assert_int_equal(again.code, TFC_OK);
	assert_true(again.version > first.version);
	assert_int_equal(put(bench, "k", "x", first.version).code, TFC_ESTATE);
}

static void a_version_is_never_used_again(void **state)
{
	check_all(remove_and_write_again);
}

static void list_in_order(struct bench *bench)
{
	static const char *const keys[] = {
		"jobs/b/journal/10", "jobs/b/record", "jobs/a/record", "jobs/a-b/record",
		"jobs/a.b",          "jobsx/a",       "jobs/B",        "jobs/b/journal/9"};
	assert_int_equal(test_store_list(bench->ctx, bench->store, "jobs/").count, 0);
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		assert_int_equal(put(bench, keys[i], "v", ANY).code, TFC_OK);
	struct store_answer answer = test_store_list(bench->ctx, bench->store, "jobs/");
	assert_int_equal(answer.code, TFC_OK);
	assert_string_equal(answer.text, "jobs/B=v\njobs/a-b/record=v\njobs/a.b=v\n"
					 "jobs/a/record=v\njobs/b/journal/10=v\n"
					 "jobs/b/journal/9=v\njobs/b/record=v\n");
	answer = test_store_list(bench->ctx, bench->store, "jobs/b/");
	assert_int_equal(answer.count, 3);
	assert_int_equal(test_store_list(bench->ctx, bench->store, "").count, 8);
	assert_int_equal(test_store_list(bench->ctx, bench->store, "none/").count, 0);
}

static void a_list_holds_all_below_in_the_order_of_bytes(void **state)
{
	check_all(list_in_order);
}

static void remove_folder(struct bench *bench)
{
	put(bench, "jobs/a/record", "1", ANY);
	put(bench, "jobs/a/journal/0", "2", ANY);
	put(bench, "jobs/ab", "3", ANY);
	assert_int_equal(test_store_remove(bench->ctx, bench->store, "jobs/a/").code, TFC_OK);
	struct store_answer answer = test_store_list(bench->ctx, bench->store, "jobs/");
	assert_string_equal(answer.text, "jobs/ab=3\n");
	assert_int_equal(test_store_remove(bench->ctx, bench->store, "jobs/a/").code, TFC_OK);
	put(bench, "jobs/a/record", "4", 0);
	assert_value(bench, "jobs/a/record", "4");
}

static void a_folder_is_removed_with_all_below(void **state)
{
	check_all(remove_folder);
}

/* ---- order, ends */

#define MANY 200

struct order {
	uint32_t next;
	struct store_answer last;
};

struct numbered {
	struct order *order;
	uint32_t number;
};

static void take_in_order(void *user, int code, const tfc_store_value *values, uint32_t count,
			  const tfc_error *error)
{
	struct numbered *numbered = user;
	assert_int_equal(code, TFC_OK);
	assert_int_equal(numbered->order->next++, numbered->number);
}

static void write_many(struct bench *bench)
{
	struct order order = {0};
	struct numbered numbered[MANY];
	struct store_answer last = {0};
	char value[16];
	for (uint32_t i = 0; i < MANY; i++) {
		numbered[i] = (struct numbered){&order, i};
		snprintf(value, sizeof(value), "%u", i);
		assert_non_null(tfc__store_put(bench->store, "k", value, strlen(value), ANY,
					       take_in_order, &numbered[i]));
	}
	assert_int_equal(order.next, 0); /* nothing is called inside the call that asks */
	assert_non_null(tfc__store_get(bench->store, "k", test_store_take, &last));
	test_store_await(bench->ctx, &last);
	assert_int_equal(order.next, MANY);
	assert_string_equal(last.text, "k=199\n");
}

static void requests_are_done_in_the_order_they_are_sent(void **state)
{
	check_all(write_many);
}

static void fail_if_called(void *user, int code, const tfc_store_value *values, uint32_t count,
			   const tfc_error *error)
{
	fail_msg("called after the end");
}

static void drop_one(struct bench *bench)
{
	tfc__store_drop(tfc__store_put(bench->store, "k", "1", 1, ANY, fail_if_called, NULL));
	tfc__store_drop(NULL);
	assert_value(bench, "k", "1");
}

static void what_is_dropped_is_done_and_not_reported(void **state)
{
	check_all(drop_one);
}

static void close_and_open(struct bench *bench)
{
	if (!bench->kind->is_kept)
		return;
	struct store_answer first = put(bench, "first", "0", ANY);
	for (uint32_t i = 0; i < 40; i++) {
		char key[16];
		snprintf(key, sizeof(key), "k%u", i);
		tfc__store_put(bench->store, key, "v", 1, ANY, fail_if_called, NULL);
	}
	tfc__store_close(bench->store);
	open_store(bench);
	assert_int_equal(test_store_list(bench->ctx, bench->store, "").count, 41);
	assert_int_equal(test_store_get(bench->ctx, bench->store, "first").version, first.version);
	assert_true(put(bench, "new", "1", 0).version > first.version);
}

static void what_was_requested_before_the_close_is_done(void **state)
{
	check_all(close_and_open);
}

static void close_inside(void *user, int code, const tfc_store_value *values, uint32_t count,
			 const tfc_error *error)
{
	struct bench *bench = user;
	tfc__store_close(bench->store);
	bench->store = NULL;
}

static void close_in_callback(struct bench *bench)
{
	tfc__store_put(bench->store, "k", "1", 1, ANY, close_inside, bench);
	tfc__store_get(bench->store, "k", fail_if_called, NULL);
	while (bench->store)
		assert_true(tfc_ctx_run(bench->ctx, 1000) >= 0);
}

static void a_store_may_be_closed_in_a_callback(void **state)
{
	check_all(close_in_callback);
}

/* ---- sizes and names */

static void large_is_kept(void *user, int code, const tfc_store_value *values, uint32_t count,
			  const tfc_error *error)
{
	struct store_answer *answer = user;
	assert_int_equal(code, TFC_OK);
	assert_int_equal(values[0].len, TFC__STORE_VALUE_MAX);
	const uint8_t *data = values[0].data;
	for (size_t i = 0; i < values[0].len; i += 4099)
		assert_int_equal(data[i], (uint8_t)(i / 4099));
	answer->has_come = true;
}

static void write_large(struct bench *bench)
{
	struct store_answer answer = {0};
	uint8_t *data = calloc(1, TFC__STORE_VALUE_MAX + 1);
	for (size_t i = 0; i < TFC__STORE_VALUE_MAX; i += 4099)
		data[i] = (uint8_t)(i / 4099);
	tfc__store_put(bench->store, "k", data, TFC__STORE_VALUE_MAX + 1, ANY, test_store_take,
		       &answer);
	test_store_await(bench->ctx, &answer);
	assert_int_equal(answer.code, TFC_ETOOBIG);
	tfc__store_drop(
		tfc__store_put(bench->store, "k", data, TFC__STORE_VALUE_MAX, ANY, NULL, NULL));
	answer.has_come = false;
	tfc__store_get(bench->store, "k", large_is_kept, &answer);
	test_store_await(bench->ctx, &answer);
	free(data);
}

static void eight_mebibytes_are_the_most(void **state)
{
	check_all(write_large);
}

static void try_names(struct bench *bench)
{
	static const char *const wrong[] = {"",    "/a",  "a//b", "..",  "a/../b",   ".a",
					    "a/.", "a b", "a\\b", "a\n", "\xc3\xa4", "a/./b"};
	char longest[TFC__STORE_KEY_MAX + 2];
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(put(bench, wrong[i], "1", ANY).code, TFC_EINVAL);
		assert_int_equal(test_store_get(bench->ctx, bench->store, wrong[i]).code,
				 TFC_EINVAL);
		assert_int_equal(test_store_remove(bench->ctx, bench->store, wrong[i]).code,
				 TFC_EINVAL);
	}
	assert_int_equal(put(bench, "a/", "1", ANY).code, TFC_EINVAL);
	assert_int_equal(test_store_list(bench->ctx, bench->store, "a").code, TFC_EINVAL);
	memset(longest, 'k', sizeof(longest));
	longest[TFC__STORE_KEY_MAX + 1] = '\0';
	assert_int_equal(put(bench, longest, "1", ANY).code, TFC_EINVAL);
	longest[TFC__STORE_KEY_MAX] = '\0';
	assert_int_equal(put(bench, longest, "1", ANY).code, TFC_OK);
	assert_int_equal(test_store_list(bench->ctx, bench->store, "").count, 1);
}

static void what_is_no_key_is_refused(void **state)
{
	check_all(try_names);
}

/* ---- what only a host's own can get wrong */

static void get_nothing(void *store, const char *key, tfc_store_done done, void *request)
{
	done(request, TFC_OK, NULL, 0, NULL);
}

static void put_nothing(void *store, const char *key, const void *data, uint64_t len,
			uint64_t version, tfc_store_done done, void *request)
{
	done(request, TFC_OK, NULL, 0, NULL);
}

static int open_empty(tfc_ctx *ctx, const char *place, tfc_error *error,
		      struct tfc__store **ret_store)
{
	static const tfc_store_ops ops = {
		.size = sizeof(ops),
		.get = get_nothing,
		.list = get_nothing,
		.put = put_nothing,
		.remove = get_nothing,
	};
	return tfc__store_open_ops(ctx, &ops, NULL, error, ret_store);
}

static void a_success_without_its_value_is_none(void **state)
{
	static const struct store_kind kind = {"empty", open_empty, false};
	struct bench bench;
	begin(&bench, &kind);
	assert_int_equal(put(&bench, "k", "1", 0).code, TFC_EINVAL);
	assert_int_equal(test_store_get(bench.ctx, bench.store, "k").code, TFC_EINVAL);
	assert_int_equal(test_store_list(bench.ctx, bench.store, "").code, TFC_OK);
	assert_int_equal(test_store_remove(bench.ctx, bench.store, "k").code, TFC_OK);
	end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_got),
		cmocka_unit_test(only_the_requested_version_is_replaced),
		cmocka_unit_test(a_version_is_never_used_again),
		cmocka_unit_test(a_list_holds_all_below_in_the_order_of_bytes),
		cmocka_unit_test(a_folder_is_removed_with_all_below),
		cmocka_unit_test(requests_are_done_in_the_order_they_are_sent),
		cmocka_unit_test(what_is_dropped_is_done_and_not_reported),
		cmocka_unit_test(what_was_requested_before_the_close_is_done),
		cmocka_unit_test(a_store_may_be_closed_in_a_callback),
		cmocka_unit_test(eight_mebibytes_are_the_most),
		cmocka_unit_test(what_is_no_key_is_refused),
		cmocka_unit_test(a_success_without_its_value_is_none),
	};
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
