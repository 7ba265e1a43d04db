#include "shim.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exec_path.h"

/*
 * As execvpe(3) with the task's own PATH, except that a file that is not executable code is an
 * error, and that a directory is reported as one.
 */
static int task_exec(const struct shim_launch *launch)
{
	const char *name = launch->argv[0];
	char file[PATH_MAX];
	int error = ENOENT;
	if (strchr(name, '/') || !*name) {
		struct stat file_stat;
		execve(name, launch->argv, launch->env);
		error = errno;
		bool is_dir = stat(name, &file_stat) == 0 && S_ISDIR(file_stat.st_mode);
		return error == EACCES && is_dir ? EISDIR : error;
	}
	const char *path = TFC__EXEC_PATH;
	for (char *const *env = launch->env; *env; env++)
		if (strncmp(*env, "PATH=", 5) == 0) {
			path = *env + 5;
			break;
		}
	while (path) {
		if (!tfc__exec_path_next(&path, name, file, sizeof(file)))
			continue;
		execve(file, launch->argv, launch->env);
		if (errno == EACCES)
			error = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			return errno;
	}
	return error;
}

/* The report lies in memory that child and parent share. */
static _Noreturn void task_fail_start(volatile struct tfc__report *report, uint32_t step, int error)
{
	report->step = step;
	report->status = error;
	_exit(127);
}

static _Noreturn void become_task(const struct shim *shim, const struct shim_launch *launch,
				  const struct task_fds *fds, pid_t pid,
				  volatile struct tfc__report *report)
{
	sigset_t none;
	setpgid(0, 0);
	if ((fds->out > 2 && dup2(fds->out, 1) < 0) || (fds->err > 2 && dup2(fds->err, 2) < 0) ||
	    (fds->progress >= 0 && dup2(fds->progress, TFC__PROGRESS_FD) < 0) ||
	    (fds->reports >= 0 && dup2(fds->reports, TFC__REPORT_FD) < 0) ||
	    (fds->zygote >= 0 && dup2(fds->zygote, TFC__ZYGOTE_FD) < 0))
		task_fail_start(report, TFC__STEP_PIPE, errno);
	unsigned others = fds->reports >= 0    ? TFC__REPORT_FD + 1
			  : fds->progress >= 0 ? TFC__PROGRESS_FD + 1
			  : fds->zygote >= 0   ? TFC__ZYGOTE_FD + 1
					       : 3;
	if (fds->reports >= 0 && fds->progress < 0)
		close(TFC__PROGRESS_FD);
	syscall(SYS_close_range, others, ~0u, 0u);
	int error = shim->isolation == TFC__ISOLATION_PIDNS ? isolation_mount_proc() : 0;
	if (error)
		task_fail_start(report, TFC__STEP_PROC, error);
	error = limits_apply(launch, report);
	if (error)
		task_fail_start(report, report->step, error);
	/* After the limits, because a change of user resets this setting. In a PID namespace the
	 * parent has no pid; there the shim's death ends the init, and with it every process. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (shim->isolation != TFC__ISOLATION_PIDNS && getppid() != pid)
		_exit(127); /* the shim died before the line above */
	if (chdir(launch->cwd) < 0)
		task_fail_start(report, TFC__STEP_CWD, errno);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	task_fail_start(report, TFC__STEP_EXEC, task_exec(launch));
}

int task_start(struct shim *shim, const struct shim_launch *launch, const struct task_fds *fds)
{
	shim->report.step = TFC__STEP_FORK;
	volatile struct tfc__report *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
						   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED)
		return errno;
	*report = shim->report;
	pid_t self = getpid();
	pid_t pid = shim->group < 0 ? vfork() : isolation_fork_into_group(shim);
	if (pid == 0)
		become_task(shim, launch, fds, self, report);
	int error = pid < 0 ? errno : report->status;
	shim->task = pid;
	shim->report = *report;
	munmap((void *)report, sizeof(*report));
	if (pid > 0 && error)
		waitpid(pid, NULL, 0);
	return error;
}
