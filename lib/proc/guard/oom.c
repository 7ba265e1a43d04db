#include "guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* memory.events of cgroup v2. */
static int open_events(void)
{
	char path[PATH_MAX + 16];
	if (!cgroup_dir(path))
		return -1;
	strcat(path, "memory.events");
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* memory.oom_control of the v1 hierarchy. */
static int open_control(void)
{
	char name[PATH_MAX], path[PATH_MAX + 64];
	if (!cgroup_name("memory", name))
		return -1;
	snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.oom_control", name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The memory controller is in cgroup v2 or in a v1 hierarchy, never in both. */
void oom_open(struct guard *guard)
{
	guard->oom_events = open_events();
	if (guard->oom_events < 0)
		guard->oom_events = open_control();
	oom_forget(guard);
}

/* Both files have a line "oom_kill N"; v1 has it since Linux 4.13. */
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
