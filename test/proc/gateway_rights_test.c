/* gateway: who may what of a node's service, and as whom their tasks run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/rights.h"
#include "node_run.h"
#include "served.h"

static char asked[1024];

static int note_and_refuse(void *user, const tfc_peer_info *peer, enum tfc_verb verb,
			   const char *job)
{
	size_t len = strlen(asked);
	assert_int_equal(peer->role, TFC_PEER_NODE);
	assert_string_equal(tfc_peer_role_name(peer->role), "node");
	assert_int_equal(peer->uid, getuid());
	assert_int_equal(peer->pid, getpid());
	snprintf(asked + len, sizeof(asked) - len, "%s(%s) ", tfc_verb_name(verb), job);
	return verb == TFC_VERB_STOP ? -1 : 0;
}

static void the_host_has_a_say(void **state)
{
	const struct tfc__gateway_service_options options = {.submit_uid = UINT32_MAX,
							     .hooks.authorize = note_and_refuse};
	struct node_run run;
	struct answer answer = {0};
	node_run_begin_served(&run, &options);
	asked[0] = '\0';
	char *json = node_script(1, "exec sleep 100");
	char *id = node_submit(&run, json);
	char expected[128];
	assert_int_equal(tfc_gateway_stop(run.gateway, id, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_EACCES);
	node_answer_clear(&answer);
	snprintf(expected, sizeof(expected), "submit() stop(%s) ", id);
	assert_string_equal(asked, expected);
	free(json);
	free(id);
	node_run_end(&run);
}

/* What it is refused with, or "" and *ret_id (free it). */
static int try_submit(struct node_run *run, const char *json, char error[1024], char **ret_id)
{
	struct answer answer = {0};
	node_submit_for(run, json, NULL, &answer);
	int code = answer.code;
	snprintf(error, 1024, "%s", answer.error);
	*ret_id = code == 0 ? strdup(answer.text) : NULL;
	node_answer_clear(&answer);
	return code;
}

static void expect_user(struct node_run *run, const char *json, const char *expected)
{
	struct follower follower = {0};
	char error[1024], *id;
	if (try_submit(run, json, error, &id) < 0)
		fail_msg("%s", error);
	node_follow(run, id, NULL, &follower);
	node_await_end(run, &follower);
	char *output = node_output(&follower, "worker/0", TFC_STREAM_STDOUT);
	assert_string_equal(output, expected);
	free(output);
	free(id);
	node_follow_end(&follower);
}

static void expect_refusal(struct node_run *run, const char *json, const char *sentence)
{
	char error[1024], *id;
	assert_int_equal(try_submit(run, json, error, &id), TFC_EACCES);
	if (!strstr(error, sentence))
		fail_msg("%s", error);
}

static void tasks_run_as_who_submitted(void **state)
{
	const struct tfc__peer_id user = {.role = TFC__KEY_SUBMIT, .uid = 4711, .gid = 4712};
	const struct tfc__peer_id root = {.role = TFC__KEY_NODE, .uid = 0, .gid = 0};
	const struct tfc__peer_id remote = {.role = TFC__KEY_SUBMIT, .uid = UINT32_MAX};
	struct node_run run;
	if (getuid() != 0)
		skip();
	node_run_begin_served(&run, NULL);
	char *plain = node_script(1, "echo $(id -u):$(id -g)");
	char *other = node_json("{'framework':'none','argv':['/bin/sh','-c','echo $(id -u)'],"
				"'cwd':'/','roles':{'worker':{'user':'815:815'}}}");
	served_claim(run.served, &user);
	expect_user(&run, plain, "4711:4712\n");
	expect_refusal(&run, other, "only root may submit tasks of another user (\"815:815\")");
	served_claim(run.served, &root);
	expect_user(&run, plain, "0:0\n");
	expect_user(&run, other, "815\n");
	served_claim(run.served, &remote);
	expect_refusal(&run, plain, "submit_user");
	node_run_end(&run);
	const struct tfc__gateway_service_options mapped = {.submit_uid = 99, .submit_gid = 98};
	node_run_begin_served(&run, &mapped);
	served_claim(run.served, &remote);
	expect_user(&run, plain, "99:98\n");
	expect_refusal(&run, other, "only root");
	node_run_end(&run);
	free(plain);
	free(other);
}

/* All that is more than looking, but for submit. */
static void expect_no_act(struct node_run *run, const char *id, const char *json)
{
	struct answer answers[4] = {{0}};
	tfc_gateway *gw = run->gateway;
	tfc_job *job;
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), 0);
	assert_int_equal(tfc_gateway_stop(gw, id, NULL, node_answer, &answers[0], NULL), 0);
	assert_int_equal(tfc_gateway_forget(gw, id, NULL, node_answer, &answers[1], NULL), 0);
	assert_int_equal(tfc_gateway_drain(gw, "n", NULL, node_answer, &answers[2], NULL), 0);
	assert_int_equal(tfc_gateway_explain(gw, job, NULL, node_answer, &answers[3], NULL), 0);
	for (int i = 0; i < 4; i++) {
		node_await_answer(run, &answers[i]);
		assert_int_equal(answers[i].code, TFC_EACCES);
		node_answer_clear(&answers[i]);
	}
	tfc_job_free(job);
}

static void each_key_may_what_its_role_says(void **state)
{
	const struct tfc__peer_id reader = {.role = TFC__KEY_READ, .uid = UINT32_MAX};
	const struct tfc__peer_id submitter = {.role = TFC__KEY_SUBMIT, .uid = getuid()};
	struct node_run run;
	struct follower follower = {0};
	node_run_begin_served(&run, NULL);
	char *json = node_script(1, "echo a");
	char error[1024], *id = node_submit(&run, json), *none;
	served_claim(run.served, &reader);
	expect_refusal(&run, json, "a read key has no permission to submit; use a submit key");
	node_follow(&run, id, NULL, &follower);
	node_await_end(&run, &follower);
	free(node_describe(&run, id));
	expect_no_act(&run, id, json);
	served_claim(run.served, &submitter);
	assert_int_equal(try_submit(&run, json, error, &none), 0);
	free(none);
	free(id);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* Of what a job was given, nothing. */
static void expect_untold(struct node_run *run, struct answer *answer)
{
	node_await_answer(run, answer);
	assert_int_equal(answer->code, 0);
	assert_non_null(answer->text);
	assert_null(strstr(answer->text, "COLOUR"));
	assert_null(strstr(answer->text, "ultramarine"));
	node_answer_clear(answer);
}

static void read_keys_never_see_environments(void **state)
{
	const struct tfc__peer_id reader = {.role = TFC__KEY_READ, .uid = UINT32_MAX};
	struct node_run run;
	struct follower follower = {0};
	struct answer answers[5] = {{0}};
	node_run_begin_served(&run, NULL);
	char *json = node_json("{'framework':'pytorch','argv':['/bin/sh','-c',"
			       "'[ $COLOUR = ultramarine ] && exit 3'],'cwd':'/',"
			       "'env':{'COLOUR':'ultramarine'},'roles':{'worker':{}}}");
	node_start(&run, json, &follower);
	node_await_end(&run, &follower);
	assert_int_equal(node_find(&follower, TFC_EVENT_END, NULL, 0, 0)->event.exit_code, 3);
	served_claim(run.served, &reader);
	tfc_gateway *gw = run.gateway;
	const char *id = follower.job;
	assert_int_equal(tfc_gateway_jobs(gw, NULL, node_answer, &answers[0], NULL), 0);
	assert_int_equal(tfc_gateway_jobs(gw, NULL, node_answer, &answers[1], NULL), 0);
	assert_int_equal(tfc_gateway_describe(gw, id, NULL, node_answer, &answers[2], NULL), 0);
	assert_int_equal(tfc_gateway_environ(gw, id, "worker/0", NULL, node_answer, &answers[3],
					     NULL),
			 0);
	assert_int_equal(tfc_gateway_members(gw, NULL, node_answer, &answers[4], NULL), 0);
	for (int i = 0; i < 5; i++)
		expect_untold(&run, &answers[i]);
	for (size_t i = 0; i < follower.count; i++)
		assert_null(strstr(follower.events[i].text, "ultramarine"));
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static int read_submitter(const char *as, struct tfc__peer_id *ret_requester)
{
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__rights_submitter(as, ret_requester, &error);
	assert_true((code == TFC_OK) == !strstr(error.text, "invalid submitter"));
	return code;
}

static void a_submitter_is_a_role_or_two_numbers(void **state)
{
	static const char *const invalid[] = {
		"",
		"-1:-1",
		" +4 : 5",
		"+4:5",
		"4: 5",
		"4",
		"4:",
		":5",
		"4:5 ",
		"4:5:6",
		"4294967295:5",
		"5:4294967295",
		"4294967296:5",
		"0x4:5",
		"99999999999999999999999:5",
		"read",
	};
	struct tfc__peer_id requester;
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
		assert_int_equal(read_submitter(invalid[i], &requester), TFC_EINVAL);
	assert_int_equal(read_submitter("4294967294:5", &requester), TFC_OK);
	assert_int_equal(requester.uid, UINT32_MAX - 1);
	assert_int_equal(requester.gid, 5);
	assert_int_equal(requester.role, TFC__KEY_SUBMIT);
	assert_int_equal(read_submitter("0:0", &requester), TFC_OK);
	assert_int_equal(requester.uid, 0);
	assert_int_equal(requester.role, TFC__KEY_NODE);
	assert_int_equal(read_submitter("submit", &requester), TFC_OK);
	assert_int_equal(requester.uid, UINT32_MAX);
	assert_int_equal(requester.role, TFC__KEY_SUBMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_host_has_a_say),
		cmocka_unit_test(tasks_run_as_who_submitted),
		cmocka_unit_test(each_key_may_what_its_role_says),
		cmocka_unit_test(read_keys_never_see_environments),
		cmocka_unit_test(a_submitter_is_a_role_or_two_numbers),
	};
	return cmocka_run_group_tests_name("gateway_rights", tests, NULL, NULL);
}
