/*
 * Writing to stdout and stderr without ever waiting there: a terminal stopped with Ctrl-S or a pipe
 * that nobody reads must not keep Ctrl-C from being heard.
 */
#ifndef TFC_RUN_STREAM_H
#define TFC_RUN_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream {
	int fd;
	char *data; /* what is still to be written: data[sent...len] */
	size_t sent;
	size_t len;
	size_t capacity;
	int error;         /* errno that ended it; 0: it is well */
	uint64_t moved_ns; /* when it last took bytes, or had none to take */
	bool is_terminal;  /* shown to somebody */
	bool never_blocks; /* the descriptor is our own, or a file */
};

/* Nanoseconds on the monotonic clock. */
uint64_t now_ns(void);

void stream_open(struct stream *stream, int fd);

/* Adds bytes; they are written by stream_flush. A stream that has ended drops them. */
void stream_add(struct stream *stream, const char *data, size_t len);
void stream_print(struct stream *stream, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Writes what can be written at once. */
void stream_flush(struct stream *stream);

/* Forgets what was not written; the next bytes begin a new line. */
void stream_drop(struct stream *stream);

/* Bytes that are still to be written. */
size_t stream_pending(const struct stream *stream);

#endif
