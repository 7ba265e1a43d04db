#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "job/job_keys.h"
#include "spec/expand.h"
#include "tensorflow_server.h"

/* ---- the base: the host's environment; for a job from the network, what the operator passes on */

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DEFAULT_LANG "C.UTF-8"

/* Variables that programs need to find the libraries and devices of this machine. */
static const char *const default_pass[] = {"LD_LIBRARY_PATH", "CUDA_*", "NVIDIA_*", NULL};

static bool is_env_passed(const char *const *names, const char *variable)
{
	size_t len = strcspn(variable, "=");
	for (; *names; names++) {
		size_t named = strlen(*names);
		bool is_prefix = named && (*names)[named - 1] == '*';
		if (is_prefix ? len >= named - 1 && strncmp(*names, variable, named - 1) == 0
			      : len == named && strncmp(*names, variable, len) == 0)
			return true;
	}
	return false;
}

static void env_set_or(struct tfc__strv *env, const char *name, const char *value,
		       const char *fallback)
{
	tfc__strv_set_env(env, name, value ? value : fallback);
}

/* HOME, USER and LOGNAME from the user database, or else from this process's environment. */
static int env_add_user(const struct tfc__agent *agent, struct tfc__strv *env)
{
	const char *const *own = (const char *const *)agent->env.items;
	char number[16];
	struct tfc__user user;
	snprintf(number, sizeof(number), "%u", geteuid());
	int code = tfc__user_find(number, TFC__PASSWD_FILE, TFC__GROUP_FILE, NULL, &user);
	bool is_known = code == TFC_OK;
	const char *name = is_known ? user.name : tfc__env_get(own, "USER");
	env_set_or(env, "HOME", is_known ? user.home : tfc__env_get(own, "HOME"), "/");
	env_set_or(env, "USER", name, number);
	env_set_or(env, "LOGNAME", name, number);
	tfc__user_fini(&user);
	return code == TFC_ENOMEM ? code : TFC_OK;
}

int tfc__base_environ_open(struct tfc__agent *agent, const struct tfc__agent_options *options,
			   tfc_error *error)
{
	const char *const *pass = options->pass_env ? options->pass_env : default_pass;
	const char *const *own = (const char *const *)agent->env.items;
	struct tfc__strv *env = &agent->network_env;
	if (options->is_env_for_all) {
		tfc__strv_add_all(env, own);
		return env->is_failed ? tfc__fail_nomem(error, "agent") : TFC_OK;
	}
	env_set_or(env, "PATH", tfc__env_get(own, "PATH"), DEFAULT_PATH);
	env_set_or(env, "LANG", tfc__env_get(own, "LANG"), DEFAULT_LANG);
	int code = env_add_user(agent, env);
	for (size_t i = 0; i < agent->env.count; i++)
		if (is_env_passed(pass, agent->env.items[i]))
			tfc__strv_add(env, agent->env.items[i]);
	return code < 0 || env->is_failed ? tfc__fail_nomem(error, "agent") : TFC_OK;
}

const struct tfc__strv *tfc__base_environ(const struct agent_task *task)
{
	const struct tfc__agent *agent = task->job->agent;
	return task->job->info.has_minimal_env ? &agent->network_env : &agent->env;
}

/* ---- additions */

/* The public tfc_env, for the host's hook. */
struct tfc_env {
	struct tfc__strv strv;
};

int tfc_env_set(tfc_env *env, const char *name, const char *value)
{
	if (!env || !name || !*name || strchr(name, '='))
		return TFC_EINVAL;
	if (value)
		tfc__strv_set_env(&env->strv, name, value);
	else
		tfc__strv_unset_env(&env->strv, name);
	return env->strv.is_failed ? TFC_ENOMEM : TFC_OK;
}

/*
 * Variables of the host that would change how the task communicates: gRPC sends cluster traffic
 * through proxies; TF_GRPC_REUSE_PORT lets a foreign listener share TensorFlow's port; and a
 * TF_CONFIG of the host is not this task's.
 */
static const char *const stripped[] = {
	"http_proxy", "https_proxy", "grpc_proxy",         "all_proxy",
	"no_proxy",   "ftp_proxy",   "TF_GRPC_REUSE_PORT", "TF_CONFIG",
};

static bool is_env_stripped(const char *variable)
{
	for (size_t i = 0; i < sizeof(stripped) / sizeof(stripped[0]); i++) {
		size_t len = strlen(stripped[i]);
		if (strncasecmp(variable, stripped[i], len) == 0 && variable[len] == '=')
			return true;
	}
	return false;
}

static struct tfc__expand task_expansion(const struct agent_task *task, const tfc_spec *spec)
{
	return (struct tfc__expand){
		.spec = spec,
		.hosts = (const char *const *)task->job->hosts.items,
		.job = task->job->info.id,
		.task_type = task->role->name,
		.task_index = task->index,
		.attempt = task->attempt,
		.address = task->address ? task->address : "",
		.left = TFC__EXPAND_MAX,
	};
}

/* What the job file has in argv, wrap or env of the job or of a role. */
struct job_list {
	const struct tfc__role *role; /* NULL: the job's */
	const char *key;
	const struct tfc__strv *items;
	bool is_env;
};

/* Appends the arguments or variables, with placeholders replaced. */
static int add_expanded(struct tfc__strv *to, const struct job_list *from,
			struct tfc__expand *values, tfc_error *error)
{
	for (size_t i = 0; i < from->items->count; i++) {
		struct tfc__key_path where = {0};
		tfc_error why = TFC_ERROR_INIT;
		char *text = NULL;
		int code = tfc__expand(values, from->items->items[i], &why, &text);
		if (code == TFC_OK) {
			tfc__strv_take(to, text);
			continue;
		}
		if (from->role) {
			tfc__key_path_push(&where, "roles");
			tfc__key_path_push(&where, from->role->name);
		}
		tfc__key_path_push(&where, from->key);
		if (from->is_env)
			tfc__key_path_push_variable(&where, from->items->items[i]);
		else
			tfc__key_path_push_element(&where, i);
		return tfc__key_fail(&where, error, code, "%s", why.text);
	}
	return TFC_OK;
}

/* A secret is NAME=value, taken literally, or NAME: its value is in the base environment. */
static int env_add_secrets(const struct agent_task *task, const struct tfc__strv *from,
			   struct tfc__strv *env, tfc_error *error)
{
	const char *const *base = (const char *const *)tfc__base_environ(task)->items;
	for (size_t i = 0; i < from->count; i++) {
		const char *item = from->items[i];
		const char *equals = strchr(item, '=');
		const char *value = equals ? equals + 1 : tfc__env_get(base, item);
		if (!value)
			return tfc__fail(
				error, TFC_ENOENT, "agent", 0,
				"secret_env.%s: the submitter gave no value and the node has none; "
				"give a value, or set the variable on the node (pass_env)",
				item);
		char *name = strndup(item, equals ? (size_t)(equals - item) : strlen(item));
		if (name)
			tfc__strv_set_env(env, name, value);
		env->is_failed |= !name;
		free(name);
	}
	return TFC_OK;
}

static void env_set_number(struct tfc__strv *env, const char *name, uint64_t number)
{
	char text[24];
	snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	tfc__strv_set_env(env, name, text);
}

static void env_set_default(struct tfc__strv *env, const char *name, const char *value)
{
	if (!tfc__env_get((const char *const *)env->items, name))
		tfc__strv_set_env(env, name, value);
}

/*
 * What torchrun sets besides the variables that follow from the spec: torch/distributed/run.py and
 * torch/distributed/elastic/agent/server/local_elastic_agent.py of 1.13.1, and of 2.2 and later,
 * where the NCCL variable has the prefix TORCH_ (the older name causes a warning there).
 */
static void env_add_torchrun(const struct agent_task *task, struct tfc__strv *env)
{
	char *error_file = tfc__error_file_path(task);
	tfc__strv_set_env(env, "TORCHELASTIC_RUN_ID", task->job->info.id);
	env_set_number(env, "TORCHELASTIC_RESTART_COUNT", task->generation - 1);
	env_set_number(env, "TORCHELASTIC_MAX_RESTARTS", task->role->restart.max);
	tfc__strv_set_env(env, "TORCHELASTIC_USE_AGENT_STORE", "False");
	tfc__strv_unset_env(env, "TORCHELASTIC_ERROR_FILE");
	if (error_file)
		tfc__strv_set_env(env, "TORCHELASTIC_ERROR_FILE", error_file);
	free(error_file);
	env_set_default(env, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
	const char *local_ranks = tfc__env_get((const char *const *)env->items, "LOCAL_WORLD_SIZE");
	if (local_ranks && strcmp(local_ranks, "1") != 0) /* NULL: no memory, reported later */
		env_set_default(env, "OMP_NUM_THREADS", "1");
}

/*
 * A worker outlives its ps. Its gRPC channel connects again as soon as the ps has died, fails, and
 * then fails each call at once until a back-off is over: 1 s by default. A ps and a coordinator
 * that are forked are back earlier, and the coordinator would end with an error. 100 ms is the
 * least that gRPC accepts. TensorFlow reads this when it creates its first channel (tsl,
 * distributed_runtime/rpc/grpc_channel.cc).
 */
static void env_add_reconnect(struct tfc__strv *env)
{
	env_set_default(env, "TF_GRPC_DEFAULT_OPTIONS", "grpc.initial_reconnect_backoff_ms=100");
}

/* The variables of the framework that follow from the spec, and those of its own launcher. */
static int env_add_framework(const struct agent_task *task, const tfc_spec *spec,
			     struct tfc__strv *env, tfc_error *error)
{
	const tfc_job *job = task->job->info.job;
	bool is_in_cluster = tfc__role_is_in_cluster(task->role->name);
	tfc_spec *part = NULL;
	char **variables = NULL;
	int code = TFC_OK;
	if (tfc__role_sees_part(job, task->role))
		code = tfc_spec_part(spec, task->index, error, &part);
	if (code == TFC_OK)
		code = tfc_spec_environ(part ? part : spec, (enum tfc_framework)job->framework,
					tfc__job_strategy(job), task->role->name, task->index,
					error, &variables);
	tfc_spec_free(part);
	if (code < 0)
		return code;
	/* If mpirun started the host, JAX would use that cluster before any other. */
	if (is_in_cluster && job->framework == TFC_FRAMEWORK_JAX)
		tfc__strv_unset_env(env, "OMPI_MCA_orte_hnp_uri");
	for (char **variable = variables; *variable; variable++)
		tfc__strv_set_variable(env, *variable);
	free(variables);
	if (is_in_cluster && job->framework == TFC_FRAMEWORK_PYTORCH)
		env_add_torchrun(task, env);
	if (tfc__job_strategy(job) == TFC_STRATEGY_PARAMETER_SERVER)
		env_add_reconnect(env);
	return TFC_OK;
}

void tfc__agent_set_env(struct tfc__agent_job *job, uint32_t task, const char *const *env)
{
	struct tfc__strv *extra = &job->tasks[task].extra_env;
	tfc__strv_fini(extra);
	*extra = (struct tfc__strv){0};
	tfc__strv_add_all(extra, env);
}

static void env_add_own(const struct agent_task *task, struct tfc__strv *env)
{
	tfc__strv_set_env(env, "TFC_JOB", task->job->info.id);
	tfc__strv_set_env(env, "TFC_TASK_TYPE", task->role->name);
	env_set_number(env, "TFC_TASK_INDEX", task->index);
	env_set_number(env, "TFC_ATTEMPT", task->attempt);
	env_set_number(env, "TFC_EPOCH", task->job->info.epoch);
	env_set_number(env, "TFC_GENERATION", task->generation);
	tfc__strv_set_env(env, "TFC_LOG_DIR", task->job->log_dir);
	if (task->port) {
		env_set_number(env, "TFC_PORT", task->port);
		tfc__strv_set_env(env, "TFC_ADDRESS", task->address);
	}
	if (tfc__stall_ms(task))
		env_set_number(env, "TFC_PROGRESS_FD", 3); /* see tfc_process_options.stall_ms */
	if (task->job->info.job->reports)
		env_set_number(env, "TFC_REPORT_FD", 4); /* see tfc_process_options.has_reports */
	tfc__feed_add_environ(task, env);
	env_set_default(env, "PYTHONUNBUFFERED", "1");
}

/* Puts a directory, which it frees, first in PYTHONPATH. */
static void env_add_python_path(char *dir, struct tfc__strv *env)
{
	const char *older = tfc__env_get((const char *const *)env->items, "PYTHONPATH");
	char *path = NULL;
	if (dir && asprintf(&path, "%s%s%s", dir, older ? ":" : "", older ? older : "") < 0)
		path = NULL;
	if (path)
		tfc__strv_set_env(env, "PYTHONPATH", path);
	env->is_failed |= !path;
	free(path);
	free(dir);
}

int tfc__render_environ(struct agent_task *task, const tfc_spec *spec, struct tfc__strv *env,
			tfc_error *error)
{
	const tfc_job *job = task->job->info.job;
	const struct tfc__strv *base = tfc__base_environ(task), *extra = &task->extra_env;
	struct tfc__expand values = task_expansion(task, spec);
	int code;
	for (size_t i = 0; i < base->count; i++)
		if (!is_env_stripped(base->items[i]))
			tfc__strv_add(env, base->items[i]);
	tfc__limits_add_environ(task, env);
	const struct job_list of_job = {NULL, "env", &job->env, true};
	const struct job_list of_role = {task->role, "env", &task->role->env, true};
	if ((code = add_expanded(env, &of_job, &values, error)) < 0 ||
	    (code = add_expanded(env, &of_role, &values, error)) < 0)
		return code;
	tfc__strv_merge_env(env);
	if ((code = env_add_secrets(task, &job->secret_env, env, error)) < 0 ||
	    (code = env_add_secrets(task, &task->role->secret_env, env, error)) < 0 ||
	    (code = env_add_framework(task, spec, env, error)) < 0)
		return code;
	env->is_failed |= extra->is_failed;
	tfc__strv_add_all(env, (const char *const *)extra->items);
	tfc__strv_merge_env(env);
	env_add_own(task, env);
	tfc__gpus_add_environ(task, env);
	if (job->bundle)
		env_add_python_path(tfc__bundle_dir(task), env);
	if (tfc__stacks_are_wanted(task))
		env_add_python_path(tfc__stacks_dir(task), env);
	return env->is_failed ? tfc__fail_nomem(error, "agent") : TFC_OK;
}

/* ---- argv */

int tfc__render_argv(struct agent_task *task, const tfc_spec *spec, struct tfc__strv *argv,
		     tfc_error *error)
{
	const tfc_job *job = task->job->info.job;
	const struct tfc__role *role = task->role;
	const char *python = job->python ? job->python : task->job->agent->python;
	struct tfc__expand values = task_expansion(task, spec);
	const struct job_list wrap = {role, "wrap", &role->wrap, false};
	int code = add_expanded(argv, &wrap, &values, error);
	if (code < 0)
		return code;
	if (role->is_server) {
		const char *const server[] = {python, "-c", tfc__tensorflow_server, NULL};
		tfc__strv_add_all(argv, server);
	} else if (role->log_dir && role->argv.count == 0) {
		const char *host = task->job->agent->host;
		char port[8];
		snprintf(port, sizeof(port), "%u", task->port);
		const char *const tensorboard[] = {python,     "-m",          "tensorboard.main",
						   "--logdir", role->log_dir, "--host",
						   host,       "--port",      port,
						   NULL};
		tfc__strv_add_all(argv, tensorboard);
	} else {
		const struct job_list of_job = {NULL, "argv", &job->argv, false};
		const struct job_list of_role = {role, "argv", &role->argv, false};
		code = add_expanded(argv, role->argv.count ? &of_role : &of_job, &values, error);
	}
	if (code < 0)
		return code;
	return argv->is_failed ? tfc__fail_nomem(error, "agent") : TFC_OK;
}
