/*
 * Finds the process that has a socket open, by reading /proc.
 */
#ifndef TFC_PORT_OWNER_H
#define TFC_PORT_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tfc__owner {
	pid_t pid; /* 0: not visible to this process */
	char program[64];
};

/* A socket whose owner is searched for. */
struct tfc__sought {
	uint32_t inode;
	uint32_t uid;
	pid_t pid; /* 0 until found */
};

/*
 * Searches `root` and all its descendants and sets `pid` of each socket that one of them has open.
 * Returns 0, or -1 and errno (ENOMEM, EMFILE).
 */
int tfc__owner_find_in_tree(pid_t root, struct tfc__sought *sought, size_t count);

/*
 * Calls fn for `root` and its descendants, parents first, until fn returns false. Returns 0, or -1
 * and errno.
 */
typedef bool (*tfc__owner_fn)(void *user, pid_t pid);
int tfc__owner_each_in_tree(pid_t root, tfc__owner_fn fn, void *user);

/*
 * Like tfc__owner_find_in_tree, for kernels without /proc/PID/task/TID/children
 * (CONFIG_PROC_CHILDREN): reads the parent of every process on the machine once.
 */
int tfc__owner_find_by_parents(pid_t root, struct tfc__sought *sought, size_t count);
bool tfc__owner_kernel_lists_children(void);

/* The progress of a search through all processes; zeros: no search is in progress. */
struct tfc__owner_search {
	uint32_t inode;  /* 0: completed, or not started */
	long process;    /* position in /proc */
	long descriptor; /* position in /proc/PID/fd */
};

/*
 * Searches all visible processes for the socket, reading at most `most` descriptors, and continues
 * where the last call for the same inode stopped. Fills *ret_owner if a process has the socket
 * open. A slice takes a few milliseconds.
 */
#define TFC__OWNER_SLICE 2000
void tfc__owner_find(struct tfc__owner_search *search, uint32_t inode, uint32_t most,
		     struct tfc__owner *ret_owner);

/* The name of a process, or "". */
void tfc__owner_program(pid_t pid, char ret_program[64]);

#endif
