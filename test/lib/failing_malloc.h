/*
 * An allocator that fails on demand, linked into the tests that ask for it (failing_malloc in
 * test/lib/meson.build).
 *
 * It takes the place of malloc in the whole program, shared libraries included. A sanitizer brings
 * an allocator of its own: there only what the library and the test themselves ask for can fail
 * (the linker's --wrap), and the sanitizer counts what is leaked.
 */
#ifndef TEST_LIB_FAILING_MALLOC_H
#define TEST_LIB_FAILING_MALLOC_H

#include <stdbool.h>
#include <tfcluster/error.h>

/* From here on allocation `n` fails, counted from 0, and those behind it, too, if so asked. */
void failing_begin(long n, bool is_for_good);
void failing_end(void);

/* The same without a new count of what is live: in the middle of what failing_begin began. */
void failing_arm(long n, bool is_for_good);

/* No more failures; counting goes on. */
void failing_relent(void);

#define FAILING_NEVER 0x7fffffffL

/* Whether one has failed since the beginning. */
bool failing_has_struck(void);

/* Allocations since the beginning that are not freed; 0 under a sanitizer. */
long failing_live(void);

/*
 * Makes allocation n of the call fail, for every n, until the call gets by without a failure: first
 * that one alone, then all behind it as well. The call gives TFC_OK or TFC_ENOMEM; it is to leave
 * nothing allocated, and no descriptor open. `least` is how many allocations it makes at least; it
 * counts outside the sanitizers.
 */
void failing_sweep(int (*call)(void), long least);

/* The same of a call into a library that itself leaks when it is out of memory: nothing is counted,
 * only the code is looked at. */
void failing_sweep_leaky(int (*call)(void), long least);

/* Returns code, after a look at the sentence: out of memory must be said, in `error` if given. */
int failing_said(int code, const tfc_error *error);

/*
 * Beside the call of a public function in the body of a sweep: test/check/sweeps.py wants each
 * function of the version map to have one, or a reason why it has none.
 */
#define SWEPT(function) ((void)(function))

#endif
