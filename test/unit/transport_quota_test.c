/* transport: what clients may take, counted by connection, by key, and in all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "transport/quota.h"

static tfc_ctx *ctx;
static struct tfc__quota quota;
static struct tfc__quota_share *woken[8];
static unsigned wakes;

static const struct tfc__quota_limits limits = {
	.connections = 4,
	.key_connections = 3,
	.requests = 5,
	.key_requests = 4,
	.connection_requests = 3,
	.bytes = 100000,
	.key_bytes = 60000,
	.connection_bytes = 1000,
};

static void note(struct tfc__quota_share *share)
{
	woken[wakes++] = share;
}

static int set_up(void **state)
{
	wakes = 0;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	tfc__quota_init(&quota, ctx, &limits);
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(quota.connections + quota.requests + quota.bytes + quota.waiting, 0);
	assert_true(tfc__list_is_empty(&quota.keys));
	tfc__quota_fini(&quota);
	tfc_ctx_free(ctx);
	return 0;
}

static void join(const char *key, struct tfc__quota_share *share)
{
	assert_int_equal(tfc__quota_join(&quota, key, note, share, NULL), TFC_OK);
}

static void run(void)
{
	while (tfc_ctx_run(ctx, 0) > 0)
		;
}

/* One piece of work, so that whoever is woken can use the room before the next is. */
static void run_once(void)
{
	assert_true(tfc_ctx_dispatch(ctx, 1) >= 0);
}

static void connections_end_at_their_bounds(void **state)
{
	struct tfc__quota_share a[3], b, refused = {0};
	tfc_error error = TFC_ERROR_INIT;
	for (int i = 0; i < 3; i++)
		join("key a", &a[i]);
	assert_int_equal(tfc__quota_join(&quota, "key a", note, &refused, &error), TFC_EAGAIN);
	assert_non_null(strstr(error.text, "connections with key a (3,"));
	join("uid 7", &b);
	error = (tfc_error)TFC_ERROR_INIT;
	assert_int_equal(tfc__quota_join(&quota, "uid 8", note, &refused, &error), TFC_EAGAIN);
	assert_non_null(strstr(error.text, "connections of clients (4,"));
	tfc__quota_leave(&a[0]);
	tfc__quota_leave(&a[0]);
	join("key a", &a[0]);
	for (int i = 0; i < 3; i++)
		tfc__quota_leave(&a[i]);
	tfc__quota_leave(&b);
	tfc__quota_leave(&refused); /* which has none */
}

static void requests_end_at_their_bounds(void **state)
{
	struct tfc__quota_share a[2], b;
	tfc_error error = TFC_ERROR_INIT;
	join("key a", &a[0]);
	join("key a", &a[1]);
	join("key b", &b);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tfc__quota_begin_request(&a[0], 10, &error), TFC_OK);
	assert_int_equal(tfc__quota_begin_request(&a[0], 10, &error), TFC_EAGAIN);
	assert_non_null(strstr(error.text, "on this connection"));
	assert_int_equal(tfc__quota_begin_request(&a[1], 10, &error), TFC_OK);
	error = (tfc_error)TFC_ERROR_INIT;
	assert_int_equal(tfc__quota_begin_request(&a[1], 10, &error), TFC_EAGAIN);
	assert_non_null(strstr(error.text, "with key a"));
	assert_int_equal(tfc__quota_begin_request(&b, 10, &error), TFC_OK);
	error = (tfc_error)TFC_ERROR_INIT;
	assert_int_equal(tfc__quota_begin_request(&b, 10, &error), TFC_EAGAIN);
	assert_non_null(strstr(error.text, "of clients"));
	assert_int_equal(quota.bytes, 5 * (TFC__QUOTA_REQUEST_BYTES + 10));
	for (int i = 0; i < 3; i++)
		tfc__quota_end_request(&a[0], 10);
	tfc__quota_end_request(&a[1], 10);
	tfc__quota_end_request(&b, 10);
	tfc__quota_leave(&a[0]);
	tfc__quota_leave(&a[1]);
	tfc__quota_leave(&b);
}

static void bytes_are_those_of_the_last_count(void **state)
{
	struct tfc__quota_share a, b;
	tfc_error error = TFC_ERROR_INIT;
	join("key a", &a);
	join("key b", &b);
	tfc__quota_set_bytes(&a, 50000);
	tfc__quota_set_bytes(&a, 40000);
	assert_int_equal(quota.bytes, 40000);
	assert_int_equal(tfc__quota_check(&a, 20000, &error), TFC_OK);
	assert_int_equal(tfc__quota_check(&a, 20001, &error), TFC_EAGAIN);
	assert_non_null(strstr(error.text, "one key"));
	tfc__quota_set_bytes(&b, 50000);
	error = (tfc_error)TFC_ERROR_INIT;
	assert_int_equal(tfc__quota_check(&b, 10000, &error), TFC_OK);
	assert_int_equal(tfc__quota_check(&b, 10001, &error), TFC_EAGAIN);
	assert_non_null(strstr(error.text, "limit for all"));
	assert_int_equal(tfc__quota_begin_request(&b, 10000, &error), TFC_EAGAIN);
	tfc__quota_leave(&a); /* what it held goes with it */
	assert_int_equal(quota.bytes, 50000);
	tfc__quota_leave(&b);
}

/* Who waits longest first, and one key that is full keeps no other from going on. */
static void who_waits_is_woken_when_there_is_room(void **state)
{
	struct tfc__quota_share full, a[2], b;
	join("key a", &full);
	join("key a", &a[0]);
	join("key a", &a[1]);
	join("key b", &b);
	tfc__quota_set_bytes(&full, 60000);
	tfc__quota_set_bytes(&b, 40000);
	assert_false(tfc__quota_has_room(&a[0]));
	assert_false(tfc__quota_has_room(&a[1]));
	assert_false(tfc__quota_has_room(&a[0])); /* it waits once */
	assert_false(tfc__quota_has_room(&b));
	run();
	assert_int_equal(wakes, 0);
	tfc__quota_set_bytes(&b, 30000);
	run();
	assert_int_equal(wakes, 1);
	assert_ptr_equal(woken[0], &b);
	tfc__quota_set_bytes(&full, 50000);
	run();
	assert_int_equal(wakes, 3);
	assert_ptr_equal(woken[1], &a[0]);
	assert_ptr_equal(woken[2], &a[1]);
	tfc__quota_set_bytes(&full, 60000);
	assert_false(tfc__quota_has_room(&a[0]));
	tfc__quota_leave(&a[0]); /* it waits no more */
	tfc__quota_leave(&full);
	run();
	assert_int_equal(wakes, 3);
	tfc__quota_leave(&a[1]);
	tfc__quota_leave(&b);
}

/* A key that always has one that waits does not keep the others waiting. */
static void keys_take_turns(void **state)
{
	struct tfc__quota_share full, shares[3];
	const char *const keys[] = {"key a", "key b", "key c"};
	join("key d", &full);
	for (int i = 0; i < 3; i++)
		join(keys[i], &shares[i]);
	tfc__quota_set_bytes(&full, 60000);
	tfc__quota_set_bytes(&shares[0], 40000);
	for (int i = 0; i < 3; i++)
		assert_false(tfc__quota_has_room(&shares[i]));
	for (unsigned i = 0; i < 6; i++) {
		tfc__quota_set_bytes(&full, 59999);
		while (wakes == i)
			run_once();
		assert_ptr_equal(woken[i], &shares[i % 3]);
		tfc__quota_set_bytes(&full, 60000);
		assert_false(tfc__quota_has_room(woken[i])); /* and waits again */
	}
	tfc__quota_leave(&full);
	for (int i = 0; i < 3; i++)
		tfc__quota_leave(&shares[i]);
}

static void a_request_counts_as_what_it_holds(void **state)
{
	struct tfc__quota_share a, b;
	tfc_error error = TFC_ERROR_INIT;
	join("key a", &a);
	join("key b", &b);
	tfc__quota_set_bytes(&b, 50000);
	assert_int_equal(tfc__quota_begin_request(&a, 10, &error), TFC_OK);
	assert_int_equal(tfc__quota_resize_request(&a, 10, 40000, &error), TFC_OK);
	assert_int_equal(quota.bytes, 50000 + TFC__QUOTA_REQUEST_BYTES + 40000);
	assert_int_equal(tfc__quota_resize_request(&a, 40000, 46000, &error), TFC_EAGAIN);
	assert_non_null(strstr(error.text, "try again later"));
	assert_int_equal(tfc__quota_resize_request(&a, 40000, 30000, &error), TFC_OK);
	assert_int_equal(quota.bytes, 50000 + TFC__QUOTA_REQUEST_BYTES + 30000);
	tfc__quota_end_request(&a, 30000);
	tfc__quota_leave(&a);
	assert_int_equal(quota.bytes, 50000);
	tfc__quota_leave(&b);
}

static void nobody_is_limited_without_a_quota(void **state)
{
	struct tfc__quota_share share = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc__quota_set_bytes(&share, UINT64_C(1) << 40);
	assert_int_equal(tfc__quota_begin_request(&share, 1u << 30, &error), TFC_OK);
	assert_int_equal(tfc__quota_resize_request(&share, 1u << 30, 1u << 31, &error), TFC_OK);
	tfc__quota_end_request(&share, 1u << 31);
	assert_int_equal(tfc__quota_check(&share, UINT64_C(1) << 40, &error), TFC_OK);
	assert_true(tfc__quota_has_room(&share));
	tfc__quota_leave(&share);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(connections_end_at_their_bounds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(requests_end_at_their_bounds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bytes_are_those_of_the_last_count, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(who_waits_is_woken_when_there_is_room, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(keys_take_turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_request_counts_as_what_it_holds, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(nobody_is_limited_without_a_quota, set_up,
						tear_down),
	};
	return cmocka_run_group_tests_name("transport_quota", tests, NULL, NULL);
}
