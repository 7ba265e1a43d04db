#include "job/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "job/job_apply.h"

#define STALL_AUTO_S 300

int tfc_job_new(tfc_job **ret_job)
{
	if (!ret_job)
		return TFC_EINVAL;
	tfc_job *job = calloc(1, sizeof(*job));
	if (!job || !tfc__keys_init(&tfc__job_keys, job)) {
		tfc_job_free(job);
		return TFC_ENOMEM;
	}
	*ret_job = job;
	return TFC_OK;
}

void tfc_job_free(tfc_job *job)
{
	if (!job)
		return;
	for (uint32_t i = 0; i < job->role_count; i++) {
		free(job->roles[i].name);
		tfc__keys_fini(&tfc__role_keys, &job->roles[i]);
	}
	free(job->roles);
	tfc__keys_fini(&tfc__job_keys, job);
	free(job);
}

tfc_job *tfc__job_copy(const tfc_job *job)
{
	tfc_job *copy = malloc(sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *job;
	copy->role_count = 0;
	copy->roles = calloc(job->role_count + 1, sizeof(*copy->roles));
	bool is_whole = tfc__keys_copy(&tfc__job_keys, copy, job) && copy->roles;
	for (uint32_t i = 0; is_whole && i < job->role_count; i++) {
		const struct tfc__role *from = &job->roles[i];
		struct tfc__role *role = &copy->roles[copy->role_count++];
		*role = *from;
		role->name = strdup(from->name);
		is_whole = tfc__keys_copy(&tfc__role_keys, role, from) && role->name;
	}
	if (!is_whole) {
		tfc_job_free(copy);
		return NULL;
	}
	return copy;
}

void tfc__job_inherit(tfc_job *job)
{
	for (uint32_t i = 0; i < job->role_count; i++) {
		struct tfc__role *role = &job->roles[i];
		for (size_t k = 0; k < tfc__role_keys.count; k++) {
			const struct tfc__json_key *key = &tfc__role_keys.items[k];
			if (!key->given || (role->restart_given & key->given))
				continue;
			const struct tfc__json_key *from = tfc__keys_find(&tfc__job_keys,
									  key->path);
			/* Fields that a role may override own no memory. */
			size_t size = key->kind == TFC__KEY_BACKOFF   ? sizeof(double[2])
				      : key->kind == TFC__KEY_SECONDS ? sizeof(double)
								      : sizeof(uint32_t);
			memcpy(tfc__key_field(key, role), tfc__key_field(from, job), size);
		}
	}
}

static bool job_has_given(const tfc_job *job, const char *path)
{
	return job->given >> (tfc__keys_find(&tfc__job_keys, path) - tfc__job_keys.items) & 1;
}

void tfc__job_set_defaults(tfc_job *job, const struct tfc__job_defaults *defaults)
{
	if (!job_has_given(job, "pending_deadline_s"))
		job->pending_deadline_s = defaults->pending_deadline_s;
	if (!job_has_given(job, "restart.backoff_s"))
		job->restart.backoff_s[0] = defaults->first_backoff_s;
	tfc__job_inherit(job);
}

const struct tfc__role *tfc__job_role(const tfc_job *job, const char *name)
{
	for (uint32_t i = 0; i < job->role_count; i++)
		if (strcmp(job->roles[i].name, name) == 0)
			return &job->roles[i];
	return NULL;
}

static bool secrets_have_value(const struct tfc__strv *secrets)
{
	for (size_t i = 0; i < secrets->count; i++)
		if (strchr(secrets->items[i], '='))
			return true;
	return false;
}

bool tfc__job_has_secrets(const tfc_job *job)
{
	for (uint32_t i = 0; i < job->role_count; i++)
		if (secrets_have_value(&job->roles[i].secret_env))
			return true;
	return secrets_have_value(&job->secret_env);
}

bool tfc__job_has_ranks(const tfc_job *job)
{
	return job->framework == TFC_FRAMEWORK_PYTORCH || job->framework == TFC_FRAMEWORK_JAX ||
	       job->framework == TFC_FRAMEWORK_HOROVOD;
}

bool tfc__job_is_collective(const tfc_job *job)
{
	return tfc__job_has_ranks(job) ||
	       tfc__job_strategy(job) == TFC_STRATEGY_MULTI_WORKER_MIRRORED;
}

bool tfc__role_sees_part(const tfc_job *job, const struct tfc__role *role)
{
	return job->topology == TFC__TOPOLOGY_PARTIAL && strcmp(role->name, "worker") == 0;
}

enum tfc_strategy tfc__job_strategy(const tfc_job *job)
{
	if (job->framework != TFC_FRAMEWORK_TENSORFLOW)
		return TFC_STRATEGY_NONE;
	if (job->strategy != TFC_STRATEGY_AUTO)
		return (enum tfc_strategy)job->strategy;
	const struct tfc__role *ps = tfc__job_role(job, "ps");
	return ps && ps->count ? TFC_STRATEGY_PARAMETER_SERVER : TFC_STRATEGY_MULTI_WORKER_MIRRORED;
}

/* "auto": whether the output of the role's tasks shows the progress of the job. */
static bool role_is_watched(const tfc_job *job, const struct tfc__role *role)
{
	if (job->on_stall != TFC__STALL_REPORT || role->is_server)
		return false;
	switch (tfc__job_strategy(job)) {
	case TFC_STRATEGY_MULTI_WORKER_MIRRORED:
		return strcmp(role->name, "chief") == 0 || strcmp(role->name, "worker") == 0;
	case TFC_STRATEGY_PARAMETER_SERVER:
		return strcmp(role->name, "chief") == 0;
	default:
		return false;
	}
}

uint32_t tfc__role_stall_ms(const tfc_job *job, const struct tfc__role *role)
{
	double seconds = role->stall_s >= 0           ? role->stall_s
			 : job->stall_s >= 0          ? job->stall_s
			 : role_is_watched(job, role) ? STALL_AUTO_S
						      : 0;
	if (seconds <= 0)
		return 0;
	return seconds * 1000 < 1 ? 1 : seconds < 4e6 ? (uint32_t)(seconds * 1000) : UINT32_MAX;
}

uint64_t tfc__role_memory_limit(const struct tfc__role *role)
{
	if (role->memory_limit == TFC__NO_LIMIT)
		return 0;
	return role->memory_limit ? role->memory_limit : role->memory;
}

const char *const tfc__role_names[] = {"chief",       "worker", "ps", "evaluator",
				       "tensorboard", "driver", NULL};

bool tfc__role_is_in_cluster(const char *name)
{
	return strcmp(name, "chief") == 0 || strcmp(name, "worker") == 0 ||
	       strcmp(name, "ps") == 0 || strcmp(name, "evaluator") == 0;
}

bool tfc__role_has_port(const tfc_job *job, const struct tfc__role *role)
{
	bool is_tensorflow = job->framework == TFC_FRAMEWORK_TENSORFLOW;
	if (role->port || role->ready == TFC__READY_LISTEN)
		return true;
	if (strcmp(role->name, "tensorboard") == 0 && (role->log_dir || is_tensorflow))
		return true;
	return job->framework != TFC_FRAMEWORK_NONE && tfc__role_is_in_cluster(role->name);
}

bool tfc__role_is_ready_on_listen(const tfc_job *job, const struct tfc__role *role)
{
	if (!tfc__role_has_port(job, role)) /* without a port, listening cannot be detected */
		return false;
	if (role->ready != TFC__READY_AUTO)
		return role->ready == TFC__READY_LISTEN;
	if (strcmp(role->name, "tensorboard") == 0)
		return true;
	return tfc__role_is_in_cluster(role->name) && strcmp(role->name, "evaluator") != 0 &&
	       job->framework == TFC_FRAMEWORK_TENSORFLOW &&
	       tfc__job_strategy(job) != TFC_STRATEGY_NONE;
}

uint32_t tfc__job_task_count(const tfc_job *job)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < job->role_count; i++)
		count += job->roles[i].count;
	return count;
}

uint32_t tfc__job_abort_grace_ms(const tfc_job *job)
{
	double ms = (job->abort_grace_s < 0 ? 1 : job->abort_grace_s) * 1000;
	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

double tfc__job_longest_grace_s(const tfc_job *job)
{
	double longest = job->grace_s > job->preempt_grace_s ? job->grace_s : job->preempt_grace_s;
	for (uint32_t i = 0; i < job->role_count; i++)
		if (job->roles[i].grace_s > longest)
			longest = job->roles[i].grace_s;
	return longest;
}

const struct tfc__role *tfc__job_task_role(const tfc_job *job, uint32_t task, uint32_t *ret_index)
{
	const struct tfc__role *role = job->roles;
	while (task >= role->count)
		task -= (role++)->count;
	*ret_index = task;
	return role;
}

void tfc__job_hosts(const tfc_job *job, const char *(*address_of)(const void *user, uint32_t task),
		    const void *user, struct tfc__strv *hosts)
{
	for (uint32_t r = 0, first = 0; r < job->role_count; first += job->roles[r++].count) {
		const struct tfc__role *role = &job->roles[r];
		struct tfc__buf line = {0};
		const char *separator = "=";
		if (tfc__role_is_in_cluster(role->name))
			continue;
		tfc__buf_add_str(&line, role->name);
		for (uint32_t i = 0; i < role->count; i++) {
			const char *address = address_of(user, first + i);
			if (!address || !*address)
				continue;
			tfc__buf_add_str(&line, separator);
			tfc__buf_add_str(&line, address);
			separator = ",";
		}
		if (*separator == '=')
			tfc__buf_add_char(&line, '=');
		tfc__strv_take(hosts, tfc__buf_steal(&line));
	}
}
