/*
 * State of a process as reported by the kernel (proc_stat.c; also part of guard and shim). When the
 * caller reads it, the process may have ended and its PID may belong to another process. A caller
 * that must be certain holds a pidfd or is the parent.
 */
#ifndef TFC_BASE_PROC_STAT_H
#define TFC_BASE_PROC_STAT_H

#include <stdint.h>
#include <sys/types.h>

struct tfc__proc_stat {
	pid_t pid;
	char name[64];
	char state;     /* as in proc(5): 'R', 'S', 'D', 'T', 't', 'Z', 'X' */
	pid_t parent;   /* 0: the parent is in another PID namespace */
	uint64_t ticks; /* CPU time of all its threads, in 1 / sysconf(_SC_CLK_TCK) s */
};

/* Returns 0, or -1 and errno: ENOENT and ESRCH mean that there is no such process. */
int tfc__proc_stat_read(pid_t pid, struct tfc__proc_stat *ret_stat);

#endif
