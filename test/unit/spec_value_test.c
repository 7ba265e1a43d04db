/* spec: the value - tasks, addresses, duplicates, cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spec/spec.h"

struct walk {
	char text[256];
};

static int write_task(void *user, const char *task_type, uint32_t task_index, const char *address)
{
	struct walk *walk = user;
	size_t len = strlen(walk->text);
	snprintf(walk->text + len, sizeof(walk->text) - len, "%s/%u=%s ", task_type, task_index,
		 address);
	return 0;
}

static int stop_at_worker(void *user, const char *task_type, uint32_t task_index,
			  const char *address)
{
	++*(int *)user;
	return strcmp(task_type, "worker") == 0 ? 7 : 0;
}

static void tasks_are_found_counted_and_walked_in_order(void **state)
{
	tfc_spec *spec;
	struct walk walk = {""};
	int calls = 0;
	assert_int_equal(tfc_spec_new(&spec), 0);
	assert_int_equal(tfc_spec_count(spec, NULL), 0);
	assert_int_equal(tfc_spec_add(spec, "evaluator", 0, "e:1", NULL), 0);
	assert_int_equal(tfc_spec_add(spec, "worker", 2, "w:3", NULL), 0);
	assert_int_equal(tfc_spec_add(spec, "ps", 0, "p:1", NULL), 0);
	assert_int_equal(tfc_spec_add(spec, "worker", 0, "w:1", NULL), 0);
	assert_int_equal(tfc_spec_add(spec, "worker", 1, "w:2", NULL), 0);
	assert_int_equal(tfc_spec_add(spec, "chief", 0, "c:1", NULL), 0);
	assert_int_equal(tfc_spec_each(spec, write_task, &walk), 0);
	assert_string_equal(walk.text, "chief/0=c:1 worker/0=w:1 worker/1=w:2 worker/2=w:3 "
				       "ps/0=p:1 evaluator/0=e:1 ");
	assert_int_equal(tfc_spec_each(spec, stop_at_worker, &calls), 7);
	assert_int_equal(calls, 2);
	assert_int_equal(tfc_spec_count(spec, NULL), 6);
	assert_int_equal(tfc_spec_count(spec, "worker"), 3);
	assert_int_equal(tfc_spec_count(spec, "tensorboard"), 0);
	assert_string_equal(tfc_spec_address(spec, "worker", 1), "w:2");
	assert_null(tfc_spec_address(spec, "worker", 3));
	assert_null(tfc_spec_address(spec, "master", 0));
	assert_null(tfc_spec_address(NULL, "worker", 0));
	tfc_spec_free(spec);
	tfc_spec_free(NULL);
}

static void addresses_that_tensorflow_can_dial_are_taken(void **state)
{
	static const char *const good[] = {
		"localhost:1",
		"h:65535",
		"10.0.0.1:2222",
		"[::1]:2222",
		"[2001:db8::7]:80",
		"a-b.c_d.example.com:2222",
		"worker-0.ns.svc.cluster.local:2222",
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		tfc_spec *spec;
		tfc_error error = TFC_ERROR_INIT;
		assert_int_equal(tfc_spec_new(&spec), 0);
		assert_int_equal(tfc_spec_add(spec, "worker", 0, good[i], &error), 0);
		assert_string_equal(tfc_spec_address(spec, "worker", 0), good[i]);
		tfc_spec_free(spec);
	}
}

static void addresses_that_tensorflow_cannot_dial_are_refused_with_the_remedy(void **state)
{
	static const struct {
		const char *address, *remedy;
	} bad[] = {
		{"grpc://h:22", "TensorFlow does not accept a scheme here; write host:port"},
		{"h/x:22", "TensorFlow does not accept a path here; write host:port"},
		{"h", "the port is missing; write host:port"},
		{"", "the port is missing; write host:port"},
		{"[::1]", "the port is missing; write host:port"},
		{"h:", "the port must be a number from 1 to 65535"},
		{"h:0", "the port must be a number from 1 to 65535"},
		{"h:65536", "the port must be a number from 1 to 65535"},
		{"h:022", "the port must be a number from 1 to 65535"},
		{"h:+22", "the port must be a number from 1 to 65535"},
		{"h:22 ", "the port must be a number from 1 to 65535"},
		{"h:99999999999999999999", "the port must be a number from 1 to 65535"},
		{":22", "the host is missing; write host:port"},
		{"::1:22", "an IPv6 address must be in brackets; write [address]:port"},
		{"[]:22", "the brackets do not hold an IPv6 address"},
		{"[h]:22", "the brackets do not hold an IPv6 address"},
		{"[fe80::1%eth0]:22", "a zone (%...) is valid on one machine only; use an "
				      "address that all tasks can reach"},
		{"[:22",
		 "a host name may have only letters, digits, '.', '-' and '_'; write host:port"},
		{"]:22",
		 "a host name may have only letters, digits, '.', '-' and '_'; write host:port"},
		{"a b:22",
		 "a host name may have only letters, digits, '.', '-' and '_'; write host:port"},
		{"a,b:22",
		 "a host name may have only letters, digits, '.', '-' and '_'; write host:port"},
		{"a\"b:22",
		 "a host name may have only letters, digits, '.', '-' and '_'; write host:port"},
		{"\xc3\xbc:22",
		 "a host name may have only letters, digits, '.', '-' and '_'; write "
		 "host:port"},
		{"256.0.0.1:22", "not an IPv4 address; write it as 192.0.2.1:2222"},
		{"1.2.3:22", "not an IPv4 address; write it as 192.0.2.1:2222"},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		tfc_spec *spec;
		tfc_error error = TFC_ERROR_INIT;
		char want[256];
		assert_int_equal(tfc_spec_new(&spec), 0);
		assert_int_equal(tfc_spec_add(spec, "worker", 4, bad[i].address, &error),
				 TFC_ESPEC);
		snprintf(want, sizeof(want), "worker/4: address \"%s\": %s", bad[i].address,
			 bad[i].remedy);
		assert_string_equal(error.text, want);
		assert_string_equal(error.component, "spec");
		assert_int_equal(tfc_spec_count(spec, NULL), 0);
		tfc_spec_free(spec);
	}
}

static void a_host_of_253_characters_is_the_longest(void **state)
{
	char address[300];
	tfc_spec *spec;
	assert_int_equal(tfc_spec_new(&spec), 0);
	memset(address, 'a', sizeof(address));
	strcpy(address + 253, ":65535");
	assert_int_equal(tfc_spec_add(spec, "worker", 0, address, NULL), 0);
	memset(address, 'a', sizeof(address));
	strcpy(address + 254, ":65535");
	assert_int_equal(tfc_spec_add(spec, "worker", 1, address, NULL), TFC_ESPEC);
	tfc_spec_free(spec);
}

static void one_address_serves_one_task_however_it_is_spelled(void **state)
{
	static const char *const pairs[][2] = {
		{"h:22", "h:22"},
		{"Host.example:22", "hOST.example:22"},
		{"[::1]:22", "[0:0:0:0:0:0:0:1]:22"},
		{"[2001:DB8::a]:22", "[2001:db8::A]:22"},
	};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		tfc_spec *spec;
		tfc_error error = TFC_ERROR_INIT;
		char want[256];
		assert_int_equal(tfc_spec_new(&spec), 0);
		assert_int_equal(tfc_spec_add(spec, "ps", 0, pairs[i][0], &error), 0);
		assert_int_equal(tfc_spec_add(spec, "worker", 1, pairs[i][1], &error), TFC_ESPEC);
		snprintf(want, sizeof(want),
			 "worker/1: address \"%s\" is already the address of ps/0; give each task "
			 "a port of its own",
			 pairs[i][1]);
		assert_string_equal(error.text, want);
		assert_int_equal(tfc_spec_count(spec, NULL), 1);
		tfc_spec_free(spec);
	}
}

static void misuse_is_an_error_and_not_a_crash(void **state)
{
	tfc_spec *spec;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc_spec_new(NULL), TFC_EINVAL);
	assert_int_equal(tfc_spec_new(&spec), 0);
	assert_int_equal(tfc_spec_add(NULL, "worker", 0, "h:1", &error), TFC_EINVAL);
	assert_int_equal(tfc_spec_add(spec, NULL, 0, "h:1", &error), TFC_EINVAL);
	assert_int_equal(tfc_spec_add(spec, "worker", 0, NULL, &error), TFC_EINVAL);
	assert_int_equal(tfc_spec_each(spec, NULL, NULL), TFC_EINVAL);
	assert_int_equal(tfc_spec_count(NULL, NULL), 0);
	tfc_spec_free(spec);
}

static tfc_spec *two_workers(const char *second)
{
	tfc_spec *spec;
	assert_int_equal(tfc_spec_new(&spec), 0);
	assert_int_equal(tfc_spec_add(spec, "worker", 0, "a:1", NULL), 0);
	assert_int_equal(tfc_spec_add(spec, "worker", 1, second, NULL), 0);
	return spec;
}

static void specs_are_equal_by_tasks_and_addresses(void **state)
{
	tfc_spec *a = two_workers("b:1"), *b = two_workers("b:1"), *c = two_workers("b:2");
	assert_int_equal(tfc_spec_equal(a, b), 1);
	assert_int_equal(tfc_spec_equal(a, c), 0);
	assert_int_equal(tfc_spec_add(b, "ps", 0, "p:1", NULL), 0);
	assert_int_equal(tfc_spec_equal(a, b), 0);
	assert_int_equal(tfc_spec_equal(a, NULL), 0);
	tfc_spec_free(a);
	tfc_spec_free(b);
	tfc_spec_free(c);
}

static void five_thousand_environments_render_the_common_part_once(void **state)
{
	enum { count = 5000 };
	tfc_spec *spec;
	size_t first = 0;
	assert_int_equal(tfc_spec_new(&spec), 0);
	for (uint32_t i = 0; i < count; i++) {
		char address[64];
		snprintf(address, sizeof(address), "10.%u.%u.1:2222", i / 256, i % 256);
		assert_int_equal(tfc_spec_add(spec, "worker", i, address, NULL), 0);
	}
	for (uint32_t i = 0; i < count; i++) {
		char **env = NULL;
		assert_int_equal(tfc_spec_environ(spec, TFC_FRAMEWORK_TENSORFLOW, TFC_STRATEGY_AUTO,
						  "worker", i, NULL, &env),
				 0);
		size_t len = strlen(env[0]);
		first = first ? first : len;
		assert_true(len >= first && len <= first + 3);
		tfc_strv_free(env);
	}
	assert_int_equal(spec->common->render_count, 1);
	assert_int_equal(tfc_spec_add(spec, "ps", 0, "p:1", NULL), 0);
	char *json = NULL;
	assert_int_equal(tfc_spec_json(spec, &json), 0);
	assert_non_null(strstr(json, ",\"ps\":[\"p:1\"]}"));
	assert_int_equal(spec->common->render_count, 2);
	tfc_free(json);
	tfc_spec_free(spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_are_found_counted_and_walked_in_order),
		cmocka_unit_test(addresses_that_tensorflow_can_dial_are_taken),
		cmocka_unit_test(addresses_that_tensorflow_cannot_dial_are_refused_with_the_remedy),
		cmocka_unit_test(a_host_of_253_characters_is_the_longest),
		cmocka_unit_test(one_address_serves_one_task_however_it_is_spelled),
		cmocka_unit_test(misuse_is_an_error_and_not_a_crash),
		cmocka_unit_test(specs_are_equal_by_tasks_and_addresses),
		cmocka_unit_test(five_thousand_environments_render_the_common_part_once),
	};
	return cmocka_run_group_tests_name("spec value", tests, NULL, NULL);
}
