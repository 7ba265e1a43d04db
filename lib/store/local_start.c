#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "ctx/helper.h"
#include "store/local.h"
#include "store/protocol.h"

#define PROGRAM "tfc-store"

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static int watch_end(struct tfc__local *local, tfc_error *error)
{
	local->pidfd = (int)syscall(SYS_pidfd_open, local->pid, 0);
	if (local->pidfd >= 0)
		return TFC_OK;
	int failed = errno;
	kill(local->pid, SIGKILL);
	waitpid(local->pid, NULL, 0);
	return tfc__fail_errno(error, "store", failed, "cannot watch " PROGRAM);
}

/* The helper closes all descriptors that are not its own. */
static int run(struct tfc__local *local, const char *program, int socket, tfc_error *error)
{
	char owner[16];
	snprintf(owner, sizeof(owner), "%d", (int)getpid());
	char *const argv[] = {(char *)PROGRAM, local->path, owner, NULL};
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int rest = pidfd < 0 ? -1 : memfd_create(PROGRAM, MFD_CLOEXEC);
	const struct tfc__helper_fd fds[] = {{socket, TFC__STORE_SOCKET},
					     {pidfd, TFC__STORE_PIDFD},
					     {rest, TFC__STORE_REST}};
	int code = rest < 0 ? tfc__fail_errno(error, "store", errno, "cannot start \"%s\"", program)
			    : tfc__helper_run(program, argv, fds, 3, "store", error, &local->pid);
	if (code == TFC_OK)
		code = watch_end(local, error);
	close_fd(pidfd);
	if (code == TFC_OK)
		local->rest = rest;
	else
		close_fd(rest);
	return code;
}

int tfc__local_start(struct tfc__local *local, tfc_error *error)
{
	char *program = NULL;
	int ends[2];
	int code = tfc__helper_find(local->ctx, PROGRAM, "store", error, &program);
	if (code < 0)
		return code;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		code = tfc__fail_errno(error, "store", errno, "cannot start \"%s\"", program);
	} else {
		fcntl(ends[0], F_SETFL, O_NONBLOCK); /* cannot fail on a valid socket */
		code = run(local, program, ends[1], error);
		close(ends[1]);
		if (code < 0)
			close(ends[0]);
		else
			local->socket.fd = ends[0];
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
