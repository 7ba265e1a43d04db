#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "proc/dir_lock.h"
#include "proc/guard.h"

static void private_dir_free(struct tfc__private_dir *dir)
{
	tfc__list_remove(&dir->link);
	if (dir->lock >= 0)
		close(dir->lock);
	free(dir->path);
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
	return tfc__guard_send(guard, &command, -1, copy, strlen(copy) + 1);
}

static int make_dir(struct tfc__private_dir *dir, const char *parent, const char *component,
		    tfc_error *error)
{
	int code = parent[0] == '/' ? tfc__make_private_dir(parent, TFC__PRIVATE_DIR_PREFIX,
							    component, error, &dir->path)
				    : tfc__fail(error, TFC_EINVAL, component, 0,
						"\"%s\" is not an absolute path", parent);
	if (code < 0)
		return code;
	dir->lock = tfc__dir_lock_make(dir->path);
	if (dir->lock >= 0)
		return TFC_OK;
	code = tfc__fail_errno(error, component, errno, "cannot lock directory \"%s\"", dir->path);
	tfc__remove_tree(dir->path);
	return code;
}

/* A guard that had died is followed by one that is sent all that is in the list. */
static int send_dir(tfc_ctx *ctx, const struct tfc__private_dir *dir)
{
	struct tfc__guard *guard;
	int code = tfc__guard_get(ctx, &guard);
	if (code == TFC_OK)
		code = tfc__private_dir_send(guard, dir, true);
	return code == TFC_ELOST ? tfc__guard_get(ctx, &guard) : code;
}

int tfc__private_dir_open(tfc_ctx *ctx, const char *parent, const char *component, tfc_error *error,
			  struct tfc__private_dir **ret_dir)
{
	struct tfc__guards *guards = NULL;
	int code = tfc__guards_get(ctx, &guards);
	struct tfc__private_dir *dir = code == TFC_OK ? calloc(1, sizeof(*dir)) : NULL;
	if (!dir)
		return tfc__fail_nomem(error, component);
	dir->ctx = ctx;
	dir->lock = -1;
	dir->id = ++guards->last_dir;
	tfc__list_init(&dir->link);
	code = make_dir(dir, parent, component, error);
	if (code < 0) {
		private_dir_free(dir);
		return code;
	}
	tfc__list_append(&guards->dirs, &dir->link);
	if ((code = send_dir(ctx, dir)) < 0) {
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
		return; /* what is left, the guard removes once the host is gone */
	if (guards->current)
		tfc__private_dir_send(guards->current, dir, false);
	private_dir_free(dir);
}
