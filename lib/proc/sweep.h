/*
 * Kills the processes that a subreaper has adopted. Compiled into guard and shim: uses nothing but
 * system calls.
 */
#ifndef TFC_PROC_SWEEP_H
#define TFC_PROC_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether a child is not to be killed. */
typedef bool (*tfc__spare_fn)(void *user, pid_t pid);

/*
 * Sends SIGKILL to every child of `parent` that is not spared (spare NULL: none is) and returns
 * their number, which includes dead children that are not reaped yet. The children of a process
 * that dies become children of its nearest subreaper: call again after each SIGCHLD until the
 * result is 0.
 */
int tfc__sweep(pid_t parent, tfc__spare_fn spare, void *user);

#endif
