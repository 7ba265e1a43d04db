#include "proc/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/proc_stat.h"

struct sweep {
	tfc__spare_fn spare;
	void *user;
	int found;
};

static void sweep_one(struct sweep *sweep, pid_t pid)
{
	if (pid <= 1 || (sweep->spare && sweep->spare(sweep->user, pid)))
		return;
	sweep->found++;
	kill(pid, SIGKILL);
}

/*
 * proc(5): pids separated by blanks, on one line. A pid may be split at the end of a read. At each
 * read the kernel walks the list from its beginning, so few reads make it fast.
 */
static void sweep_numbers(struct sweep *sweep, int fd)
{
	char chunk[4096];
	ssize_t len;
	pid_t pid = 0;
	while ((len = read(fd, chunk, sizeof(chunk))) > 0)
		for (ssize_t i = 0; i < len; i++) {
			if (chunk[i] >= '0' && chunk[i] <= '9') {
				pid = pid * 10 + (chunk[i] - '0');
				continue;
			}
			sweep_one(sweep, pid);
			pid = 0;
		}
	sweep_one(sweep, pid);
}

/* For kernels without CONFIG_PROC_CHILDREN. */
static void sweep_all_of_proc(struct sweep *sweep, pid_t parent)
{
	DIR *dir = opendir("/proc");
	if (!dir)
		return;
	for (struct dirent *entry; (entry = readdir(dir));) {
		struct tfc__proc_stat process;
		pid_t pid = atoi(entry->d_name);
		if (pid > 0 && tfc__proc_stat_read(pid, &process) == 0 && process.parent == parent)
			sweep_one(sweep, pid);
	}
	closedir(dir);
}

int tfc__sweep(pid_t parent, tfc__spare_fn spare, void *user)
{
	struct sweep sweep = {spare, user, 0};
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		sweep_all_of_proc(&sweep, parent);
		return sweep.found;
	}
	sweep_numbers(&sweep, fd);
	close(fd);
	return sweep.found;
}
