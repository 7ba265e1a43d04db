/* wire: whichever allocation fails, the call says so, changes nothing and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "failing_malloc.h"
#include "leaks.h"
#include "rpc_pair.h"
#include "wire/fields.h"
#include "wire/keyring.h"
#include "wire/msg.h"
#include "wire/noise.h"
#include <tfcluster/key.h>

static int write_and_parse(void)
{
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	tfc__msg_map(&buf, 2);
	tfc__msg_put_str(&buf, "name", "value");
	tfc__msg_str(&buf, "list");
	tfc__msg_array(&buf, 100);
	for (unsigned i = 0; i < 100; i++)
		tfc__msg_u64(&buf, i);
	int code = buf.is_failed ? TFC_ENOMEM : TFC_OK;
	if (code == TFC_OK)
		code = failing_said(tfc__msg_parse(&msg, buf.data, buf.len, NULL, &error), &error);
	if (code == TFC_OK)
		tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
	return code;
}

static void messages(void **state)
{
	failing_sweep(write_and_parse, 3);
}

/* ---- tables of fields */

struct part {
	const char *text;
	const char *const *lines;
	const struct part *parts;
	uint32_t part_count;
};

#define PART(...) TFC__FIELD(struct part, __VA_ARGS__)
static const struct tfc__fields part_fields;
static const struct tfc__field part_rows[] = {
	PART("t", TFC__STRING, text, TFC__V0_2),
	PART("l", TFC__LINES, lines, TFC__V0_2),
	PART("p", TFC__MESSAGES, parts, TFC__V0_2, .nested = &part_fields,
	     .count = offsetof(struct part, part_count)),
};
static const struct tfc__fields part_fields = TFC__FIELDS(part_rows, struct part, NULL);

static int write_and_read_fields(void)
{
	static const char *const lines[] = {"one", "two", NULL};
	static const struct part parts[] = {{"a", lines, NULL, 0}, {"b", NULL, NULL, 0}};
	static const struct part whole = {"c", lines, parts, 2};
	static char long_text[4096];
	struct part large = whole, again;
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	memset(long_text, 'x', sizeof(long_text) - 1); /* more than the first chunk of a reader */
	large.text = long_text;
	tfc__fields_write(&buf, &part_fields, &large);
	int code = buf.is_failed ? TFC_ENOMEM : TFC_OK;
	if (code == TFC_OK)
		code = tfc__msg_parse(&msg, buf.data, buf.len, NULL, &error);
	if (code == TFC_OK) {
		code = failing_said(tfc__fields_read(&reader, &part_fields, &msg.root, &error,
						     &again),
				    &error);
		tfc__msg_fini(&msg);
	}
	if (code == TFC_OK && (strcmp(again.parts[0].lines[1], "two") != 0 || again.parts[1].lines))
		code = TFC_EPARSE;
	tfc__reader_fini(&reader);
	tfc__buf_fini(&buf);
	return code;
}

static void fields(void **state)
{
	failing_sweep(write_and_read_fields, 4);
}

/* ---- calls */

static tfc_ctx *ctx;
static int served; /* the worst that the serving end saw */

static void serve(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		  const msgpack_object *params)
{
	struct tfc__buf value = rpc_number(5);
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__rpc_item(request, &value);
	if (code < 0 && code != TFC_ESTATE)
		served = code;
	if (params->type == MSGPACK_OBJECT_POSITIVE_INTEGER && params->via.u64 == 1) {
		tfc__rpc_reply(request, &value);
	} else {
		tfc__fail(&error, TFC_EBUSY, "port", 0, "taken");
		tfc__rpc_fail(request, &error);
	}
	tfc__buf_fini(&value);
}

/* An accepted call ends once; nothing goes missing but by a connection that says it is broken. */
static int call_and_close(void)
{
	struct rpc_pair pair;
	struct rpc_outcome outcomes[3] = {0};
	int codes[3], code = rpc_pair_open(&pair, ctx);
	served = TFC_OK;
	if (code < 0)
		return code;
	pair.ends[1].serve = serve;
	for (unsigned i = 0; i < 3; i++)
		codes[i] = rpc_ask(&pair.ends[0], "x", i, 60000, i, &outcomes[i]);
	if (codes[1] == TFC_OK)
		tfc__rpc_more(outcomes[1].call, 3);
	if (codes[2] == TFC_OK)
		tfc__rpc_cancel(outcomes[2].call);
	rpc_run(ctx);
	int broken[2] = {pair.ends[0].broken.code, pair.ends[1].broken.code};
	rpc_pair_close(&pair);
	rpc_run(ctx);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(outcomes[i].ends, codes[i] == TFC_OK);
		code = code == TFC_OK ? codes[i] : code;
	}
	code = code < 0 ? code : served < 0 ? served : broken[0] < 0 ? broken[0] : broken[1];
	if (code == TFC_ELOST) /* the reply found it broken by then */
		code = TFC_ENOMEM;
	if (code == TFC_OK && outcomes[1].code == TFC_ENOMEM)
		return TFC_ENOMEM; /* the other end said so */
	if (code == TFC_OK) {
		assert_int_equal(outcomes[0].code, TFC_EBUSY);
		assert_int_equal(outcomes[1].code, TFC_OK);
		assert_int_equal(outcomes[2].code, TFC_ECANCELED);
	}
	return code;
}

static void calls(void **state)
{
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
	failing_sweep(call_and_close, 20);
	tfc_ctx_free(ctx);
}

/* ---- handshakes */

static int new_end(bool is_initiator, tfc_error *error, struct tfc__noise **ret_noise)
{
	static const uint8_t key[32] = {1};
	const struct tfc__noise_options options = {.is_initiator = is_initiator,
						   .static_secret = key,
						   .psk = key};
	return failing_said(tfc__noise_new(&options, error, ret_noise), error);
}

static int shake_hands(void)
{
	struct tfc__noise *ends[2] = {0};
	tfc_error error = TFC_ERROR_INIT;
	int code = new_end(true, &error, &ends[0]);
	if (code == TFC_OK)
		code = new_end(false, &error, &ends[1]);
	for (int i = 0; i < 3 && code == TFC_OK; i++) {
		struct tfc__buf out = {0}, payload = {0};
		code = tfc__noise_write(ends[i % 2], "hello", 5, &out);
		if (code == TFC_OK)
			code = tfc__noise_read(ends[!(i % 2)], out.data, out.len, &payload);
		tfc__buf_fini(&out);
		tfc__buf_fini(&payload);
	}
	if (code == TFC_OK)
		assert_memory_equal(tfc__noise_hash(ends[0]), tfc__noise_hash(ends[1]), 32);
	tfc__noise_free(ends[0]);
	tfc__noise_free(ends[1]);
	return code;
}

static void handshakes(void **state)
{
	failing_sweep(shake_hands, 8);
}

/* ---- files */

static char path[LEAKS_PATH + 8];

static int make_and_load(void)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__keyring *ring = NULL;
	SWEPT(tfc_key_generate);
	int code = failing_said(tfc_key_generate(path, "node", &error), &error);
	if (code == TFC_OK)
		code = failing_said(tfc__keyring_load(path, &error, &ring), &error);
	assert_true(code == TFC_OK ? ring != NULL : ring == NULL);
	tfc__keyring_free(ring);
	unlink(path);
	return code;
}

static int open_identity(void)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__identity *identity = NULL;
	int code = failing_said(tfc__identity_open(path, &error, &identity), &error);
	assert_true(code == TFC_OK ? identity != NULL : identity == NULL);
	tfc__identity_free(identity);
	unlink(path);
	return code;
}

static void files(void **state)
{
	char dir[LEAKS_PATH];
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/key", dir);
	failing_sweep(make_and_load, 4);
	failing_sweep(open_identity, 2);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),   cmocka_unit_test(fields), cmocka_unit_test(calls),
		cmocka_unit_test(handshakes), cmocka_unit_test(files),
	};
	return cmocka_run_group_tests_name("wire nomem", tests, NULL, NULL);
}
