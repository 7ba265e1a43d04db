#include "failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "sanitized.h"
#include "sockets.h"

#define SWEEP_MAX 100000

static bool is_counting;
static bool is_for_good;
static bool has_struck;
static bool is_leaky;      /* in a library that we do not mend */
static long until_failure; /* allocations that still succeed */
static long live;          /* allocations that are not freed */

static bool is_due(void)
{
	if (!is_counting || until_failure-- > 0)
		return false;
	if (has_struck && !is_for_good)
		return false;
	has_struck = true;
	errno = ENOMEM;
	return true;
}

#if TEST_IS_SANITIZED

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/lsan_interface.h>
#define HAS_LEAK_CHECK 1
#endif
#endif

void *__real_malloc(size_t size);
void *__real_calloc(size_t items, size_t size);
void *__real_realloc(void *memory, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
int __real_vasprintf(char **ret_text, const char *format, va_list args);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t items, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
int __wrap_vasprintf(char **ret_text, const char *format, va_list args);
int __wrap_asprintf(char **ret_text, const char *format, ...) __attribute__((format(printf, 2, 3)));

void *__wrap_malloc(size_t size)
{
	return is_due() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t items, size_t size)
{
	return is_due() ? NULL : __real_calloc(items, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return is_due() ? NULL : __real_realloc(memory, size);
}

char *__wrap_strdup(const char *text)
{
	return is_due() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
	return is_due() ? NULL : __real_strndup(text, len);
}

int __wrap_vasprintf(char **ret_text, const char *format, va_list args)
{
	return is_due() ? -1 : __real_vasprintf(ret_text, format, args);
}

int __wrap_asprintf(char **ret_text, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int len = __wrap_vasprintf(ret_text, format, args);
	va_end(args);
	return len;
}

static bool has_leaked(void)
{
#ifdef HAS_LEAK_CHECK
	return __lsan_do_recoverable_leak_check() != 0;
#else
	return false;
#endif
}

static void ignore_leaks(bool is_ignored)
{
#ifdef HAS_LEAK_CHECK
	if (is_ignored)
		__lsan_disable();
	else
		__lsan_enable();
#endif
}

#else

#include <dlfcn.h>

/* Taken by name from the C library, or from what a checker like valgrind has put in its place. */
static struct {
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t items, size_t size);
	void *(*realloc)(void *memory, size_t size);
	void (*free)(void *memory);
} next;

static void find(void)
{
	*(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&next.calloc = dlsym(RTLD_NEXT, "calloc");
	*(void **)&next.realloc = dlsym(RTLD_NEXT, "realloc");
	*(void **)&next.free = dlsym(RTLD_NEXT, "free");
}

static void *count(void *memory)
{
	live += is_counting && memory;
	return memory;
}

/* Exported, so that the shared libraries come here too. */
TFC_API void *malloc(size_t size)
{
	if (!next.malloc)
		find();
	return is_due() ? NULL : count(next.malloc(size));
}

TFC_API void *calloc(size_t items, size_t size)
{
	if (!next.malloc)
		find();
	return is_due() ? NULL : count(next.calloc(items, size));
}

TFC_API void *realloc(void *memory, size_t size)
{
	if (!next.malloc)
		find();
	if (is_due())
		return NULL;
	return memory ? next.realloc(memory, size) : count(next.malloc(size));
}

TFC_API void free(void *memory)
{
	if (!memory)
		return;
	live -= is_counting;
	next.free(memory);
}

static bool has_leaked(void)
{
	return false;
}

static void ignore_leaks(bool is_ignored)
{
}

#endif

void failing_arm(long n, bool for_good)
{
	until_failure = n;
	is_for_good = for_good;
	has_struck = false;
	is_counting = true;
}

void failing_begin(long n, bool for_good)
{
	live = 0;
	failing_arm(n, for_good);
}

void failing_relent(void)
{
	until_failure = FAILING_NEVER;
	is_for_good = false;
}

void failing_end(void)
{
	is_counting = false;
}

bool failing_has_struck(void)
{
	return has_struck;
}

long failing_live(void)
{
	return live;
}

static void fail_once(int (*call)(void), long n, bool for_good)
{
	int fds = folder_count_fds();
	failing_begin(n, for_good);
	int code = call();
	failing_end();
	if (live > 0 && !is_leaky)
		fail_msg("allocation %ld%s failed, and %ld are left", n, for_good ? " and on" : "",
			 live);
	if (code != TFC_OK && !(code == TFC_ENOMEM && has_struck))
		fail_msg("allocation %ld%s failed, and %s was said", n, for_good ? " and on" : "",
			 tfc_err_name(code));
	assert_int_equal(folder_count_fds(), fds);
}

void failing_sweep(int (*call)(void), long least)
{
	call(); /* what libraries allocate once and keep is no leak */
	for (int for_good = 0; for_good < 2; for_good++) {
		long n = 0;
		do {
			assert_true(n < SWEEP_MAX);
			fail_once(call, n++, for_good);
		} while (has_struck);
#if !TEST_IS_SANITIZED
		assert_in_range(n - 1, least, SWEEP_MAX);
#endif
	}
	if (!is_leaky)
		assert_false(has_leaked());
}

void failing_sweep_leaky(int (*call)(void), long least)
{
	is_leaky = true;
	ignore_leaks(true);
	failing_sweep(call, least);
	ignore_leaks(false);
	is_leaky = false;
}

int failing_said(int code, const tfc_error *error)
{
	if (code == TFC_ENOMEM && error && !strstr(error->text, "out of memory") &&
	    !strstr(error->text, strerror(ENOMEM)))
		fail_msg("out of memory, and \"%s\" was said", error->text);
	if (code == TFC_ENOMEM && error)
		assert_int_equal(error->code, TFC_ENOMEM);
	return code;
}
