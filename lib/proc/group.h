/*
 * Removing a cgroup directory. Part of guard and shim: needs nothing but system calls.
 */
#ifndef TFC_PROC_GROUP_H
#define TFC_PROC_GROUP_H

/*
 * Removes the group `name` in the directory `above` and the groups below it: a task that may write
 * to its cgroup can have made some, as a container runner does. 0, or -1 and errno: EBUSY when
 * there are processes in one.
 */
int tfc__group_remove(int above, const char *name);

#endif
