#include "guard.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The memory controller is in cgroup v2 (memory.events) or in a v1 hierarchy (memory.oom_control),
 * never in both.
 */
void oom_open(struct guard *guard)
{
	char name[PATH_MAX], path[PATH_MAX + 64];
	guard->oom_events = -1;
	if (cgroup_dir(path)) {
		strcat(path, "memory.events");
		guard->oom_events = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (guard->oom_events < 0 && cgroup_name("memory", name)) {
		snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%s/memory.oom_control", name);
		guard->oom_events = open(path, O_RDONLY | O_CLOEXEC);
	}
	oom_reset(guard);
}

/* Both files have a line "oom_kill N"; v1 has it since Linux 4.13. */
static uint64_t oom_count_kills(const struct guard *guard)
{
	char text[512];
	ssize_t len = guard->oom_events < 0 ? 0
					    : pread(guard->oom_events, text, sizeof(text) - 1, 0);
	text[len > 0 ? len : 0] = 0;
	const char *line = strstr(text, "\noom_kill ");
	return line ? strtoull(line + 10, NULL, 10) : 0;
}

void oom_reset(struct guard *guard)
{
	guard->oom_kills = oom_count_kills(guard);
}

bool oom_account(struct guard *guard)
{
	if (oom_count_kills(guard) <= guard->oom_kills)
		return false;
	guard->oom_kills++;
	return true;
}
