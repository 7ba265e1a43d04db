/* The names of queues, producers and tasks. */
#ifndef TFC_FEED_NAMES_H
#define TFC_FEED_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define TFC__FEED_NAME_SIZE 64
#define TFC__FEED_TASK_SIZE 128
#define TFC__FEED_WINDOW (UINT64_C(16) << 20)
#define TFC__FEED_CHUNK (UINT64_C(1) << 20)
#define TFC__FEED_WINDOW_MIN 4096
#define TFC__FEED_WINDOW_MAX (UINT64_C(1) << 40)

static inline bool tfc__feed_is_name(const char *name)
{
	size_t len = strlen(name);
	return len && len < TFC__FEED_NAME_SIZE &&
	       len == strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				   "0123456789._-");
}

#endif
