#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctx/helper.h"
#include "proc/guard.h"

/* The guard itself closes all descriptors that it inherits and does not need. */
int tfc__guard_run(struct tfc__guard *guard)
{
	tfc_error *error = tfc__ctx_error(guard->ctx);
	char *program = NULL, *shim = NULL;
	int ends[2] = {-1, -1}, pidfd = -1;
	int code = tfc__helper_find(guard->ctx, "tfc-guard", "proc", error, &program);
	if (code == TFC_OK)
		code = tfc__helper_find(guard->ctx, "tfc-shim", "proc", error, &shim);
	if (code == TFC_OK && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		code = tfc__fail_errno(error, "proc", errno, "cannot create the guard's socket");
	if (code == TFC_OK)
		code = tfc__helper_open_pidfd(getpid(), program, "proc", error, &pidfd);
	if (code == TFC_OK) {
		char *const argv[] = {(char *)"tfc-guard", shim, NULL};
		const struct tfc__helper_fd fds[] = {{ends[1], TFC__GUARD_HOST},
						     {pidfd, TFC__GUARD_PIDFD}};
		code = tfc__helper_run(program, argv, fds, 2, "proc", error, &guard->pid);
	}
	if (code == TFC_OK) {
		guard->socket.fd = ends[0];
		ends[0] = -1;
	}
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	if (pidfd >= 0)
		close(pidfd);
	free(program);
	free(shim);
	return code;
}
