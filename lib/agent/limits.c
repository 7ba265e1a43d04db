/* The resource limits of a role's tasks, and the user they run as. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"

#define MODE_PASSABLE 0711 /* lets other users pass through, but not list */

static const struct tfc__user *task_user(const struct agent_task *task)
{
	const struct tfc__agent_job *job = task->job;
	if (!task->role->user || !job->users)
		return NULL;
	return &job->users[task->role - job->info.job->roles];
}

int tfc__limits_begin(struct tfc__agent_job *job, tfc_error *error)
{
	const tfc_job *definition = job->info.job;
	for (uint32_t i = 0; i < definition->role_count; i++) {
		const struct tfc__role *role = &definition->roles[i];
		if (!role->user || !role->count)
			continue;
		if (!job->users)
			job->users = calloc(definition->role_count, sizeof(*job->users));
		if (!job->users)
			return tfc__fail_nomem(error, "agent");
		struct tfc__user *user = &job->users[i];
		int code = tfc__user_find(role->user, TFC__PASSWD_FILE, TFC__GROUP_FILE, error,
					  user);
		bool is_own = user->uid == geteuid() && user->gid == getegid();
		if (code == TFC_OK && geteuid() != 0 && !is_own)
			code = tfc__fail(error, TFC_EACCES, "agent", 0,
					 "only a host that runs as root can run tasks as user "
					 "\"%.60s\"",
					 role->user);
		if (code < 0)
			return tfc__fail_prefix(error, code, "roles.%s.user: ", role->name);
	}
	/* Other users pass through the agent's and the job's private directories. */
	const char *const dirs[] = {job->agent->run_dir, job->run_dir};
	for (size_t i = 0; job->users && !job->is_plan && i < 2; i++)
		if (chmod(dirs[i], MODE_PASSABLE) < 0)
			return tfc__fail_errno(error, "agent", errno,
					       "cannot make \"%s\" accessible to the task's user",
					       dirs[i]);
	return TFC_OK;
}

void tfc__limits_end(struct tfc__agent_job *job)
{
	for (uint32_t i = 0; job->users && i < job->info.job->role_count; i++)
		tfc__user_fini(&job->users[i]);
	free(job->users);
}

void tfc__limits_add_environ(const struct agent_task *task, struct tfc__strv *env)
{
	const struct tfc__user *user = task_user(task);
	if (!user)
		return;
	tfc__strv_set_env(env, "HOME", user->home);
	tfc__strv_set_env(env, "USER", user->name);
	tfc__strv_set_env(env, "LOGNAME", user->name);
}

void tfc__limits_owner(const struct agent_task *task, char ret_ids[LIMITS_OWNER_SIZE])
{
	const struct tfc__user *user = task_user(task);
	ret_ids[0] = '\0';
	if (user && geteuid() == 0)
		snprintf(ret_ids, LIMITS_OWNER_SIZE, "%u:%u", user->uid, user->gid);
}

void tfc__limits_fill(const struct agent_task *task, tfc_process_limits *limits,
		      tfc_rlimit rlimits[TFC__RLIMITS])
{
	const struct tfc__role *role = task->role;
	const struct tfc__user *user = task_user(task);
	*limits = (tfc_process_limits)TFC_PROCESS_LIMITS_INIT;
	for (uint32_t i = 0; i < role->rlimits.count; i++)
		rlimits[i] = (tfc_rlimit){.resource = role->rlimits.items[i].resource,
					  .soft = role->rlimits.items[i].soft,
					  .hard = role->rlimits.items[i].hard};
	limits->rlimits = rlimits;
	limits->rlimit_count = role->rlimits.count;
	limits->nice = role->nice;
	limits->memory_bytes = tfc__role_memory_limit(role);
	if (!role->memory_limit)
		limits->flags |= TFC_LIMIT_MEMORY_IF_POSSIBLE;
	limits->cpu_milli = (uint32_t)(role->cpus * 1000 + 0.5);
	if (role->oom_score_adj != INT32_MIN) {
		limits->flags |= TFC_LIMIT_OOM_SCORE_ADJ;
		limits->oom_score_adj = role->oom_score_adj;
	}
	if (user && geteuid() == 0) {
		limits->flags |= TFC_LIMIT_USER;
		limits->uid = user->uid;
		limits->gid = user->gid;
		limits->groups = user->groups;
		limits->group_count = user->group_count;
	}
}
