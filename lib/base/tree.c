#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"

static int remove_entry(int parent, const char *name)
{
	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return errno;
	/* O_NOFOLLOW: the open fails if the directory was replaced by a symbolic link meanwhile. */
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
		fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno;
	int error = tfc__empty_dir(fd);
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && !error)
		error = errno;
	return error;
}

/* Removes all entries of an open directory except `kept`, which may be NULL. Returns 0, or the
 * first errno. */
static int empty_dir_except(int fd, const char *kept)
{
	struct stat status;
	if (fstat(fd, &status) == 0 && (status.st_mode & 0300) != 0300)
		fchmod(fd, 0700);
	struct tfc__dir dir;
	int error = 0;
	tfc__dir_init(&dir, fd);
	for (const char *name; (name = tfc__dir_next(&dir));) {
		int failed = kept && strcmp(name, kept) == 0 ? 0 : remove_entry(fd, name);
		if (failed && !error)
			error = failed;
	}
	return error;
}

int tfc__empty_dir(int fd)
{
	int error = empty_dir_except(fd, NULL);
	close(fd);
	return error;
}

int tfc__remove_tree(const char *path)
{
	int error = remove_entry(AT_FDCWD, path);
	if (!error)
		return 0;
	errno = error;
	return -1;
}

int tfc__remove_tree_last(const char *path, const char *last)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int error = empty_dir_except(fd, last);
	close(fd);
	if (!error)
		return tfc__remove_tree(path);
	errno = error;
	return -1;
}
