/*
 * Who is told that a log has grown. The shims write; inotify(7) on the job's log directory says so,
 * and only while somebody follows: a job without subscribers costs no wake-up. The descriptor stays
 * until the job has ended: to close it takes the kernel some 10 ms, in which nothing is restarted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/internal.h"
#include "base/fail.h"

#define ALL_TASKS UINT32_MAX

/* The task that a segment file belongs to: "worker-0.OFFSET.log". */
static uint32_t task_of_file(const struct tfc__agent_job *job, const char *file)
{
	const char *dash = strrchr(file, '-');
	if (!dash)
		return ALL_TASKS;
	uint32_t first = 0;
	for (uint32_t r = 0; r < job->info.job->role_count; r++) {
		const struct tfc__role *role = &job->info.job->roles[r];
		if (strncmp(role->name, file, (size_t)(dash - file)) == 0 &&
		    role->name[dash - file] == '\0') {
			uint32_t index = (uint32_t)strtoul(dash + 1, NULL, 10);
			return index < role->count ? first + index : ALL_TASKS;
		}
		first += role->count;
	}
	return ALL_TASKS;
}

static void tell(struct tfc__agent_job *job, uint32_t task)
{
	TFC__LIST_EACH (link, &job->tasks[task].watches) {
		struct tfc__log_watch *watch = tfc__container_of(link, struct tfc__log_watch, link);
		watch->fn(watch);
	}
}

static void tell_all(struct tfc__agent_job *job)
{
	for (uint32_t i = 0; i < job->task_count; i++)
		tell(job, i);
}

static void on_inotify(struct tfc__io *io, uint32_t events)
{
	struct tfc__agent_job *job = tfc__container_of(io, struct tfc__agent_job, inotify);
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t len = read(io->fd, buf, sizeof(buf));
	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *event = (const void *)(buf + at);
		at += (ssize_t)(sizeof(*event) + event->len);
		bool is_lost = event->mask & IN_Q_OVERFLOW || !event->len;
		uint32_t task = is_lost ? ALL_TASKS : task_of_file(job, event->name);
		if (task == ALL_TASKS)
			tell_all(job);
		else
			tell(job, task);
	}
}

static int open_inotify(struct tfc__agent_job *job)
{
	tfc_ctx *ctx = job->agent->ctx;
	int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0)
		return tfc__fail_errno(tfc__ctx_error(ctx), "agent", errno,
				       "cannot follow logs (see fs.inotify.max_user_instances)");
	int code = tfc__io_open(&job->inotify, ctx, fd, EPOLLIN, on_inotify);
	if (code < 0)
		close(fd);
	return code;
}

static int begin(struct tfc__agent_job *job)
{
	int code = job->inotify.ctx ? TFC_OK : open_inotify(job);
	if (code < 0)
		return code;
	job->log_watch = inotify_add_watch(job->inotify.fd, job->log_dir, IN_MODIFY);
	if (job->log_watch < 0)
		return tfc__fail_errno(tfc__ctx_error(job->agent->ctx), "agent", errno,
				       "cannot follow %s", job->log_dir);
	return TFC_OK;
}

int tfc__agent_watch(struct tfc__agent_job *job, uint32_t task, struct tfc__log_watch *watch)
{
	int code = job->watch_count ? TFC_OK : begin(job);
	if (code < 0)
		return code;
	tfc__list_append(&job->tasks[task].watches, &watch->link);
	job->watch_count++;
	return TFC_OK;
}

void tfc__agent_unwatch(struct tfc__agent_job *job, struct tfc__log_watch *watch)
{
	if (tfc__list_is_empty(&watch->link))
		return;
	tfc__list_remove(&watch->link);
	if (--job->watch_count)
		return;
	if (job->is_ended)
		tfc__agent_follow_end(job);
	else
		inotify_rm_watch(job->inotify.fd, job->log_watch);
}

void tfc__agent_follow_end(struct tfc__agent_job *job)
{
	if (!job->inotify.ctx)
		return;
	int fd = job->inotify.fd;
	tfc__io_close(&job->inotify);
	close(fd);
}
