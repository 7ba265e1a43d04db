#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "store/local.h"
#include "store/protocol.h"

#define PROGRAM "tfc-store"

/* What the helper is given, with numbers above those that it gets them under. */
struct given {
	int socket;
	int pidfd;
	int rest;
};

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attr,
		   const struct given *given)
{
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDWR, 0);
	error = error ? error : posix_spawn_file_actions_adddup2(actions, 0, 1);
	error = error ? error : posix_spawn_file_actions_adddup2(actions, 0, 2);
	error = error ? error
		      : posix_spawn_file_actions_adddup2(actions, given->socket, TFC__STORE_SOCKET);
	error = error ? error
		      : posix_spawn_file_actions_adddup2(actions, given->pidfd, TFC__STORE_PIDFD);
	error = error ? error
		      : posix_spawn_file_actions_adddup2(actions, given->rest, TFC__STORE_REST);
	error = error ? error : posix_spawnattr_setsigdefault(attr, &all);
	error = error ? error : posix_spawnattr_setsigmask(attr, &none);
	return error ? error
		     : posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGDEF |
							      POSIX_SPAWN_SETSIGMASK |
							      POSIX_SPAWN_SETSID);
}

/* The helper closes all other descriptors itself. 0 or an errno. */
static int spawn(const char *program, const char *path, const struct given *given, pid_t *ret_pid)
{
	char owner[16];
	snprintf(owner, sizeof(owner), "%d", (int)getpid());
	char *const argv[] = {(char *)PROGRAM, (char *)path, owner, NULL};
	char *const env[] = {NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int error = posix_spawn_file_actions_init(&actions);
	if (error)
		return error;
	error = posix_spawnattr_init(&attr);
	if (!error) {
		error = prepare(&actions, &attr, given);
		if (!error)
			error = posix_spawn(ret_pid, program, &actions, &attr, argv, env);
		posix_spawnattr_destroy(&attr);
	}
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* A copy with a number that none of the helper's descriptors has; takes fd over. */
static int move_up(int fd)
{
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, TFC__STORE_RESERVED);
	int error = errno;
	close_fd(fd);
	errno = error;
	return copy;
}

/* 0 or an errno. */
static int run(struct tfc__local *local, const char *program)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return errno;
	struct given given = {-1, -1, -1};
	int failed = 0;
	if ((given.socket = move_up(ends[1])) < 0 ||
	    (given.pidfd = move_up((int)syscall(SYS_pidfd_open, getpid(), 0))) < 0 ||
	    (given.rest = move_up(memfd_create("tfc-store", MFD_CLOEXEC))) < 0 ||
	    fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0)
		failed = errno;
	if (!failed)
		failed = spawn(program, local->path, &given, &local->pid);
	if (!failed && (local->pidfd = (int)syscall(SYS_pidfd_open, local->pid, 0)) < 0) {
		failed = errno;
		kill(local->pid, SIGKILL);
		waitpid(local->pid, NULL, 0);
	}
	if (!failed) {
		local->rest = given.rest;
		local->socket.fd = ends[0];
	} else {
		close_fd(given.rest);
		close(ends[0]);
	}
	close_fd(given.socket);
	close_fd(given.pidfd);
	return failed;
}

int tfc__local_start(struct tfc__local *local, tfc_error *error)
{
	char reason[64];
	char *program = tfc__path_join(tfc__ctx_helper_dir(local->ctx), PROGRAM);
	if (!program)
		return tfc__fail_nomem(error, "store");
	int code = TFC_OK;
	if (access(program, X_OK) < 0) {
		code = tfc__fail(error, tfc__err_from_errno(errno), "store", errno,
				 "cannot run %.120s: %s; install the library, or name the "
				 "directory of its helper programs (helper_dir)",
				 program, strerror_r(errno, reason, sizeof(reason)));
	} else {
		int failed = run(local, program);
		if (failed)
			code = tfc__fail_errno(error, "store", failed, "cannot start %s", program);
	}
	free(program);
	return code;
}

void tfc__local_leave(struct tfc__local *local, int wait_ms)
{
	int fd = local->socket.fd;
	tfc__io_close(&local->socket);
	close_fd(fd);
	close_fd(local->rest);
	local->socket.fd = local->rest = -1;
	if (local->pidfd >= 0) {
		siginfo_t info;
		struct pollfd end = {.fd = local->pidfd, .events = POLLIN};
		while (poll(&end, 1, wait_ms) < 0 && errno == EINTR)
			;
		waitid((idtype_t)P_PIDFD, (id_t)local->pidfd, &info, WEXITED | WNOHANG);
		close(local->pidfd);
	}
	local->pidfd = -1;
	local->is_open = false;
	tfc__buf_clear(&local->in);
	tfc__buf_clear(&local->out);
	local->scanned = local->sent = 0;
	local->values = 0;
}
