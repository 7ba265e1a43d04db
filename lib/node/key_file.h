/*
 * The key file of a node. It is read again when it changes, so that keys are added, put first and
 * removed while the node and its tasks run. A connection ends when its key is removed.
 */
#ifndef TFC_NODE_KEY_FILE_H
#define TFC_NODE_KEY_FILE_H

#include "ctx/ctx.h"
#include "wire/keyring.h"

struct tfc__key_file;

/* Errors: those of tfc__keyring_load; TFC_EINVAL: it has no node key. If the file cannot be
 * watched, that is a warning in the log. */
int tfc__key_file_open(tfc_ctx *ctx, const char *path, tfc_error *error,
		       struct tfc__key_file **ret_file);
struct tfc__keyring *tfc__key_file_ring(struct tfc__key_file *file); /* borrowed */
/* Call after all users of the keyring have ended. NULL is a no-op. */
void tfc__key_file_close(struct tfc__key_file *file);

#endif
