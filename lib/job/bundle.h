/*
 * What the files of a bundle share: the limits, the rules for names, and the scan of an archive's
 * directory that libzip does not offer.
 */
#ifndef TFC_JOB_BUNDLE_H
#define TFC_JOB_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tfcluster/bundle.h>

/* What an archive may hold at most; packing and unpacking keep to the same. */
struct tfc__bundle_limits {
	uint32_t entries;
	uint32_t ratio;       /* unpacked to packed, per entry... */
	uint64_t ratio_bytes; /* ...that unpacks to more than this: tiny files shrink well */
	uint64_t bytes;       /* unpacked, of all entries */
};

extern const struct tfc__bundle_limits tfc__bundle_limits; /* 10000, 200, 1 MiB, 8 GiB */

/* tfc_bundle_unpack with other limits. */
int tfc__bundle_unpack(const char *zip_path, const char *dir,
		       const struct tfc__bundle_limits *limits, tfc_error *error);

/* ---- names */

struct tfc__bundle_name {
	const char *text; /* "a/b", "a/b/"; borrowed */
	bool is_directory;
};

/*
 * Refuses names that are absolute, hold "..", ".", empty parts, a backslash or a control character,
 * are too long or too deep.
 */
int tfc__bundle_name_check(const char *name, tfc_error *error);

/*
 * Refuses two entries of one name, names (also of folders on the way) that differ only in the case
 * of ASCII letters, and a name that is a file and a folder.
 */
int tfc__bundle_names_check(const struct tfc__bundle_name *names, size_t count, tfc_error *error);

/* ---- the archive's own directory */

/*
 * Reads the central directory and the local headers it points to, and refuses entries that share
 * bytes, lie outside, have a NUL in their name, or are named differently in the two places.
 * *ret_count is the number of entries. libzip looks at none of these.
 * https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3.7, 4.3.12 to 4.3.16.
 */
int tfc__bundle_scan(int fd, uint64_t *ret_count, tfc_error *error);

#endif
