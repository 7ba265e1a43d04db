#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pass.h"

#ifndef CLOSE_RANGE_UNSHARE /* from linux/close_range.h, which musl does not have */
#define CLOSE_RANGE_UNSHARE 2u
#endif

/*
 * Copying the guard's descriptor table would take time proportional to the number of tasks. The
 * child therefore shares it and unshares only the low part, where all descriptors for the shim lie.
 */
static int unshare_low_fds(void)
{
	return (int)syscall(SYS_close_range, TFC__GUARD_SHARED, ~0u, CLOSE_RANGE_UNSHARE) < 0
		       ? unshare(CLONE_FILES)
		       : 0;
}

struct child {
	const struct guard *guard;
	int error; /* why the start failed; in memory shared with the child */
};

static int become_shim(void *arg)
{
	static char *const argv[] = {(char *)"tfc-shim", NULL};
	static char *const env[] = {NULL};
	struct child *child = arg;
	const struct guard *guard = child->guard;
	if (setrlimit(RLIMIT_NOFILE, &guard->nofile) == 0 && unshare_low_fds() == 0 &&
	    dup2(guard->shim_end, TFC__SHIM_GUARD) >= 0 &&
	    dup2(TFC__GUARD_PIDFD, TFC__SHIM_HOST) >= 0 && dup2(0, TFC__SHIM_LAUNCH) >= 0 &&
	    dup2(guard->lifeline, TFC__SHIM_LIFELINE) >= 0 &&
	    (guard->group < 0 || dup2(guard->group, TFC__SHIM_CGROUP) >= 0) &&
	    dup2(guard->lease_memory, TFC__SHIM_LEASES) >= 0)
		syscall(SYS_execveat, guard->shim, "", argv, env, AT_EMPTY_PATH);
	child->error = errno;
	_exit(127);
}

/* Starts a shim. 0 or an errno. */
static int shim_start(const struct guard *guard, struct spare *ret_spare)
{
	static _Alignas(16) char stack[16384];
	struct child child = {guard, 0};
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return errno;
	dup3(ends[1], guard->shim_end, O_CLOEXEC);
	close(ends[1]);
	/* As vfork: returns once the child has called exec or has failed. */
	pid_t pid = clone(become_shim, stack + sizeof(stack),
			  CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, &child);
	if (pid < 0)
		child.error = errno;
	dup3(0, guard->shim_end, O_CLOEXEC); /* else its socket would never end */
	if (child.error)
		close(ends[0]);
	else
		*ret_spare = (struct spare){pid, ends[0]};
	return child.error;
}

/*
 * 0 or an errno: EPIPE or ECONNRESET when the shim has died; other errors: the launch cannot be
 * sent. zygote: the socket of a zygote, or -1.
 */
int shim_send_launch(int socket, const struct tfc__command *command, int launch,
		     const int locks[TFC__LOCKS], int zygote)
{
	struct tfc__command spawn = *command;
	struct iovec part = {&spawn, sizeof(spawn)};
	int fds[2 + TFC__LOCKS] = {launch};
	for (spawn.locks = 0; spawn.locks < TFC__LOCKS && locks[spawn.locks] >= 0; spawn.locks++)
		fds[1 + spawn.locks] = locks[spawn.locks];
	fds[1 + spawn.locks] = zygote;
	return tfc__pass_send(socket, &part, 1, fds, 1 + spawn.locks + (zygote >= 0),
			      MSG_DONTWAIT | MSG_NOSIGNAL) < 0
		       ? errno
		       : 0;
}

/* A shim without a task ends when its socket is closed; it is reaped like every other child. */
void shim_drop_spare(struct guard *guard)
{
	if (guard->spare.pid)
		close(guard->spare.socket);
	guard->spare.pid = 0;
}

int shim_get(struct guard *guard, const struct tfc__command *command, int launch,
	     const int locks[TFC__LOCKS], int zygote, pid_t *ret_pid, int *ret_socket)
{
	int error = 0;
	if (guard->spare.pid &&
	    shim_send_launch(guard->spare.socket, command, launch, locks, zygote) != 0)
		shim_drop_spare(guard); /* the spare was killed */
	if (!guard->spare.pid) {
		error = shim_start(guard, &guard->spare);
		error = error ? error
			      : shim_send_launch(guard->spare.socket, command, launch, locks,
						 zygote);
		/* A shim that was killed just now is reported as lost when it is reaped. */
		if (error == EPIPE || error == ECONNRESET)
			error = 0;
	}
	if (error) {
		shim_drop_spare(guard);
		return error;
	}
	kill(guard->spare.pid, SIGCONT); /* it may have been stopped while it was a spare */
	*ret_pid = guard->spare.pid;
	*ret_socket = guard->spare.socket;
	guard->spare.pid = 0;
	return 0;
}

bool shim_is_spare_due(const struct guard *guard)
{
	return guard->is_spare_wanted && !guard->is_host_gone;
}

/* If the spare cannot be made now, the next start makes its shim itself. */
void shim_prepare(struct guard *guard)
{
	guard->is_spare_wanted = false;
	if (!guard->spare.pid)
		shim_start(guard, &guard->spare);
	warm_prepare(guard);
}

void shim_end_spare(struct guard *guard)
{
	if (!guard->spare.pid)
		return;
	kill(guard->spare.pid, SIGKILL);
	waitpid(guard->spare.pid, NULL, 0);
	shim_drop_spare(guard);
}
