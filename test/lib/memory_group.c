#include "memory_group.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Our own cgroup below `root`; `line` begins its line in /proc/self/cgroup behind the first colon.
 */
static bool find_own(const char *root, const char *line, char path[4096])
{
	char text[4096];
	bool is_found = false;
	FILE *file = fopen("/proc/self/cgroup", "re");
	while (file && !is_found && fgets(text, sizeof(text), file)) {
		char *list = strchr(text, ':');
		size_t len = strlen(line);
		if (!list || strncmp(list + 1, line, len) != 0)
			continue;
		list[1 + len + strcspn(list + 1 + len, "\n")] = '\0';
		is_found = snprintf(path, 4096, "%s%s", root, list + 1 + len) < 4096;
	}
	if (file)
		fclose(file);
	return is_found;
}

static int put(const struct memory_group *group, const char *name, const char *text)
{
	char path[4300];
	snprintf(path, sizeof(path), "%s/%s", group->dir, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t len = write(fd, text, strlen(text));
	close(fd);
	return len < 0 ? -1 : 0;
}

static bool make_in(struct memory_group *group, const char *parent, const char *limit,
		    const char *swap, const char *bytes, const char *swap_bytes)
{
	snprintf(group->dir, sizeof(group->dir), "%s/tfc-test-%d", parent, (int)getpid());
	if (mkdir(group->dir, 0755) < 0)
		return false;
	if (put(group, limit, bytes) == 0) {
		put(group, swap, swap_bytes); /* not there without swap accounting */
		return true;
	}
	rmdir(group->dir);
	return false;
}

bool memory_group_make(struct memory_group *group, int mib)
{
	char own[4096], bytes[32];
	snprintf(bytes, sizeof(bytes), "%lld", (long long)mib << 20);
	if (find_own("/sys/fs/cgroup", ":", own) &&
	    make_in(group, own, "memory.max", "memory.swap.max", bytes, "0"))
		return true;
	if (make_in(group, "/sys/fs/cgroup", "memory.max", "memory.swap.max", bytes, "0"))
		return true;
	return find_own("/sys/fs/cgroup/memory", "memory:", own) &&
	       make_in(group, own, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes,
		       bytes);
}

int memory_group_enter(const struct memory_group *group)
{
	return put(group, "cgroup.procs", "0");
}

int memory_group_remove(const struct memory_group *group)
{
	return rmdir(group->dir);
}
