/*
 * The shims write the logs; inotify(7) on the directory reports it. The watch exists only while
 * somebody follows, so logs without readers cause no wake-ups. The inotify descriptor stays open
 * until nothing is written any more: closing it takes the kernel some 10 ms, which would delay a
 * restart.
 */
#include "log/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/names.h"
#include "base/text.h"

/* When more files than this are open, a reader that has reached the end closes its file. */
#define OPEN_LOGS_MAX 32
#define WATCH_BUCKETS 1024

struct local_log {
	struct tfc__log_source source;
	struct tfc__link link;    /* in dir->sources */
	struct tfc__link watch;   /* in a bucket of dir */
	struct tfc__log_dir *dir; /* NULL: not written any more, or is_left */
	bool is_left;             /* the directory was closed: next returns 0 */
	tfc_log *log;             /* NULL: not open now */
	uint64_t position;        /* while log is NULL: where to continue */
	char *path;
	char name[TFC__LOG_NAME_MAX + 1];
};

/* ---- watching */

static struct tfc__link *log_dir_bucket(const struct tfc__log_dir *dir, const char *name,
					size_t len)
{
	return &dir->buckets[tfc__text_hash(name, len) % WATCH_BUCKETS];
}

static void local_log_wake(struct local_log *log)
{
	if (log->source.wake)
		log->source.wake(log->source.user);
}

static void log_dir_on_inotify(struct tfc__io *io, uint32_t events)
{
	struct tfc__log_dir *dir = tfc__container_of(io, struct tfc__log_dir, inotify);
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t len = read(io->fd, buf, sizeof(buf));
	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *event = (const void *)(buf + at);
		at += (ssize_t)(sizeof(*event) + event->len);
		if (event->mask & IN_Q_OVERFLOW || !event->len) {
			TFC__LIST_EACH (link, &dir->sources)
				local_log_wake(tfc__container_of(link, struct local_log, link));
			continue;
		}
		/* A segment file has grown; its name is "worker-0.OFFSET.log". */
		const char *file = event->name, *end = strrchr(file, '.');
		while (end && end > file && *--end != '.')
			;
		size_t name_len = end ? (size_t)(end - file) : 0;
		TFC__LIST_EACH (link, log_dir_bucket(dir, file, name_len)) {
			struct local_log *log = tfc__container_of(link, struct local_log, watch);
			if (strncmp(log->name, file, name_len) == 0 && log->name[name_len] == '\0')
				local_log_wake(log);
		}
	}
}

static void log_dir_close_inotify(struct tfc__log_dir *dir)
{
	if (!dir->inotify.ctx)
		return;
	tfc__io_close(&dir->inotify);
	tfc__fd_close(&dir->inotify_fd);
}

static int log_dir_watch(struct tfc__log_dir *dir, tfc_error *error)
{
	if (!dir->buckets) {
		dir->buckets = malloc(WATCH_BUCKETS * sizeof(*dir->buckets));
		if (!dir->buckets)
			return tfc__fail_nomem(error, "log");
		for (uint32_t i = 0; i < WATCH_BUCKETS; i++)
			tfc__list_init(&dir->buckets[i]);
	}
	if (!dir->inotify.ctx) {
		int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
		if (fd < 0)
			return tfc__fail_errno(
				error, "log", errno,
				"cannot follow logs (limit fs.inotify.max_user_instances)");
		int code = tfc__io_open(&dir->inotify, dir->ctx, fd, EPOLLIN, log_dir_on_inotify);
		if (code < 0) {
			*error = *tfc__ctx_error(dir->ctx);
			close(fd);
			return code;
		}
		tfc__fd_note(dir->ctx, &dir->inotify_fd, fd);
	}
	dir->watch = inotify_add_watch(dir->inotify.fd, dir->path, IN_MODIFY);
	if (dir->watch < 0)
		return tfc__fail_errno(error, "log", errno, "cannot follow \"%s\"", dir->path);
	return TFC_OK;
}

/* Without a watch the output is only read at the end of each attempt. */
static int local_log_watch(struct local_log *log, tfc_error *error)
{
	struct tfc__log_dir *dir = log->dir;
	if (dir->is_complete || dir->is_unwatchable)
		return TFC_OK;
	tfc_error why = TFC_ERROR_INIT;
	int code = dir->watch_count ? TFC_OK : log_dir_watch(dir, &why);
	if (code == TFC_ENOMEM)
		return tfc__fail_nomem(error, "log");
	dir->is_unwatchable = code < 0;
	if (code < 0) {
		tfc__log(dir->ctx, TFC_LOG_WARNING, "log", dir->subject,
			 "%s; output is read only when an attempt ends", why.text);
		return TFC_OK;
	}
	tfc__list_append(log_dir_bucket(dir, log->name, strlen(log->name)), &log->watch);
	dir->watch_count++;
	return TFC_OK;
}

static void local_log_unwatch(struct local_log *log)
{
	struct tfc__log_dir *dir = log->dir;
	if (tfc__list_is_empty(&log->watch))
		return;
	tfc__list_remove(&log->watch);
	if (--dir->watch_count)
		return;
	if (dir->is_complete)
		log_dir_close_inotify(dir);
	else
		inotify_rm_watch(dir->inotify.fd, dir->watch);
}

void tfc__log_dir_init(struct tfc__log_dir *dir, tfc_ctx *ctx, const char *path,
		       const char *subject, uint32_t *open_count)
{
	dir->ctx = ctx;
	dir->path = path;
	dir->subject = subject;
	dir->open_count = open_count;
	tfc__list_init(&dir->sources);
}

void tfc__log_dir_complete(struct tfc__log_dir *dir)
{
	dir->is_complete = true;
	if (dir->watch_count == 0)
		log_dir_close_inotify(dir);
}

void tfc__log_dir_fini(struct tfc__log_dir *dir)
{
	if (!dir->ctx)
		return;
	TFC__LIST_EACH (link, &dir->sources) {
		struct local_log *log = tfc__container_of(link, struct local_log, link);
		local_log_unwatch(log);
		tfc__list_remove(link);
		*dir->open_count -= log->log != NULL;
		log->dir = NULL;
		log->is_left = true;
	}
	log_dir_close_inotify(dir);
	free(dir->buckets);
	dir->buckets = NULL;
}

/* ---- reading */

static void local_log_close_file(struct local_log *log)
{
	if (!log->log)
		return;
	log->position = tfc_log_position(log->log);
	tfc_log_close(log->log);
	log->log = NULL;
	if (log->dir)
		--*log->dir->open_count;
}

static int local_log_next(void *source, tfc_log_record *record, tfc_error *error)
{
	struct local_log *log = source;
	if (log->is_left)
		return 0;
	if (!log->log) {
		int code = tfc_log_open(log->path, log->name, log->position, error, &log->log);
		if (code < 0)
			return code;
		if (log->dir)
			++*log->dir->open_count;
	}
	int code = tfc_log_next(log->log, record, error);
	if (code == 0 && log->dir && *log->dir->open_count > OPEN_LOGS_MAX)
		local_log_close_file(log);
	return code;
}

static void local_log_close(void *source)
{
	struct local_log *log = source;
	local_log_close_file(log);
	if (log->dir)
		local_log_unwatch(log);
	tfc__list_remove(&log->link);
	free(log->path);
	free(log);
}

static struct local_log *local_log_new(const char *path, const char *name, uint64_t position,
				       tfc_error *error)
{
	static const struct tfc__log_source_ops ops = {local_log_next, local_log_close};
	struct local_log *log = calloc(1, sizeof(*log));
	if (log)
		log->path = strdup(path);
	if (!log || !log->path) {
		free(log);
		tfc__fail_nomem(error, "log");
		return NULL;
	}
	log->source.ops = &ops;
	log->position = position;
	tfc__list_init(&log->link);
	tfc__list_init(&log->watch);
	snprintf(log->name, sizeof(log->name), "%s", name);
	return log;
}

struct tfc__log_source *tfc__log_file_open(const char *path, const char *name, uint64_t position,
					   tfc_error *error)
{
	struct local_log *log = local_log_new(path, name, position, error);
	return log ? &log->source : NULL;
}

struct tfc__log_source *tfc__log_dir_open(struct tfc__log_dir *dir, const char *name,
					  uint64_t position, tfc_error *error)
{
	struct local_log *log = local_log_new(dir->path, name, position, error);
	if (!log)
		return NULL;
	log->dir = dir;
	tfc__list_append(&dir->sources, &log->link);
	if (local_log_watch(log, error) == TFC_OK)
		return &log->source;
	local_log_close(log);
	return NULL;
}
