/*
 * What the files of this module share.
 *
 *   cache.c       the archives of this machine: who uses them, which stay cached
 *   cache_work.c  runs tfc-bundle to pack, check and receive archives
 *   send.c        sends an archive to another node
 *   receive.c     receives archives from clients and other nodes
 *   pack.c, unpack.c, hash.c  the work of tfc-bundle
 *   name.c, fold.c  the rules for entry names
 *   scan.c        reads an archive's central directory: libzip only unpacks entries that passed its
 *                 checks. end_record.c finds the directory, check.c checks its entries together
 */
#ifndef TFC_BUNDLE_INTERNAL_H
#define TFC_BUNDLE_INTERNAL_H

#include "bundle/cache.h"
#include <stddef.h>
#include <sys/types.h>

/* ---- the cache */

#define WORK_PREFIX ".work-"
#define OFFER_IDLE_NS (60 * TFC__SECOND) /* an offer without new bytes for this long fails */

struct tfc__bundles {
	tfc_ctx *ctx;
	char *dir;
	uint64_t max_bytes;
	uint64_t idle_ns; /* OFFER_IDLE_NS */
	struct tfc__link all;
	struct tfc__link offers; /* struct offer of receive.c */
};

/* Creates a bundle without users; NULL: out of memory. */
struct tfc__bundle *tfc__archive_new(struct tfc__bundles *bundles, enum tfc__bundle_state state);
void tfc__archive_free(struct tfc__bundle *bundle);
char *tfc__archive_path(const struct tfc__bundles *bundles, const char *hash);
void tfc__archives_trim(struct tfc__bundles *bundles);

/*
 * start: runs tfc-bundle with these arguments in the bundle's own working directory, which
 * make_work creates.
 */
int tfc__archive_make_work(struct tfc__bundle *bundle, tfc_error *error);
int tfc__archive_start(struct tfc__bundle *bundle, const char *const args[5], tfc_error *error);
int tfc__archive_pack(struct tfc__bundle *bundle, tfc_error *error);
int tfc__archive_check(struct tfc__bundle *bundle, tfc_error *error);
void tfc__archive_end_work(struct tfc__bundle *bundle);

/* ---- limits */

/* Limits of an archive, for packing and for unpacking. */
struct tfc__bundle_limits {
	uint32_t entries;
	uint32_t ratio;       /* unpacked to packed size, per entry and of all together, */
	uint64_t ratio_bytes; /* if the unpacked size exceeds this: tiny files compress well */
	uint64_t bytes;       /* unpacked size of all entries */
};

#define TFC__BUNDLE_HINT "keep data outside the bundle, where the nodes can read it"

extern const struct tfc__bundle_limits tfc__bundle_limits; /* 10000, 200, 1 MiB, 8 GiB */

/* As tfc_bundle_unpack, with other limits. */
int tfc__bundle_unpack(const char *zip_path, const char *dir,
		       const struct tfc__bundle_limits *limits, tfc_error *error);

/* ---- names */

struct tfc__bundle_name {
	const char *text; /* "a/b", "a/b/"; borrowed */
	bool is_directory;
};

/*
 * Refuses names that are absolute, too long or too deep, that contain "..", ".", empty parts, a
 * backslash or a control character, or that are not UTF-8.
 */
int tfc__bundle_name_check(const char *name, tfc_error *error);

/*
 * Refuses duplicate entry names; names (also of parent folders) that differ only in case, of any
 * script; and a name that is both a file and a folder.
 */
int tfc__bundle_names_check(const struct tfc__bundle_name *names, size_t count, tfc_error *error);

/* The character with its case folded. */
uint32_t tfc__bundle_fold(uint32_t code);

/* ---- the archive's central directory */

struct tfc__bundle_entry {
	const char *name; /* ends in '/' for a folder; owned by the directory */
	bool is_directory;
	mode_t mode; /* permission bits of the file */
	uint16_t method;
	uint32_t crc;
	uint64_t size;       /* unpacked, as declared */
	uint64_t packed;     /* bytes in the archive */
	uint64_t start, end; /* the range of its local header and its bytes */
	bool has_descriptor; /* a descriptor of up to 24 bytes may follow `end` */
};

struct tfc__bundle_directory {
	struct tfc__bundle_entry *entries; /* in the archive's order */
	size_t count;
	uint64_t start; /* offset of the central directory, where the entries' bytes end */
	char *names;
};

/*
 * Reads the central directory and the local headers it points to. Refuses every archive that two
 * readers could understand differently or that would be unpacked outside the target directory: all
 * rules that do not need an entry's unpacked bytes. tfc__bundle_scan_fini frees *ret_directory.
 * https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, section 4.3.
 */
int tfc__bundle_scan(int fd, const struct tfc__bundle_limits *limits, tfc_error *error,
		     struct tfc__bundle_directory *ret_directory);
void tfc__bundle_scan_fini(struct tfc__bundle_directory *directory);

/* The position of the central directory, from the records at the archive's end. */
struct tfc__bundle_end {
	uint64_t offset;
	uint64_t size;
	uint64_t count;
};

/* end_record.c */
int tfc__bundle_find_end(int fd, uint64_t file_size, tfc_error *error,
			 struct tfc__bundle_end *ret_end);

/* check.c: the rules that concern all entries together: sizes, names, places. */
int tfc__bundle_check(const struct tfc__bundle_directory *directory,
		      const struct tfc__bundle_limits *limits, tfc_error *error);

/* Fails with "entry NAME: WHY". */
int tfc__bundle_refuse(tfc_error *error, int code, const char *name, const char *why);

/* Reads all `len` bytes or fails. */
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
