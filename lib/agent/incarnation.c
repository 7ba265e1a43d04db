/*
 * The previous incarnation of this node, if it was killed. Its guard may still be giving its tasks
 * their grace; where the guard was killed or stopped as well, the shims do. While a task lock of
 * the state directory is shared (proc/task_lock.h), this node holds no ports and responds to no
 * queries. Thus no task is started, here or elsewhere, beside one that it replaces.
 *
 * The file `run` lists the private directories of the incarnations, so that their remains are also
 * removed if TMPDIR has changed since.
 */
#include <errno.h>
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
#include "proc/dir_lock.h"
#include "proc/task_lock.h"

#define CHECK_INTERVAL (50 * TFC__MS)
#define FILE_MAX 65536

/* The time that guard and shim may need beyond the grace to kill, reap and log everything. */
#define MARGIN (10 * TFC__SECOND)

/* ---- the run file: one directory per line, that of this incarnation last */

/* Before version 0.3 the boot id, pid and start time of the guard preceded the directory. */
static int read_runs(struct tfc__agent *agent, const char *path)
{
	struct previous *previous = &agent->previous;
	char *text = malloc(FILE_MAX), *rest = text, *line;
	int code = text ? TFC_OK : TFC_ENOMEM;
	if (text && tfc__read_text(path, text, FILE_MAX) <= 0)
		rest = NULL;
	while (code == TFC_OK && (line = strsep(&rest, "\n"))) {
		const char *dir = strchr(line, '/');
		if (!dir || !tfc__stale_dirs_is_name(dir))
			continue;
		if (dir != line && !previous->old_dir)
			previous->old_dir = strdup(dir);
		tfc__strv_add(&previous->dirs, dir);
		if ((dir != line && !previous->old_dir) || previous->dirs.is_failed)
			code = TFC_ENOMEM;
		else
			code = tfc__stale_dirs_note(agent, dir);
	}
	free(text);
	return code;
}

/* Writes the directories that still exist, and this incarnation's. */
static int write_runs(const struct tfc__agent *agent, const char *path, tfc_error *error)
{
	const struct tfc__strv *dirs = &agent->previous.dirs;
	struct tfc__buf text = {0};
	char *fresh = NULL;
	for (size_t i = 0; i < dirs->count; i++) {
		int lock = tfc__dir_lock_open(dirs->items[i], false);
		if (lock < 0)
			continue;
		tfc__buf_addf(&text, "%s\n", dirs->items[i]);
		close(lock);
	}
	tfc__buf_addf(&text, "%s\n", agent->run_dir);
	int code = text.is_failed || asprintf(&fresh, "%s.new", path) < 0
			   ? tfc__fail_nomem(error, "agent")
			   : TFC_OK;
	FILE *file = code == TFC_OK ? fopen(fresh, "we") : NULL;
	if (code == TFC_OK && (!file || fwrite(text.data, 1, text.len, file) != text.len))
		code = tfc__fail_errno(error, "agent", errno, "cannot write \"%.200s\"", path);
	if (file && fclose(file) != 0 && code == TFC_OK)
		code = tfc__fail_errno(error, "agent", errno, "cannot write \"%.200s\"", path);
	if (code == TFC_OK && rename(fresh, path) < 0)
		code = tfc__fail_errno(error, "agent", errno, "cannot write \"%.200s\"", path);
	free(fresh);
	tfc__buf_fini(&text);
	return code;
}

/* ---- the wait */

/* Version 0.2 had no locks: all that is known is that its guard removed the directory last. */
static bool has_old_dir(const struct previous *previous)
{
	struct stat status;
	return previous->old_dir && lstat(previous->old_dir, &status) == 0 &&
	       S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

/*
 * Whether the wait is over. While a task may be alive, it is not. A guard without tasks has only
 * one thing left to do, which it does at once: to kill what a killed shim has left. A guard that is
 * overdue must itself be stopped (SIGSTOP), and is not waited for. It may not have killed
 * everything, so this node does not count as alone.
 */
static bool previous_are_over(struct tfc__agent *agent)
{
	struct previous *previous = &agent->previous;
	struct tfc__task_locks locks = {.has_tasks = true};
	bool is_known = tfc__task_lock_query(previous->state, &locks) == 0;
	bool is_over = is_known && !locks.has_tasks && !locks.has_guard && !has_old_dir(previous);
	if (!is_over && tfc__now() >= previous->due && !previous->is_overdue) {
		previous->is_overdue = true;
		tfc__log(agent->ctx, TFC_LOG_ERROR, "agent", "",
			 locks.has_tasks
				 ? "tasks of this node's previous incarnation have not ended in "
				   "time; still waiting (\"fuser -v %.200s\" lists their processes)"
				 : "the guard of this node's previous incarnation has not ended in "
				   "time (\"fuser -v %.200s\" lists its processes)",
			 previous->state_dir);
	}
	previous->is_over = is_over;
	return is_over || (!locks.has_tasks && previous->is_overdue);
}

static void incarnation_on_timer(struct tfc__timer *timer)
{
	struct tfc__agent *agent = tfc__container_of(timer, struct tfc__agent, previous.timer);
	const struct tfc__strv *dirs = &agent->previous.dirs;
	int code = TFC_OK;
	if (!previous_are_over(agent)) {
		tfc__timer_set(timer, tfc__now() + CHECK_INTERVAL);
		return;
	}
	agent->previous.is_awaited = false;
	for (size_t i = 0; code == TFC_OK && i < dirs->count; i++)
		code = tfc__stale_dirs_note(agent, dirs->items[i]);
	if (code == TFC_OK) /* otherwise a later incarnation removes them */
		tfc__stale_dirs_remove(agent);
	TFC__LIST_EACH (link, &agent->previous.parked) {
		tfc__list_remove(link);
		tfc__work_schedule(tfc__container_of(link, struct tfc__work, link));
	}
}

/* ---- interface */

void tfc__incarnation_init(struct tfc__agent *agent)
{
	agent->previous.state = -1;
	tfc__list_init(&agent->previous.parked);
	tfc__timer_init(&agent->previous.timer, agent->ctx, incarnation_on_timer);
}

int tfc__incarnation_open(struct tfc__agent *agent, const char *state_dir, tfc_error *error)
{
	struct previous *previous = &agent->previous;
	if (!state_dir)
		return TFC_OK;
	if (!(previous->state_dir = strdup(state_dir)))
		return tfc__fail_nomem(error, "agent");
	previous->state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return previous->state < 0
		       ? tfc__fail_errno(error, "agent", errno,
					 "cannot open state directory \"%s\"", state_dir)
		       : TFC_OK;
}

int tfc__incarnation_begin(struct tfc__agent *agent, tfc_error *error)
{
	struct previous *previous = &agent->previous;
	struct tfc__task_locks locks;
	if (previous->state < 0)
		return TFC_OK;
	if (tfc__task_lock_query(previous->state, &locks) < 0)
		return tfc__fail_errno(error, "agent", errno,
				       "cannot query the locks of state directory \"%s\"",
				       previous->state_dir);
	char *path = tfc__path_join(previous->state_dir, "run");
	int code = path ? read_runs(agent, path) : TFC_ENOMEM;
	if (code < 0) {
		free(path);
		return tfc__fail_nomem(error, "agent");
	}
	previous->is_over = !locks.has_tasks && !locks.has_guard && !has_old_dir(previous);
	if (!previous->is_over) {
		uint64_t longest = locks.grace_ms * TFC__MS + MARGIN;
		previous->is_awaited = true;
		previous->due = tfc__now() + longest;
		tfc__timer_set(&previous->timer, tfc__now() + CHECK_INTERVAL);
		tfc__log(agent->ctx, TFC_LOG_WARNING, "agent", "",
			 "waiting up to %u s for the tasks of this node's previous incarnation to "
			 "end (\"fuser -v %.200s\" lists their processes)",
			 (unsigned)(longest / TFC__SECOND), previous->state_dir);
	}
	code = write_runs(agent, path, error);
	free(path);
	return code;
}

void tfc__incarnation_close(struct tfc__agent *agent)
{
	struct previous *previous = &agent->previous;
	tfc__timer_cancel(&previous->timer);
	tfc__strv_fini(&previous->dirs);
	if (previous->state >= 0)
		close(previous->state);
	free(previous->state_dir);
	free(previous->old_dir);
}

void tfc__agent_after_previous(struct tfc__agent *agent, struct tfc__work *work)
{
	if (!agent->previous.is_awaited)
		tfc__work_schedule(work);
	else if (tfc__list_is_empty(&work->link))
		tfc__list_append(&agent->previous.parked, &work->link);
}

bool tfc__agent_is_alone(struct tfc__agent *agent)
{
	return agent->previous.is_over;
}
