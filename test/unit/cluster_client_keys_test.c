/* cluster: client keys of forgotten jobs: for how long, how many, whose, and what a store has of
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cluster/record.h"
#include "wire/msg.h"

struct place {
	tfc_ctx *ctx;
	struct tfc__store *store;
	struct tfc__client_keys keys;
	uint32_t stored; /* records below keys/, as listed last */
	bool is_listed;
	struct tfc__client_keys *restored; /* into which they go; or NULL */
	bool is_damaged;                   /* ... without their values */
};

static void begin(struct place *place)
{
	tfc_error error = TFC_ERROR_INIT;
	*place = (struct place){.ctx = NULL};
	assert_int_equal(tfc_ctx_new(NULL, &error, &place->ctx), TFC_OK);
	assert_int_equal(tfc__store_open_memory(place->ctx, &error, &place->store), TFC_OK);
	tfc__client_keys_init(&place->keys, place->ctx, place->store);
}

static void end(struct place *place)
{
	tfc__client_keys_fini(&place->keys);
	tfc__store_close(place->store);
	tfc_ctx_free(place->ctx);
}

static struct tfc__client_key key_of(const char *text, uint32_t owner, uint8_t digest)
{
	struct tfc__client_key key = {.owner = owner};
	snprintf(key.text, sizeof(key.text), "%s", text);
	memset(key.digest, digest, sizeof(key.digest));
	return key;
}

static void keep(struct place *place, const char *text, const char *job)
{
	const struct tfc__client_key key = key_of(text, 7, 1);
	assert_int_equal(tfc__client_keys_keep(&place->keys, &key, job), TFC_OK);
}

static int find(const struct tfc__client_keys *keys, const char *text, uint32_t owner,
		uint8_t digest, char job[17], tfc_error *error)
{
	const struct tfc__client_key key = key_of(text, owner, digest);
	return tfc__client_keys_find(keys, &key, error, job);
}

static void expect(const struct tfc__client_keys *keys, const char *text, const char *wanted)
{
	char job[17] = "";
	int code = find(keys, text, 7, 1, job, NULL);
	assert_int_equal(code, wanted ? TFC_OK : TFC_ENOENT);
	assert_string_equal(job, wanted ? wanted : "");
}

static void on_list(void *user, int code, const tfc_store_value *values, uint32_t count,
		    const tfc_error *error)
{
	struct place *place = user;
	tfc_store_value copies[8];
	assert_int_equal(code, TFC_OK);
	assert_true(count <= 8);
	place->is_listed = true;
	place->stored = count;
	for (uint32_t i = 0; i < count; i++) {
		copies[i] = values[i];
		if (place->is_damaged)
			copies[i].data = NULL;
	}
	if (place->restored)
		assert_int_equal(tfc__client_keys_restore(place->restored, copies, count), TFC_OK);
}

static void list(struct place *place)
{
	place->is_listed = false;
	assert_non_null(tfc__store_list(place->store, TFC__CLIENT_KEYS_PREFIX, on_list, place));
	while (!place->is_listed)
		assert_true(tfc_ctx_run(place->ctx, 1000) >= 0);
}

/* ---- how long, how many */

static void a_key_goes_when_its_time_is_over(void **state)
{
	struct place place;
	begin(&place);
	assert_int_equal(place.keys.keep_ns, 24ull * 3600 * TFC__SECOND);
	keep(&place, "one", "0000000000000001");
	expect(&place.keys, "one", "0000000000000001");
	list(&place);
	assert_int_equal(place.stored, 1);
	/* Kept again, for a time that may be over already. */
	place.keys.keep_ns = 30 * TFC__MS;
	keep(&place, "one", "0000000000000001");
	while (place.keys.count)
		assert_true(tfc_ctx_run(place.ctx, 1000) >= 0);
	expect(&place.keys, "one", NULL);
	list(&place);
	assert_int_equal(place.stored, 0);
	end(&place);
}

static void at_the_bound_the_oldest_goes(void **state)
{
	struct place place;
	begin(&place);
	assert_int_equal(place.keys.max, 10000);
	place.keys.max = 3;
	for (unsigned i = 0; i < 5; i++) {
		char text[16], job[17];
		snprintf(text, sizeof(text), "key-%u", i);
		snprintf(job, sizeof(job), "%016u", i);
		keep(&place, text, job);
	}
	expect(&place.keys, "key-0", NULL);
	expect(&place.keys, "key-1", NULL);
	expect(&place.keys, "key-2", "0000000000000002");
	expect(&place.keys, "key-4", "0000000000000004");
	list(&place);
	assert_int_equal(place.stored, 3);
	end(&place);
}

/* The job could not be removed from the store, and is forgotten once more. */
static void a_key_that_is_kept_twice_is_there_once(void **state)
{
	struct place place;
	begin(&place);
	keep(&place, "one", "0000000000000001");
	keep(&place, "one", "0000000000000001");
	keep(&place, "", "0000000000000002");
	assert_int_equal(place.keys.count, 1);
	expect(&place.keys, "one", "0000000000000001");
	list(&place);
	assert_int_equal(place.stored, 1);
	end(&place);
}

/* ---- whose, and of what */

static void a_key_is_for_one_user_and_one_submit(void **state)
{
	struct place place;
	tfc_error error = TFC_ERROR_INIT;
	char job[17] = "";
	begin(&place);
	keep(&place, "one", "0000000000000001");
	assert_int_equal(find(&place.keys, "one", 8, 1, job, &error), TFC_EEXIST);
	assert_non_null(strstr(error.text, "another user"));
	assert_null(strstr(error.text, "0000000000000001"));
	assert_int_equal(find(&place.keys, "one", 7, 2, job, &error), TFC_EEXIST);
	assert_non_null(strstr(error.text, "0000000000000001"));
	assert_string_equal(job, "");
	end(&place);
}

/* ---- those of an earlier process */

static void what_is_restored_is_what_was_kept(void **state)
{
	struct place place;
	struct tfc__client_keys again;
	begin(&place);
	place.keys.keep_ns = 3600 * TFC__SECOND;
	keep(&place, "late", "0000000000000001");
	place.keys.keep_ns = 1800 * TFC__SECOND;
	keep(&place, "early", "0000000000000002");
	tfc__client_keys_init(&again, place.ctx, place.store);
	again.max = 2;
	place.restored = &again;
	list(&place);
	expect(&again, "late", "0000000000000001");
	expect(&again, "early", "0000000000000002");
	const struct tfc__client_key more = key_of("more", 7, 1);
	assert_int_equal(tfc__client_keys_keep(&again, &more, "0000000000000003"), TFC_OK);
	expect(&again, "early", NULL); /* it was the first to go */
	expect(&again, "late", "0000000000000001");
	tfc__client_keys_fini(&again);
	end(&place);
}

static void a_damaged_key_is_refused(void **state)
{
	struct place place;
	struct tfc__client_keys again;
	tfc_error error = TFC_ERROR_INIT;
	char job[17];
	begin(&place);
	keep(&place, "one", "0000000000000001");
	tfc__client_keys_init(&again, place.ctx, place.store);
	place.restored = &again;
	place.is_damaged = true;
	list(&place);
	assert_int_equal(find(&again, "one", 7, 1, job, &error), TFC_EPARSE);
	assert_non_null(strstr(error.text, "keys/"));
	assert_int_equal(find(&again, "other", 7, 1, job, NULL), TFC_ENOENT);
	tfc__client_keys_fini(&again);
	end(&place);
}

/* ---- records of 0.2 */

static void expect_owner_of_0_2(const char *submitter, uint32_t owner)
{
	static const char json[] = "{\"framework\":\"none\",\"argv\":[\"true\"],\"roles\":"
				   "{\"worker\":{}}}";
	struct tfc__record *record = tfc__record_new();
	const struct tfc__client_key wanted = key_of("nightly", owner, 9);
	const struct tfc__client_key other = key_of("nightly", owner + 1, 9);
	struct tfc__buf buf = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc__msg_map(&buf, 9);
	tfc__msg_put_u64(&buf, "format", 1);
	tfc__msg_put_str(&buf, "id", "0123456789abcdef");
	tfc__msg_put_u64(&buf, "epoch", 1);
	tfc__msg_put_u64(&buf, "submitted_ns", 1);
	tfc__msg_put_str(&buf, "client_key", "nightly");
	tfc__msg_put_str(&buf, "submitter", submitter);
	tfc__msg_put_bin(&buf, "host_tag", "", 0);
	tfc__msg_put_str(&buf, "job", json);
	tfc__msg_put_bin(&buf, "sealed", "", 0);
	if (tfc__record_read(record, buf.data, buf.len, NULL, &error) < 0)
		fail_msg("%s", error.text);
	assert_int_equal(record->client_key.owner, owner);
	assert_int_equal(tfc__client_key_check(&record->client_key, record->id, &wanted, &error),
			 TFC_OK);
	assert_int_equal(tfc__client_key_check(&record->client_key, record->id, &other, &error),
			 TFC_EEXIST);
	tfc__record_free(record);
	tfc__buf_fini(&buf);
}

static void a_record_of_0_2_has_its_key_and_whose_it_is(void **state)
{
	expect_owner_of_0_2("uid 1001", 1001);
	expect_owner_of_0_2("key 0123456789abcdef, node 0123456789abcdef", geteuid());
	expect_owner_of_0_2("", geteuid());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_goes_when_its_time_is_over),
		cmocka_unit_test(at_the_bound_the_oldest_goes),
		cmocka_unit_test(a_key_that_is_kept_twice_is_there_once),
		cmocka_unit_test(a_key_is_for_one_user_and_one_submit),
		cmocka_unit_test(what_is_restored_is_what_was_kept),
		cmocka_unit_test(a_damaged_key_is_refused),
		cmocka_unit_test(a_record_of_0_2_has_its_key_and_whose_it_is),
	};
	return cmocka_run_group_tests_name("cluster_client_keys", tests, NULL, NULL);
}
