/*
 * Keys: a node or client needs a key of its cluster to connect over tcp. Only root and the node's
 * own user need none, at an address of the loopback.
 */
#ifndef TFCLUSTER_KEY_H
#define TFCLUSTER_KEY_H

#include <tfcluster/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a key in a new file with mode 0600, and writes it through to the disk. The role is "node"
 * (permission to be a node, and to make every request), "submit" (every request of a client) or
 * "read" (to list, describe and follow jobs and members). A file may have several keys, one on each
 * line. `error` may be NULL. Thread: any. Errors: TFC_EINVAL (path or role), TFC_EEXIST (there is
 * such a file; it stays as it is), TFC_ENOENT, TFC_EACCES, TFC_ENOSPC, TFC_ESYS, TFC_ENOMEM.
 */
TFC_API int tfc_key_generate(const char *path, const char *role, tfc_error *error);

#ifdef __cplusplus
}
#endif
#endif
