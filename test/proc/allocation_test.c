/* allocation: two ranks in one program, which see each other come, end and die. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <tfcluster/tfcluster.h>

#include "base/clock.h"
#include "leaks.h"

#define PATIENCE (30 * TFC__SECOND)

struct member {
	tfc_allocation *allocation;
	uint32_t closes_on; /* the kind of event in which it is closed; 0: none */
	uint32_t ends_on;   /* the kind of event in which it is ended; 0: none */
	bool closes_when_left;
	uint32_t last; /* the kind of the last event */
	bool is_ready, has_left;
	uint32_t lost;
	uint32_t exit_status;
	int32_t code;
	char text[300];
};

static char dir[LEAKS_PATH];
static tfc_ctx *ctx;
static struct member ranks[2];

static int begin(void **state)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = getenv("TFC_HELPER_DIR");
	leaks_make_dir(dir);
	memset(ranks, 0, sizeof(ranks));
	return tfc_ctx_new(&options, NULL, &ctx);
}

/* Everything is closed, and rank 0 has removed its file. */
static int end(void **state)
{
	for (size_t i = 0; i < 2; i++)
		tfc_allocation_close(ranks[i].allocation);
	return tfc_ctx_close(ctx) < 0 ? -1 : rmdir(dir);
}

static void on_left(void *user)
{
	struct member *rank = user;
	rank->has_left = true;
	if (rank->closes_when_left) {
		tfc_allocation_close(rank->allocation);
		rank->allocation = NULL;
	}
}

static void end_rank(struct member *rank, uint32_t status, const char *text)
{
	assert_int_equal(tfc_allocation_end(rank->allocation, status, text, on_left, rank), TFC_OK);
	assert_int_equal(tfc_allocation_end(rank->allocation, status, text, on_left, rank),
			 TFC_ESTATE);
}

static void on_event(void *user, const tfc_allocation_event *event)
{
	struct member *rank = user;
	assert_true(rank->last != TFC_ALLOCATION_ENDED && rank->last != TFC_ALLOCATION_FAILED);
	rank->last = event->kind;
	rank->is_ready |= event->kind == TFC_ALLOCATION_READY;
	rank->lost += event->kind == TFC_ALLOCATION_LOST;
	rank->exit_status = event->exit_status;
	rank->code = event->code;
	snprintf(rank->text, sizeof(rank->text), "%s", event->text);
	if (event->kind == rank->ends_on)
		end_rank(rank, 4, NULL);
	if (event->kind == rank->closes_on) {
		tfc_allocation_close(rank->allocation);
		rank->allocation = NULL;
	}
}

static tfc_allocation_options options_of(uint32_t rank)
{
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	static char node[LEAKS_PATH + 80];
	tfc_allocation_options options = TFC_ALLOCATION_OPTIONS_INIT;
	snprintf(node, sizeof(node), "{\"temp-dir\": \"%s\", \"gpus\": \"none\", \"slots\": 1}",
		 leaks_temp_dir());
	options.has_rank = 1;
	options.rank = rank;
	options.rank_count = 2;
	options.env = env;
	options.rendezvous = dir;
	options.host = "127.0.0.1";
	options.agreement = "the same";
	options.node = node;
	return options;
}

static void open_rank(uint32_t rank, const tfc_allocation_options *options)
{
	if (tfc_allocation_open(ctx, options, on_event, &ranks[rank], &ranks[rank].allocation) < 0)
		fail_msg("%s", tfc_ctx_error(ctx)->text);
}

static void await(const bool *is_met)
{
	for (uint64_t by = tfc__now() + PATIENCE; !*is_met;) {
		assert_true(tfc__now() < by);
		assert_true(tfc_ctx_run(ctx, 1000) >= 0);
	}
}

static void await_last(uint32_t rank, uint32_t kind)
{
	for (uint64_t by = tfc__now() + PATIENCE; ranks[rank].last != kind;) {
		assert_true(tfc__now() < by);
		assert_true(tfc_ctx_run(ctx, 1000) >= 0);
	}
}

static void open_both(void)
{
	for (uint32_t rank = 2; rank-- > 0;) { /* rank 1 has to wait */
		tfc_allocation_options options = options_of(rank);
		open_rank(rank, &options);
		assert_null(tfc_allocation_node(ranks[rank].allocation));
	}
	await(&ranks[0].is_ready);
	await(&ranks[1].is_ready);
}

static void rank_0_announces_the_end(void **state)
{
	open_both();
	const tfc_allocation_info *info = tfc_allocation_describe(ranks[1].allocation);
	assert_int_equal(info->engine, TFC_ENGINE_NONE);
	assert_int_equal(info->rank, 1);
	assert_int_equal(info->rank_count, 2);
	assert_string_equal(info->node_name, "rank-1");
	assert_int_equal(info->wait_ms, 300000);
	assert_non_null(tfc_allocation_node(ranks[0].allocation));
	assert_non_null(tfc_allocation_node(ranks[1].allocation));
	assert_int_equal(tfc_allocation_end(ranks[0].allocation, 7, "all is done", on_left,
					    &ranks[0]),
			 TFC_OK);
	assert_int_equal(tfc_allocation_end(ranks[0].allocation, 7, NULL, on_left, &ranks[0]),
			 TFC_ESTATE);
	await_last(1, TFC_ALLOCATION_ENDED);
	assert_int_equal(ranks[1].exit_status, 7);
	assert_string_equal(ranks[1].text, "all is done");
	assert_int_equal(tfc_allocation_end(ranks[1].allocation, 0, NULL, on_left, &ranks[1]),
			 TFC_OK);
	await(&ranks[1].has_left);
	await(&ranks[0].has_left);
}

static void a_rank_that_is_closed_is_lost(void **state)
{
	open_both();
	tfc_allocation_close(ranks[1].allocation);
	ranks[1].allocation = NULL;
	await_last(0, TFC_ALLOCATION_LOST);
	assert_string_equal(ranks[0].text, "rank 1 is lost");
}

static void too_few_ranks_are_a_failure(void **state)
{
	tfc_allocation_options options = options_of(1);
	open_rank(1, &options);
	options = options_of(0);
	options.min_ranks = 2;
	open_rank(0, &options);
	await(&ranks[1].is_ready);
	await(&ranks[0].is_ready);
	tfc_allocation_close(ranks[1].allocation);
	ranks[1].allocation = NULL;
	await_last(0, TFC_ALLOCATION_FAILED);
	assert_int_equal(ranks[0].lost, 1);
	assert_int_equal(ranks[0].code, TFC_ELOST);
	assert_string_equal(ranks[0].text, "rank 1 is lost, and 1 of at least 2 ranks are left");
}

/* They notice it by the end of their connection, before gossip does. */
static void without_rank_0_the_others_fail(void **state)
{
	open_both();
	uint64_t begin = tfc__now();
	tfc_allocation_close(ranks[0].allocation);
	ranks[0].allocation = NULL;
	await_last(1, TFC_ALLOCATION_FAILED);
	assert_string_equal(ranks[1].text, "rank 0 is lost");
	assert_true(tfc__now() - begin < 2 * TFC__SECOND);
}

static void it_may_be_closed_in_each_event(void **state)
{
	static const uint32_t kinds[] = {TFC_ALLOCATION_READY, TFC_ALLOCATION_LOST,
					 TFC_ALLOCATION_FAILED};
	for (size_t i = 0; i < 3; i++) {
		memset(ranks, 0, sizeof(ranks));
		ranks[0].closes_on = kinds[i];
		tfc_allocation_options options = options_of(0);
		options.min_ranks = kinds[i] == TFC_ALLOCATION_FAILED ? 2 : 1;
		open_rank(0, &options);
		options = options_of(1);
		open_rank(1, &options);
		await(&ranks[0].is_ready);
		tfc_allocation_close(ranks[1].allocation);
		ranks[1].allocation = NULL;
		await_last(0, kinds[i]);
		assert_null(ranks[0].allocation);
	}
}

static void it_may_be_ended_in_an_event_and_closed_when_it_has_left(void **state)
{
	ranks[0].ends_on = TFC_ALLOCATION_READY;
	ranks[1].ends_on = TFC_ALLOCATION_ENDED;
	ranks[0].closes_when_left = ranks[1].closes_when_left = true;
	for (uint32_t rank = 0; rank < 2; rank++) {
		tfc_allocation_options options = options_of(rank);
		open_rank(rank, &options);
	}
	await(&ranks[0].has_left);
	await(&ranks[1].has_left);
	assert_int_equal(ranks[1].exit_status, 4);
	assert_null(ranks[0].allocation);
	assert_null(ranks[1].allocation);
}

static void it_may_be_ended_before_it_is_ready(void **state)
{
	for (uint32_t rank = 2; rank-- > 0;) {
		tfc_allocation_options options = options_of(rank);
		open_rank(rank, &options);
		end_rank(&ranks[rank], 1, "no more");
		await(&ranks[rank].has_left);
		assert_int_equal(ranks[rank].last, 0);
		tfc_allocation_close(ranks[rank].allocation);
		ranks[rank].allocation = NULL;
	}
}

static void it_may_be_closed_while_it_leaves(void **state)
{
	open_both();
	end_rank(&ranks[0], 0, NULL);
	tfc_allocation_close(ranks[0].allocation);
	ranks[0].allocation = NULL;
	await_last(1, TFC_ALLOCATION_FAILED);
	end_rank(&ranks[1], 0, NULL);
	tfc_ctx_free(ctx);
	ranks[1].allocation = NULL;
	assert_false(ranks[1].has_left);
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
}

/* The label has up to 200 bytes of it, and no part of a character. */
static void the_text_of_the_end_is_plain_text(void **state)
{
	char text[400] = "one\ntwo \xff", all[400] = "one two ?";
	for (size_t i = strlen(text); i + 3 < sizeof(text); i += 2)
		memcpy(text + i, "\u00e9", 3);
	for (size_t i = strlen(all); i + 2 <= 200; i += 2)
		memcpy(all + i, "\u00e9", 3);
	open_both();
	end_rank(&ranks[0], 9, text);
	await_last(1, TFC_ALLOCATION_ENDED);
	assert_int_equal(ranks[1].exit_status, 9);
	assert_string_equal(ranks[1].text, all);
}

static void the_context_closes_what_is_open(void **state)
{
	open_both();
	assert_int_equal(tfc_ctx_close(ctx), TFC_EBUSY);
	assert_non_null(strstr(tfc_ctx_error(ctx)->text, "allocation 2"));
	tfc_ctx_free(ctx);
	ranks[0].allocation = ranks[1].allocation = NULL;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
}

static void bad_options_are_refused(void **state)
{
	tfc_allocation *none = NULL;
	static const struct {
		const char *text;
		int code;
	} cases[] = {{"env is NULL", TFC_EINVAL},
		     {"rendezvous is missing", TFC_EINVAL},
		     {"rank is set, but rank_count is missing", TFC_EINVAL},
		     {"slots: ", TFC_EINVAL}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_allocation_options options = options_of(0);
		options.env = i == 0 ? NULL : options.env;
		options.rendezvous = i == 1 ? "" : options.rendezvous;
		options.rank_count = i == 2 ? 0 : options.rank_count;
		options.node = i == 3 ? "{\"slots\": \"many\"}" : options.node;
		assert_int_equal(tfc_allocation_open(ctx, &options, on_event, NULL, &none),
				 cases[i].code);
		if (!strstr(tfc_ctx_error(ctx)->text, cases[i].text))
			fail_msg("\"%s\"", tfc_ctx_error(ctx)->text);
	}
	tfc_allocation_options options = options_of(0);
	assert_int_equal(tfc_allocation_open(ctx, &options, NULL, NULL, &none), TFC_EINVAL);
	assert_int_equal(tfc_allocation_end(NULL, 0, NULL, on_left, NULL), TFC_EINVAL);
	assert_null(tfc_allocation_describe(NULL));
	assert_null(tfc_allocation_node(NULL));
	tfc_allocation_close(NULL);
	assert_null(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rank_0_announces_the_end, begin, end),
		cmocka_unit_test_setup_teardown(a_rank_that_is_closed_is_lost, begin, end),
		cmocka_unit_test_setup_teardown(too_few_ranks_are_a_failure, begin, end),
		cmocka_unit_test_setup_teardown(without_rank_0_the_others_fail, begin, end),
		cmocka_unit_test_setup_teardown(it_may_be_closed_in_each_event, begin, end),
		cmocka_unit_test_setup_teardown(
			it_may_be_ended_in_an_event_and_closed_when_it_has_left, begin, end),
		cmocka_unit_test_setup_teardown(it_may_be_ended_before_it_is_ready, begin, end),
		cmocka_unit_test_setup_teardown(it_may_be_closed_while_it_leaves, begin, end),
		cmocka_unit_test_setup_teardown(the_text_of_the_end_is_plain_text, begin, end),
		cmocka_unit_test_setup_teardown(the_context_closes_what_is_open, begin, end),
		cmocka_unit_test_setup_teardown(bad_options_are_refused, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
