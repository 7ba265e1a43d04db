/*
 * The state directory of a node: what it keeps over its end, for nobody else's eyes.
 *
 *     STATE/identity    the node's key pair
 *     STATE/node.sock   where programs of this machine reach it
 *     STATE/store/      jobs
 *     STATE/logs/       what their tasks said
 */
#ifndef TFC_NODE_STATE_H
#define TFC_NODE_STATE_H

#include <tfcluster/error.h>

/*
 * Makes the directory (mode 0700, with those above it) or checks the one that is there: it must be
 * a directory, this user's, closed to others, and writable. TFC_EINVAL, TFC_EACCES, TFC_ENOSPC,
 * TFC_ESYS, TFC_ENOMEM, each with a sentence that says what to do.
 */
int tfc__state_dir_open(const char *path, tfc_error *error);

#endif
