/*
 * Writes as JSON what a job would run with on this machine: ports, addresses, directories, argv and
 * environment of each task, rendered by the functions that a launch uses. Nothing is run or
 * created; the ports are held only for the duration of the call.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "job/job_keys.h"

static void add_string(struct tfc__buf *json, const char *key, const char *value)
{
	tfc__buf_addf(json, ",\"%s\":", key);
	tfc__buf_add_json_bytes(json, value, strlen(value));
}

/* Whether `item`, "NAME=value" or "NAME", has the name of `variable`. */
static bool is_name_of(const char *item, const char *variable)
{
	size_t len = strcspn(item, "=");
	return strncmp(item, variable, len) == 0 && variable[len] == '=';
}

static bool is_in(const struct tfc__strv *list, const char *variable)
{
	for (size_t i = 0; i < list->count; i++)
		if (is_name_of(list->items[i], variable))
			return true;
	return false;
}

static bool is_secret(const struct agent_task *task, const char *variable)
{
	return is_in(&task->job->info.job->secret_env, variable) ||
	       is_in(&task->role->secret_env, variable);
}

static bool is_inherited(const struct agent_task *task, const char *variable)
{
	const struct tfc__strv *base = tfc__base_environ(task);
	for (size_t i = 0; i < base->count; i++)
		if (strcmp(base->items[i], variable) == 0)
			return true;
	return false;
}

/*
 * Variables that the task inherits unchanged are only counted: their values are private to the
 * host.
 */
static void add_env(const struct agent_task *task, const struct tfc__strv *env,
		    struct tfc__buf *json)
{
	uint32_t inherited = 0, shown = 0;
	tfc__buf_add_str(json, ",\"env\":{");
	for (size_t i = 0; i < env->count; i++) {
		const char *variable = env->items[i];
		size_t len = strcspn(variable, "=");
		bool is_hidden = is_secret(task, variable);
		if (!is_hidden && is_inherited(task, variable)) {
			inherited++;
			continue;
		}
		if (shown++)
			tfc__buf_add_char(json, ',');
		tfc__buf_add_json_bytes(json, variable, len);
		tfc__buf_add_char(json, ':');
		if (is_hidden)
			tfc__buf_add_str(json, "null");
		else
			tfc__buf_add_json_bytes(json, variable + len + 1,
						strlen(variable + len + 1));
	}
	tfc__buf_addf(json, "},\"inherited\":%u", inherited);
}

static void add_argv(const struct tfc__strv *argv, struct tfc__buf *json)
{
	tfc__buf_add_str(json, ",\"argv\":[");
	for (size_t i = 0; i < argv->count; i++) {
		if (i)
			tfc__buf_add_char(json, ',');
		tfc__buf_add_json_bytes(json, argv->items[i], strlen(argv->items[i]));
	}
	tfc__buf_add_char(json, ']');
}

static int add_task(struct agent_task *task, const tfc_spec *spec, struct tfc__buf *json)
{
	struct tfc__strv argv = {0}, env = {0};
	char *cwd = tfc__agent_working_dir(task);
	task->attempt = task->generation = 1;
	int code = cwd ? tfc__render_argv(task, spec, &argv, task->error)
		       : tfc__fail_nomem(task->error, "agent");
	if (code == TFC_OK)
		code = tfc__render_environ(task, spec, &env, task->error);
	if (code == TFC_OK) {
		tfc__buf_addf(json, "{\"task\":\"%s/%u\"", task->role->name, task->index);
		add_string(json, "node", task->job->agent->name);
		add_string(json, "address", task->address ? task->address : "");
		tfc__buf_addf(json, ",\"port\":%u", task->port);
		add_string(json, "cwd", cwd);
		add_argv(&argv, json);
		add_env(task, &env, json);
		tfc__buf_add_char(json, '}');
	}
	tfc__strv_fini(&argv);
	tfc__strv_fini(&env);
	free(cwd);
	return code;
}

static int add_tasks(struct tfc__agent_job *job, const tfc_spec *spec, struct tfc__buf *json,
		     int (*grown)(void *user), void *user, tfc_error *error)
{
	for (uint32_t i = 0; i < job->task_count; i++) {
		struct agent_task *task = &job->tasks[i];
		if (i)
			tfc__buf_add_char(json, ',');
		int code = add_task(task, spec, json);
		if (code < 0)
			return tfc__fail(error, code, "agent", 0, "%s/%u: %s", task->role->name,
					 task->index, task->error->text);
		code = grown(user);
		if (code < 0)
			return code;
	}
	return TFC_OK;
}

static int hold_all(struct tfc__agent_job *job, tfc_error *error)
{
	uint32_t missing = 0;
	const struct agent_task *last = NULL;
	for (uint32_t i = 0; i < job->task_count; i++)
		if (tfc__agent_hold_port(&job->tasks[i]) < 0) {
			last = &job->tasks[i];
			missing++;
		}
	if (!missing)
		return TFC_OK;
	return tfc__fail(error, last->error->code, "agent", 0, "%u port%s missing: %s", missing,
			 missing == 1 ? " is" : "s are", last->error->text);
}

int tfc__agent_explain(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
		       struct tfc__buf *json, int (*grown)(void *user), void *user,
		       tfc_error *error)
{
	const struct tfc__json_key *strategy = tfc__keys_find(&tfc__job_keys, "strategy");
	struct tfc__agent_job *job;
	tfc_spec *spec = NULL;
	int code = tfc__agent_plan_job(agent, info, &job, error);
	if (code < 0)
		return code;
	code = hold_all(job, error);
	if (code == TFC_OK)
		code = tfc__agent_spec(job, error, &spec);
	if (code == TFC_OK) {
		tfc__buf_addf(json, "{\"strategy\":\"%s\"",
			      strategy->names[tfc__job_strategy(info->job)]);
		add_string(json, "name", info->job->name);
		tfc__buf_add_str(json, ",\"tasks\":[");
		code = add_tasks(job, spec, json, grown, user, error);
		tfc__buf_add_str(json, "]}");
	}
	tfc_spec_free(spec);
	tfc__agent_job_close(job);
	return code;
}
