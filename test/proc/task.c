/* The program that the process tests run: static, so that its own start costs nothing.
 * Usage: task VERB [ARG]... ; verbs run one after the other. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void put_to(int fd, const char *text)
{
	if (write(fd, text, strlen(text)) < 0)
		_exit(99);
}

static void put(const char *text)
{
	put_to(1, text);
}

static void wait_for_ever(void)
{
	for (;;)
		pause();
}

static void die_of(int number)
{
	struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none);
	signal(number, SIG_DFL);
	kill(getpid(), number);
}

/* Numbers of open descriptors, "0 1 2". */
static void print_fds(void)
{
	char text[32];
	for (int fd = 0; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			snprintf(text, sizeof(text), fd ? " %d" : "%d", fd);
			put(text);
		}
	put("\n");
}

static void print_signals(void)
{
	char text[64];
	sigset_t mask;
	int ignored = 0, blocked = 0;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int number = 1; number < 65; number++) {
		struct sigaction action;
		if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
			ignored++;
		blocked += sigismember(&mask, number) == 1;
	}
	snprintf(text, sizeof(text), "ignored %d blocked %d\n", ignored, blocked);
	put(text);
}

static void print_stdin(void)
{
	struct stat in, null;
	char byte;
	put(fstat(0, &in) == 0 && stat("/dev/null", &null) == 0 && in.st_rdev == null.st_rdev &&
			    read(0, &byte, 1) == 0
		    ? "null\n"
		    : "other\n");
}

static void print_cwd(void)
{
	char text[4096];
	put(getcwd(text, sizeof(text)) ? text : "?");
	put("\n");
}

/* A descendant in a session of its own whose parent is gone; tells its pid through `path`. */
static void leave_daemon(const char *path)
{
	pid_t middle = fork();
	if (middle == 0) {
		setsid();
		if (fork() == 0) {
			char text[16], fresh[4096];
			signal(SIGTERM, SIG_IGN);
			snprintf(fresh, sizeof(fresh), "%s.new", path);
			int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
			snprintf(text, sizeof(text), "%d", (int)getpid());
			if (fd < 0 || write(fd, text, strlen(text)) < 0 || rename(fresh, path) < 0)
				_exit(99);
			wait_for_ever();
		}
		_exit(0);
	}
	waitpid(middle, NULL, 0);
}

static void leave_child(void)
{
	if (fork() == 0) {
		signal(SIGTERM, SIG_IGN);
		wait_for_ever();
	}
}

/* Forks children that fork children, each in a session of its own, until it is killed. */
static void bomb(int depth)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			setsid();
			signal(SIGTERM, SIG_IGN);
			if (depth > 0)
				bomb(depth - 1);
			wait_for_ever();
		}
}

static void flood(long long bytes)
{
	static char block[65536];
	memset(block, 'x', sizeof(block));
	for (size_t i = 99; i < sizeof(block); i += 100)
		block[i] = '\n';
	while (bytes > 0) {
		size_t size = bytes < (long long)sizeof(block) ? (size_t)bytes : sizeof(block);
		ssize_t done = write(1, block, size);
		if (done < 0)
			_exit(98);
		bytes -= done;
	}
}

static void print_clock(void)
{
	struct timespec now;
	char text[32];
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
	put(text);
}

/* Listens on TFC_PORT as TensorFlow does: with SO_REUSEADDR. */
static void listen_on_port(void)
{
	int yes = 1;
	const char *port = getenv("TFC_PORT");
	struct sockaddr_in6 address = {.sin6_family = AF_INET6,
				       .sin6_port = htons((uint16_t)atoi(port ? port : "0"))};
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0) {
		put_to(2, "cannot listen\n");
		_exit(96);
	}
}

static void burn(int ms)
{
	struct rusage usage;
	do
		getrusage(RUSAGE_SELF, &usage);
	while (usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000 < ms);
}

/* Returns how many arguments it took besides itself. */
static int run(const char *verb, char **args)
{
	if (strcmp(verb, "exit") == 0)
		_exit(atoi(args[0]));
	if (strcmp(verb, "die") == 0)
		die_of(atoi(args[0]));
	else if (strcmp(verb, "print") == 0)
		put(args[0]);
	else if (strcmp(verb, "error") == 0)
		put_to(2, args[0]);
	else if (strcmp(verb, "daemon") == 0)
		leave_daemon(args[0]);
	else if (strcmp(verb, "flood") == 0)
		flood(atoll(args[0]));
	else if (strcmp(verb, "bomb") == 0)
		bomb(atoi(args[0]));
	else if (strcmp(verb, "burn") == 0)
		burn(atoi(args[0]));
	else if (strcmp(verb, "nul") == 0)
		return write(1, "a\0b", 3) == 3 ? 0 : -1;
	else if (strcmp(verb, "deaf") == 0)
		return signal(SIGTERM, SIG_IGN) == SIG_ERR;
	else if (strcmp(verb, "listen") == 0)
		return listen_on_port(), 0;
	else if (strcmp(verb, "child") == 0)
		return leave_child(), 0;
	else if (strcmp(verb, "wait") == 0)
		return wait_for_ever(), 0;
	else if (strcmp(verb, "fds") == 0)
		return print_fds(), 0;
	else if (strcmp(verb, "signals") == 0)
		return print_signals(), 0;
	else if (strcmp(verb, "stdin") == 0)
		return print_stdin(), 0;
	else if (strcmp(verb, "cwd") == 0)
		return print_cwd(), 0;
	else if (strcmp(verb, "clock") == 0)
		return print_clock(), 0;
	else if (strcmp(verb, "stop") == 0)
		return raise(SIGSTOP);
	else if (strcmp(verb, "close") == 0)
		return close(1) + close(2);
	else if (strcmp(verb, "env") == 0)
		for (char **env = environ; *env; env++) {
			put(*env);
			put("\n");
		}
	else
		_exit(97);
	return strcmp(verb, "env") != 0;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		i += run(argv[i], argv + i + 1);
	return 0;
}
