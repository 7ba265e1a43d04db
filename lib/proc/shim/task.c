#include "shim.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What the child tells: it shares memory with its parent until it has called exec. */
struct failure {
	uint32_t step;
	int error;
};

static const char *path_of(char *const *env)
{
	for (; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	return "/usr/local/bin:/bin:/usr/bin";
}

/* As execvpe(3), in the task's own environment, but a file that is no program is an error. */
static int exec_through_path(const struct launch *launch)
{
	const char *name = launch->argv[0];
	char file[PATH_MAX];
	size_t name_len = strlen(name);
	int error = ENOENT;
	if (strchr(name, '/') || !*name) {
		execve(name, launch->argv, launch->env);
		return errno;
	}
	for (const char *at = path_of(launch->env);; at++) {
		size_t len = strcspn(at, ":");
		if (len + name_len + 2 <= sizeof(file)) {
			memcpy(file, at, len);
			file[len] = '/';
			memcpy(file + len + (len > 0), name, name_len + 1);
			execve(file, launch->argv, launch->env);
			if (errno == EACCES)
				error = EACCES;
			else if (errno != ENOENT && errno != ENOTDIR)
				return errno;
		}
		at += len;
		if (!*at)
			return error;
	}
}

static void give_up(volatile struct failure *failure, uint32_t step, int error)
{
	failure->step = step;
	failure->error = error;
	_exit(127);
}

static _Noreturn void become_task(const struct launch *launch, int out, int err, pid_t shim,
				  volatile struct failure *failure)
{
	sigset_t none;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != shim) /* it died before the line above */
		_exit(127);
	setpgid(0, 0);
	if ((out > 2 && dup2(out, 1) < 0) || (err > 2 && dup2(err, 2) < 0))
		give_up(failure, TFC__STEP_PIPE, errno);
	syscall(SYS_close_range, 3u, ~0u, 0u);
	if (chdir(launch->cwd) < 0)
		give_up(failure, TFC__STEP_CWD, errno);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	give_up(failure, TFC__STEP_EXEC, exec_through_path(launch));
	_exit(127);
}

int task_start(const struct launch *launch, int out, int err, pid_t *ret_pid, uint32_t *ret_step)
{
	static volatile struct failure failure;
	pid_t shim = getpid();
	pid_t pid = vfork();
	if (pid == 0)
		become_task(launch, out, err, shim, &failure);
	if (pid < 0) {
		*ret_step = TFC__STEP_FORK;
		return errno;
	}
	*ret_pid = pid;
	*ret_step = failure.step;
	return failure.error;
}
