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
#include "log/tail.h"
#include "proc/proc.h"
#include <tfcluster/process.h>
#include <tfcluster/spec.h>

#define PIPE_BYTES (1 << 20)
#define BACKLOG_MAX (16 << 20) /* limit for a sender that does not wait for responses */
#define LOG_NAME "log"
#define LOST_MAX 3
#define STATUS_FULL 2 /* exit status of tfc-bundle: the disk is full */

static void bundle_on_process(void *user, const tfc_process_event *event);

void tfc__archive_end_work(struct tfc__bundle *bundle)
{
	int fd = bundle->pipe.fd;
	tfc_process_close(bundle->process);
	bundle->process = NULL;
	tfc__io_close(&bundle->pipe);
	if (fd >= 0)
		close(fd);
	bundle->pipe.fd = -1;
	if (bundle->work)
		tfc__remove_tree(bundle->work);
	free(bundle->work);
	free(bundle->waiting);
	bundle->work = bundle->waiting = NULL;
	bundle->waiting_at = bundle->waiting_len = bundle->waiting_capacity = 0;
}

static void bundle_fail(struct tfc__bundle *bundle, int code, const char *why)
{
	const char *silence = code == TFC_ENOSPC ? "No space left on device"
						 : "tfc-bundle ended without a result";
	tfc__fail(&bundle->error, code, "bundle", 0, "bundle: %s", *why ? why : silence);
	bundle->state = TFC__BUNDLE_FAILED;
	tfc__archive_end_work(bundle);
	tfc__work_schedule(&bundle->report);
}

int tfc__archive_make_work(struct tfc__bundle *bundle, tfc_error *error)
{
	free(bundle->work);
	bundle->work = NULL;
	return tfc__make_private_dir(bundle->bundles->dir, WORK_PREFIX, "bundle", error,
				     &bundle->work);
}

/* Runs tfc-bundle with these arguments. */
int tfc__archive_start(struct tfc__bundle *bundle, const char *const args[5], tfc_error *error)
{
	tfc_ctx *ctx = bundle->bundles->ctx;
	char *program = tfc__path_join(tfc__ctx_helper_dir(ctx), "tfc-bundle");
	if (!program)
		return tfc__fail_nomem(error, "bundle");
	const char *const argv[] = {program, args[0], args[1], args[2], args[3], args[4], NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.grace_ms = TFC__HELPER_GRACE_MS;
	options.log_dir = bundle->work;
	options.log_name = LOG_NAME;
	int code = tfc__process_spawn(ctx, &options, NULL, bundle_on_process, bundle,
				      &bundle->process);
	if (code < 0 && error && error != tfc__ctx_error(ctx))
		*error = *tfc__ctx_error(ctx);
	free(program);
	return code;
}

int tfc__archive_pack(struct tfc__bundle *bundle, tfc_error *error)
{
	int code = tfc__archive_make_work(bundle, error);
	const char *const args[5] = {"add", bundle->from, bundle->work, bundle->bundles->dir};
	return code < 0 ? code : tfc__archive_start(bundle, args, error);
}

int tfc__archive_check(struct tfc__bundle *bundle, tfc_error *error)
{
	int code = tfc__archive_make_work(bundle, error);
	const char *const args[5] = {"check", bundle->path, bundle->hash};
	return code < 0 ? code : tfc__archive_start(bundle, args, error);
}

/*
 * After the loss of the process (its guard died), or because the archive in the cache is damaged.
 */
static void bundle_restart_work(struct tfc__bundle *bundle, bool is_damaged)
{
	int code = TFC_OK;
	tfc__archive_end_work(bundle);
	if (is_damaged) {
		unlink(bundle->path);
		free(bundle->path);
		bundle->path = NULL;
		bundle->state = TFC__BUNDLE_RECEIVING;
	}
	if (is_damaged && bundle->is_kept) {
		bundle_fail(bundle, TFC_EARCHIVE,
			    "damaged in the cache of the job's node; submit the job again");
		return;
	}
	if (bundle->state == TFC__BUNDLE_RECEIVING) {
		bundle->received = 0; /* the response to the next chunk has this number */
		tfc__work_schedule(&bundle->report);
		return;
	}
	code = bundle->state == TFC__BUNDLE_PACKING ? tfc__archive_pack(bundle, &bundle->error)
						    : tfc__archive_check(bundle, &bundle->error);
	if (code < 0)
		bundle_fail(bundle, code, bundle->error.text);
}

static void bundle_on_process(void *user, const tfc_process_event *event)
{
	struct tfc__bundle *bundle = user;
	struct stat status;
	char line[256], **lines = NULL;
	if (event->kind != TFC_PROCESS_EXITED)
		return;
	bool has_succeeded = event->reason == TFC_EXIT_CODE && event->status == 0;
	bool is_full = event->reason == TFC_EXIT_CODE && event->status == STATUS_FULL;
	if (event->reason == TFC_EXIT_LOST && ++bundle->lost < LOST_MAX) {
		bundle_restart_work(bundle, false);
		return;
	}
	/* The last line of its output: what is wrong, or the hash. */
	int code = tfc__log_tail(bundle->work, LOG_NAME, 0, 0, 1, &lines);
	snprintf(line, sizeof(line), "%s", code >= 0 && lines[0] ? lines[0] : event->text);
	if (code >= 0)
		tfc_strv_free(lines);
	if (!has_succeeded && bundle->state == TFC__BUNDLE_CHECKING) {
		bundle_restart_work(bundle, true);
		return;
	}
	if (!has_succeeded) {
		bundle_fail(bundle, is_full ? TFC_ENOSPC : TFC_EARCHIVE, line);
		return;
	}

	if (code < 0 && bundle->state == TFC__BUNDLE_PACKING) {
		snprintf(line, sizeof(line), "cannot read the output of tfc-bundle: %s",
			 tfc_err_text(code));
		bundle_fail(bundle, code, line);
		return;
	}
	if (bundle->state == TFC__BUNDLE_PACKING)
		snprintf(bundle->hash, sizeof(bundle->hash), "%.64s", line);
	if (!bundle->path)
		bundle->path = tfc__archive_path(bundle->bundles, bundle->hash);
	if (!bundle->path || stat(bundle->path, &status) < 0) {
		bundle_fail(bundle, TFC_EARCHIVE,
			    bundle->path ? "no longer in the cache" : "out of memory");
		return;
	}
	bundle->size = (uint64_t)status.st_size;
	bundle->state = TFC__BUNDLE_READY;
	tfc__archive_end_work(bundle);
	tfc__work_schedule(&bundle->report);
	tfc__archives_trim(bundle->bundles);
}

/* ---- received bytes */

/* Bytes that the pipe does not accept now stay in the backlog; writing never blocks. */
static void bundle_write_backlog(struct tfc__bundle *bundle)
{
	size_t before = tfc__bundle_backlog(bundle);
	while (bundle->waiting_at < bundle->waiting_len) {
		ssize_t n = write(bundle->pipe.fd, bundle->waiting + bundle->waiting_at,
				  bundle->waiting_len - bundle->waiting_at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* full, or the process has ended, which is reported */
		bundle->waiting_at += (size_t)n;
	}
	if (bundle->waiting_at == bundle->waiting_len)
		bundle->waiting_at = bundle->waiting_len = 0;
	tfc__io_set(&bundle->pipe, bundle->waiting_len ? EPOLLOUT : 0);
	if (before != tfc__bundle_backlog(bundle))
		tfc__work_schedule(&bundle->report);
}

static void bundle_on_pipe(struct tfc__io *io, uint32_t events)
{
	bundle_write_backlog(tfc__container_of(io, struct tfc__bundle, pipe));
}

/*
 * The process inherits no descriptors, so it opens a named pipe. The pipe is opened here for
 * reading and writing, so that neither side waits for the other. The process knows the number of
 * bytes.
 */
static int bundle_start_receiving(struct tfc__bundle *bundle, tfc_error *error)
{
	char size[24];
	int code = tfc__archive_make_work(bundle, error);
	char *fifo = code == TFC_OK ? tfc__path_join(bundle->work, "pipe") : NULL;
	if (!fifo)
		return code < 0 ? code : tfc__fail_nomem(error, "bundle");
	if (mkfifo(fifo, 0600) == 0)
		bundle->pipe.fd = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (bundle->pipe.fd < 0)
		code = tfc__fail_errno(error, "bundle", errno, "cannot create \"%.200s\"", fifo);
	free(fifo);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)bundle->size);
	const char *const args[5] = {"receive", bundle->work, bundle->bundles->dir, bundle->hash,
				     size};
	if (code == TFC_OK) {
		fcntl(bundle->pipe.fd, F_SETPIPE_SZ, PIPE_BYTES);
		code = tfc__io_open(&bundle->pipe, bundle->bundles->ctx, bundle->pipe.fd, 0,
				    bundle_on_pipe);
	}
	if (code == TFC_OK)
		code = tfc__archive_start(bundle, args, error);
	if (code < 0)
		tfc__archive_end_work(bundle);
	return code;
}

int tfc__bundle_write(struct tfc__bundle *bundle, uint64_t at, const void *data, size_t len,
		      tfc_error *error)
{
	if (bundle->state != TFC__BUNDLE_RECEIVING || at != bundle->received ||
	    len > bundle->size - at || tfc__bundle_backlog(bundle) > BACKLOG_MAX)
		return tfc__fail(error, TFC_ESTATE, "bundle", 0, "unexpected part of a bundle");
	int code = bundle->process ? TFC_OK : bundle_start_receiving(bundle, error);
	if (code < 0)
		return code;
	if (len && bundle->waiting_at) { /* discards what the pipe has accepted */
		bundle->waiting_len -= bundle->waiting_at;
		memmove(bundle->waiting, bundle->waiting + bundle->waiting_at, bundle->waiting_len);
		bundle->waiting_at = 0;
	}
	if (bundle->waiting_len + len > bundle->waiting_capacity) {
		size_t capacity = bundle->waiting_len + len;
		char *grown = realloc(bundle->waiting, capacity);
		if (!grown)
			return tfc__fail_nomem(error, "bundle");
		bundle->waiting = grown;
		bundle->waiting_capacity = capacity;
	}
	if (len)
		memcpy(bundle->waiting + bundle->waiting_len, data, len);
	bundle->waiting_len += len;
	bundle->received += len;
	bundle_write_backlog(bundle);
	return TFC_OK;
}

size_t tfc__bundle_backlog(const struct tfc__bundle *bundle)
{
	return bundle->waiting_len - bundle->waiting_at;
}
