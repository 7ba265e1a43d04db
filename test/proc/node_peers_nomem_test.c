/* node: whichever allocation fails while nodes open, meet and part, a call says so, and whoever is
 * left finds the others once there is memory again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "failing_malloc.h"
#include "leaks.h"
#include "proc_run.h"
#include <tfcluster/tfcluster.h>

#define PATIENCE (30 * TFC__SECOND)

static int start(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	static const char *const names[] = {"a", "b"};
	static const char *const addresses[] = {"memory:a", "memory:b"};
	int code = TFC_OK;
	for (int i = 0; i < 2 && code == TFC_OK; i++) {
		tfc_member_info info = TFC_MEMBER_INFO_INIT;
		info.name = names[i];
		info.address = addresses[i];
		code = tfc_membership_put(membership, &info);
	}
	if (code < 0)
		*error = *tfc_ctx_error(ctx);
	return code;
}

static void stop(void *user, tfc_membership *membership)
{
}

static const tfc_membership_ops both = {.size = sizeof(both), .start = start, .stop = stop};

static int open_node(tfc_ctx *ctx, const char *name, const char *state_dir, tfc_node **ret_node)
{
	static const char *const labels[] = {"rack=1", NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.name = name;
	options.temp_dir = leaks_temp_dir();
	options.membership = &both;
	options.labels = labels;
	options.state_dir = state_dir;
	options.probe_ms = 10;
	*ret_node = NULL;
	int code = failing_said(tfc_node_open(ctx, &options, ret_node), tfc_ctx_error(ctx));
	assert_true(code == TFC_OK || !*ret_node);
	return code;
}

static int open_ctx(tfc_ctx **ret_ctx)
{
	*ret_ctx = NULL;
	return proc_ctx_new(ret_ctx);
}

/* ---- opening with all that it keeps */

static int open_and_close(void)
{
	char top[LEAKS_PATH], dir[LEAKS_PATH + 16];
	tfc_ctx *ctx;
	tfc_node *node = NULL;
	leaks_make_dir(top);
	snprintf(dir, sizeof(dir), "%s/state", top);
	int code = open_ctx(&ctx);
	if (code == TFC_OK)
		code = open_node(ctx, "a", dir, &node);
	tfc_node_close(node);
	tfc_ctx_free(ctx);
	failing_relent();
	assert_int_equal(tfc__remove_tree(top), 0);
	return code;
}

static void a_node_with_a_state_opens_or_says_why_not(void **state)
{
	failing_sweep(open_and_close, 10);
}

/* ---- meeting */

static void note(void *user, uint32_t change, const tfc_member_info *member)
{
	*(int *)user += member->state == TFC_MEMBER_ALIVE;
}

static bool see_each_other(tfc_node *a, tfc_node *b)
{
	int alive = 0;
	assert_int_equal(tfc_member_list(a, note, &alive), TFC_OK);
	assert_int_equal(tfc_member_list(b, note, &alive), TFC_OK);
	return alive == 4;
}

static int meet(void)
{
	tfc_ctx *ctx;
	tfc_node *a = NULL, *b = NULL;
	int code = open_ctx(&ctx);
	if (code == TFC_OK && (code = open_node(ctx, "a", NULL, &a)) == TFC_OK &&
	    (code = open_node(ctx, "b", NULL, &b)) == TFC_OK) {
		for (int i = 0; i < 40; i++)
			tfc_ctx_run(ctx, 0);
		failing_relent();
		for (uint64_t end = tfc__now() + PATIENCE; !see_each_other(a, b);) {
			assert_true(tfc__now() < end);
			assert_true(tfc_ctx_run(ctx, 100) >= 0);
		}
	}
	tfc_node_close(a);
	tfc_node_close(b);
	tfc_ctx_free(ctx);
	return code;
}

static void nodes_meet_once_there_is_memory(void **state)
{
	failing_sweep(meet, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_with_a_state_opens_or_says_why_not),
		cmocka_unit_test(nodes_meet_once_there_is_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
