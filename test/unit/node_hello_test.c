/* node: what nodes say first: read as it was written, and versions that do not fit are named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
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
	assert_int_equal(tfc__hello_read(&msg.root, &error, &read), TFC_OK);
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
		assert_int_equal(tfc__hello_read(&msg.root, &error, &read), TFC_EPARSE);
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
			    "incompatible versions: node \"a\" has 0.2.3 and node \"b\" has 1.0.0; "
			    "update \"a\"");
	assert_int_equal(tfc__hello_check(&other, &own, &error), TFC_ENOTSUP);
	assert_non_null(strstr(error.text, "update \"a\""));
}

/* As 0.2.0 says it. */
static void a_node_of_0_2_is_refused_and_both_versions_are_named(void **state)
{
	static const char hello_of_0_2[] =
		"8aa870726f746f636f6c01a776657273696f6ecd0200a46e616d65a16ba76e6f64655f6964d9203031"
		"3233343536373839616263646566303132333435363738396162636465"
		"66a7626f6f745f6964b066656463626139383736353433323130a5736c6f747304a66d656d6f727900"
		"a46770757300a8647261696e696e67c2a66c6162656c7391a6"
		"7261636b3d31";
	struct tfc__hello own = make_hello("a"), other;
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf buf = golden_parse(hello_of_0_2, &msg);
	own.version = 0x000300;
	assert_int_equal(tfc__hello_read(&msg.root, &error, &other), TFC_OK);
	assert_string_equal(other.node_id, "0123456789abcdef0123456789abcdef");
	assert_string_equal(other.boot_id, "fedcba9876543210");
	assert_int_equal(other.offer.slots, 4);
	assert_string_equal(other.offer.labels[0], "rack=1");
	assert_int_equal(tfc__hello_check(&own, &other, &error), TFC_ENOTSUP);
	assert_string_equal(error.text,
			    "incompatible versions: node \"a\" has 0.3.0 and node \"k\" has 0.2.0; "
			    "update \"k\"");
	tfc__hello_fini(&other);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_read_as_it_was_written),
		cmocka_unit_test(one_that_does_not_say_who_it_is_is_refused),
		cmocka_unit_test(versions_that_do_not_fit_are_both_named),
		cmocka_unit_test(a_node_of_0_2_is_refused_and_both_versions_are_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
