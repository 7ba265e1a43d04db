#include "transport/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctx/helper.h"
#include "transport/registry.h"

#define PROGRAM "tfc-resolve"
#define DEATH_MS 1000 /* a killed program ends in far less */

struct resolve_text {
	char bytes[2048];
	size_t len;
};

struct tfc__resolve {
	struct tfc__tcp_host *host;
	tfc__resolve_fn fn;
	void *user;
	struct tfc__io io;
	struct tfc__noted_fd fd;
	pid_t pid; /* 0: reaped */
	struct resolve_text text;
};

/* ---- the helper program */

static int run_resolver(tfc_ctx *ctx, struct tfc__resolve *resolve, const char *program,
			tfc_error *error)
{
	char *const argv[] = {(char *)PROGRAM, (char *)resolve->host->name, NULL};
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return tfc__fail_errno(error, "transport", errno, "cannot create a pipe");
	fcntl(ends[0], F_SETFL, O_NONBLOCK); /* cannot fail: the pipe is our own */
	const struct tfc__helper_fd output = {ends[1], STDOUT_FILENO};
	int code = tfc__helper_run(program, argv, &output, 1, "transport", error, &resolve->pid);
	close(ends[1]);
	tfc__fd_note(ctx, &resolve->fd, ends[0]);
	return code;
}

/* The host may have reaped the program already; then there is nothing to wait for. */
static void reap_resolver(struct tfc__resolve *resolve)
{
	if (!resolve->pid)
		return;
	kill(resolve->pid, SIGKILL);
	struct pollfd end = {.events = POLLIN};
	end.fd = (int)syscall(SYS_pidfd_open, resolve->pid, 0);
	if (end.fd >= 0) {
		poll(&end, 1, DEATH_MS);
		close(end.fd);
	}
	waitpid(resolve->pid, NULL, WNOHANG);
	resolve->pid = 0;
}

/* ---- its output: one address per line, or "!" and a reason; then "." */

static int read_addresses(struct tfc__resolve *resolve, tfc_error *error)
{
	struct tfc__tcp_host *host = resolve->host;
	char *rest = resolve->text.bytes;
	for (char *line; (line = strsep(&rest, "\n")) && strcmp(line, ".") != 0;) {
		if (line[0] == '!')
			return tfc__fail(error, TFC_ENOENT, "transport", 0,
					 "cannot resolve host name \"%.80s\": %.100s", host->name,
					 line + 1);
		tfc__tcp_add(host, line);
	}
	if (host->count)
		return TFC_OK;
	return tfc__fail(error, TFC_ENOENT, "transport", 0,
			 "cannot resolve host name \"%.80s\": it has no address", host->name);
}

static void on_resolver_output(struct tfc__io *io, uint32_t events)
{
	struct tfc__resolve *resolve = tfc__container_of(io, struct tfc__resolve, io);
	struct resolve_text *text = &resolve->text;
	tfc_error error = TFC_ERROR_INIT;
	ssize_t count = read(io->fd, text->bytes + text->len, sizeof(text->bytes) - 1 - text->len);
	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	text->len += count > 0 ? (size_t)count : 0;
	const char *end = text->bytes + text->len;
	bool is_full = text->len + 1 == sizeof(text->bytes);
	bool is_complete = text->len >= 2 && memcmp(end - 2, ".\n", 2) == 0 &&
			   (text->len == 2 || end[-3] == '\n');
	if (count > 0 && !is_full && !is_complete)
		return;
	tfc__io_close(&resolve->io);
	reap_resolver(resolve);
	int code = read_addresses(resolve, &error);
	resolve->fn(resolve->user, code < 0 ? &error : NULL); /* `resolve` may be closed now */
}

/* ---- opening and closing */

int tfc__resolve_open(tfc_ctx *ctx, struct tfc__tcp_host *host, tfc__resolve_fn fn, void *user,
		      tfc_error *error, struct tfc__resolve **ret_resolve)
{
	char *program;
	int code = tfc__helper_find(ctx, PROGRAM, "transport", error, &program);
	if (code < 0)
		return code;
	struct tfc__resolve *resolve = calloc(1, sizeof(*resolve));
	if (!resolve) {
		free(program);
		return tfc__fail_nomem(error, "transport");
	}
	resolve->host = host;
	resolve->fn = fn;
	resolve->user = user;
	resolve->fd.fd = -1;
	code = run_resolver(ctx, resolve, program, error);
	free(program);
	if (code == TFC_OK) {
		code = tfc__io_open(&resolve->io, ctx, resolve->fd.fd, EPOLLIN, on_resolver_output);
		if (code < 0)
			*error = *tfc__ctx_error(ctx);
	}
	if (code < 0) {
		tfc__resolve_close(resolve);
		return code;
	}
	*ret_resolve = resolve;
	return TFC_OK;
}

void tfc__resolve_close(struct tfc__resolve *resolve)
{
	if (!resolve)
		return;
	tfc__io_close(&resolve->io);
	reap_resolver(resolve);
	tfc__fd_close(&resolve->fd);
	free(resolve);
}
