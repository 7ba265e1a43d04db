/*
 * Bundles: zip archives of a job's program. These three calls block as long as reading and writing
 * the files takes. In an event loop, let the node do it (job key "bundle"): it uses a process of
 * its own. Thread: any.
 */
#ifndef TFCLUSTER_BUNDLE_H
#define TFCLUSTER_BUNDLE_H

#include <tfcluster/error.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	TFC_BUNDLE_HASH_SIZE = 65, /* bytes of a SHA-256 in hex with its NUL */
};

/**
 * Packs `path`, a directory or a file, into the new archive `zip_path`. A zip archive is copied
 * unchanged; a file whose name ends in ".zip" must be one. Permission bits are kept, times are not,
 * and nothing is compressed: equal files give equal archives. Symbolic links to files inside the
 * directory are followed. Other links are refused, and so are files whose name, type or size
 * tfc_bundle_unpack would refuse. On failure no file is left. Errors: TFC_EINVAL, TFC_ENOENT,
 * TFC_EACCES, TFC_EEXIST (zip_path), TFC_ENOSPC, TFC_ETOOBIG, TFC_EARCHIVE, TFC_ESYS, TFC_ENOMEM.
 */
TFC_API int tfc_bundle_pack(const char *path, const char *zip_path, tfc_error *error);

/** SHA-256 of an archive's bytes, in hex. Errors: TFC_EINVAL, TFC_ENOENT, TFC_EACCES, TFC_ESYS. */
TFC_API int tfc_bundle_hash(const char *zip_path, tfc_error *error,
			    char ret_hash[TFC_BUNDLE_HASH_SIZE]);

/**
 * Unpacks an archive into the existing empty directory `dir`. Only plain files and directories are
 * made, with mode & 0755 (set-user-ID and the like are dropped). All other entries are refused, and
 * so is an archive that two programs could read differently (doc/guide/bundles.md). After a failure
 * the directory is empty again. Errors: TFC_EARCHIVE (the text names the entry), TFC_ETOOBIG,
 * TFC_EINVAL, TFC_EMFILE, TFC_ENOENT, TFC_EACCES, TFC_EEXIST (dir is not empty), TFC_ENOSPC,
 * TFC_ESYS, TFC_ENOMEM.
 */
TFC_API int tfc_bundle_unpack(const char *zip_path, const char *dir, tfc_error *error);

#ifdef __cplusplus
}
#endif
#endif
