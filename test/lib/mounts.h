/*
 * File systems that a test mounts for itself.
 */
#ifndef TEST_MOUNTS_H
#define TEST_MOUNTS_H

#include <stdbool.h>

/* The exit status of a program that cannot mount: meson counts it as skipped. */
#define MOUNTS_SKIPPED 77

/* From here on the program, and what it starts, has mounts of its own, which end with it. False,
 * said on stderr: that needs a right that it has not. */
bool mounts_are_own(void);

#endif
