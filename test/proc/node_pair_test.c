/* node: a job whose tasks run on two nodes, which here live in one process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"

/* The node of the run is "a"; the other one is "b". */
struct pair {
	struct node_run run;
	tfc_node *other;
	char members[LEAKS_PATH + 16];
};

static void write_members(struct pair *pair, const char *dir)
{
	snprintf(pair->members, sizeof(pair->members), "%s/members", dir);
	FILE *file = fopen(pair->members, "we");
	assert_non_null(file);
	assert_true(fprintf(file,
			    "{\"members\": [{\"name\": \"a\", \"address\": \"memory:pair-a\", "
			    "\"slots\": 1},"
			    " {\"name\": \"b\", \"address\": \"memory:pair-b\", \"slots\": 1}]}") >
		    0);
	assert_int_equal(fclose(file), 0);
}

static void options_of(struct pair *pair, tfc_node_options *options, const char *name,
		       const char *const *listen)
{
	options->name = name;
	options->members_file = pair->members;
	options->listen = listen;
	options->slots = 1;
	options->lease_ms = 500;
	options->probe_ms = 100;
}

static void begin(struct pair *pair, char dir[LEAKS_PATH])
{
	static const char *const at_a[] = {"memory:pair-a", NULL};
	static const char *const at_b[] = {"memory:pair-b", NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	leaks_make_dir(dir);
	write_members(pair, dir);
	options_of(pair, &options, "a", at_a);
	node_run_begin(&pair->run, &options);
	options = (tfc_node_options)TFC_NODE_OPTIONS_INIT;
	options_of(pair, &options, "b", at_b);
	options.temp_dir = pair->run.dir;
	if (tfc_node_open(pair->run.ctx, &options, &pair->other) < 0)
		fail_msg("%s", tfc_ctx_error(pair->run.ctx)->text);
}

static void end(struct pair *pair, const char *dir)
{
	tfc_node_close(pair->other);
	node_run_end(&pair->run);
	unlink(pair->members);
	rmdir(dir);
}

static void tasks_run_on_both_nodes(void **state)
{
	struct pair pair = {0};
	struct follower follower = {0};
	char dir[LEAKS_PATH];
	begin(&pair, dir);
	char *json =
		node_json("{'argv': ['%s', 'print', 'hello', 'exit', '0'], 'success': "
			  "'all_workers', 'roles': {'worker': {'count': 2, 'ready': 'started'}}}",
			  node_task_program());
	const struct seen_event *over = node_run_job(&pair.run, json, &follower);
	assert_int_equal(over->event.exit_code, 0);
	for (int i = 0; i < 2; i++) {
		char task[16];
		snprintf(task, sizeof(task), "worker/%d", i);
		char *output = node_output(&follower, task, 0);
		assert_string_equal(output, "hello\n");
		free(output);
	}
	node_follow_end(&follower);
	free(json);
	end(&pair, dir);
}

/* ---- what the nodes list together */

static void list_jobs(struct pair *pair, struct answer *answer)
{
	node_answer_clear(answer);
	assert_int_equal(tfc_gateway_jobs(pair->run.gateway, NULL, node_answer, answer, NULL), 0);
	node_await_answer(&pair->run, answer);
}

struct listed {
	bool is_there;
	uint32_t here, there, missing;
};

static void on_listed(void *user, const tfc_reply *reply)
{
	struct listed *listed = user;
	assert_int_equal(reply->code, 0);
	for (uint32_t i = 0; i < reply->jobs->job_count; i++)
		if (strcmp(tfc_jobs_at(reply->jobs, i)->maintainer, "b") == 0)
			listed->there++;
		else
			listed->here++;
	for (uint32_t i = 0; i < reply->jobs->missing_count; i++) {
		const tfc_missing_node *missing = tfc_jobs_missing_at(reply->jobs, i);
		assert_string_equal(missing->node, "b");
		assert_true(*missing->reason);
		listed->missing++;
	}
	listed->is_there = true;
}

static void assert_listed(struct pair *pair, uint32_t here, uint32_t there, uint32_t missing)
{
	struct listed listed = {.here = 0};
	assert_int_equal(tfc_gateway_jobs(pair->run.gateway, NULL, on_listed, &listed, NULL), 0);
	while (!listed.is_there)
		assert_true(tfc_ctx_run(pair->run.ctx, 1000) >= 0);
	assert_int_equal(listed.here, here);
	assert_int_equal(listed.there, there);
	assert_int_equal(listed.missing, missing);
}

static void submit_to_other(struct pair *pair, const char *json)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_gateway *own = pair->run.gateway;
	options.node = pair->other;
	assert_int_equal(tfc_gateway_open(pair->run.ctx, &options, &pair->run.gateway), 0);
	free(node_submit(&pair->run, json));
	tfc_gateway_close(pair->run.gateway);
	pair->run.gateway = own;
}

static bool is_other_away(struct pair *pair)
{
	struct answer answer = {0};
	list_jobs(pair, &answer);
	bool is_away = strstr(answer.text, "],\"not_asked\":[{\"node\":\"b\",\"reason\":\"") !=
		       NULL;
	node_answer_clear(&answer);
	return is_away;
}

static void jobs_in_brief_are_short_and_say_whose_are_missing(void **state)
{
	struct pair pair = {0};
	struct answer answer = {0};
	char dir[LEAKS_PATH];
	begin(&pair, dir);
	char *json = node_json("{'framework':'none','argv':['true'],'placement':{'labels':{'a':"
			       "'nowhere'}},'roles':{'worker':{'count':80000}}}");
	submit_to_other(&pair, json);
	submit_to_other(&pair, json);
	free(node_submit(&pair.run, json));
	while (is_other_away(&pair)) /* until they have met */
		assert_true(tfc_ctx_run(pair.run.ctx, 1000) >= 0);
	list_jobs(&pair, &answer);
	assert_int_equal(answer.code, 0);
	assert_true(strlen(answer.text) < 2000);
	char *second = strstr(answer.text, "\"task_count\":80000,\"ready\":0,\"restarts\":0");
	assert_non_null(second);
	assert_non_null(strstr(second + 1, "\"task_count\":80000"));
	assert_non_null(strstr(answer.text, "],\"not_asked\":[]}"));
	assert_listed(&pair, 1, 2, 0);
	tfc_node_close(pair.other);
	pair.other = NULL;
	while (!is_other_away(&pair))
		assert_true(tfc_ctx_run(pair.run.ctx, 1000) >= 0);
	assert_listed(&pair, 1, 0, 1);
	node_answer_clear(&answer);
	free(json);
	end(&pair, dir);
}

static bool has_ended(void *user)
{
	struct follower *follower = user;
	return follower->is_ended || node_find(follower, TFC_EVENT_LOST, NULL, 0, 0);
}

static void an_unknown_name_names_the_unreachable_node_until_it_is_submitted_here(void **state)
{
	struct pair pair = {0};
	struct follower follower = {0};
	char dir[LEAKS_PATH];
	begin(&pair, dir);
	tfc_node_close(pair.other);
	pair.other = NULL;
	while (!is_other_away(&pair))
		assert_true(tfc_ctx_run(pair.run.ctx, 1000) >= 0);
	node_follow(&pair.run, "fresh", NULL, &follower);
	node_await(&pair.run, has_ended, &follower, "the end of the subscription");
	const struct seen_event *lost = node_find(&follower, TFC_EVENT_LOST, NULL, 0, 0);
	assert_non_null(lost);
	assert_int_equal(lost->event.error_code, TFC_ELOST);
	assert_string_equal(lost->text,
			    "job \"fresh\" not found; it may be a job of a node that is "
			    "unreachable: b");
	node_follow_end(&follower);
	char *json = node_json("{'name': 'fresh', 'argv': ['%s', 'exit', '0'], 'roles': {'worker': "
			       "{'ready': 'started'}}}",
			       node_task_program());
	free(node_submit(&pair.run, json));
	follower = (struct follower){0};
	node_follow(&pair.run, "fresh", NULL, &follower);
	node_await(&pair.run, has_ended, &follower, "the end of the job");
	assert_true(follower.is_ended);
	node_follow_end(&follower);
	free(json);
	end(&pair, dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tasks_run_on_both_nodes),
		cmocka_unit_test(
			an_unknown_name_names_the_unreachable_node_until_it_is_submitted_here),
		cmocka_unit_test(jobs_in_brief_are_short_and_say_whose_are_missing),
	};
	return cmocka_run_group_tests_name("node_pair", tests, NULL, NULL);
}
