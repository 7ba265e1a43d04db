/*
 * What the kernel says of a process (proc_stat.c; also part of guard and shim). It may be gone, and
 * its number another's, by the time this is read: who must know has a pidfd or is its parent.
 */
#ifndef TFC_BASE_PROC_STAT_H
#define TFC_BASE_PROC_STAT_H

#include <stdint.h>
#include <sys/types.h>

struct tfc__proc_stat {
	pid_t pid;
	char name[64];
	char state;     /* as in proc(5): 'R', 'S', 'D', 'T', 't', 'Z', 'X' */
	pid_t parent;   /* 0: it is in another PID namespace */
	uint64_t ticks; /* CPU time of all its threads, in 1 / sysconf(_SC_CLK_TCK) s */
};

/* 0, or -1 and errno: ENOENT and ESRCH say that there is none. */
int tfc__proc_stat_read(pid_t pid, struct tfc__proc_stat *ret_stat);

#endif
