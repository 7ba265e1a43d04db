#include "bundle/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"

#define PIPE_BYTES (1 << 20)
#define BACKLOG_MAX (16 << 20) /* of one that sends on without a look at the answers */

/* What the pipe does not take now waits; it never blocks. */
static void push(struct tfc__bundle *bundle)
{
	size_t before = tfc__bundle_backlog(bundle);
	while (bundle->waiting_at < bundle->waiting_len) {
		ssize_t n = write(bundle->pipe.fd, bundle->waiting + bundle->waiting_at,
				  bundle->waiting_len - bundle->waiting_at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* full; or its process is gone, which is told */
		bundle->waiting_at += (size_t)n;
	}
	if (bundle->waiting_at == bundle->waiting_len)
		bundle->waiting_at = bundle->waiting_len = 0;
	tfc__io_set(&bundle->pipe, bundle->waiting_len ? EPOLLOUT : 0);
	if (before != tfc__bundle_backlog(bundle))
		tfc__work_schedule(&bundle->tell);
}

static void on_pipe(struct tfc__io *io, uint32_t events)
{
	push(tfc__container_of(io, struct tfc__bundle, pipe));
}

/* The pipe has a name, since a process is given no descriptor; both ends are opened here, so that
 * neither side waits for the other. The process knows how many bytes there are. */
static int start_receiving(struct tfc__bundle *bundle, tfc_error *error)
{
	char size[24];
	int code = tfc__archive_make_work(bundle, error);
	char *fifo = code == TFC_OK ? tfc__path_join(bundle->work, "pipe") : NULL;
	if (!fifo)
		return code < 0 ? code : tfc__fail_nomem(error, "bundle");
	if (mkfifo(fifo, 0600) == 0)
		bundle->pipe.fd = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (bundle->pipe.fd < 0)
		code = tfc__fail_errno(error, "bundle", errno, "cannot make %.200s", fifo);
	free(fifo);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)bundle->size);
	const char *const words[5] = {"receive", bundle->work, bundle->bundles->dir, bundle->hash,
				      size};
	if (code == TFC_OK) {
		fcntl(bundle->pipe.fd, F_SETPIPE_SZ, PIPE_BYTES);
		code = tfc__io_open(&bundle->pipe, bundle->bundles->ctx, bundle->pipe.fd, 0,
				    on_pipe);
	}
	if (code == TFC_OK)
		code = tfc__archive_start(bundle, words, error);
	if (code < 0)
		tfc__archive_end_work(bundle);
	return code;
}

static int keep(struct tfc__bundle *bundle, const void *data, size_t len)
{
	if (!len)
		return TFC_OK;
	if (bundle->waiting_at) { /* what the pipe has taken makes room */
		bundle->waiting_len -= bundle->waiting_at;
		memmove(bundle->waiting, bundle->waiting + bundle->waiting_at, bundle->waiting_len);
		bundle->waiting_at = 0;
	}
	if (bundle->waiting_len + len > bundle->waiting_capacity) {
		size_t capacity = bundle->waiting_len + len;
		char *grown = realloc(bundle->waiting, capacity);
		if (!grown)
			return TFC_ENOMEM;
		bundle->waiting = grown;
		bundle->waiting_capacity = capacity;
	}
	memcpy(bundle->waiting + bundle->waiting_len, data, len);
	bundle->waiting_len += len;
	return TFC_OK;
}

int tfc__bundle_write(struct tfc__bundle *bundle, uint64_t at, const void *data, size_t len,
		      tfc_error *error)
{
	if (bundle->state != TFC__BUNDLE_RECEIVING || at != bundle->received ||
	    len > bundle->size - at || tfc__bundle_backlog(bundle) > BACKLOG_MAX)
		return tfc__fail(error, TFC_ESTATE, "bundle", 0, "these bytes are not wanted now");
	int code = bundle->process ? TFC_OK : start_receiving(bundle, error);
	if (code == TFC_OK && keep(bundle, data, len) < 0)
		code = tfc__fail_nomem(error, "bundle");
	if (code < 0)
		return code;
	bundle->received += len;
	push(bundle);
	return TFC_OK;
}

size_t tfc__bundle_backlog(const struct tfc__bundle *bundle)
{
	return bundle->waiting_len - bundle->waiting_at;
}
