/* The store in a directory: sends requests to the helper process and receives its replies. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "ctx/helper.h"
#include "store/internal.h"
#include "store/protocol.h"

#define PROGRAM "tfc-store"
#define OPEN_WAIT_MS 10000
#define CLOSE_WAIT_MS 5000
#define LOST_WAIT_MS 1000 /* the socket is closed: the helper is about to exit */
#define CHUNK (128u << 10)

struct local_store {
	tfc_ctx *ctx;
	char *path;
	struct tfc__io io;           /* of the socket */
	struct tfc__noted_fd socket; /* none: no helper is running */
	struct tfc__noted_fd pidfd;
	struct tfc__noted_fd unsent; /* memfd for the requests that are unsent on close */
	pid_t pid;
	bool is_open; /* the helper has reported success */
	struct tfc__buf out;
	size_t sent;        /* bytes of `out` that are sent */
	struct tfc__buf in; /* replies to the current request */
	uint32_t values;    /* number of values in `in` */
	size_t scanned;     /* bytes of `in` that are complete replies */
	tfc_store_done done;
	void *request;
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
};

/* ---- the helper process */

/* The helper closes all descriptors that are not its own. */
static int local_store_run_helper(struct local_store *local, const char *program, int socket,
				  tfc_error *error)
{
	char owner[16];
	snprintf(owner, sizeof(owner), "%d", (int)getpid());
	char *const argv[] = {(char *)PROGRAM, local->path, owner, NULL};
	int pidfd = -1, unsent = -1;
	int code = tfc__helper_open_pidfd(getpid(), program, "store", error, &pidfd);
	if (code == TFC_OK && (unsent = memfd_create(PROGRAM, MFD_CLOEXEC)) < 0)
		code = tfc__fail_errno(error, "store", errno, "cannot start \"%s\"", program);
	if (code == TFC_OK) {
		const struct tfc__helper_fd fds[] = {{socket, TFC__STORE_SOCKET},
						     {pidfd, TFC__STORE_PIDFD},
						     {unsent, TFC__STORE_UNSENT}};
		code = tfc__helper_run(program, argv, fds, 3, "store", error, &local->pid);
	}
	if (pidfd >= 0)
		close(pidfd);
	if (unsent >= 0)
		tfc__fd_note(local->ctx, &local->unsent, unsent);
	if (code < 0)
		return code;
	code = tfc__helper_open_pidfd(local->pid, program, "store", error, &pidfd);
	if (code < 0) {
		kill(local->pid, SIGKILL);
		waitpid(local->pid, NULL, 0);
		return code;
	}
	tfc__fd_note(local->ctx, &local->pidfd, pidfd);
	return TFC_OK;
}

/* Closes the helper's descriptors and waits up to wait_ms milliseconds for its end. The socket is
 * shut down, because a forked child of the host may have a copy that keeps it open. */
static void local_store_end_helper(struct local_store *local, int wait_ms)
{
	tfc__io_close(&local->io);
	if (local->socket.fd >= 0)
		shutdown(local->socket.fd, SHUT_RDWR);
	tfc__fd_close(&local->socket);
	tfc__fd_close(&local->unsent);
	if (local->pidfd.fd >= 0) {
		siginfo_t info;
		struct pollfd end = {.fd = local->pidfd.fd, .events = POLLIN};
		while (poll(&end, 1, wait_ms) < 0 && errno == EINTR)
			;
		waitid((idtype_t)P_PIDFD, (id_t)local->pidfd.fd, &info, WEXITED | WNOHANG);
		tfc__fd_close(&local->pidfd);
	}
	local->is_open = false;
	tfc__buf_clear(&local->in);
	tfc__buf_clear(&local->out);
	local->scanned = local->sent = 0;
	local->values = 0;
}

/* ---- the end of a request, the loss of the helper */

static void local_store_complete(struct local_store *local, int code, const tfc_store_value *values,
				 uint32_t count, const char *text)
{
	tfc_store_done done = local->done;
	local->done = NULL;
	if (done) /* may close the store */
		done(local->request, code, values, count, text);
}

/* Handles the loss of the helper. The next request starts a new one. */
static void local_store_fail(struct local_store *local, int code, const char *text)
{
	tfc__log(local->ctx, TFC_LOG_ERROR, "store", "", "%s: %s", local->path, text);
	local_store_end_helper(local, LOST_WAIT_MS);
	local_store_complete(local, code, NULL, 0, text);
}

/* ---- replies */

/* Returns the size of the reply at `at` if it is complete, or 0. */
static size_t store_reply_size(const struct tfc__buf *in, size_t at, struct tfc__store_reply *reply)
{
	if (in->len - at < sizeof(*reply))
		return 0;
	memcpy(reply, in->data + at, sizeof(*reply));
	size_t size = sizeof(*reply) + reply->key_size + reply->len;
	return in->len - at < size ? 0 : size;
}

static void local_store_end_request(struct local_store *local, const struct tfc__store_reply *last,
				    const char *text)
{
	uint32_t count = local->values;
	struct tfc__buf in = local->in;
	tfc_error error = TFC_ERROR_INIT;
	tfc_store_value *values = calloc(count ? count : 1, sizeof(*values));
	tfc__fail(&error, last->code, "store", 0, "%.*s", (int)last->len, text);
	size_t at = 0;
	for (uint32_t i = 0; values && i < count; i++) {
		struct tfc__store_reply reply = {0};
		size_t size = store_reply_size(&in, at, &reply);
		const char *key = in.data + at + sizeof(reply);
		values[i] = (tfc_store_value){
			.size = sizeof(values[i]),
			.key = key,
			.data = reply.code == TFC_OK ? key + reply.key_size : NULL,
			.len = reply.len,
			.version = reply.version,
		};
		at += size;
	}
	local->in = (struct tfc__buf){0};
	local->values = 0;
	local->scanned = 0;
	if (values)
		local_store_complete(local, last->code, values, count, error.text);
	else
		local_store_complete(local, TFC_ENOMEM, NULL, 0, NULL);
	free(values);
	tfc__buf_fini(&in);
}

/* Handles the first reply in the buffer; later replies stay there. */
static int local_store_handle_opened(struct local_store *local,
				     const struct tfc__store_reply *reply, tfc_error *error)
{
	const char *body = local->in.data + sizeof(*reply);
	if (reply->version != TFC__STORE_PROTOCOL)
		return tfc__fail(error, TFC_ENOTSUP, "store", 0,
				 "the helper program tfc-store has another version than this "
				 "library; install both together");
	if (reply->code < 0)
		return tfc__fail(error, reply->code, "store", 0, "%.*s", (int)reply->len, body);
	memcpy(local->seal_key, body, TFC__STORE_SEAL_SIZE);
	local->in.len -= sizeof(*reply) + reply->len;
	memmove(local->in.data, body + reply->len, local->in.len);
	local->scanned = 0;
	local->is_open = true;
	return TFC_OK;
}

/* Reads the available bytes. Returns 1, 0 at the end of the stream, or -1 when nothing is
 * available. */
static int local_store_receive(struct local_store *local)
{
	char *end = tfc__buf_reserve(&local->in, CHUNK);
	ssize_t n = end ? recv(local->socket.fd, end, CHUNK, MSG_DONTWAIT) : 0;
	if (n > 0)
		tfc__buf_grow(&local->in, (size_t)n);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -1;
	return n > 0;
}

/* Handles the received replies. The last reply of a request is the last data in the buffer, because
 * the next request is sent only after it. */
static void local_store_handle_replies(struct local_store *local)
{
	struct tfc__store_reply reply = {0};
	tfc_error error = TFC_ERROR_INIT;
	size_t size;
	while ((size = store_reply_size(&local->in, local->scanned, &reply))) {
		const char *body = local->in.data + local->scanned + sizeof(reply);
		local->scanned += size;
		if (reply.kind == TFC__STORE_VALUE) {
			local->values++;
		} else if (reply.kind == TFC__STORE_DONE) {
			local_store_end_request(local, &reply, body);
			return;
		} else if (local_store_handle_opened(local, &reply, &error) < 0) {
			local_store_fail(local, error.code, error.text);
			return;
		}
	}
}

static void local_store_flush(struct local_store *local)
{
	struct tfc__buf *out = &local->out;
	ssize_t n = send(local->socket.fd, out->data + local->sent, out->len - local->sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return; /* reading reports the error as well */
	local->sent += n > 0 ? (size_t)n : 0;
	if (local->sent == out->len) {
		tfc__buf_clear(out);
		local->sent = 0;
	}
	tfc__io_set(&local->io, out->len ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void local_store_on_socket(struct tfc__io *io, uint32_t events)
{
	struct local_store *local = tfc__container_of(io, struct local_store, io);
	if ((events & EPOLLOUT) && local->out.len)
		local_store_flush(local);
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	int got = local_store_receive(local);
	if (got > 0)
		local_store_handle_replies(local);
	else if (got == 0 && local->in.is_failed)
		local_store_fail(
			local, TFC_ENOMEM,
			"out of memory; whether the helper process wrote the record is unknown");
	else if (got == 0)
		local_store_fail(
			local, TFC_ELOST,
			"the store's helper process ended; whether it wrote the record is unknown");
}

/* ---- requests */

/* Starts a helper if none is running. It reports the result of opening on its socket. */
static int local_store_ensure_helper(struct local_store *local, tfc_error *error)
{
	char *program = NULL;
	int ends[2];
	if (local->socket.fd >= 0)
		return TFC_OK;
	int code = tfc__helper_find(local->ctx, PROGRAM, "store", error, &program);
	if (code < 0)
		return code;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		code = tfc__fail_errno(error, "store", errno, "cannot start \"%s\"", program);
		free(program);
		return code;
	}
	fcntl(ends[0], F_SETFL, O_NONBLOCK); /* cannot fail on a valid socket */
	tfc__fd_note(local->ctx, &local->socket, ends[0]);
	code = local_store_run_helper(local, program, ends[1], error);
	free(program);
	close(ends[1]);
	if (code < 0) {
		local_store_end_helper(local, 0);
		return code;
	}
	code = tfc__io_open(&local->io, local->ctx, ends[0], EPOLLIN, local_store_on_socket);
	if (code < 0) {
		*error = *tfc__ctx_error(local->ctx);
		local_store_end_helper(local, 0);
	}
	return code;
}

static void local_store_send_request(struct local_store *local, enum tfc__store_request_kind kind,
				     const char *key, const void *data, uint64_t len,
				     uint64_t version, tfc_store_done done, void *request)
{
	const struct tfc__store_request head = {.kind = kind,
						.key_size = (uint32_t)strlen(key) + 1,
						.len = len,
						.version = version};
	tfc_error error = TFC_ERROR_INIT;
	int code = local_store_ensure_helper(local, &error);
	size_t before = local->out.len;
	if (code == TFC_OK) {
		tfc__buf_add(&local->out, &head, sizeof(head));
		tfc__buf_add(&local->out, key, head.key_size);
		tfc__buf_add(&local->out, data, len);
		if (local->out.is_failed) {
			local->out.is_failed = false;
			local->out.len = before;
			code = tfc__fail_nomem(&error, "store");
		}
	}
	if (code < 0) {
		done(request, code, NULL, 0, error.text);
		return;
	}
	local->done = done;
	local->request = request;
	local_store_flush(local);
}

static void local_store_get(void *impl, const char *key, tfc_store_done done, void *request)
{
	local_store_send_request(impl, TFC__STORE_GET, key, NULL, 0, 0, done, request);
}

static void local_store_list(void *impl, const char *prefix, tfc_store_done done, void *request)
{
	local_store_send_request(impl, TFC__STORE_LIST, prefix, NULL, 0, 0, done, request);
}

static void local_store_put(void *impl, const char *key, const void *data, uint64_t len,
			    uint64_t version, tfc_store_done done, void *request)
{
	local_store_send_request(impl, TFC__STORE_PUT, key, data, len, version, done, request);
}

static void local_store_remove(void *impl, const char *key, tfc_store_done done, void *request)
{
	local_store_send_request(impl, TFC__STORE_REMOVE, key, NULL, 0, 0, done, request);
}

static int local_store_wait(void *backend, int timeout_ms)
{
	struct local_store *local = backend;
	uint64_t until = tfc__now() + (uint64_t)timeout_ms * TFC__MS;
	while (local->done) {
		struct pollfd socket = {.fd = local->socket.fd,
					.events = local->out.len ? POLLIN | POLLOUT : POLLIN};
		uint64_t now = tfc__now();
		if (now >= until)
			return TFC_ETIMEDOUT;
		if (poll(&socket, 1, (int)((until - now) / TFC__MS) + 1) > 0)
			local_store_on_socket(&local->io, (uint32_t)socket.revents);
	}
	return TFC_OK;
}

/* ---- opening and closing */

static void local_store_close(void *impl)
{
	struct local_store *local = impl;
	if (local->out.len && local->unsent.fd >= 0)
		tfc__write_all(local->unsent.fd, local->out.data + local->sent,
			       local->out.len - local->sent);
	local_store_end_helper(local, CLOSE_WAIT_MS);
	tfc__buf_fini(&local->in);
	tfc__buf_fini(&local->out);
	sodium_memzero(local->seal_key, sizeof(local->seal_key));
	free(local->path);
	free(local);
}

/* Blocks until the first reply is received; called outside of dispatch. */
static int local_store_await_opened(struct local_store *local, tfc_error *error)
{
	uint64_t until = tfc__now() + OPEN_WAIT_MS * TFC__MS;
	struct pollfd socket = {.fd = local->socket.fd, .events = POLLIN};
	struct tfc__store_reply reply = {0};
	while (!store_reply_size(&local->in, 0, &reply)) {
		uint64_t now = tfc__now();
		if (now >= until)
			return tfc__fail(
				error, TFC_ETIMEDOUT, "store", 0,
				"cannot open state directory \"%s\": the disk does not respond",
				local->path);
		poll(&socket, 1, (int)((until - now) / TFC__MS) + 1);
		int got = local_store_receive(local);
		if (local->in.is_failed)
			return tfc__fail_nomem(error, "store");
		if (got == 0)
			return tfc__fail(error, TFC_ELOST, "store", 0,
					 "the store's helper process ended at startup");
	}
	return local_store_handle_opened(local, &reply, error);
}

int tfc__store_open_local(tfc_ctx *ctx, const char *path, tfc_error *error,
			  struct tfc__store **ret_store)
{
	static const tfc_store_ops ops = {
		.size = sizeof(ops),
		.get = local_store_get,
		.list = local_store_list,
		.put = local_store_put,
		.remove = local_store_remove,
		.close = local_store_close,
	};
	struct local_store *local = calloc(1, sizeof(*local));
	if (!local)
		return tfc__fail_nomem(error, "store");
	local->ctx = ctx;
	local->socket.fd = local->pidfd.fd = local->unsent.fd = -1;
	local->path = strdup(path);
	int code = local->path ? local_store_ensure_helper(local, error)
			       : tfc__fail_nomem(error, "store");
	if (code == TFC_OK)
		code = local_store_await_opened(local, error);
	if (code < 0) {
		local_store_close(local);
		return code;
	}
	const struct tfc__store_kind kind = {.seal_key = local->seal_key, .wait = local_store_wait};
	return tfc__store_open(ctx, &ops, local, &kind, error, ret_store);
}
