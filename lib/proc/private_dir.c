#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "proc/dir_lock.h"
#include "proc/guard.h"

static void private_dir_close_path(struct tfc__private_dir *dir)
{
	if (dir->lock >= 0)
		close(dir->lock);
	if (dir->folder >= 0)
		close(dir->folder);
	dir->lock = dir->folder = -1;
	free(dir->path);
	dir->path = NULL;
}

static void private_dir_free(struct tfc__private_dir *dir)
{
	tfc__list_remove(&dir->link);
	private_dir_close_path(dir);
	if (dir->state >= 0)
		close(dir->state);
	free(dir);
}

void tfc__private_dirs_forget(struct tfc__guards *guards)
{
	TFC__LIST_EACH (link, &guards->dirs)
		private_dir_free(tfc__container_of(link, struct tfc__private_dir, link));
}

int tfc__private_dir_send(struct tfc__guard *guard, const struct tfc__private_dir *dir,
			  bool is_wanted)
{
	struct tfc__command command = {.kind = TFC__MSG_OWN_DIR,
				       .dir = dir->id,
				       .value = is_wanted};
	char *copy = strdup(dir->path);
	if (!copy)
		return tfc__fail_nomem(tfc__ctx_error(guard->ctx), "proc");
	int state = dir->state < 0 || !is_wanted ? -1 : fcntl(dir->state, F_DUPFD_CLOEXEC, 0);
	if (dir->state >= 0 && is_wanted && state < 0) {
		free(copy);
		return tfc__fail_errno(tfc__ctx_error(guard->ctx), "proc", errno,
				       "cannot pass the state directory to the guard");
	}
	return tfc__guard_send(guard, &command, state, copy, strlen(copy) + 1);
}

/*
 * Locks the new directory and then renames it to its final name. 1: another process is removing it.
 */
static int private_dir_lock_fresh(struct tfc__private_dir *dir, const char *parent,
				  const char *fresh, const char *component, tfc_error *error)
{
	const char *digits = strrchr(fresh, '/') + sizeof(TFC__FRESH_DIR_PREFIX);
	if (asprintf(&dir->path, "%s/" TFC__PRIVATE_DIR_PREFIX "%s", parent, digits) < 0) {
		dir->path = NULL;
		tfc__remove_tree(fresh);
		return tfc__fail_nomem(error, component);
	}
	/* systemd-tmpfiles removes what has not been used for days from a temporary directory, but
	 * nothing below a directory with a BSD lock (tmpfiles.d(5), "Age"). On a file system
	 * without such locks the directory works without it. */
	dir->folder = open(fresh, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir->folder >= 0)
		flock(dir->folder, LOCK_EX | LOCK_NB);
	dir->lock = tfc__dir_lock_make(fresh);
	if (dir->lock >= 0 && rename(fresh, dir->path) == 0)
		return TFC_OK;
	/* Another process of this user considered the new directory abandoned. */
	if (errno == EEXIST || errno == EAGAIN || errno == ENOENT)
		return 1;
	int code = tfc__fail_errno(error, component, errno, "cannot lock directory \"%s\"", fresh);
	tfc__remove_tree(fresh);
	return code;
}

static int private_dir_make_locked(struct tfc__private_dir *dir, const char *parent,
				   const char *component, tfc_error *error)
{
	char *fresh;
	int code;
	do {
		code = tfc__make_private_dir(parent, TFC__FRESH_DIR_PREFIX, component, error,
					     &fresh);
		if (code < 0)
			break;
		code = private_dir_lock_fresh(dir, parent, fresh, component, error);
		if (code == 1) {
			private_dir_close_path(dir);
			tfc__fresh_dir_remove(fresh); /* the other process may have ended */
		}
		free(fresh);
	} while (code == 1);
	return code;
}

int tfc__private_dir_open(tfc_ctx *ctx, const char *parent, int state_dir, const char *component,
			  tfc_error *error, struct tfc__private_dir **ret_dir)
{
	struct tfc__guards *guards = NULL;
	struct tfc__guard *guard;
	if (parent[0] != '/')
		return tfc__fail(error, TFC_EINVAL, component, 0, "\"%s\" is not an absolute path",
				 parent);
	int code = tfc__guards_get(ctx, &guards);
	struct tfc__private_dir *dir = code == TFC_OK ? calloc(1, sizeof(*dir)) : NULL;
	if (!dir)
		return tfc__fail_nomem(error, component);
	dir->ctx = ctx;
	dir->lock = dir->folder = -1;
	dir->state = state_dir < 0 ? -1 : fcntl(state_dir, F_DUPFD_CLOEXEC, 0);
	dir->id = ++guards->last_dir;
	tfc__list_init(&dir->link);
	code = state_dir >= 0 && dir->state < 0
		       ? tfc__fail_errno(error, component, errno,
					 "cannot duplicate the descriptor of the state directory")
		       : private_dir_make_locked(dir, parent, component, error);
	if (code < 0) {
		private_dir_free(dir);
		return code;
	}
	tfc__list_append(&guards->dirs, &dir->link);
	code = tfc__guard_get(ctx, &guard);
	if (code == TFC_OK)
		code = tfc__private_dir_send(guard, dir, true);
	if (code == TFC_ELOST) /* the next guard receives all directories when it starts */
		code = tfc__guard_get(ctx, &guard);
	if (code < 0) {
		if (error && error != tfc__ctx_error(ctx))
			*error = *tfc__ctx_error(ctx);
		tfc__private_dir_close(dir);
		return code;
	}
	*ret_dir = dir;
	return TFC_OK;
}

const char *tfc__private_dir_path(const struct tfc__private_dir *dir)
{
	return dir->path;
}

void tfc__private_dir_close(struct tfc__private_dir *dir)
{
	if (!dir)
		return;
	struct tfc__guards *guards = tfc__ctx_slot(dir->ctx, TFC__SLOT_GUARDS);
	if (tfc__remove_tree_last(dir->path, TFC__DIR_LOCK) < 0)
		return; /* the guard removes what remains once the host has ended */
	if (guards->current)
		tfc__private_dir_send(guards->current, dir, false);
	private_dir_free(dir);
}
