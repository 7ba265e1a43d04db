#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int remove_children(int fd);

static int remove_entry(int parent, const char *name)
{
	if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return errno;
	/* O_NOFOLLOW: were the directory swapped for a link now, the open fails. */
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
		fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno;
	int error = remove_children(fd);
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && !error)
		error = errno;
	return error;
}

/* Takes over fd. */
static int remove_children(int fd)
{
	struct stat status;
	if (fstat(fd, &status) == 0 && (status.st_mode & 0300) != 0300)
		fchmod(fd, 0700);
	DIR *dir = fdopendir(fd);
	if (!dir) {
		int error = errno;
		close(fd);
		return error;
	}
	int error = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		int failed = remove_entry(fd, entry->d_name);
		if (failed && !error)
			error = failed;
	}
	closedir(dir);
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
