/* node: what nodes say first: read as it was written, and versions that do not fit are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/hello.h"

static const char *const labels[] = {"rack=1", "x=", NULL};

static struct tfc__hello make_hello(const char *name)
{
	struct tfc__hello hello = {
		.protocol = TFC__NODE_PROTOCOL,
		.version = 0x000203,
		.node_id = "0123456789abcdef0123456789abcdef",
		.boot_id = "fedcba9876543210",
		.offer = {.size = sizeof(tfc_member_info),
			  .slots = 4,
			  .memory_bytes = UINT64_C(1) << 40,
			  .gpus = 2,
			  .is_draining = 1,
			  .labels = labels},
	};
	strcpy(hello.name, name);
	return hello;
}

static void a_hello_is_read_as_it_was_written(void **state)
{
	struct tfc__hello hello = make_hello("a"), read;
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	strcpy(hello.to, "b");
	tfc__hello_write(&hello, &buf);
	assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, &error), TFC_OK);
	assert_int_equal(tfc__hello_read(&msg.root, &read, &error), TFC_OK);
	assert_string_equal(read.to, "b");
	assert_int_equal(read.protocol, hello.protocol);
	assert_int_equal(read.version, hello.version);
	assert_string_equal(read.name, "a");
	assert_string_equal(read.node_id, hello.node_id);
	assert_string_equal(read.boot_id, hello.boot_id);
	assert_int_equal(read.offer.slots, 4);
	assert_int_equal(read.offer.memory_bytes, UINT64_C(1) << 40);
	assert_int_equal(read.offer.gpus, 2);
	assert_int_equal(read.offer.is_draining, 1);
	assert_string_equal(read.offer.labels[0], "rack=1");
	assert_string_equal(read.offer.labels[1], "x=");
	assert_null(read.offer.labels[2]);
	tfc__hello_fini(&read);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
}

static void one_that_does_not_say_who_it_is_is_refused(void **state)
{
	static const char *const missing[] = {"name", "node_id", "boot_id"};
	for (size_t i = 0; i < 3; i++) {
		struct tfc__hello read;
		struct tfc__buf buf = {0};
		struct tfc__msg msg;
		tfc_error error = TFC_ERROR_INIT;
		tfc__msg_map(&buf, 2);
		for (size_t j = 0; j < 3; j++)
			if (j != i)
				tfc__msg_put_str(&buf, missing[j], "0123");
		assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, &error), TFC_OK);
		assert_int_equal(tfc__hello_read(&msg.root, &read, &error), TFC_EPARSE);
		tfc__hello_fini(&read);
		tfc__msg_fini(&msg);
		tfc__buf_fini(&buf);
	}
}

static void versions_that_do_not_fit_are_both_named(void **state)
{
	struct tfc__hello own = make_hello("a"), other = make_hello("b");
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__hello_check(&own, &other, &error), TFC_OK);
	other.protocol++;
	other.version = 0x010000;
	assert_int_equal(tfc__hello_check(&own, &other, &error), TFC_ENOTSUP);
	assert_string_equal(error.text,
			    "node \"a\" runs version 0.2.3 and node \"b\" version 1.0.0, which do "
			    "not work together: bring \"a\" up to date");
	assert_int_equal(tfc__hello_check(&other, &own, &error), TFC_ENOTSUP);
	assert_non_null(strstr(error.text, "bring \"a\" up to date"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_read_as_it_was_written),
		cmocka_unit_test(one_that_does_not_say_who_it_is_is_refused),
		cmocka_unit_test(versions_that_do_not_fit_are_both_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
