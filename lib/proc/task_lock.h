/*
 * Locks that show whether tasks of a node may be alive: locks of open file descriptions (fcntl(2),
 * F_OFD_SETLK) on the node's state directory itself. They have the same meaning in every PID
 * namespace, end with the last process that has the description open, and need no file that could
 * be removed. Also compiled into the guard: uses nothing but system calls.
 *
 *   guard  held by each guard, from its first task until it has reaped the last one
 *   task   held by the shim of each task and the init of its PID namespace. Its length is the
 *          task's grace: the longest lock shows how long the tasks may take to end
 *
 * Guard and shims have their own descriptions: a lock that a stopped guard holds is no evidence of
 * live tasks.
 */
#ifndef TFC_PROC_TASK_LOCK_H
#define TFC_PROC_TASK_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Opens the open directory `dir` once more and shares a lock on it. The descriptor, or -1 and
 * errno.
 */
int tfc__task_lock_guard(int dir);
int tfc__task_lock_task(int dir, uint32_t grace_ms);

struct tfc__task_locks {
	bool has_guard;
	bool has_tasks;
	uint32_t grace_ms; /* the longest grace of the tasks */
};

/* Queries the locks of other descriptions. 0, or -1 and errno: unknown. */
int tfc__task_lock_query(int dir, struct tfc__task_locks *ret_locks);

#endif
