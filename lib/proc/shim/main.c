#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/helper.h"

/* Interval while a killed process has not ended. A safety net: the kernel signals each death. */
#define SWEEP_AGAIN_MS 100

static void shim_send_report(struct shim *shim, uint32_t kind)
{
	shim->report.kind = kind;
	send(TFC__SHIM_GUARD, &shim->report, sizeof(shim->report), MSG_NOSIGNAL);
}

static void shim_report_suspension(struct shim *shim, uint32_t kind)
{
	if (!kind)
		return;
	shim->report.status = shim->suspended_by;
	shim_send_report(shim, kind);
	shim->report.status = 0;
}

static void shim_report_loss(struct shim *shim, bool is_last)
{
	struct tfc__report report;
	if (loss_observe(shim, is_last, &report))
		send(TFC__SHIM_GUARD, &report, sizeof(report), MSG_NOSIGNAL);
}

static int shim_fail_start(struct shim *shim, int error)
{
	struct shim_result result = end_step(shim, &(struct shim_event){.kind = SHIM_NOT_STARTED,
									.error = error});
	shim->report.reason = result.reason;
	shim->report.status = error;
	shim->report.silent_ms = result.silent_ms;
	shim->report.time_ns = tfc__wall();
	shim->report.log_end = shim->log.position;
	warm_end_child(shim);
	isolation_end(shim);
	shim_send_report(shim, TFC__MSG_EXITED);
	return 1;
}

static int shim_become_parent(struct shim *shim)
{
	shim->signals = tfc__helper_signals();
	setsid();
	prctl(PR_SET_NAME, "tfc-shim");
	return shim->signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? errno : end_open(shim);
}

static int shim_open_log(struct shim *shim, const struct shim_launch *launch)
{
	struct tfc__log_writer *log = &shim->log;
	log->fd = log->dir_fd = -1;
	if (!launch->log_dir)
		return 0;
	log->segment_bytes = launch->head->log_segment_bytes;
	log->segments = launch->head->log_segments;
	log->attempt = launch->head->attempt;
	strcpy(log->name, launch->log_name); /* launch_map checked its length */
	return tfc__log_writer_open(log, launch->log_dir);
}

/* 0, or an errno; the step that failed is in the report. */
static int shim_start_task(struct shim *shim, struct shim_launch *launch)
{
	int out[2] = {-1, -1}, err[2] = {-1, -1}, reports[2] = {-1, -1};
	struct task_fds fds;
	int error = launch_map(launch);
	if (error)
		return error;
	shim->report.step = TFC__STEP_LOG;
	error = shim_open_log(shim, launch);
	if (error)
		return error;
	shim->report.step = TFC__STEP_PIPE;
	if (shim->log.dir_fd >= 0 && (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0))
		return errno;
	if (launch->head->has_reports && pipe2(reports, O_CLOEXEC) < 0)
		return errno;
	error = stall_open(shim, launch->head->stall_ms, &fds.progress);
	if (error)
		return error;
	suspension_watch(shim, launch->head->suspend_ms);
	shim->loss.is_watched = launch->head->reports_lost_output;
	error = isolation_begin(shim, launch->head->isolation);
	if (error)
		return error;
	error = limits_group(shim, launch);
	if (error)
		return error;
	fds.out = out[1];
	fds.err = err[1];
	fds.reports = reports[1];
	fds.zygote = shim->zygote;
	/* The guard adopts the shims that a zygote makes. */
	if (shim->zygote >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 0) < 0)
		return errno;
	error = warm_start(shim, launch, &fds) ? 0 : task_start(shim, launch, &fds);
	if (error)
		return error;
	if (shim->zygote >= 0)
		close(shim->zygote);
	if (fds.progress >= 0)
		close(fds.progress);
	if (fds.reports >= 0)
		close(fds.reports);
	if (fds.out >= 0) {
		close(fds.out);
		close(fds.err);
	}
	shim->out = out[0];
	shim->err = err[0];
	shim->reports = reports[0];
	return 0;
}

static void shim_handle_commands(struct shim *shim)
{
	struct tfc__command command;
	ssize_t len;
	while ((len = recv(TFC__SHIM_GUARD, &command, sizeof(command), MSG_DONTWAIT)) ==
	       (ssize_t)sizeof(command)) {
		if (command.kind == TFC__MSG_STOP)
			end_step(shim, &(struct shim_event){.kind = SHIM_STOP,
							    .now = tfc__boot_time(),
							    .command = &command});
		else if (command.kind == TFC__MSG_SIGNAL && !shim->core.is_dead)
			kill(-shim->task, (int)command.value);
	}
	if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
		end_decide(shim, SHIM_GUARD_GONE);
}

static int shim_wait_ms(const struct shim *shim)
{
	if (shim->core.is_dead)
		return SWEEP_AGAIN_MS;
	uint64_t at = shim->core.silence_at, due = output_due();
	if (due && (!at || due < at))
		at = due;
	if (shim->core.suspension_at && (!at || shim->core.suspension_at < at))
		at = shim->core.suspension_at;
	due = loss_due(shim);
	if (due && (!at || due < at))
		at = due;
	if (!at)
		return -1;
	uint64_t now = tfc__now();
	uint64_t ms = now >= at ? 0 : (at - now) / TFC__MS + 1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void shim_copy_output(struct shim *shim, int *fd)
{
	if (!output_read(shim, *fd)) {
		close(*fd);
		*fd = -1;
	}
}

static void shim_supervise(struct shim *shim)
{
	for (bool is_gone = false; !is_gone;) {
		struct pollfd fds[] = {
			{.fd = shim->signals, .events = POLLIN},
			{.fd = shim->core.is_orphan ? -1 : TFC__SHIM_GUARD, .events = POLLIN},
			{.fd = shim->out, .events = POLLIN},
			{.fd = shim->err, .events = POLLIN},
			{.fd = shim->progress, .events = POLLIN},
			{.fd = shim->timer, .events = POLLIN},
			{.fd = shim->core.is_host_gone ? -1 : TFC__SHIM_HOST, .events = POLLIN},
			{.fd = shim->reports, .events = POLLIN},
		};
		int ready = poll(fds, 8, shim_wait_ms(shim));
		if (ready > 0 && fds[5].revents)
			end_due(shim);
		if (ready > 0 && fds[2].revents)
			shim_copy_output(shim, &shim->out);
		if (ready > 0 && fds[3].revents)
			shim_copy_output(shim, &shim->err);
		if (ready > 0 && fds[7].revents)
			shim_copy_output(shim, &shim->reports);
		if (ready > 0 && fds[4].revents)
			stall_read(shim);
		output_write_due(shim);
		shim_report_loss(shim, false);
		if (stall_is_due(shim))
			shim_send_report(shim, TFC__MSG_STALLED);
		if (ready > 0 && fds[1].revents)
			shim_handle_commands(shim);
		if (ready > 0 && fds[6].revents)
			end_decide(shim, SHIM_HOST_GONE);
		if ((ready > 0 && fds[0].revents) || shim->core.is_dead) {
			struct signalfd_siginfo info;
			(void)!read(shim->signals, &info, sizeof(info)); /* end_reap finds out which
									    process died */
			is_gone = end_reap(shim);
			shim_report_suspension(shim, suspension_observe(shim));
		}
		shim_report_suspension(shim, suspension_is_due(shim));
	}
}

/* argv[1]: the pid of the process that a zygote has forked, if there is one. */
int main(int argc, char **argv)
{
	struct shim shim = {.out = -1,
			    .err = -1,
			    .group = -1,
			    .zygote = -1,
			    .child = argc > 1 ? atoi(argv[1]) : 0,
			    .log.fd = -1,
			    .log.dir_fd = -1,
			    .progress = -1,
			    .reports = -1,
			    .report.step = TFC__STEP_LAUNCH};
	struct shim_launch launch = {.head = NULL};
	shim.has_groups = isolation_has_groups();
	int error = shim_become_parent(&shim);
	isolation_prepare(&shim);
	if (shim.child) {
		fcntl(TFC__SHIM_CHILD, F_SETFD, FD_CLOEXEC);
		shim.report.pid = getpid();
		shim_send_report(&shim, TFC__MSG_BORN);
		shim.report.pid = 0;
	}
	if (!launch_await(&shim)) {
		warm_end_child(&shim);
		shim.core.is_orphan = true;
		isolation_end(&shim);
		return 0;
	}
	bool is_to_start = end_decide(&shim, SHIM_SPAWN).actions & SHIM_START;
	if (!error && is_to_start)
		error = shim_start_task(&shim, &launch);
	if (error || !is_to_start)
		return shim_fail_start(&shim, error);
	launch_unmap(&launch);
	shim.report.step = shim.memory_error ? TFC__STEP_MEMORY : TFC__STEP_NONE;
	shim.report.status = shim.memory_error;
	shim.report.requested = shim.memory_limit;
	shim.report.pid = shim.task;
	shim.report.isolation = shim.isolation;
	shim.report.time_ns = tfc__wall();
	shim_send_report(&shim, TFC__MSG_STARTED);
	shim.report.step = TFC__STEP_NONE;
	end_decide(&shim, SHIM_STARTED);
	shim_supervise(&shim);
	limits_report_oom(&shim);
	isolation_end(&shim);
	output_drain(&shim);
	shim_report_loss(&shim, true);
	tfc__log_writer_close(&shim.log);
	shim.report.log_end = shim.log.position;
	shim.report.log_dropped = shim.log.dropped;
	shim.report.log_gap = shim.log.gap;
	shim.report.silent_ms = end_decide(&shim, SHIM_ENDED).silent_ms;
	shim_send_report(&shim, TFC__MSG_EXITED);
	return 0;
}
