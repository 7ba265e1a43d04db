#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pass.h"

static _Noreturn void become_shim(const struct guard *guard, int socket, volatile int *error)
{
	static char *const argv[] = {(char *)"tfc-shim", NULL};
	static char *const env[] = {NULL};
	if (setrlimit(RLIMIT_NOFILE, &guard->nofile) == 0 && dup2(socket, TFC__SHIM_GUARD) >= 0 &&
	    dup2(TFC__GUARD_PIDFD, TFC__SHIM_HOST) >= 0 && dup2(0, TFC__SHIM_LAUNCH) >= 0 &&
	    dup2(guard->lifeline, TFC__SHIM_LIFELINE) >= 0 &&
	    (guard->group < 0 || dup2(guard->group, TFC__SHIM_CGROUP) >= 0) &&
	    dup2(guard->lease_memory, TFC__SHIM_LEASES) >= 0)
		syscall(SYS_execveat, guard->shim, "", argv, env, AT_EMPTY_PATH);
	*error = errno;
	_exit(127);
}

/* 0 or an errno. */
static int start(const struct guard *guard, struct spare *ret_spare)
{
	static volatile int error;
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return errno;
	error = 0;
	pid_t pid = vfork();
	if (pid == 0)
		become_shim(guard, ends[1], &error);
	if (pid < 0)
		error = errno;
	close(ends[1]);
	if (error)
		close(ends[0]);
	else
		*ret_spare = (struct spare){pid, ends[0]};
	return error;
}

/* 0 or an errno: EPIPE or ECONNRESET when it has died, else the launch cannot be sent. */
static int hand_over(const struct spare *shim, const struct tfc__command *command, int launch,
		     const int locks[TFC__LOCKS])
{
	struct tfc__command spawn = *command;
	struct iovec part = {&spawn, sizeof(spawn)};
	int fds[1 + TFC__LOCKS] = {launch};
	for (spawn.locks = 0; spawn.locks < TFC__LOCKS && locks[spawn.locks] >= 0; spawn.locks++)
		fds[1 + spawn.locks] = locks[spawn.locks];
	return tfc__pass_send(shim->socket, &part, 1, fds, 1 + spawn.locks,
			      MSG_DONTWAIT | MSG_NOSIGNAL) < 0
		       ? errno
		       : 0;
}

/* One without a task ends when its socket does; it is reaped like all others. */
void shim_drop_spare(struct guard *guard)
{
	if (guard->spare.pid)
		close(guard->spare.socket);
	guard->spare.pid = 0;
}

int shim_get(struct guard *guard, const struct tfc__command *command, int launch,
	     const int locks[TFC__LOCKS], pid_t *ret_pid, int *ret_socket)
{
	int error = 0;
	if (guard->spare.pid && hand_over(&guard->spare, command, launch, locks) != 0)
		shim_drop_spare(guard); /* somebody killed it */
	if (!guard->spare.pid) {
		error = start(guard, &guard->spare);
		error = error ? error : hand_over(&guard->spare, command, launch, locks);
		/* A shim that was killed just now is reported lost when it is reaped. */
		if (error == EPIPE || error == ECONNRESET)
			error = 0;
	}
	if (error) {
		shim_drop_spare(guard);
		return error;
	}
	*ret_pid = guard->spare.pid;
	*ret_socket = guard->spare.socket;
	guard->spare.pid = 0;
	return 0;
}

bool shim_is_spare_due(const struct guard *guard)
{
	return guard->is_spare_wanted && !guard->is_host_gone;
}

/* When it cannot be made now, the next start does without. */
void shim_prepare(struct guard *guard)
{
	guard->is_spare_wanted = false;
	if (!guard->spare.pid)
		start(guard, &guard->spare);
}

void shim_end_spare(struct guard *guard)
{
	if (!guard->spare.pid)
		return;
	kill(guard->spare.pid, SIGKILL);
	waitpid(guard->spare.pid, NULL, 0);
	shim_drop_spare(guard);
}
