/*
 * Checks for names that are probably mistyped, or mistaken for others, and for variables that would
 * have no effect. They apply to a job that is about to be submitted: a stored job may be of an
 * earlier version, which did not make them.
 */
#include "job/job_apply.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/names.h"
#include "base/text.h"
#include "spec/expand.h"
#include "spec/spec.h"

struct typos {
	const char **roles; /* names of the job's roles, NULL-terminated */
	struct tfc__key_path *where;
	tfc_error *error;
};

/* Checks a list of arguments, or of variables, which is the key `key` of the location. */
static int typos_check_list(struct typos *t, const char *key, const struct tfc__strv *list,
			    bool is_env)
{
	struct tfc__placeholder_typo typo;
	size_t i = 0;
	while (i < list->count && !tfc__expand_find_typo(list->items[i], t->roles, &typo))
		i++;
	if (i == list->count)
		return TFC_OK;
	tfc__key_path_push(t->where, key);
	if (is_env)
		tfc__key_path_push_variable(t->where, list->items[i]);
	else
		tfc__key_path_push_element(t->where, i);
	if (*typo.near)
		return tfc__key_fail(t->where, t->error, TFC_EINVAL,
				     "unknown placeholder {%s}; did you mean {%s}?", typo.name,
				     typo.near);
	if (strcmp(typo.name, "_hosts") == 0)
		return tfc__key_fail(t->where, t->error, TFC_EINVAL,
				     "unknown placeholder {_hosts}; the name of a role must "
				     "precede _hosts, as in {worker_hosts}");
	return tfc__key_fail(t->where, t->error, TFC_EINVAL,
			     "unknown placeholder {%s}; the job has no role \"%.*s\"", typo.name,
			     (int)(strlen(typo.name) - strlen("_hosts")), typo.name);
}

static int typos_check_lists(struct typos *t, const tfc_job *job)
{
	t->where->count = 0;
	int result = typos_check_list(t, "argv", &job->argv, false);
	if (result == TFC_OK)
		result = typos_check_list(t, "env", &job->env, true);
	for (uint32_t i = 0; i < job->role_count && result == TFC_OK; i++) {
		const struct tfc__role *role = &job->roles[i];
		t->where->count = 0;
		tfc__key_path_push(t->where, "roles");
		tfc__key_path_push(t->where, role->name);
		result = typos_check_list(t, "argv", &role->argv, false);
		if (result == TFC_OK)
			result = typos_check_list(t, "wrap", &role->wrap, false);
		if (result == TFC_OK)
			result = typos_check_list(t, "env", &role->env, true);
	}
	return result;
}

/* The role that the name is probably a misspelling of, or NULL. */
static const char *similar_role(const char *name)
{
	for (const char *const *known = tfc__role_names; *known; known++) {
		size_t len = strlen(name), known_len = strlen(*known);
		size_t edits = tfc__edit_distance(name, len, *known, known_len);
		if (edits <= 2 && 2 * edits < (len > known_len ? len : known_len))
			return *known;
	}
	return NULL;
}

static bool is_known_role(const char *name)
{
	const char *const *known = tfc__role_names;
	while (*known && strcmp(*known, name) != 0)
		known++;
	return *known;
}

/* A role of another name is a sidecar, and says so. Where no framework gives a meaning to names,
 * only those that are similar to a known one must. */
static int typos_check_roles(struct typos *t, const tfc_job *job)
{
	for (uint32_t i = 0; i < job->role_count; i++) {
		const struct tfc__role *role = &job->roles[i];
		const char *similar = similar_role(role->name);
		if (role->is_sidecar || role->count == 0 || is_known_role(role->name) ||
		    (job->framework == TFC_FRAMEWORK_NONE && !similar))
			continue;
		t->where->count = 0;
		tfc__key_path_push(t->where, "roles");
		tfc__key_path_push(t->where, role->name);
		if (similar || (similar = tfc__rules_similar_type(role->name)))
			return tfc__key_fail(t->where, t->error, TFC_EINVAL,
					     "unknown role; did you mean %s? a sidecar needs "
					     "\"sidecar\": true",
					     similar);
		return tfc__key_fail(t->where, t->error, TFC_EINVAL,
				     "unknown role; a sidecar needs \"sidecar\": true");
	}
	return TFC_OK;
}

/* ---- variables */

/*
 * The variables that every task gets from the library, whatever the job sets (agent/environ.c), and
 * those that a task of the cluster gets for its framework (spec/render.c, spec/ranks.c). Variables
 * whose value is always the same are not listed: programs that are written for another launcher set
 * them too.
 */
static const char *const own_variables[] = {
	"TFC_JOB",   "TFC_TASK_TYPE",  "TFC_TASK_INDEX", "TFC_ATTEMPT",
	"TFC_EPOCH", "TFC_GENERATION", "TFC_LOG_DIR",    NULL,
};
static const char *const port_variables[] = {"TFC_PORT", "TFC_ADDRESS", NULL};
static const char *const framework_variables[][16] = {
	[TFC_FRAMEWORK_TENSORFLOW] = {"TF_CONFIG"},
	[TFC_FRAMEWORK_PYTORCH] = {"MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK",
				   "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
				   "ROLE_RANK", "ROLE_WORLD_SIZE", "TORCHELASTIC_RUN_ID",
				   "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
				   "TORCHELASTIC_ERROR_FILE"},
	[TFC_FRAMEWORK_JAX] = {"JAX_COORDINATOR_ADDRESS", "SLURM_JOB_ID", "SLURM_STEP_NODELIST",
			       "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID"},
	[TFC_FRAMEWORK_HOROVOD] = {"HOROVOD_HOSTNAME", "HOROVOD_RANK", "HOROVOD_SIZE",
				   "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK",
				   "HOROVOD_CROSS_SIZE", "HOROVOD_GLOO_RENDEZVOUS_ADDR",
				   "HOROVOD_GLOO_RENDEZVOUS_PORT"},
	[TFC_FRAMEWORK_HOROVOD + 1] = {NULL},
};

static bool is_variable_among(const char *variable, const char *const *names)
{
	size_t len = strcspn(variable, "=");
	while (*names && (strlen(*names) != len || strncmp(*names, variable, len) != 0))
		names++;
	return *names;
}

static bool is_variable_overwritten(const tfc_job *job, const struct tfc__role *role,
				    const char *variable)
{
	return is_variable_among(variable, own_variables) ||
	       (tfc__role_has_port(job, role) && is_variable_among(variable, port_variables)) ||
	       (tfc__role_is_in_cluster(role->name) &&
		is_variable_among(variable, framework_variables[job->framework]));
}

/* POSIX allows every name without '='. A blank in a name is a mistake, as in --env "A =1"; dots,
 * '-' and '%' are not: Kubernetes accepts the former, and bash exports functions as
 * BASH_FUNC_name%%. */
static bool is_variable_name_odd(const char *variable)
{
	for (; *variable && *variable != '='; variable++)
		if ((unsigned char)*variable <= ' ' || *variable == '\x7f')
			return true;
	return false;
}

/* Checks the variables of a role; of the job (role NULL) as those of each role. */
static int typos_check_variables(struct typos *t, const tfc_job *job, const struct tfc__role *role,
				 const char *key, const struct tfc__strv *list)
{
	uint32_t first = role ? (uint32_t)(role - job->roles) : 0;
	uint32_t end = role ? first + 1 : job->role_count;
	for (size_t i = 0; i < list->count; i++) {
		const char *variable = list->items[i];
		bool is_overwritten = false, is_odd = is_variable_name_odd(variable);
		for (uint32_t at = first; at < end; at++)
			is_overwritten |= is_variable_overwritten(job, &job->roles[at], variable);
		if (!is_overwritten && !is_odd)
			continue;
		t->where->count = 0;
		if (role) {
			tfc__key_path_push(t->where, "roles");
			tfc__key_path_push(t->where, role->name);
		}
		tfc__key_path_push(t->where, key);
		tfc__key_path_push_variable(t->where, variable);
		return tfc__key_fail(t->where, t->error, TFC_EINVAL,
				     is_odd ? "the name of a variable must not contain blanks"
					    : "the library sets this variable for each task; "
					      "remove it, or give it another name");
	}
	return TFC_OK;
}

static int typos_check_environ(struct typos *t, const tfc_job *job)
{
	int result = typos_check_variables(t, job, NULL, "env", &job->env);
	if (result == TFC_OK)
		result = typos_check_variables(t, job, NULL, "secret_env", &job->secret_env);
	for (uint32_t i = 0; i < job->role_count && result == TFC_OK; i++) {
		const struct tfc__role *role = &job->roles[i];
		result = typos_check_variables(t, job, role, "env", &role->env);
		if (result == TFC_OK)
			result = typos_check_variables(t, job, role, "secret_env",
						       &role->secret_env);
	}
	return result;
}

int tfc__job_check_typos(const tfc_job *job, struct tfc__key_path *where, tfc_error *error)
{
	/* A request by the id of another job would mean this job. */
	if (tfc__is_job_id(job->name)) {
		where->count = 0;
		tfc__key_path_push(where, "name");
		return tfc__key_fail(where, error, TFC_EINVAL,
				     "must not have the form of a job id (16 hexadecimal digits)");
	}
	struct typos typos = {calloc(job->role_count + 1, sizeof(*typos.roles)), where, error};
	if (!typos.roles)
		return tfc__fail_nomem(error, "job");
	for (uint32_t i = 0; i < job->role_count; i++)
		typos.roles[i] = job->roles[i].name;
	int result = typos_check_roles(&typos, job);
	if (result == TFC_OK)
		result = typos_check_lists(&typos, job);
	if (result == TFC_OK)
		result = typos_check_environ(&typos, job);
	free(typos.roles);
	return result;
}
