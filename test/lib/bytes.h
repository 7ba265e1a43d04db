/* Bytes in a table of a test, with NULs among them. */
#ifndef TEST_BYTES_H
#define TEST_BYTES_H

#include <stddef.h>

struct bytes {
	const char *data;
	size_t len;
};

#define BYTES(text)                    \
	{                              \
		text, sizeof(text) - 1 \
	}

#endif
