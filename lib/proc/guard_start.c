#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ctx/helper.h"
#include "proc/guard.h"

/* The guard itself closes all descriptors that it inherits and does not need. */
static int run(struct tfc__guard *guard, const char *program, char *shim, tfc_error *error)
{
	char *const argv[] = {(char *)"tfc-guard", shim, NULL};
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return tfc__fail_errno(error, "proc", errno, "cannot create the guard's socket");
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	const struct tfc__helper_fd fds[] = {{ends[1], TFC__GUARD_HOST}, {pidfd, TFC__GUARD_PIDFD}};
	int code = pidfd < 0 ? tfc__fail_errno(error, "proc", errno, "cannot start \"%s\"", program)
			     : tfc__helper_run(program, argv, fds, 2, "proc", error, &guard->pid);
	close(ends[1]);
	if (pidfd >= 0)
		close(pidfd);
	if (code < 0)
		close(ends[0]);
	else
		guard->socket.fd = ends[0];
	return code;
}

int tfc__guard_run(struct tfc__guard *guard)
{
	tfc_error *error = tfc__ctx_error(guard->ctx);
	char *program = NULL, *shim = NULL;
	int code = tfc__helper_find(guard->ctx, "tfc-guard", "proc", error, &program);
	if (code == TFC_OK)
		code = tfc__helper_find(guard->ctx, "tfc-shim", "proc", error, &shim);
	if (code == TFC_OK)
		code = run(guard, program, shim, error);
	free(program);
	free(shim);
	return code;
}
