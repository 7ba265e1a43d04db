/* node: workers follow the host's data, whose place a resolver or a file gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"
#include <tfcluster/log.h>

/* A store of the host's: partitions 0 to count - 1, all of one owner. */
struct store {
	tfc_upstream_request *question; /* that is open; answered by hand */
	const char *owner;
	uint32_t count;
	uint64_t version;
	int asked;
	bool is_closed;  /* refuses */
	bool is_by_hand; /* questions stay open */
};

static struct store store;

static void answer(tfc_upstream_request *question)
{
	for (uint32_t i = 0; i < store.count; i++) {
		char name[16];
		snprintf(name, sizeof(name), "p%u", i);
		assert_int_equal(tfc_upstream_add_partition(question, name, store.owner), TFC_OK);
	}
	assert_int_equal(tfc_upstream_add_env(question, NULL, "STORE_PORT", "10800"), TFC_OK);
	assert_int_equal(tfc_upstream_add_env(question, store.owner, "STORE_HOST", "here"), TFC_OK);
	assert_int_equal(tfc_upstream_complete(question, store.version), TFC_OK);
}

static void resolve(void *user, const char *upstream, tfc_upstream_request *question)
{
	assert_ptr_equal(user, &store);
	assert_string_equal(upstream, "grid");
	store.asked++;
	if (store.is_by_hand)
		store.question = question;
	else if (store.is_closed)
		assert_int_equal(tfc_upstream_fail(question, "the store is closed"), TFC_OK);
	else
		answer(question);
}

static void cancel(void *user, tfc_upstream_request *question)
{
	assert_ptr_equal(question, store.question);
	store.question = NULL;
}

static void begin(struct node_run *run)
{
	static const tfc_upstream_ops ops = {.size = sizeof(ops),
					     .resolve = resolve,
					     .cancel = cancel};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	store = (struct store){.owner = "local", .count = 3, .version = 1};
	options.upstream = &ops;
	options.upstream_impl = &store;
	node_run_begin(run, &options);
}

#define SHOW                                                                                   \
	"'framework':'none','argv':['/bin/sh','-c','echo $TFC_UPSTREAM $TFC_UPSTREAM_VERSION " \
	"$TFC_PARTITIONS $STORE_HOST:$STORE_PORT'],'placement':{'policy':'upstream',"          \
	"'upstream':'grid'},'roles':{'worker':{'count':2}}"

static void expect_output(const struct follower *follower, const char *task, const char *text)
{
	char *output = node_output(follower, task, TFC_STREAM_STDOUT);
	assert_string_equal(output, text);
	free(output);
}

static void workers_get_their_partitions(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	begin(&run);
	char *json = node_json("{" SHOW "}");
	assert_int_equal(node_run_job(&run, json, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	expect_output(&follower, "worker/0", "grid 1 p0,p1 here:10800\n");
	expect_output(&follower, "worker/1", "grid 1 p2 here:10800\n");
	assert_int_equal(store.asked, 1);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

static bool has_said(void *user)
{
	const struct follower *follower = user;
	for (size_t i = 0; i < follower->count; i++)
		if (follower->events[i].event.kind == TFC_EVENT_JOB && follower->events[i].text &&
		    strstr(follower->events[i].text, "upstream \"grid\": the store is closed"))
			return true;
	return false;
}

static void a_job_waits_for_the_hosts_response(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	begin(&run);
	store.is_closed = true;
	char *json = node_json("{" SHOW "}");
	node_start(&run, json, &follower);
	node_await(&run, has_said, &follower, "the sentence of what it waits for");
	store.is_closed = false;
	assert_int_equal(tfc_node_upstream_changed(run.node, "grid", 1), TFC_OK);
	assert_int_equal(node_await_end(&run, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

static bool is_asked(void *user)
{
	return store.question != NULL;
}

static void a_node_may_be_closed_while_the_host_thinks(void **state)
{
	struct node_run run;
	begin(&run);
	store.is_by_hand = true;
	char *json = node_json("{" SHOW "}");
	char *job = node_submit(&run, json);
	node_await(&run, is_asked, NULL, "the question");
	free(job);
	free(json);
	node_run_end(&run);
	assert_null(store.question);
}

/* Partitions move: the workers stop and start again with the new ones. */
static void a_change_restarts_the_workers_if_requested(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	begin(&run);
	char *json = node_json(
		"{'framework':'none','grace_s':1,'abort_grace_s':0.2,'argv':['/bin/sh','-c','echo "
		"$TFC_PARTITIONS; test $TFC_ATTEMPT = 2 || exec sleep 60'],'placement':{'policy':"
		"'upstream','upstream':'grid','on_upstream_change':'restart'},"
		"'roles':{'worker':{'count':2}}}");
	node_start(&run, json, &follower);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 1);
	node_await_task(&run, &follower, "worker/1", TFC_TASK_READY, 1);
	store.version = 2; /* nothing that matters */
	assert_int_equal(tfc_node_upstream_changed(run.node, "grid", 2), TFC_OK);
	store.count = 4;
	store.version = 3;
	assert_int_equal(tfc_node_upstream_changed(run.node, "grid", 3), TFC_OK);
	const struct seen_event *end = node_await_end(&run, &follower);
	if (end->event.job_state != TFC_JOB_SUCCEEDED)
		fail_msg("%s", end->text);
	expect_output(&follower, "worker/0", "p0,p1\np0,p1\n");
	expect_output(&follower, "worker/1", "p2\np2,p3\n");
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

/* ---- a file in the place of a resolver */

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void a_file_may_report_where_data_is(void **state)
{
	char dir[LEAKS_PATH], path[LEAKS_PATH + 16];
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/map.json", dir);
	write_text(
		path,
		"{\"grid\": {\"partitions\": {\"p0\": \"local\", \"p1\": null, \"p2\": \"local\"},"
		"\"env\": {\"STORE_PORT\": \"1\"},"
		"\"nodes\": {\"local\": {\"STORE_HOST\": \"x\"}}}}");
	options.upstream_map = path;
	node_run_begin(&run, &options);
	char *json = node_json("{" SHOW "}");
	assert_int_equal(node_run_job(&run, json, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	expect_output(&follower, "worker/0", "grid 1 p0,p1 x:1\n");
	expect_output(&follower, "worker/1", "grid 1 p2 x:1\n");
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
	tfc__remove_tree(dir);
}

static void a_file_that_is_wrong_is_refused_with_its_line(void **state)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
		{"[]", "map.json:1: must be an object of upstreams"},
		{"{\"grid\":\n[]}", "map.json:1: grid: must be an object"},
		{"{\"grid\":{\n\"partitions\":{}}}", "map.json:1: grid: has no partitions"},
		{"{\"grid\":{\n\"partitions\":{\"0\":1}}}",
		 "map.json:2: grid.partitions.0: must be a member's name or null"},
		{"{\"grid\":{\n\"partition\":{}}}", "map.json:2: grid.partition: unknown key"},
		{"{\"grid\":{\"env\":{\n\"A\":null}}}", "map.json:2: grid.env.A: must be a string"},
		{"{\"grid\":{\"nodes\":{\n\"a\":1}}}",
		 "map.json:2: grid.nodes.a: must be an object of strings"},
		{"{\n", "map.json:2: "},
	};
	char dir[LEAKS_PATH], path[LEAKS_PATH + 16];
	tfc_ctx *ctx;
	leaks_make_dir(dir);
	snprintf(path, sizeof(path), "%s/map.json", dir);
	assert_int_equal(proc_ctx_new(&ctx), TFC_OK);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_node_options options = TFC_NODE_OPTIONS_INIT;
		tfc_node *node = NULL;
		write_text(path, cases[i].text);
		options.upstream_map = path;
		options.temp_dir = leaks_temp_dir();
		assert_true(tfc_node_open(ctx, &options, &node) < 0);
		if (!strstr(tfc_ctx_error(ctx)->text, cases[i].sentence))
			fail_msg("\"%s\" instead of \"%s\"", tfc_ctx_error(ctx)->text,
				 cases[i].sentence);
	}
	tfc_ctx_free(ctx);
	tfc__remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(workers_get_their_partitions),
		cmocka_unit_test(a_job_waits_for_the_hosts_response),
		cmocka_unit_test(a_node_may_be_closed_while_the_host_thinks),
		cmocka_unit_test(a_change_restarts_the_workers_if_requested),
		cmocka_unit_test(a_file_may_report_where_data_is),
		cmocka_unit_test(a_file_that_is_wrong_is_refused_with_its_line),
	};
	return cmocka_run_group_tests_name("node_upstream", tests, NULL, NULL);
}
