/*
 * Keys: what the nodes and the clients of a cluster must have to speak to each other.
 */
#ifndef TFCLUSTER_KEY_H
#define TFCLUSTER_KEY_H

#include <tfcluster/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a new key in a new file, mode 0600, written through to the disk. Who has a "node" key may
 * be a node, and do all; "submit": start, look at and stop jobs; "read": look at them. A file may
 * hold several keys, one a line. `error` may be NULL. Thread: any.
 * Errors: TFC_EINVAL (path or role), TFC_EEXIST (there is such a file; it stays as it is),
 * TFC_ENOENT, TFC_EACCES, TFC_ENOSPC, TFC_ESYS, TFC_ENOMEM.
 */
TFC_API int tfc_key_generate(const char *path, const char *role, tfc_error *error);

#ifdef __cplusplus
}
#endif
#endif
