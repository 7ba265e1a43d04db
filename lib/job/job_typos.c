/*
 * Checks for names that are probably mistyped, or mistaken for others. They apply to a job that is
 * about to be submitted: a stored job may be of an earlier version, which did not make them.
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
	free(typos.roles);
	return result;
}
