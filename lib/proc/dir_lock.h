/*
 * The lock of a private directory: whether anybody still uses the directory. A lock of open file
 * descriptions (fcntl(2), F_OFD_SETLK): it means the same in every PID namespace and ends with the
 * last process that has the description. Also part of the guard: needs nothing but system calls.
 *
 * The host, each guard, and the shim of each task that was started from the directory share it,
 * until the directory has been removed. Whoever gets it exclusively may remove the directory; the
 * lock file goes last, so that the next one finds a directory whose removal was cut short.
 *
 * A directory has another name (TFC__FRESH_DIR_PREFIX) until its maker shares the lock. Whoever
 * finds one by that name makes the lock, where there is none, and may remove the directory once it
 * has the lock. A maker that lives on and comes too late begins anew.
 */
#ifndef TFC_PROC_DIR_LOCK_H
#define TFC_PROC_DIR_LOCK_H

#include <stdbool.h>

#define TFC__DIR_LOCK "lock" /* in the directory */

#define TFC__PRIVATE_DIR_PREFIX "tfc-"
#define TFC__FRESH_DIR_PREFIX "tfc-new-"

/*
 * Makes the lock of a fresh directory and shares it. The descriptor; -1 and errno: EEXIST, EAGAIN
 * and ENOENT say that somebody is removing the directory.
 */
int tfc__dir_lock_make(const char *dir);

/*
 * Opens the lock of a directory that another process may have made: no link is followed, directory
 * and file must belong to this user. is_fresh: makes the lock where there is none. The descriptor;
 * -1 and errno (ENOENT: it has none).
 */
int tfc__dir_lock_open(const char *dir, bool is_fresh);

/* 0, or -1 and errno. */
int tfc__dir_lock_share(int fd);

/* Takes it exclusively, if nobody shares it; until the descriptor is closed. */
bool tfc__dir_lock_take(int fd);

#endif
