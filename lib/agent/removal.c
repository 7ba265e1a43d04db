/*
 * Removes directories, each in a separate process because they may have gigabytes: logs, remains of
 * jobs, and this user's private directories that no process uses.
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "base/file.h"
#include "proc/dir_lock.h"

#define DIGITS 16 /* of tfc__random_hex */

struct removal {
	struct tfc__link link;
	struct tfc__agent *agent;
	tfc_process *process;
	int lock; /* of a stale private directory, or -1 */
};

static void removal_free(struct removal *removal)
{
	tfc_process_close(removal->process);
	tfc__list_remove(&removal->link);
	if (removal->lock >= 0)
		close(removal->lock);
	free(removal);
}

static void removal_on_exit(void *user, const tfc_process_event *event)
{
	struct removal *removal = user;
	struct tfc__agent *agent = removal->agent;
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	bool is_stale = removal->lock >= 0;
	removal_free(removal);
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
		code = tfc__process_spawn(agent->ctx, &options, NULL, removal_on_exit, removal,
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

void tfc__removals_close(struct tfc__agent *agent)
{
	TFC__LIST_EACH (link, &agent->removals)
		removal_free(tfc__container_of(link, struct removal, link));
}

/*
 * ---- stale private directories
 *
 * They remain when host and guard are killed together. The agent removes, one after another, those
 * whose lock it gets. A directory without a lock is left alone, because it may be of a version
 * before 0.3; an unfinished one (proc/dir_lock.h) is removed, at once.
 */

int tfc__stale_dirs_note(struct tfc__agent *agent, const char *dir)
{
	tfc__strv_add(&agent->stale_dirs, dir);
	return agent->stale_dirs.is_failed ? TFC_ENOMEM : TFC_OK;
}

static bool dir_has_prefix(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);
	return strncmp(name, prefix, len) == 0 &&
	       strspn(name + len, "0123456789abcdef") == DIGITS && strlen(name + len) == DIGITS;
}

static bool is_fresh_dir(const char *path)
{
	const char *slash = strrchr(path, '/');
	return dir_has_prefix(slash ? slash + 1 : path, TFC__FRESH_DIR_PREFIX);
}

bool tfc__stale_dirs_is_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return dir_has_prefix(slash ? slash + 1 : path, TFC__PRIVATE_DIR_PREFIX) ||
	       is_fresh_dir(path);
}

int tfc__stale_dirs_find(struct tfc__agent *agent, const char *parent)
{
	DIR *dir = opendir(parent);
	int code = TFC_OK;
	for (struct dirent *entry; code == TFC_OK && dir && (entry = readdir(dir));) {
		char *path = tfc__stale_dirs_is_name(entry->d_name)
				     ? tfc__path_join(parent, entry->d_name)
				     : NULL;
		if (path)
			code = tfc__stale_dirs_note(agent, path);
		free(path);
	}
	if (dir)
		closedir(dir);
	return code;
}

/* Acquires the lock of a directory that may be removed; -1: it may not. */
static int acquire_dir_lock(const struct tfc__agent *agent, const char *dir)
{
	int lock = strcmp(dir, agent->run_dir) == 0 ? -1 : tfc__dir_lock_open(dir, false);
	if (lock >= 0 && !tfc__dir_lock_acquire(lock)) {
		close(lock);
		lock = -1;
	}
	return lock;
}

void tfc__stale_dirs_remove(struct tfc__agent *agent)
{
	struct tfc__strv *dirs = &agent->stale_dirs;
	while (!agent->is_removing_stale && dirs->count) {
		char *dir = dirs->items[--dirs->count];
		dirs->items[dirs->count] = NULL;
		bool is_fresh = is_fresh_dir(dir);
		int lock = is_fresh ? -1 : acquire_dir_lock(agent, dir);
		if (is_fresh) {
			/* It is all but empty, and its creator may depend on the removal. */
			tfc__fresh_dir_remove(dir);
		} else if (lock >= 0) {
			agent->is_removing_stale = tfc__removal_begin(agent, dir, lock) == TFC_OK;
			tfc__log(agent->ctx, TFC_LOG_INFO, "agent", "",
				 agent->is_removing_stale
					 ? "removing stale private directory \"%.200s\""
					 : "cannot remove stale private directory \"%.200s\"",
				 dir);
		}
		free(dir);
	}
}
