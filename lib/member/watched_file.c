#include "member/watched_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

int tfc__watched_file_init(struct tfc__watched_file *file, const char *path, tfc_error *error)
{
	file->watch.fd = -1;
	file->path = strdup(path);
	char *slash = file->path ? strrchr(file->path, '/') : NULL;
	if (slash)
		file->directory = strndup(file->path, (size_t)(slash - file->path) + 1);
	else
		file->directory = strdup(".");
	if (!file->path || !file->directory) {
		tfc__watched_file_fini(file);
		return tfc__fail_nomem(error, file->component);
	}
	file->name = slash ? slash + 1 : file->path;
	return TFC_OK;
}

void tfc__watched_file_fini(struct tfc__watched_file *file)
{
	tfc__buf_fini(&file->text);
	free(file->path);
	free(file->directory);
	file->path = file->directory = NULL;
}

/* ---- reading */

static int watched_file_fail(const struct tfc__watched_file *file, int sys_errno, tfc_error *error)
{
	return tfc__fail_errno(error, file->component, sys_errno, "cannot read \"%s\"", file->path);
}

static int watched_file_read(const struct tfc__watched_file *file, int fd, struct tfc__buf *text,
			     tfc_error *error)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return watched_file_fail(file, errno, error);
	if (!S_ISREG(status.st_mode))
		return tfc__fail(error, TFC_EINVAL, file->component, 0,
				 "\"%s\" is not a regular file", file->path);
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
					 "\"%s\" exceeds %u MiB", file->path,
					 TFC__WATCHED_FILE_MAX >> 20);
	}
}

static void watched_file_note_valid(struct tfc__watched_file *file)
{
	if (file->is_refused)
		tfc__log(file->ctx, TFC_LOG_INFO, file->component, "",
			 "\"%s\" is valid again; %s: %u", file->path, file->items,
			 file->item_count);
	file->is_refused = false;
}

/* Returns TFC_OK also when the text has not changed. */
static int watched_file_check(struct tfc__watched_file *file, tfc_error *error)
{
	struct tfc__buf text = {0};
	/* a named pipe must not block dispatch */
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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

static bool watched_file_matches(const struct tfc__watched_file *file,
				 const struct inotify_event *event)
{
	if (!event->len)
		return true; /* an event of the directory itself, or lost events */
	/* Kubernetes renames "..data" when it changes a mounted file behind a symbolic link */
	return strcmp(event->name, file->name) == 0 || strncmp(event->name, "..", 2) == 0;
}

static bool watched_file_drain(struct tfc__watched_file *file)
{
	_Alignas(struct inotify_event) char bytes[4096];
	bool is_ours = false;
	ssize_t len;
	while ((len = read(file->watch.fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t at = 0; at < len;) {
			struct inotify_event *event = (void *)(bytes + at);
			is_ours |= watched_file_matches(file, event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
	return is_ours;
}

static void watched_file_on_change(struct tfc__io *io, uint32_t events)
{
	struct tfc__watched_file *file = tfc__container_of(io, struct tfc__watched_file, watch);
	tfc_error error = TFC_ERROR_INIT;
	if (!watched_file_drain(file) || watched_file_check(file, &error) == TFC_OK)
		return;
	file->is_refused = true;
	tfc__log(file->ctx, TFC_LOG_WARNING, file->component, "", "%s: %s", file->kept, error.text);
}

static int watched_file_watch(struct tfc__watched_file *file, tfc_error *error)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return tfc__fail_errno(error, file->component, errno,
				       "cannot watch \"%s\" for changes", file->path);
	int code = TFC_OK;
	if (inotify_add_watch(fd, file->directory,
			      IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK) < 0)
		code = tfc__fail_errno(error, file->component, errno,
				       "cannot watch \"%s\" for changes", file->directory);
	else if ((code = tfc__io_open(&file->watch, file->ctx, fd, EPOLLIN,
				      watched_file_on_change)) < 0)
		tfc__fail(error, code, file->component, 0, "cannot watch \"%s\" for changes",
			  file->path);
	if (code < 0)
		close(fd);
	else
		tfc__fd_note(file->ctx, &file->watch_fd, fd);
	return code;
}

static void watched_file_unwatch(struct tfc__watched_file *file)
{
	tfc__io_close(&file->watch);
	tfc__fd_close(&file->watch_fd);
}

/* Watches before it reads, so that no change is missed in between. */
int tfc__watched_file_start(struct tfc__watched_file *file, tfc_ctx *ctx, tfc_error *error)
{
	file->ctx = ctx;
	int code = watched_file_watch(file, error);
	if (code == TFC_OK && (code = watched_file_check(file, error)) < 0)
		watched_file_unwatch(file);
	if (code < 0)
		file->ctx = NULL;
	return code;
}

void tfc__watched_file_stop(struct tfc__watched_file *file)
{
	if (!file->ctx)
		return;
	watched_file_unwatch(file);
	tfc__buf_fini(&file->text);
	file->ctx = NULL;
}
