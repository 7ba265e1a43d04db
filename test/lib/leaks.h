/*
 * What a test may not leave behind: descriptors, threads, processes, temporary files. Every test
 * that links cmocka in this build is counted before and after, without a word in its source: the
 * linker puts leaks.c in the place of cmocka's group runner (test/meson.build).
 *
 * Processes are the test's descendants and, where TFC_TEST_TASK is set, everything that runs a
 * helper program or the test program of this build, so that one whose parent died counts, too.
 */
#ifndef TFC_TEST_LEAKS_H
#define TFC_TEST_LEAKS_H

/*
 * A directory of this test program's own, made at the first call and removed at its end: whatever a
 * test puts there must be gone when the test ends. It is in TMPDIR, or in /tmp where that is not
 * set or too long for a socket's path. Borrowed.
 */
const char *leaks_temp_dir(void);

/* A fresh directory in it, as mkdtemp(3) makes one. */
#define LEAKS_PATH 64
void leaks_make_dir(char ret_path[LEAKS_PATH]);

#endif
