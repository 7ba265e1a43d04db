/* The limit of a restart: `bare_restart PROGRAM ARG...` runs it again whenever it ends; a pidfd
 * loop. */
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	if (argc < 2)
		return 1;
	for (;;) {
		pid_t pid;
		if (posix_spawn(&pid, argv[1], NULL, NULL, argv + 1, environ) != 0)
			return 1;
		struct pollfd pidfd = {.fd = (int)syscall(SYS_pidfd_open, pid, 0),
				       .events = POLLIN};
		poll(&pidfd, 1, -1);
		waitpid(pid, NULL, 0);
		close(pidfd.fd);
	}
}
