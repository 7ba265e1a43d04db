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

static int say(struct helper *helper, struct tfc__store_reply *reply, const char *key,
	       const void *data, size_t len)
{
	reply->key_size = key ? (uint32_t)strlen(key) + 1 : 0;
	reply->len = len;
	if (!helper->is_host_gone &&
	    (tfc__write_all(TFC__STORE_SOCKET, reply, sizeof(*reply)) < 0 ||
	     tfc__write_all(TFC__STORE_SOCKET, key, reply->key_size) < 0 ||
	     tfc__write_all(TFC__STORE_SOCKET, data, len) < 0))
		helper->is_host_gone = true;
	return TFC_OK;
}

static void say_done(struct helper *helper, int code, const tfc_error *error)
{
	struct tfc__store_reply reply = {.kind = TFC__STORE_DONE, .code = code};
	say(helper, &reply, NULL, error->text, code < 0 ? strlen(error->text) : 0);
}

static int say_value(void *user, const tfc_store_value *value)
{
	struct tfc__store_reply reply = {.kind = TFC__STORE_VALUE,
					 .code = value->data ? TFC_OK : TFC_EPARSE,
					 .version = value->version};
	return say(user, &reply, value->key, value->data, (size_t)value->len);
}

static void say_opened(struct helper *helper, int code, const tfc_error *error)
{
	struct tfc__store_reply reply = {.kind = TFC__STORE_OPENED,
					 .code = code,
					 .version = TFC__STORE_PROTOCOL};
	if (code < 0)
		say(helper, &reply, NULL, error->text, strlen(error->text));
	else
		say(helper, &reply, NULL, helper->disk.seal_key, TFC__STORE_SEAL_SIZE);
}

/* ---- requests */

static int get(struct helper *helper, const char *key, tfc_error *error)
{
	struct tfc__buf data = {0};
	uint64_t version;
	int code = tfc__disk_get(&helper->disk, key, &data, &version, error);
	if (code == TFC_OK)
		say_value(helper, &(tfc_store_value){.key = key,
						     .data = data.data,
						     .len = data.len,
						     .version = version});
	tfc__buf_fini(&data);
	return code;
}

static int put(struct helper *helper, const struct tfc__store_request *request, const char *key,
	       const void *data, tfc_error *error)
{
	uint64_t version;
	int code = tfc__disk_put(&helper->disk, key, data, request->len, request->version, &version,
				 error);
	if (code == TFC_OK)
		say_value(helper, &(tfc_store_value){.key = key, .data = "", .version = version});
	return code;
}

static void obey(struct helper *helper, const struct tfc__store_request *request, const char *key,
		 const void *data)
{
	tfc_error error = TFC_ERROR_INIT;
	int code = TFC_EINVAL;
	switch (request->kind) {
	case TFC__STORE_GET:
		code = get(helper, key, &error);
		break;
	case TFC__STORE_LIST:
		code = tfc__disk_list(&helper->disk, key, say_value, helper, &error);
		break;
	case TFC__STORE_PUT:
		code = put(helper, request, key, data, &error);
		break;
	case TFC__STORE_REMOVE:
		code = tfc__disk_remove(&helper->disk, key, &error);
		break;
	}
	say_done(helper, code, &error);
}

/* Performs all requests that have arrived completely. */
static void obey_all(struct helper *helper)
{
	size_t at = 0;
	while (helper->in.len - at >= sizeof(struct tfc__store_request)) {
		struct tfc__store_request request;
		const char *body = helper->in.data + at + sizeof(request);
		memcpy(&request, helper->in.data + at, sizeof(request));
		size_t size = sizeof(request) + request.key_size + request.len;
		if (helper->in.len - at < size)
			break;
		obey(helper, &request, body, body + request.key_size);
		at += size;
	}
	helper->in.len -= at;
	if (at)
		memmove(helper->in.data, helper->in.data + at, helper->in.len);
}

/* ---- the loop */

static ssize_t take(struct helper *helper, int fd, bool is_socket)
{
	char *end = tfc__buf_reserve(&helper->in, CHUNK);
	if (!end)
		_exit(1); /* the host detects the exit */
	ssize_t n = is_socket ? recv(fd, end, CHUNK, MSG_DONTWAIT) : read(fd, end, CHUNK);
	if (n > 0)
		tfc__buf_grow(&helper->in, (size_t)n);
	return n;
}

/* Performs the requests that the host sent before its end, and those that it could not send any
 * more. */
static void finish(struct helper *helper)
{
	helper->is_host_gone = true;
	while (take(helper, TFC__STORE_SOCKET, true) > 0)
		;
	lseek(TFC__STORE_REST, 0, SEEK_SET);
	while (take(helper, TFC__STORE_REST, false) > 0)
		;
	obey_all(helper);
}

static void serve(struct helper *helper)
{
	struct pollfd fds[2] = {{.fd = TFC__STORE_SOCKET, .events = POLLIN},
				{.fd = TFC__STORE_PIDFD, .events = POLLIN}};
	while (!helper->is_host_gone) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[1].revents)
			break;
		ssize_t n = take(helper, TFC__STORE_SOCKET, true);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			break;
		obey_all(helper);
	}
	finish(helper);
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
	say_opened(&helper, code, &error);
	if (code == TFC_OK)
		serve(&helper);
	tfc__disk_close(&helper.disk);
	tfc__buf_fini(&helper.in);
	return 0;
}
