/* cluster: what a record holds of a job, and to whom it shows the job's secrets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/record.h"
#include "wire/msg.h"

static const uint8_t ours[TFC__STORE_SEAL_SIZE] = {1}, older[TFC__STORE_SEAL_SIZE] = {2};

static struct tfc__record *make(const char *secrets)
{
	char json[256];
	struct tfc__record *record = tfc__record_new();
	assert_non_null(record);
	int len = snprintf(json, sizeof(json),
			   "{\"argv\":[\"a\"],\"roles\":{\"worker\":{}},\"secret_env\":{%s}}",
			   secrets);
	assert_int_equal(tfc_job_parse(json, (size_t)len, NULL, NULL, &record->job), TFC_OK);
	strcpy(record->id, "0123456789abcdef");
	record->epoch = 1;
	record->has_minimal_env = true;
	return record;
}

static struct tfc__buf write(const char *secrets, const uint8_t *seal_key)
{
	struct tfc__buf buf = {0};
	struct tfc__record *record = make(secrets);
	assert_int_equal(tfc__record_write(record, seal_key, &buf, NULL), TFC_OK);
	tfc__record_free(record);
	return buf;
}

static struct tfc__record *read_with(const struct tfc__buf *buf, const uint8_t *const *seal_keys)
{
	struct tfc__record *record = tfc__record_new();
	assert_non_null(record);
	assert_int_equal(tfc__record_read(record, buf->data, buf->len, seal_keys, NULL), TFC_OK);
	assert_string_equal(record->id, "0123456789abcdef");
	assert_true(record->has_minimal_env);
	return record;
}

static void secrets_are_read_with_any_key_that_fits_and_with_no_other(void **state)
{
	const uint8_t *const both[] = {ours, older, NULL}, *const first[] = {ours, NULL},
			     *const none[] = {NULL};
	const struct {
		const uint8_t *sealed, *const *keys;
		bool is_lost;
	} cases[] = {
		{ours, both, false},  {older, both, false}, {ours, first, false},
		{older, first, true}, {ours, none, true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__buf buf = write("\"TOKEN\":\"open sesame\"", cases[i].sealed);
		assert_null(memmem(buf.data, buf.len, "sesame", 6));
		struct tfc__record *record = read_with(&buf, cases[i].keys);
		assert_int_equal(record->has_lost_secrets, cases[i].is_lost);
		assert_int_equal(record->job->secret_env.count, 1);
		assert_string_equal(record->job->secret_env.items[0],
				    cases[i].is_lost ? "TOKEN" : "TOKEN=open sesame");
		tfc__record_free(record);
		tfc__buf_fini(&buf);
	}
}

static void names_alone_are_no_secrets(void **state)
{
	const uint8_t *const none[] = {NULL};
	struct tfc__buf buf = write("\"TOKEN\":null", NULL);
	struct tfc__record *record = read_with(&buf, none);
	assert_false(record->has_lost_secrets);
	assert_string_equal(record->job->secret_env.items[0], "TOKEN");
	tfc__record_free(record);
	tfc__buf_fini(&buf);
}

static void a_store_that_keeps_no_secrets_is_given_none(void **state)
{
	struct tfc__buf buf = {0};
	struct tfc__record *record = make("\"TOKEN\":\"open sesame\"");
	assert_int_equal(tfc__record_write(record, NULL, &buf, NULL), TFC_ENOTSUP);
	assert_int_equal(buf.len, 0);
	tfc__record_free(record);
	tfc__buf_fini(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_are_read_with_any_key_that_fits_and_with_no_other),
		cmocka_unit_test(names_alone_are_no_secrets),
		cmocka_unit_test(a_store_that_keeps_no_secrets_is_given_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
