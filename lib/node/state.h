/*
 * The state directory of a node: what it keeps across restarts, accessible to its user only.
 *
 *     STATE/identity    the node's key pair
 *     STATE/node.sock   socket for programs on this machine
 *     STATE/store/      jobs
 *     STATE/logs/       output of their tasks
 */
#ifndef TFC_NODE_STATE_H
#define TFC_NODE_STATE_H

#include <tfcluster/error.h>

/*
 * Creates the directory (mode 0700, with its parents) or checks an existing one: it must be a
 * directory, owned by this user, closed to others, and writable. TFC_EINVAL, TFC_EACCES,
 * TFC_ENOSPC, TFC_ESYS, TFC_ENOMEM; each text says what to do.
 */
int tfc__state_dir_open(const char *path, tfc_error *error);

#endif
