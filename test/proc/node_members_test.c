/* node: a host sees the members, and receives their changes until it stops watching. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "leaks.h"
#include "proc_run.h"
#include <tfcluster/tfcluster.h>

#define PATIENCE (30 * TFC__SECOND)

/* A membership of the test's own: it reports what the test puts into it. */
static tfc_membership *reported;

static int start(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	reported = membership;
	return TFC_OK;
}

static void stop(void *user, tfc_membership *membership)
{
	reported = NULL;
}

static const tfc_membership_ops own = {.size = sizeof(own),
				       .flags = TFC_MEMBERSHIP_REPORTS_STATES,
				       .start = start,
				       .stop = stop};

struct seen {
	char text[512];
	tfc_member_watch *watch; /* to be closed at the first change; NULL: not */
	tfc_node *node;          /* the same */
};

static void note(void *user, uint32_t change, const tfc_member_info *member)
{
	struct seen *seen = user;
	size_t len = strlen(seen->text);
	snprintf(seen->text + len, sizeof(seen->text) - len, "%u %s %s%s;", change, member->name,
		 tfc_member_state_name(member->state), member->is_self ? " self" : "");
	tfc_member_watch_close(seen->watch);
	seen->watch = NULL;
	tfc_node_close(seen->node);
	seen->node = NULL;
}

static tfc_ctx *open_ctx(void)
{
	tfc_ctx *ctx;
	assert_int_equal(proc_ctx_new(&ctx), TFC_OK);
	return ctx;
}

static tfc_node *open_node(tfc_ctx *ctx, const tfc_membership_ops *ops)
{
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_node *node;
	options.name = "a";
	options.temp_dir = leaks_temp_dir();
	options.membership = ops;
	if (tfc_node_open(ctx, &options, &node) < 0)
		fail_msg("%s", tfc_ctx_error(ctx)->text);
	return node;
}

static void put(const char *name)
{
	tfc_member_info info = TFC_MEMBER_INFO_INIT;
	info.name = name;
	assert_int_equal(tfc_membership_put(reported, &info), TFC_OK);
}

static void run_until_seen(tfc_ctx *ctx, const struct seen *seen)
{
	for (uint64_t end = tfc__now() + PATIENCE; !*seen->text;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(ctx, 1000) >= 0);
	}
}

static void a_node_alone_is_its_only_member(void **state)
{
	struct seen seen = {.text = ""};
	tfc_ctx *ctx = open_ctx();
	tfc_node *node = open_node(ctx, NULL);
	assert_int_equal(tfc_member_list(node, note, &seen), TFC_OK);
	assert_string_equal(seen.text, "0 a alive self;");
	tfc_node_close(node);
	tfc_ctx_free(ctx);
}

static void changes_are_reported_until_the_watch_is_closed(void **state)
{
	struct seen seen = {.text = ""};
	tfc_member_watch *watch;
	tfc_ctx *ctx = open_ctx();
	tfc_node *node = open_node(ctx, &own);
	assert_int_equal(tfc_member_watch_open(node, note, &seen, &watch), TFC_OK);
	put("b");
	assert_string_equal(seen.text, ""); /* in dispatch only */
	run_until_seen(ctx, &seen);
	assert_string_equal(seen.text, "1 b suspect;");
	seen.text[0] = '\0';
	assert_int_equal(tfc_membership_set_state(reported, "b", TFC_MEMBER_ALIVE), TFC_OK);
	run_until_seen(ctx, &seen);
	assert_string_equal(seen.text, "2 b alive;");
	seen.text[0] = '\0';
	assert_int_equal(tfc_member_list(node, note, &seen), TFC_OK);
	assert_string_equal(seen.text, "0 a alive self;0 b alive;");
	seen.text[0] = '\0';
	assert_int_equal(tfc_membership_remove(reported, "b"), TFC_OK);
	run_until_seen(ctx, &seen);
	assert_string_equal(seen.text, "3 b alive;");
	seen.text[0] = '\0';
	tfc_member_watch_close(watch);
	put("c");
	while (tfc_ctx_dispatch(ctx, 0) > 0)
		;
	assert_string_equal(seen.text, "");
	tfc_node_close(node);
	assert_null(reported);
	tfc_ctx_free(ctx);
}

static void note_reached(void *user, uint32_t change, const tfc_member_info *member)
{
	struct seen *seen = user;
	snprintf(seen->text, sizeof(seen->text), "%s %s, reached %u, silent %u", member->name,
		 tfc_member_state_name(member->state), member->was_reached, member->silent_ms);
}

static void assert_reported(tfc_ctx *ctx, struct seen *seen, const char *name, uint32_t state,
			    const char *expected)
{
	seen->text[0] = '\0';
	assert_int_equal(tfc_membership_set_state(reported, name, state), TFC_OK);
	run_until_seen(ctx, seen);
	assert_string_equal(seen->text, expected);
}

/* Others can report a member alive that has never sent anything to this node. */
static void a_member_that_was_alive_was_reached(void **state)
{
	struct seen seen = {.text = ""};
	tfc_member_watch *watch;
	tfc_ctx *ctx = open_ctx();
	tfc_node *node = open_node(ctx, &own);
	assert_int_equal(tfc_member_watch_open(node, note_reached, &seen, &watch), TFC_OK);
	put("b");
	run_until_seen(ctx, &seen);
	assert_reported(ctx, &seen, "b", TFC_MEMBER_DOWN, "b down, reached 0, silent 0");
	assert_reported(ctx, &seen, "b", TFC_MEMBER_ALIVE, "b alive, reached 1, silent 0");
	assert_reported(ctx, &seen, "b", TFC_MEMBER_DOWN, "b down, reached 1, silent 0");
	tfc_member_watch_close(watch);
	tfc_node_close(node);
	tfc_ctx_free(ctx);
}

static void a_callback_may_close_the_watch_and_the_node(void **state)
{
	struct seen seen = {.text = ""}, second = {.text = ""};
	tfc_member_watch *watch, *other;
	tfc_ctx *ctx = open_ctx();
	tfc_node *node = open_node(ctx, &own);
	assert_int_equal(tfc_member_watch_open(node, note, &seen, &watch), TFC_OK);
	assert_int_equal(tfc_member_watch_open(node, note, &second, &other), TFC_OK);
	seen.watch = watch;
	seen.node = node;
	put("b");
	run_until_seen(ctx, &seen);
	while (tfc_ctx_dispatch(ctx, 0) > 0)
		;
	assert_string_equal(seen.text, "1 b suspect;");
	tfc_member_watch_close(other); /* outlives its node */
	tfc_ctx_free(ctx);
}

static void bad_use_is_refused(void **state)
{
	tfc_member_watch *watch = NULL;
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	char path[128];
	tfc_ctx *ctx = open_ctx();
	tfc_node *node = open_node(ctx, NULL), *second = NULL;
	assert_int_equal(tfc_member_list(NULL, note, NULL), TFC_EINVAL);
	assert_int_equal(tfc_member_list(node, NULL, NULL), TFC_EINVAL);
	assert_int_equal(tfc_member_watch_open(node, NULL, NULL, &watch), TFC_EINVAL);
	assert_int_equal(tfc_member_watch_open(node, note, NULL, NULL), TFC_EINVAL);
	assert_null(watch);
	tfc_member_watch_close(NULL);
	tfc_node_close(node);
	options.membership = &own;
	options.members_file = "/members.json";
	assert_int_equal(tfc_node_open(ctx, &options, &second), TFC_EINVAL);
	assert_string_equal(
		tfc_ctx_error(ctx)->text,
		"tfc_node_options has both members_file and membership; set one of them");
	options.membership = NULL;
	snprintf(path, sizeof(path), "%s/missing.json", leaks_temp_dir());
	options.members_file = path;
	assert_int_equal(tfc_node_open(ctx, &options, &second), TFC_ENOENT);
	assert_non_null(strstr(tfc_ctx_error(ctx)->text, path));
	assert_null(second);
	tfc_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_alone_is_its_only_member),
		cmocka_unit_test(changes_are_reported_until_the_watch_is_closed),
		cmocka_unit_test(a_member_that_was_alive_was_reached),
		cmocka_unit_test(a_callback_may_close_the_watch_and_the_node),
		cmocka_unit_test(bad_use_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
