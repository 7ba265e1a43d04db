#include "proc/dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define FRESH TFC__DIR_LOCK ".new"

/* Bytes of the file that are locked. */
#define TASKS 0
#define USE 1

/* Of one width: it is overwritten without a need for space. */
#define GRACE "grace_ms %10u\n"
#define GRACE_SIZE 20

static int lock(int fd, short type, off_t first, off_t count)
{
	struct flock range = {.l_type = type,
			      .l_whence = SEEK_SET,
			      .l_start = first,
			      .l_len = count};
	return fcntl(fd, F_OFD_SETLK, &range);
}

static int close_failed(int fd)
{
	int error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

static int open_dir(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int make_in(int dir)
{
	int fd = openat(dir, FRESH, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || lock(fd, F_RDLCK, USE, 1) < 0 || tfc__dir_lock_write_grace(fd, 0) < 0 ||
	    renameat(dir, FRESH, dir, TFC__DIR_LOCK) < 0)
		return close_failed(fd);
	return fd;
}

int tfc__dir_lock_make(const char *path)
{
	int dir = open_dir(path);
	int fd = dir < 0 ? -1 : make_in(dir);
	close_failed(dir);
	return fd;
}

static bool is_ours(int fd, mode_t type)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return false;
	errno = EACCES;
	return (status.st_mode & S_IFMT) == type && status.st_uid == geteuid();
}

int tfc__dir_lock_open(const char *path)
{
	int dir = open_dir(path), fd = -1;
	if (dir >= 0 && is_ours(dir, S_IFDIR))
		fd = openat(dir, TFC__DIR_LOCK, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && !is_ours(fd, S_IFREG))
		fd = close_failed(fd);
	close_failed(dir);
	return fd;
}

int tfc__dir_lock_share(int fd)
{
	return lock(fd, F_RDLCK, TASKS, 2);
}

void tfc__dir_lock_release_tasks(int fd)
{
	lock(fd, F_UNLCK, TASKS, 1);
}

int tfc__dir_lock_write_grace(int fd, uint32_t grace_ms)
{
	char text[GRACE_SIZE + 1];
	snprintf(text, sizeof(text), GRACE, grace_ms);
	ssize_t len = pwrite(fd, text, GRACE_SIZE, 0);
	if (len >= 0 && len != GRACE_SIZE)
		errno = ENOSPC;
	return len == GRACE_SIZE ? 0 : -1;
}

uint32_t tfc__dir_lock_read_grace(int fd)
{
	char text[GRACE_SIZE + 1] = "";
	unsigned grace_ms = 0;
	if (pread(fd, text, GRACE_SIZE, 0) != GRACE_SIZE || sscanf(text, GRACE, &grace_ms) != 1)
		return 0;
	return grace_ms;
}

bool tfc__dir_lock_has_tasks(int fd)
{
	struct flock range = {.l_type = F_WRLCK,
			      .l_whence = SEEK_SET,
			      .l_start = TASKS,
			      .l_len = 1};
	return fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

bool tfc__dir_lock_take(int fd)
{
	return lock(fd, F_WRLCK, TASKS, 2) == 0;
}
