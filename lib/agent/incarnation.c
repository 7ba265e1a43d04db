/*
 * The previous incarnation of this node, when it was killed: its guard may still give its tasks
 * their grace, and a guard that was killed, too, leaves that to its shims. The run file names the
 * private directory of each incarnation; while the lock of one is shared for its tasks, nothing is
 * held here and no query is answered, so that no task is started, here or elsewhere, beside one
 * that it should replace. What such an incarnation has left is removed like any other stale
 * directory.
 */
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
#include "proc/dir_lock.h"

#define LOOK_AGAIN (50 * TFC__MS)
#define FILE_MAX 65536

/* What guard and shim may need beyond the grace until all is killed, reaped, and in the log. */
#define MARGIN_MS 10000

struct previous {
	struct tfc__link link; /* in agent->previous */
	char *dir;
	int lock; /* -1: it has none, as those of versions before 0.3 */
};

static void previous_free(struct previous *previous)
{
	tfc__list_remove(&previous->link);
	if (previous->lock >= 0)
		close(previous->lock);
	free(previous->dir);
	free(previous);
}

/* Without a lock all that is known is that its guard removes the directory last. */
static bool previous_has_tasks(const struct previous *previous)
{
	struct stat status;
	if (previous->lock >= 0)
		return tfc__dir_lock_has_tasks(previous->lock);
	return lstat(previous->dir, &status) == 0 && S_ISDIR(status.st_mode) &&
	       status.st_uid == geteuid();
}

/* ---- the run file: the directory of an incarnation on each line, that of this one last */

static int add_previous(struct tfc__agent *agent, const char *dir)
{
	struct previous *previous = calloc(1, sizeof(*previous));
	if (!previous)
		return TFC_ENOMEM;
	tfc__list_init(&previous->link);
	previous->lock = tfc__dir_lock_open(dir);
	bool is_foreign = previous->lock < 0 && errno != ENOENT;
	if (!(previous->dir = strdup(dir))) {
		previous_free(previous);
		return TFC_ENOMEM;
	}
	if (is_foreign || !previous_has_tasks(previous))
		previous_free(previous);
	else
		tfc__list_append(&agent->previous, &previous->link);
	return stale_dirs_note(agent, dir);
}

/* Before 0.3 boot, pid and start of the guard came before the directory. */
static int read_runs(struct tfc__agent *agent, char *text)
{
	char *rest = text, *line;
	int code = TFC_OK;
	while (code == TFC_OK && (line = strsep(&rest, "\n"))) {
		const char *dir = strchr(line, '/');
		code = dir ? add_previous(agent, dir) : TFC_OK;
	}
	return code;
}

static int write_runs(const struct tfc__agent *agent, const char *path, tfc_error *error)
{
	struct tfc__buf text = {0};
	char *fresh = NULL;
	TFC__LIST_EACH (link, &agent->previous) {
		const struct previous *previous = tfc__container_of(link, struct previous, link);
		if (previous->lock >= 0)
			tfc__buf_addf(&text, "%s\n", previous->dir);
	}
	tfc__buf_addf(&text, "%s\n", agent->run_dir);
	int code = text.is_failed || asprintf(&fresh, "%s.new", path) < 0
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

/* ---- the wait */

/* The largest grace of all: the guards may have started more before they noticed that their host
 * was dead. */
static uint32_t wait_ms(const struct tfc__agent *agent)
{
	uint32_t longest = 0;
	TFC__LIST_EACH (link, &agent->previous) {
		const struct previous *previous = tfc__container_of(link, struct previous, link);
		uint32_t grace = previous->lock < 0 ? 0 : tfc__dir_lock_read_grace(previous->lock);
		longest = grace > longest ? grace : longest;
	}
	return longest < UINT32_MAX - MARGIN_MS ? longest + MARGIN_MS : longest;
}

static void say_waiting(const struct tfc__agent *agent)
{
	const struct previous *first = tfc__container_of(agent->previous.next, struct previous,
							 link);
	tfc__log(agent->ctx, TFC_LOG_WARNING, "agent", "",
		 "waiting for the tasks of this node's previous incarnation to end, for at most "
		 "%u s (private directory \"%.200s\")",
		 (wait_ms(agent) + 999) / 1000, first->dir);
}

/* What they do from now on is not known: this node is not alone. */
static void stop_waiting(struct tfc__agent *agent)
{
	agent->is_alone = false;
	TFC__LIST_EACH (link, &agent->previous) {
		struct previous *previous = tfc__container_of(link, struct previous, link);
		tfc__log(agent->ctx, TFC_LOG_ERROR, "agent", "",
			 "tasks of this node's previous incarnation may still run: its guard has "
			 "not ended them in time (private directory \"%.200s\")",
			 previous->dir);
		previous_free(previous);
	}
}

/* Whether none of them is waited for any more. */
static bool previous_are_over(struct tfc__agent *agent)
{
	TFC__LIST_EACH (link, &agent->previous) {
		struct previous *previous = tfc__container_of(link, struct previous, link);
		if (previous_has_tasks(previous))
			continue;
		if (stale_dirs_note(agent, previous->dir) == TFC_OK) /* else a later run's */
			stale_dirs_remove(agent);
		previous_free(previous);
	}
	if (!tfc__list_is_empty(&agent->previous) &&
	    tfc__now() >= agent->previous_since + wait_ms(agent) * TFC__MS)
		stop_waiting(agent);
	return tfc__list_is_empty(&agent->previous);
}

static void on_look(struct tfc__timer *timer)
{
	struct tfc__agent *agent = tfc__container_of(timer, struct tfc__agent, previous_timer);
	if (!previous_are_over(agent)) {
		tfc__timer_set(timer, tfc__now() + LOOK_AGAIN);
		return;
	}
	TFC__LIST_EACH (link, &agent->parked) {
		tfc__list_remove(link);
		tfc__work_schedule(tfc__container_of(link, struct tfc__work, link));
	}
}

/* ---- for the others */

void incarnation_init(struct tfc__agent *agent)
{
	tfc__list_init(&agent->previous);
	tfc__list_init(&agent->parked);
	tfc__timer_init(&agent->previous_timer, agent->ctx, on_look);
}

int incarnation_open(struct tfc__agent *agent, const char *path, tfc_error *error)
{
	if (!path)
		return TFC_OK;
	char *text = malloc(FILE_MAX);
	int code = text ? TFC_OK : TFC_ENOMEM;
	if (code == TFC_OK && tfc__read_text(path, text, FILE_MAX) > 0)
		code = read_runs(agent, text);
	free(text);
	if (code < 0)
		return tfc__fail_nomem(error, "agent");
	agent->is_alone = true;
	if (!tfc__list_is_empty(&agent->previous)) {
		agent->previous_since = tfc__now();
		tfc__timer_set(&agent->previous_timer, agent->previous_since + LOOK_AGAIN);
		say_waiting(agent);
	}
	return write_runs(agent, path, error);
}

void incarnation_close(struct tfc__agent *agent)
{
	tfc__timer_cancel(&agent->previous_timer);
	TFC__LIST_EACH (link, &agent->previous)
		previous_free(tfc__container_of(link, struct previous, link));
}

void tfc__agent_after_previous(struct tfc__agent *agent, struct tfc__work *work)
{
	if (tfc__list_is_empty(&agent->previous))
		tfc__work_schedule(work);
	else if (tfc__list_is_empty(&work->link))
		tfc__list_append(&agent->parked, &work->link);
}

bool tfc__agent_is_alone(struct tfc__agent *agent)
{
	return tfc__list_is_empty(&agent->previous) && agent->is_alone;
}
