/*
 * Non-blocking writes to stdout and stderr: a terminal stopped with Ctrl-S or a pipe that nobody
 * reads must not delay the handling of Ctrl-C.
 */
#ifndef TFC_RUN_STREAM_H
#define TFC_RUN_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream {
	int fd;
	char *data; /* unwritten bytes: data[sent...len] */
	size_t sent;
	size_t len;
	size_t capacity;
	int error;         /* errno of the write that failed; 0: none */
	uint64_t moved_ns; /* when it last accepted bytes, or had none to write */
	bool is_terminal;  /* isatty */
	bool never_blocks; /* a descriptor that was reopened with O_NONBLOCK, or a file */
};

/* Nanoseconds on the monotonic clock. */
uint64_t now_ns(void);

void stream_open(struct stream *stream, int fd);

/* Queues bytes, which stream_flush writes. A failed stream drops them. */
void stream_add(struct stream *stream, const char *data, size_t len);
void stream_print(struct stream *stream, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Writes what can be written without blocking. */
void stream_flush(struct stream *stream);

/* Drops the unwritten bytes; the next bytes begin a new line. */
void stream_drop(struct stream *stream);

/* The number of unwritten bytes. */
size_t stream_pending(const struct stream *stream);

#endif
