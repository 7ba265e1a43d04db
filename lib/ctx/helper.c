#include "ctx/helper.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/signals.h"

int tfc__helper_find(const tfc_ctx *ctx, const char *name, const char *component, tfc_error *error,
		     char **ret_path)
{
	char reason[64];
	char *path = tfc__path_join(tfc__ctx_helper_dir(ctx), name);
	if (!path)
		return tfc__fail_nomem(error, component);
	if (access(path, X_OK) == 0) {
		*ret_path = path;
		return TFC_OK;
	}
	int code = tfc__fail(error, tfc__err_from_errno(errno), component, errno,
			     "cannot run \"%.120s\": %s; install the library, or set helper_dir to "
			     "the directory of its helper programs",
			     path, strerror_r(errno, reason, sizeof(reason)));
	free(path);
	return code;
}

/* 0 or an errno. */
static int helper_spawn(const char *path, char *const argv[], const struct tfc__helper_fd *fds,
			size_t count, pid_t *ret_pid)
{
	char *const env[] = {NULL};
	sigset_t all, blocked;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigfillset(&all);
	tfc__node_signals(&blocked);
	int error = posix_spawn_file_actions_init(&actions);
	if (error)
		return error;
	error = posix_spawnattr_init(&attr);
	if (error)
		goto fini_actions;

	error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	error = error ? error : posix_spawn_file_actions_adddup2(&actions, 0, 1);
	error = error ? error : posix_spawn_file_actions_adddup2(&actions, 0, 2);
	for (size_t i = 0; i < count && !error; i++)
		error = posix_spawn_file_actions_adddup2(&actions, fds[i].fd, fds[i].number);
	error = error ? error : posix_spawnattr_setsigdefault(&attr, &all);
	error = error ? error : posix_spawnattr_setsigmask(&attr, &blocked);
	error = error ? error
		      : posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF |
								POSIX_SPAWN_SETSIGMASK |
								POSIX_SPAWN_SETSID);
	error = error ? error : posix_spawn(ret_pid, path, &actions, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
fini_actions:
	posix_spawn_file_actions_destroy(&actions);
	return error;
}

int tfc__helper_run(const char *path, char *const argv[], const struct tfc__helper_fd *fds,
		    size_t count, const char *component, tfc_error *error, pid_t *ret_pid)
{
	/* Copies at numbers from TFC__HELPER_FD_END on, so that no dup2 to a target number
	 * overwrites a source. */
	struct tfc__helper_fd copies[TFC__HELPER_FDS_MAX] = {{0, 0}};
	size_t copied = 0;
	int failed = 0;
	assert(count <= TFC__HELPER_FDS_MAX);
	for (; copied < count && !failed; copied++) {
		copies[copied] = fds[copied];
		copies[copied].fd = fcntl(fds[copied].fd, F_DUPFD_CLOEXEC, TFC__HELPER_FD_END);
		if (copies[copied].fd < 0)
			failed = errno;
	}
	if (!failed)
		failed = helper_spawn(path, argv, copies, count, ret_pid);
	while (copied-- > 0)
		if (copies[copied].fd >= 0)
			close(copies[copied].fd);
	return failed ? tfc__fail_errno(error, component, failed, "cannot start \"%s\"", path)
		      : TFC_OK;
}

int tfc__helper_open_pidfd(pid_t pid, const char *program, const char *component, tfc_error *error,
			   int *ret_fd)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0 && errno == ENOSYS)
		return tfc__fail(
			error, TFC_ESYS, component, errno,
			"cannot start \"%s\": the system call pidfd_open is missing; Linux "
			"5.10 or newer is needed, and a sandbox or valgrind must support it",
			program);
	if (fd < 0)
		return tfc__fail_errno(error, component, errno, "cannot start \"%s\": pidfd_open",
				       program);
	*ret_fd = fd;
	return TFC_OK;
}
