/*
 * What the files of this module share.
 *
 *   cache.c       which archives there are, who uses them, what stays cached
 *   cache_work.c  tfc-bundle, which packs, checks and receives them
 *   send.c        an archive on its way to another process
 *   receive.c     those that come from others
 *   pack.c, unpack.c, hash.c  what tfc-bundle does
 *   name.c, fold.c  which names entries may have
 *   scan.c        an archive's own directory, which is read here: libzip only unpacks what was
 * found to be in order. end_record.c finds it, check.c judges what is in it
 */
#ifndef TFC_BUNDLE_INTERNAL_H
#define TFC_BUNDLE_INTERNAL_H

#include "bundle/cache.h"
#include <stddef.h>
#include <sys/types.h>

/* ---- the cache */

#define WORK_PREFIX ".work-"
#define OFFER_IDLE_NS (60 * TFC__SECOND) /* an offer of which nothing comes ends then */

struct tfc__bundles {
	tfc_ctx *ctx;
	char *dir;
	uint64_t max_bytes;
	uint64_t idle_ns; /* OFFER_IDLE_NS */
	struct tfc__link all;
	struct tfc__link offers; /* of receive.c */
};

/* One more, which nobody uses yet; NULL: out of memory. */
struct tfc__bundle *tfc__archive_new(struct tfc__bundles *bundles, enum tfc__bundle_state state);
void tfc__archive_free(struct tfc__bundle *bundle);
char *tfc__archive_path(const struct tfc__bundles *bundles, const char *hash);
void tfc__archives_trim(struct tfc__bundles *bundles);

/* Runs tfc-bundle with these words in a new directory of its own, which `make_work` makes. */
int tfc__archive_make_work(struct tfc__bundle *bundle, tfc_error *error);
int tfc__archive_start(struct tfc__bundle *bundle, const char *const words[5], tfc_error *error);
int tfc__archive_pack(struct tfc__bundle *bundle, tfc_error *error);
int tfc__archive_check(struct tfc__bundle *bundle, tfc_error *error);
void tfc__archive_end_work(struct tfc__bundle *bundle);

/* ---- limits */

/* What an archive may hold at most; packing and unpacking keep to the same. */
struct tfc__bundle_limits {
	uint32_t entries;
	uint32_t ratio;       /* unpacked to packed, per entry and of all... */
	uint64_t ratio_bytes; /* ...that unpack to more than this: tiny files shrink well */
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
 * are not UTF-8, too long or too deep.
 */
int tfc__bundle_name_check(const char *name, tfc_error *error);

/*
 * Refuses two entries of one name, names (also of folders on the way) that differ only in case, of
 * any script, and a name that is a file and a folder.
 */
int tfc__bundle_names_check(const struct tfc__bundle_name *names, size_t count, tfc_error *error);

/* A character without its case. */
uint32_t tfc__bundle_fold(uint32_t code);

/* ---- the archive's own directory */

struct tfc__bundle_entry {
	const char *name; /* ends in '/' for a folder; owned by the directory */
	bool is_directory;
	mode_t mode; /* permission bits to give it */
	uint16_t method;
	uint32_t crc;
	uint64_t size;       /* unpacked, as declared */
	uint64_t packed;     /* bytes in the archive */
	uint64_t start, end; /* where its header and bytes are */
	bool has_descriptor; /* up to 24 bytes behind `end` are its own */
};

struct tfc__bundle_directory {
	struct tfc__bundle_entry *entries; /* in the archive's order */
	size_t count;
	uint64_t start; /* where the entries' bytes end */
	char *names;
};

/*
 * Reads the central directory and the local headers it points to, and refuses whatever two readers
 * could understand differently, or would write elsewhere than below the directory: every rule that
 * does not need an entry's bytes unpacked. tfc__bundle_scan_fini ends *ret_directory.
 * https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, section 4.3.
 */
int tfc__bundle_scan(int fd, const struct tfc__bundle_limits *limits,
		     struct tfc__bundle_directory *ret_directory, tfc_error *error);
void tfc__bundle_scan_fini(struct tfc__bundle_directory *directory);

/* Where the directory is, from the records at the archive's end. */
struct tfc__bundle_end {
	uint64_t offset;
	uint64_t size;
	uint64_t count;
};

/* end_record.c */
int tfc__bundle_find_end(int fd, uint64_t file_size, struct tfc__bundle_end *ret_end,
			 tfc_error *error);

/* check.c: what is known once all entries are: kinds, sizes, names, places. */
int tfc__bundle_check(const struct tfc__bundle_directory *directory,
		      const struct tfc__bundle_limits *limits, tfc_error *error);

/* A failure of one entry: "entry NAME: WHY". */
int tfc__bundle_refuse(tfc_error *error, int code, const char *name, const char *why);

/* Reads all of it, or fails. */
int tfc__bundle_read_at(int fd, uint64_t offset, void *data, size_t len, tfc_error *error);

static inline uint16_t tfc__get16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t tfc__get32(const uint8_t *at)
{
	return (uint32_t)tfc__get16(at) | (uint32_t)tfc__get16(at + 2) << 16;
}

static inline uint64_t tfc__get64(const uint8_t *at)
{
	return (uint64_t)tfc__get32(at) | (uint64_t)tfc__get32(at + 4) << 32;
}

#endif
