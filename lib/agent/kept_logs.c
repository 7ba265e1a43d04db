/* The logs of jobs that have no tasks here any more, and the remote job logs. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/names.h"
#include "log/local.h"

static char *kept_log_dir(const struct tfc__agent *agent, const char *id)
{
	return agent->log_dir ? tfc__path_join(agent->log_dir, id) : NULL;
}

struct tfc__log_source *tfc__agent_kept_log_named(const struct tfc__agent *agent, const char *id,
						  const char *name, uint64_t position,
						  tfc_error *error)
{
	if (!agent->log_dir) {
		tfc__fail(error, TFC_ENOENT, "agent", 0, "the logs of job %.64s are not kept", id);
		return NULL;
	}
	char *dir = kept_log_dir(agent, id);
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

/* In a separate process, because the logs may have gigabytes. */
void tfc__agent_forget_logs(struct tfc__agent *agent, const char *id)
{
	char *dir = kept_log_dir(agent, id);
	tfc__remote_job_logs_remove(agent, id);
	if (dir && access(dir, F_OK) == 0 && tfc__removal_begin(agent, dir, -1) < 0)
		tfc__log(agent->ctx, TFC_LOG_WARNING, "agent", id,
			 "cannot remove the job's logs; remove \"%s\" by hand: %s", dir,
			 tfc_ctx_error(agent->ctx)->text);
	free(dir);
}

/*
 * ---- remote job logs
 *
 * A file in the log directory of each such job names the node that maintains the job. The file's
 * mtime is the time at which that node last reported the job.
 */

#define OWNER "maintainer" /* no log: a log's file name has a '-' */

static struct tfc__remote_job_logs *find_remote_job_logs(struct tfc__agent *agent, const char *id)
{
	TFC__LIST_EACH (link, &agent->remote_job_logs) {
		struct tfc__remote_job_logs *remote_job_logs =
			tfc__container_of(link, struct tfc__remote_job_logs, link);
		if (strcmp(remote_job_logs->id, id) == 0)
			return remote_job_logs;
	}
	return NULL;
}

/* NULL: out of memory. */
static struct tfc__remote_job_logs *add_remote_job_logs(struct tfc__agent *agent, const char *id)
{
	struct tfc__remote_job_logs *remote_job_logs = calloc(1, sizeof(*remote_job_logs));
	if (!remote_job_logs)
		return NULL;
	snprintf(remote_job_logs->id, sizeof(remote_job_logs->id), "%s", id);
	tfc__list_append(&agent->remote_job_logs, &remote_job_logs->link);
	return remote_job_logs;
}

static bool owner_file_path(const struct tfc__agent *agent, const char *id, char *path, size_t size)
{
	return snprintf(path, size, "%s/%s/" OWNER, agent->log_dir, id) < (int)size;
}

/* ---- at the agent's start */

void tfc__remote_job_logs_load(struct tfc__agent *agent)
{
	DIR *dir = agent->log_dir ? opendir(agent->log_dir) : NULL;
	const struct dirent *entry;
	while (dir && (entry = readdir(dir))) {
		char path[4096];
		struct stat status;
		struct tfc__remote_job_logs *logs;
		if (!tfc__is_job_id(entry->d_name) ||
		    !owner_file_path(agent, entry->d_name, path, sizeof(path)) ||
		    stat(path, &status) < 0 || !(logs = add_remote_job_logs(agent, entry->d_name)))
			continue;
		tfc__read_text(path, logs->maintainer, sizeof(logs->maintainer));
		logs->received_ns = (uint64_t)status.st_mtim.tv_sec * TFC__SECOND;
	}
	if (dir)
		closedir(dir);
}

/* ---- changes */

/* Without the file the logs have no owner after the next start, and are never removed. */
static void owner_file_write(const struct tfc__agent *agent,
			     const struct tfc__remote_job_logs *remote_job_logs)
{
	char path[4096];
	int fd = owner_file_path(agent, remote_job_logs->id, path, sizeof(path))
			 ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)
			 : -1;
	if (fd < 0)
		return;
	if (tfc__write_all(fd, remote_job_logs->maintainer, strlen(remote_job_logs->maintainer)) <
	    0)
		unlink(path);
	close(fd);
}

static bool owner_file_touch(const struct tfc__agent *agent,
			     const struct tfc__remote_job_logs *remote_job_logs)
{
	char path[4096];
	return owner_file_path(agent, remote_job_logs->id, path, sizeof(path)) &&
	       utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

void tfc__agent_remote_job_logs_received(struct tfc__agent *agent, const char *id,
					 const char *maintainer)
{
	if (!agent->log_dir)
		return;
	struct tfc__remote_job_logs *remote_job_logs = find_remote_job_logs(agent, id);
	if (!remote_job_logs && !(remote_job_logs = add_remote_job_logs(agent, id)))
		return;
	remote_job_logs->received_ns = tfc__wall();
	if (strcmp(remote_job_logs->maintainer, maintainer) == 0 &&
	    owner_file_touch(agent, remote_job_logs))
		return;
	snprintf(remote_job_logs->maintainer, sizeof(remote_job_logs->maintainer), "%s",
		 maintainer);
	owner_file_write(agent, remote_job_logs);
}

void tfc__remote_job_logs_remove(struct tfc__agent *agent, const char *id)
{
	struct tfc__remote_job_logs *remote_job_logs = find_remote_job_logs(agent, id);
	if (!remote_job_logs)
		return;
	tfc__list_remove(&remote_job_logs->link);
	free(remote_job_logs);
}

const struct tfc__link *tfc__agent_remote_job_logs(const struct tfc__agent *agent)
{
	return &agent->remote_job_logs;
}

void tfc__remote_job_logs_close(struct tfc__agent *agent)
{
	TFC__LIST_EACH (link, &agent->remote_job_logs)
		free(tfc__container_of(link, struct tfc__remote_job_logs, link));
}
