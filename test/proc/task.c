/* The program that the process tests run: static, so that its own start costs nothing.
 * Usage: task VERB [ARG]... ; verbs run one after the other. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "zygote.h"

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

/* A descendant in a session of its own whose parent is gone; writes its pid to `path`. */
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

/* The same without a descriptor or a name to find it by; deaf to what ends a session. */
static void leave_ghost(void)
{
	pid_t middle = fork();
	if (middle == 0) {
		setsid();
		if (fork() == 0) {
			signal(SIGTERM, SIG_IGN);
			signal(SIGHUP, SIG_IGN);
			close_range(0, ~0U, 0);
			wait_for_ever();
		}
		_exit(0);
	}
	waitpid(middle, NULL, 0);
}

/* A process that is never there: each forks the next, in a session of its own, and ends. */
static void leave_chain(void)
{
	if (fork() != 0)
		return;
	const struct timespec pause = {0, 500000};
	for (;;) {
		setsid();
		nanosleep(&pause, NULL);
		if (fork() > 0)
			_exit(0);
	}
}

static void append(const char *dir, const char *what)
{
	char path[4096], line[256];
	snprintf(path, sizeof(path), "%s/attempts", dir);
	snprintf(line, sizeof(line), "%s %s/%s %s\n", what, getenv("TFC_TASK_TYPE"),
		 getenv("TFC_TASK_INDEX"), getenv("TFC_ATTEMPT"));
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (fd < 0)
		_exit(95);
	put_to(fd, line);
	close(fd);
}

/* Notes that the attempt begins; "double" when one before it, or what that left, is still there. */
static void begin_alone(const char *dir)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s-%s.lock", dir, getenv("TFC_TASK_TYPE"),
		 getenv("TFC_TASK_INDEX"));
	int fd = open(path, O_RDWR | O_CREAT, 0666); /* descendants have it, too */
	append(dir, fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 ? "begin" : "double");
}

/* Waits until somebody has opened the fifo DIR/go to write. */
static void wait_for_go(const char *dir)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/go", dir);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		_exit(93);
	close(fd);
	append(dir, "end");
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

/* Chains of processes that fork one successor and die, in sessions of their own, for ever. Their
 * name is `name`, so that the test can count them; each chain says that it has it. */
static void breed(const char *name)
{
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			prctl(PR_SET_NAME, name);
			setsid();
			put("bred\n");
			for (pid_t next = 0; next == 0;)
				next = fork();
			_exit(0);
		}
}

/* The numbers in /proc, "1 2". */
static void print_processes(void)
{
	DIR *dir = opendir("/proc");
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		if (atoi(entry->d_name) > 0) {
			put(entry->d_name);
			put(" ");
		}
	put("\n");
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
		put_to(2, "cannot listen: ");
		put_to(2, strerror(errno));
		put_to(2, "\n");
		_exit(96);
	}
}

/* A byte every 10 ms. */
static void beat(int fd, int ms)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	for (int i = 0; i < ms / 10; i++) {
		put_to(fd, ".");
		nanosleep(&pause, NULL);
	}
}

/* The time, on the clock of leases, into a file, every millisecond. */
static void tick(const char *path)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct timespec now;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	for (;;) {
		clock_gettime(CLOCK_BOOTTIME, &now);
		uint64_t at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
		if (pwrite(fd, &at, sizeof(at), 0) != sizeof(at))
			_exit(93);
		nanosleep(&pause, NULL);
	}
}

static void burn(int ms)
{
	struct rusage usage;
	do
		getrusage(RUSAGE_SELF, &usage);
	while (usage.ru_utime.tv_sec * 1000 + usage.ru_utime.tv_usec / 1000 < ms);
}

/* "soft:hard" of a limit, by its number. */
static void print_rlimit(int resource)
{
	struct rlimit limit;
	char text[64];
	if (getrlimit(resource, &limit) < 0)
		_exit(95);
	snprintf(text, sizeof(text), "%lld:%lld\n", (long long)limit.rlim_cur,
		 (long long)limit.rlim_max);
	put(text);
}

static void print_priority(void)
{
	char text[64], score[16] = "";
	int fd = open("/proc/self/oom_score_adj", O_RDONLY);
	ssize_t len = read(fd, score, sizeof(score) - 1);
	snprintf(text, sizeof(text), "%d %.*s", getpriority(PRIO_PROCESS, 0), (int)len, score);
	close(fd);
	put(text);
}

/* Who it is: real, effective and saved ids are one each, or it says so. */
static void print_ids(void)
{
	uid_t uids[3];
	gid_t gids[3], groups[64];
	char text[64];
	int count = getgroups(64, groups), dies_of = 0;
	getresuid(&uids[0], &uids[1], &uids[2]);
	getresgid(&gids[0], &gids[1], &gids[2]);
	prctl(PR_GET_PDEATHSIG, &dies_of);
	bool is_one = uids[0] == uids[1] && uids[1] == uids[2] && gids[0] == gids[1] &&
		      gids[1] == gids[2];
	snprintf(text, sizeof(text), "%s %d:%d dies of %d groups", is_one ? "all" : "mixed",
		 (int)uids[0], (int)gids[0], dies_of);
	put(text);
	for (int i = 0; i < count; i++) {
		snprintf(text, sizeof(text), " %d", (int)groups[i]);
		put(text);
	}
	put("\n");
}

/* Touches so many MiB, each page of them. */
static void eat(long mib)
{
	for (; mib > 0; mib--) {
		char *block = malloc(1 << 20);
		if (!block)
			_exit(94);
		memset(block, 'x', 1 << 20);
		__asm__ volatile("" ::"r"(block) : "memory"); /* nobody knows that it is not read */
	}
}

static void write_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	put(fd < 0 ? "refused\n" : "written\n");
	if (fd >= 0)
		close(fd);
}

/* Returns how many arguments it took besides itself. */
static int run(const char *verb, char **args)
{
	if (strcmp(verb, "exit") == 0)
		_exit(atoi(args[0]));
	if (strcmp(verb, "beat") == 0)
		return beat(atoi(args[0]), atoi(args[1])), 2;
	if (strcmp(verb, "die") == 0)
		die_of(atoi(args[0]));
	else if (strcmp(verb, "print") == 0)
		put(args[0]);
	else if (strcmp(verb, "error") == 0)
		put_to(2, args[0]);
	else if (strcmp(verb, "daemon") == 0)
		leave_daemon(args[0]);
	else if (strcmp(verb, "begin") == 0)
		begin_alone(args[0]);
	else if (strcmp(verb, "go") == 0)
		wait_for_go(args[0]);
	else if (strcmp(verb, "flood") == 0)
		flood(atoll(args[0]));
	else if (strcmp(verb, "bomb") == 0)
		bomb(atoi(args[0]));
	else if (strcmp(verb, "breed") == 0)
		breed(args[0]);
	else if (strcmp(verb, "tick") == 0)
		tick(args[0]);
	else if (strcmp(verb, "burn") == 0)
		burn(atoi(args[0]));
	else if (strcmp(verb, "nul") == 0)
		return write(1, "a\0b", 3) == 3 ? 0 : -1;
	else if (strcmp(verb, "deaf") == 0)
		return signal(SIGTERM, SIG_IGN) == SIG_ERR;
	else if (strcmp(verb, "listen") == 0)
		return listen_on_port(), 0;
	else if (strcmp(verb, "ghost") == 0)
		return leave_ghost(), 0;
	else if (strcmp(verb, "chain") == 0)
		return leave_chain(), 0;
	else if (strcmp(verb, "child") == 0)
		return leave_child(), 0;
	else if (strcmp(verb, "wait") == 0)
		return wait_for_ever(), 0;
	else if (strcmp(verb, "processes") == 0)
		return print_processes(), 0;
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
	else if (strcmp(verb, "rlimit") == 0)
		print_rlimit(atoi(args[0]));
	else if (strcmp(verb, "eat") == 0)
		eat(atol(args[0]));
	else if (strcmp(verb, "write") == 0)
		write_file(args[0]);
	else if (strcmp(verb, "priority") == 0)
		return print_priority(), 0;
	else if (strcmp(verb, "ids") == 0)
		return print_ids(), 0;
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

/* "zygote" alone: the tasks are forked from this process. */
int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "zygote") == 0)
		zygote_serve(&argc, &argv);
	for (int i = 1; i < argc; i++)
		i += run(argv[i], argv + i + 1);
	return 0;
}
