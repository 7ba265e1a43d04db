/*
 * The shim of a task that a zygote has forked (doc/internals/warm.md). The zygote's intermediate
 * process forked the task's process, which waits on a socket, and became this shim by exec. What a
 * child of an ordinary shim does to itself before its exec is done here from outside where that is
 * possible, and by the process itself otherwise.
 */
#include "shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pass.h"

#define START_MS 10000 /* the child sets its environment and directory in a few ms */

static int write_text_file(int dir, const char *path, int number)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", number);
	int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	int error = write(fd, text, (size_t)len) < 0 ? errno : 0;
	close(fd);
	return error;
}

static int warm_limit(const struct shim_launch *launch, pid_t pid)
{
	const struct tfc__launch *head = launch->head;
	char path[64];
	if (head->limit_flags & TFC__LIMIT_USER)
		return ENOTSUP;
	errno = 0;
	int nice = getpriority(PRIO_PROCESS, (id_t)pid);
	if (head->nice && (errno || setpriority(PRIO_PROCESS, (id_t)pid, nice + head->nice) < 0))
		return errno;
	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	int error = head->limit_flags & TFC__LIMIT_OOM_SCORE_ADJ
			    ? write_text_file(AT_FDCWD, path, head->oom_score_adj)
			    : 0;
	for (uint32_t i = 0; i < head->rlimit_count && !error; i++) {
		const struct tfc__launch_rlimit *wanted = &launch->rlimits[i];
		const struct rlimit limit = {wanted->soft == UINT64_MAX ? RLIM_INFINITY
									: (rlim_t)wanted->soft,
					     wanted->hard == UINT64_MAX ? RLIM_INFINITY
									: (rlim_t)wanted->hard};
		if (prlimit(pid, (int)wanted->resource, &limit, NULL) < 0)
			error = errno;
	}
	return error;
}

/* The number of arguments, the directory, the arguments and the environment, each with a NUL. */
static int warm_write_program(const struct shim_launch *launch)
{
	int fd = memfd_create("tfc-program", MFD_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	fprintf(file, "%u%c%s%c", launch->head->argc, 0, launch->cwd, 0);
	for (char **word = launch->argv; *word; word++)
		fwrite(*word, 1, strlen(*word) + 1, file);
	for (char **variable = launch->env; *variable; variable++)
		fwrite(*variable, 1, strlen(*variable) + 1, file);
	bool is_whole = fflush(file) == 0;
	int copy = is_whole ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	fclose(file);
	if (copy >= 0)
		lseek(copy, 0, SEEK_SET);
	return copy;
}

static int warm_send_start(const struct shim_launch *launch, const struct task_fds *fds)
{
	const int ends[] = {fds->out, fds->err, fds->progress, fds->reports};
	int sent[5] = {warm_write_program(launch)};
	size_t count = 1;
	char text[32] = "start";
	int len = 5;
	if (sent[0] < 0)
		return errno;
	for (int i = 0; i < 4; i++) {
		if (ends[i] < 0 && i >= 2)
			continue;
		sent[count++] = ends[i] < 0 ? i + 1 : ends[i];
		len += snprintf(text + len, sizeof(text) - (size_t)len, " %d", i + 1);
	}
	struct iovec part = {text, (size_t)len};
	int error = tfc__pass_send(TFC__SHIM_CHILD, &part, 1, sent, count, MSG_NOSIGNAL) < 0 ? errno
											     : 0;
	close(sent[0]);
	return error;
}

static int warm_await_start(void)
{
	char text[16];
	struct pollfd child = {.fd = TFC__SHIM_CHILD, .events = POLLIN};
	int ready;
	do
		ready = poll(&child, 1, START_MS);
	while (ready < 0 && errno == EINTR);
	if (ready <= 0)
		return ETIMEDOUT;
	ssize_t len = recv(TFC__SHIM_CHILD, text, sizeof(text), MSG_DONTWAIT);
	return len == 7 && memcmp(text, "started", 7) == 0 ? 0 : ECHILD;
}

bool warm_start(struct shim *shim, const struct shim_launch *launch, const struct task_fds *fds)
{
	if (!shim->child)
		return false;
	setpgid(shim->child, shim->child);
	int error = shim->isolation == TFC__ISOLATION_PIDNS ? ENOTSUP
							    : warm_limit(launch, shim->child);
	if (!error && shim->group >= 0)
		error = write_text_file(shim->group, "cgroup.procs", shim->child);
	error = error ? error : warm_send_start(launch, fds);
	error = error ? error : warm_await_start();
	if (!error)
		shim->task = shim->child;
	else
		warm_end_child(shim);
	close(TFC__SHIM_CHILD);
	shim->child = 0;
	return !error;
}

void warm_end_child(struct shim *shim)
{
	if (!shim->child)
		return;
	kill(shim->child, SIGKILL);
	waitpid(shim->child, NULL, 0);
}
