/* job: reading a job file, and the sentence about each thing that can be wrong in one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "job/job.h"
#include "job/job_keys.h"
#include <tfcluster/job.h>
#include <tfcluster/spec.h>

static tfc_job *parse(const char *json)
{
	tfc_job *job = NULL;
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_parse(json, strlen(json), "job.json", &error, &job) < 0)
		fail_msg("%s", error.text);
	return job;
}

static void assert_refused(const char *json, int code, const char *sentence)
{
	tfc_job *job = (tfc_job *)"untouched";
	tfc_error error = TFC_ERROR_INIT;
	int result = tfc_job_parse(json, strlen(json), "job.json", &error, &job);
	if (result == TFC_OK)
		fail_msg("accepted: %s", json);
	assert_string_equal(error.text, sentence);
	assert_int_equal(result, code);
	assert_int_equal(error.code, code);
	assert_string_equal((char *)job, "untouched");
}

static const char sample[] =
	"{\n"
	"  \"name\": \"digits\",\n"
	"  \"framework\": \"tensorflow\",\n"
	"  \"strategy\": \"parameter_server\",\n"
	"  \"argv\": [\"python3\", \"train.py\"],\n"
	"  \"env\": {\"EPOCHS\": \"3\"},\n"
	"  \"cwd\": \"examples/tensorflow\",\n"
	"  \"bundle\": null,\n"
	"  \"roles\": {\n"
	"    \"chief\":  {},\n"
	"    \"worker\": {\"count\": 2, \"gpus\": 0, \"memory\": 0, \"cpus\": 0, \"argv\": null, "
	"\"env\": {}, \"port\": 0},\n"
	"    \"ps\":     {\"count\": 1, \"server\": true},\n"
	"    \"evaluator\": {\"finish_s\": 60},\n"
	"    \"tensorboard\": {\"log_dir\": \"logs\"}\n"
	"  },\n"
	"  \"restart\": {\"on\": \"retryable\", \"scope\": \"auto\", \"max\": 3, \"window_s\": "
	"600, "
	"\"backoff_s\": [0, 30], \"losses\": 100, \"losses_window_s\": 86400},\n"
	"  \"success\": \"auto\", \"stall_s\": \"auto\", \"on_stall\": \"report\", \"python\": "
	"\"python3\",\n"
	"  \"grace_s\": 10, \"abort_grace_s\": \"auto\", \"preempt_grace_s\": 30, \"finish_s\": "
	"30, \"start_deadline_s\": "
	"\"auto\", "
	"\"deadline_s\": 0, \"topology\": \"full\",\n"
	"  \"isolation\": \"auto\",\n"
	"  \"placement\": {\"policy\": \"spread\", \"labels\": {}, \"upstream\": null, "
	"\"on_upstream_change\": \"ignore\"}\n"
	"}\n";

static void the_sample_of_the_manual_parses(void **state)
{
	tfc_job *job = parse(sample);
	assert_string_equal(job->name, "digits");
	assert_int_equal(job->framework, TFC_FRAMEWORK_TENSORFLOW);
	assert_int_equal(job->strategy, TFC_STRATEGY_PARAMETER_SERVER);
	assert_int_equal(job->argv.count, 2);
	assert_string_equal(job->argv.items[1], "train.py");
	assert_string_equal(job->env.items[0], "EPOCHS=3");
	assert_string_equal(job->cwd, "examples/tensorflow");
	assert_null(job->bundle);
	assert_string_equal(job->python, "python3");
	assert_int_equal(job->role_count, 5);
	assert_string_equal(job->roles[0].name, "chief");
	assert_string_equal(job->roles[4].name, "tensorboard");
	assert_int_equal(tfc__job_role(job, "worker")->count, 2);
	assert_int_equal(tfc__job_role(job, "worker")->argv.count, 0);
	assert_true(tfc__job_role(job, "ps")->is_server);
	assert_false(tfc__job_role(job, "chief")->is_server);
	assert_true(tfc__job_role(job, "evaluator")->finish_s == 60);
	assert_true(tfc__job_role(job, "chief")->finish_s == -1);
	assert_string_equal(tfc__job_role(job, "tensorboard")->log_dir, "logs");
	assert_null(tfc__job_role(job, "driver"));
	assert_true(job->restart.window_s == 600 && job->restart.backoff_s[1] == 30);
	tfc_job_free(job);
}

static void what_is_left_out_has_its_default(void **state)
{
	tfc_job *job = parse("{\"argv\":[\"a\"],\"roles\":{\"worker\":{}}}");
	assert_string_equal(job->name, "");
	assert_int_equal(job->strategy, TFC_STRATEGY_AUTO);
	assert_null(job->cwd);
	assert_null(job->python);
	assert_int_equal(job->success, TFC__SUCCESS_AUTO);
	assert_int_equal(job->restart.on, TFC__RESTART_RETRYABLE);
	assert_int_equal(job->restart.max, 3);
	assert_true(job->restart.window_s == 600);
	assert_true(job->restart.backoff_s[0] == 0 && job->restart.backoff_s[1] == 30);
	assert_true(job->restart.losses == 100 && job->restart.losses_window_s == 86400);
	assert_true(job->grace_s == 10 && job->abort_grace_s == -1 && job->preempt_grace_s == 30 &&
		    job->finish_s == 30);
	assert_true(job->start_deadline_s == -1 && job->deadline_s == 0 && job->stall_s == -1);
	const struct tfc__role *worker = &job->roles[0];
	assert_int_equal(worker->count, 1);
	assert_int_equal(worker->port, 0);
	assert_int_equal(worker->port_handover, TFC__HANDOVER_HOLD);
	assert_int_equal(worker->ready, TFC__READY_AUTO);
	assert_int_equal(worker->on_failure, TFC__ON_FAILURE_AUTO);
	assert_int_equal(worker->restart.max, 3);
	assert_int_equal(worker->restart_given, 0);
	assert_true(worker->grace_s == -1 && worker->finish_s == -1);
	assert_null(worker->log_dir);
	tfc_job_free(job);
}

static void stall_s_auto_watches_the_tasks_whose_output_is_the_progress(void **state)
{
	static const struct {
		const char *keys;
		const char *watched; /* the roles, each with its milliseconds */
	} cases[] = {
		{"\"roles\":{\"worker\":{},\"evaluator\":{},\"tensorboard\":{\"log_dir\":\"l\"}}",
		 "worker 300000; "},
		{"\"roles\":{\"chief\":{},\"worker\":{\"count\":2}}",
		 "chief 300000; worker 300000; "},
		{"\"roles\":{\"chief\":{},\"worker\":{},\"ps\":{}}", "chief 300000; "},
		{"\"roles\":{\"worker\":{},\"driver\":{}}", "worker 300000; "},
		{"\"roles\":{\"worker\":{\"server\":true},\"driver\":{}}", ""},
		{"\"roles\":{\"worker\":{\"stall_s\":0},\"chief\":{\"stall_s\":0.5}}",
		 "chief 500; "},
		{"\"roles\":{\"chief\":{},\"worker\":{}},\"stall_s\":\"auto\"",
		 "chief 300000; worker 300000; "},
		{"\"roles\":{\"chief\":{},\"worker\":{}},\"stall_s\":0", ""},
		{"\"roles\":{\"worker\":{},\"evaluator\":{}},\"stall_s\":7",
		 "worker 7000; evaluator 7000; "},
		/* no signal by default: what is not only reported needs a time that was chosen */
		{"\"roles\":{\"worker\":{},\"evaluator\":{\"stall_s\":9}},\"on_stall\":\"restart\"",
		 "evaluator 9000; "},
		{"\"roles\":{\"worker\":{}},\"strategy\":\"none\"", ""},
		{"\"roles\":{\"worker\":{\"count\":2}},\"framework\":\"pytorch\"", ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[512], watched[128] = "";
		snprintf(text, sizeof(text), "{\"argv\":[\"a\"],%s}", cases[i].keys);
		tfc_job *job = parse(text);
		for (uint32_t k = 0; k < job->role_count; k++) {
			uint32_t ms = tfc__role_stall_ms(job, &job->roles[k]);
			size_t len = strlen(watched);
			if (ms)
				snprintf(watched + len, sizeof(watched) - len, "%s %u; ",
					 job->roles[k].name, ms);
		}
		assert_string_equal(watched, cases[i].watched);
		tfc_job_free(job);
	}
}

static void a_role_overrides_single_keys_of_restart_in_any_order(void **state)
{
	tfc_job *job = parse("{\"argv\":[\"a\"],\"roles\":{\"worker\":{\"restart\":{\"max\":7}},"
			     "\"chief\":{\"restart\":null}},"
			     "\"restart\":{\"max\":5,\"on\":\"failure\",\"backoff_s\":[0.25,2]}}");
	const struct tfc__restart *worker = &tfc__job_role(job, "worker")->restart;
	assert_int_equal(worker->max, 7);
	assert_int_equal(worker->on, TFC__RESTART_FAILURE);
	assert_true(worker->backoff_s[0] == 0.25 && worker->backoff_s[1] == 2);
	assert_int_equal(tfc__job_role(job, "chief")->restart.max, 5);
	assert_int_not_equal(tfc__job_role(job, "worker")->restart_given, 0);
	assert_int_equal(tfc__job_role(job, "chief")->restart_given, 0);
	tfc_job_free(job);
}

static void secrets_keep_their_name_when_the_value_is_the_hosts(void **state)
{
	tfc_job *job = parse(
		"{\"argv\":[\"a\"],\"roles\":{\"worker\":{\"secret_env\":{\"T\":\"x=y\"}}}"
		",\"secret_env\":{\"A\":null,\"B\":\"\"}}");
	assert_string_equal(job->secret_env.items[0], "A");
	assert_string_equal(job->secret_env.items[1], "B=");
	assert_string_equal(job->roles[0].secret_env.items[0], "T=x=y");
	tfc_job_free(job);
	job = parse("{\"argv\":[\"a\"],\"roles\":{\"worker\":{\"secret_env\":[\"T\"]}}"
		    ",\"secret_env\":[\"A\",\"B\",\"A\"]}");
	assert_int_equal(job->secret_env.count, 2);
	assert_string_equal(job->secret_env.items[0], "B");
	assert_string_equal(job->secret_env.items[1], "A");
	assert_string_equal(job->roles[0].secret_env.items[0], "T");
	tfc_job_free(job);
}

/* Not even where the file is no JSON, and so nobody knows yet what is one. */
static void no_sentence_shows_a_secret(void **state)
{
	static const char *const values[] = {
		"\"hunter\\q\"", "\"hunter\\u0000\"", "\"hunter\n\"", "\"a\" \"hunter\"",
		"hunter",        "\"hunter",          "\"hunter\"x",
	};
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		tfc_error error = TFC_ERROR_INIT;
		tfc_job *job = NULL;
		char *json;
		assert_true(asprintf(&json, "{\"secret_env\":{\"TOKEN\":%s}}", values[i]) > 0);
		assert_int_equal(tfc_job_parse(json, strlen(json), "job.json", &error, &job),
				 TFC_EPARSE);
		assert_non_null(strstr(error.text, "job.json:1: "));
		assert_null(strstr(error.text, "hunter"));
		free(json);
	}
}

/* It may stand in a wrong place, or be of a wrong type. */
static void no_wrong_type_shows_a_secret(void **state)
{
	static const char *const keys[] = {
		"424242",          "\"424242\"",           "{\"T\":424242}",
		"{\"T\":4242.42}", "{\"T\":[\"424242\"]}", "[424242]",
		"[\"T=424242\"]",
	};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		tfc_error error = TFC_ERROR_INIT;
		tfc_job *job = NULL;
		char *json;
		assert_true(asprintf(&json, "{\"secret_env\":%s}", keys[i]) > 0);
		assert_int_equal(tfc_job_parse(json, strlen(json), "job.json", &error, &job),
				 TFC_EINVAL);
		assert_non_null(strstr(error.text, "job.json:1: secret_env"));
		assert_null(strstr(error.text, "4242"));
		free(json);
	}
}

static void what_is_wrong_is_named_with_its_line(void **state)
{
	static const struct {
		const char *json;
		int code;
		const char *sentence;
	} cases[] = {
		{"", TFC_EPARSE, "job.json:1: '[' or '{' expected near end of file"},
		{"{\n\"name\": }", TFC_EPARSE, "job.json:2: unexpected token near '}'"},
		{"{\n\"name\":\"a\",\n\"name\":\"b\"}", TFC_EPARSE,
		 "job.json:3: duplicate object key near '\"name\"'"},
		{"{\"argv\":[\n\"a\\u0000\"]}", TFC_EPARSE,
		 "job.json:2: \\u0000 is not allowed without JSON_ALLOW_NUL"},
		{"{\"grace_s\": NaN}", TFC_EPARSE, "job.json:1: invalid token"},
		{"[]", TFC_EINVAL, "job.json:1: must be an object, not a list of 0"},
		{"{\n \"roles\":\n  {\"worker\": {\n  \"argv\": [\"}\", \"\\\"{\"],\n\n\"cuont\": "
		 "2}}}",
		 TFC_EINVAL, "job.json:6: roles.worker.cuont: unknown key; did you mean count?"},
		{"{\"nmae\":\"\"}", TFC_EINVAL,
		 "job.json:1: nmae: unknown key; did you mean name?"},
		{"{\"restart\":{\n\"window\":1}}", TFC_EINVAL,
		 "job.json:2: restart.window: unknown key; did you mean window_s?"},
		{"{\"xylophone\":1}", TFC_EINVAL, "job.json:1: xylophone: unknown key"},
		{"{\"user\":\"nobody\"}", TFC_EINVAL,
		 "job.json:1: user: unknown key here; use the roles' key roles.ROLE.user"},
		{"{\"roles\":{\"worker\":{\"isolation\":\"pidns\"}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.isolation: unknown key here; use the job's key "
		 "isolation"},
		{"{\"roles\":{\"worker\":{\"placement\":{}}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.placement: unknown key here; use the job's key "
		 "placement"},
		{"{\"restart.max\":1}", TFC_EINVAL,
		 "job.json:1: restart.max: unknown key; did you mean restart?"},
		{"{\"name\":7}", TFC_EINVAL, "job.json:1: name: must be a string, not 7"},
		{"{\"name\":null}", TFC_EINVAL, "job.json:1: name: must be a string, not null"},
		{"{\"cwd\":[]}", TFC_EINVAL,
		 "job.json:1: cwd: must be a string or null, not a list of 0"},
		{"{\"argv\":\"a b\"}", TFC_EINVAL,
		 "job.json:1: argv: must be a list of strings, not \"a b\""},
		{"{\"argv\":[\n\"a\",\n\"b\",\n3]}", TFC_EINVAL,
		 "job.json:4: argv[2]: must be a string, not 3"},
		{"{\"env\":{\n\"EPOCHS\":3}}", TFC_EINVAL,
		 "job.json:2: env.EPOCHS: must be a string, not 3"},
		{"{\"env\":{\"EPOCHS\":null}}", TFC_EINVAL,
		 "job.json:1: env.EPOCHS: must be a string, not null"},
		{"{\"env\":{\"A=B\":\"\"}}", TFC_EINVAL,
		 "job.json:1: env.A=B: a name must not be empty or contain '='"},
		{"{\"env\":{\"\":\"\"}}", TFC_EINVAL,
		 "job.json:1: env.: a name must not be empty or contain '='"},
		{"{\"secret_env\":{\"T\":true}}", TFC_EINVAL,
		 "job.json:1: secret_env.T: must be a string or null"},
		{"{\"name\":\"a\xc2\x9b"
		 "1m\"}",
		 TFC_EINVAL, "job.json:1: name: must not contain '/' or control characters"},
		{"{\"name\":\"0123456789abcdef\",\"argv\":[\"a\"],\"roles\":{\"worker\":{}}}",
		 TFC_EINVAL,
		 "job.json:1: name: must not have the form of a job id (16 hexadecimal digits)"},
		{"{\"name\":\"a\\u202etxt.exe\"}", TFC_EINVAL,
		 "job.json:1: name: must not contain '/' or control characters"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{\"labels\":{\"a\":\"\\u0007\"}}}}",
		 TFC_EINVAL,
		 "job.json:1: roles.worker.labels: must not contain control characters, as \"a= \" "
		 "does"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{}},\"placement\":{\"labels\":{\"rack\":"
		 "\"\\u001b[2J\"}}}",
		 TFC_EINVAL,
		 "job.json:1: placement.labels: must not contain control characters, as \"rack= "
		 "[2J\" does"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{}},\"placement\":{\"labels\":{"
		 "\"\xe2\x81\xa7k\":"
		 "\"v\"}}}",
		 TFC_EINVAL,
		 "job.json:1: placement.labels: must not contain control characters, as \"???k=v\" "
		 "does"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{}},\"placement\":{\"policy\":"
		 "\"upstream\","
		 "\"upstream\":\"a\\u009b\"}}",
		 TFC_EINVAL, "job.json:1: placement.upstream: must not contain control characters"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{}},\"warm\":[\"numpy\",\" json\"]}",
		 TFC_EINVAL,
		 "job.json:1: warm[1]: must be the name of a module, such as tensorflow, not \" "
		 "json\""},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{}},\"warm\":[\"\"]}", TFC_EINVAL,
		 "job.json:1: warm[0]: must be the name of a module, such as tensorflow, not \"\""},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{}},\"warm\":[\"a.b-c\",\"a..b\"]}",
		 TFC_EINVAL,
		 "job.json:1: warm[1]: must be the name of a module, such as tensorflow, not "
		 "\"a..b\""},
		{"{\"env\":[]}", TFC_EINVAL,
		 "job.json:1: env: must be an object of strings, not a list of 0"},
		{"{\"roles\":[]}", TFC_EINVAL,
		 "job.json:1: roles: must be an object of roles, not a list of 0"},
		{"{\"roles\":{\"worker\":null}}", TFC_EINVAL,
		 "job.json:1: roles.worker: must be an object, not null"},
		{"{\"roles\":{\"Worker\":{}}}", TFC_EINVAL,
		 "job.json:1: roles.Worker: a role's name must be 1 to 63 of a-z, 0-9 and _ and "
		 "begin with a letter"},
		{"{\"roles\":{\"worker\":{\"memory_limit\":0}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.memory_limit: must be \"auto\", false or a whole number "
		 "from 1 to 1000000000000000000, not 0"},
		{"{\"roles\":{\"worker\":{\"memory_limit\":true}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.memory_limit: must be \"auto\", false or a whole number "
		 "from 1 to 1000000000000000000, not true"},
		{"{\"roles\":{\"worker\":{\"memory\":-1}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.memory: must be a whole number from 0 to "
		 "1000000000000000000, not -1"},
		{"{\"roles\":{\"worker\":{\"cpus\":\"2\"}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.cpus: must be a number from 0 to 100000, not \"2\""},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{\"cpus\":0.001}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.cpus: must be 0 or at least 0.01"},
		{"{\"roles\":{\"worker\":{\"rlimits\":[]}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.rlimits: must be an object of limits, not a list of 0"},
		{"{\"roles\":{\"worker\":{\"rlimits\":{\"files\":1}}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.rlimits.files: unknown limit; the limits are as core "
		 "cpu data fsize memlock msgqueue nice nofile nproc rss rtprio rttime sigpending "
		 "stack"},
		{"{\"roles\":{\"worker\":{\"rlimits\":{\"as\":-1}}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.rlimits.as: must be a number, \"unlimited\", or a list "
		 "of the soft and the hard limit, not -1"},
		{"{\"roles\":{\"worker\":{\"rlimits\":{\"as\":[1]}}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.rlimits.as: must be a number, \"unlimited\", or a list "
		 "of the soft and the hard limit, not a list of 1"},
		{"{\"roles\":{\"worker\":{\"rlimits\":{\"as\":[\"unlimited\",7]}}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.rlimits.as: the soft limit exceeds the hard limit"},
		{"{\"roles\":{\"worker\":{\"nice\":1.5}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.nice: must be a whole number from -40 to 40, not 1.5"},
		{"{\"roles\":{\"worker\":{\"oom_score_adj\":1001}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.oom_score_adj: must be a whole number from -1000 to "
		 "1000, not 1001"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{\"user\":\"\"}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.user: must not be empty; omit it to use the node's "
		 "user"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{\"user\":\"a:b:c\"}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.user: must be a user, or user:group, by name or number, "
		 "not \"a:b:c\""},
		{"{\"roles\":{\"worker\":{\"count\":-1}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.count: must be a whole number from 0 to 100000, not -1"},
		{"{\"roles\":{\"worker\":{\"count\":100001}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.count: must be a whole number from 0 to 100000, not "
		 "100001"},
		{"{\"roles\":{\"worker\":{\"count\":1.5}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.count: must be a whole number from 0 to 100000, not "
		 "1.5"},
		{"{\"roles\":{\"worker\":{\"port\":65536}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.port: must be a whole number from 0 to 65535, not "
		 "65536"},
		{"{\"roles\":{\"worker\":{\"server\":1}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.server: must be true or false, not 1"},
		{"{\"roles\":{\"worker\":{\"ready\":\"later\"}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.ready: must be auto, listen or started, not \"later\""},
		{"{\"grace_s\":-0.5}", TFC_EINVAL,
		 "job.json:1: grace_s: must be a number of seconds from 0 to 1000000000, not -0.5"},
		{"{\"deadline_s\":\"5\"}", TFC_EINVAL,
		 "job.json:1: deadline_s: must be a number of seconds from 0 to 1000000000, not "
		 "\"5\""},
		{"{\"start_deadline_s\":\"never\"}", TFC_EINVAL,
		 "job.json:1: start_deadline_s: must be \"auto\" or a number of seconds from 0 to "
		 "1000000000, not \"never\""},
		{"{\"start_deadline_s\":null}", TFC_EINVAL,
		 "job.json:1: start_deadline_s: must be \"auto\" or a number of seconds from 0 to "
		 "1000000000, not null"},
		{"{\"grace_s\":\"auto\"}", TFC_EINVAL,
		 "job.json:1: grace_s: must be a number of seconds from 0 to 1000000000, not "
		 "\"auto\""},
		{"{\"restart\":{\"backoff_s\":[1]}}", TFC_EINVAL,
		 "job.json:1: restart.backoff_s: must be a list of two numbers: the first and the "
		 "longest wait, not a list of 1"},
		{"{\"restart\":{\"backoff_s\":[1,\n-1]}}", TFC_EINVAL,
		 "job.json:2: restart.backoff_s[1]: must be a number of seconds from 0 to "
		 "1000000000, not -1"},
		{"{\"restart\":{\"backoff_s\":[9,5]}}", TFC_EINVAL,
		 "job.json:1: restart.backoff_s: the first wait exceeds the longest"},
		{"{\"restart\":null}", TFC_EINVAL,
		 "job.json:1: restart: must be an object, not null"},
		{"{\"framework\":\"caffe\"}", TFC_EINVAL,
		 "job.json:1: framework: must be tensorflow, none, pytorch, jax or horovod, "
		 "not \"caffe\""},
		{"{\"on_stall\":\"kill\"}", TFC_EINVAL,
		 "job.json:1: on_stall: must be report, stacks or restart, not \"kill\""},
		{"{\"topology\":\"ring\"}", TFC_EINVAL,
		 "job.json:1: topology: must be full or partial, not \"ring\""},
		{"{\"roles\":{\"worker\":{\"count\":{\"min\":2,\"max\":8}}}}", TFC_ENOTSUP,
		 "job.json:1: roles.worker.count: a range is reserved for a later version; give "
		 "one "
		 "number from 2 to 8"},
		{"{\"roles\":{\"worker\":{\"count\":{\"min\":2}}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.count: must be a whole number, not an object"},
		{"{\"restart\":{\"max\":{\"min\":2,\"max\":8}}}", TFC_EINVAL,
		 "job.json:1: restart.max: must be a whole number from 0 to 1000000, not an "
		 "object"},
		{"{\"placement\":{\n\"labels\":{\"a\":1}}}", TFC_EINVAL,
		 "job.json:2: placement.labels.a: must be a string, not 1"},
		{"{\"placement\":{\n\"policy\":\"random\"}}", TFC_EINVAL,
		 "job.json:2: placement.policy: must be spread, pack or upstream, not \"random\""},
		{"{\"placement\":{\"on_upstream_change\":\"move\"}}", TFC_EINVAL,
		 "job.json:1: placement.on_upstream_change: must be ignore or restart, not "
		 "\"move\""},
		{"{\"roles\":{\"worker\":{\"gpus\":1025}}}", TFC_EINVAL,
		 "job.json:1: roles.worker.gpus: must be a whole number from 0 to 1024, not 1025"},
		{"{\"roles\":{\"worker\":{\"spares\":1}}}", TFC_ENOTSUP,
		 "job.json:1: roles.worker.spares: not supported by this version; omit it or set "
		 "it to 0"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused(cases[i].json, cases[i].code, cases[i].sentence);
}

/* Each is put into {"argv":["a"], ...} unless it says argv itself. */
static void what_does_not_fit_together_is_refused(void **state)
{
	static const struct {
		const char *keys;
		const char *sentence;
	} cases[] = {
		{"\"name\":\"a/b\",\n\"roles\":{\"worker\":{}}",
		 "name: must not contain '/' or control characters"},
		{"\"placement\":{\"upstream\":\"grid\"},\"roles\":{\"worker\":{}}",
		 "placement.upstream: requires policy \"upstream\"; set policy too"},
		{"\"placement\":{\"policy\":\"upstream\"},\"roles\":{\"worker\":{}}",
		 "placement.upstream: policy \"upstream\" requires the name of an upstream"},
		{"\"placement\":{\"policy\":\"upstream\",\"upstream\":\"grid\"},"
		 "\"roles\":{\"chief\":{}}",
		 "placement.upstream: requires the role worker, whose tasks follow it"},
		{"\"placement\":{\"on_upstream_change\":\"restart\"},\"roles\":{\"worker\":{}}",
		 "placement.on_upstream_change: requires policy \"upstream\""},
		{"\"on_stall\":\"restart\",\n\"roles\":{\"worker\":{\"stall_s\":0}}",
		 "on_stall: requires stall_s; set stall_s too"},
		{"\"roles\":{}", "roles: no role is given; for one worker, write \"worker\": {}"},
		{"\"roles\":{\"worker\":{\"count\":0}}",
		 "roles.worker.count: 0 workers and no chief; there is nothing to run"},
		{"\"roles\":{\"helper\":{\"sidecar\":true}}",
		 "roles: needs a worker, chief or driver: its end decides the end of the job"},
		{"\"roles\":{\"worker\":{\"count\":100000},\"chief\":{}}",
		 "roles: 100001 tasks exceed the limit of 100000"},
		{"\"roles\":{\"chief\":{\"count\":2}}",
		 "roles.chief.count: a job has at most one chief, not 2"},
		{"\"roles\":{\"worker\":{},\"evaluator\":{\"count\":2}}",
		 "roles.evaluator.count: a job has at most one evaluator, not 2"},
		{"\"roles\":{\"worker\":{},\"driver\":{\"count\":3}}",
		 "roles.driver.count: a job has at most one driver, not 3"},
		{"\"roles\":{\"chief\":{},\"ps\":{}}",
		 "roles.ps: a ps needs workers; add the role worker"},
		{"\"strategy\":\"multi_worker_mirrored\",\"roles\":{\"worker\":{},\"ps\":{}}",
		 "strategy: multi_worker_mirrored has no ps; remove the role ps, or use "
		 "parameter_server"},
		{"\"strategy\":\"parameter_server\",\"roles\":{\"worker\":{}}",
		 "strategy: parameter_server needs a ps; add the role ps"},
		{"\"strategy\":\"parameter_server\",\"framework\":\"none\",\"roles\":{\"worker\":{}"
		 "}",
		 "strategy: needs \"framework\": \"tensorflow\""},
		{"\"strategy\":\"multi_worker_mirrored\",\"framework\":\"jax\",\"roles\":{"
		 "\"worker\":{}}",
		 "strategy: needs \"framework\": \"tensorflow\""},
		{"\"framework\":\"pytorch\",\"roles\":{\"worker\":{},\"ps\":{}}",
		 "roles.ps: pytorch has no ps; make it a worker, or a sidecar of another name"},
		{"\"framework\":\"jax\",\"roles\":{\"worker\":{},\"evaluator\":{}}",
		 "roles.evaluator: jax has no evaluator; make it a worker, or a sidecar of another "
		 "name"},
		{"\"framework\":\"horovod\",\"roles\":{\"worker\":{},\"driver\":{}}",
		 "roles.driver: horovod has no driver; make it a worker, or a sidecar of another "
		 "name"},
		{"\"framework\":\"jax\",\"roles\":{\"chief\":{},\"worker\":{\"server\":true}}",
		 "roles.worker.server: needs \"framework\": \"tensorflow\""},
		{"\"framework\":\"pytorch\",\"roles\":{\"worker\":{\"ready\":\"listen\"}}",
		 "roles.worker.ready: only the first rank of pytorch listens; use started or auto"},
		{"\"framework\":\"pytorch\",\"roles\":{\"worker\":{\"restart\":{\"scope\":"
		 "\"task\"}}}",
		 "roles.worker.restart.scope: a pytorch worker cannot restart alone; use group or "
		 "auto"},
		{"\"framework\":\"jax\",\"topology\":\"partial\",\"roles\":{\"worker\":{}}",
		 "topology: partial is for the parameter_server strategy only; with others, each "
		 "worker connects to all workers"},
		{"\"topology\":\"partial\",\"roles\":{\"worker\":{}}",
		 "topology: partial is for the parameter_server strategy only; with others, each "
		 "worker connects to all workers"},
		{"\"roles\":{\"worker\":{\"count\":10,\"port\":65530}}",
		 "roles.worker.port: 10 tasks with ports from 65530 on exceed the highest port, "
		 "65535"},
		{"\"roles\":{\"worker\":{},\"tensorboard\":{}}",
		 "roles.tensorboard: tensorboard needs log_dir, or argv"},
		{"\"roles\":{\"worker\":{\"log_dir\":\"x\"}}",
		 "roles.worker.log_dir: only the role tensorboard has a log_dir"},
		{"\"roles\":{\"chief\":{},\"helper\":{\"sidecar\":true,\"server\":true}}",
		 "roles.helper.server: only chief, worker and ps can run TensorFlow's server"},
		{"\"roles\":{\"chief\":{},\"evaluator\":{\"sidecar\":true}}",
		 "roles.evaluator.sidecar: evaluator is not a sidecar; give the sidecar another "
		 "name"},
		{"\"framework\":\"none\",\"roles\":{\"chief\":{},\"worker\":{\"server\":true}}",
		 "roles.worker.server: needs \"framework\": \"tensorflow\""},
		{"\"strategy\":\"none\",\"roles\":{\"chief\":{},\"worker\":{\"server\":true}}",
		 "roles.worker.server: needs a strategy other than none"},
		{"\"roles\":{\"chief\":{},\"worker\":{\"server\":true,\"argv\":[\"x\"]}}",
		 "roles.worker.argv: a role with \"server\": true runs no program of its own"},
		{"\"roles\":{\"worker\":{\"server\":true},\"ps\":{\"server\":true}}",
		 "roles.worker.server: the job would not end because TensorFlow's server does not; "
		 "add a driver or chief"},
		{"\"roles\":{\"worker\":{\"argv\":[\"\"]}}",
		 "roles.worker.argv: the first element is empty; it must name the program"},
		{"\"roles\":{\"worker\":{\"wrap\":[\"\"]}}",
		 "roles.worker.wrap: the first element is empty; it must name the program"},
		{"\"success\":\"chief\",\"roles\":{\"worker\":{}}",
		 "success: the job has no such role"},
		{"\"restart\":{\"scope\":\"coordinator\"},\"roles\":{\"worker\":{}}",
		 "restart.scope: coordinator is for the parameter_server strategy only"},
		{"\"roles\":{\"worker\":{\"restart\":{\"scope\":\"task\"}}}",
		 "roles.worker.restart.scope: a mirrored worker cannot restart alone; use group or "
		 "auto"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char json[512], sentence[256];
		/* All of these stand on line 3, behind what must not confuse the line count. */
		snprintf(json, sizeof(json), "{\"argv\":[\"a\\n\"],\n\n%s}", cases[i].keys);
		snprintf(sentence, sizeof(sentence), "job.json:3: %s", cases[i].sentence);
		assert_refused(json, TFC_EINVAL, sentence);
	}
}

static const char mistyped[] = "{\"argv\":[\"a\",\n\"{prot}\"],\"roles\":{\"worker\":{}}}";

static void a_mistyped_placeholder_is_refused(void **state)
{
	static const char *const cases[][2] = {
		{mistyped, "job.json:2: argv[1]: unknown placeholder {prot}; did you mean {port}?"},
		{"{\"argv\":[\"a\"],\"env\":{\"A\":\"\",\n\"B\":\"{data_hosts}\"},\n\"roles\":"
		 "{\"worker\":{}}}",
		 "job.json:2: env.B: unknown placeholder {data_hosts}; the job has no role "
		 "\"data\""},
		{"{\"roles\":{\n\"worker\":{\"argv\":[\"a\",\n\"{chief_host}\"]}}}",
		 "job.json:3: roles.worker.argv[1]: unknown placeholder {chief_host}; did you mean "
		 "{chief_hosts}?"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":\n{\"wrap\":[\"{jbo}\"]}}}",
		 "job.json:2: roles.worker.wrap[0]: unknown placeholder {jbo}; did you mean "
		 "{job}?"},
		{"{\"argv\":[\"a\"],\"roles\":{\"worker\":{},\n\"driver\":{\"env\":{\"A\":\"\",\n"
		 "\"P\":\"{drivers_hosts}\"}}}}",
		 "job.json:3: roles.driver.env.P: unknown placeholder {drivers_hosts}; did you "
		 "mean {driver_hosts}?"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_refused(cases[i][0], TFC_EINVAL, cases[i][1]);
}

static void a_role_of_another_name_must_be_called_a_sidecar(void **state)
{
	static const char sidecar[] = "a sidecar needs \"sidecar\": true";
	static const struct {
		const char *framework, *role,
			*similar; /* "": refused without one; NULL: accepted */
	} cases[] = {
		{"tensorflow", "reader", ""},
		{"tensorflow", "wroker", "worker"},
		{"tensorflow", "workers", "worker"},
		{"tensorflow", "tensor_board", "tensorboard"},
		{"tensorflow", "drvier", "driver"},
		{"tensorflow", "master", "chief"},
		{"tensorflow", "parameter_server", "ps"},
		{"tensorflow", "ds", "ps"},
		{"pytorch", "master", "chief"},
		{"pytorch", "helper", ""},
		{"jax", "helper", ""},
		{"horovod", "wroker", "worker"},
		{"none", "reader", NULL},
		{"none", "master", NULL},
		{"none", "server", NULL},
		{"none", "db", NULL},
		{"none", "ds", NULL},
		{"none", "workers", "worker"},
		{"none", "cheif", "chief"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char json[256], sentence[256], found[64] = "";
		const char *similar = cases[i].similar, *role = cases[i].role;
		const char format[] = "{\"argv\":[\"a\"],\"framework\":\"%s\",\"roles\":{"
				      "\"chief\":{},\"worker\":{},\n\"%s\":{\"count\":2%s}}}";
		snprintf(json, sizeof(json), format, cases[i].framework, role, "");
		if (similar && *similar)
			snprintf(found, sizeof(found), "did you mean %s? ", similar);
		snprintf(sentence, sizeof(sentence), "job.json:2: roles.%s: unknown role; %s%s",
			 role, found, sidecar);
		if (similar)
			assert_refused(json, TFC_EINVAL, sentence);
		else
			tfc_job_free(parse(json));
		snprintf(json, sizeof(json), format, cases[i].framework, role, ",\"sidecar\":true");
		tfc_job_free(parse(json));
	}
}

static void a_mistyped_role_is_reported_before_the_role_that_it_misses(void **state)
{
	assert_refused(
		"{\"argv\":[\"a\"],\n\"roles\":{\n\"wroker\":{}}}", TFC_EINVAL,
		"job.json:3: roles.wroker: unknown role; did you mean worker? a sidecar needs "
		"\"sidecar\": true");
}

#define SET_BY_LIBRARY \
	": the library sets this variable for each task; remove it, or give it another name"

/* sentence NULL: accepted */
static void variables_without_effect_are_refused(void **state)
{
	static const struct {
		const char *framework, *roles, *sentence;
	} cases[] = {
		{"tensorflow", "\"worker\":{}},\"env\":{\"TF_CONFIG\":\"\"}",
		 "env.TF_CONFIG" SET_BY_LIBRARY},
		{"tensorflow", "\"worker\":{\"secret_env\":[\"TF_CONFIG\"]}}",
		 "roles.worker.secret_env.TF_CONFIG" SET_BY_LIBRARY},
		{"tensorflow", "\"worker\":{},\"ps\":{},\"driver\":{\"env\":{\"TF_CONFIG\":\"\"}}}",
		 NULL},
		{"none", "\"worker\":{\"env\":{\"TF_CONFIG\":\"\",\"TFC_PORT\":\"1\"}}}", NULL},
		{"none", "\"worker\":{\"port\":2222,\"env\":{\"TFC_PORT\":\"1\"}}}",
		 "roles.worker.env.TFC_PORT" SET_BY_LIBRARY},
		{"none", "\"worker\":{}},\"secret_env\":{\"TFC_JOB\":\"x\"}",
		 "secret_env.TFC_JOB" SET_BY_LIBRARY},
		{"none", "\"worker\":{}},\"env\":{\"TFC_JOBS\":\"1\",\"TFC_GATEWAY\":\"\"}", NULL},
		{"none", "\"worker\":{\"env\":{\"A \":\"1\"}}}",
		 "roles.worker.env.A : the name of a variable must not contain blanks"},
		{"none", "\"worker\":{}},\"env\":{\"A\\tB\":\"1\"}",
		 "env.A B: the name of a variable must not contain blanks"},
		{"none",
		 "\"worker\":{}},\"env\":{\"a.b-c\":\"1 2\",\"BASH_FUNC_f%%\":\"() { :; }\"}",
		 NULL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char json[512], sentence[256];
		snprintf(json, sizeof(json),
			 "{\"argv\":[\"a\"],\"framework\":\"%s\",\"roles\":{%s}",
			 cases[i].framework, cases[i].roles);
		if (!cases[i].sentence) {
			tfc_job_free(parse(json));
			continue;
		}
		snprintf(sentence, sizeof(sentence), "job.json:1: %s", cases[i].sentence);
		assert_refused(json, TFC_EINVAL, sentence);
		tfc_job *job = NULL;
		assert_int_equal(tfc__job_parse_stored(json, strlen(json), NULL, NULL, &job),
				 TFC_OK);
		tfc_job_free(job);
	}
}

/* The names that are written down in job_typos.c are those that the frameworks' tasks get. */
static void variables_of_the_frameworks_are_refused(void **state)
{
	static const char *const constant[] = {"ROLE_NAME", "HOROVOD_CONTROLLER",
					       "HOROVOD_CPU_OPERATIONS", "TF_CLUSTER",
					       "TF_WORKERS"};
	static const char *const frameworks[] = {"tensorflow", "pytorch", "jax", "horovod"};
	static const enum tfc_framework numbers[] = {TFC_FRAMEWORK_TENSORFLOW,
						     TFC_FRAMEWORK_PYTORCH, TFC_FRAMEWORK_JAX,
						     TFC_FRAMEWORK_HOROVOD};
	tfc_spec *spec;
	assert_int_equal(tfc_spec_new(&spec), TFC_OK);
	assert_int_equal(tfc_spec_add(spec, "worker", 0, "10.0.0.1:2222", NULL), TFC_OK);
	assert_int_equal(tfc_spec_add(spec, "worker", 1, "10.0.0.2:2222", NULL), TFC_OK);
	for (size_t i = 0; i < sizeof(frameworks) / sizeof(frameworks[0]); i++) {
		char **env, json[256];
		assert_int_equal(tfc_spec_environ(spec, numbers[i], TFC_STRATEGY_AUTO, "worker", 0,
						  NULL, &env),
				 TFC_OK);
		for (char **variable = env; *variable; variable++) {
			tfc_error error = TFC_ERROR_INIT;
			bool is_constant = false;
			tfc_job *job = NULL;
			(*variable)[strcspn(*variable, "=")] = '\0';
			for (size_t at = 0; at < sizeof(constant) / sizeof(constant[0]); at++)
				is_constant |= strcmp(*variable, constant[at]) == 0;
			snprintf(json, sizeof(json),
				 "{\"argv\":[\"a\"],\"framework\":\"%s\",\"env\":{\"%s\":\"1\"},"
				 "\"roles\":{\"worker\":{\"count\":2}}}",
				 frameworks[i], *variable);
			int code = tfc_job_parse(json, strlen(json), NULL, &error, &job);
			if (code != (is_constant ? TFC_OK : TFC_EINVAL))
				fail_msg("%s of %s: %s", *variable, frameworks[i], error.text);
			tfc_job_free(job);
		}
		tfc_strv_free(env);
	}
	tfc_spec_free(spec);
}

static void a_stored_job_is_not_checked_for_typos(void **state)
{
	tfc_job *job;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__job_parse_stored(mistyped, strlen(mistyped), NULL, NULL, &job),
			 TFC_OK);
	assert_int_equal(tfc_job_validate(job, &error), TFC_EINVAL);
	assert_string_equal(error.text,
			    "argv[1]: unknown placeholder {prot}; did you mean {port}?");
	tfc_job_free(job);
	static const char older[] = "{\"argv\":[\"a\"],\"roles\":{\"worker\":{},\"reader\":{}}}";
	assert_int_equal(tfc__job_parse_stored(older, strlen(older), NULL, NULL, &job), TFC_OK);
	assert_int_equal(tfc_job_validate(job, &error), TFC_EINVAL);
	assert_string_equal(error.text,
			    "roles.reader: unknown role; a sidecar needs \"sidecar\": true");
	assert_int_equal(tfc_job_set(job, "roles.reader.sidecar", "true", &error), TFC_OK);
	assert_int_equal(tfc_job_validate(job, &error), TFC_OK);
	tfc_job_free(job);
}

static void a_role_without_program_is_refused(void **state)
{
	assert_refused("{\"roles\":{\n\"worker\":{}}}", TFC_EINVAL,
		       "job.json:2: roles.worker: no program: set argv, or \"server\": true for "
		       "TensorFlow's own");
	assert_refused("{\"roles\":{\"chief\":{}}}", TFC_EINVAL,
		       "job.json:1: roles.chief: no program: set argv");
	assert_refused("{\n\"argv\":[\"\"],\"roles\":{\"chief\":{}}}", TFC_EINVAL,
		       "job.json:2: argv: the first element is empty; it must name the program");
}

static void combinations_that_make_sense_are_accepted(void **state)
{
	static const char *const cases[] = {
		"{\"argv\":[\"a\",\"\"],\"roles\":{\"chief\":{},\"worker\":{\"count\":0}}}",
		"{\"argv\":[\"a\"],\"roles\":{\"driver\":{},\"worker\":{\"server\":true},"
		"\"ps\":{\"server\":true}}}",
		"{\"framework\":\"none\",\"roles\":{\"worker\":{\"argv\":[\"a\"]},"
		"\"tensorboard\":{\"log_dir\":\"l\"}}}",
		"{\"argv\":[\"a\"],\"restart\":{\"scope\":\"task\"},"
		"\"roles\":{\"chief\":{},\"worker\":{},\"ps\":{}}}",
		"{\"argv\":[\"a\"],\"roles\":{\"worker\":{},\"evaluator\":{\"restart\":{\"scope\":"
		"\"task\"}}}}",
		"{\"argv\":[\"a\"],\"roles\":{\"worker\":{}},\"isolation\":\"plain\",\"stall_s\":0."
		"0,"
		"\"topology\":\"full\"}",
		"{\"argv\":[\"a\"],\"roles\":{\"driver\":{},\"worker\":{},\"ps\":{}},"
		"\"topology\":\"partial\"}",
		"{\"argv\":[\"a\"],\"framework\":\"pytorch\",\"roles\":{\"chief\":{},"
		"\"worker\":{\"count\":3},\"tensorboard\":{\"log_dir\":\"l\"},\"helper\":{"
		"\"sidecar\":true}}}",
		"{\"argv\":[\"a\"],\"framework\":\"jax\",\"restart\":{\"scope\":\"group\"},"
		"\"roles\":{\"worker\":{\"ready\":\"started\"},\"ps\":{\"count\":0}}}",
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		tfc_job_free(parse(cases[i]));
}

static void strategy_and_ports_follow_the_roles(void **state)
{
	tfc_job *job = parse("{\"argv\":[\"a\"],\"roles\":{\"chief\":{},\"worker\":{},\"ps\":{},"
			     "\"evaluator\":{},\"tensorboard\":{\"log_dir\":\"l\"},\"helper\":{"
			     "\"sidecar\":true},"
			     "\"web\":{\"ready\":\"listen\",\"sidecar\":true},"
			     "\"api\":{\"port\":8080,\"sidecar\":true}}}");
	static const bool has_port[] = {true, true, true, true, true, false, true, true};
	assert_int_equal(tfc__job_strategy(job), TFC_STRATEGY_PARAMETER_SERVER);
	for (uint32_t i = 0; i < job->role_count; i++)
		assert_int_equal(tfc__role_has_port(job, &job->roles[i]), has_port[i]);
	tfc_job_free(job);

	job = parse("{\"argv\":[\"a\"],\"roles\":{\"worker\":{},\"ps\":{\"count\":0}}}");
	assert_int_equal(tfc__job_strategy(job), TFC_STRATEGY_MULTI_WORKER_MIRRORED);
	tfc_job_free(job);

	job = parse("{\"argv\":[\"a\"],\"strategy\":\"none\",\"roles\":{\"worker\":{}}}");
	assert_true(tfc__role_has_port(job, &job->roles[0])); /* TF_CONFIG names it */
	tfc_job_free(job);

	job = parse("{\"argv\":[\"a\"],\"framework\":\"jax\",\"roles\":{\"worker\":{}}}");
	assert_int_equal(tfc__job_strategy(job), TFC_STRATEGY_NONE);
	assert_true(tfc__role_has_port(job, &job->roles[0])); /* rank 0 listens on its own */
	assert_false(tfc__role_is_ready_on_listen(job, &job->roles[0]));
	tfc_job_free(job);

	job = parse("{\"argv\":[\"a\"],\"framework\":\"none\",\"roles\":{\"worker\":{}}}");
	assert_int_equal(tfc__job_strategy(job), TFC_STRATEGY_NONE);
	assert_false(tfc__role_has_port(job, &job->roles[0]));
	tfc_job_free(job);
}

static void a_job_without_file_name_gives_the_line_alone(void **state)
{
	tfc_job *job = NULL;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc_job_parse("{\n\"a\":1}", 8, NULL, &error, &job), TFC_EINVAL);
	assert_string_equal(error.text, "line 2: a: unknown key");
	assert_int_equal(tfc_job_parse("{", 1, NULL, NULL, &job), TFC_EPARSE);
	assert_null(job);
}

/* Each variable is looked for among all others. */
static void an_environment_of_too_many_variables_is_refused(void **state)
{
	for (int count = 4096; count <= 4097; count++) {
		char *json = NULL;
		size_t size = 0;
		tfc_error error = TFC_ERROR_INIT;
		tfc_job *job = NULL;
		FILE *file = open_memstream(&json, &size);
		assert_non_null(file);
		fprintf(file, "{\"argv\": [\"a\"], \"roles\": {\"worker\": {}}, \"env\": {");
		for (int i = 0; i < count; i++)
			fprintf(file, "%s\"A%d\": \"\"", i ? ", " : "", i);
		fprintf(file, "}}");
		assert_int_equal(fclose(file), 0);
		int code = tfc_job_parse(json, size, NULL, &error, &job);
		assert_int_equal(code, count > 4096 ? TFC_EINVAL : TFC_OK);
		if (code < 0)
			assert_non_null(strstr(error.text, "has 4097 entries"));
		tfc_job_free(job);
		free(json);
	}
}

/* Whatever a key is given, the answer is a job or a sentence. */
static void every_key_takes_a_value_or_says_why_not(void **state)
{
	static const char *const values[] = {"null",  "true",  "-1",   "0.5",
					     "1e300", "\"x\"", "[[]]", "{\"x\": []}"};
	for (int is_role = 0; is_role < 2; is_role++) {
		const struct tfc__json_keys *keys = is_role ? &tfc__role_keys : &tfc__job_keys;
		for (size_t i = 0; i < keys->count * 8; i++) {
			tfc_job *job = NULL;
			tfc_error error = TFC_ERROR_INIT;
			char path[128];
			assert_int_equal(tfc_job_new(&job), TFC_OK);
			snprintf(path, sizeof(path), "%s%s", is_role ? "roles.worker." : "",
				 keys->items[i / 8].path);
			int code = tfc_job_set(job, path, values[i % 8], &error);
			if (code < 0 && !strstr(error.text, path))
				fail_msg("%s %s: %s", path, values[i % 8], error.text);
			tfc_job_free(job);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_environment_of_too_many_variables_is_refused),
		cmocka_unit_test(the_sample_of_the_manual_parses),
		cmocka_unit_test(what_is_left_out_has_its_default),
		cmocka_unit_test(stall_s_auto_watches_the_tasks_whose_output_is_the_progress),
		cmocka_unit_test(a_role_overrides_single_keys_of_restart_in_any_order),
		cmocka_unit_test(secrets_keep_their_name_when_the_value_is_the_hosts),
		cmocka_unit_test(what_is_wrong_is_named_with_its_line),
		cmocka_unit_test(no_sentence_shows_a_secret),
		cmocka_unit_test(no_wrong_type_shows_a_secret),
		cmocka_unit_test(what_does_not_fit_together_is_refused),
		cmocka_unit_test(a_mistyped_placeholder_is_refused),
		cmocka_unit_test(a_role_of_another_name_must_be_called_a_sidecar),
		cmocka_unit_test(a_mistyped_role_is_reported_before_the_role_that_it_misses),
		cmocka_unit_test(variables_without_effect_are_refused),
		cmocka_unit_test(variables_of_the_frameworks_are_refused),
		cmocka_unit_test(a_stored_job_is_not_checked_for_typos),
		cmocka_unit_test(a_role_without_program_is_refused),
		cmocka_unit_test(combinations_that_make_sense_are_accepted),
		cmocka_unit_test(strategy_and_ports_follow_the_roles),
		cmocka_unit_test(a_job_without_file_name_gives_the_line_alone),
		cmocka_unit_test(every_key_takes_a_value_or_says_why_not),
	};
	return cmocka_run_group_tests_name("job_parse", tests, NULL, NULL);
}
