/* gateway: tfc_gateway_watch reports the jobs of all nodes, whichever of them can be reached. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "gateway/sub.h"
#include "leaks.h"
#include "proc_run.h"
#include "watcher.h"

/* This process has node a, and sometimes node b; or b and c are processes of their own. */
struct nodes {
	struct node_run run; /* of a */
	tfc_node *b;
	char dir[LEAKS_PATH];
	char members[LEAKS_PATH + 16];
};

/* A letter for each member; and more members, which cannot be reached. */
static void write_members(const struct nodes *nodes, const char *names, int unreachable)
{
	char written[LEAKS_PATH + 32];
	snprintf(written, sizeof(written), "%s.new", nodes->members);
	FILE *file = fopen(written, "we");
	assert_non_null(file);
	assert_true(fputs("{\"members\": [", file) >= 0);
	for (const char *name = names; *name; name++)
		assert_true(fprintf(file, "%s{\"name\": \"%c\", \"address\": \"unix:%s/%c\"}",
				    name == names ? "" : ", ", *name, nodes->dir, *name) > 0);
	for (int i = 0; i < unreachable; i++)
		assert_true(fprintf(file, ", {\"name\": \"b%d\", \"address\": \"unix:%s/%d\"}", i,
				    nodes->dir, i) > 0);
	assert_true(fputs("]}", file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(rename(written, nodes->members), 0);
}

static void begin(struct nodes *nodes, const char *names, int unreachable)
{
	leaks_make_dir(nodes->dir);
	snprintf(nodes->members, sizeof(nodes->members), "%s/members", nodes->dir);
	write_members(nodes, names, unreachable);
}

static tfc_node_options options_of(const struct nodes *nodes, const char *name,
				   const char *const *listen)
{
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.name = name;
	options.members_file = nodes->members;
	options.listen = listen;
	options.lease_ms = 500;
	options.probe_ms = 100;
	return options;
}

static void open_a(struct nodes *nodes)
{
	char address[LEAKS_PATH + 16];
	const char *const listen[] = {address, NULL};
	const tfc_node_options options = options_of(nodes, "a", listen);
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	snprintf(address, sizeof(address), "unix:%s/a", nodes->dir);
	node_run_begin(&nodes->run, &options);
	if (!node_run_is_remote())
		return;
	gateway.address = address; /* the node's own service, which knows its members */
	tfc_gateway_close(nodes->run.gateway);
	assert_int_equal(tfc_gateway_open(nodes->run.ctx, &gateway, &nodes->run.gateway), 0);
}

static int open_other(const struct nodes *nodes, const char *name, tfc_ctx *ctx,
		      tfc_node **ret_node)
{
	char address[LEAKS_PATH + 16], state[LEAKS_PATH + 16];
	const char *const listen[] = {address, NULL};
	tfc_node_options options = options_of(nodes, name, listen);
	snprintf(address, sizeof(address), "unix:%s/%s", nodes->dir, name);
	snprintf(state, sizeof(state), "%s/state-%s", nodes->dir, name);
	options.state_dir = state;
	options.temp_dir = nodes->dir;
	return tfc_node_open(ctx, &options, ret_node);
}

static void open_b(struct nodes *nodes)
{
	if (open_other(nodes, "b", nodes->run.ctx, &nodes->b) < 0)
		fail_msg("%s", tfc_ctx_error(nodes->run.ctx)->text);
}

static void close_b(struct nodes *nodes)
{
	tfc_node_close(nodes->b);
	nodes->b = NULL;
}

static void end(struct nodes *nodes)
{
	tfc_node_close(nodes->b);
	node_run_end(&nodes->run);
	assert_int_equal(tfc__remove_tree(nodes->dir), 0);
}

/* Submits to a node that is a member and can be reached. */
static char *submit_to(const struct nodes *nodes, const char *name, const char *job)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	struct node_run other = nodes->run;
	char address[LEAKS_PATH + 16];
	snprintf(address, sizeof(address), "unix:%s/%s", nodes->dir, name);
	options.address = address;
	assert_int_equal(tfc_gateway_open(other.ctx, &options, &other.gateway), 0);
	char *id = watched_submit(&other, job);
	tfc_gateway_close(other.gateway);
	return id;
}

static void jobs_of_other_nodes_are_seen_whenever_they_can_be(void **state)
{
	struct nodes nodes = {.b = NULL};
	struct watcher watcher = {.lives = 0};
	begin(&nodes, "ab", 0);
	open_a(&nodes);
	watcher_open(&watcher, &nodes.run, NULL);
	watcher_await_live(&watcher);
	assert_true(watcher_node(&watcher, "b")->unseen == 1 && !watcher_node(&watcher, "b")->seen);
	open_b(&nodes);
	watcher_await(&watcher, watcher_sees, "b");
	char *id = submit_to(&nodes, "b", WATCHED_QUICK),
	     *here = watched_submit(&nodes.run, WATCHED_QUICK);
	watcher_await(&watcher, watcher_has_ended, id);
	watcher_await(&watcher, watcher_has_ended, here);
	assert_string_equal(watcher_job(&watcher, id)->node, "b");
	assert_string_equal(watcher_job(&watcher, here)->node, "a");
	close_b(&nodes);
	watcher_await(&watcher, watcher_does_not_see, "b");
	char cursor[sizeof(watcher.cursor)];
	memcpy(cursor, watcher.cursor, sizeof(cursor));
	open_b(&nodes);
	watcher_await(&watcher, watcher_sees, "b");
	assert_int_equal(watcher_job(&watcher, id)->submitted, 2); /* replayed after the restart */
	assert_false(watcher_job(&watcher, id)->is_forgotten);
	assert_int_equal(watcher_job(&watcher, here)->submitted, 1);
	assert_int_equal(watcher_node(&watcher, "b")->resets, 2);
	assert_int_equal(watcher_node(&watcher, "a")->resets, 1);
	tfc_sub_close(watcher.sub);
	watcher_open(&watcher, &nodes.run, cursor); /* of before the restart of b */
	watcher_await_live(&watcher);
	assert_int_equal(watcher_node(&watcher, "b")->resets, 3);
	assert_int_equal(watcher_node(&watcher, "a")->resets, 1);
	assert_int_equal(watcher.job_count, 2);
	tfc_sub_close(watcher.sub);
	free(id);
	free(here);
	end(&nodes);
}

struct awaited_count {
	struct node_run *run;
	uint64_t count;
};

static void count_member(void *user, uint32_t change, const tfc_member_info *info)
{
	++*(uint64_t *)user;
}

static bool has_members(void *user)
{
	const struct awaited_count *awaited = user;
	uint64_t count = 0;
	assert_true(tfc_member_list(awaited->run->node, count_member, &count) >= 0);
	return count == awaited->count;
}

static void await_members(struct node_run *run, uint64_t count)
{
	struct awaited_count awaited = {run, count};
	node_await(run, has_members, &awaited, "members");
	for (int i = 0; i < 20; i++) /* their observers were notified */
		assert_true(tfc_ctx_run(run->ctx, 1) >= 0);
}

static bool is_not_in_cursor(struct watcher *watcher, const char *text)
{
	return !strstr(watcher->cursor, text);
}

/* Also while what is left of the first watch of it was not reported yet. */
static void a_member_removed_and_added_again_is_watched(void **state)
{
	struct nodes nodes = {.b = NULL};
	struct watcher watcher = {.lives = 0};
	begin(&nodes, "ab", 0);
	open_a(&nodes);
	open_b(&nodes);
	watcher_open(&watcher, &nodes.run, NULL);
	watcher_await(&watcher, watcher_sees, "b");
	write_members(&nodes, "a", 0);
	watcher_await(&watcher, watcher_does_not_see,
		      "b"); /* perhaps because its connection was closed first */
	watcher_await(&watcher, is_not_in_cursor, ",b:");
	write_members(&nodes, "ab", 0);
	watcher_await(&watcher, watcher_sees, "b");
	assert_true(watcher_node(&watcher, "b")->resets >= 2);
	/* Later than the timer for silent nodes, which adds members, too. */
	for (uint64_t until = tfc__now() + 3200 * TFC__MS; tfc__now() < until;)
		assert_true(tfc_ctx_run(nodes.run.ctx, 100) >= 0);
	tfc_sub_pause(watcher.sub);
	write_members(&nodes, "a", 0);
	await_members(&nodes.run, 1);
	write_members(&nodes, "ab", 0);
	await_members(&nodes.run, 2);
	tfc_sub_resume(watcher.sub);
	char *id = submit_to(&nodes, "b", WATCHED_QUICK);
	watcher_await(&watcher, watcher_has_ended, id);
	watcher_await(&watcher, watcher_sees, "b");
	tfc_sub_close(watcher.sub);
	char cursor[sizeof(watcher.cursor)];
	memcpy(cursor, watcher.cursor, sizeof(cursor));
	assert_non_null(strstr(cursor, ",b:"));
	write_members(&nodes, "a", 0);
	await_members(&nodes.run, 1);
	uint32_t unseen = watcher_node(&watcher, "b")->unseen;
	watcher_open(&watcher, &nodes.run, cursor); /* b is in the cursor only */
	watcher_await_live(&watcher);
	assert_int_equal(watcher_node(&watcher, "b")->unseen, unseen + 1);
	assert_null(strstr(watcher.cursor, ",b:"));
	write_members(&nodes, "ab", 0);
	watcher_await(&watcher, watcher_sees, "b");
	tfc_sub_close(watcher.sub);
	free(id);
	end(&nodes);
}

/* From the beginning, within the limit of a client. */
static void a_watch_counts_what_it_holds_of_each_member(void **state)
{
	struct nodes nodes = {.b = NULL};
	struct watcher watcher = {.lives = 0};
	begin(&nodes, "a", 300);
	open_a(&nodes);
	watcher_open(&watcher, &nodes.run, NULL);
	if (!node_run_is_remote())
		assert_true(watcher.sub->held > 300 * 1024 && watcher.sub->held < 16 << 20);
	tfc_sub_close(watcher.sub);
	end(&nodes);
}

/* ---- what a callback may close */

static void close_watch(struct watcher *watcher)
{
	tfc_sub_close(watcher->sub);
	watcher->sub = NULL;
}

static void close_gateway(struct watcher *watcher)
{
	tfc_gateway_close(watcher->run->gateway);
	watcher->run->gateway = NULL;
}

static void close_node(struct watcher *watcher)
{
	tfc_node_close(watcher->run->node);
	watcher->run->node = NULL;
}

static void close_other(struct watcher *watcher)
{
	close_b(watcher->act_on);
}

static void close_everything(struct watcher *watcher)
{
	close_other(watcher);
	close_gateway(watcher);
	close_watch(watcher);
	close_node(watcher);
}

static bool has_acted(void *user)
{
	const struct watcher *watcher = user;
	return watcher->events >= watcher->act_at;
}

/* RESET, SUBMITTED and SEEN of two nodes, and LIVE. */
static void closing_at_any_event_is_legal(void **state)
{
	static void (*const acts[])(struct watcher *) = {close_watch, close_gateway, close_node,
							 close_other, close_everything};
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		struct nodes nodes = {.b = NULL};
		for (uint32_t at = 1; at <= 7; at++) {
			struct watcher watcher = {.act_at = at, .act = acts[i], .act_on = &nodes};
			begin(&nodes, "ab", 0);
			open_a(&nodes);
			open_b(&nodes);
			char *here = watched_submit(&nodes.run, WATCHED_LASTING);
			char *there = submit_to(&nodes, "b", WATCHED_LASTING);
			watcher_open(&watcher, &nodes.run, NULL);
			node_await(&nodes.run, has_acted, &watcher, "the event");
			for (int turns = 0; turns < 20; turns++)
				assert_true(tfc_ctx_run(nodes.run.ctx, 1) >= 0);
			if (acts[i] != close_other &&
			    (acts[i] != close_node || !node_run_is_remote()))
				assert_int_equal(watcher.events, at);
			tfc_sub_close(watcher.sub);
			free(here);
			free(there);
			end(&nodes);
		}
	}
}

/* ---- nodes that are processes */

static pid_t start_node(const struct nodes *nodes, const char *name)
{
	tfc_ctx *ctx;
	tfc_node *node;
	pid_t child = fork();
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (proc_ctx_new(&ctx) < 0 || open_other(nodes, name, ctx, &node) < 0)
		_exit(2);
	while (tfc_ctx_run(ctx, -1) >= 0)
		;
	_exit(3);
}

static void kill_node(pid_t child)
{
	int status;
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
}

static bool is_running(struct watcher *watcher, const char *job)
{
	return watcher_job(watcher, job) && watcher_job(watcher, job)->state == TFC_JOB_RUNNING;
}

static void a_killed_node_is_unseen_until_it_is_back_with_its_jobs(void **state)
{
	struct nodes nodes = {.b = NULL};
	struct watcher watcher = {.lives = 0};
	begin(&nodes, "ab", 0);
	pid_t b = start_node(&nodes, "b");
	open_a(&nodes);
	watcher_open(&watcher, &nodes.run, NULL);
	watcher_await(&watcher, watcher_sees, "b");
	char *first = submit_to(&nodes, "b", WATCHED_LASTING);
	watcher_await(&watcher, is_running, first);
	kill_node(b);
	watcher_await(&watcher, watcher_does_not_see, "b");
	assert_int_equal(watcher.job_count, 1);
	assert_false(watcher_job(&watcher, first)->is_forgotten);
	b = start_node(&nodes, "b");
	watcher_await(&watcher, watcher_sees, "b");
	char *second = submit_to(&nodes, "b", WATCHED_LASTING);
	watcher_await(&watcher, is_running, first);
	watcher_await(&watcher, is_running, second);
	assert_int_equal(watcher.job_count, 2);
	assert_false(watcher_job(&watcher, first)->is_forgotten);
	assert_int_equal(watcher_job(&watcher, first)->submitted, 2);
	kill_node(b);
	watcher_await(&watcher, watcher_does_not_see, "b");
	tfc_sub_close(watcher.sub);
	free(first);
	free(second);
	end(&nodes);
}

static void a_frozen_node_is_unseen_while_the_jobs_of_others_are_reported(void **state)
{
	struct nodes nodes = {.b = NULL};
	struct watcher watcher = {.lives = 0};
	begin(&nodes, "abc", 0);
	pid_t b = start_node(&nodes, "b"), c = start_node(&nodes, "c");
	open_a(&nodes);
	watcher_open(&watcher, &nodes.run, NULL);
	watcher_await(&watcher, watcher_sees, "b");
	watcher_await(&watcher, watcher_sees, "c");
	char *at_b = submit_to(&nodes, "b", WATCHED_LASTING);
	char *at_c = submit_to(&nodes, "c", WATCHED_LASTING);
	watcher_await(&watcher, is_running, at_b);
	watcher_await(&watcher, is_running, at_c);
	const struct watched_node c_before = *watcher_node(&watcher, "c");
	assert_int_equal(kill(b, SIGSTOP), 0);
	watcher_await(&watcher, watcher_does_not_see, "b");
	char *here = watched_submit(&nodes.run, WATCHED_QUICK);
	char *there = submit_to(&nodes, "c", WATCHED_QUICK);
	watcher_await(&watcher, watcher_has_ended, here);
	watcher_await(&watcher, watcher_has_ended, there);
	assert_false(watcher_sees(&watcher, "b"));
	assert_false(watcher_job(&watcher, at_b)->ended);
	assert_int_equal(kill(b, SIGCONT), 0);
	watcher_await(&watcher, watcher_sees, "b");
	char *later = submit_to(&nodes, "b", WATCHED_QUICK);
	watcher_await(&watcher, watcher_has_ended, later);
	assert_false(watcher_job(&watcher, at_b)->is_forgotten);
	assert_int_equal(watcher_job(&watcher, at_c)->submitted, 1);
	assert_memory_equal(watcher_node(&watcher, "c"), &c_before, sizeof(c_before));
	assert_int_equal(watcher.job_count, 5);
	kill_node(b);
	kill_node(c);
	tfc_sub_close(watcher.sub);
	free(at_b);
	free(at_c);
	free(here);
	free(there);
	free(later);
	end(&nodes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_of_other_nodes_are_seen_whenever_they_can_be),
		cmocka_unit_test(a_member_removed_and_added_again_is_watched),
		cmocka_unit_test(a_watch_counts_what_it_holds_of_each_member),
		cmocka_unit_test(closing_at_any_event_is_legal),
		cmocka_unit_test(a_killed_node_is_unseen_until_it_is_back_with_its_jobs),
		cmocka_unit_test(a_frozen_node_is_unseen_while_the_jobs_of_others_are_reported),
	};
	return cmocka_run_group_tests_name("gateway_watch_nodes", tests, NULL, NULL);
}
