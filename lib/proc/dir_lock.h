/*
 * The lock of a private directory: whether anybody still uses the directory, and whether a task
 * that was started from it may still be alive. By locks of open file descriptions (fcntl(2),
 * F_OFD_SETLK): they mean the same in every PID namespace and end with the last process that has
 * the description. Also part of the guard: needs nothing but system calls.
 *
 * The lock file has two bytes that can be locked. Whoever uses the directory shares them:
 *   TASKS  the guard. It hands its description to the shim of every task; no task inherits it. The
 *          byte is free once the last task has been reaped, also when the guard was killed
 *   USE    the host, each guard and each shim, until the directory has been removed
 * Whoever gets both exclusively may remove the directory; the lock file goes last, so that the next
 * one finds a directory whose removal was cut short. The file holds the largest grace of the tasks
 * that were started: how long it may take until the TASKS byte is free.
 */
#ifndef TFC_PROC_DIR_LOCK_H
#define TFC_PROC_DIR_LOCK_H

#include <stdbool.h>
#include <stdint.h>

#define TFC__DIR_LOCK "lock" /* in the directory */

/* Makes the lock of a fresh directory and shares USE; it appears under its name once it is locked.
 * The descriptor, or -1 and errno. */
int tfc__dir_lock_make(const char *dir);

/*
 * Opens the lock of a directory that another process may have made: no link is followed, directory
 * and file must belong to this user. The descriptor; -1 and errno (ENOENT: it has none).
 */
int tfc__dir_lock_open(const char *dir);

/* For a guard: shares TASKS and USE. 0, or -1 and errno. release_tasks: the last task is reaped. */
int tfc__dir_lock_share(int fd);
void tfc__dir_lock_release_tasks(int fd);

/* 0, or -1 and errno; what was written before is overwritten in place. Reading: 0 when unknown. */
int tfc__dir_lock_write_grace(int fd, uint32_t grace_ms);
uint32_t tfc__dir_lock_read_grace(int fd);

/* Whether somebody shares TASKS. */
bool tfc__dir_lock_has_tasks(int fd);

/* Takes both bytes exclusively, if nobody shares them; until the descriptor is closed. */
bool tfc__dir_lock_take(int fd);

#endif
