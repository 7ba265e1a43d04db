/* The logs of jobs that have no tasks here any more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "base/file.h"
#include "log/local.h"
#include "proc/dir_lock.h"

struct removal {
	struct tfc__link link;
	struct tfc__agent *agent;
	tfc_process *process;
	int lock; /* of a stale private directory, or -1 */
};

static char *log_dir_of(const struct tfc__agent *agent, const char *id)
{
	return agent->log_dir ? tfc__path_join(agent->log_dir, id) : NULL;
}

struct tfc__log_source *tfc__agent_kept_log_named(const struct tfc__agent *agent, const char *id,
						  const char *name, uint64_t position,
						  tfc_error *error)
{
	if (!agent->log_dir) {
		tfc__fail(error, TFC_ENOENT, "agent", 0, "the logs of job %.64s were not kept", id);
		return NULL;
	}
	char *dir = log_dir_of(agent, id);
	struct tfc__log_source *source = NULL;
	if (dir)
		source = tfc__log_file_open(dir, name, position, error);
	else
		tfc__fail_nomem(error, "agent");
	free(dir);
	return source;
}

struct tfc__log_source *tfc__agent_kept_log(const struct tfc__agent *agent, const char *id,
					    const tfc_job *job, uint32_t task, uint64_t position,
					    tfc_error *error)
{
	char name[TFC__LOG_NAME_SIZE];
	uint32_t index;
	const struct tfc__role *role = tfc__job_task_role(job, task, &index);
	snprintf(name, sizeof(name), "%s-%u", role->name, index);
	return tfc__agent_kept_log_named(agent, id, name, position, error);
}

/* ---- removing */

static void free_removal(struct removal *removal)
{
	tfc_process_close(removal->process);
	tfc__list_remove(&removal->link);
	if (removal->lock >= 0)
		close(removal->lock);
	free(removal);
}

static void on_removed(void *user, const tfc_process_event *event)
{
	struct removal *removal = user;
	struct tfc__agent *agent = removal->agent;
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	bool is_stale = removal->lock >= 0;
	free_removal(removal);
	if (is_stale) {
		agent->is_removing_stale = false;
		tfc__stale_dirs_remove(agent);
	}
}

int tfc__removal_begin(struct tfc__agent *agent, const char *dir, int lock)
{
	char *program = tfc__path_join(tfc__ctx_helper_dir(agent->ctx), "tfc-bundle");
	struct removal *removal = calloc(1, sizeof(*removal));
	int code = program && removal ? TFC_OK : TFC_ENOMEM;
	const char *const argv[] = {program, "remove", dir, lock < 0 ? NULL : TFC__DIR_LOCK, NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.grace_ms = TFC__HELPER_GRACE_MS;
	if (code == TFC_OK)
		code = tfc__process_spawn(agent->ctx, &options, NULL, on_removed, removal,
					  &removal->process);
	if (code == TFC_OK) {
		removal->agent = agent;
		removal->lock = lock;
		tfc__list_append(&agent->removals, &removal->link);
	} else {
		free(removal);
		if (lock >= 0)
			close(lock);
	}
	free(program);
	return code;
}

/* By a process: there may be gigabytes. */
void tfc__agent_forget_logs(struct tfc__agent *agent, const char *id)
{
	char *dir = log_dir_of(agent, id);
	tfc__remote_job_logs_remove(agent, id);
	if (dir && access(dir, F_OK) == 0 && tfc__removal_begin(agent, dir, -1) < 0)
		tfc__log(agent->ctx, TFC_LOG_WARNING, "agent", id,
			 "its logs stay in %s, remove them by hand: %s", dir,
			 tfc_ctx_error(agent->ctx)->text);
	free(dir);
}

void tfc__kept_logs_close(struct tfc__agent *agent)
{
	TFC__LIST_EACH (link, &agent->removals)
		free_removal(tfc__container_of(link, struct removal, link));
}
