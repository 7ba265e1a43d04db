#include "member/static_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

struct tfc__static_file {
	tfc_ctx *ctx; /* NULL: not started */
	struct tfc__members *members;
	char *path;
	char *directory; /* of it, "." when the path names none */
	char *name;      /* in the directory; borrowed from path */
	struct tfc__io watch;
	struct tfc__buf text; /* of the version that counts, or of one that was refused */
};

int tfc__static_file_new(const char *path, tfc_error *error, struct tfc__static_file **ret_file)
{
	struct tfc__static_file *file = calloc(1, sizeof(*file));
	if (!file)
		return tfc__fail_nomem(error, "member");
	file->watch.fd = -1;
	file->path = strdup(path);
	char *slash = file->path ? strrchr(file->path, '/') : NULL;
	if (slash)
		file->directory = strndup(file->path, (size_t)(slash - file->path) + 1);
	else
		file->directory = strdup(".");
	if (!file->path || !file->directory) {
		tfc__static_file_free(file);
		return tfc__fail_nomem(error, "member");
	}
	file->name = slash ? slash + 1 : file->path;
	*ret_file = file;
	return TFC_OK;
}

void tfc__static_file_free(struct tfc__static_file *file)
{
	if (!file)
		return;
	tfc__buf_fini(&file->text);
	free(file->path);
	free(file->directory);
	free(file);
}

/* ---- reading it */

static int fail_file(const struct tfc__static_file *file, int sys_errno, tfc_error *error)
{
	return tfc__fail_errno(error, "member", sys_errno, "%s", file->path);
}

static int read_all(const struct tfc__static_file *file, int fd, struct tfc__buf *text,
		    tfc_error *error)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return fail_file(file, errno, error);
	if (!S_ISREG(status.st_mode))
		return tfc__fail(error, TFC_EINVAL, "member", 0, "%s: not a file", file->path);
	for (;;) {
		char *at = tfc__buf_reserve(text, 65536);
		ssize_t n = at ? read(fd, at, 65536) : 0;
		if (!at)
			return tfc__fail_nomem(error, "member");
		if (n < 0)
			return fail_file(file, errno, error);
		if (n == 0)
			return TFC_OK;
		tfc__buf_grow(text, (size_t)n);
		if (text->len > TFC__MEMBERS_FILE_MAX)
			return tfc__fail(error, TFC_ETOOBIG, "member", 0, "%s: larger than %u MiB",
					 file->path, TFC__MEMBERS_FILE_MAX >> 20);
	}
}

static int read_text(const struct tfc__static_file *file, struct tfc__buf *text, tfc_error *error)
{
	/* a pipe must not hold up the loop */
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fail_file(file, errno, error);
	int code = read_all(file, fd, text, error);
	close(fd);
	return code;
}

/* ---- taking it over */

static const tfc_member_info *find(const struct tfc__static_list *list, const char *name)
{
	uint32_t low = 0, high = list->count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		int order = strcmp(list->items[middle].name, name);
		if (order == 0)
			return &list->items[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static int check_self(const struct tfc__static_file *file, const struct tfc__static_list *list,
		      tfc_error *error)
{
	const char *self = tfc__members_self(file->members)->name;
	if (find(list, self))
		return TFC_OK;
	return tfc__fail(error, TFC_ENOENT, "member", 0,
			 "%.80s: no member is called \"%s\", as this node is: add it, or name the "
			 "node as one of the %u that are there, such as \"%s\"",
			 file->path, self, list->count, list->items[0].name);
}

/* What is not in the file any more goes first: another may have its address now. */
static void remove_others(struct tfc__static_file *file, const struct tfc__static_list *list)
{
	tfc_membership *membership = tfc__members_face(file->members);
	TFC__LIST_EACH (link, (struct tfc__link *)tfc__members_all(file->members)) {
		struct tfc__member *member = tfc__container_of(link, struct tfc__member, link);
		if (!member->is_out && !find(list, member->name))
			tfc_membership_remove(membership, member->name);
	}
}

static int apply(struct tfc__static_file *file, const struct tfc__static_list *list,
		 tfc_error *error)
{
	tfc_membership *membership = tfc__members_face(file->members);
	int code = check_self(file, list, error);
	if (code < 0)
		return code;
	remove_others(file, list);
	for (uint32_t i = 0; code == TFC_OK && i < list->count; i++)
		code = tfc_membership_put(membership, &list->items[i]);
	if (code < 0)
		*error = *tfc__ctx_error(file->ctx);
	return code;
}

/* TFC_OK also when nothing has changed. */
static int look(struct tfc__static_file *file, tfc_error *error)
{
	struct tfc__buf text = {0};
	struct tfc__static_list list = {0};
	int code = read_text(file, &text, error);
	bool is_same = code == TFC_OK && text.len == file->text.len && file->text.data &&
		       memcmp(text.data, file->text.data, text.len) == 0;
	if (code == TFC_OK && !is_same)
		code = tfc__static_parse(text.data ? text.data : "", text.len, file->path, error,
					 &list);
	if (code == TFC_OK && !is_same)
		code = apply(file, &list, error);
	tfc__static_list_free(&list);
	if (code == TFC_ENOMEM) { /* the next event tries again */
		tfc__buf_fini(&text);
		return code;
	}
	tfc__buf_fini(&file->text);
	file->text = text;
	return code;
}

/* ---- seeing changes */

static bool is_about_us(const struct tfc__static_file *file, const struct inotify_event *event)
{
	if (!event->len)
		return true; /* of the directory itself, or events were lost */
	/* "..data" is what is renamed when Kubernetes changes a mounted file behind a link */
	return strcmp(event->name, file->name) == 0 || strncmp(event->name, "..", 2) == 0;
}

static bool drain_events(struct tfc__static_file *file)
{
	_Alignas(struct inotify_event) char bytes[4096];
	bool is_ours = false;
	ssize_t len;
	while ((len = read(file->watch.fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t at = 0; at < len;) {
			struct inotify_event *event = (void *)(bytes + at);
			is_ours |= is_about_us(file, event);
			at += (ssize_t)(sizeof(*event) + event->len);
		}
	}
	return is_ours;
}

static void see_change(struct tfc__io *io, uint32_t events)
{
	struct tfc__static_file *file = tfc__container_of(io, struct tfc__static_file, watch);
	tfc_error error = TFC_ERROR_INIT;
	if (drain_events(file) && look(file, &error) < 0)
		tfc__log(file->ctx, TFC_LOG_WARNING, "member", "",
			 "the members stay as they are: %s", error.text);
}

static int watch_directory(struct tfc__static_file *file, tfc_error *error)
{
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return tfc__fail_errno(error, "member", errno, "cannot watch %s for changes",
				       file->path);
	int code = TFC_OK;
	if (inotify_add_watch(fd, file->directory,
			      IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK) < 0)
		code = tfc__fail_errno(error, "member", errno, "cannot watch %s for changes",
				       file->directory);
	else if ((code = tfc__io_open(&file->watch, file->ctx, fd, EPOLLIN, see_change)) < 0)
		tfc__fail(error, code, "member", 0, "cannot watch %s for changes", file->path);
	if (code < 0)
		close(fd);
	return code;
}

/* The watch comes first, so that no change falls between it and the reading. */
static int start(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	struct tfc__static_file *file = user;
	file->ctx = ctx;
	file->members = tfc__members_of(membership);
	int code = watch_directory(file, error);
	if (code < 0)
		return code;
	code = look(file, error);
	if (code < 0) {
		int fd = file->watch.fd;
		tfc__io_close(&file->watch);
		close(fd);
	}
	return code;
}

static void stop(void *user, tfc_membership *membership)
{
	struct tfc__static_file *file = user;
	int fd = file->watch.fd;
	tfc__io_close(&file->watch);
	close(fd);
	file->ctx = NULL;
	tfc__buf_fini(&file->text);
	file->text = (struct tfc__buf){0};
}

const tfc_membership_ops tfc__static_file_ops = {
	.size = sizeof(tfc_membership_ops),
	.start = start,
	.stop = stop,
};
