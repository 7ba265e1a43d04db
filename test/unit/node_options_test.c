/* node: options as JSON, and the guide that lists their keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"
#include "failing_malloc.h"
#include "node/options_json.h"

static const char all_of_node[] =
	"{\"name\":\"a\",\"listen\":[\"tcp://h:1\",\"unix:/s\"],\"advertise\":\"h\",\n"
	"\"members\":\"m.json\",\"key\":\"k\",\"state\":\"/state\",\"store\":\"local\",\n"
	"\"ports\":\"20-30\",\"slots\":4,\"zygotes\":3,\"memory\":\"8G\",\"gpus\":\"0,1\","
	"\"label\":\"x=1\",\n"
	"\"submit-user\":\"u\",\"base-env\":\"node\",\"pass-env\":[\"A\",\"B*\"],\n"
	"\"python\":\"/p\",\"group\":[\"root\",4711],\"client-connections\":1,\n"
	"\"key-connections\":2,\"client-requests\":3,\"key-requests\":4,\n"
	"\"connection-requests\":5,\"client-bytes\":\"6K\",\"key-bytes\":7,\n"
	"\"connection-bytes\":\"8\",\"retain-jobs\":9,\"retain\":10,\"retain-bytes\":11,\n"
	"\"log-dir\":\"/l\",\"temp-dir\":\"/t\",\"upstream-map\":\"u.json\",\"lease\":1.5,\n"
	"\"probe\":\"0.25\",\"suspect\":2,\"down\":0.0001,\"gossip\":true,\"join\":[\"h:1\",\"h:"
	"2\"],\"quiet\":true,\"json\":false}";

static void every_key_of_a_node_sets_its_field(void **state)
{
	tfc_node_options o = TFC_NODE_OPTIONS_INIT;
	struct tfc__option_storage storage;
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__options_read_json(&tfc__node_keys, all_of_node, sizeof(all_of_node) - 1, NULL,
				   false, &o, &error, &storage) < 0)
		fail_msg("%s", error.text);
	assert_string_equal(o.name, "a");
	assert_string_equal(o.listen[0], "tcp://h:1");
	assert_string_equal(o.listen[1], "unix:/s");
	assert_null(o.listen[2]);
	assert_string_equal(o.host, "h");
	assert_string_equal(o.members_file, "m.json");
	assert_string_equal(o.key_file, "k");
	assert_string_equal(o.state_dir, "/state");
	assert_int_equal(o.port_first, 20);
	assert_int_equal(o.port_last, 30);
	assert_int_equal(o.slots, 4);
	assert_int_equal(o.zygotes, 3);
	assert_int_equal(o.memory_bytes, UINT64_C(8) << 30);
	assert_string_equal(o.gpus, "0,1");
	assert_string_equal(o.labels[0], "x=1");
	assert_null(o.labels[1]);
	assert_string_equal(o.submit_user, "u");
	assert_int_equal(o.base_env, TFC_BASE_ENV_NODE);
	assert_string_equal(o.pass_env[0], "A");
	assert_string_equal(o.pass_env[1], "B*");
	assert_null(o.pass_env[2]);
	assert_string_equal(o.python, "/p");
	assert_int_equal(o.group_count, 2);
	assert_int_equal(o.groups[0], 0);
	assert_int_equal(o.groups[1], 4711);
	const uint32_t counts[] = {o.client_connections, o.key_connections, o.client_requests,
				   o.key_requests, o.connection_requests};
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(counts[i], i + 1);
	assert_int_equal(o.client_bytes, 6 << 10);
	assert_int_equal(o.key_bytes, 7);
	assert_int_equal(o.connection_bytes, 8);
	assert_int_equal(o.retain_jobs, 9);
	assert_int_equal(o.retain_s, 10);
	assert_int_equal(o.retain_bytes, 11);
	assert_string_equal(o.log_dir, "/l");
	assert_string_equal(o.temp_dir, "/t");
	assert_string_equal(o.upstream_map, "u.json");
	assert_int_equal(o.lease_ms, 1500);
	assert_int_equal(o.probe_ms, 250);
	assert_int_equal(o.suspect_ms, 2000);
	assert_int_equal(o.down_ms, 1);
	assert_string_equal(o.gossip, "auto");
	assert_string_equal(o.join[0], "h:1");
	assert_string_equal(o.join[1], "h:2");
	assert_null(o.join[2]);
	tfc__option_storage_fini(&storage);
}

static void every_key_of_a_gateway_sets_its_field(void **state)
{
	static const char json[] = "{\"gateway\":\"unix:/s\",\"key\":\"k\",\"connect\":0.5,"
				   "\"reconnect\":60,\"temp-dir\":\"/t\"}";
	tfc_gateway_options o = TFC_GATEWAY_OPTIONS_INIT;
	struct tfc__option_storage storage;
	assert_int_equal(tfc__options_read_json(&tfc__gateway_keys, json, sizeof(json) - 1, NULL,
						false, &o, NULL, &storage),
			 TFC_OK);
	assert_string_equal(o.address, "unix:/s");
	assert_string_equal(o.key_file, "k");
	assert_int_equal(o.connect_ms, 500);
	assert_int_equal(o.reconnect_ms, 60000);
	assert_string_equal(o.temp_dir, "/t");
	tfc__option_storage_fini(&storage);
}

static void pass_env_none_is_an_empty_list(void **state)
{
	static const char json[] = "{\"pass-env\":\"none\"}";
	tfc_node_options o = TFC_NODE_OPTIONS_INIT;
	struct tfc__option_storage storage;
	assert_int_equal(tfc__options_read_json(&tfc__node_keys, json, sizeof(json) - 1, NULL,
						false, &o, NULL, &storage),
			 TFC_OK);
	assert_non_null(o.pass_env);
	assert_null(o.pass_env[0]);
	tfc__option_storage_fini(&storage);
}

static void an_error_names_the_key_and_its_line(void **state)
{
	static const struct {
		const char *json, *file, *text;
		int code;
	} cases[] = {
		{"{\"slots\":0}", NULL, "slots: \"0\" is not a whole number of at least 1",
		 TFC_EINVAL},
		{"{\"name\":\"a\",\n\n\"slotss\":1}", "n.json",
		 "n.json:3: slotss: unknown key; did you mean slots?", TFC_EINVAL},
		{"{\n\"slots\":\"x\"}", NULL,
		 "line 2: slots: \"x\" is not a whole number of at least 1", TFC_EINVAL},
		{"{\"slots\":4294967296}", NULL,
		 "slots: \"4294967296\" is not a whole number of at least 1", TFC_EINVAL},
		{"{\"slots\":[1]}", NULL, "slots: must be one value, not a list", TFC_EINVAL},
		{"{\"slots\":null}", NULL, "slots: must be a string or a number", TFC_EINVAL},
		{"{\"name\":\"\"}", NULL, "name: must not be empty", TFC_EINVAL},
		{"{\"memory\":\"20000000T\"}", NULL,
		 "memory: \"20000000T\" is not a number of bytes above 0, "
		 "which may end in K, M, G or T (powers of 1024), such as 8G",
		 TFC_EINVAL},
		{"{\"lease\":-1}", NULL, "lease: \"-1\" is not a number of seconds above 0",
		 TFC_EINVAL},
		{"{\"ports\":\"9-8\"}", NULL, "ports: \"9-8\" is reversed", TFC_EINVAL},
		{"{\"ports\":\"0-8\"}", NULL,
		 "ports: \"0-8\" is not a range of ports, such as 20000-29999", TFC_EINVAL},
		{"{\"pass-env\":[\"TOKEN=secret\"]}", NULL,
		 "pass-env: write only the name \"TOKEN\"; its value is taken from the node's "
		 "environment",
		 TFC_EINVAL},
		{"{\"group\":\"no-such-group\"}", NULL, "group: group \"no-such-group\" not found",
		 TFC_ENOENT},
		{"{\"store\":\"etcd:http://h\"}", NULL,
		 "store: etcd is not supported by this version", TFC_ENOTSUP},
		{"{\"gossip\":[\"a:1\"]}", NULL, "gossip: must be one value, not a list",
		 TFC_EINVAL},
		{"{\"quiet\":1}", NULL, "quiet: must be true or false", TFC_EINVAL},
		{"[]", "n.json", "n.json:1: must be one object", TFC_EINVAL},
		{"{\"slots\":1,\n\"slots\":2}", "n.json",
		 "n.json:2: duplicate object key near '\"slots\"'", TFC_EPARSE},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_node_options o = TFC_NODE_OPTIONS_INIT;
		struct tfc__option_storage storage;
		tfc_error error = TFC_ERROR_INIT;
		assert_int_equal(tfc__options_read_json(&tfc__node_keys, cases[i].json,
							strlen(cases[i].json), cases[i].file, false,
							&o, &error, &storage),
				 cases[i].code);
		assert_string_equal(error.text, cases[i].text);
		assert_string_equal(error.component, "node");
		tfc__option_storage_fini(&storage);
	}
}

static void a_check_looks_up_no_group(void **state)
{
	static const char json[] = "{\"group\":\"no-such-group\"}";
	assert_int_equal(tfc_node_check_json(json, sizeof(json) - 1, NULL, NULL), TFC_OK);
	assert_int_equal(tfc_node_check_json(NULL, 0, NULL, NULL), TFC_EINVAL);
}

static int check_all(void)
{
	tfc_error error = TFC_ERROR_INIT;
	SWEPT(tfc_node_check_json);
	return failing_said(tfc_node_check_json(all_of_node, sizeof(all_of_node) - 1, "n.json",
						&error),
			    &error);
}

static tfc_ctx *ctx;

static int open_both(void)
{
	static const char json[] = "{\"name\":\"a\",\"group\":[0,1],\"label\":\"x=1\"}";
	tfc_node *node = NULL;
	tfc_gateway *gateway = NULL;
	SWEPT(tfc_node_open_json);
	SWEPT(tfc_gateway_open_json);
	int code = tfc_node_open_json(ctx, json, sizeof(json) - 1, NULL, NULL, NULL, &node);
	if (code == TFC_OK)
		code = tfc_gateway_open_json(ctx, node, "{\"connect\":1}", 13, NULL, &gateway);
	failing_said(code, tfc_ctx_error(ctx));
	tfc_gateway_close(gateway);
	tfc_node_close(node);
	tfc_ctx_run(ctx, 0);
	return code;
}

static void on_process(void *user, const tfc_process_event *event)
{
	bool *is_over = user;
	*is_over = event->kind == TFC_PROCESS_EXITED;
}

/* The first message of a guard brings descriptors. */
static void await_guard(void)
{
	static const char *const argv[] = {"/bin/true", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_process *process;
	bool is_over = false;
	options.argv = argv;
	assert_int_equal(tfc_process_spawn(ctx, &options, on_process, &is_over, &process), TFC_OK);
	while (!is_over)
		assert_true(tfc_ctx_run(ctx, 30000) >= 0);
	tfc_process_close(process);
}

static void whichever_allocation_fails_is_said(void **state)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = getenv("TFC_HELPER_DIR");
	failing_sweep(check_all, 20);
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), TFC_OK);
	assert_int_equal(open_both(), TFC_OK);
	await_guard();
	failing_sweep(open_both, 50);
	tfc_ctx_free(ctx);
}

static void a_node_and_its_gateway_open_from_json(void **state)
{
	static const char node_json[] = "{\"name\":\"a\",\"ports\":\"22000-22010\"}";
	static const char bad[] = "{\"name\":\n\"a b\"}";
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_node *node = NULL;
	tfc_gateway *gateway = NULL;
	options.helper_dir = getenv("TFC_HELPER_DIR");
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), TFC_OK);
	assert_int_equal(tfc_node_open_json(ctx, bad, sizeof(bad) - 1, "n.json", NULL, NULL, &node),
			 TFC_EINVAL);
	assert_null(node);
	assert_int_equal(tfc_node_open_json(ctx, NULL, 0, NULL, NULL, NULL, &node), TFC_EINVAL);
	assert_int_equal(tfc_node_open_json(ctx, node_json, sizeof(node_json) - 1, NULL, NULL, NULL,
					    &node),
			 TFC_OK);
	assert_int_equal(tfc_gateway_open_json(ctx, node, "{}", 2, NULL, &gateway), TFC_OK);
	tfc_gateway_close(gateway);
	assert_int_equal(tfc_gateway_open_json(ctx, NULL, "{}", 2, NULL, &gateway), TFC_EINVAL);
	assert_int_equal(tfc_gateway_open_json(ctx, NULL, "{\"gateway\":\"unix:/s\"}", 21, NULL,
					       &gateway),
			 TFC_OK);
	tfc_gateway_close(gateway);
	tfc_node_close(node);
	tfc_ctx_free(ctx);
}

/* A row of the guide begins "| `slots` | ". */
static void the_guide_lists_every_key(void **state)
{
	char path[512], *guide = NULL;
	size_t size = 0;
	const char *root = getenv("TFC_SOURCE_ROOT");
	assert_non_null(root);
	snprintf(path, sizeof(path), "%s/doc/guide/node-options.md", root);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_true(getdelim(&guide, &size, '\0', file) > 0);
	fclose(file);
	char *of_gateway = strstr(guide, "\n## A gateway");
	assert_non_null(of_gateway);
	size_t rows = 0;
	for (const char *at = guide; (at = strstr(at, "\n| `")); at++)
		rows++;
	for (int i = 0; i < 2; i++) {
		const struct tfc__option_keys *keys = i ? &tfc__gateway_keys : &tfc__node_keys;
		for (size_t j = 0; j < keys->count; j++) {
			char row[64];
			snprintf(row, sizeof(row), "\n| `%s` |", keys->items[j].name);
			if (!strstr(i ? of_gateway : guide, row))
				fail_msg("%s has no %s", path, row);
			rows--;
		}
	}
	assert_int_equal(rows, 0);
	free(guide);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_of_a_node_sets_its_field),
		cmocka_unit_test(every_key_of_a_gateway_sets_its_field),
		cmocka_unit_test(pass_env_none_is_an_empty_list),
		cmocka_unit_test(an_error_names_the_key_and_its_line),
		cmocka_unit_test(a_check_looks_up_no_group),
		cmocka_unit_test(whichever_allocation_fails_is_said),
		cmocka_unit_test(a_node_and_its_gateway_open_from_json),
		cmocka_unit_test(the_guide_lists_every_key),
	};
	return cmocka_run_group_tests_name("node_options", tests, NULL, NULL);
}
