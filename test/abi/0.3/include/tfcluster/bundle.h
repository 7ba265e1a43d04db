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
 * Writes an archive of `path` to the new file `zip_path`: all of a directory, one file, or a zip as
 * it is (a file that is named ".zip" must be one). Permission bits are kept; symbolic links are
 * followed to files inside the directory, other ones are refused, as is what tfc_bundle_unpack
 * would refuse without unpacking a byte. Nothing is compressed and times are left out: equal files
 * give equal archives. On failure no file is left. Errors: TFC_EINVAL, TFC_ENOENT, TFC_EACCES,
 * TFC_EEXIST (zip_path), TFC_ENOSPC, TFC_ETOOBIG, TFC_EARCHIVE, TFC_ESYS, TFC_ENOMEM.
 */
TFC_API int tfc_bundle_pack(const char *path, const char *zip_path, tfc_error *error);

/** SHA-256 of an archive's bytes, in hex. Errors: TFC_ENOENT, TFC_EACCES, TFC_ESYS. */
TFC_API int tfc_bundle_hash(const char *zip_path, tfc_error *error,
			    char ret_hash[TFC_BUNDLE_HASH_SIZE]);

/**
 * Unpacks an archive into the existing empty directory `dir`. Only plain files and directories
 * inside it are made, with mode & 0755 (set-user-ID and the like are dropped); everything else is
 * refused, as is an archive that two readers could understand differently (doc/guide/bundles.md).
 * After a failure the directory is empty again. Errors: TFC_EARCHIVE (the text names the entry),
 * TFC_ETOOBIG, TFC_EINVAL, TFC_EMFILE, TFC_ENOENT, TFC_EACCES, TFC_EEXIST (dir is not empty),
 * TFC_ENOSPC, TFC_ESYS, TFC_ENOMEM.
 */
TFC_API int tfc_bundle_unpack(const char *zip_path, const char *dir, tfc_error *error);

#ifdef __cplusplus
}
#endif
#endif
