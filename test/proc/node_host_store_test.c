/* node: jobs in a store of the host's own, which answers later, and sometimes badly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "table_store.h"

static int ask(struct node_run *run, const char *job, char text[1024])
{
	struct answer reply = {0};
	assert_int_equal(tfc_gateway_describe(run->gateway, job, NULL, node_answer, &reply, NULL),
			 0);
	node_await_answer(run, &reply);
	snprintf(text, 1024, "%s", reply.error);
	int code = reply.code;
	node_answer_clear(&reply);
	return code;
}

static void a_job_is_there_as_soon_as_the_store_has_responded(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	struct answer early = {0};
	char text[1024];
	table_node_begin(&run, &table);
	char *json = node_json("{'roles': {'driver': {'argv': ['/bin/sh', '-c', 'exit 3']}}}");
	node_run_job(&run, json, &follower);
	char *id = strdup(follower.job);
	node_follow_end(&follower);
	node_run_end(&run);
	table_node_open(&run, &table);
	/* Put before the store has answered. */
	assert_int_equal(tfc_gateway_describe(run.gateway, id, NULL, node_answer, &early, NULL), 0);
	node_await_answer(&run, &early);
	assert_int_equal(early.code, TFC_EAGAIN);
	node_answer_clear(&early);
	table_await_read(&run, &table);
	assert_int_equal(ask(&run, id, text), TFC_OK);
	node_run_end(&run);
	free(id);
	free(json);
	table_free(&table);
}

static void a_job_that_cannot_be_stored_is_refused(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct answer reply = {0}, all = {0};
	table_node_begin(&run, &table);
	table.failure = TFC_ENOSPC;
	char *json = node_json("{'roles': {'driver': {'argv': ['true']}}}");
	node_submit_for(&run, json, NULL, &reply);
	assert_int_equal(reply.code, TFC_ENOSPC);
	assert_string_equal(reply.error, "the grid is full");
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &all, NULL), 0);
	node_await_answer(&run, &all);
	assert_string_equal(all.text, "{\"jobs\":[],\"not_asked\":[]}");
	node_answer_clear(&all);
	node_answer_clear(&reply);
	node_run_end(&run);
	free(json);
	table_free(&table);
}

/* ---- writes that are done although they fail, as of a disk that fails the last sync */

static void a_refused_job_is_not_there_later(void **state)
{
	struct table table = {.lies = 1, .failed_drops = 1};
	struct node_run run;
	struct answer reply = {0};
	table_node_begin(&run, &table);
	char *json = node_json("{'roles': {'driver': {'argv': ['true']}}}");
	node_submit_for(&run, json, NULL, &reply);
	assert_int_equal(reply.code, TFC_ESYS);
	assert_int_equal(table.failed_drops, 0);
	assert_int_equal(table.count, 0);
	node_answer_clear(&reply);
	node_run_end(&run);
	free(json);
	table_free(&table);
}

static void a_job_goes_on_after_a_write_that_was_done(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	table_node_begin(&run, &table);
	char *json = node_json("{'roles': {'driver': {'argv': ['sleep', '1000'], 'restart': "
			       "{'on': 'failure', 'max': 9, 'backoff_s': [0, 0]}}}}");
	char *id = node_submit(&run, json);
	node_follow(&run, id, NULL, &follower);
	node_await_task(&run, &follower, "driver/0", TFC_TASK_READY, 1);
	node_follow_end(&follower);
	node_run_end(&run);
	table.lies = 1;
	table_node_begin(&run, &table);
	node_follow(&run, id, NULL, &follower);
	node_await_task(&run, &follower, "driver/0", TFC_TASK_READY, 2);
	assert_int_equal(table.lies, 0);
	node_follow_end(&follower);
	node_run_end(&run);
	free(id);
	free(json);
	table_free(&table);
}

/* Its record may be in the store: the next start would bring it back. */
static void a_job_that_could_not_be_removed_is_listed(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	table_node_begin(&run, &table);
	char *json = node_json("{'roles': {'driver': {'argv': ['echo', 'x']}}}");
	char *id = node_submit(&run, json);
	node_follow(&run, id, NULL, &follower);
	node_await_end(&run, &follower);
	node_follow_end(&follower);
	table.failed_drops = 1;
	assert_int_equal(node_forget(&run, id), TFC_ESYS);
	char *text = node_describe(&run, id);
	assert_non_null(strstr(text, "succeeded"));
	node_follow(&run, id, NULL, &follower);
	node_await_end(&run, &follower);
	char *output = node_output(&follower, "driver/0", 0);
	assert_string_equal(output, "x\n");
	assert_int_equal(node_forget(&run, id), TFC_OK);
	assert_int_equal(node_forget(&run, id), TFC_ENOENT);
	assert_int_equal(table.count, 0);
	node_follow_end(&follower);
	node_run_end(&run);
	free(output);
	free(text);
	free(json);
	free(id);
	table_free(&table);
}

static void so_is_a_damaged_one(void **state)
{
	static const char id[] = "0123456789abcdef";
	struct table table = {0};
	struct node_run run;
	table_set(&table, "jobs/0123456789abcdef/record", "x", 1);
	table_node_begin(&run, &table);
	table.failed_drops = 1;
	assert_int_equal(node_forget(&run, id), TFC_ESYS);
	assert_int_equal(node_forget(&run, id), TFC_OK);
	assert_int_equal(node_forget(&run, id), TFC_ENOENT);
	assert_int_equal(table.count, 0);
	node_run_end(&run);
	table_free(&table);
}

struct forgetting {
	struct node_run *run;
	const char *id;
	int code;
};

static bool has_ended(void *user)
{
	struct forgetting *forgetting = user;
	forgetting->code = node_forget(forgetting->run, forgetting->id);
	return forgetting->code != TFC_ESTATE;
}

/* Nothing is written while the removal is under way, and what waits is written when it has failed.
 */
static void an_end_is_stored_after_a_removal_that_failed(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	table_node_begin(&run, &table);
	char *json = node_json("{'roles': {'driver': {'argv': ['sleep', '1000']}}}");
	char *id = node_submit(&run, json);
	node_follow(&run, id, NULL, &follower);
	node_await_task(&run, &follower, "driver/0", TFC_TASK_READY, 1);
	struct forgetting forgetting = {&run, id, TFC_OK};
	table.failure = TFC_ENOSPC;
	table.failed_drops = 1;
	node_stop(&run, id, true);
	node_await(&run, has_ended, &forgetting, "an end that cannot be stored");
	assert_int_equal(forgetting.code, TFC_ESYS);
	table.failure = 0;
	node_await_end(&run, &follower);
	node_follow_end(&follower);
	assert_int_equal(node_forget(&run, id), TFC_OK);
	assert_int_equal(table.count, 0);
	node_run_end(&run);
	table_node_begin(&run, &table);
	assert_int_equal(node_forget(&run, id), TFC_ENOENT);
	node_run_end(&run);
	free(id);
	free(json);
	table_free(&table);
}

static void note_watched(void *user, const tfc_event *event)
{
	char *text = user;
	assert_int_not_equal(event->kind, TFC_EVENT_NODE_SEEN);
	if (event->kind == TFC_EVENT_NODE_UNSEEN)
		snprintf(text, 1024, "%s", event->text);
}

static bool is_said(void *text)
{
	return *(const char *)text;
}

static void a_watch_says_that_the_store_cannot_be_read(void **state)
{
	struct table table = {.list_failure = TFC_EACCES};
	struct node_run run;
	char text[1024] = "";
	tfc_sub *early, *late;
	table_node_open(&run, &table);
	assert_int_equal(tfc_gateway_watch(run.gateway, NULL, note_watched, text, &early), 0);
	node_await(&run, is_said, text, "NODE_UNSEEN");
	assert_non_null(strstr(text, "cannot read the store: "));
	text[0] = '\0';
	assert_int_equal(tfc_gateway_watch(run.gateway, NULL, note_watched, text, &late), 0);
	node_await(&run, is_said, text, "NODE_UNSEEN");
	assert_non_null(strstr(text, "cannot read the store: "));
	tfc_sub_close(early);
	tfc_sub_close(late);
	node_run_end(&run);
	table_free(&table);
}

static void secrets_need_a_place_that_keeps_them(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct answer reply = {0};
	table_node_begin(&run, &table);
	char *json = node_json(
		"{'secret_env': {'A': 'b'}, 'roles': {'driver': {'argv': ['true']}}}");
	node_submit_for(&run, json, NULL, &reply);
	assert_int_equal(reply.code, TFC_ENOTSUP);
	node_answer_clear(&reply);
	node_run_end(&run);
	free(json);
	table_free(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_is_there_as_soon_as_the_store_has_responded),
		cmocka_unit_test(a_job_that_cannot_be_stored_is_refused),
		cmocka_unit_test(a_refused_job_is_not_there_later),
		cmocka_unit_test(a_job_goes_on_after_a_write_that_was_done),
		cmocka_unit_test(a_job_that_could_not_be_removed_is_listed),
		cmocka_unit_test(so_is_a_damaged_one),
		cmocka_unit_test(an_end_is_stored_after_a_removal_that_failed),
		cmocka_unit_test(a_watch_says_that_the_store_cannot_be_read),
		cmocka_unit_test(secrets_need_a_place_that_keeps_them),
	};
	return cmocka_run_group_tests_name("node_host_store", tests, NULL, NULL);
}
