/*
 * Unpacking. Everything that the central directory shows is checked before the first byte is
 * written. All writes go through openat2, beneath the directory and through no link.
 */
#include "bundle/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zip.h>

#include "base/dir.h"
#include "base/fail.h"
#include "base/file.h"

#define CHUNK 65536

const struct tfc__bundle_limits tfc__bundle_limits = {10000, 200, 1 << 20, UINT64_C(8) << 30};

struct unpack {
	zip_t *zip;
	struct tfc__bundle_directory directory;
	int root;
	tfc_error *error;
};

static int unpack_refuse(struct unpack *u, const struct tfc__bundle_entry *entry, const char *why)
{
	return tfc__bundle_refuse(u->error, TFC_EARCHIVE, entry->name, why);
}

/* ---- scan.c and libzip must agree */

/* Whether the entries that libzip will unpack are those that were checked. */
static int unpack_compare_readers(struct unpack *u)
{
	const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
				    ZIP_STAT_CRC | ZIP_STAT_ENCRYPTION_METHOD |
				    ZIP_STAT_COMP_METHOD;
	zip_stat_t status;
	if (zip_get_num_entries(u->zip, 0) != (zip_int64_t)u->directory.count)
		return tfc__fail(
			u->error, TFC_EARCHIVE, "bundle", 0,
			"the archive is ambiguous: it can be read in two ways; pack it again");
	for (size_t i = 0; i < u->directory.count; i++) {
		const struct tfc__bundle_entry *entry = &u->directory.entries[i];
		if (zip_stat_index(u->zip, i, ZIP_FL_ENC_RAW, &status) < 0)
			return unpack_refuse(u, entry, zip_strerror(u->zip));
		if (!zip_compression_method_supported(entry->method, 0))
			return unpack_refuse(u, entry, "unknown compression method");
		if ((status.valid & needed) != needed || strcmp(status.name, entry->name) != 0 ||
		    status.size != entry->size || status.comp_size != entry->packed ||
		    status.crc != entry->crc || status.comp_method != entry->method ||
		    status.encryption_method != ZIP_EM_NONE)
			return unpack_refuse(u, entry,
					     "its headers are ambiguous; pack the archive again");
	}
	return TFC_OK;
}

/* ---- writing */

static int unpack_open_beneath(int root, const char *path, uint64_t flags, mode_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC | O_NOFOLLOW,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static int unpack_fail_write(struct unpack *u, const char *name)
{
	return tfc__fail_errno(u->error, "bundle", errno, "cannot unpack entry %.120s", name);
}

/* Creates the folder `path`, whose parent exists; succeeds if it exists already. */
static int unpack_make_folder(struct unpack *u, char *path)
{
	char *slash = strrchr(path, '/');
	int parent = u->root;
	if (slash) {
		*slash = '\0';
		parent = unpack_open_beneath(u->root, path, O_PATH | O_DIRECTORY, 0);
		*slash = '/';
	}
	if (parent < 0)
		return unpack_fail_write(u, path);
	int result = TFC_OK;
	if (mkdirat(parent, slash ? slash + 1 : path, 0755) < 0 && errno != EEXIST)
		result = unpack_fail_write(u, path);
	if (slash)
		close(parent);
	return result;
}

/* Creates all parent folders of an entry, and the entry itself if it is a folder. */
static int unpack_make_folders(struct unpack *u, const char *name)
{
	char *path = strdup(name);
	int result = path ? TFC_OK : tfc__fail_nomem(u->error, "bundle");
	for (char *s = path; result == TFC_OK && (s = strchr(s, '/')); s++) {
		*s = '\0';
		result = unpack_make_folder(u, path);
		*s = '/';
	}
	free(path);
	return result;
}

/* libzip does not report every failed allocation; errno, set to 0 before the call, does. */
static int unpack_fail_read(struct unpack *u, const struct tfc__bundle_entry *entry, int zip_code)
{
	switch (errno == ENOMEM ? ZIP_ER_MEMORY : zip_code) {
	case ZIP_ER_MEMORY:
		return tfc__fail_nomem(u->error, "bundle");
	case ZIP_ER_READ:
		return tfc__bundle_refuse(u->error, TFC_ESYS, entry->name,
					  "cannot read the archive");
	case ZIP_ER_CRC:
		return unpack_refuse(u, entry, "its checksum does not match its content");
	}
	return unpack_refuse(u, entry, "its compressed content is damaged");
}

/* Copies one entry's bytes and counts them, because the declared size may be false. */
static int unpack_write_bytes(struct unpack *u, const struct tfc__bundle_entry *entry,
			      zip_file_t *from, int to)
{
	char chunk[CHUNK];
	uint64_t left = entry->size;
	zip_int64_t n;
	while ((n = zip_fread(from, chunk, sizeof(chunk))) > 0) {
		if ((uint64_t)n > left)
			return unpack_refuse(u, entry, "larger than declared");
		left -= (uint64_t)n;
		if (tfc__write_all(to, chunk, (size_t)n) < 0)
			return unpack_fail_write(u, entry->name);
	}
	if (n < 0)
		return unpack_fail_read(u, entry, zip_error_code_zip(zip_file_get_error(from)));
	if (left)
		return unpack_refuse(u, entry, "smaller than declared");
	if (fchmod(to, entry->mode) < 0)
		return unpack_fail_write(u, entry->name);
	return TFC_OK;
}

static int unpack_write_file(struct unpack *u, size_t index)
{
	const struct tfc__bundle_entry *entry = &u->directory.entries[index];
	errno = 0;
	zip_file_t *from = zip_fopen_index(u->zip, index, 0);
	if (!from && errno == ENOMEM)
		return tfc__fail_nomem(u->error, "bundle");
	if (!from)
		return unpack_refuse(u, entry, zip_strerror(u->zip));
	int to = unpack_open_beneath(u->root, entry->name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	int result = to < 0 ? unpack_fail_write(u, entry->name)
			    : unpack_write_bytes(u, entry, from, to);
	if (to >= 0 && close(to) < 0 && result == TFC_OK)
		result = unpack_fail_write(u, entry->name);
	zip_fclose(from);
	return result;
}

static int compare_name_lengths(const void *left, const void *right)
{
	const struct tfc__bundle_entry *a = *(const struct tfc__bundle_entry *const *)left;
	const struct tfc__bundle_entry *b = *(const struct tfc__bundle_entry *const *)right;
	size_t a_len = strlen(a->name), b_len = strlen(b->name);
	return a_len > b_len ? -1 : a_len < b_len;
}

/*
 * Last, and inner folders before outer ones: a folder's mode may deny access to this process as
 * well.
 */
static int unpack_set_folder_modes(struct unpack *u)
{
	const struct tfc__bundle_entry **folders = calloc(u->directory.count + 1, sizeof(*folders));
	size_t count = 0;
	int result = TFC_OK;
	if (!folders)
		return tfc__fail_nomem(u->error, "bundle");
	for (size_t i = 0; i < u->directory.count; i++)
		if (u->directory.entries[i].is_directory)
			folders[count++] = &u->directory.entries[i];
	qsort(folders, count, sizeof(*folders), compare_name_lengths);
	for (size_t i = 0; i < count && result == TFC_OK; i++) {
		int fd = unpack_open_beneath(u->root, folders[i]->name, O_RDONLY | O_DIRECTORY, 0);
		if (fd < 0 || fchmod(fd, folders[i]->mode) < 0)
			result = unpack_fail_write(u, folders[i]->name);
		if (fd >= 0)
			close(fd);
	}
	free(folders);
	return result;
}

/* ---- the whole */

static int unpack_open_zip(struct unpack *u, int fd)
{
	zip_error_t detail;
	zip_error_init(&detail);
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* libzip's own descriptor would be inheritable */
	FILE *file = copy < 0 ? NULL : fdopen(copy, "rb");
	int result = file ? TFC_OK
			  : tfc__fail_errno(u->error, "bundle", errno, "cannot read the archive");
	if (!file && copy >= 0)
		close(copy);
	errno = 0;
	zip_source_t *source = file ? zip_source_filep_create(file, 0, -1, &detail) : NULL;
	if (file && !source)
		fclose(file);
	if (source)
		u->zip = zip_open_from_source(source, ZIP_RDONLY, &detail);
	if (source && !u->zip)
		zip_source_free(source);
	bool is_nomem = errno == ENOMEM || zip_error_code_zip(&detail) == ZIP_ER_MEMORY;
	if (file && !u->zip)
		result = is_nomem ? tfc__fail_nomem(u->error, "bundle")
				  : tfc__fail(u->error, TFC_EARCHIVE, "bundle", 0, "%s",
					      zip_error_strerror(&detail));
	zip_error_fini(&detail);
	return result;
}

/* Scans the archive and opens it with libzip. */
static int unpack_open_archive(struct unpack *u, const char *zip_path,
			       const struct tfc__bundle_limits *limits)
{
	int fd = open(zip_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return tfc__fail_errno(u->error, "bundle", errno, "cannot open \"%.120s\"",
				       zip_path);
	int result = tfc__bundle_scan(fd, limits, u->error, &u->directory);
	if (result == TFC_OK)
		result = unpack_open_zip(u, fd);
	if (result == TFC_OK)
		result = unpack_compare_readers(u);
	close(fd);
	return result < 0 ? tfc__fail_prefix(u->error, result, "%.80s: ", zip_path) : TFC_OK;
}

static int unpack_open_empty(const char *path, struct unpack *u)
{
	struct tfc__dir dir;
	u->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (u->root >= 0)
		tfc__dir_init(&dir, u->root);
	bool has_entry = u->root >= 0 && tfc__dir_next(&dir);
	if (u->root < 0 || errno)
		return tfc__fail_errno(u->error, "bundle", errno,
				       "cannot open directory \"%.120s\"", path);
	if (!has_entry)
		return TFC_OK;
	return tfc__fail(u->error, TFC_EEXIST, "bundle", 0, "directory \"%.120s\" is not empty",
			 path);
}

int tfc__bundle_unpack(const char *zip_path, const char *dir,
		       const struct tfc__bundle_limits *limits, tfc_error *error)
{
	struct unpack u = {.root = -1, .error = error};
	bool is_begun = false;
	int result = unpack_open_empty(dir, &u);
	if (result == TFC_OK)
		result = unpack_open_archive(&u, zip_path, limits);
	is_begun = result == TFC_OK;
	for (size_t i = 0; result == TFC_OK && i < u.directory.count; i++) {
		result = unpack_make_folders(&u, u.directory.entries[i].name);
		if (result == TFC_OK && !u.directory.entries[i].is_directory)
			result = unpack_write_file(&u, i);
	}
	if (result == TFC_OK)
		result = unpack_set_folder_modes(&u);
	zip_discard(u.zip); /* first: tfc__empty_dir may need the descriptor */
	tfc__bundle_scan_fini(&u.directory);
	if (result < 0 && is_begun)
		tfc__empty_dir(u.root);
	else if (u.root >= 0)
		close(u.root);
	return result;
}

int tfc_bundle_unpack(const char *zip_path, const char *dir, tfc_error *error)
{
	if (!zip_path || !dir)
		return tfc__fail(error, TFC_EINVAL, "bundle", 0,
				 "tfc_bundle_unpack: an argument is NULL");
	return tfc__bundle_unpack(zip_path, dir, &tfc__bundle_limits, error);
}
