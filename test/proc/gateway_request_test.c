/* gateway: every request is answered once, in dispatch, with what was asked for or a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>
#include <poll.h>

#include "node_run.h"

static char *job_of(const char *name, const char *verbs)
{
	return node_json("{'name':'%s','framework':'none','argv':['%s',%s],"
			 "'roles':{'worker':{'count':2,'grace_s':0.2}}}",
			 name, node_task_program(), verbs);
}

static char *submit(struct node_run *run, const char *name, const char *verbs)
{
	char *json = job_of(name, verbs);
	char *id = node_submit(run, json);
	free(json);
	return id;
}

static void every_request_gets_one_response_and_later(void **state)
{
	struct node_run run;
	struct answer answers[5] = {{0}};
	node_run_begin(&run, NULL);
	char *id = submit(&run, "one", "'wait'");
	tfc_gateway *gw = run.gateway;
	assert_int_equal(tfc_gateway_jobs(gw, NULL, node_answer, &answers[0], NULL), 0);
	assert_int_equal(tfc_gateway_describe(gw, id, NULL, node_answer, &answers[1], NULL), 0);
	assert_int_equal(tfc_gateway_tf_config(gw, id, "worker/7", NULL, node_answer, &answers[2],
					       NULL),
			 0);
	assert_int_equal(tfc_gateway_stop(gw, "nobody", NULL, node_answer, &answers[3], NULL), 0);
	assert_int_equal(tfc_gateway_stop(gw, id, NULL, node_answer, &answers[4], NULL), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(answers[i].count, 0);
	for (int i = 0; i < 5; i++)
		node_await_answer(&run, &answers[i]);
	while (tfc_ctx_dispatch(run.ctx, 0) > 0)
		;
	static const int codes[] = {0, 0, TFC_ENOENT, TFC_ENOENT, 0};
	for (int i = 0; i < 5; i++) {
		assert_int_equal(answers[i].count, 1);
		assert_int_equal(answers[i].code, codes[i]);
		assert_true((answers[i].error[0] != 0) == (codes[i] < 0));
	}
	assert_non_null(strstr(answers[2].error, "worker/7"));
	assert_non_null(strstr(answers[3].error, "nobody"));
	assert_string_equal(answers[4].text, id);
	for (int i = 0; i < 5; i++)
		node_answer_clear(&answers[i]);
	free(id);
	node_run_end(&run);
}

static void a_canceled_request_gets_one_response(void **state)
{
	struct node_run run;
	struct answer answer = {0};
	tfc_op *op;
	node_run_begin(&run, NULL);
	assert_int_equal(tfc_gateway_jobs(run.gateway,
					  &(tfc_request_options){sizeof(tfc_request_options), 1},
					  node_answer, &answer, &op),
			 0);
	tfc_op_cancel(op);
	poll(NULL, 0, 5); /* the deadline passes, too */
	node_await_answer(&run, &answer);
	assert_true(answer.code == TFC_OK || answer.code == TFC_ECANCELED ||
		    answer.code == TFC_ETIMEDOUT);
	while (tfc_ctx_dispatch(run.ctx, 0) > 0)
		;
	assert_int_equal(answer.count, 1);
	node_answer_clear(&answer);
	node_run_end(&run);
}

static void requests_of_a_closed_gateway_are_canceled(void **state)
{
	struct node_run run;
	struct answer answers[3] = {{0}};
	char *json = job_of("x", "'wait'");
	tfc_job *job;
	node_run_begin(&run, NULL);
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), 0);
	assert_int_equal(tfc_gateway_submit(run.gateway, job, NULL, node_answer, &answers[0], NULL),
			 0);
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &answers[1], NULL), 0);
	assert_int_equal(tfc_gateway_stop(run.gateway, "x", NULL, node_answer, &answers[2], NULL),
			 0);
	tfc_gateway_close(run.gateway);
	run.gateway = NULL;
	for (int i = 0; i < 3; i++)
		assert_int_equal(answers[i].count, 0);
	for (int i = 0; i < 3; i++) {
		node_await_answer(&run, &answers[i]);
		assert_int_equal(answers[i].code, TFC_ECANCELED);
		assert_string_equal(answers[i].text, "");
		node_answer_clear(&answers[i]);
	}
	tfc_job_free(job);
	free(json);
	node_run_end(&run);
}

/* Nothing more is reported, and nothing is leaked: the leak checker of the sanitizer looks. */
static void requests_end_with_their_context(void **state)
{
	struct node_run run;
	struct answer answer = {0};
	node_run_begin(&run, NULL);
	char *id = submit(&run, "one", "'wait'");
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &answer, NULL), 0);
	assert_int_equal(tfc_gateway_describe(run.gateway, id,
					      &(tfc_request_options){sizeof(tfc_request_options),
								     1000},
					      node_answer, &answer, NULL),
			 0);
	free(id);
	node_run_end(&run);
	assert_int_equal(answer.count, 0);
}

/* The child gives its copy up and sends nothing; the parent's requests are answered. */
static void requests_end_in_a_child_that_abandons(void **state)
{
	struct node_run run;
	struct answer answers[2] = {0};
	int status;
	node_run_begin(&run, NULL);
	char *id = submit(&run, "one", "'wait'");
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &answers[0], NULL), 0);
	assert_int_equal(tfc_gateway_describe(run.gateway, id, NULL, node_answer, &answers[1],
					      NULL),
			 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		tfc_ctx_abandon(run.ctx);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	for (int i = 0; i < 2; i++) {
		node_await_answer(&run, &answers[i]);
		assert_int_equal(answers[i].code, TFC_OK);
		node_answer_clear(&answers[i]);
	}
	free(id);
	node_run_end(&run);
}

static void jobs_are_found_by_id_prefix_and_name(void **state)
{
	struct node_run run;
	struct answer answer = {0};
	char *ids[17], prefix[2] = "";
	node_run_begin(&run, NULL);
	for (int i = 0; i < 17; i++) {
		char name[16];
		snprintf(name, sizeof(name), "job-%d", i);
		ids[i] = submit(&run, name, "'exit','0'");
	}
	char *json = node_describe(&run, "job-3");
	assert_non_null(strstr(json, ids[3]));
	free(json);
	json = node_describe(&run, ids[5]);
	assert_non_null(strstr(json, "\"job-5\""));
	free(json);
	/* Of seventeen ids two begin with the same digit. */
	for (int i = 0; i < 17 && !prefix[0]; i++)
		for (int k = 0; k < i; k++)
			if (ids[i][0] == ids[k][0])
				prefix[0] = ids[i][0];
	assert_int_equal(tfc_gateway_describe(run.gateway, prefix, NULL, node_answer, &answer,
					      NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_EINVAL);
	assert_non_null(strstr(answer.error, "give more of the id"));
	node_answer_clear(&answer);
	static const char *const unknown[] = {"", "zz", "job-", "0123456789abcdef0"};
	for (int i = 0; i < 4; i++) {
		assert_int_equal(tfc_gateway_describe(run.gateway, unknown[i], NULL, node_answer,
						      &answer, NULL),
				 0);
		node_await_answer(&run, &answer);
		assert_int_equal(answer.code, TFC_ENOENT);
		node_answer_clear(&answer);
	}
	for (int i = 0; i < 17; i++)
		free(ids[i]);
	node_run_end(&run);
}

static void a_bad_submit_is_refused_with_a_sentence(void **state)
{
	struct node_run run;
	struct answer answer = {0};
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	static char tag[5000];
	tfc_job *job;
	char *json = job_of("x", "'wait'");
	node_run_begin(&run, NULL);
	assert_int_equal(tfc_job_new(&job), 0);
	assert_int_equal(tfc_gateway_submit(run.gateway, job, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_EINVAL);
	assert_true(answer.error[0]);
	node_answer_clear(&answer);
	tfc_job_free(job);
	options.host_tag = tag;
	options.host_tag_len = sizeof(tag);
	node_submit_for(&run, json, &options, &answer);
	assert_int_equal(answer.code, TFC_EINVAL);
	assert_non_null(strstr(answer.error, "host_tag_len"));
	node_answer_clear(&answer);
	assert_int_equal(tfc_gateway_submit(run.gateway, NULL, NULL, node_answer, &answer, NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_EINVAL);
	node_answer_clear(&answer);
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, NULL, NULL, NULL), TFC_EINVAL);
	assert_int_equal(tfc_gateway_jobs(NULL, NULL, node_answer, &answer, NULL), TFC_EINVAL);
	assert_int_equal(tfc_gateway_describe(NULL, "x", NULL, node_answer, &answer, NULL),
			 TFC_EINVAL);
	free(json);
	node_run_end(&run);
}

static void a_client_key_submits_once(void **state)
{
	struct node_run run;
	struct answer first = {0}, again = {0}, other = {0};
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	char *json = job_of("x", "'wait'");
	node_run_begin(&run, NULL);
	options.client_key = "mine";
	node_submit_for(&run, json, &options, &first);
	node_submit_for(&run, json, &options, &again);
	options.client_key = NULL;
	node_submit_for(&run, json, &options, &other);
	assert_string_equal(first.text, again.text);
	assert_string_not_equal(first.text, other.text);
	char key[66] = "";
	struct answer refused = {0};
	options.client_key = memset(key, 'k', 65);
	node_submit_for(&run, json, &options, &refused);
	assert_int_equal(refused.code, TFC_EINVAL);
	free(json);
	node_answer_clear(&first);
	node_answer_clear(&again);
	node_answer_clear(&other);
	node_answer_clear(&refused);
	node_run_end(&run);
}

static json_t *parse(char *text)
{
	json_error_t error;
	json_t *json = json_loads(text, 0, &error);
	if (!json)
		fail_msg("%s: %s", error.text, text);
	free(text);
	return json;
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	if (!text)
		fail_msg("no %s", key);
	return text;
}

static void describe_says_what_is_true(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.name = "no.de-1";
	node_run_begin(&run, &options);
	char *json =
		node_json("{'name':'quo\\'te','framework':'none','argv':['%s','wait'],'roles':{"
			  "'worker':{'count':2,'ready':'listen','argv':['%s','listen','wait']},"
			  "'side':{'restart':{'on':'never'},'argv':['%s','exit','3']}}}",
			  node_task_program(), node_task_program(), node_task_program());
	node_start(&run, json, &follower);
	const struct seen_event *ready = node_await_task(&run, &follower, "worker/1",
							 TFC_TASK_READY, 0);
	node_await_task(&run, &follower, "side/0", TFC_TASK_FAILED, 0);
	ready = node_find(&follower, TFC_EVENT_TASK, "worker/1", TFC_TASK_READY, 0);
	json_t *job = parse(node_describe(&run, follower.job));
	assert_string_equal(text_of(job, "job"), follower.job);
	assert_string_equal(text_of(job, "name"), "quo\"te");
	assert_int_equal(json_integer_value(json_object_get(job, "generation")), 1);
	assert_int_equal(json_integer_value(json_object_get(job, "epoch")), 1);
	json_t *tasks = json_object_get(job, "tasks");
	assert_int_equal(json_array_size(tasks), 3);
	json_t *worker = json_array_get(tasks, 1);
	assert_string_equal(text_of(worker, "task"), "worker/1");
	assert_string_equal(text_of(worker, "node"), "no.de-1");
	assert_string_equal(text_of(worker, "address"), ready->address);
	assert_string_equal(text_of(worker, "state"), "ready");
	assert_int_equal(json_integer_value(json_object_get(worker, "pid")), ready->event.pid);
	assert_int_equal(json_integer_value(json_object_get(worker, "attempt")), 1);
	assert_null(json_object_get(worker, "last_end"));
	const char *isolation = text_of(worker, "isolation"); /* of "auto", by machine */
	assert_true(strcmp(isolation, "cgroup") == 0 || strcmp(isolation, "plain") == 0);
	json_t *side = json_array_get(tasks, 2), *end = json_object_get(side, "last_end");
	assert_int_equal(json_integer_value(json_object_get(side, "pid")), 0);
	assert_string_equal(text_of(side, "state"), "failed");
	assert_int_equal(json_integer_value(json_object_get(end, "status")), 3);
	assert_string_equal(text_of(end, "reason"), "exit");
	json_decref(job);
	struct answer answer = {0};
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	json_t *list = parse(answer.text);
	assert_int_equal(json_array_size(json_object_get(list, "not_asked")), 0);
	assert_int_equal(json_array_size(json_object_get(list, "jobs")), 1);
	json_t *brief = json_array_get(json_object_get(list, "jobs"), 0);
	assert_string_equal(text_of(brief, "job"), follower.job);
	assert_string_equal(text_of(brief, "name"), "quo\"te");
	assert_int_equal(json_integer_value(json_object_get(brief, "task_count")), 3);
	assert_int_equal(json_integer_value(json_object_get(brief, "restarts")), 0);
	assert_in_range(json_integer_value(json_object_get(brief, "ready")), 1, 2);
	const json_t *nodes = json_object_get(brief, "nodes");
	assert_int_equal(json_array_size(nodes), 1);
	assert_string_equal(json_string_value(json_array_get(nodes, 0)), "no.de-1");
	assert_null(json_object_get(brief, "tasks"));
	json_decref(list);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_request_gets_one_response_and_later),
		cmocka_unit_test(a_canceled_request_gets_one_response),
		cmocka_unit_test(requests_of_a_closed_gateway_are_canceled),
		cmocka_unit_test(requests_end_with_their_context),
		cmocka_unit_test(requests_end_in_a_child_that_abandons),
		cmocka_unit_test(jobs_are_found_by_id_prefix_and_name),
		cmocka_unit_test(a_bad_submit_is_refused_with_a_sentence),
		cmocka_unit_test(a_client_key_submits_once),
		cmocka_unit_test(describe_says_what_is_true),
	};
	return cmocka_run_group_tests_name("gateway_request", tests, NULL, NULL);
}
