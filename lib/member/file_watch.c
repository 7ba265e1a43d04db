#include "member/file_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fail.h"

int tfc__file_watch_init(struct tfc__file_watch *watch, const char *path, tfc_error *error)
{
	watch->io.fd = -1;
	watch->path = strdup(path);
	char *slash = watch->path ? strrchr(watch->path, '/') : NULL;
	if (slash)
		watch->directory = strndup(watch->path, (size_t)(slash - watch->path) + 1);
	else
		watch->directory = strdup(".");
	if (!watch->path || !watch->directory) {
		tfc__file_watch_fini(watch);
		return tfc__fail_nomem(error, watch->component);
	}
	watch->name = slash ? slash + 1 : watch->path;
	return TFC_OK;
}

void tfc__file_watch_fini(struct tfc__file_watch *watch)
{
	tfc__file_watch_stop(watch);
	free(watch->path);
	free(watch->directory);
	watch->path = watch->directory = NULL;
}

static bool file_watch_matches(const struct tfc__file_watch *watch,
			       const struct inotify_event *event)
{
	if (!event->len)
		return true; /* an event of the directory itself, or lost events */
	/* Kubernetes renames "..data" when it changes a mounted file behind a symbolic link */
	return strcmp(event->name, watch->name) == 0 || strncmp(event->name, "..", 2) == 0;
}

static bool file_watch_drain(struct tfc__file_watch *watch)
{
	_Alignas(struct inotify_event) char bytes[4096];
	bool is_ours = false;
	ssize_t len;
	while ((len = read(watch->io.fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t at = 0; at < len;) {
			struct inotify_event *event = (void *)(bytes + at);
			is_ours |= file_watch_matches(watch, event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
	return is_ours;
}

static void file_watch_on_event(struct tfc__io *io, uint32_t events)
{
	struct tfc__file_watch *watch = tfc__container_of(io, struct tfc__file_watch, io);
	if (file_watch_drain(watch))
		watch->changed(watch);
}

int tfc__file_watch_start(struct tfc__file_watch *watch, tfc_ctx *ctx, tfc_error *error)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return tfc__fail_errno(error, watch->component, errno,
				       "cannot watch \"%s\" for changes", watch->path);
	int code = TFC_OK;
	if (inotify_add_watch(fd, watch->directory,
			      IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK) < 0)
		code = tfc__fail_errno(error, watch->component, errno,
				       "cannot watch \"%s\" for changes", watch->directory);
	else if ((code = tfc__io_open(&watch->io, ctx, fd, EPOLLIN, file_watch_on_event)) < 0)
		tfc__fail(error, code, watch->component, 0, "cannot watch \"%s\" for changes",
			  watch->path);
	if (code < 0) {
		close(fd);
		return code;
	}
	tfc__fd_note(ctx, &watch->fd, fd);
	watch->ctx = ctx;
	return TFC_OK;
}

void tfc__file_watch_stop(struct tfc__file_watch *watch)
{
	if (!watch->ctx)
		return;
	tfc__io_close(&watch->io);
	tfc__fd_close(&watch->fd);
	watch->ctx = NULL;
}
