#include "guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cgroups(7): the line "0::PATH" names the cgroup v2 of a process. */
void oom_open(struct guard *guard)
{
	char text[4096], path[4200];
	guard->oom_events = -1;
	int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return;
	text[len] = 0;
	char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
	if (!line)
		return;
	char *group = strchr(line, '/');
	if (!group)
		return;
	group[strcspn(group, "\n")] = 0;
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.events", group);
	guard->oom_events = open(path, O_RDONLY | O_CLOEXEC);
	oom_forget(guard);
}

static uint64_t kills(const struct guard *guard)
{
	char text[512];
	ssize_t len = guard->oom_events < 0 ? 0
					    : pread(guard->oom_events, text, sizeof(text) - 1, 0);
	text[len > 0 ? len : 0] = 0;
	const char *line = strstr(text, "\noom_kill ");
	return line ? strtoull(line + 10, NULL, 10) : 0;
}

void oom_forget(struct guard *guard)
{
	guard->oom_kills = kills(guard);
}

bool oom_take(struct guard *guard)
{
	if (kills(guard) <= guard->oom_kills)
		return false;
	guard->oom_kills++;
	return true;
}
