/*
 * Freezing a family of processes, as a suspended machine or `docker pause` does: by a cgroup of v2,
 * by one of the v1 freezer, or, where neither can be made, by SIGSTOP to each of them.
 */
#ifndef TEST_FREEZER_H
#define TEST_FREEZER_H

#include <stdbool.h>
#include <sys/types.h>

enum freezer_kind { FREEZER_V2, FREEZER_V1, FREEZER_STOP };

struct freezer {
	enum freezer_kind kind;
	char dir[4096]; /* the cgroup; "" with FREEZER_STOP */
	pid_t pids[64]; /* with FREEZER_STOP: who was stopped */
	size_t count;
};

/* Makes the cgroup; false: none of this kind can be made here. */
bool freezer_make(struct freezer *freezer, enum freezer_kind kind);

/* Moves the calling process, and what it starts from now on, into it. */
void freezer_join(const struct freezer *freezer);

/* Returns once `root` and all that descends from it run no more. */
void freezer_freeze(struct freezer *freezer, pid_t root);
void freezer_thaw(struct freezer *freezer);

/* Once nobody is left in it. */
void freezer_remove(struct freezer *freezer);

#endif
