/* node: what a task is given, and what is said when it cannot be run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/strv.h"
#include "leaks.h"
#include "node_run.h"
#include <tfcluster/log.h>

static const char *const host_env[] = {
	"PATH=/usr/bin:/bin",    "BASE=base",       "OVER=base",  "TOKEN=from-host",
	"http_proxy=a",          "HTTPS_PROXY=b",   "no_proxy=c", "TF_GRPC_REUSE_PORT=1",
	"TF_CONFIG={\"old\":1}", "PYTHONPATH=/old", NULL,
};

/* The environment that a task printed. */
struct printed {
	char *text;
	char **env;
};

static struct printed read_env(const struct follower *follower, const char *task)
{
	struct printed printed = {.text = node_output(follower, task, TFC_STREAM_STDOUT)};
	struct tfc__strv env = {0};
	for (char *line = strtok(printed.text, "\n"); line; line = strtok(NULL, "\n"))
		tfc__strv_add(&env, line);
	printed.env = tfc__strv_steal(&env);
	return printed;
}

static void free_env(struct printed *printed)
{
	free(printed->text);
	for (char **item = printed->env; *item; item++)
		free(*item);
	free(printed->env);
}

static const char *get(const struct printed *printed, const char *name)
{
	return tfc__env_get((const char *const *)printed->env, name);
}

static void expect(const struct printed *printed, const char *name, const char *value)
{
	const char *is = get(printed, name);
	if (!value && is)
		fail_msg("%s is %s", name, is);
	if (value && (!is || strcmp(is, value) != 0))
		fail_msg("%s is %s, not %s", name, is ? is : "unset", value);
}

static void environment_is_put_together_as_promised(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct answer answer = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.env = host_env;
	node_run_begin(&run, &options);
	char *json =
		node_json("{'strategy':'parameter_server','argv':['%s','listen','env'],'success':'"
			  "all_workers',"
			  "'env':{'OVER':'job','JOBVAR':'{task_type}-{task_index} {port} {x}'},"
			  "'secret_env':{'TOKEN':null,'GIVEN':'in-job'},"
			  "'roles':{'chief':{'env':{'TF_GRPC_DEFAULT_OPTIONS':'a=1'}},"
			  "'worker':{'count':2,'env':{'OVER':'role'}},"
			  "'ps':{'argv':['%s','listen','wait']}}}",
			  node_task_program(), node_task_program());
	node_start(&run, json, &follower);
	node_await_end(&run, &follower);
	struct printed chief = read_env(&follower, "chief/0");
	struct printed worker = read_env(&follower, "worker/1");
	const struct seen_event *started = node_find(&follower, TFC_EVENT_TASK, "worker/1",
						     TFC_TASK_STARTING, 0);
	assert_non_null(started);
	const char *port = strrchr(started->address, ':') + 1;
	char jobvar[64];
	snprintf(jobvar, sizeof(jobvar), "worker-1 %s {x}", port);
	expect(&worker, "BASE", "base");
	expect(&worker, "OVER", "role");
	expect(&worker, "JOBVAR", jobvar);
	expect(&worker, "TOKEN", "from-host");
	expect(&worker, "GIVEN", "in-job");
	expect(&worker, "http_proxy", NULL);
	expect(&worker, "HTTPS_PROXY", NULL);
	expect(&worker, "no_proxy", NULL);
	expect(&worker, "TF_GRPC_REUSE_PORT", NULL);
	expect(&worker, "PYTHONUNBUFFERED", "1");
	expect(&worker, "PYTHONPATH", "/old");
	expect(&worker, "GRPC_FAIL_FAST", "use_caller");
	expect(&worker, "TF_GRPC_DEFAULT_OPTIONS", "grpc.initial_reconnect_backoff_ms=100");
	expect(&chief, "TF_GRPC_DEFAULT_OPTIONS", "a=1");
	expect(&worker, "TFC_JOB", follower.job);
	expect(&worker, "TFC_TASK_TYPE", "worker");
	expect(&worker, "TFC_TASK_INDEX", "1");
	expect(&worker, "TFC_ATTEMPT", "1");
	expect(&worker, "TFC_EPOCH", "1");
	expect(&worker, "TFC_GENERATION", "1");
	expect(&worker, "TFC_PORT", port);
	expect(&worker, "TFC_ADDRESS", started->address);
	assert_non_null(strstr(get(&worker, "TFC_LOG_DIR"), follower.job));
	assert_int_equal(tfc_gateway_tf_config(run.gateway, follower.job, "worker/1", NULL,
					       node_answer, &answer, NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, 0);
	expect(&worker, "TF_CONFIG", answer.text);
	assert_non_null(strstr(answer.text, started->address));
	node_answer_clear(&answer);
	free_env(&chief);
	free_env(&worker);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void a_base_environment_that_is_none_is_refused(void **state)
{
	tfc_ctx_options ctx_options = TFC_CTX_OPTIONS_INIT;
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_ctx *ctx;
	tfc_node *node = NULL;
	assert_int_equal(tfc_ctx_new(&ctx_options, NULL, &ctx), TFC_OK);
	options.base_env = TFC_BASE_ENV_NODE + 1;
	assert_int_equal(tfc_node_open(ctx, &options, &node), TFC_EINVAL);
	assert_string_equal(tfc_ctx_error(ctx)->text,
			    "tfc_node_options.base_env is 3, which is not in enum tfc_base_env");
	assert_null(node);
	tfc_ctx_free(ctx);
}

static void a_task_outside_the_cluster_has_no_place_in_it(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'argv':['%s','env'],'env':{'OVER':'job'},'roles':{'driver':{}}}",
			       node_task_program());
	const struct seen_event *end = node_run_job(&run, json, &follower);
	assert_int_equal(end->event.job_state, TFC_JOB_SUCCEEDED);
	struct printed driver = read_env(&follower, "driver/0");
	expect(&driver, "OVER", "job");
	expect(&driver, "TF_CONFIG", NULL);
	expect(&driver, "TFC_PORT", NULL);
	free_env(&driver);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* What a job with ranks prints, of which rank 1 was killed once. */
static void run_ranks(struct node_run *run, const char *framework, struct follower *follower)
{
	static const char *const launcher_env[] = {
		"PATH=/usr/bin:/bin",
		"TORCHELASTIC_USE_AGENT_STORE=True",
		"TORCHELASTIC_ERROR_FILE=/of/torchrun",
		"RANK=77",
		"OMPI_MCA_orte_hnp_uri=1.0;tcp://192.0.2.1:1",
		"JAX_LOCAL_DEVICE_IDS=0,1",
		NULL,
	};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.env = launcher_env;
	node_run_begin(run, &options);
	char *json = node_json(
		"{'framework':'%s','restart':{'max':7},'argv':['/bin/sh','-c',"
		"'[ $TFC_GENERATION$TFC_TASK_INDEX != 11 ] || kill -9 $$; "
		"[ $TFC_GENERATION = 2 ] || exec %s wait; exec %s env'],"
		"'roles':{'worker':{'count':2},'helper':{'sidecar':true,'argv':['%s','env']}}}",
		framework, node_task_program(), node_task_program(), node_task_program());
	const struct seen_event *end = node_run_job(run, json, follower);
	assert_int_equal(end->event.job_state, TFC_JOB_SUCCEEDED);
	free(json);
}

static void pytorch_ranks_learn_how_often_their_group_was_restarted(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	run_ranks(&run, "pytorch", &follower);
	struct printed rank = read_env(&follower, "worker/1"),
		       helper = read_env(&follower, "helper/0");
	const struct seen_event *first = node_find(&follower, TFC_EVENT_TASK, "worker/0",
						   TFC_TASK_STARTING, 0);
	expect(&rank, "RANK", "1");
	expect(&rank, "WORLD_SIZE", "2");
	expect(&rank, "LOCAL_RANK", "1");
	expect(&rank, "MASTER_ADDR", "127.0.0.1");
	expect(&rank, "MASTER_PORT", strrchr(first->address, ':') + 1);
	expect(&rank, "TORCHELASTIC_RUN_ID", follower.job);
	expect(&rank, "TORCHELASTIC_RESTART_COUNT", "1");
	expect(&rank, "TORCHELASTIC_MAX_RESTARTS", "7");
	expect(&rank, "TORCHELASTIC_USE_AGENT_STORE", "False");
	expect(&rank, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
	expect(&rank, "OMP_NUM_THREADS", "1");
	expect(&rank, "TF_CONFIG", NULL);
	expect(&helper, "RANK", "77");
	expect(&helper, "MASTER_ADDR", NULL);
	expect(&helper, "TORCHELASTIC_RUN_ID", NULL);
	expect(&helper, "OMP_NUM_THREADS", NULL);
	expect(&helper, "TORCH_NCCL_ASYNC_ERROR_HANDLING", NULL);
	expect(&helper, "TFC_ATTEMPT", "1");
	free_env(&rank);
	free_env(&helper);
	node_follow_end(&follower);
	node_run_end(&run);
}

static struct printed read_only_rank(struct node_run *run, struct follower *follower,
				     const char *env)
{
	char *json = node_json("{'framework':'pytorch','argv':['%s','env'],'env':{%s},"
			       "'roles':{'worker':{}}}",
			       node_task_program(), env);
	const struct seen_event *end = node_run_job(run, json, follower);
	assert_int_equal(end->event.job_state, TFC_JOB_SUCCEEDED);
	free(json);
	return read_env(follower, "worker/0");
}

/* A rank that is alone on its host may use all of its cores, as under torchrun. */
static void pytorch_defaults_yield_to_the_jobs_own(void **state)
{
	static const char *const given = "'OMP_NUM_THREADS':'3',"
					 "'TORCH_NCCL_ASYNC_ERROR_HANDLING':'0'";
	struct node_run run;
	struct follower alone = {0}, own = {0};
	node_run_begin(&run, NULL);
	struct printed rank = read_only_rank(&run, &alone, "");
	expect(&rank, "LOCAL_WORLD_SIZE", "1");
	expect(&rank, "OMP_NUM_THREADS", NULL);
	free_env(&rank);
	rank = read_only_rank(&run, &own, given);
	expect(&rank, "OMP_NUM_THREADS", "3");
	expect(&rank, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "0");
	free_env(&rank);
	node_follow_end(&alone);
	node_follow_end(&own);
	node_run_end(&run);
}

static void jax_ranks_do_not_believe_the_hosts_own_launcher(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct answer answer = {0};
	run_ranks(&run, "jax", &follower);
	struct printed rank = read_env(&follower, "worker/1");
	const struct seen_event *first = node_find(&follower, TFC_EVENT_TASK, "worker/0",
						   TFC_TASK_STARTING, 0);
	expect(&rank, "JAX_COORDINATOR_ADDRESS", first->address);
	expect(&rank, "SLURM_PROCID", "1");
	expect(&rank, "OMPI_MCA_orte_hnp_uri", NULL);
	expect(&rank, "JAX_LOCAL_DEVICE_IDS", "0,1");
	expect(&rank, "TORCHELASTIC_RESTART_COUNT", NULL);
	assert_int_equal(tfc_gateway_tf_config(run.gateway, follower.job, "worker/1", NULL,
					       node_answer, &answer, NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_ENOTSUP);
	assert_string_equal(answer.error, "worker/1: the job's framework does not use TF_CONFIG");
	node_answer_clear(&answer);
	free_env(&rank);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* Runs a job that ends with one failing task and returns the END event. */
static const struct seen_event *run_one(struct node_run *run, struct follower *follower,
					const char *keys)
{
	char *json = node_json("{'framework':'none',%s}", keys);
	const struct seen_event *end = node_run_job(run, json, follower);
	free(json);
	return end;
}

static void what_cannot_run_ends_with_its_sentence(void **state)
{
	static const struct {
		const char *keys;
		uint32_t reason;
		const char *text;
	} cases[] = {
		{"'argv':['/no/such'],'roles':{'worker':{}}", TFC_END_NOT_FOUND, "/no/such"},
		{"'argv':['/etc/passwd'],'roles':{'worker':{}}", TFC_END_NOT_EXECUTABLE,
		 "/etc/passwd"},
		{"'argv':['/bin/true'],'cwd':'/no/dir','roles':{'worker':{}}", TFC_END_REFUSED,
		 "working directory"},
		{"'argv':['/bin/true'],'secret_env':{'NOT_THERE':null},'roles':{'worker':{}}",
		 TFC_END_REFUSED, "secret_env.NOT_THERE"},
	};
	struct node_run run;
	node_run_begin(&run, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct follower follower = {0};
		const struct seen_event *end = run_one(&run, &follower, cases[i].keys);
		assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
		assert_int_equal(end->event.reason, cases[i].reason);
		assert_string_equal(end->task, "worker/0");
		if (!strstr(end->text, cases[i].text))
			fail_msg("%s does not say %s", end->text, cases[i].text);
		node_follow_end(&follower);
	}
	node_run_end(&run);
}

static void argv_is_wrapped_and_its_placeholders_replaced(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	run_one(&run, &follower,
		"'argv':['echo','{task_type}/{task_index}','{attempt}','{job}','{{x}}','{no}'],"
		"'cwd':'/usr','roles':{'worker':{'wrap':['/bin/sh','-c','pwd; exec \\\"$@\\\"',"
		"'{task_type}']}}");
	char *output = node_output(&follower, "worker/0", 0);
	char expected[128];
	snprintf(expected, sizeof(expected), "/usr\nworker/0 1 %s {{x}} {no}\n", follower.job);
	assert_string_equal(output, expected);
	free(output);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* "python" is echo here: it prints the arguments that Python would have received. */
static void servers_and_tensorboard_are_python_programs(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	char expected[128];
	options.python = "/bin/echo";
	node_run_begin(&run, &options);
	char *json = node_json(
		"{'argv':['%s','wait'],'grace_s':0.2,'roles':{'worker':{},"
		"'ps':{'server':true},'driver':{},'tensorboard':{'log_dir':'/data/logs'}}}",
		node_task_program());
	node_start(&run, json, &follower);
	node_await_task(&run, &follower, "ps/0", TFC_TASK_EXITED, 0);
	node_await_task(&run, &follower, "tensorboard/0", TFC_TASK_EXITED, 0);
	const struct seen_event *board = node_find(&follower, TFC_EVENT_TASK, "tensorboard/0",
						   TFC_TASK_STARTING, 0);
	assert_non_null(board);
	snprintf(expected, sizeof(expected),
		 "-m tensorboard.main --logdir /data/logs --host 127.0.0.1 --port %s\n",
		 strrchr(board->address, ':') + 1);
	char *output = node_output(&follower, "tensorboard/0", 0);
	assert_string_equal(output, expected);
	free(output);
	output = node_output(&follower, "ps/0", 0);
	assert_int_equal(strncmp(output, "-c ", 3), 0);
	assert_non_null(strstr(output, "tf.distribute.Server("));
	free(output);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* ---- hooks */

struct hooks {
	int before;
	int after;
	int refuse;
	struct node_run *run;
	const char *stops; /* this job, from inside */
};

static int before_launch(void *user, const tfc_task_info *task, tfc_env *env)
{
	struct hooks *hooks = user;
	hooks->before++;
	assert_int_equal(task->host_tag_len, 3);
	assert_memory_equal(task->host_tag, "tag", 3);
	assert_string_equal(task->task_type, "worker");
	assert_int_equal(task->attempt, 1);
	assert_int_equal(tfc_env_set(env, "ADDED", "by-hook"), 0);
	assert_int_equal(tfc_env_set(env, "REMOVED", NULL), 0);
	assert_int_equal(tfc_env_set(env, "NEVER", NULL), 0);
	assert_int_equal(tfc_env_set(env, "A=B", "x"), TFC_EINVAL);
	if (hooks->stops) {
		static struct answer answer;
		assert_int_equal(tfc_gateway_stop(hooks->run->gateway, hooks->stops, NULL,
						  node_answer, &answer, NULL),
				 0);
		free(answer.text);
		answer.text = NULL;
	}
	return hooks->refuse;
}

static void after_exit(void *user, const tfc_task_info *task)
{
	struct hooks *hooks = user;
	hooks->after++;
	assert_int_equal(task->host_tag_len, 3);
}

static void submit_tagged(struct node_run *run, const char *json, struct follower *follower)
{
	struct answer answer = {0};
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	options.host_tag = "tag";
	options.host_tag_len = 3;
	node_submit_for(run, json, &options, &answer);
	node_follow(run, answer.text, NULL, follower);
	node_await_end(run, follower);
	node_answer_clear(&answer);
}

static void hooks_add_remove_and_refuse(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct hooks hooks = {.run = &run};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	const tfc_node_hooks table = {.size = sizeof(table),
				      .user = &hooks,
				      .before_launch = before_launch,
				      .after_exit = after_exit};
	options.hooks = &table;
	node_run_begin(&run, &options);
	char *json = node_json("{'framework':'none','argv':['%s','env'],'env':{'REMOVED':'1'},"
			       "'roles':{'worker':{}}}",
			       node_task_program());
	submit_tagged(&run, json, &follower);
	struct printed env = read_env(&follower, "worker/0");
	expect(&env, "ADDED", "by-hook");
	expect(&env, "REMOVED", NULL);
	free_env(&env);
	assert_int_equal(hooks.before, 1);
	assert_int_equal(hooks.after, 1);
	node_follow_end(&follower);
	hooks.refuse = TFC_EACCES;
	submit_tagged(&run, json, &follower);
	const struct seen_event *end = node_find(&follower, TFC_EVENT_END, NULL, 0, 0);
	assert_int_equal(end->event.job_state, TFC_JOB_FAILED);
	assert_int_equal(end->event.reason, TFC_END_REFUSED);
	assert_non_null(strstr(end->text, "before_launch"));
	assert_int_equal(hooks.after, 1);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

/* The job is in the middle of launching its gang when its own hook stops it. */
static void a_hook_may_stop_its_job(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct hooks hooks = {.run = &run, .stops = "mine"};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	const tfc_node_hooks table = {.size = sizeof(table),
				      .user = &hooks,
				      .before_launch = before_launch};
	options.hooks = &table;
	node_run_begin(&run, &options);
	char *json = node_json("{'name':'mine','framework':'none','argv':['%s','wait'],"
			       "'roles':{'worker':{'count':3}}}",
			       node_task_program());
	submit_tagged(&run, json, &follower);
	const struct seen_event *end = node_find(&follower, TFC_EVENT_END, NULL, 0, 0);
	assert_int_equal(end->event.job_state, TFC_JOB_STOPPED);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

static void logs_are_kept_where_they_were_requested(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	char dir[LEAKS_PATH], path[128];
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	leaks_make_dir(dir);
	options.log_dir = dir;
	node_run_begin(&run, &options);
	run_one(&run, &follower, "'argv':['/bin/echo','kept'],'roles':{'worker':{}}");
	snprintf(path, sizeof(path), "grep -q kept %s/%s/worker-0.*.log", dir, follower.job);
	node_follow_end(&follower);
	node_run_end(&run);
	assert_int_equal(system(path), 0);
	snprintf(path, sizeof(path), "rm -r %s", dir);
	assert_int_equal(system(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(environment_is_put_together_as_promised),
		cmocka_unit_test(a_base_environment_that_is_none_is_refused),
		cmocka_unit_test(a_task_outside_the_cluster_has_no_place_in_it),
		cmocka_unit_test(pytorch_ranks_learn_how_often_their_group_was_restarted),
		cmocka_unit_test(pytorch_defaults_yield_to_the_jobs_own),
		cmocka_unit_test(jax_ranks_do_not_believe_the_hosts_own_launcher),
		cmocka_unit_test(what_cannot_run_ends_with_its_sentence),
		cmocka_unit_test(argv_is_wrapped_and_its_placeholders_replaced),
		cmocka_unit_test(servers_and_tensorboard_are_python_programs),
		cmocka_unit_test(hooks_add_remove_and_refuse),
		cmocka_unit_test(a_hook_may_stop_its_job),
		cmocka_unit_test(logs_are_kept_where_they_were_requested),
	};
	return cmocka_run_group_tests_name("node_environ", tests, NULL, NULL);
}
