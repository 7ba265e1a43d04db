#include "member/watched_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void watched_file_on_change(struct tfc__file_watch *watch);

int tfc__watched_file_init(struct tfc__watched_file *file, const char *path, tfc_error *error)
{
	file->watch.component = file->component;
	file->watch.changed = watched_file_on_change;
	return tfc__file_watch_init(&file->watch, path, error);
}

void tfc__watched_file_fini(struct tfc__watched_file *file)
{
	tfc__buf_fini(&file->text);
	tfc__file_watch_fini(&file->watch);
}

/* ---- reading */

static int watched_file_fail(const struct tfc__watched_file *file, int sys_errno, tfc_error *error)
{
	return tfc__fail_errno(error, file->component, sys_errno, "cannot read \"%s\"",
			       file->watch.path);
}

static int watched_file_read(const struct tfc__watched_file *file, int fd, struct tfc__buf *text,
			     tfc_error *error)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return watched_file_fail(file, errno, error);
	if (!S_ISREG(status.st_mode))
		return tfc__fail(error, TFC_EINVAL, file->component, 0,
				 "\"%s\" is not a regular file", file->watch.path);
	for (;;) {
		char *at = tfc__buf_reserve(text, 65536);
		ssize_t n = at ? read(fd, at, 65536) : 0;
		if (!at)
			return tfc__fail_nomem(error, file->component);
		if (n < 0)
			return watched_file_fail(file, errno, error);
		if (n == 0)
			return TFC_OK;
		tfc__buf_grow(text, (size_t)n);
		if (text->len > TFC__WATCHED_FILE_MAX)
			return tfc__fail(error, TFC_ETOOBIG, file->component, 0,
					 "\"%s\" exceeds %u MiB", file->watch.path,
					 TFC__WATCHED_FILE_MAX >> 20);
	}
}

static void watched_file_note_valid(struct tfc__watched_file *file)
{
	if (file->is_refused)
		tfc__log(file->watch.ctx, TFC_LOG_INFO, file->component, "",
			 "\"%s\" is valid again; %s: %u", file->watch.path, file->items,
			 file->item_count);
	file->is_refused = false;
}

/* Returns TFC_OK also when the text has not changed. */
static int watched_file_check(struct tfc__watched_file *file, tfc_error *error)
{
	struct tfc__buf text = {0};
	/* a named pipe must not block dispatch */
	int fd = open(file->watch.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int code = fd < 0 ? watched_file_fail(file, errno, error)
			  : watched_file_read(file, fd, &text, error);
	if (fd >= 0)
		close(fd);
	bool is_same = code == TFC_OK && text.len == file->text.len && file->text.data &&
		       memcmp(text.data, file->text.data, text.len) == 0;
	if (code == TFC_OK && !is_same) {
		code = file->fn(file, text.data ? text.data : "", text.len, error);
		if (code == TFC_OK)
			watched_file_note_valid(file);
	}
	if (code == TFC_ENOMEM) { /* the next event reads the file again */
		tfc__buf_fini(&text);
		return code;
	}
	tfc__buf_fini(&file->text);
	file->text = text;
	return code;
}

/* ---- watching */

static void watched_file_on_change(struct tfc__file_watch *watch)
{
	struct tfc__watched_file *file = tfc__container_of(watch, struct tfc__watched_file, watch);
	tfc_error error = TFC_ERROR_INIT;
	if (watched_file_check(file, &error) == TFC_OK)
		return;
	file->is_refused = true;
	tfc__log(watch->ctx, TFC_LOG_WARNING, file->component, "", "%s: %s", file->kept,
		 error.text);
}

/* Watches before it reads, so that no change is missed in between. */
int tfc__watched_file_start(struct tfc__watched_file *file, tfc_ctx *ctx, tfc_error *error)
{
	int code = tfc__file_watch_start(&file->watch, ctx, error);
	if (code == TFC_OK && (code = watched_file_check(file, error)) < 0)
		tfc__file_watch_stop(&file->watch);
	return code;
}

void tfc__watched_file_stop(struct tfc__watched_file *file)
{
	if (!file->watch.ctx)
		return;
	tfc__file_watch_stop(&file->watch);
	tfc__buf_fini(&file->text);
}
