/* Removes a cgroup directory. Compiled into guard and shim: uses nothing but system calls. */
#ifndef TFC_PROC_GROUP_H
#define TFC_PROC_GROUP_H

/*
 * Removes the group `name` in the directory `above` and all groups below it: a task that may write
 * to its cgroup can have created some, as a container runtime does. Returns 0, or -1 and errno:
 * EBUSY when a group has processes.
 */
int tfc__group_remove(int above, const char *name);

#endif
