/*
 * All public option structs: initializer and init function agree, and hosts compiled against older
 * (shorter) and newer (longer) headers are served.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"
#include <tfcluster/tfcluster.h>

enum {
	ROOM = 512,  /* larger than any struct here and its tail */
	TAIL = 24,   /* what a newer header added */
	JUNK = 0xa5, /* what was in the host's memory before */
};

typedef int (*init_fn)(void *options, uint32_t size);

struct row {
	const char *name;
	size_t size;
	const void *initializer;
	init_fn init;
};

#define OPTION_STRUCTS(X)                                            \
	X(tfc_allocation_options, TFC_ALLOCATION_OPTIONS_INIT)       \
	X(tfc_ctx_options, TFC_CTX_OPTIONS_INIT)                     \
	X(tfc_feed_column, TFC_FEED_COLUMN_INIT)                     \
	X(tfc_feed_consumer_options, TFC_FEED_CONSUMER_OPTIONS_INIT) \
	X(tfc_feed_producer_options, TFC_FEED_PRODUCER_OPTIONS_INIT) \
	X(tfc_gateway_options, TFC_GATEWAY_OPTIONS_INIT)             \
	X(tfc_log_record, TFC_LOG_RECORD_INIT)                       \
	X(tfc_membership_ops, TFC_MEMBERSHIP_OPS_INIT)               \
	X(tfc_node_hooks, TFC_NODE_HOOKS_INIT)                       \
	X(tfc_node_options, TFC_NODE_OPTIONS_INIT)                   \
	X(tfc_port_listener, TFC_PORT_LISTENER_INIT)                 \
	X(tfc_port_pool_options, TFC_PORT_POOL_OPTIONS_INIT)         \
	X(tfc_process_limits, TFC_PROCESS_LIMITS_INIT)               \
	X(tfc_process_options, TFC_PROCESS_OPTIONS_INIT)             \
	X(tfc_request_options, TFC_REQUEST_OPTIONS_INIT)             \
	X(tfc_signal_options, TFC_SIGNAL_OPTIONS_INIT)               \
	X(tfc_stop_options, TFC_STOP_OPTIONS_INIT)                   \
	X(tfc_store_ops, TFC_STORE_OPS_INIT)                         \
	X(tfc_submit_options, TFC_SUBMIT_OPTIONS_INIT)               \
	X(tfc_subscribe_options, TFC_SUBSCRIBE_OPTIONS_INIT)         \
	X(tfc_transport_ops, TFC_TRANSPORT_OPS_INIT)                 \
	X(tfc_upstream_ops, TFC_UPSTREAM_OPS_INIT)                   \
	X(tfc_watch_options, TFC_WATCH_OPTIONS_INIT)

#define DEFINE(type, initializer)                            \
	static const type type##_initializer = initializer;  \
	static int type##_call(void *options, uint32_t size) \
	{                                                    \
		return type##_init((type *)options, size);   \
	}
OPTION_STRUCTS(DEFINE)

#define ROW(type, initializer) {#type, sizeof(type), &type##_initializer, type##_call},
static const struct row rows[] = {OPTION_STRUCTS(ROW)};

#define EACH(row) \
	for (const struct row *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++)

static uint32_t size_in(const void *options)
{
	uint32_t size;
	memcpy(&size, options, sizeof(size));
	return size;
}

static void assert_bytes(const unsigned char *bytes, size_t from, size_t to, int value)
{
	for (size_t i = from; i < to; i++)
		assert_int_equal(bytes[i], value);
}

static void initializer_and_init_agree(void **state)
{
	_Alignas(16) unsigned char bytes[ROOM];
	EACH(row)
	{
		memset(bytes, JUNK, sizeof(bytes));
		assert_int_equal(row->init(bytes, (uint32_t)row->size), 0);
		assert_int_equal(size_in(bytes), row->size);
		assert_memory_equal(bytes, row->initializer, row->size);
		assert_bytes(bytes, row->size, ROOM, JUNK);
	}
}

static void init_of_an_older_host_stays_inside_its_struct(void **state)
{
	_Alignas(16) unsigned char bytes[ROOM];
	EACH(row)
	for (uint32_t size = sizeof(uint32_t); size < row->size; size += sizeof(uint32_t)) {
		memset(bytes, JUNK, sizeof(bytes));
		assert_int_equal(row->init(bytes, size), 0);
		assert_int_equal(size_in(bytes), size);
		assert_bytes(bytes, sizeof(uint32_t), size, 0);
		assert_bytes(bytes, size, ROOM, JUNK);
	}
}

static void init_of_a_newer_host_clears_all_of_its_struct(void **state)
{
	_Alignas(16) unsigned char bytes[ROOM];
	EACH(row)
	{
		size_t size = row->size + TAIL;
		memset(bytes, JUNK, sizeof(bytes));
		assert_int_equal(row->init(bytes, (uint32_t)size), 0);
		assert_int_equal(size_in(bytes), size);
		assert_bytes(bytes, sizeof(uint32_t), size, 0);
		assert_bytes(bytes, size, ROOM, JUNK);
	}
}

static void every_feature_has_a_name_and_a_bit(void **state)
{
	static const struct {
		enum tfc_feature feature;
		const char *name;
	} all[] = {
		{TFC_FEATURE_UNIX, "unix"},
		{TFC_FEATURE_TCP, "tcp"},
		{TFC_FEATURE_MEMBERS_FILE, "members_file"},
		{TFC_FEATURE_STATE_DIR, "state_dir"},
		{TFC_FEATURE_BUNDLES, "bundles"},
		{TFC_FEATURE_UPSTREAMS, "upstreams"},
		{TFC_FEATURE_JSON_OPTIONS, "json_options"},
	};
	uint64_t seen = 0;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		assert_string_equal(tfc_feature_name(all[i].feature), all[i].name);
		seen |= all[i].feature;
	}
	assert_int_equal(tfc_features(), seen);
	assert_string_equal(tfc_feature_name(0), "?");
	assert_string_equal(tfc_feature_name(3), "?");
}

static void init_refuses_nothing_and_nonsense(void **state)
{
	_Alignas(16) unsigned char bytes[ROOM] = {0};
	EACH(row)
	{
		assert_int_equal(row->init(NULL, (uint32_t)row->size), TFC_EINVAL);
		assert_int_equal(row->init(bytes, 0), TFC_EINVAL);
		assert_int_equal(row->init(bytes, 3), TFC_EINVAL);
		assert_int_equal(row->init(bytes, UINT32_MAX), TFC_ENOTSUP);
		assert_bytes(bytes, 0, ROOM, 0);
	}
}

/* ---- what the calls that take options make of their sizes */

static void fields_of_an_older_host_are_kept_and_new_ones_are_default(void **state)
{
	struct {
		uint32_t size, a, b, c;
	} host = {8, 1, 2, 3}, copy;
	assert_int_equal(tfc__options_copy(&copy, sizeof(copy), &host, "test", "x", 0, NULL), 0);
	assert_int_equal(copy.a, 1);
	assert_int_equal(copy.b, 0);
	assert_int_equal(copy.c, 0);
	assert_int_equal(tfc__options_copy(&copy, sizeof(copy), NULL, "test", "x", 0, NULL), 0);
	assert_int_equal(copy.a, 0);
}

struct calls {
	tfc_ctx *ctx;
	tfc_node *node;
	tfc_gateway *gateway;
};

static void see_event(void *user, const tfc_event *event)
{
}

static void see_reply(void *user, const tfc_reply *reply)
{
}

static void see_process(void *user, const tfc_process_event *event)
{
}

static int take_ctx(struct calls *calls, const void *options)
{
	tfc_ctx *ctx = NULL;
	int code = tfc_ctx_new(options, NULL, &ctx);
	tfc_ctx_free(ctx);
	return code;
}

static int take_pool(struct calls *calls, const void *options)
{
	tfc_port_pool *pool = NULL;
	int code = tfc_port_pool_open(calls->ctx, options, &pool);
	tfc_port_pool_close(pool);
	return code;
}

static int take_process(struct calls *calls, const void *options)
{
	tfc_process *process = NULL;
	int code = tfc_process_spawn(calls->ctx, options, see_process, NULL, &process);
	tfc_process_close(process);
	return code;
}

static int take_limits(struct calls *calls, const void *limits)
{
	const char *const argv[] = {"/bin/true", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.limits = limits;
	return take_process(calls, &options);
}

static int take_node(struct calls *calls, const void *options)
{
	tfc_node *node = NULL;
	int code = tfc_node_open(calls->ctx, options, &node);
	tfc_node_close(node);
	return code;
}

static int take_hooks(struct calls *calls, const void *hooks)
{
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.hooks = hooks;
	return take_node(calls, &options);
}

static int take_gateway(struct calls *calls, const void *options)
{
	tfc_gateway *gateway = NULL;
	int code = tfc_gateway_open(calls->ctx, options, &gateway);
	tfc_gateway_close(gateway);
	return code;
}

static int take_submit(struct calls *calls, const void *options)
{
	tfc_job *job = NULL;
	assert_int_equal(tfc_job_new(&job), 0);
	int code = tfc_gateway_submit(calls->gateway, job, options, see_reply, NULL, NULL);
	tfc_job_free(job);
	return code;
}

static int take_stop(struct calls *calls, const void *options)
{
	return tfc_gateway_stop(calls->gateway, "none", options, see_reply, NULL, NULL);
}

static int take_signal(struct calls *calls, const void *options)
{
	return tfc_gateway_signal(calls->gateway, "none", "worker/0", options, see_reply, NULL,
				  NULL);
}

static int take_subscribe(struct calls *calls, const void *options)
{
	tfc_sub *sub = NULL;
	int code = tfc_gateway_subscribe(calls->gateway, "none", options, see_event, NULL, &sub);
	tfc_sub_close(sub);
	return code;
}

static int take_watch(struct calls *calls, const void *options)
{
	tfc_sub *sub = NULL;
	int code = tfc_gateway_watch(calls->gateway, options, see_event, NULL, &sub);
	tfc_sub_close(sub);
	return code;
}

static void see_allocation(void *user, const tfc_allocation_event *event)
{
}

static int take_allocation(struct calls *calls, const void *options)
{
	tfc_allocation *allocation = NULL;
	int code = tfc_allocation_open(calls->ctx, options, see_allocation, NULL, &allocation);
	tfc_allocation_close(allocation);
	return code;
}

static const struct {
	const char *name;
	size_t size;
	int (*take)(struct calls *calls, const void *options);
	size_t reserved; /* offset of that field; 0: none */
} takers[] = {
	{"tfc_allocation_options", sizeof(tfc_allocation_options), take_allocation},
	{"tfc_ctx_options", sizeof(tfc_ctx_options), take_ctx},
	{"tfc_gateway_options", sizeof(tfc_gateway_options), take_gateway,
	 offsetof(tfc_gateway_options, reserved)},
	{"tfc_node_hooks", sizeof(tfc_node_hooks), take_hooks, offsetof(tfc_node_hooks, reserved)},
	{"tfc_node_options", sizeof(tfc_node_options), take_node,
	 offsetof(tfc_node_options, reserved)},
	{"tfc_port_pool_options", sizeof(tfc_port_pool_options), take_pool},
	{"tfc_process_limits", sizeof(tfc_process_limits), take_limits,
	 offsetof(tfc_process_limits, reserved)},
	{"tfc_process_options", sizeof(tfc_process_options), take_process,
	 offsetof(tfc_process_options, reserved)},
	{"tfc_signal_options", sizeof(tfc_signal_options), take_signal},
	{"tfc_stop_options", sizeof(tfc_stop_options), take_stop},
	{"tfc_submit_options", sizeof(tfc_submit_options), take_submit},
	{"tfc_subscribe_options", sizeof(tfc_subscribe_options), take_subscribe},
	{"tfc_watch_options", sizeof(tfc_watch_options), take_watch},
};

static int open_calls(void **state)
{
	static struct calls calls;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_gateway_options gateway_options = TFC_GATEWAY_OPTIONS_INIT;
	options.helper_dir = getenv("TFC_HELPER_DIR");
	*state = &calls;
	if (tfc_ctx_new(&options, NULL, &calls.ctx) < 0 ||
	    tfc_node_open(calls.ctx, NULL, &calls.node) < 0)
		return -1;
	gateway_options.node = calls.node;
	return tfc_gateway_open(calls.ctx, &gateway_options, &calls.gateway);
}

static int close_calls(void **state)
{
	struct calls *calls = *state;
	tfc_gateway_close(calls->gateway);
	tfc_node_close(calls->node);
	tfc_ctx_free(calls->ctx);
	return 0;
}

static void every_call_refuses_a_newer_field_that_is_set_and_says_which_struct(void **state)
{
	struct calls *calls = *state;
	for (size_t i = 0; i < sizeof(takers) / sizeof(takers[0]); i++) {
		_Alignas(16) unsigned char bytes[ROOM] = {0};
		uint32_t size = (uint32_t)takers[i].size + TAIL;
		memcpy(bytes, &size, sizeof(size));
		assert_int_not_equal(takers[i].take(calls, bytes), TFC_ENOTSUP);
		bytes[size - 1] = 1;
		assert_int_equal(takers[i].take(calls, bytes), TFC_ENOTSUP);
		if (takers[i].take != take_ctx)
			assert_non_null(strstr(tfc_ctx_error(calls->ctx)->text, takers[i].name));
	}
}

static void every_call_refuses_a_reserved_field_that_is_set(void **state)
{
	struct calls *calls = *state;
	for (size_t i = 0; i < sizeof(takers) / sizeof(takers[0]); i++) {
		_Alignas(16) unsigned char bytes[ROOM] = {0};
		char text[100];
		uint32_t size = (uint32_t)takers[i].size;
		if (!takers[i].reserved)
			continue;
		memcpy(bytes, &size, sizeof(size));
		bytes[takers[i].reserved] = 1;
		assert_int_equal(takers[i].take(calls, bytes), TFC_EINVAL);
		snprintf(text, sizeof(text), "%s.reserved is 1; it must be 0", takers[i].name);
		assert_string_equal(tfc_ctx_error(calls->ctx)->text, text);
	}
}

static void every_call_refuses_a_struct_without_a_size(void **state)
{
	struct calls *calls = *state;
	for (size_t i = 0; i < sizeof(takers) / sizeof(takers[0]); i++) {
		_Alignas(16) unsigned char bytes[ROOM] = {0};
		assert_int_equal(takers[i].take(calls, bytes), TFC_EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(initializer_and_init_agree),
		cmocka_unit_test(init_of_an_older_host_stays_inside_its_struct),
		cmocka_unit_test(init_of_a_newer_host_clears_all_of_its_struct),
		cmocka_unit_test(every_feature_has_a_name_and_a_bit),
		cmocka_unit_test(init_refuses_nothing_and_nonsense),
		cmocka_unit_test(fields_of_an_older_host_are_kept_and_new_ones_are_default),
		cmocka_unit_test_setup_teardown(
			every_call_refuses_a_newer_field_that_is_set_and_says_which_struct,
			open_calls, close_calls),
		cmocka_unit_test_setup_teardown(every_call_refuses_a_reserved_field_that_is_set,
						open_calls, close_calls),
		cmocka_unit_test_setup_teardown(every_call_refuses_a_struct_without_a_size,
						open_calls, close_calls),
	};
	return cmocka_run_group_tests_name("option structs", tests, NULL, NULL);
}
