/*
 * Whose each descriptor is: the calls that make one note who runs. A host that is killed has all of
 * its descriptors closed, as the kernel would.
 */
#include "sim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_MAX 4096

static uint32_t owners[FDS_MAX];
static uint32_t owner, last_owner;

static int note(int fd)
{
	if (fd >= FDS_MAX)
		abort();
	if (fd >= 0)
		owners[fd] = owner;
	return fd;
}

uint32_t sim_new_owner(void)
{
	return ++last_owner;
}

uint32_t sim_set_owner(uint32_t next)
{
	uint32_t before = owner;
	owner = next;
	return before;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	if (fd >= 0 && fd < FDS_MAX)
		owners[fd] = 0;
	return __real_close(fd);
}

void sim_close_all(uint32_t of)
{
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (owners[fd] == of)
			__wrap_close(fd);
}

int __real_fcntl64(int fd, int command, ...);

uint32_t sim_count_fds(uint32_t of)
{
	uint32_t count = 0;
	for (int fd = 0; fd < FDS_MAX; fd++)
		count += owners[fd] == of && __real_fcntl64(fd, F_GETFD) >= 0;
	return count;
}

/* ---- the calls */

#define WRAP(name, params, ...)                         \
	int __real_##name params;                       \
	int __wrap_##name params;                       \
	int __wrap_##name params                        \
	{                                               \
		return note(__real_##name __VA_ARGS__); \
	}

WRAP(epoll_create1, (int flags), (flags))
WRAP(timerfd_create, (int clock, int flags), (clock, flags))
WRAP(eventfd, (unsigned count, int flags), (count, flags))
WRAP(inotify_init1, (int flags), (flags))
WRAP(memfd_create, (const char *name, unsigned flags), (name, flags))

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return note(__real_open64(path, flags, mode));
}

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	return note(__real_openat64(dir, path, flags, mode));
}

int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
	va_list args;
	va_start(args, command);
	void *argument = va_arg(args, void *);
	va_end(args);
	int result = __real_fcntl64(fd, command, argument);
	return command == F_DUPFD_CLOEXEC ? note(result) : result;
}

int __real_socketpair(int family, int type, int protocol, int ends[2]);
int __wrap_socketpair(int family, int type, int protocol, int ends[2]);
int __wrap_socketpair(int family, int type, int protocol, int ends[2])
{
	int code = __real_socketpair(family, type, protocol, ends);
	if (code == 0) {
		note(ends[0]);
		note(ends[1]);
	}
	return code;
}

int __real_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags);
int __wrap_pipe2(int ends[2], int flags)
{
	int code = __real_pipe2(ends, flags);
	if (code == 0) {
		note(ends[0]);
		note(ends[1]);
	}
	return code;
}

ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t len = __real_recvmsg(fd, message, flags);
	for (struct cmsghdr *part = len < 0 ? NULL : CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR(message, part)) {
		size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; part->cmsg_type == SCM_RIGHTS && i < count; i++) {
			int passed;
			memcpy(&passed, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
			note(passed);
		}
	}
	return len;
}

/* What would start a process or touch a real one. */
#define REFUSE(name)                                              \
	int __wrap_##name(void);                                  \
	int __wrap_##name(void)                                   \
	{                                                         \
		fprintf(stderr, "the library calls " #name "\n"); \
		abort();                                          \
	}

REFUSE(posix_spawn)
REFUSE(kill)

void sim_guard_kill_by_fd(int pidfd);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* Of the calls without a function of their own the library makes two here: one reads a folder, the
 * other kills a guard. */
long __wrap_syscall(long number, ...)
{
	va_list args;
	va_start(args, number);
	int fd = va_arg(args, int);
	void *data = va_arg(args, void *);
	long len = va_arg(args, long);
	va_end(args);
	if (number == SYS_getdents64)
		return __real_syscall(number, fd, data, len);
	if (number != SYS_pidfd_send_signal) {
		fprintf(stderr, "the library makes system call %ld\n", number);
		abort();
	}
	sim_guard_kill_by_fd(fd);
	return 0;
}
