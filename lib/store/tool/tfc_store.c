/*
 * tfc-store: performs the file operations of a state directory for one host, so that no loop waits
 * for a disk. It performs one request after the other and ends when the host closes the socket or
 * dies. Requests that have arrived completely by then are still performed.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "store/disk.h"
#include "store/protocol.h"

#define CHUNK (256u << 10)

struct helper {
	struct tfc__disk disk;
	struct tfc__buf in;
	bool is_host_gone;
};

/* ---- replies; when the host is gone they are not sent, but its requests are still performed */

static int helper_reply(struct helper *helper, struct tfc__store_reply *head, const char *key,
			const void *data, size_t len)
{
	head->key_size = key ? (uint32_t)strlen(key) + 1 : 0;
	head->len = len;
	if (!helper->is_host_gone && (tfc__write_all(TFC__STORE_SOCKET, head, sizeof(*head)) < 0 ||
				      tfc__write_all(TFC__STORE_SOCKET, key, head->key_size) < 0 ||
				      tfc__write_all(TFC__STORE_SOCKET, data, len) < 0))
		helper->is_host_gone = true;
	return TFC_OK;
}

static int helper_reply_value(void *user, const tfc_store_value *value)
{
	struct tfc__store_reply head = {.kind = TFC__STORE_VALUE,
					.code = value->data ? TFC_OK : TFC_EPARSE,
					.version = value->version};
	return helper_reply(user, &head, value->key, value->data, (size_t)value->len);
}

static void helper_reply_opened(struct helper *helper, int code, const tfc_error *error)
{
	struct tfc__store_reply head = {.kind = TFC__STORE_OPENED,
					.code = code,
					.version = TFC__STORE_PROTOCOL};
	if (code < 0)
		helper_reply(helper, &head, NULL, error->text, strlen(error->text));
	else
		helper_reply(helper, &head, NULL, helper->disk.seal_key, TFC__STORE_SEAL_SIZE);
}

/* ---- requests */

static int helper_perform_get(struct helper *helper, const char *key, tfc_error *error)
{
	struct tfc__buf data = {0};
	uint64_t version;
	int code = tfc__disk_get(&helper->disk, key, &data, error, &version);
	if (code == TFC_OK)
		helper_reply_value(helper, &(tfc_store_value){.key = key,
							      .data = data.data,
							      .len = data.len,
							      .version = version});
	tfc__buf_fini(&data);
	return code;
}

static int helper_perform_put(struct helper *helper, const struct tfc__store_request *request,
			      const char *key, const void *data, tfc_error *error)
{
	uint64_t version;
	int code = tfc__disk_put(&helper->disk, key, data, request->len, request->version, error,
				 &version);
	if (code == TFC_OK)
		helper_reply_value(helper,
				   &(tfc_store_value){.key = key, .data = "", .version = version});
	return code;
}

static void helper_perform(struct helper *helper, const struct tfc__store_request *request,
			   const char *key, const void *data)
{
	tfc_error error = TFC_ERROR_INIT;
	int code = TFC_EINVAL;
	switch (request->kind) {
	case TFC__STORE_GET:
		code = helper_perform_get(helper, key, &error);
		break;
	case TFC__STORE_LIST:
		code = tfc__disk_list(&helper->disk, key, helper_reply_value, helper, &error);
		break;
	case TFC__STORE_PUT:
		code = helper_perform_put(helper, request, key, data, &error);
		break;
	case TFC__STORE_REMOVE:
		code = tfc__disk_remove(&helper->disk, key, &error);
		break;
	}
	struct tfc__store_reply done = {.kind = TFC__STORE_DONE, .code = code};
	helper_reply(helper, &done, NULL, error.text, code < 0 ? strlen(error.text) : 0);
}

/* Performs all requests that have arrived completely. */
static void helper_perform_all(struct helper *helper)
{
	size_t at = 0;
	while (helper->in.len - at >= sizeof(struct tfc__store_request)) {
		struct tfc__store_request request;
		const char *body = helper->in.data + at + sizeof(request);
		memcpy(&request, helper->in.data + at, sizeof(request));
		size_t size = sizeof(request) + request.key_size + request.len;
		if (helper->in.len - at < size)
			break;
		helper_perform(helper, &request, body, body + request.key_size);
		at += size;
	}
	helper->in.len -= at;
	if (at)
		memmove(helper->in.data, helper->in.data + at, helper->in.len);
}

/* ---- the loop */

static ssize_t helper_receive_requests(struct helper *helper, int fd, bool is_socket)
{
	char *end = tfc__buf_reserve(&helper->in, CHUNK);
	if (!end)
		_exit(1); /* the host detects the exit */
	ssize_t n = is_socket ? recv(fd, end, CHUNK, MSG_DONTWAIT) : read(fd, end, CHUNK);
	if (n > 0)
		tfc__buf_grow(&helper->in, (size_t)n);
	return n;
}

/* Serves the host until its end. Then performs the requests that it sent before, and those that it
 * could not send any more. */
static void helper_serve(struct helper *helper)
{
	struct pollfd fds[2] = {{.fd = TFC__STORE_SOCKET, .events = POLLIN},
				{.fd = TFC__STORE_PIDFD, .events = POLLIN}};
	while (!helper->is_host_gone) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents)
			break;
		ssize_t n = helper_receive_requests(helper, TFC__STORE_SOCKET, true);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			break;
		helper_perform_all(helper);
	}
	helper->is_host_gone = true;
	while (helper_receive_requests(helper, TFC__STORE_SOCKET, true) > 0)
		;
	lseek(TFC__STORE_UNSENT, 0, SEEK_SET);
	while (helper_receive_requests(helper, TFC__STORE_UNSENT, false) > 0)
		;
	helper_perform_all(helper);
}

int main(int argc, char **argv)
{
	struct helper helper = {0};
	tfc_error error = TFC_ERROR_INIT;
	if (argc != 3 || sodium_init() < 0)
		return 1;
	syscall(SYS_close_range, TFC__STORE_RESERVED, ~0u, 0);
	/* A stopped helper is continued when the host dies, so that it exits and releases its
	 * lock. */
	prctl(PR_SET_PDEATHSIG, SIGCONT);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	int code = tfc__disk_open(&helper.disk, argv[1], (pid_t)strtol(argv[2], NULL, 10),
				  &tfc__disk_calls, &error);
	helper_reply_opened(&helper, code, &error);
	if (code == TFC_OK)
		helper_serve(&helper);
	tfc__disk_close(&helper.disk);
	tfc__buf_fini(&helper.in);
	/* A SIGCONT discards the SIGSTOP with which a leak checker stops the process at its exit:
	 * both would wait forever. */
	prctl(PR_SET_PDEATHSIG, 0);
	return 0;
}
