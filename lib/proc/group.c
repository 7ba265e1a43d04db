#include "proc/group.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/dir.h"

#define ROUNDS_MAX 10000 /* not to wait for a process that makes groups without end */
#define NAME_SIZE 256

/*
 * Removes the groups in a directory that have no groups below them. Returns whether one has any,
 * and its name.
 */
static bool group_remove_leaves(int fd, int *count, char busy[NAME_SIZE])
{
	struct tfc__dir dir;
	bool is_busy = false;
	tfc__dir_init(&dir, fd);
	for (const char *name; (name = tfc__dir_next(&dir));) {
		if (unlinkat(fd, name, AT_REMOVEDIR) == 0) {
			(*count)++;
		} else if (errno == EBUSY && !is_busy) { /* a file gives ENOTDIR */
			snprintf(busy, NAME_SIZE, "%s", name);
			is_busy = true;
		}
	}
	return is_busy;
}

/*
 * Descends to the deepest groups and removes them. Needs two descriptors and no path, whatever the
 * depth. Returns how many groups were removed.
 */
static int group_remove_deepest(int fd)
{
	char name[NAME_SIZE];
	int count = 0;
	while (fd >= 0 && group_remove_leaves(fd, &count, name)) {
		int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		fd = below;
	}
	if (fd >= 0)
		close(fd);
	return count;
}

int tfc__group_remove(int above, const char *name)
{
	int done = unlinkat(above, name, AT_REMOVEDIR);
	for (int i = 0; i < ROUNDS_MAX && done < 0 && errno == EBUSY; i++) {
		if (group_remove_deepest(openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) ==
		    0) {
			errno = EBUSY;
			return -1;
		}
		done = unlinkat(above, name, AT_REMOVEDIR);
	}
	return done;
}
