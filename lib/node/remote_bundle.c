#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "node/remote_inner.h"

/*
 * An archive on its way to another node, in pieces, a few at a time; each is answered once it was
 * taken there. However many jobs want it there, it goes once.
 */
#define PIECE (256 * 1024)
#define PIECES 4
#define TIMEOUT_MS 60000 /* for a piece, and for the last one to be checked there */

struct upload;

struct piece {
	struct upload *upload;
	struct tfc__rpc_call *call; /* NULL: it is free */
};

struct upload {
	struct tfc__link link; /* of the agent */
	struct tfc__remote_agent *agent;
	struct tfc__bundle *bundle; /* used */
	int fd;
	uint64_t at;   /* of the next piece */
	bool is_reset; /* pieces were not wanted: it goes on at reset_to, once all are answered */
	uint64_t reset_to;
	uint32_t out;
	struct piece pieces[PIECES];
};

static void free_upload(struct upload *upload)
{
	for (int i = 0; i < PIECES; i++)
		if (upload->pieces[i].call)
			tfc__rpc_drop(upload->pieces[i].call);
	tfc__list_remove(&upload->link);
	close(upload->fd);
	tfc__bundle_leave(upload->bundle);
	free(upload);
}

static void send_pieces(struct upload *upload);

static void on_answer(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct piece *piece = user;
	struct upload *upload = piece->upload;
	piece->call = NULL;
	upload->out--;
	if (code < 0 || tfc__msg_get_bool(result, "done", false)) {
		if (code < 0 && code != TFC_ELOST)
			tfc__log(upload->agent->ctx, TFC_LOG_ERROR, "node", upload->agent->node,
				 "a bundle could not be sent: %s", error->text);
		free_upload(upload); /* what it lacks it asks for again */
		return;
	}
	if (!tfc__msg_get_bool(result, "taken", false)) {
		upload->is_reset = true;
		upload->reset_to = tfc__msg_get_u64(result, "at", 0);
	}
	send_pieces(upload);
}

static int send_piece(struct upload *upload, struct piece *piece, char *bytes)
{
	struct tfc__buf params = {0};
	ssize_t n = pread(upload->fd, bytes, PIECE, (off_t)upload->at);
	if (n <= 0)
		return TFC_ESYS;
	tfc__msg_map(&params, 4);
	tfc__msg_put_u64(&params, "instance", upload->agent->instance);
	tfc__msg_put_str(&params, "hash", upload->bundle->hash);
	tfc__msg_put_u64(&params, "at", upload->at);
	tfc__msg_put_bin(&params, "data", bytes, (size_t)n);
	const struct tfc__rpc_options options = {.method = "agent.bundle",
						 .params = &params,
						 .timeout_ms = TIMEOUT_MS,
						 .end = on_answer,
						 .user = piece};
	int code = tfc__rpc_call(upload->agent->rpc, &options, &piece->call, NULL);
	tfc__buf_fini(&params);
	if (code < 0) {
		piece->call = NULL;
		return code;
	}
	upload->out++;
	upload->at += (uint64_t)n;
	return TFC_OK;
}

static void send_pieces(struct upload *upload)
{
	if (upload->is_reset && upload->out)
		return;
	if (upload->is_reset)
		upload->at = upload->reset_to;
	upload->is_reset = false;
	char *bytes = malloc(PIECE);
	int code = bytes ? TFC_OK : TFC_ENOMEM;
	for (int i = 0; i < PIECES && code == TFC_OK; i++)
		if (!upload->pieces[i].call && upload->at < upload->bundle->size)
			code = send_piece(upload, &upload->pieces[i], bytes);
	free(bytes);
	if (!upload->out)
		free_upload(upload); /* it is asked for again */
}

static struct upload *find(struct tfc__remote_agent *agent, const struct tfc__bundle *bundle)
{
	TFC__LIST_EACH (link, &agent->uploads) {
		struct upload *upload = tfc__container_of(link, struct upload, link);
		if (strcmp(upload->bundle->hash, bundle->hash) == 0)
			return upload;
	}
	return NULL;
}

void remote_upload(struct remote_job *job, uint64_t at)
{
	struct tfc__remote_agent *agent = job->agent;
	if (!job->bundle || job->bundle->state != TFC__BUNDLE_READY || find(agent, job->bundle))
		return;
	struct upload *upload = calloc(1, sizeof(*upload));
	int fd = upload ? open(job->bundle->path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) {
		tfc__log(agent->ctx, TFC_LOG_ERROR, "node", job->id, "cannot read its bundle: %s",
			 tfc_err_text(tfc__err_from_errno(upload ? errno : ENOMEM)));
		free(upload);
		return;
	}
	upload->agent = agent;
	upload->bundle = job->bundle;
	upload->fd = fd;
	upload->at = at;
	for (int i = 0; i < PIECES; i++)
		upload->pieces[i].upload = upload;
	tfc__bundle_use(job->bundle);
	tfc__list_append(&agent->uploads, &upload->link);
	send_pieces(upload);
}

void remote_uploads_end(struct tfc__remote_agent *agent)
{
	TFC__LIST_EACH (link, &agent->uploads)
		free_upload(tfc__container_of(link, struct upload, link));
}
