/*
 * Private directories of this user that nobody uses any more: host and guard died together, and
 * logs and bundles stayed. Whoever gets the lock of one removes it, in a process of its own, one
 * after the other. A directory without a lock is left alone, as versions before 0.3 made such; but
 * not one that was never finished (proc/dir_lock.h).
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"
#include "base/file.h"
#include "proc/dir_lock.h"

#define DIGITS 16 /* tfc__random_hex */

int tfc__stale_dirs_note(struct tfc__agent *agent, const char *dir)
{
	tfc__strv_add(&agent->stale_dirs, dir);
	return agent->stale_dirs.is_failed ? TFC_ENOMEM : TFC_OK;
}

static bool has_prefix(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);
	return strncmp(name, prefix, len) == 0 &&
	       strspn(name + len, "0123456789abcdef") == DIGITS && strlen(name + len) == DIGITS;
}

static bool is_fresh(const char *path)
{
	const char *slash = strrchr(path, '/');
	return has_prefix(slash ? slash + 1 : path, TFC__FRESH_DIR_PREFIX);
}

bool tfc__stale_dirs_is_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return has_prefix(slash ? slash + 1 : path, TFC__PRIVATE_DIR_PREFIX) || is_fresh(path);
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

/* The lock of a directory that is ours to remove now, or -1. */
static int take_lock(const struct tfc__agent *agent, const char *dir)
{
	int lock = strcmp(dir, agent->run_dir) == 0 ? -1 : tfc__dir_lock_open(dir, is_fresh(dir));
	if (lock >= 0 && !tfc__dir_lock_take(lock)) {
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
		int lock = take_lock(agent, dir);
		if (lock >= 0) {
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
