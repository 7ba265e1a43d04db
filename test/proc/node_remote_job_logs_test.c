/* node: logs of a job that another node keeps go when that has removed the job, whoever of the two
 * was away then; and by age when it never comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "leaks.h"
#include "node/internal.h"
#include "node_run.h"

/* The node of the run is "a", which keeps the jobs; the other one is "b". */
struct pair {
	struct node_run run;
	tfc_node *other;
	char dir[LEAKS_PATH];
	char members[LEAKS_PATH + 16];
	char state[2][LEAKS_PATH + 16];
	uint32_t retain_s; /* of b */
};

static void options_of(struct pair *pair, tfc_node_options *options, bool is_b)
{
	static const char *const listen[2][2] = {{"memory:logs-of-a", NULL},
						 {"memory:logs-of-b", NULL}};
	*options = (tfc_node_options)TFC_NODE_OPTIONS_INIT;
	options->name = is_b ? "b" : "a";
	options->members_file = pair->members;
	options->listen = listen[is_b];
	options->state_dir = pair->state[is_b];
	options->slots = 1;
	options->lease_ms = 500;
	options->probe_ms = 100;
	options->retain_s = is_b ? pair->retain_s : 0;
}

static void begin_a(struct pair *pair)
{
	tfc_node_options options;
	options_of(pair, &options, false);
	node_run_begin(&pair->run, &options);
}

static void begin_b(struct pair *pair)
{
	tfc_node_options options;
	options_of(pair, &options, true);
	options.temp_dir = pair->run.dir;
	if (tfc_node_open(pair->run.ctx, &options, &pair->other) < 0)
		fail_msg("%s", tfc_ctx_error(pair->run.ctx)->text);
}

static void end_b(struct pair *pair)
{
	tfc_node_close(pair->other);
	pair->other = NULL;
}

static void begin(struct pair *pair)
{
	leaks_make_dir(pair->dir);
	snprintf(pair->members, sizeof(pair->members), "%s/members", pair->dir);
	snprintf(pair->state[0], sizeof(pair->state[0]), "%s/a", pair->dir);
	snprintf(pair->state[1], sizeof(pair->state[1]), "%s/b", pair->dir);
	FILE *file = fopen(pair->members, "we");
	assert_non_null(file);
	assert_true(fputs("{\"members\": [{\"name\": \"a\", \"address\": \"memory:logs-of-a\", "
			  "\"slots\": 1},"
			  " {\"name\": \"b\", \"address\": \"memory:logs-of-b\", \"slots\": 1}]}",
			  file) >= 0);
	assert_int_equal(fclose(file), 0);
	begin_a(pair);
	begin_b(pair);
}

static void end(struct pair *pair)
{
	end_b(pair);
	node_run_end(&pair->run);
	assert_int_equal(tfc__remove_tree(pair->dir), 0);
}

struct logs {
	struct pair *pair;
	char id[17];
};

static bool are_there(const struct logs *logs)
{
	char path[LEAKS_PATH + 64];
	snprintf(path, sizeof(path), "%s/logs/%s", logs->pair->state[1], logs->id);
	return access(path, F_OK) == 0;
}

static bool are_gone(void *user)
{
	return !are_there(user);
}

/* A job with a task on each node, which has ended. */
static void run_job(struct pair *pair, struct logs *ret_logs)
{
	struct follower follower = {0};
	char *json =
		node_json("{'argv': ['%s', 'print', 'hello', 'exit', '0'], 'success': "
			  "'all_workers', 'roles': {'worker': {'count': 2, 'ready': 'started'}}}",
			  node_task_program());
	assert_int_equal(node_run_job(&pair->run, json, &follower)->event.exit_code, 0);
	*ret_logs = (struct logs){.pair = pair};
	snprintf(ret_logs->id, sizeof(ret_logs->id), "%s", follower.job);
	assert_true(are_there(ret_logs));
	node_follow_end(&follower);
	free(json);
}

/* Two jobs have ended; one of them is removed while b is closed. */
static void begin_and_forget_one(struct pair *pair, struct logs *ret_gone, struct logs *ret_kept)
{
	begin(pair);
	run_job(pair, ret_gone);
	run_job(pair, ret_kept);
	end_b(pair);
	assert_int_equal(node_forget(&pair->run, ret_gone->id), TFC_OK);
	assert_true(are_there(ret_gone));
}

static void expect_that_one_goes(struct pair *pair, struct logs *gone, const struct logs *kept)
{
	node_await(&pair->run, are_gone, gone, "the logs of a job that was removed to go");
	assert_true(are_there(kept));
	end(pair);
}

static void logs_go_when_the_node_is_back_that_had_them(void **state)
{
	struct pair pair = {.retain_s = 0};
	struct logs gone, kept;
	begin_and_forget_one(&pair, &gone, &kept);
	begin_b(&pair);
	expect_that_one_goes(&pair, &gone, &kept);
}

static void logs_go_after_both_nodes_were_started_anew(void **state)
{
	struct pair pair = {.retain_s = 0};
	struct logs gone, kept;
	begin_and_forget_one(&pair, &gone, &kept);
	node_run_end(&pair.run);
	begin_a(&pair);
	begin_b(&pair);
	expect_that_one_goes(&pair, &gone, &kept);
}

/* Nothing goes by age while the node of the job is there: it is asked. */
static void logs_go_by_age_when_the_node_of_the_job_stays_away(void **state)
{
	struct pair pair = {.retain_s = 1};
	struct logs kept;
	struct answer answer = {0};
	begin(&pair);
	run_job(&pair, &kept);
	end_b(&pair);
	begin_b(&pair);
	assert_int_equal(tfc_gateway_jobs(pair.run.gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&pair.run, &answer);
	node_answer_clear(&answer);
	assert_true(are_there(&kept));
	node_run_close(&pair.run);
	node_await(&pair.run, are_gone, &kept, "logs to go by age");
	end(&pair);
}

/* An idle node costs nothing. */
static void node_that_ran_no_remote_job_looks_for_no_logs(void **state)
{
	struct node_run run;
	node_run_begin(&run, NULL);
	assert_int_equal(run.node->remote_job_logs_timer.at, 0);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(logs_go_when_the_node_is_back_that_had_them),
		cmocka_unit_test(logs_go_after_both_nodes_were_started_anew),
		cmocka_unit_test(logs_go_by_age_when_the_node_of_the_job_stays_away),
		cmocka_unit_test(node_that_ran_no_remote_job_looks_for_no_logs),
	};
	return cmocka_run_group_tests_name("node_remote_job_logs", tests, NULL, NULL);
}
