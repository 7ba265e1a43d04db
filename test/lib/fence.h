/*
 * Memory that the code under test must not visit: a test of what an event costs fences the entries
 * that do not concern it. Code that visits one of them is ended by SIGSEGV.
 */
#ifndef TEST_FENCE_H
#define TEST_FENCE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct fence {
	char *from;
	size_t len;
};

/* Fences the whole pages between the two addresses; there is at least one. */
static inline struct fence fence_raise(void *from, void *to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = ((uintptr_t)from + page - 1) / page * page;
	uintptr_t end = (uintptr_t)to / page * page;
	struct fence fence = {(char *)first, end - first};
	if (first >= end || mprotect(fence.from, fence.len, PROT_NONE) < 0)
		abort();
	return fence;
}

/* The memory can be visited again; before it is freed. */
static inline void fence_lower(const struct fence *fence)
{
	if (mprotect(fence->from, fence->len, PROT_READ | PROT_WRITE) < 0)
		abort();
}

#endif
