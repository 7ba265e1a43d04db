/*
 * Which process has a socket open, read from /proc.
 */
#ifndef TFC_PORT_OWNER_H
#define TFC_PORT_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tfc__owner {
	pid_t pid; /* 0: not visible from here */
	char program[64];
};

/* One socket looked for. */
struct tfc__sought {
	uint32_t inode;
	uint32_t uid;
	pid_t pid; /* 0 until found */
};

/*
 * Looks through `root` and all its descendants and fills in `pid` where one has the socket open.
 * 0, or -1 and errno (ENOMEM, EMFILE).
 */
int tfc__owner_find_in_tree(pid_t root, struct tfc__sought *sought, size_t count);

/*
 * Calls fn for `root` and its descendants, parents first, until it returns false. 0, or -1 and
 * errno.
 */
typedef bool (*tfc__owner_fn)(void *user, pid_t pid);
int tfc__owner_each_in_tree(pid_t root, tfc__owner_fn fn, void *user);

/*
 * The same where the kernel has no /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN): reads the
 * parent of every process on the machine once.
 */
int tfc__owner_find_by_parents(pid_t root, struct tfc__sought *sought, size_t count);
bool tfc__owner_kernel_lists_children(void);

/* How far a search through all processes has come; zeros: none is under way. */
struct tfc__owner_search {
	uint32_t inode;  /* 0: it is over, or was not begun */
	long process;    /* places in /proc */
	long descriptor; /* ... and in /proc/PID/fd */
};

/*
 * Looks through all processes that are visible, at `most` descriptors, from where the last call for
 * the same socket has ended; fills *ret_owner where one has it open. A slice takes a few
 * milliseconds.
 */
#define TFC__OWNER_SLICE 2000
void tfc__owner_find(struct tfc__owner_search *search, uint32_t inode, uint32_t most,
		     struct tfc__owner *ret_owner);

/* The name of a process, or "". */
void tfc__owner_program(pid_t pid, char ret_program[64]);

#endif
