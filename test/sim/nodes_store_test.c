/* The simulated store: what it does to requests, and what outlives a loss of power. That it is a
 * store at all is for test/conformance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "nodes/sim.h"
#include "nodes/store_alone.h"
#include "store_kinds.h"

#define SEEDS 200
#define PUTS 20
#define ANY UINT64_MAX

struct bench {
	tfc_ctx *ctx;
	struct tfc__store *store;
	struct sim_store *disk;
	char place[64];
};

static void open_store(struct bench *bench)
{
	tfc_error error = TFC_ERROR_INIT;
	if (store_alone_open(bench->ctx, bench->place, &error, &bench->store) < 0)
		fail_msg("%s", error.text);
}

static void begin(struct bench *bench, uint64_t seed)
{
	static unsigned number;
	*bench = (struct bench){0};
	sim.random = seed;
	snprintf(bench->place, sizeof(bench->place), "disk %u", ++number);
	assert_int_equal(tfc_ctx_new(NULL, NULL, &bench->ctx), TFC_OK);
	open_store(bench);
	bench->disk = store_alone_at(bench->place);
}

static void end(struct bench *bench)
{
	tfc__store_close(bench->store);
	tfc_ctx_free(bench->ctx);
}

static struct store_answer put(struct bench *bench, const char *key)
{
	return test_store_put(bench->ctx, bench->store, key, "v", ANY);
}

static bool is_there(struct bench *bench, const char *key)
{
	return test_store_get(bench->ctx, bench->store, key).code == TFC_OK;
}

/* Lets happen what does before `at`. */
static void stop_time(const struct bench *bench, uint64_t at)
{
	store_alone_stop_at(at);
	for (int i = 0; i < 10 || sim_next_event() < at; i++)
		assert_true(tfc_ctx_dispatch(bench->ctx, 0) >= 0);
	store_alone_stop_at(UINT64_MAX);
}

/* ---- power loss */

static void count_response(void *user, int code, const tfc_store_value *values, uint32_t count,
			   const tfc_error *error)
{
	uint32_t *answered = user;
	assert_int_equal(code, TFC_OK);
	++*answered;
}

/* In the middle of many puts; how many were kept of those that were not answered. */
static uint32_t lose_power(uint64_t seed)
{
	struct bench bench;
	uint32_t answered = 0, kept = 0;
	char key[16];
	begin(&bench, seed);
	for (uint32_t i = 0; i < PUTS; i++) {
		snprintf(key, sizeof(key), "k%02u", i);
		assert_non_null(
			tfc__store_put(bench.store, key, "v", 1, ANY, count_response, &answered));
	}
	stop_time(&bench, sim.now + sim_draw(PUTS * 3 * SIM_MS));
	sim_store_lose_power(bench.disk);
	struct tfc__store *before = bench.store;
	open_store(&bench);
	struct store_answer all = test_store_list(bench.ctx, bench.store, "");
	for (uint32_t i = 0; i < PUTS; i++) {
		snprintf(key, sizeof(key), "k%02u=", i);
		bool is_kept = strstr(all.text, key) != NULL;
		assert_true(is_kept || i >= answered);
		assert_true(!is_kept || kept == i); /* none behind one that is missing */
		kept += is_kept;
	}
	tfc__store_close(before);
	end(&bench);
	return kept - answered;
}

static void power_loss_keeps_what_was_acknowledged_and_a_beginning_of_the_rest(void **state)
{
	uint32_t none = 0, some = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint32_t more = lose_power(seed);
		none += more == 0;
		some += more > 0;
	}
	assert_true(none > 0);
	assert_true(some > 0);
}

/* False: it was not killed while the put was under way. */
static bool put_while_the_helper_is_killed(struct bench *bench)
{
	bool is_hit = false;
	sim_store_kill_helper(bench->disk, UINT64_MAX, &is_hit);
	int code = put(bench, "k").code;
	sim_store_kill_helper(bench->disk, 0, NULL);
	assert_int_equal(code, is_hit ? TFC_ELOST : TFC_OK);
	return is_hit;
}

/* A put that was not answered is seen by the next helper, and gone after that. */
static void what_a_killed_helper_has_not_synced_may_be_lost_with_the_power(void **state)
{
	uint32_t kept = 0, lost = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct bench bench;
		begin(&bench, seed);
		bool is_hit = put_while_the_helper_is_killed(&bench);
		struct tfc__store *before = bench.store;
		sim_store_lose_power(bench.disk);
		open_store(&bench);
		assert_true(is_hit || is_there(&bench, "k"));
		kept += is_hit && is_there(&bench, "k");
		lost += is_hit && !is_there(&bench, "k");
		tfc__store_close(before);
		end(&bench);
	}
	assert_true(kept > 0);
	assert_true(lost > 0);
}

/* ---- a helper that is killed */

static void a_put_of_a_killed_helper_is_done_or_not(void **state)
{
	uint32_t done = 0, not_done = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct bench bench;
		begin(&bench, seed);
		bool is_hit = put_while_the_helper_is_killed(&bench);
		bool was_done = is_there(&bench, "k"); /* another helper was started */
		done += is_hit && was_done;
		not_done += is_hit && !was_done;
		end(&bench);
	}
	assert_true(done > 0);
	assert_true(not_done > 0);
}

static void a_host_that_dies_leaves_its_request_done_or_not(void **state)
{
	uint32_t done = 0, not_done = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct bench bench;
		begin(&bench, seed);
		tfc__store_drop(tfc__store_put(bench.store, "k", "v", 1, ANY, NULL, NULL));
		stop_time(&bench, sim.now);
		struct tfc__store *before = bench.store;
		sim_store_lose_host(bench.disk);
		open_store(&bench);
		bool was_done = is_there(&bench, "k");
		done += was_done;
		not_done += !was_done;
		tfc__store_close(before);
		end(&bench);
	}
	assert_true(done > 0);
	assert_true(not_done > 0);
}

/* ---- its disk */

static void a_full_disk_refuses_puts(void **state)
{
	struct bench bench;
	bool is_hit = false;
	begin(&bench, 1);
	sim_store_break(bench.disk, SIM_DISK_FULL, UINT64_MAX, &is_hit);
	assert_int_equal(put(&bench, "k").code, TFC_ENOSPC);
	assert_true(is_hit);
	assert_false(is_there(&bench, "k"));
	sim_store_break(bench.disk, SIM_DISK_FULL, 0, NULL);
	assert_int_equal(put(&bench, "k").code, TFC_OK);
	end(&bench);
}

static void what_a_failing_disk_refuses_may_be_done(void **state)
{
	uint32_t puts = 0, refused = 0, done_all_the_same = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct bench bench;
		begin(&bench, seed);
		sim_store_break(bench.disk, SIM_DISK_FAILS, UINT64_MAX, NULL);
		int code = put(&bench, "k").code;
		sim_store_break(bench.disk, SIM_DISK_FAILS, 0, NULL);
		bool was_done = is_there(&bench, "k");
		assert_true(code == TFC_OK || code == TFC_ESYS);
		assert_true(code == TFC_ESYS || was_done);
		puts += code == TFC_OK;
		refused += code == TFC_ESYS && !was_done;
		done_all_the_same += code == TFC_ESYS && was_done;
		end(&bench);
	}
	assert_true(puts > 0);
	assert_true(refused > 0);
	assert_true(done_all_the_same > 0);
}

static void a_slow_disk_is_late_and_a_hanging_one_waits_for_its_end(void **state)
{
	struct bench bench;
	begin(&bench, 1);
	uint64_t asked = sim.now, until = asked + 60 * SIM_SECOND;
	sim_store_break(bench.disk, SIM_DISK_SLOW, UINT64_MAX, NULL);
	assert_int_equal(put(&bench, "k").code, TFC_OK);
	assert_in_range(sim.now - asked, 300 * SIM_MS, 6 * SIM_SECOND);
	sim_store_break(bench.disk, SIM_DISK_SLOW, 0, NULL);
	sim_store_break(bench.disk, SIM_DISK_HANGS, until, NULL);
	assert_int_equal(put(&bench, "k").code, TFC_OK);
	assert_in_range(sim.now, until, until + 2 * SIM_SECOND);
	end(&bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			power_loss_keeps_what_was_acknowledged_and_a_beginning_of_the_rest),
		cmocka_unit_test(what_a_killed_helper_has_not_synced_may_be_lost_with_the_power),
		cmocka_unit_test(a_put_of_a_killed_helper_is_done_or_not),
		cmocka_unit_test(a_host_that_dies_leaves_its_request_done_or_not),
		cmocka_unit_test(a_full_disk_refuses_puts),
		cmocka_unit_test(what_a_failing_disk_refuses_may_be_done),
		cmocka_unit_test(a_slow_disk_is_late_and_a_hanging_one_waits_for_its_end),
	};
	return cmocka_run_group_tests_name("nodes_store", tests, NULL, NULL);
}
