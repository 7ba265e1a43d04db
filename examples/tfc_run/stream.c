#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tfc_run.h"

uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void stream_open(struct stream *stream, int fd)
{
	struct stat stat;
	char path[32];
	*stream = (struct stream){.fd = fd, .is_terminal = isatty(fd), .moved_ns = now_ns()};
	if (fstat(fd, &stat) < 0)
		return;
	stream->never_blocks = S_ISREG(stat.st_mode);
	if (!S_ISFIFO(stat.st_mode) && !stream->is_terminal)
		return;
	/* O_NONBLOCK is a property of the open file description, which this process shares with
	 * others such as the shell. Reopening the file gives it its own. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own < 0)
		return;
	stream->fd = own;
	stream->never_blocks = true;
}

size_t stream_pending(const struct stream *stream)
{
	return stream->len - stream->sent;
}

void stream_drop(struct stream *stream)
{
	stream->sent = stream->len = 0;
}

void stream_add(struct stream *stream, const char *data, size_t len)
{
	if (stream->error || len == 0)
		return;
	if (stream->sent == stream->len) {
		stream->sent = stream->len = 0;
		stream->moved_ns = now_ns();
	}
	if (stream->len + len > stream->capacity) {
		size_t capacity = stream->capacity * 2 + len + 4096;
		char *more = realloc(stream->data, capacity);
		if (!more)
			die_without_memory();
		stream->data = more;
		stream->capacity = capacity;
	}
	memcpy(stream->data + stream->len, data, len);
	stream->len += len;
}

void stream_print(struct stream *stream, const char *format, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0)
		die_without_memory();
	stream_add(stream, text, (size_t)len);
	free(text);
}

/* How many bytes a write accepts without blocking, as far as can be known. */
static size_t stream_writable_bytes(const struct stream *stream)
{
	struct pollfd poll_fd = {.fd = stream->fd, .events = POLLOUT};
	size_t pending = stream_pending(stream);
	if (stream->never_blocks)
		return pending;
	if (poll(&poll_fd, 1, 0) <= 0)
		return 0;
	return pending < PIPE_BUF ? pending : PIPE_BUF;
}

void stream_flush(struct stream *stream)
{
	size_t len;
	while (!stream->error && (len = stream_writable_bytes(stream)) > 0) {
		ssize_t n = write(stream->fd, stream->data + stream->sent, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			stream->error = errno;
			stream->sent = stream->len = 0;
			return;
		}
		stream->sent += (size_t)n;
		stream->moved_ns = now_ns();
	}
}
