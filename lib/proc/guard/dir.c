/* The host's private directories: their locks are held until the last task is reaped, and what the
 * host leaves of them is removed. */
#include "guard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proc/dir_lock.h"

static struct dir *find(const struct guard *guard, uint32_t id)
{
	for (uint32_t i = 0; i < guard->dir_count; i++)
		if (guard->dirs[i].id == id)
			return &guard->dirs[i];
	return NULL;
}

static void forget(struct guard *guard, uint32_t id)
{
	struct dir *dir = find(guard, id);
	if (!dir)
		return;
	if (dir->lock >= 0)
		close(dir->lock);
	free(dir->path);
	*dir = guard->dirs[--guard->dir_count];
}

static int hold_lock(const char *path)
{
	int lock = tfc__dir_lock_open(path);
	if (lock >= 0 && tfc__dir_lock_share(lock) < 0) {
		close(lock);
		lock = -1;
	}
	return lock;
}

void dir_own(struct guard *guard, const struct tfc__command *command, const char *path)
{
	forget(guard, command->dir);
	if (!command->value)
		return;
	char *copy = strdup(path);
	struct dir *dirs = realloc(guard->dirs, (guard->dir_count + 1) * sizeof(*dirs));
	if (dirs)
		guard->dirs = dirs;
	if (dirs && copy)
		guard->dirs[guard->dir_count++] =
			(struct dir){.id = command->dir, .path = copy, .lock = hold_lock(path)};
	else
		free(copy);
}

int dir_prepare(struct guard *guard, const struct tfc__command *command, int *ret_lock)
{
	struct dir *dir = find(guard, command->dir);
	*ret_lock = -1;
	if (!command->dir)
		return 0;
	if (!dir || dir->lock < 0)
		return ENOLCK;
	if (command->grace_ms > dir->grace_ms) {
		if (tfc__dir_lock_write_grace(dir->lock, command->grace_ms) < 0)
			return errno;
		dir->grace_ms = command->grace_ms;
	}
	*ret_lock = dir->lock;
	return 0;
}

/* The next incarnation need not wait while they are removed. */
void dir_remove_all(struct guard *guard)
{
	for (uint32_t i = 0; i < guard->dir_count; i++)
		tfc__dir_lock_release_tasks(guard->dirs[i].lock);
	for (uint32_t i = 0; i < guard->dir_count; i++)
		tfc__remove_tree_last(guard->dirs[i].path, TFC__DIR_LOCK);
}
