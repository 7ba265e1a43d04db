#include "base/proc_stat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* proc(5), /proc/PID/stat: "PID (NAME) STATE PPID ...". NAME may contain any character, parentheses
 * included. User and system time are fields 14 and 15. */
int tfc__proc_stat_read(pid_t pid, struct tfc__proc_stat *ret_stat)
{
	char path[64], text[1024];
	uint64_t ticks = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (tfc__read_text(path, text, sizeof(text)) <= 0)
		return -1;
	char *name = strchr(text, '('), *end = strrchr(text, ')');
	if (!name || !end || strlen(end) < 4) {
		errno = ESRCH;
		return -1;
	}
	*end = '\0';
	ret_stat->pid = pid;
	snprintf(ret_stat->name, sizeof(ret_stat->name), "%.63s", name + 1);
	ret_stat->state = end[2];
	char *at = end + 3;
	ret_stat->parent = (pid_t)strtol(at, &at, 10);
	for (int field = 5; field <= 15; field++) {
		uint64_t value = strtoull(at, &at, 10);
		ticks += field >= 14 ? value : 0;
	}
	ret_stat->ticks = ticks;
	return 0;
}
