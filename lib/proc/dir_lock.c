#include "proc/dir_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define FLAGS (O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)

static int dir_lock_set(int fd, short type)
{
	struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
	return fcntl(fd, F_OFD_SETLK, &range);
}

static int dir_lock_close_failed(int fd)
{
	int error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

static int dir_lock_open_dir(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int tfc__dir_lock_make(const char *path)
{
	int dir = dir_lock_open_dir(path);
	int fd = dir < 0 ? -1 : openat(dir, TFC__DIR_LOCK, FLAGS | O_CREAT | O_EXCL, 0600);
	dir_lock_close_failed(dir);
	return fd < 0 || dir_lock_set(fd, F_RDLCK) < 0 ? dir_lock_close_failed(fd) : fd;
}

static bool dir_lock_is_ours(int fd, mode_t type)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return false;
	errno = EACCES;
	return (status.st_mode & S_IFMT) == type && status.st_uid == geteuid();
}

int tfc__dir_lock_open(const char *path, bool is_fresh)
{
	int dir = dir_lock_open_dir(path), fd = -1;
	if (dir >= 0 && dir_lock_is_ours(dir, S_IFDIR))
		fd = openat(dir, TFC__DIR_LOCK, FLAGS | (is_fresh ? O_CREAT : 0), 0600);
	if (fd >= 0 && !dir_lock_is_ours(fd, S_IFREG))
		fd = dir_lock_close_failed(fd);
	dir_lock_close_failed(dir);
	return fd;
}

int tfc__dir_lock_share(int fd)
{
	return dir_lock_set(fd, F_RDLCK);
}

bool tfc__dir_lock_acquire(int fd)
{
	return dir_lock_set(fd, F_WRLCK) == 0;
}

int tfc__fresh_dir_remove(const char *path)
{
	int lock = tfc__dir_lock_open(path, true);
	if (lock < 0 || !tfc__dir_lock_acquire(lock))
		return dir_lock_close_failed(lock);
	int code = tfc__remove_tree_last(path, TFC__DIR_LOCK);
	dir_lock_close_failed(lock);
	return code;
}
