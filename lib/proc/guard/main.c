#include "guard.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc/helper.h"

#define LOST_AGAIN_MS \
	100 /* interval while a killed process has not ended; a safety net, as in the shim */

int watch(struct guard *guard, int fd, uint32_t events, uint64_t what)
{
	struct epoll_event event = {.events = events, .data.u64 = what};
	int done = epoll_ctl(guard->epoll, EPOLL_CTL_ADD, fd, &event);
	return done < 0 ? epoll_ctl(guard->epoll, EPOLL_CTL_MOD, fd, &event) : done;
}

static int guard_open(struct guard *guard, const char *shim)
{
	guard->unsent_end = &guard->unsent;
	guard->shim = open(shim, O_PATH | O_CLOEXEC);
	guard->shim_end = fcntl(0, F_DUPFD_CLOEXEC, TFC__GUARD_RESERVED);
	guard->group_end = fcntl(0, F_DUPFD_CLOEXEC, TFC__GUARD_RESERVED);
	guard->group = -1;
	guard->epoll = epoll_create1(EPOLL_CLOEXEC);
	guard->signals = tfc__helper_signals();
	oom_open(guard);
	if (guard->shim < 0 || guard->epoll < 0 || guard->signals < 0 || deadline_open(guard) < 0 ||
	    lease_open(guard) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || chdir("/") < 0)
		return -1;
	if (watch(guard, TFC__GUARD_HOST, EPOLLIN, WATCH_HOST) < 0 ||
	    watch(guard, TFC__GUARD_PIDFD, EPOLLIN, WATCH_PIDFD) < 0 ||
	    watch(guard, guard->signals, EPOLLIN, WATCH_SIGNALS) < 0)
		return -1;
	return host_hello(guard) < 0 || guard->lifeline >= TFC__GUARD_SHARED ? -1 : 0;
}

static void guard_run_turn(struct guard *guard)
{
	struct epoll_event events[32];
	struct signalfd_siginfo info;
	int wait_ms = shim_is_spare_due(guard)                             ? 0
		      : guard->core.lost.first || task_is_sweep_due(guard) ? LOST_AGAIN_MS
									   : -1;
	int count = epoll_wait(guard->epoll, events, 32, warm_wait_ms(guard, wait_ms));
	for (int i = 0; i < count; i++) {
		uint64_t what = events[i].data.u64;
		if (what >= FIRST_BIRTH)
			warm_receive(guard, what - FIRST_BIRTH);
		else if (what >= FIRST_ZYGOTE)
			warm_receive_zygote(guard, (uint32_t)(what - FIRST_ZYGOTE));
		else if (what >= FIRST_TASK)
			task_receive(guard, (uint32_t)(what - FIRST_TASK));
		else if (what == WATCH_SIGNALS && read(guard->signals, &info, sizeof(info)) > 0)
			task_reap(guard, (pid_t)info.ssi_pid);
		else if (what == WATCH_DEADLINES)
			deadline_due(guard);
		else if (what == WATCH_PIDFD)
			host_gone(guard);
		else if (what == WATCH_HOST && !guard->is_host_gone)
			host_receive(guard, events[i].events);
	}
	if (guard->core.lost.first && count == 0)
		task_reap(guard, 0);
	if (count == 0 && shim_is_spare_due(guard))
		shim_prepare(guard);
	if (guard->zygotes || guard->births)
		warm_continue(guard);
	if (task_is_sweep_due(guard))
		task_sweep(guard);
}

int main(int argc, char **argv)
{
	static struct guard guard;
	syscall(SYS_close_range, TFC__GUARD_PIDFD + 1u, ~0u, 0u);
	fcntl(TFC__GUARD_HOST, F_SETFD, FD_CLOEXEC);
	fcntl(TFC__GUARD_PIDFD, F_SETFD, FD_CLOEXEC);
	getrlimit(RLIMIT_NOFILE, &guard.nofile);
	struct rlimit all = {guard.nofile.rlim_max, guard.nofile.rlim_max};
	setrlimit(RLIMIT_NOFILE, &all);
	/* Occupies the low descriptor numbers, which are those that shims receive: none of the
	 * guard's own descriptors may lie there. */
	for (int fd = 0; fd >= 0 && fd < TFC__GUARD_RESERVED - 1;)
		fd = dup(0);
	if (argc != 2 || guard_open(&guard, argv[1]) < 0)
		return 1;
	syscall(SYS_close_range, TFC__GUARD_PIDFD + 1u, TFC__GUARD_RESERVED - 1u, 0u);
	while (!guard.is_host_gone || guard.core.task_count)
		guard_run_turn(&guard);
	warm_drop_spares(&guard);
	shim_end_spare(&guard);
	task_sweep_all(&guard);
	cgroup_end(&guard);
	keep_close_all(&guard);
	dir_unlock_all(&guard);
	will_open(&guard);
	dir_remove_all(&guard);
	will_finish(&guard);
	return 0;
}
