/*
 * The run before this one, when the host was killed: its guard may still be stopping its tasks, for
 * as long as their grace is. What it removes last is its private directory, so a file that outlives
 * us names both: while they are there, no port is held here, and so no task is started beside one
 * that it should replace. A guard that was killed, too, has left its tasks to shims without a
 * parent.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/inside.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define LOOK_AGAIN (50 * TFC__MS)
#define PATIENCE (120 * TFC__SECOND) /* as with a guard that has died: longer than any grace */
#define FILE_MAX 65536

static bool is_there(const char *dir)
{
	struct stat status;
	return stat(dir, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Name, parent and start of a process, as proc(5) has them in stat; false: there is none. */
static bool look_at(long pid, char name[32], long *ret_parent, unsigned long long *ret_start)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if (tfc__read_text(path, text, sizeof(text)) <= 0)
		return false;
	char *begin = strchr(text, '('), *end = strrchr(text, ')');
	if (!begin || !end)
		return false;
	snprintf(name, 32, "%.*s", (int)(end - begin - 1), begin + 1);
	return sscanf(end + 1,
		      " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
		      "%*d %*d %llu",
		      ret_parent, ret_start) == 2;
}

static bool is_orphaned_shim(long pid)
{
	char name[32], parent_name[32] = "";
	long parent, above;
	unsigned long long start;
	return look_at(pid, name, &parent, &start) && strcmp(name, "tfc-shim") == 0 &&
	       !(look_at(parent, parent_name, &above, &start) &&
		 strcmp(parent_name, "tfc-guard") == 0);
}

static bool has_orphaned_shims(void)
{
	bool has_some = false;
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	while (dir && !has_some && (entry = readdir(dir)))
		has_some = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
			   is_orphaned_shim(atol(entry->d_name));
	if (dir)
		closedir(dir);
	return has_some;
}

/* "PID START DIR" of a guard. */
static bool is_at_work(const char *run)
{
	char name[32];
	long pid, parent;
	unsigned long long start, started;
	int at = 0;
	if (sscanf(run, "%ld %llu %n", &pid, &start, &at) != 2 || !at || !is_there(run + at))
		return false;
	if (look_at(pid, name, &parent, &started) && started == start)
		return true;
	return has_orphaned_shims();
}

/* Lines "BOOT PID START DIR"; of an earlier boot nothing lives. */
static void read_runs(struct tfc__agent *agent, char *text, const char *boot)
{
	char *rest = text, *line;
	while ((line = strsep(&rest, "\n"))) {
		char *run = strchr(line, ' ');
		if (!run)
			continue;
		*run++ = '\0';
		if (strcmp(line, boot) == 0 && is_at_work(run))
			tfc__strv_add(&agent->earlier, run);
	}
}

static int write_runs(struct tfc__agent *agent, const char *path, const char *boot,
		      tfc_error *error)
{
	struct tfc__buf text = {0};
	char *fresh = NULL;
	for (size_t i = 0; i < agent->earlier.count; i++)
		tfc__buf_addf(&text, "%s %s\n", boot, agent->earlier.items[i]);
	char name[32];
	long parent, pid = tfc__guard_pid(agent->ctx);
	unsigned long long start = 0;
	look_at(pid, name, &parent, &start);
	tfc__buf_addf(&text, "%s %ld %llu %s\n", boot, pid, start, agent->run_dir);
	int code = text.is_failed || agent->earlier.is_failed ||
				   asprintf(&fresh, "%s.new", path) < 0
			   ? tfc__fail_nomem(error, "agent")
			   : TFC_OK;
	FILE *file = code == TFC_OK ? fopen(fresh, "we") : NULL;
	if (code == TFC_OK && (!file || fwrite(text.data, 1, text.len, file) != text.len))
		code = tfc__fail_errno(error, "agent", errno, "cannot write %.200s", path);
	if (file && fclose(file) != 0 && code == TFC_OK)
		code = tfc__fail_errno(error, "agent", errno, "cannot write %.200s", path);
	if (code == TFC_OK && rename(fresh, path) < 0)
		code = tfc__fail_errno(error, "agent", errno, "cannot write %.200s", path);
	free(fresh);
	tfc__buf_fini(&text);
	return code;
}

int predecessor_open(struct tfc__agent *agent, const char *path, tfc_error *error)
{
	char boot[64];
	if (!path)
		return TFC_OK;
	char *text = malloc(FILE_MAX);
	if (!text)
		return tfc__fail_nomem(error, "agent");
	tfc__read_text(BOOT_ID, boot, sizeof(boot));
	boot[strcspn(boot, "\n")] = '\0';
	if (tfc__read_text(path, text, FILE_MAX) > 0)
		read_runs(agent, text, boot);
	free(text);
	agent->earlier_until = tfc__now() + PATIENCE;
	agent->is_alone = true;
	return write_runs(agent, path, boot, error);
}

static bool is_over(struct tfc__agent *agent)
{
	bool is_late = tfc__now() >= agent->earlier_until;
	for (size_t i = 0; i < agent->earlier.count && !is_late; i++)
		if (is_at_work(agent->earlier.items[i]))
			return false;
	agent->is_alone = agent->is_alone && !is_late;
	tfc__strv_fini(&agent->earlier);
	return true;
}

bool predecessor_takes(struct agent_task *task)
{
	struct tfc__agent *agent = task->job->agent;
	bool is_awaited = !tfc__list_is_empty(&agent->early); /* they are looked at by the timer */
	if (task->job->is_plan || !agent->earlier.count || (!is_awaited && is_over(agent)))
		return false;
	if (tfc__list_is_empty(&task->early_link))
		tfc__list_append(&agent->early, &task->early_link);
	if (!agent->earlier_timer.at)
		tfc__timer_set(&agent->earlier_timer, tfc__now() + LOOK_AGAIN);
	return true;
}

void predecessor_look(struct tfc__timer *timer)
{
	struct tfc__agent *agent = tfc__container_of(timer, struct tfc__agent, earlier_timer);
	if (!is_over(agent)) {
		tfc__timer_set(timer, tfc__now() + LOOK_AGAIN);
		return;
	}
	TFC__LIST_EACH (link, &agent->early) {
		struct agent_task *task = tfc__container_of(link, struct agent_task, early_link);
		tfc__list_remove(link);
		tfc__agent_hold(task->job, task->number, task->hold_number);
	}
}

bool tfc__agent_is_alone(struct tfc__agent *agent)
{
	return (!agent->earlier.count || is_over(agent)) && agent->is_alone;
}
