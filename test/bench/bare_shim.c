/*
 * The second level of the bare loops: what any shim must do, and nothing else. Session, subreaper,
 * pipes for the output, a log file, one child, its status over the socket (descriptor 3), and with
 * -s before that a 0 when it has started.
 *
 *   bare_shim [-s] LOG TASK...
 */
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	int out[2], err[2], status;
	pid_t pid;
	char buf[4096];
	bool reports_start = argc > 1 && strcmp(argv[1], "-s") == 0;
	argv += reports_start;
	setsid();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	int log = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
		return fail("bare_shim: log or pipes");
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	posix_spawn_file_actions_adddup2(&actions, err[1], 2);
	if (posix_spawn(&pid, argv[2], &actions, NULL, argv + 2, environ) != 0)
		return fail("bare_shim: spawn");
	status = 0;
	if (reports_start && write(3, &status, sizeof(status)) != sizeof(status))
		return fail("bare_shim: start");
	close(out[1]);
	close(err[1]);
	for (int open_pipes = 2; open_pipes > 0;) {
		struct pollfd fds[2] = {{.fd = out[0], .events = POLLIN},
					{.fd = err[0], .events = POLLIN}};
		poll(fds, 2, -1);
		for (int i = 0; i < 2; i++) {
			if (!fds[i].revents)
				continue;
			ssize_t len = read(fds[i].fd, buf, sizeof(buf));
			if (len > 0 && write(log, buf, (size_t)len) != len)
				return fail("bare_shim: log");
			if (len <= 0) {
				close(fds[i].fd);
				*(i ? &err[0] : &out[0]) = -1;
				open_pipes--;
			}
		}
	}
	waitpid(pid, &status, 0);
	return write(3, &status, sizeof(status)) == sizeof(status) ? 0 : fail("bare_shim: report");
}
