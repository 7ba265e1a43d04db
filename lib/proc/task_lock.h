/*
 * Whether tasks of a node may be alive: locks of open file descriptions (fcntl(2), F_OFD_SETLK) on
 * the node's state directory itself. They mean the same in every PID namespace, end with the last
 * process that has the description, and need no file that could be removed. Also part of the guard:
 * needs nothing but system calls.
 *
 *   guard  each guard, from its first task until it has reaped the last one
 *   task   the shim of each task, and the init of its PID namespace. It is as long as the grace of
 *          the task: the longest lock of all says how long the tasks may take to end
 *
 * Guard and shims have descriptions of their own: what a guard that is stopped holds says nothing
 * about its tasks.
 */
#ifndef TFC_PROC_TASK_LOCK_H
#define TFC_PROC_TASK_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Opens `dir`, which is open, once more, and shares a lock. The descriptor, or -1 and errno. */
int tfc__task_lock_guard(int dir);
int tfc__task_lock_task(int dir, uint32_t grace_ms);

struct tfc__task_locks {
	bool has_guard;
	bool has_tasks;
	uint32_t grace_ms; /* the longest of the tasks */
};

/* The locks of others. 0; or -1 and errno: nothing is known. */
int tfc__task_lock_query(int dir, struct tfc__task_locks *ret_locks);

#endif
