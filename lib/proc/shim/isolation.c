#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc/group.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ull
#endif

/* struct clone_args of linux/sched.h (clone(2)); older headers lack the field `cgroup`. */
struct clone_request {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
		set_tid_size, cgroup;
};

/* ---- a PID namespace */

/*
 * The init of the namespace. Its only purpose is its death, at which the kernel kills everything
 * left in the namespace. The task is the shim's child and not the init's, so the shim gets its
 * exact status. Orphans become the init's children, and the kernel reaps them because the init
 * ignores SIGCHLD. No signal from inside the namespace reaches the init.
 */
static _Noreturn void run_init(int shim, const int locks[TFC__LOCKS])
{
	struct pollfd watched = {.fd = 3, .events = POLLIN};
	unsigned next = 5;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, "tfc-init");
	signal(SIGCHLD, SIG_IGN);
	dup2(shim, 3);
	/* Lifeline and locks stay open: while the init lives, a process of the task may live. */
	dup2(TFC__SHIM_LIFELINE, 4);
	for (int i = 0; i < TFC__LOCKS && locks[i] >= 0; i++)
		dup2(locks[i], (int)next++);
	syscall(SYS_close_range, next, ~0u, 0u);
	/* The shim may have died before the first line. */
	while (poll(&watched, 1, -1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static int write_proc_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t len = write(fd, text, strlen(text));
	int error = errno;
	close(fd);
	errno = error;
	return len < 0 ? -1 : 0;
}

/*
 * As root directly, otherwise in a user namespace, which the shim itself must enter.
 * user_namespaces(7): without privileges a process can map only its own uid and gid, and the gid
 * only after it has disabled setgroups.
 */
static int isolation_make_namespace(void)
{
	char uid_line[64], gid_line[64];
	snprintf(uid_line, sizeof(uid_line), "%u %u 1", geteuid(), geteuid());
	snprintf(gid_line, sizeof(gid_line), "%u %u 1", getegid(), getegid());
	if (unshare(CLONE_NEWPID) == 0)
		return 0;
	if (errno != EPERM || unshare(CLONE_NEWUSER) < 0 ||
	    write_proc_file("/proc/self/setgroups", "deny") < 0 ||
	    write_proc_file("/proc/self/uid_map", uid_line) < 0 ||
	    write_proc_file("/proc/self/gid_map", gid_line) < 0)
		return -1;
	return unshare(CLONE_NEWPID);
}

static int isolation_enter_namespace(const int locks[TFC__LOCKS])
{
	int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (self < 0 || isolation_make_namespace() < 0)
		return errno;
	pid_t init = fork();
	if (init == 0)
		run_init(self, locks);
	int error = init < 0 ? errno : 0;
	close(self);
	return error;
}

int isolation_mount_proc(void)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return errno;
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? errno
											  : 0;
}

/* ---- a cgroup */

/* Named after the shim's pid: whoever finds the group can check whether its shim is alive. */
static const char *isolation_group_name(char name[16])
{
	snprintf(name, 16, "%d", (int)getpid());
	return name;
}

static int isolation_make_group(struct shim *shim)
{
	char name[16];
	if (shim->group >= 0)
		return 0;
	if (!shim->has_groups)
		return ENOTSUP;
	if (mkdirat(TFC__SHIM_CGROUP, isolation_group_name(name), 0755) < 0 && errno != EEXIST)
		return errno;
	shim->group = openat(TFC__SHIM_CGROUP, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return shim->group < 0 ? errno : 0;
}

bool isolation_has_groups(void)
{
	return fcntl(TFC__SHIM_CGROUP, F_GETFD) >= 0;
}

void isolation_prepare(struct shim *shim)
{
	(void)isolation_make_group(shim); /* a task that needs a group gets the error later */
}

void isolation_kill(const struct shim *shim)
{
	int fd = shim->group < 0 ? -1 : openat(shim->group, "cgroup.kill", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "1", 1) < 0) /* the sweep kills what the group could not */
		errno = 0;
	close(fd);
}

/*
 * If the guard is gone, the last shim also removes the guard's directory, which contains this one.
 */
void isolation_end(struct shim *shim)
{
	char name[16], link[32], path[4096];
	if (shim->group < 0)
		return;
	close(shim->group);
	shim->group = -1;
	tfc__group_remove(TFC__SHIM_CGROUP, isolation_group_name(name));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", TFC__SHIM_CGROUP);
	ssize_t len = shim->core.is_orphan ? readlink(link, path, sizeof(path) - 1) : -1;
	if (len > 0) {
		path[len] = 0;
		rmdir(path);
	}
}

pid_t isolation_fork_into_group(const struct shim *shim)
{
	struct clone_request request = {.flags = CLONE_INTO_CGROUP | CLONE_VFORK,
					.exit_signal = SIGCHLD,
					.cgroup = (uint64_t)shim->group};
	return (pid_t)syscall(SYS_clone3, &request, sizeof(request));
}

/* ---- */

int isolation_begin(struct shim *shim, uint32_t wanted)
{
	int error = 0;
	shim->isolation = wanted;
	if (wanted == TFC__ISOLATION_PIDNS || wanted == TFC__ISOLATION_PLAIN)
		isolation_end(shim);
	if (wanted == TFC__ISOLATION_PIDNS) {
		shim->report.step = TFC__STEP_NAMESPACE;
		error = isolation_enter_namespace(shim->locks);
	} else if (wanted != TFC__ISOLATION_PLAIN) {
		shim->report.step = TFC__STEP_CGROUP;
		error = isolation_make_group(shim);
		bool is_auto = wanted == TFC__ISOLATION_AUTO;
		shim->isolation = is_auto && error ? TFC__ISOLATION_PLAIN : TFC__ISOLATION_CGROUP;
		error = is_auto ? 0 : error;
	}
	return error;
}
