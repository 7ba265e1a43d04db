/*
 * A zygote in C, as doc/internals/warm.md describes one: the test program forks its tasks instead
 * of being executed for each. A command line of another program is left to the shim.
 */
#include "zygote.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GUARD 3
#define CHILD 9
#define HIGH 16
#define FDS 16

extern char **environ;

struct request {
	char text[256];
	int fds[FDS]; /* received */
	int count;
	int numbers[FDS]; /* the words behind the first */
	int number_count;
};

static int receive(int from, struct request *request)
{
	union {
		char bytes[CMSG_SPACE(FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec part = {request->text, sizeof(request->text) - 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t len = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
	request->count = request->number_count = 0;
	if (len <= 0)
		return -1;
	request->text[len] = '\0';
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	if (head) {
		request->count = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(request->fds, CMSG_DATA(head), (size_t)request->count * sizeof(int));
	}
	for (char *at = strchr(request->text, ' '); at; at = strchr(at + 1, ' '))
		request->numbers[request->number_count++] = atoi(at + 1);
	return 0;
}

/* Gives descriptors their numbers. All others below HIGH are closed, and those above are not passed
 * on by exec. */
static void move_fds(const int *fds, const int *numbers, int count, int lowest)
{
	int high[FDS];
	for (int i = 0; i < count; i++)
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, HIGH);
	syscall(SYS_close_range, lowest, HIGH - 1, 0);
	for (int i = 0; i < count; i++)
		dup2(high[i], numbers[i]);
}

static void become_shim(struct request *request, int for_shim, pid_t pid)
{
	char number[16];
	char *const argv[] = {(char *)"tfc-shim", number, NULL}, *const env[] = {NULL};
	static const int node_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	sigset_t blocked;
	sigemptyset(&blocked);
	for (size_t i = 0; i < 4; i++)
		sigaddset(&blocked, node_signals[i]);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	int program = fcntl(request->fds[0], F_DUPFD_CLOEXEC, HIGH);
	request->fds[request->count] = for_shim;
	request->numbers[request->number_count] = CHILD;
	snprintf(number, sizeof(number), "%d", (int)pid);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	move_fds(request->fds + 1, request->numbers, request->count, 3);
	syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
	_exit(127);
}

/* Returns in the task's process, with the socket to its shim; in the zygote -1. */
static int fork_task(struct request *request)
{
	int ends[2];
	pid_t intermediate = fork();
	if (intermediate) {
		waitpid(intermediate, NULL, 0);
		return -1;
	}
	if (fork())
		_exit(0); /* the guard adopts the shim */
	close(GUARD);
	setsid();
	if (getenv("ZYGOTE_STOPS"))
		raise(SIGSTOP);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		_exit(127);
	pid_t shim = getpid(), pid = fork();
	if (pid)
		become_shim(request, ends[0], pid);
	close(ends[0]);
	for (int i = 0; i < request->count; i++)
		close(request->fds[i]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != shim)
		_exit(127);
	return ends[1];
}

/* The mapping of the program stays: argv and the environment lie in it. */
static void become_task(int shim, const char *own_program, int *argc, char ***argv)
{
	struct request request;
	struct stat status;
	if (receive(shim, &request) < 0 || fstat(request.fds[0], &status) < 0)
		_exit(127);
	char *at = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE,
			request.fds[0], 0);
	if (at == MAP_FAILED)
		_exit(127);
	const char *end = at + status.st_size;
	size_t words = 0;
	for (const char *byte = at; byte < end; byte++)
		words += !*byte;
	char **texts = calloc(words + 2, sizeof(*texts));
	*argc = atoi(at);
	at += strlen(at) + 1;
	if (chdir(at) < 0 || !texts)
		_exit(127);
	for (char **text = texts; at += strlen(at) + 1, at < end;) {
		*text++ = at;
		text += text - texts == *argc; /* argv ends with a NULL */
	}
	*argv = texts;
	environ = texts + *argc + 1;
	if (strcmp(texts[0], own_program) != 0)
		_exit(127);
	int connection = fcntl(shim, F_DUPFD_CLOEXEC, 2 * HIGH);
	move_fds(request.fds + 1, request.numbers, request.number_count, 3);
	if (send(connection, "started", 7, MSG_NOSIGNAL) < 0)
		_exit(127); /* the shim starts the program itself */
	syscall(SYS_close_range, HIGH, ~0u, 0u);
}

/* As no zygote should: what it does instead of its duty. It does not end by itself. */
static _Noreturn void lie(const char *how)
{
	struct request request;
	if (strcmp(how, "wrong text") == 0) {
		send(GUARD, "whatever", 8, MSG_NOSIGNAL);
	} else if (strcmp(how, "closed socket") == 0) {
		close(GUARD);
	} else if (strcmp(how, "ready twice") == 0) {
		send(GUARD, "ready", 5, MSG_NOSIGNAL);
		send(GUARD, "ready", 5, MSG_NOSIGNAL);
	} else if (strcmp(how, "flood") == 0) {
		while (send(GUARD, "ready", 5, MSG_NOSIGNAL) == 5)
			;
	} else if (strcmp(how, "silence") != 0) {
		send(GUARD, "ready", 5, MSG_NOSIGNAL);
		receive(GUARD, &request); /* its descriptors stay open */
		if (strcmp(how, "response to a request") == 0)
			send(GUARD, "forked", 6, MSG_NOSIGNAL);
		else
			shutdown(GUARD, SHUT_RDWR);
	}
	for (;;)
		pause();
}

void zygote_serve(int *argc, char ***argv)
{
	const char *own_program = (*argv)[0];
	struct request request;
	const char *fork_s = getenv(
		"ZYGOTE_FORK_S"); /* how long it needs for a fork, as under load */
	const char *how = getenv("ZYGOTE_LIES");
	if (how)
		lie(how);
	/* A process of its own that is in another session. */
	if (getenv("ZYGOTE_LEAVES") && fork() == 0) {
		setsid();
		close(GUARD);
		for (;;)
			pause();
	}
	send(GUARD, "ready", 5, MSG_NOSIGNAL);
	while (receive(GUARD, &request) == 0) {
		sleep(fork_s ? (unsigned)atoi(fork_s) : 0);
		int shim = fork_task(&request);
		if (shim >= 0) {
			become_task(shim, own_program, argc, argv);
			return;
		}
		for (int i = 0; i < request.count; i++)
			close(request.fds[i]);
	}
	_exit(0);
}
