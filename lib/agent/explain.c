/*
 * Finds what a job would run with: ports, addresses, directories, argv and
 * environment of each task, rendered by the functions that a launch uses. Nothing is run or
 * created; the ports are held only for the duration of the call.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/internal.h"
#include "base/fail.h"

/* Whether the list, of "NAME=value" or "NAME", has the name of the variable. */
static bool list_has_variable(const struct tfc__strv *list, const char *variable)
{
	for (size_t i = 0; i < list->count; i++) {
		size_t len = strcspn(list->items[i], "=");
		if (strncmp(list->items[i], variable, len) == 0 && variable[len] == '=')
			return true;
	}
	return false;
}

static bool is_env_inherited(const struct agent_task *task, const char *variable)
{
	const struct tfc__strv *base = tfc__base_environ(task);
	for (size_t i = 0; i < base->count; i++)
		if (strcmp(base->items[i], variable) == 0)
			return true;
	return false;
}

/* Variables that the task inherits unchanged are only counted, because their values are private to
 * the host; those of secret_env lose theirs. The result has the strings of `env`. NULL: no memory.
 */
static const char **visible_env(const struct agent_task *task, struct tfc__strv *env,
				uint32_t *ret_inherited)
{
	const char **visible = calloc(env->count + 1, sizeof(*visible));
	uint32_t inherited = 0, count = 0;
	for (size_t i = 0; visible && i < env->count; i++) {
		char *variable = env->items[i];
		bool is_hidden = list_has_variable(&task->job->info.job->secret_env, variable) ||
				 list_has_variable(&task->role->secret_env, variable);
		if (!is_hidden && is_env_inherited(task, variable)) {
			inherited++;
			continue;
		}
		if (is_hidden)
			variable[strcspn(variable, "=")] = '\0';
		visible[count++] = variable;
	}
	*ret_inherited = inherited;
	return visible;
}

static int plan_task(struct agent_task *task, const struct tfc__agent_place *place,
		     const tfc_spec *spec, tfc__agent_plan_fn fn, void *user, tfc_error *error)
{
	struct tfc__strv argv = {0}, env = {0};
	char *cwd = tfc__agent_working_dir(task);
	const char **visible = NULL;
	tfc_task_plan plan = {
		.task_type = task->role->name,
		.task_index = task->index,
		.node = place && place->node ? place->node : task->job->agent->name,
		.address = task->address ? task->address : "",
		.port = task->port,
		.cwd = cwd,
		.stall_ms = tfc__stall_ms(task),
		.memory_limit = tfc__role_memory_limit(task->role),
		.is_memory_limit_required = task->role->memory_limit &&
					    task->role->memory_limit != TFC__NO_LIMIT,
	};
	task->attempt = task->generation = 1;
	int code = cwd ? tfc__render_argv(task, spec, &argv, task->error)
		       : tfc__fail_nomem(task->error, "agent");
	if (code == TFC_OK)
		code = tfc__render_environ(task, spec, &env, task->error);
	if (code == TFC_OK && !(visible = visible_env(task, &env, &plan.inherited_count)))
		code = tfc__fail_nomem(task->error, "agent");
	if (code == TFC_OK) {
		plan.argv = (const char *const *)argv.items;
		plan.env = visible;
		code = fn(user, &plan);
	} else {
		tfc__fail(error, code, "agent", 0, "%s/%u: %s", task->role->name, task->index,
			  task->error->text);
	}
	free(visible);
	tfc__strv_fini(&argv);
	tfc__strv_fini(&env);
	free(cwd);
	return code;
}

/* The ports that tasks of the plan have for certain: those that were given and those held. */
struct plan_ports {
	uint8_t taken[65536 / 8];
	uint32_t examples; /* tried for the tasks on other nodes */
};

static void plan_take_port(struct plan_ports *ports, uint16_t port)
{
	ports->taken[port / 8] |= (uint8_t)(1 << port % 8);
}

static bool plan_is_elsewhere(const struct tfc__agent_place *place)
{
	return place && place->node;
}

/* A different port for each task, while there are any. */
static uint16_t plan_example_port(struct plan_ports *ports, const tfc_port_pool *pool)
{
	uint16_t port = 0;
	for (uint32_t left = 65536; left > 0; left--) {
		port = tfc__port_pool_example(pool, ports->examples++);
		if (!(ports->taken[port / 8] >> port % 8 & 1))
			break;
	}
	return port;
}

/* Only this node's own tasks get ports of this node's pool: every other node has its own pool, also
 * on this machine. */
static int plan_hold_ports(struct tfc__agent_job *job, const struct tfc__agent_place *places,
			   struct plan_ports *ports, tfc_error *error)
{
	uint32_t missing = 0;
	const struct agent_task *last = NULL;
	for (uint32_t i = 0; i < job->task_count; i++) {
		struct agent_task *task = &job->tasks[i];
		if (!plan_is_elsewhere(places ? &places[i] : NULL) &&
		    tfc__agent_hold_port(task) < 0) {
			last = task;
			missing++;
		}
		plan_take_port(ports, task->port);
	}
	if (!missing)
		return TFC_OK;
	return tfc__fail(error, last->error->code, "agent", 0, "%u port%s missing: %s", missing,
			 missing == 1 ? " is" : "s are", last->error->text);
}

static int plan_set_addresses_elsewhere(struct tfc__agent_job *job,
					const struct tfc__agent_place *places,
					struct plan_ports *ports, tfc_error *error)
{
	for (uint32_t i = 0; i < job->task_count; i++) {
		struct agent_task *task = &job->tasks[i];
		if (!plan_is_elsewhere(places ? &places[i] : NULL) ||
		    !tfc__role_has_port(job->info.job, task->role))
			continue;
		if (!task->port)
			task->port = plan_example_port(ports, job->agent->pool);
		const char *host = *places[i].host ? places[i].host : job->agent->host;
		int code = tfc__agent_set_address(task, host);
		if (code < 0) {
			*error = *task->error;
			return code;
		}
	}
	return TFC_OK;
}

static int plan_find_ports(struct tfc__agent_job *job, const struct tfc__agent_place *places,
			   tfc_error *error)
{
	struct plan_ports ports = {.examples = 0};
	int code = plan_hold_ports(job, places, &ports, error);
	return code < 0 ? code : plan_set_addresses_elsewhere(job, places, &ports, error);
}

static const char *plan_address(const void *user, uint32_t task)
{
	const struct tfc__agent_job *job = user;
	return job->tasks[task].address;
}

int tfc__agent_explain(struct tfc__agent *agent, const struct tfc__agent_job_info *info,
		       const struct tfc__agent_place *places, tfc__agent_plan_fn fn, void *user,
		       tfc_error *error)
{
	struct tfc__agent_job *job;
	tfc_spec *spec = NULL;
	int code = tfc__agent_plan_job(agent, info, error, &job);
	if (code < 0)
		return code;
	code = plan_find_ports(job, places, error);
	if (code == TFC_OK)
		code = tfc__agent_spec(job, error, &spec);
	tfc__job_hosts(job->info.job, plan_address, job, &job->hosts);
	if (code == TFC_OK && job->hosts.is_failed)
		code = tfc__fail_nomem(error, "agent");
	for (uint32_t i = 0; i < job->task_count && code == TFC_OK; i++)
		code = plan_task(&job->tasks[i], places ? &places[i] : NULL, spec, fn, user, error);
	tfc_spec_free(spec);
	tfc__agent_job_close(job);
	return code;
}
