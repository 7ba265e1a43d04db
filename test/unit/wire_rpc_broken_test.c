/* wire: what may not come breaks the connection, and what is new and unknown does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "rpc_pair.h"

#define HELLO "\x93\x06\x01\x80"

static tfc_ctx *ctx;
static struct rpc_pair pair;
static struct rpc_end *const near = &pair.ends[0], *const far = &pair.ends[1];
static struct tfc__rpc_request *requests[TFC__RPC_OPEN_MAX];
static uint32_t request_count, notes;

static void keep(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		 const msgpack_object *params)
{
	if (!request)
		notes++;
	else if (request_count < TFC__RPC_OPEN_MAX)
		requests[request_count++] = request;
}

/* Two ends that are not connected: what the far end gets is the test's. */
static int open_pair(void **state)
{
	request_count = notes = 0;
	if (tfc_ctx_new(NULL, NULL, &ctx) < 0 || rpc_pair_open(&pair, ctx) < 0)
		return -1;
	rpc_end_hold(near);
	rpc_end_hold(far);
	far->serve = keep;
	return 0;
}

static int close_pair(void **state)
{
	rpc_pair_close(&pair);
	rpc_run(ctx);
	for (uint32_t i = 0; i < request_count; i++)
		tfc__rpc_reply(requests[i], NULL);
	tfc_ctx_free(ctx);
	return 0;
}

static void feed(const struct bytes *input)
{
	rpc_end_feed(far, input->data, input->len);
}

static void again(void **state)
{
	assert_int_equal(close_pair(state), 0);
	assert_int_equal(open_pair(state), 0);
}

/* Broken is said once; whatever follows is not looked at. */
static void what_may_not_come_breaks_it(void **state)
{
	static const struct bytes hello = BYTES(HELLO), note = BYTES("\x93\x02\xa1x\xc0");
	static const struct bytes cases[] = {
		BYTES(""),         /* no value */
		BYTES("\xc1"),     /* not valid */
		BYTES("\x90\x90"), /* two values */
		BYTES("\x01"),     /* no list */
		BYTES("\x80"),     /* a map */
		BYTES("\x90"),     /* an empty list */
		BYTES("\x91\xa1"
		      "0"),                             /* a kind that is no number */
		BYTES("\x91\xff"),                      /* nor one below 0 */
		BYTES(HELLO),                           /* a second one */
		BYTES("\x96\x00\x00\xa1x\xc0\x00\x00"), /* id 0 */
		BYTES("\x96\x00\xff\xa1x\xc0\x00\x00"), /* id -1 */
		BYTES("\x96\x00\xa1"
		      "1\xa1x\xc0\x00\x00"),
		BYTES("\x95\x00\x01\xa1x\xc0\x00"),         /* no credit */
		BYTES("\x96\x00\x01\xa0x\xc0\x00\x00"),     /* two values, really */
		BYTES("\x96\x00\x01\x07\xc0\x00\x00"),      /* no method */
		BYTES("\x96\x00\x01\xa0\xc0\x00\x00"),      /* an empty one */
		BYTES("\x96\x00\x01\xa2x\x00\xc0\x00\x00"), /* a NUL in it */
		BYTES("\x96\x00\x01\xa1x\xc0\xff\x00"),     /* a deadline below 0 */
		BYTES("\x96\x00\x01\xa1x\xc0\x00\xc0"),     /* no credit */
		BYTES("\x96\x00\x01\xa1x\xc0\xcf\x00\x00\x00\x01\x00\x00\x00\x00\x00"),
		BYTES("\x94\x01\x01\xc0\xc0"), /* an answer to nothing */
		BYTES("\x93\x01\x01\xc0"),     /* too short */
		BYTES("\x92\x02\xa1x"),
		BYTES("\x93\x02\x01\xc0"),
		BYTES("\x91\x03"),
		BYTES("\x92\x03\x01"), /* cancels what was not asked */
		BYTES("\x92\x03\xc0"),
		BYTES("\x93\x04\x01\xc0"), /* an item of nothing */
		BYTES("\x93\x05\x01\x01"), /* credit for nothing */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		feed(&hello);
		assert_int_equal(far->broken.code, 0);
		feed(&cases[i]);
		if (far->broken.code != TFC_EPARSE)
			fail_msg("case %zu is let through", i);
		feed(&note);
		assert_int_equal(notes + request_count, 0);
		assert_int_equal(tfc__rpc_notify(far->rpc, "x", NULL), TFC_ELOST);
		again(state);
	}
}

static void it_begins_with_a_hello(void **state)
{
	static const struct bytes cases[] = {
		BYTES("\x93\x02\xa1x\xc0"),
		BYTES("\x91\x07"),
		BYTES("\x93\x06\xc0\x80"),
		BYTES("\x92\x06\x01"),
		BYTES("\x93\x06\xff\x80"),
		BYTES("\x93\x06\x01\x81\xabmessage_max\xcd\xff\xff"), /* takes too little */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		feed(&cases[i]);
		if (far->broken.code != TFC_EPARSE)
			fail_msg("case %zu is let through", i);
		again(state);
	}
}

/* Both are named, so that one knows which to update. */
static void versions_that_cannot_speak_say_so(void **state)
{
	static const struct bytes newer = BYTES("\x93\x06\x09\x82\xa6oldest\x07\xa7library\xa5"
						"9.8.7");
	static const struct bytes older = BYTES("\x93\x06\x00\x80");
	feed(&newer);
	assert_int_equal(far->broken.code, TFC_ENOTSUP);
	assert_non_null(strstr(far->broken.text, "(libtfcluster 9.8.7) has versions 7 to 9"));
	assert_non_null(strstr(far->broken.text, "1 to 1"));
	again(state);
	feed(&older);
	assert_int_equal(far->broken.code, TFC_ENOTSUP);
}

/* A newer version that still speaks ours: more keys, more items, more kinds. */
static void what_is_new_is_ignored(void **state)
{
	static const struct bytes newer[] = {
		BYTES("\x94\x06\x09\x82\xa6oldest\x01\xa3new\x92\x01\x02\xc0"),
		BYTES("\x92\x07\xc0"),
		BYTES("\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
		BYTES("\x94\x02\xa4note\xc0\xa3new"),
		BYTES("\x97\x00\x05\xa1x\xc0\x00\x00\x80"),
		BYTES("\x93\x03\x05\xc0"),
		BYTES("\x94\x05\x05\x01\xc0"),
	};
	for (size_t i = 0; i < sizeof(newer) / sizeof(newer[0]); i++) {
		feed(&newer[i]);
		assert_int_equal(far->broken.code, 0);
	}
	assert_int_equal(notes, 1);
	assert_int_equal(request_count, 1);
}

/* Ids grow, and may leave out some; cancel and credit may come too late, but not too early. */
static void ids_are_used_once(void **state)
{
	static const struct bytes hello = BYTES(HELLO);
	static const struct bytes five = BYTES("\x96\x00\x05\xa1x\xc0\x00\x00");
	static const struct bytes four = BYTES("\x96\x00\x04\xa1x\xc0\x00\x00");
	static const struct bytes late_cancel = BYTES("\x92\x03\x05");
	static const struct bytes late_credit = BYTES("\x93\x05\x05\x01");
	static const struct bytes early = BYTES("\x92\x03\x06");
	const struct bytes *const bad[] = {&five, &four, &early};
	for (size_t i = 0; i < 3; i++) {
		feed(&hello);
		feed(&five);
		assert_int_equal(request_count, 1);
		tfc__rpc_reply(requests[--request_count], NULL);
		feed(&late_cancel);
		feed(&late_credit);
		assert_int_equal(far->broken.code, 0);
		feed(bad[i]);
		assert_int_equal(far->broken.code, TFC_EPARSE);
		again(state);
	}
}

static void credit_that_cannot_be_breaks_it(void **state)
{
	static const struct bytes hello = BYTES(HELLO);
	static const struct bytes request = BYTES("\x96\x00\x01\xa1x\xc0\x00\xce\xff\xff\xff\xfe");
	static const struct bytes one = BYTES("\x93\x05\x01\x01");
	static const struct bytes wrong = BYTES("\x93\x05\x01\xc0");
	feed(&hello);
	feed(&request);
	feed(&one);
	assert_int_equal(far->broken.code, 0);
	assert_int_equal(tfc__rpc_credit(requests[0]), UINT32_MAX);
	feed(&one);
	assert_int_equal(far->broken.code, TFC_EPARSE);
	again(state);
	feed(&hello);
	feed(&request);
	feed(&wrong);
	assert_int_equal(far->broken.code, TFC_EPARSE);
}

static void an_item_needs_credit(void **state)
{
	static const struct bytes hello = BYTES(HELLO), item = BYTES("\x93\x04\x01\x07");
	static const struct bytes answer = BYTES("\x94\x01\x01\xc0\xc0");
	struct rpc_outcome outcome = {0};
	assert_int_equal(rpc_ask(far, "x", 1, 0, 1, &outcome), TFC_OK);
	feed(&hello);
	feed(&item);
	assert_int_equal(outcome.items, 1);
	assert_int_equal(far->broken.code, 0);
	feed(&item);
	assert_int_equal(far->broken.code, TFC_EPARSE);
	again(state);
	outcome = (struct rpc_outcome){0};
	assert_int_equal(rpc_ask(far, "x", 1, 0, 1, &outcome), TFC_OK);
	feed(&hello);
	feed(&answer);
	assert_int_equal(outcome.ends, 1);
	feed(&item); /* behind the answer */
	assert_int_equal(far->broken.code, TFC_EPARSE);
	again(state);
	outcome = (struct rpc_outcome){0};
	assert_int_equal(rpc_ask(far, "x", 1, 0, 1, &outcome), TFC_OK);
	feed(&hello);
	feed(&answer);
	feed(&answer); /* twice */
	assert_int_equal(far->broken.code, TFC_EPARSE);
	assert_int_equal(outcome.ends, 1);
}

static void more_requests_than_allowed_break_it(void **state)
{
	static const struct bytes hello = BYTES(HELLO);
	feed(&hello);
	for (uint32_t id = 1; id <= TFC__RPC_OPEN_MAX + 1; id++) {
		char bytes[] = "\x96\x00\xcd\x00\x00\xa1x\xc0\x00\x00";
		bytes[3] = (char)(id >> 8);
		bytes[4] = (char)(id & 0xFF);
		assert_int_equal(far->broken.code, 0);
		rpc_end_feed(far, bytes, sizeof(bytes) - 1);
	}
	assert_int_equal(far->broken.code, TFC_EPARSE);
	assert_int_equal(request_count, TFC__RPC_OPEN_MAX);
}

/* The other end says how much it takes. */
static void the_smaller_maximum_counts(void **state)
{
	static const struct bytes hello = BYTES(
		"\x93\x06\x01\x81\xabmessage_max\xce\x00\x01\x00\x00");
	struct tfc__buf params = {0};
	char *bytes = calloc(1, 65536);
	assert_non_null(bytes);
	tfc__msg_bin(&params, bytes, 65536 - 20);
	assert_int_equal(tfc__rpc_notify(far->rpc, "x", &params), TFC_OK);
	feed(&hello);
	assert_int_equal(tfc__rpc_notify(far->rpc, "x", &params), TFC_OK);
	tfc__buf_clear(&params);
	tfc__msg_bin(&params, bytes, 65536 - 5);
	assert_int_equal(tfc__rpc_notify(far->rpc, "x", &params), TFC_ETOOBIG);
	tfc__buf_fini(&params);
	free(bytes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_may_not_come_breaks_it),
		TEST(it_begins_with_a_hello),
		TEST(versions_that_cannot_speak_say_so),
		TEST(what_is_new_is_ignored),
		TEST(ids_are_used_once),
		TEST(credit_that_cannot_be_breaks_it),
		TEST(an_item_needs_credit),
		TEST(more_requests_than_allowed_break_it),
		TEST(the_smaller_maximum_counts),
	};
	return cmocka_run_group_tests_name("wire rpc broken", tests, NULL, NULL);
}
