#include "gateway/bundle_send.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"

#define PIECE (256 * 1024)
#define PIECES 4
#define TIMEOUT_MS 60000 /* for a piece, and for the last one to be checked there */

struct piece {
	struct tfc__bundle_send *send;
	struct tfc__rpc_call *call; /* NULL: it is free */
};

struct tfc__bundle_send {
	struct tfc__bundle_send_options options;
	struct tfc__bundle *bundle; /* used */
	int fd;
	uint64_t at;   /* of the next piece */
	bool is_reset; /* pieces were not wanted: it goes on at reset_to, once all are answered */
	uint64_t reset_to;
	uint32_t out;
	struct piece pieces[PIECES];
};

void tfc__bundle_send_close(struct tfc__bundle_send *send)
{
	if (!send)
		return;
	for (int i = 0; i < PIECES; i++)
		if (send->pieces[i].call)
			tfc__rpc_drop(send->pieces[i].call);
	if (send->fd >= 0)
		close(send->fd);
	tfc__bundle_leave(send->bundle);
	free(send);
}

static void end(struct tfc__bundle_send *send, const tfc_error *error)
{
	struct tfc__bundle_send_options options = send->options;
	tfc__bundle_send_close(send);
	options.end(options.user, error);
}

static void on_answer(void *user, int code, const msgpack_object *result, const tfc_error *error);

static int send_piece(struct tfc__bundle_send *send, struct piece *piece, char *bytes,
		      tfc_error *error)
{
	struct tfc__buf params = {0};
	ssize_t n = pread(send->fd, bytes, PIECE, (off_t)send->at);
	if (n <= 0)
		return tfc__fail_errno(error, "gateway", n < 0 ? errno : EIO, "cannot read %.160s",
				       send->bundle->path);
	tfc__msg_map(&params, 4);
	tfc__msg_put_u64(&params, "instance", send->options.instance);
	tfc__msg_put_str(&params, "hash", send->bundle->hash);
	tfc__msg_put_u64(&params, "at", send->at);
	tfc__msg_put_bin(&params, "data", bytes, (size_t)n);
	const struct tfc__rpc_options options = {.method = send->options.method,
						 .params = &params,
						 .timeout_ms = TIMEOUT_MS,
						 .end = on_answer,
						 .user = piece};
	int code = tfc__rpc_call(send->options.rpc, &options, &piece->call, error);
	tfc__buf_fini(&params);
	if (code < 0) {
		piece->call = NULL;
		return code;
	}
	send->out++;
	send->at += (uint64_t)n;
	return TFC_OK;
}

/* As many pieces as may be on their way. A failure counts once none is. */
static int send_pieces(struct tfc__bundle_send *send, tfc_error *error)
{
	if (send->is_reset && send->out)
		return TFC_OK;
	if (send->is_reset)
		send->at = send->reset_to;
	send->is_reset = false;
	char *bytes = malloc(PIECE);
	int code = bytes ? TFC_OK : tfc__fail_nomem(error, "gateway");
	for (int i = 0; i < PIECES && code == TFC_OK; i++)
		if (!send->pieces[i].call && send->at < send->bundle->size)
			code = send_piece(send, &send->pieces[i], bytes, error);
	free(bytes);
	return send->out ? TFC_OK : code;
}

static void on_answer(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct piece *piece = user;
	struct tfc__bundle_send *send = piece->send;
	tfc_error why = TFC_ERROR_INIT;
	uint64_t at = tfc__msg_get_u64(result, "at", 0);
	piece->call = NULL;
	send->out--;
	if (code < 0 || tfc__msg_get_bool(result, "done", false)) {
		end(send, code < 0 ? error : NULL);
		return;
	}
	if (!tfc__msg_get_bool(result, "taken", false)) {
		send->is_reset = true;
		send->reset_to = at;
	}
	code = send_pieces(send, &why);
	if (code < 0 || !send->out)
		end(send, code < 0 ? &why : NULL);
	else if (send->options.moved)
		send->options.moved(send->options.user, at);
}

int tfc__bundle_send(struct tfc__bundle *bundle, const struct tfc__bundle_send_options *options,
		     tfc_error *error, struct tfc__bundle_send **ret_send)
{
	struct tfc__bundle_send *send = calloc(1, sizeof(*send));
	if (!send)
		return tfc__fail_nomem(error, "gateway");
	send->options = *options;
	send->bundle = bundle;
	send->at = options->at;
	for (int i = 0; i < PIECES; i++)
		send->pieces[i].send = send;
	tfc__bundle_use(bundle);
	send->fd = open(bundle->path, O_RDONLY | O_CLOEXEC);
	int code = send->fd < 0 ? tfc__fail_errno(error, "gateway", errno, "cannot read %.160s",
						  bundle->path)
				: send_pieces(send, error);
	bool is_sending = code == TFC_OK && send->out;
	if (!is_sending)
		tfc__bundle_send_close(send);
	if (code == TFC_OK)
		*ret_send = is_sending ? send : NULL;
	return code;
}
