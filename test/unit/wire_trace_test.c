/*
 * wire: a session as version 1 spoke it, recorded once (wire_trace_1.txt), must be understood by
 * every later version, at both ends. The file never changes; a new version gets a new one:
 * wire_trace_test record > wire_trace_N.txt
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>

#include "rpc_pair.h"

static tfc_ctx *ctx;
static struct rpc_pair pair;
static struct rpc_end *const near = &pair.ends[0], *const far = &pair.ends[1];
static struct tfc__buf seen; /* what the ends received, a line each */

static void say(const char *what, const char *method, const msgpack_object *value)
{
	char text[512] = "-";
	if (value)
		msgpack_object_print_buffer(text, sizeof(text), *value);
	tfc__buf_addf(&seen, "%s %s %s\n", what, method, text);
}

/* ---- the serving end */

static struct tfc__rpc_request *stream, *waiting;
static uint64_t streamed;

static void pour(void *user)
{
	while (streamed < 3 && tfc__rpc_credit(stream)) {
		struct tfc__buf item = rpc_number(++streamed);
		assert_int_equal(tfc__rpc_item(stream, &item), TFC_OK);
		tfc__buf_fini(&item);
	}
	if (streamed == 3)
		tfc__rpc_reply(stream, NULL);
}

static void give_up(void *user)
{
	tfc_error error = TFC_ERROR_INIT;
	say("canceled", "wait", NULL);
	tfc__fail(&error, TFC_ECANCELED, "job", 0, "canceled");
	tfc__rpc_fail(waiting, &error);
}

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	say(tfc_err_name(code), user, result);
	if (error)
		tfc__buf_addf(&seen, "  %s %d: %s\n", error->component, error->sys_errno,
			      error->text);
}

/* Methods, also handed to their ends. */
static char echo_name[] = "echo", what_name[] = "what", stream_name[] = "stream";
static char wait_name[] = "wait", back_name[] = "back";

static void call_back(void)
{
	const struct tfc__rpc_options options = {.method = back_name,
						 .end = on_end,
						 .user = back_name};
	assert_int_equal(tfc__rpc_call(far->rpc, &options, NULL, NULL), TFC_OK);
}

static void echo(struct tfc__rpc_request *request, const msgpack_object *params)
{
	struct tfc__buf result = {0};
	size_t len;
	const void *bytes = tfc__msg_get_bin(params, "bytes", &len);
	tfc__msg_map(&result, 2);
	tfc__msg_put_i64(&result, "less", tfc__msg_get_i64(params, "less", 0));
	tfc__msg_put_bin(&result, "bytes", bytes, len);
	tfc__rpc_reply(request, &result);
	tfc__buf_fini(&result);
}

static void serve_far(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		      const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	say(request ? "request" : "note", method, params);
	if (!request) {
		call_back();
	} else if (strcmp(method, "echo") == 0) {
		echo(request, params);
	} else if (strcmp(method, "stream") == 0) {
		stream = request;
		streamed = 0;
		tfc__rpc_watch(request, pour, NULL, NULL);
		pour(NULL);
	} else if (strcmp(method, "wait") == 0) {
		waiting = request;
		tfc__rpc_watch(request, NULL, give_up, NULL);
	} else {
		tfc__fail(&error, TFC_EBUSY, "port", 98, "no such thing: %s", method);
		tfc__rpc_fail(request, &error);
	}
}

/* ---- the calling end */

static struct tfc__rpc_call *stream_call;

static void on_item(void *user, const msgpack_object *item)
{
	say("item", user, item);
	if (item->via.u64 == 2)
		tfc__rpc_more(stream_call, 1);
}

static void serve_near(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		       const msgpack_object *params)
{
	say("request", method, params);
	tfc__rpc_reply(request, NULL);
}

static void make_calls(void)
{
	struct tfc__buf params = {0};
	struct tfc__rpc_call *call = NULL;
	struct tfc__rpc_options options = {.method = echo_name, .end = on_end, .user = echo_name};
	tfc__msg_map(&params, 4);
	tfc__msg_put_str(&params, "text", "gr\xc3\xbc\xc3\x9f");
	tfc__msg_put_i64(&params, "less", -5);
	tfc__msg_put_bool(&params, "yes", true);
	tfc__msg_put_bin(&params, "bytes", "\xff\x00", 2);
	options.params = &params;
	assert_int_equal(tfc__rpc_call(near->rpc, &options, NULL, NULL), TFC_OK);
	options = (struct tfc__rpc_options){.method = what_name, .end = on_end, .user = what_name};
	assert_int_equal(tfc__rpc_call(near->rpc, &options, NULL, NULL), TFC_OK);
	options = (struct tfc__rpc_options){.method = stream_name,
					    .timeout_ms = 600000,
					    .credit = 2,
					    .item = on_item,
					    .end = on_end,
					    .user = stream_name};
	assert_int_equal(tfc__rpc_call(near->rpc, &options, NULL, &stream_call), TFC_OK);
	options = (struct tfc__rpc_options){.method = wait_name, .end = on_end, .user = wait_name};
	assert_int_equal(tfc__rpc_call(near->rpc, &options, NULL, &call), TFC_OK);
	tfc__rpc_cancel(call);
	assert_int_equal(tfc__rpc_notify(near->rpc, "note", &params), TFC_OK);
	tfc__buf_fini(&params);
}

/* ---- the trace */

/* Feeds the recorded messages of one end to the other. */
static void feed(const char *from, struct rpc_end *to)
{
	char path[1024], line[4096];
	uint8_t bytes[2048];
	size_t len, count = 0;
	snprintf(path, sizeof(path), "%s/test/unit/wire_trace_1.txt", getenv("TFC_SOURCE_ROOT"));
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		char *hex = strchr(line, ' ');
		if (!hex || strncmp(line, from, (size_t)(hex - line)) != 0)
			continue;
		hex++;
		assert_int_equal(sodium_hex2bin(bytes, sizeof(bytes), hex, strcspn(hex, "\n"), NULL,
						&len, NULL),
				 0);
		rpc_end_feed(to, bytes, len);
		rpc_run(ctx);
		count++;
	}
	fclose(file);
	assert_true(count >= 6);
	assert_int_equal(to->broken.code, 0);
}

static int open_alone(void **state)
{
	seen = (struct tfc__buf){0};
	if (tfc_ctx_new(NULL, NULL, &ctx) < 0 || rpc_pair_open(&pair, ctx) < 0)
		return -1;
	rpc_end_hold(near);
	rpc_end_hold(far);
	near->serve = serve_near;
	far->serve = serve_far;
	return 0;
}

static int close_alone(void **state)
{
	rpc_pair_close(&pair);
	rpc_run(ctx);
	tfc_ctx_free(ctx);
	tfc__buf_fini(&seen);
	return 0;
}

static void calls_of_version_1_are_served(void **state)
{
	feed("near", far);
	assert_string_equal(seen.data,
			    "request echo {\"text\"=>\"gr\xc3\xbc\xc3\x9f\", \"less\"=>-5, "
			    "\"yes\"=>true, \"bytes\"=>\"\\xff\\x00\"}\n"
			    "request what nil\n"
			    "request stream nil\n"
			    "request wait nil\n"
			    "canceled wait -\n"
			    "note note {\"text\"=>\"gr\xc3\xbc\xc3\x9f\", \"less\"=>-5, "
			    "\"yes\"=>true, \"bytes\"=>\"\\xff\\x00\"}\n"
			    "TFC_OK back nil\n");
	assert_int_equal(streamed, 3);
}

static void responses_of_version_1_are_understood(void **state)
{
	make_calls();
	feed("far", near);
	assert_string_equal(seen.data, "TFC_ECANCELED wait -\n"
				       "  wire 0: request canceled\n"
				       "TFC_OK echo {\"less\"=>-5, \"bytes\"=>\"\\xff\\x00\"}\n"
				       "TFC_EBUSY what -\n"
				       "  port 98: no such thing: what\n"
				       "item stream 1\n"
				       "item stream 2\n"
				       "request back nil\n"
				       "item stream 3\n"
				       "TFC_OK stream nil\n");
}

static void record_message(struct rpc_end *end, const void *data, size_t len)
{
	char hex[4096];
	sodium_bin2hex(hex, sizeof(hex), data, len);
	printf("%s %s\n", end == near ? "near" : "far", hex);
}

static int record(void)
{
	static const struct {
		const char *name;
		struct rpc_end *end;
	} hellos[] = {{"near", &pair.ends[0]}, {"far", &pair.ends[1]}};
	if (open_alone(NULL) < 0)
		return 1;
	near->on_send = far->on_send = record_message;
	for (int i = 0; i < 2; i++) { /* sent while the pair was opened */
		const struct rpc_message *hello = tfc__container_of(hellos[i].end->queue.next,
								    struct rpc_message, link);
		record_message(hellos[i].end, hello->data, hello->len);
	}
	make_calls();
	rpc_end_release(near);
	rpc_end_release(far);
	rpc_run(ctx);
	return close_alone(NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_of_version_1_are_served, open_alone,
						close_alone),
		cmocka_unit_test_setup_teardown(responses_of_version_1_are_understood, open_alone,
						close_alone),
	};
	if (argc == 2 && strcmp(argv[1], "record") == 0)
		return record();
	return cmocka_run_group_tests_name("wire trace", tests, NULL, NULL);
}
