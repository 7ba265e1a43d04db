/* bundle: what clients may offer at one time, and for how long without sending it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "bundle/internal.h"
#include "bundle/transfer.h"
#include "ctx/internal.h"
#include "leaks.h"
#include "rpc_pair.h"

#define CONNECTIONS (TFC__OFFERS_KEY_MAX / TFC__OFFERS_MAX + 1)
#define SIZE 8
#define SHORT (200 * TFC__MS)

static tfc_ctx *ctx;
static struct rpc_pair pairs[CONNECTIONS];
static char dir[LEAKS_PATH];
static struct tfc__bundles *bundles;
static struct tfc__bundle_offerer who;

static void name_hash(uint64_t number, char hash[TFC_BUNDLE_HASH_SIZE])
{
	snprintf(hash, TFC_BUNDLE_HASH_SIZE, "%064llx", (unsigned long long)number);
}

/* Each call is an offer of the bundle whose hash is its number. */
static void serve(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		  const msgpack_object *params)
{
	struct tfc__buf bytes = {0};
	struct tfc__msg msg;
	char hash[TFC_BUNDLE_HASH_SIZE];
	name_hash(params->via.u64, hash);
	tfc__msg_map(&bytes, 2);
	tfc__msg_put_str(&bytes, "hash", hash);
	tfc__msg_put_u64(&bytes, "size", SIZE);
	assert_int_equal(tfc__msg_parse(&msg, bytes.data, bytes.len, NULL, NULL), TFC_OK);
	tfc__bundle_serve_offer(bundles, &who, request, &msg.root);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&bytes);
}

static int set_up(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	who = (struct tfc__bundle_offerer){.is_client = true, .uid = UINT32_MAX, .key_id = "a"};
	leaks_make_dir(dir);
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	if (tfc__bundles_open(ctx, dir, 1 << 20, &error, &bundles) < 0)
		fail_msg("%s", error.text);
	for (size_t i = 0; i < CONNECTIONS; i++) {
		assert_int_equal(rpc_pair_open(&pairs[i], ctx), TFC_OK);
		pairs[i].ends[1].serve = serve;
	}
	rpc_run(ctx);
	return 0;
}

static int tear_down(void **state)
{
	for (size_t i = 0; i < CONNECTIONS; i++)
		rpc_pair_close(&pairs[i]);
	rpc_run(ctx);
	assert_true(tfc__list_is_empty(&bundles->offers));
	tfc__bundles_close(bundles);
	tfc_ctx_free(ctx);
	return tfc__remove_tree(dir);
}

static void offer(size_t connection, uint64_t number, struct rpc_outcome *outcome)
{
	*outcome = (struct rpc_outcome){0};
	assert_int_equal(rpc_ask(&pairs[connection].ends[0], "offer", number, 0, 8, outcome),
			 TFC_OK);
	rpc_run(ctx);
}

static void expect_refusal(const struct rpc_outcome *outcome, int code, const char *text)
{
	assert_int_equal(outcome->ends, 1);
	assert_int_equal(outcome->code, code);
	if (!strstr(outcome->error.text, text))
		fail_msg("%s", outcome->error.text);
}

static void one_key_leaves_room_for_others_and_all_for_the_own_user(void **state)
{
	static struct rpc_outcome outcomes[TFC__OFFERS_KEY_MAX], late, nodes[TFC__OFFERS_MAX];
	for (unsigned i = 0; i < TFC__OFFERS_KEY_MAX; i++) {
		offer(i / TFC__OFFERS_MAX, i, &outcomes[i]);
		assert_int_equal(outcomes[i].items, 1);
	}
	offer(CONNECTIONS - 1, 100, &late);
	expect_refusal(&late, TFC_EBUSY, "with one key");
	who.key_id[0] = 'b';
	offer(CONNECTIONS - 1, 100, &late);
	assert_int_equal(late.items, 1);
	who = (struct tfc__bundle_offerer){.uid = UINT32_MAX}; /* the node's own user */
	for (unsigned i = 1; i < TFC__OFFERS_MAX; i++) {
		offer(CONNECTIONS - 1, 100 + i, &nodes[i]);
		assert_int_equal(nodes[i].items, 1);
	}
}

static void a_member_offers_what_it_likes(void **state)
{
	static struct rpc_outcome outcomes[2 * TFC__OFFERS_KEY_MAX];
	who = (struct tfc__bundle_offerer){.is_member = true, .uid = UINT32_MAX};
	for (unsigned i = 0; i < 2 * TFC__OFFERS_KEY_MAX; i++) {
		offer(0, i, &outcomes[i]);
		assert_int_equal(outcomes[i].items, 1);
	}
}

static void run_until(uint64_t until)
{
	for (uint64_t now = tfc__now(); now < until; now = tfc__now())
		assert_true(tfc_ctx_run(ctx, (int)((until - now) / TFC__MS) + 1) >= 0);
}

/* The bundle takes another byte, as tfc__bundle_write would say it. */
static void move(uint64_t number)
{
	char hash[TFC_BUNDLE_HASH_SIZE];
	name_hash(number, hash);
	struct tfc__bundle *bundle = tfc__bundle_find(bundles, hash);
	assert_non_null(bundle);
	bundle->received++;
	tfc__work_schedule(&bundle->report);
}

static struct rpc_outcome *ended[2];
static unsigned ends;

static void note_end(struct rpc_outcome *outcome)
{
	ended[ends++] = outcome;
}

static void one_of_which_nothing_comes_ends(void **state)
{
	static struct rpc_outcome first, second, late;
	ends = 0;
	bundles->idle_ns = SHORT;
	offer(0, 1, &first);
	offer(1, 2, &second);
	first.on_end = second.on_end = note_end;
	move(1);
	while (ends < 2)
		assert_true(tfc_ctx_run(ctx, 10000) >= 0);
	assert_ptr_equal(ended[0], &second); /* a byte of the first came after that began */
	expect_refusal(&second, TFC_ETIMEDOUT,
		       "transfer stalled for 0 s; 8 of 8 bytes are missing");
	expect_refusal(&first, TFC_ETIMEDOUT, "7 of 8 bytes are missing");
	bundles->idle_ns = OFFER_IDLE_NS;
	offer(0, 1, &late);
	assert_int_equal(late.items, 1);
}

/* It is checked, and then waits to be submitted. */
static void one_that_has_come_stays(void **state)
{
	static struct rpc_outcome outcome;
	bundles->idle_ns = SHORT;
	offer(0, 1, &outcome);
	for (int i = 0; i < SIZE; i++)
		move(1);
	run_until(tfc__now() + 2 * SHORT);
	assert_int_equal(outcome.ends, 0);
}

/* And nothing wakes the node meanwhile. */
static void one_that_is_ready_is_offered_for_as_long_as_is_liked(void **state)
{
	static struct rpc_outcome outcome;
	char hash[TFC_BUNDLE_HASH_SIZE];
	bundles->idle_ns = SHORT;
	name_hash(1, hash);
	offer(0, 1, &outcome);
	struct tfc__bundle *bundle = tfc__bundle_find(bundles, hash);
	bundle->state = TFC__BUNDLE_READY;
	tfc__work_schedule(&bundle->report);
	rpc_run(ctx);
	assert_int_equal(outcome.items, 2);
	assert_null(ctx->timers);
	bundle->state = TFC__BUNDLE_RECEIVING; /* it has no file */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			one_key_leaves_room_for_others_and_all_for_the_own_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_member_offers_what_it_likes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			one_that_is_ready_is_offered_for_as_long_as_is_liked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_of_which_nothing_comes_ends, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_has_come_stays, set_up, tear_down),
	};
	return cmocka_run_group_tests_name("bundle_offers", tests, NULL, NULL);
}
