/*
 * An allocator that fails on demand: included by the one source of a test, it takes the place of
 * malloc in the whole program, shared libraries included. Not under a sanitizer, which brings an
 * allocator of its own; IS_SANITIZED is then defined, and the test is to return 77 (skipped).
 */
#ifndef TEST_LIB_FAILING_MALLOC_H
#define TEST_LIB_FAILING_MALLOC_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tfcluster/error.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

#ifndef IS_SANITIZED

/* glibc's own, under the names that it keeps for programs that replace malloc. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void __libc_free(void *memory);

static bool is_counting;
static long until_failure; /* allocations that still succeed */
static long live;          /* allocations that are not freed */

/* Exported, so that the shared libraries come here too. */
static bool is_due(void)
{
	if (!is_counting || until_failure-- > 0)
		return false;
	errno = ENOMEM;
	return true;
}

static void *count(void *memory)
{
	live += is_counting && memory;
	return memory;
}

TFC_API void *malloc(size_t size)
{
	return is_due() ? NULL : count(__libc_malloc(size));
}

TFC_API void *calloc(size_t items, size_t size)
{
	return is_due() ? NULL : count(__libc_calloc(items, size));
}

TFC_API void *realloc(void *memory, size_t size)
{
	if (is_due())
		return NULL;
	return memory ? __libc_realloc(memory, size) : count(__libc_malloc(size));
}

TFC_API void free(void *memory)
{
	live -= is_counting && memory;
	__libc_free(memory);
}

/* Makes allocation n fail, for every n, until the call gets by without it. */
static inline void sweep(int (*call)(void))
{
	int result = TFC_ENOMEM;
	long n;
	for (n = 0; result != TFC_OK; n++) {
		live = 0;
		until_failure = n;
		is_counting = true;
		result = call();
		is_counting = false;
		if (live)
			fail_msg("allocation %ld failed, and %ld were leaked", n, live);
		/* The JSON library takes a string that it has no memory for as a wrong one. */
		if (result != TFC_OK && result != TFC_ENOMEM && result != TFC_EPARSE)
			fail_msg("allocation %ld failed, and %s was said", n, tfc_err_name(result));
		assert_in_range(n, 0, 100000);
	}
	assert_in_range(n, 10, 100000);
}

#endif
#endif
