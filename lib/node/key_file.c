#include "node/key_file.h"

#include <stdlib.h>

#include "base/fail.h"
#include "member/file_watch.h"

struct tfc__key_file {
	struct tfc__file_watch watch;
	struct tfc__keyring *ring;
};

static int key_file_load(const struct tfc__key_file *file, tfc_error *error,
			 struct tfc__keyring **ret_ring)
{
	struct tfc__keyring *ring = NULL;
	int code = tfc__keyring_load(file->watch.path, error, &ring);
	if (code < 0)
		return code;
	if (tfc__keyring_first(ring, TFC__KEY_NODE)) {
		*ret_ring = ring;
		return TFC_OK;
	}
	tfc__keyring_free(ring);
	return tfc__fail(error, TFC_EINVAL, "node", 0,
			 "key file \"%s\" has no node key, which a node requires; make one with "
			 "\"tfc_run keygen\"",
			 file->watch.path);
}

static void key_file_on_change(struct tfc__file_watch *watch)
{
	struct tfc__key_file *file = tfc__container_of(watch, struct tfc__key_file, watch);
	struct tfc__keyring *ring = NULL;
	tfc_error error = TFC_ERROR_INIT;
	if (key_file_load(file, &error, &ring) < 0) {
		tfc__log(watch->ctx, TFC_LOG_WARNING, "node", "", "keys not changed: %s",
			 error.text);
		return;
	}
	if (!tfc__keyring_replace(file->ring, ring))
		return;
	const struct tfc__key *first = tfc__keyring_first(file->ring, TFC__KEY_NODE);
	char id[2 * TFC__KEY_ID_SIZE + 1];
	tfc__key_id_text(first, id);
	tfc__log(watch->ctx, TFC_LOG_INFO, "node", "",
		 "read the changed key file \"%s\": %u keys; this node connects with node key %s",
		 watch->path, tfc__keyring_count(file->ring), id);
}

int tfc__key_file_open(tfc_ctx *ctx, const char *path, tfc_error *error,
		       struct tfc__key_file **ret_file)
{
	struct tfc__key_file *file = calloc(1, sizeof(*file));
	tfc_error unwatched = TFC_ERROR_INIT;
	if (!file)
		return tfc__fail_nomem(error, "node");
	file->watch.component = "node";
	file->watch.changed = key_file_on_change;
	int code = tfc__file_watch_init(&file->watch, path, error);
	if (code < 0) {
		free(file);
		return code;
	}
	/* Watches before it reads, so that no change is missed in between. */
	bool is_watched = tfc__file_watch_start(&file->watch, ctx, &unwatched) == TFC_OK;
	code = key_file_load(file, error, &file->ring);
	if (code < 0) {
		tfc__key_file_close(file);
		return code;
	}
	if (!is_watched)
		tfc__log(ctx, TFC_LOG_WARNING, "node", "",
			 "%s; restart this node after each change of its keys", unwatched.text);
	*ret_file = file;
	return TFC_OK;
}

struct tfc__keyring *tfc__key_file_ring(struct tfc__key_file *file)
{
	return file->ring;
}

void tfc__key_file_close(struct tfc__key_file *file)
{
	if (!file)
		return;
	tfc__file_watch_fini(&file->watch);
	tfc__keyring_free(file->ring);
	free(file);
}
