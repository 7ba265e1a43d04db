/*
 * A cgroup with a memory limit for tests, of v2 or v1, whatever this machine lets us make.
 */
#ifndef TEST_MEMORY_GROUP_H
#define TEST_MEMORY_GROUP_H

#include <stdbool.h>

struct memory_group {
	char dir[4200];
};

/* Makes one with so many MiB and no swap. False: this machine does not let us. */
bool memory_group_make(struct memory_group *group, int mib);

/* Moves the caller into it. 0 or -1. */
int memory_group_enter(const struct memory_group *group);

/* Once nobody is in it any more. 0 or -1. */
int memory_group_remove(const struct memory_group *group);

#endif
