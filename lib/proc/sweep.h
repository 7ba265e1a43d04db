/*
 * Killing what a subreaper has adopted. Part of guard and shim: needs nothing but system calls.
 */
#ifndef TFC_PROC_SWEEP_H
#define TFC_PROC_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether a child is left alone. */
typedef bool (*tfc__spare_fn)(void *user, pid_t pid);

/*
 * Sends SIGKILL to every child of `parent` that is not spared (NULL: none is) and returns how many
 * there were, dead ones that nobody has reaped yet included. The children of what dies become
 * children of the nearest subreaper above it: call again after each SIGCHLD until 0.
 */
int tfc__sweep(pid_t parent, tfc__spare_fn spare, void *user);

#endif
