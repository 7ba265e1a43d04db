/*
 * The lock of a private directory: it shows whether any process still uses the directory. It is a
 * lock of an open file description (fcntl(2), F_OFD_SETLK): it has the same meaning in every PID
 * namespace and ends with the last process that has the description open. Also compiled into the
 * guard: uses nothing but system calls.
 *
 * The host, each guard, and the shim of each task that was started from the directory share the
 * lock until the directory has been removed. A process that gets the lock exclusively may remove
 * the directory. It removes the lock file last, so that an interrupted removal leaves a directory
 * that the next process can recognize.
 *
 * A new directory has another name (TFC__FRESH_DIR_PREFIX) until its creator shares the lock. A
 * process that finds a directory with that name creates the lock if there is none, and removes the
 * directory at once when it gets the lock. A creator that finds its lock made by another process
 * starts again with another directory, and removes the first one unless the other process does.
 */
#ifndef TFC_PROC_DIR_LOCK_H
#define TFC_PROC_DIR_LOCK_H

#include <stdbool.h>

#define TFC__DIR_LOCK "lock" /* in the directory */

#define TFC__PRIVATE_DIR_PREFIX "tfc-"
#define TFC__FRESH_DIR_PREFIX "tfc-new-"

/*
 * Creates the lock of a new directory and shares it. Returns the descriptor, or -1 and errno:
 * EEXIST, EAGAIN and ENOENT mean that another process is removing the directory.
 */
int tfc__dir_lock_make(const char *dir);

/*
 * Opens the lock of a directory that another process may have created: no link is followed, and the
 * directory and the file must belong to this user. is_fresh: creates the lock if there is none.
 * Returns the descriptor, or -1 and errno (ENOENT: the directory has no lock).
 */
int tfc__dir_lock_open(const char *dir, bool is_fresh);

/* Returns 0, or -1 and errno. */
int tfc__dir_lock_share(int fd);

/*
 * Acquires the lock exclusively, unless it is shared; the lock is held until the descriptor is
 * closed.
 */
bool tfc__dir_lock_acquire(int fd);

/* Removes a new directory that has no user. Returns 0, or -1 and errno (EAGAIN: another process has
 * the lock). */
int tfc__fresh_dir_remove(const char *dir);

#endif
