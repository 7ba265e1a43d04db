#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "proc/guard.h"

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr, int socket,
		   int pidfd)
{
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0);
	error = error ? error : posix_spawn_file_actions_adddup2(actions, 0, 1);
	error = error ? error : posix_spawn_file_actions_adddup2(actions, 0, 2);
	error = error ? error : posix_spawn_file_actions_adddup2(actions, socket, TFC__GUARD_HOST);
	error = error ? error : posix_spawn_file_actions_adddup2(actions, pidfd, TFC__GUARD_PIDFD);
	error = error ? error : posix_spawnattr_setsigdefault(attr, &all);
	error = error ? error : posix_spawnattr_setsigmask(attr, &none);
	return error ? error
		     : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF |
							      POSIX_SPAWN_SETSIGMASK |
							      POSIX_SPAWN_SETSID);
}

/* The guard closes all other descriptors itself. 0 or an errno. */
static int spawn(const char *guard, const char *shim, int socket, int pidfd, pid_t *ret_pid)
{
	char *const argv[] = {(char *)"tfc-guard", (char *)shim, NULL};
	char *const env[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int error = posix_spawn_file_actions_init(&actions);
	if (error)
		return error;
	error = posix_spawnattr_init(&attr);
	if (!error) {
		error = prepare(&actions, &attr, socket, pidfd);
		if (!error)
			error = posix_spawn(ret_pid, guard, &actions, &attr, argv, env);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

/* A copy with a number that the guard's own descriptors do not use. */
static int move_up(int fd)
{
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, TFC__GUARD_RESERVED);
	int error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return copy;
}

static int run_programs(struct tfc__guard *guard, const char *program, const char *shim,
			int *ret_socket)
{
	int ends[2];
	char reason[64];
	tfc_error *error = tfc__ctx_error(guard->ctx);
	const char *missing = access(program, X_OK) < 0 ? program
			      : access(shim, X_OK) < 0  ? shim
							: NULL;
	if (missing)
		return tfc__fail(
			error, tfc__err_from_errno(errno), "proc", errno,
			"cannot run %.120s: %s; install the library, or name the directory "
			"of its helper programs (helper_dir)",
			missing, strerror_r(errno, reason, sizeof(reason)));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return tfc__fail_errno(error, "proc", errno, "cannot make the guard's socket");
	int theirs = move_up(ends[1]);
	int pidfd = theirs < 0 ? -1 : move_up((int)syscall(SYS_pidfd_open, getpid(), 0));
	int failed = pidfd < 0 ? errno : spawn(program, shim, theirs, pidfd, &guard->pid);
	if (theirs >= 0)
		close(theirs);
	if (pidfd >= 0)
		close(pidfd);
	if (failed) {
		close(ends[0]);
		return tfc__fail_errno(error, "proc", failed, "cannot start %s", program);
	}
	*ret_socket = ends[0];
	return TFC_OK;
}

int tfc__guard_run(struct tfc__guard *guard)
{
	const char *dir = tfc__ctx_helper_dir(guard->ctx);
	char *program = tfc__path_join(dir, "tfc-guard");
	char *shim = tfc__path_join(dir, "tfc-shim");
	int code = program && shim ? run_programs(guard, program, shim, &guard->socket.fd)
				   : tfc__fail_nomem(tfc__ctx_error(guard->ctx), "proc");
	free(program);
	free(shim);
	return code;
}
