/*
 * Reads the entries of an archive and compares each record of the central directory with the local
 * header in front of the entry's bytes (4.3.7, 4.3.12).
 */
#include "bundle/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"

#define CENTRAL_SIZE 46 /* one entry of the central directory, without names */
#define CENTRAL_MAGIC 0x02014b50
#define LOCAL_SIZE 30 /* one local header, without names */
#define LOCAL_MAGIC 0x04034b50
#define DIRECTORY_MAX (64 << 20) /* bytes of central directory that are read into memory */

/* 4.4.4 */
#define FLAGS_ENCRYPTED (1 << 0 | 1 << 6 | 1 << 13)
#define FLAG_DESCRIPTOR (1 << 3)
#define FLAG_PATCH (1 << 5)

/* 4.5.2, and Info-ZIP's list */
#define EXTRA_ZIP64 0x0001
#define EXTRA_UNIX 0x000d
#define EXTRA_UNIX_FIXED 12 /* times and ids; a link's target or a device follows */
#define EXTRA_ASI_UNIX 0x756e
#define EXTRA_NAME 0x7075

struct scan {
	int fd;
	const uint8_t *at; /* in the central directory */
	size_t left;
	char *names; /* position of the next name */
	uint64_t place;
	struct tfc__bundle_directory *directory;
	tfc_error *error;
};

/* The fields that both headers have, from the flags on. */
struct header {
	uint16_t flags, method;
	uint32_t crc;
	uint64_t packed, size;
	uint64_t start; /* only in the central header */
};

static int scan_refuse(struct scan *scan, const struct tfc__bundle_entry *entry, const char *why)
{
	return tfc__bundle_refuse(scan->error, TFC_EARCHIVE, entry->name, why);
}

static struct header read_header_fields(const uint8_t *flags)
{
	return (struct header){tfc__get16(flags),      tfc__get16(flags + 2),
			       tfc__get32(flags + 8),  tfc__get32(flags + 12),
			       tfc__get32(flags + 16), 0};
}

/* ---- extra fields */

/* Replaces a number that does not fit its field by the next number of the Zip64 field. */
static bool read_zip64_number(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
	if (*number != UINT32_MAX)
		return true;
	if (end - *at < 8)
		return false;
	*number = tfc__get64(*at);
	*at += 8;
	return true;
}

static bool extra_field_is_link(const uint8_t *field, size_t len, uint16_t id)
{
	if (id == EXTRA_UNIX)
		return len > EXTRA_UNIX_FIXED;
	if (id != EXTRA_ASI_UNIX || len < 10)
		return false;
	mode_t mode = tfc__get16(field + 4);
	return tfc__get32(field + 6) || (mode && !S_ISREG(mode) && !S_ISDIR(mode));
}

/* The reason why a field is not allowed, or NULL. */
static const char *read_extra_field(const struct tfc__bundle_entry *entry, struct header *header,
				    uint16_t id, const uint8_t *field, size_t len)
{
	const uint8_t *at = field, *end = field + len;
	switch (id) {
	case EXTRA_ZIP64: /* 4.5.3 */
		if (!read_zip64_number(&at, end, &header->size) ||
		    !read_zip64_number(&at, end, &header->packed) ||
		    !read_zip64_number(&at, end, &header->start))
			return "its Zip64 sizes are missing";
		return NULL;
	case EXTRA_UNIX:
	case EXTRA_ASI_UNIX:
		return extra_field_is_link(field, len, id)
			       ? "a hard link or device according to its extra field"
			       : NULL;
	case EXTRA_NAME:
		if (len != 5 + strlen(entry->name) || memcmp(field + 5, entry->name, len - 5) != 0)
			return "its extra field contains another name";
		return NULL;
	}
	return NULL;
}

static const char *read_extra_fields(const struct tfc__bundle_entry *entry, struct header *header,
				     const uint8_t *extra, size_t len)
{
	bool is_large = header->size == UINT32_MAX || header->packed == UINT32_MAX ||
			header->start == UINT32_MAX;
	bool has_zip64 = false;
	while (len >= 4) { /* some packers pad with fewer bytes */
		uint16_t id = tfc__get16(extra);
		size_t field_len = tfc__get16(extra + 2);
		if (field_len > len - 4)
			return "its extra field is damaged";
		if (id == EXTRA_ZIP64 && has_zip64)
			return "it has two sets of Zip64 sizes";
		has_zip64 = has_zip64 || id == EXTRA_ZIP64;
		const char *why = read_extra_field(entry, header, id, extra + 4, field_len);
		if (why)
			return why;
		extra += 4 + field_len;
		len -= 4 + field_len;
	}
	return is_large && !has_zip64 ? "its Zip64 sizes are missing" : NULL;
}

/* ---- local headers */

/* If a descriptor follows the bytes, the local header may omit what was not known yet (4.3.9). */
static bool local_number_matches(const struct header *local, uint64_t there, uint64_t here)
{
	return there == here || (there == 0 && (local->flags & FLAG_DESCRIPTOR));
}

/* `bytes` follows the fixed part: name and extra field. */
static const char *check_local_header(const uint8_t *fixed, const uint8_t *bytes,
				      struct tfc__bundle_entry *entry)
{
	size_t name_len = tfc__get16(fixed + 26);
	struct header local = read_header_fields(fixed + 6);
	if (name_len != strlen(entry->name) || memcmp(bytes, entry->name, name_len) != 0)
		return "the names in its two headers differ";
	const char *why = read_extra_fields(entry, &local, bytes + name_len,
					    tfc__get16(fixed + 28));
	entry->has_descriptor = entry->has_descriptor || (local.flags & FLAG_DESCRIPTOR);
	if (why)
		return why;
	if (local.flags & FLAGS_ENCRYPTED)
		return "encrypted according to its local header";
	if (local.method != entry->method)
		return "the compression methods in its two headers differ";
	if (!local_number_matches(&local, local.size, entry->size) ||
	    !local_number_matches(&local, local.packed, entry->packed))
		return "the sizes in its two headers differ";
	if (!local_number_matches(&local, local.crc, entry->crc))
		return "the checksums in its two headers differ";
	return NULL;
}

static int scan_local_header(struct scan *scan, struct tfc__bundle_entry *entry)
{
	uint8_t fixed[LOCAL_SIZE], bytes[2 * UINT16_MAX];
	uint64_t end = scan->directory->start;
	if (entry->start > end || end - entry->start < LOCAL_SIZE)
		return scan_refuse(scan, entry, "its offset is outside the archive");
	int result = tfc__bundle_read_at(scan->fd, entry->start, fixed, LOCAL_SIZE, scan->error);
	if (result < 0)
		return result;
	if (tfc__get32(fixed) != LOCAL_MAGIC)
		return scan_refuse(scan, entry, "no local header at its offset");
	size_t len = (size_t)tfc__get16(fixed + 26) + tfc__get16(fixed + 28);
	uint64_t room = end - entry->start - LOCAL_SIZE;
	if (len > room || entry->packed > room - len)
		return scan_refuse(scan, entry, "extends beyond the end of the archive");
	entry->end = entry->start + LOCAL_SIZE + len + entry->packed;
	result = tfc__bundle_read_at(scan->fd, entry->start + LOCAL_SIZE, bytes, len, scan->error);
	if (result < 0)
		return result;
	const char *why = check_local_header(fixed, bytes, entry);
	return why ? scan_refuse(scan, entry, why) : TFC_OK;
}

/* ---- the central directory */

static const char *read_central_header(const uint8_t *central, size_t name_len,
				       struct tfc__bundle_entry *entry)
{
	struct header header = read_header_fields(central + 8);
	header.start = tfc__get32(central + 42);
	if (strlen(entry->name) != name_len)
		return "its name contains a NUL";
	if (header.flags & FLAGS_ENCRYPTED)
		return "encrypted";
	if (header.flags & FLAG_PATCH)
		return "contains a patch, not a file";
	if (tfc__get16(central + 34) != 0 && tfc__get16(central + 34) != UINT16_MAX)
		return "stored in another part of the archive";
	const char *why = read_extra_fields(entry, &header, central + CENTRAL_SIZE + name_len,
					    tfc__get16(central + 30));
	entry->has_descriptor = header.flags & FLAG_DESCRIPTOR;
	entry->method = header.method;
	entry->crc = header.crc;
	entry->size = header.size;
	entry->packed = header.packed;
	entry->start = header.start;
	if (why)
		return why;

	/* The Unix mode is in this place even if the archive claims to come from another system. */
	mode_t mode = (mode_t)(tfc__get32(central + 38) >> 16);
	entry->is_directory = name_len && entry->name[name_len - 1] == '/';
	if (S_ISLNK(mode))
		return "a symbolic link; only files and directories can be packed";
	if ((mode & S_IFMT) && !S_ISREG(mode) && !S_ISDIR(mode))
		return "a device, fifo or socket; only files and directories can be packed";
	if ((mode & S_IFMT) && entry->is_directory != S_ISDIR(mode))
		return "its name and its type differ";
	if (!mode) /* packed on a system without permission bits */
		mode = entry->is_directory ? 0755 : 0644;
	entry->mode = mode & 0755;
	return NULL;
}

static int scan_entry(struct scan *scan, struct tfc__bundle_entry *entry)
{
	const uint8_t *central = scan->at;
	size_t name_len, len;
	if (scan->left < CENTRAL_SIZE || tfc__get32(central) != CENTRAL_MAGIC ||
	    (name_len = tfc__get16(central + 28),
	     len = CENTRAL_SIZE + name_len + tfc__get16(central + 30) + tfc__get16(central + 32),
	     len > scan->left))
		return tfc__fail(
			scan->error, TFC_EARCHIVE, "bundle", 0,
			"the archive's central directory is damaged after entry %zu of %zu",
			(size_t)(entry - scan->directory->entries), scan->directory->count);
	memcpy(scan->names, central + CENTRAL_SIZE, name_len);
	scan->names[name_len] = '\0';
	entry->name = scan->names;
	scan->names += name_len + 1;
	scan->at += len;
	scan->left -= len;
	const char *why = read_central_header(central, name_len, entry);
	return why ? scan_refuse(scan, entry, why) : TFC_OK;
}

static int scan_directory(int fd, const struct tfc__bundle_end *end,
			  struct tfc__bundle_directory *directory, tfc_error *error)
{
	uint8_t *bytes = malloc((size_t)end->size + 1);
	*directory = (struct tfc__bundle_directory){
		.entries = calloc((size_t)end->count + 1, sizeof(*directory->entries)),
		.count = (size_t)end->count,
		.start = end->offset,
		.names = malloc((size_t)end->size + 1), /* a name is shorter than its record */
	};
	struct scan scan = {.fd = fd,
			    .at = bytes,
			    .left = (size_t)end->size,
			    .names = directory->names,
			    .directory = directory,
			    .error = error};
	int result = TFC_OK;
	if (!bytes || !directory->entries || !directory->names)
		result = tfc__fail_nomem(error, "bundle");
	if (result == TFC_OK)
		result = tfc__bundle_read_at(fd, end->offset, bytes, scan.left, error);
	for (size_t i = 0; i < directory->count && result == TFC_OK; i++) {
		struct tfc__bundle_entry *entry = &directory->entries[i];
		result = scan_entry(&scan, entry);
		if (result == TFC_OK)
			result = tfc__bundle_name_check(entry->name, error);
		if (result == TFC_OK)
			result = scan_local_header(&scan, entry);
	}
	if (result == TFC_OK && scan.left)
		result =
			tfc__fail(error, TFC_EARCHIVE, "bundle", 0,
				  "the archive's central directory continues after its %zu entries",
				  directory->count);
	free(bytes);
	return result;
}

void tfc__bundle_scan_fini(struct tfc__bundle_directory *directory)
{
	free(directory->entries);
	free(directory->names);
	*directory = (struct tfc__bundle_directory){0};
}

int tfc__bundle_scan(int fd, const struct tfc__bundle_limits *limits, tfc_error *error,
		     struct tfc__bundle_directory *ret_directory)
{
	struct stat status;
	struct tfc__bundle_end end;
	struct tfc__bundle_directory directory;
	if (fstat(fd, &status) < 0)
		return tfc__fail_errno(error, "bundle", errno, "cannot read the archive");
	if (!S_ISREG(status.st_mode))
		return tfc__fail(error, TFC_EARCHIVE, "bundle", 0, "not a regular file");
	int result = tfc__bundle_find_end(fd, (uint64_t)status.st_size, error, &end);
	if (result < 0)
		return result;
	if (end.count > limits->entries)
		return tfc__fail(
			error, TFC_ETOOBIG, "bundle", 0,
			"the archive has %llu files and directories; the limit of a bundle "
			"is %u; " TFC__BUNDLE_HINT,
			(unsigned long long)end.count, limits->entries);
	if (end.size > DIRECTORY_MAX)
		return tfc__fail(error, TFC_ETOOBIG, "bundle", 0,
				 "the archive's central directory has %llu bytes; the limit is %d",
				 (unsigned long long)end.size, DIRECTORY_MAX);
	result = scan_directory(fd, &end, &directory, error);
	if (result == TFC_OK)
		result = tfc__bundle_check(&directory, limits, error);
	if (result == TFC_OK)
		*ret_directory = directory;
	else
		tfc__bundle_scan_fini(&directory);
	return result;
}
