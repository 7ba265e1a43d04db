/*
 * Keys: a node or client needs a key of its cluster to connect over tcp. At an address of the
 * loopback, root and the node's own user need none.
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
 * "read" (to list, describe and follow jobs and members). A key file may have several keys, one on
 * each line: join the files of several calls. `error` may be NULL. Thread: any. Errors: TFC_EINVAL
 * (path or role), TFC_EEXIST (there is such a file; it stays as it is), TFC_ENOENT, TFC_EACCES,
 * TFC_ENOSPC, TFC_ESYS, TFC_ENOMEM.
 */
TFC_API int tfc_key_generate(const char *path, const char *role, tfc_error *error);

#ifdef __cplusplus
}
#endif
#endif
