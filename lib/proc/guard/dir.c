/*
 * The host's private directories. The guard holds their locks until the last task is reaped, and
 * removes the directories that the host leaves behind.
 */
#include "guard.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proc/dir_lock.h"
#include "proc/task_lock.h"

static struct dir *dir_find(const struct guard *guard, uint32_t id)
{
	for (uint32_t i = 0; i < guard->dir_count; i++)
		if (guard->dirs[i].id == id)
			return &guard->dirs[i];
	return NULL;
}

static void dir_close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void dir_drop(struct guard *guard, uint32_t id)
{
	struct dir *dir = dir_find(guard, id);
	if (!dir)
		return;
	dir_close_fd(dir->lock);
	dir_close_fd(dir->state);
	dir_close_fd(dir->guard_lock);
	free(dir->path);
	*dir = guard->dirs[--guard->dir_count];
}

void dir_own(struct guard *guard, const struct tfc__command *command, const char *path, int state)
{
	dir_drop(guard, command->dir);
	char *copy = command->value ? strdup(path) : NULL;
	struct dir *dirs = copy ? realloc(guard->dirs, (guard->dir_count + 1) * sizeof(*dirs))
				: NULL;
	if (!dirs) {
		free(copy);
		dir_close_fd(state);
		return;
	}
	int lock = tfc__dir_lock_open(path, false);
	if (lock >= 0 && tfc__dir_lock_share(lock) < 0) {
		close(lock);
		lock = -1;
	}
	guard->dirs = dirs;
	guard->dirs[guard->dir_count++] = (struct dir){
		.id = command->dir, .path = copy, .lock = lock, .state = state, .guard_lock = -1};
}

int dir_prepare(struct guard *guard, const struct tfc__command *command, int ret_locks[TFC__LOCKS])
{
	struct dir *dir = dir_find(guard, command->dir);
	struct pollfd host = {.fd = TFC__GUARD_PIDFD, .events = POLLIN};
	ret_locks[TFC__LOCK_DIR] = ret_locks[TFC__LOCK_TASK] = -1;
	if (!command->dir)
		return 0;
	if (!dir || dir->lock < 0)
		return ENOLCK;
	ret_locks[TFC__LOCK_DIR] = dir->lock;
	if (dir->state < 0)
		return 0;
	if (dir->guard_lock < 0)
		dir->guard_lock = tfc__task_lock_guard(dir->state);
	int lock = dir->guard_lock < 0 ? -1 : tfc__task_lock_task(dir->state, command->grace_ms);
	if (lock < 0)
		return errno;
	ret_locks[TFC__LOCK_TASK] = lock;
	/*
	 * If the host died before the locks were held, the next incarnation may not have seen them.
	 * Only the pidfd shows it: a child of the host may hold the host's end of the socket open.
	 */
	return poll(&host, 1, 0) == 0 ? 0 : ESRCH;
}

/* The lock of the directory belongs to the guard and is kept. */
void dir_release(const int locks[TFC__LOCKS])
{
	dir_close_fd(locks[TFC__LOCK_TASK]);
}

/* Before the removal, so that the next incarnation does not wait for it. */
void dir_unlock_all(struct guard *guard)
{
	for (uint32_t i = 0; i < guard->dir_count; i++) {
		dir_close_fd(guard->dirs[i].guard_lock);
		guard->dirs[i].guard_lock = -1;
	}
}

void dir_remove_all(struct guard *guard)
{
	for (uint32_t i = 0; i < guard->dir_count; i++)
		tfc__remove_tree_last(guard->dirs[i].path, TFC__DIR_LOCK);
}
