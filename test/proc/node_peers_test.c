/* node: members of one process that find each other, over a transport in memory; who is let in and
 * who is not; leaving, and ends in the middle of anything. */
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
#define COUNT 3

/* The members are the nodes "n0", "n1" ... at "memory:n0" ...; the first `addressed` of them have
 * an address, the others only connect to these. */
static int put_members(tfc_membership *membership, int addressed)
{
	for (int i = 0; i < COUNT; i++) {
		char name[8], address[16];
		tfc_member_info info = TFC_MEMBER_INFO_INIT;
		snprintf(name, sizeof(name), "n%d", i);
		snprintf(address, sizeof(address), "memory:n%d", i);
		info.name = name;
		info.address = i < addressed ? address : NULL;
		int code = tfc_membership_put(membership, &info);
		if (code < 0)
			return code;
	}
	return TFC_OK;
}

static int start(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	return put_members(membership, COUNT);
}

static int start_addressing_n0(void *user, tfc_ctx *ctx, tfc_membership *membership,
			       tfc_error *error)
{
	return put_members(membership, 1);
}

static void stop(void *user, tfc_membership *membership)
{
}

static const tfc_membership_ops all = {.size = sizeof(all), .start = start, .stop = stop};
static const tfc_membership_ops addressing_n0 = {
	.size = sizeof(addressing_n0),
	.start = start_addressing_n0,
	.stop = stop,
};

/* What a node says of the others. */
struct seen {
	uint32_t states[COUNT];
	char node_ids[COUNT][64];
	uint32_t draining[COUNT];
	char refusal[1024];
	tfc_node *close_at_change; /* NULL: none */
	int has_left;
};

static tfc_ctx *open_ctx(void)
{
	tfc_ctx *ctx;
	assert_int_equal(proc_ctx_new(&ctx), TFC_OK);
	return ctx;
}

static void note_refusal(void *user, const tfc_error *error)
{
	struct seen *seen = user;
	snprintf(seen->refusal, sizeof(seen->refusal), "%s", error->text);
}

static tfc_node *open_member(tfc_ctx *ctx, const tfc_membership_ops *membership, const char *name,
			     const char *address, struct seen *seen)
{
	const char *const listen[] = {address, NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_node_hooks hooks = TFC_NODE_HOOKS_INIT;
	tfc_node *node;
	hooks.user = seen;
	hooks.refused = note_refusal;
	options.name = name;
	options.temp_dir = leaks_temp_dir();
	options.membership = membership;
	options.listen = address ? listen : NULL;
	options.hooks = &hooks;
	if (tfc_node_open(ctx, &options, &node) < 0)
		fail_msg("%s", tfc_ctx_error(ctx)->text);
	return node;
}

static tfc_node *open_at(tfc_ctx *ctx, const char *name, const char *address, struct seen *seen)
{
	return open_member(ctx, &all, name, address, seen);
}

static void note(void *user, uint32_t change, const tfc_member_info *member)
{
	struct seen *seen = user;
	seen->states[member->name[1] - '0'] = member->state;
	seen->draining[member->name[1] - '0'] = member->is_draining;
	snprintf(seen->node_ids[member->name[1] - '0'], sizeof(seen->node_ids[0]), "%s",
		 member->node_id ? member->node_id : "");
	if (change) {
		tfc_node_close(seen->close_at_change);
		seen->close_at_change = NULL;
	}
}

static void look(tfc_node *node, struct seen *seen)
{
	assert_int_equal(tfc_member_list(node, note, seen), TFC_OK);
}

static void turn(tfc_ctx *ctx, uint64_t end)
{
	assert_true(tfc__now() < end);
	assert_true(tfc_ctx_run(ctx, 100) >= 0);
}

static void await_state(tfc_ctx *ctx, tfc_node *node, int other, uint32_t state)
{
	struct seen seen = {.has_left = 0};
	for (uint64_t end = tfc__now() + PATIENCE; seen.states[other] != state;) {
		turn(ctx, end);
		look(node, &seen);
	}
}

static void nodes_find_each_other_and_notice_an_end(void **state)
{
	tfc_ctx *ctx = open_ctx();
	tfc_node *nodes[COUNT];
	for (int i = 0; i < COUNT; i++) {
		char name[8];
		snprintf(name, sizeof(name), "n%d", i);
		nodes[i] = open_at(ctx, name, NULL, NULL);
	}
	for (int i = 0; i < COUNT; i++)
		for (int j = 0; j < COUNT; j++)
			await_state(ctx, nodes[i], j, TFC_MEMBER_ALIVE);
	tfc_node_close(nodes[2]);
	await_state(ctx, nodes[0], 2, TFC_MEMBER_DOWN);
	await_state(ctx, nodes[1], 2, TFC_MEMBER_DOWN);
	nodes[2] = open_at(ctx, "n2", NULL, NULL);
	await_state(ctx, nodes[0], 2, TFC_MEMBER_ALIVE);
	await_state(ctx, nodes[2], 0, TFC_MEMBER_ALIVE);
	for (int i = 0; i < COUNT; i++)
		tfc_node_close(nodes[i]);
	tfc_ctx_free(ctx);
}

static void the_identity_of_a_member_is_known_once_it_has_said_hello(void **state)
{
	struct seen by_a = {.has_left = 0}, by_b = {.has_left = 0};
	tfc_ctx *ctx = open_ctx();
	tfc_node *a = open_at(ctx, "n0", NULL, NULL);
	look(a, &by_a);
	assert_int_equal(strlen(by_a.node_ids[0]), 32);
	assert_string_equal(by_a.node_ids[1], "");
	tfc_node *b = open_at(ctx, "n1", NULL, NULL);
	await_state(ctx, a, 1, TFC_MEMBER_ALIVE);
	look(a, &by_a);
	look(b, &by_b);
	assert_string_equal(by_a.node_ids[1], by_b.node_ids[1]);
	assert_string_equal(by_a.node_ids[2], "");
	tfc_node_close(a);
	tfc_node_close(b);
	tfc_ctx_free(ctx);
}

static void note_left(void *user)
{
	((struct seen *)user)->has_left = 1;
}

static void one_that_leaves_has_left_and_may_come_back(void **state)
{
	struct seen seen = {.has_left = 0};
	tfc_ctx *ctx = open_ctx();
	tfc_node *a = open_at(ctx, "n0", NULL, NULL), *b = open_at(ctx, "n1", NULL, NULL);
	await_state(ctx, a, 1, TFC_MEMBER_ALIVE);
	assert_int_equal(tfc_node_leave(b, note_left, &seen), TFC_OK);
	assert_int_equal(tfc_node_leave(b, note_left, &seen), TFC_ESTATE);
	for (uint64_t end = tfc__now() + PATIENCE; !seen.has_left;)
		turn(ctx, end);
	tfc_node_close(b);
	await_state(ctx, a, 1, TFC_MEMBER_LEFT);
	for (int i = 0; i < 20; i++) /* its end is no news */
		tfc_ctx_run(ctx, 5);
	look(a, &seen);
	assert_int_equal(seen.states[1], TFC_MEMBER_LEFT);
	b = open_at(ctx, "n1", NULL, NULL);
	await_state(ctx, a, 1, TFC_MEMBER_ALIVE);
	look(a, &seen);
	assert_int_equal(seen.draining[1], 0);
	tfc_node_close(a);
	tfc_node_close(b);
	tfc_ctx_free(ctx);
}

static void the_second_of_one_name_is_refused(void **state)
{
	struct seen seen = {.has_left = 0};
	tfc_ctx *ctx = open_ctx();
	tfc_node *a = open_at(ctx, "n0", NULL, NULL), *b = open_at(ctx, "n1", NULL, NULL);
	await_state(ctx, a, 1, TFC_MEMBER_ALIVE);
	await_state(ctx, b, 0, TFC_MEMBER_ALIVE);
	tfc_node *second = open_at(ctx, "n1", "memory:elsewhere", &seen);
	for (uint64_t end = tfc__now() + PATIENCE; !*seen.refusal;)
		turn(ctx, end);
	if (!strstr(seen.refusal, "two nodes have the name \"n1\""))
		fail_msg("%s", seen.refusal);
	look(a, &seen);
	assert_int_equal(seen.states[1], TFC_MEMBER_ALIVE);
	tfc_node_close(second);
	tfc_node_close(a);
	tfc_node_close(b);
	tfc_ctx_free(ctx);
}

/* A member that no one can connect to has no address that a message could print. */
static void the_second_of_a_name_without_an_address_is_refused(void **state)
{
	struct seen seen = {.has_left = 0};
	tfc_ctx *ctx = open_ctx();
	tfc_node *a = open_member(ctx, &addressing_n0, "n0", NULL, NULL);
	tfc_node *b = open_member(ctx, &addressing_n0, "n1", NULL, NULL);
	await_state(ctx, b, 0, TFC_MEMBER_ALIVE);
	tfc_node *second = open_member(ctx, &addressing_n0, "n1", NULL, &seen);
	for (uint64_t end = tfc__now() + PATIENCE; !*seen.refusal;)
		turn(ctx, end);
	if (!strstr(seen.refusal,
		    "two nodes have the name \"n1\": one without an address and one at "))
		fail_msg("%s", seen.refusal);
	tfc_node_close(second);
	tfc_node_close(a);
	tfc_node_close(b);
	tfc_ctx_free(ctx);
}

/* What a request through the node ends with that begins when n1 becomes alive. */
struct search {
	tfc_gateway *gateway;
	bool has_begun;
	int32_t code;
	char text[1024];
};

static void search_on_reply(void *user, const tfc_reply *reply)
{
	struct search *search = user;
	search->code = reply->code;
	snprintf(search->text, sizeof(search->text), "%s", reply->error->text);
}

static void search_when_alive(void *user, uint32_t change, const tfc_member_info *member)
{
	struct search *search = user;
	if (search->has_begun || strcmp(member->name, "n1") != 0 ||
	    member->state != TFC_MEMBER_ALIVE)
		return;
	search->has_begun = true;
	assert_int_equal(tfc_gateway_describe(search->gateway, "nothing", NULL, search_on_reply,
					      search, NULL),
			 TFC_OK);
}

/* It is alive as soon as it has connected to this node, whose own connection to it comes later. */
static void a_member_that_has_just_come_is_reachable(void **state)
{
	struct search search = {.has_begun = false};
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_member_watch *watch;
	tfc_ctx *ctx = open_ctx();
	tfc_node *a = open_at(ctx, "n0", NULL, NULL), *c = open_at(ctx, "n2", NULL, NULL);
	await_state(ctx, a, 2, TFC_MEMBER_ALIVE);
	await_state(ctx, a, 1, TFC_MEMBER_DOWN);
	options.node = a;
	assert_int_equal(tfc_gateway_open(ctx, &options, &search.gateway), TFC_OK);
	assert_int_equal(tfc_member_watch_open(a, search_when_alive, &search, &watch), TFC_OK);
	tfc_node *b = open_at(ctx, "n1", NULL, NULL);
	for (uint64_t end = tfc__now() + PATIENCE; !search.code;)
		turn(ctx, end);
	assert_string_equal(search.text, "job \"nothing\" not found");
	tfc_member_watch_close(watch);
	tfc_gateway_close(search.gateway);
	tfc_node_close(a);
	tfc_node_close(b);
	tfc_node_close(c);
	tfc_ctx_free(ctx);
}

static void a_node_may_be_closed_while_it_reports(void **state)
{
	struct seen seen = {.has_left = 0};
	tfc_member_watch *watch;
	tfc_ctx *ctx = open_ctx();
	tfc_node *a = open_at(ctx, "n0", NULL, NULL), *b = open_at(ctx, "n1", NULL, NULL);
	assert_int_equal(tfc_member_watch_open(a, note, &seen, &watch), TFC_OK);
	seen.close_at_change = a;
	for (uint64_t end = tfc__now() + PATIENCE; seen.close_at_change;)
		turn(ctx, end);
	tfc_member_watch_close(watch);
	await_state(ctx, b, 0, TFC_MEMBER_DOWN);
	tfc_node_close(b);
	tfc_ctx_free(ctx);
}

static void nodes_may_be_closed_at_any_moment(void **state)
{
	tfc_ctx *ctx = open_ctx();
	for (int turns = 0; turns < 40; turns++) {
		tfc_node *a = open_at(ctx, "n0", NULL, NULL), *b = open_at(ctx, "n1", NULL, NULL);
		for (int i = 0; i < turns; i++)
			tfc_ctx_run(ctx, 0);
		tfc_node_close(turns % 2 ? a : b);
		for (int i = 0; i < turns % 5; i++)
			tfc_ctx_run(ctx, 0);
		tfc_node_close(turns % 2 ? b : a);
	}
	tfc_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_find_each_other_and_notice_an_end),
		cmocka_unit_test(the_identity_of_a_member_is_known_once_it_has_said_hello),
		cmocka_unit_test(one_that_leaves_has_left_and_may_come_back),
		cmocka_unit_test(the_second_of_one_name_is_refused),
		cmocka_unit_test(the_second_of_a_name_without_an_address_is_refused),
		cmocka_unit_test(a_member_that_has_just_come_is_reachable),
		cmocka_unit_test(a_node_may_be_closed_while_it_reports),
		cmocka_unit_test(nodes_may_be_closed_at_any_moment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
