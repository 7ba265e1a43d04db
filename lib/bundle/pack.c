/*
 * Packing. The names are collected first and checked by the same rules as for unpacking, so that
 * every packed archive can be unpacked. Entries are stored uncompressed, sorted and without times:
 * the same directory always gives the same bytes and the same hash, and no time is spent on
 * compressing files that stay on the same disk.
 */
#include "bundle/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zip.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"

#define CHUNK 65536
#define DOS_DATE_1980 0x21 /* 1 January 1980, the earliest date of a zip */

/* A file or folder to pack. */
struct item {
	char *name; /* in the archive; folders end in '/' */
	mode_t mode;
	uint64_t size;
	struct pack *pack;
	int fd; /* open while its bytes are read */
	zip_error_t detail;
};

struct pack {
	const char *path; /* what is packed; borrowed */
	int root;         /* the directory, or the parent directory of a single file */
	struct item *items;
	size_t count;
	size_t capacity;
	uint64_t bytes;
	struct stat own; /* the archive itself, which may lie in the directory and is skipped */
	tfc_error *error;
};

static int pack_refuse(struct pack *p, int code, const char *name, const char *why)
{
	return tfc__fail(p->error, code, "bundle", 0, "%.150s: %s", name, why);
}

static int pack_fail_errno(struct pack *p, const char *name)
{
	return tfc__fail_errno(p->error, "bundle", errno, "%.150s", name);
}

/* Opens a file to pack: symbolic links are followed only inside the directory. */
static int pack_open_inside(int root, const char *name, uint64_t flags)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	return (int)syscall(SYS_openat2, root, name, &how, sizeof(how));
}

/* ---- collecting */

/* Whether the latest item fits into a bundle. */
static int pack_check_limits(struct pack *p)
{
	const struct item *item = &p->items[p->count - 1];
	char size[TFC__MEMORY_TEXT_SIZE], limit[TFC__MEMORY_TEXT_SIZE];
	if (p->count > tfc__bundle_limits.entries)
		return tfc__fail(p->error, TFC_ETOOBIG, "bundle", 0,
				 "%.150s: a bundle has at most %u files and directories, and this "
				 "has more; " TFC__BUNDLE_HINT,
				 p->path, tfc__bundle_limits.entries);
	if (item->size <= tfc__bundle_limits.bytes - p->bytes)
		return TFC_OK;
	tfc__memory_text(item->size, size);
	tfc__memory_text(tfc__bundle_limits.bytes, limit);
	return tfc__fail(p->error, TFC_ETOOBIG, "bundle", 0,
			 "%.150s: with this file of %s the bundle exceeds the limit of "
			 "%s; " TFC__BUNDLE_HINT,
			 item->name, size, limit);
}

/* Takes ownership of `name`. */
static int pack_add_item(struct pack *p, char *name, const struct stat *status)
{
	if (p->count == p->capacity) {
		size_t capacity = p->capacity ? p->capacity * 2 : 64;
		struct item *items = realloc(p->items, capacity * sizeof(*items));
		if (!items) {
			free(name);
			return tfc__fail_nomem(p->error, "bundle");
		}
		p->items = items;
		p->capacity = capacity;
	}
	p->items[p->count++] = (struct item){
		.name = name,
		.mode = status->st_mode,
		.size = S_ISREG(status->st_mode) ? (uint64_t)status->st_size : 0,
		.fd = -1,
	};
	int result = tfc__bundle_name_check(name, p->error);
	if (result == TFC_OK)
		result = pack_check_limits(p);
	p->bytes += result == TFC_OK ? p->items[p->count - 1].size : 0;
	return result;
}

static int pack_add_directory(struct pack *p, const char *name);

/* Adds the file or directory `name`; takes ownership of `name`. */
static int pack_add_path(struct pack *p, char *name)
{
	struct stat link, status;
	const char *why = NULL;
	int result = TFC_OK;
	if (fstatat(p->root, name, &link, AT_SYMLINK_NOFOLLOW) < 0) {
		result = pack_fail_errno(p, name);
		goto done;
	}
	if (link.st_dev == p->own.st_dev && link.st_ino == p->own.st_ino)
		goto done; /* the archive itself */
	status = link;
	if (S_ISLNK(link.st_mode)) {
		int fd = pack_open_inside(p->root, name, O_PATH);
		if (fd < 0 || fstat(fd, &status) < 0)
			why = "a link that is broken or leads out of the directory";
		else if (!S_ISREG(status.st_mode))
			why = "a link to something that is not a file";
		if (fd >= 0)
			close(fd);
	} else if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
		why = "neither a file nor a directory";
	}
	if (why) {
		result = pack_refuse(p, TFC_EARCHIVE, name, why);
		goto done;
	}
	if (S_ISREG(status.st_mode))
		return pack_add_item(p, name, &status);
	char *folder = NULL;
	if (asprintf(&folder, "%s/", name) < 0)
		result = tfc__fail_nomem(p->error, "bundle");
	else
		result = pack_add_item(p, folder, &status);
	if (result == TFC_OK)
		result = pack_add_directory(p, name);
done:
	free(name);
	return result;
}

static int pack_add_directory(struct pack *p, const char *name)
{
	int fd = pack_open_inside(p->root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		int result = pack_fail_errno(p, name);
		if (fd >= 0)
			close(fd);
		return result;
	}
	int result = TFC_OK;
	struct dirent *entry;
	while (result == TFC_OK && (errno = 0, entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		char *child = strcmp(name, ".") == 0 ? strdup(entry->d_name)
						     : tfc__path_join(name, entry->d_name);
		result = child ? pack_add_path(p, child) : tfc__fail_nomem(p->error, "bundle");
	}
	if (result == TFC_OK && errno)
		result = pack_fail_errno(p, name);
	closedir(dir);
	return result;
}

static int compare_pack_items(const void *left, const void *right)
{
	const struct item *a = left, *b = right;
	return strcmp(a->name, b->name);
}

/* ---- writing */

static zip_int64_t pack_fail_source(struct item *item, int zip_code)
{
	zip_error_set(&item->detail, zip_code, errno);
	return -1;
}

/* libzip's source of the bytes of one file; only one is open at a time. */
static zip_int64_t pack_read_item(void *user, void *data, zip_uint64_t len,
				  zip_source_cmd_t command)
{
	struct item *item = user;
	zip_stat_t *status = data;
	ssize_t n;
	switch (command) {
	case ZIP_SOURCE_OPEN:
		item->fd = pack_open_inside(item->pack->root, item->name, O_RDONLY | O_NONBLOCK);
		return item->fd < 0 ? pack_fail_source(item, ZIP_ER_OPEN) : 0;
	case ZIP_SOURCE_READ:
		do
			n = read(item->fd, data, len);
		while (n < 0 && errno == EINTR);
		return n < 0 ? pack_fail_source(item, ZIP_ER_READ) : n;
	case ZIP_SOURCE_CLOSE:
		close(item->fd);
		item->fd = -1;
		return 0;
	case ZIP_SOURCE_STAT:
		zip_stat_init(status);
		status->size = item->size;
		status->valid = ZIP_STAT_SIZE;
		return sizeof(*status);
	case ZIP_SOURCE_ERROR:
		return zip_error_to_data(&item->detail, data, len);
	case ZIP_SOURCE_FREE:
		return 0;
	default:
		zip_error_set(&item->detail, ZIP_ER_OPNOTSUPP, 0);
		return -1;
	}
}

/* libzip does not report every failed allocation; errno, set to 0 before the call, does. */
static int pack_fail_zip(struct pack *p, zip_t *zip, const char *name)
{
	bool is_nomem = errno == ENOMEM;
	int sys_errno = zip_error_code_system(zip_get_error(zip));
	if (is_nomem || zip_error_code_zip(zip_get_error(zip)) == ZIP_ER_MEMORY)
		return tfc__fail_nomem(p->error, "bundle");
	if (sys_errno == ENOSPC || sys_errno == EACCES || sys_errno == ENOMEM) {
		errno = sys_errno;
		return pack_fail_errno(p, name);
	}
	return pack_refuse(p, TFC_ESYS, name, zip_strerror(zip));
}

static int pack_write_item(struct pack *p, zip_t *zip, struct item *item)
{
	const zip_flags_t flags = ZIP_FL_ENC_GUESS;
	bool is_directory = S_ISDIR(item->mode);
	zip_uint32_t dos_folder = is_directory ? 0x10 : 0;
	zip_int64_t index = -1;
	item->pack = p;
	if (is_directory) {
		index = zip_dir_add(zip, item->name, flags);
	} else {
		zip_source_t *source = zip_source_function(zip, pack_read_item, item);
		index = source ? zip_file_add(zip, item->name, source, flags) : -1;
		if (index < 0)
			zip_source_free(source);
	}
	if (index < 0)
		return pack_fail_zip(p, zip, item->name);
	zip_uint32_t mode = (item->mode & (S_IFMT | 0777)) << 16 | dos_folder;
	if (zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) < 0 ||
	    zip_file_set_dostime(zip, (zip_uint64_t)index, 0, DOS_DATE_1980, 0) < 0 ||
	    zip_file_set_external_attributes(zip, (zip_uint64_t)index, 0, ZIP_OPSYS_UNIX, mode) < 0)
		return pack_fail_zip(p, zip, item->name);
	return TFC_OK;
}

static int pack_write_items(struct pack *p, const char *zip_path)
{
	int code = 0;
	errno = 0;
	zip_t *zip = zip_open(zip_path, ZIP_CREATE | ZIP_TRUNCATE, &code);
	if (!zip && (code == ZIP_ER_MEMORY || errno == ENOMEM))
		return tfc__fail_nomem(p->error, "bundle");
	if (!zip)
		return pack_refuse(p, TFC_ESYS, zip_path, "cannot create the archive");
	int result = TFC_OK;
	for (size_t i = 0; i < p->count && result == TFC_OK; i++)
		result = pack_write_item(p, zip, &p->items[i]);
	if (result == TFC_OK && zip_close(zip) == 0)
		return TFC_OK;
	if (result == TFC_OK)
		result = pack_fail_zip(p, zip, zip_path);
	zip_discard(zip);
	return result;
}

static int pack_copy_zip(struct pack *p, int from, int to, const char *path)
{
	char chunk[CHUNK];
	struct tfc__bundle_directory directory;
	int result = tfc__bundle_scan(from, &tfc__bundle_limits, p->error, &directory);
	if (result < 0)
		return tfc__fail_prefix(p->error, result, "%.80s: ", path);
	tfc__bundle_scan_fini(&directory);
	for (;;) {
		ssize_t n = read(from, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return TFC_OK;
		if (n < 0 || tfc__write_all(to, chunk, (size_t)n) < 0)
			return pack_fail_errno(p, path);
	}
}

/* ---- the whole */

/* By the file's name or its first bytes: a file with the name of an archive must be a valid one. */
static bool is_meant_as_zip(const char *path, int fd)
{
	char magic[4];
	const char *dot = strrchr(path, '.');
	bool is_named = dot && strlen(dot) == 4 && (dot[1] | 0x20) == 'z' &&
			(dot[2] | 0x20) == 'i' && (dot[3] | 0x20) == 'p';
	return is_named || (pread(fd, magic, 4, 0) == 4 &&
			    (memcmp(magic, "PK\3\4", 4) == 0 || memcmp(magic, "PK\5\6", 4) == 0));
}

/* Collects a single file: its name is the last part of the path, the root is the rest. */
static int pack_add_single_file(struct pack *p, const char *path, const struct stat *status)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash == path ? strdup("/")
		       : slash       ? strndup(path, (size_t)(slash - path))
				     : strdup(".");
	char *name = strdup(slash ? slash + 1 : path);
	if (!folder || !name) {
		free(folder);
		free(name);
		return tfc__fail_nomem(p->error, "bundle");
	}
	p->root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(folder);
	if (p->root < 0) {
		free(name);
		return pack_fail_errno(p, path);
	}
	return pack_add_item(p, name, status);
}

static int pack_into(struct pack *p, const char *path, int from, const struct stat *status,
		     const char *zip_path, int to)
{
	int result;
	if (S_ISREG(status->st_mode) && is_meant_as_zip(path, from))
		return pack_copy_zip(p, from, to, path);
	if (S_ISREG(status->st_mode)) {
		result = pack_add_single_file(p, path, status);
	} else if (S_ISDIR(status->st_mode)) {
		p->root = fcntl(from, F_DUPFD_CLOEXEC, 0);
		result = p->root < 0 ? pack_fail_errno(p, path) : pack_add_directory(p, ".");
	} else {
		result = pack_refuse(p, TFC_EARCHIVE, path, "neither a file nor a directory");
	}
	if (result < 0)
		return result;
	if (p->count == 0) { /* libzip writes no empty archive: only the end record (4.3.16) */
		static const char end[22] = {'P', 'K', 5, 6};
		return tfc__write_all(to, end, sizeof(end)) < 0 ? pack_fail_errno(p, "the archive")
								: TFC_OK;
	}
	struct tfc__bundle_name *names = calloc(p->count, sizeof(*names));
	if (!names)
		return tfc__fail_nomem(p->error, "bundle");
	for (size_t i = 0; i < p->count; i++)
		names[i] = (struct tfc__bundle_name){p->items[i].name, S_ISDIR(p->items[i].mode)};
	result = tfc__bundle_names_check(names, p->count, p->error);
	free(names);
	if (result < 0)
		return result;
	qsort(p->items, p->count, sizeof(*p->items), compare_pack_items);
	return pack_write_items(p, zip_path);
}

int tfc_bundle_pack(const char *path, const char *zip_path, tfc_error *error)
{
	struct pack p = {.path = path, .root = -1, .error = error};
	struct stat status;
	int result = TFC_OK, to = -1;
	if (!path || !zip_path)
		return tfc__fail(error, TFC_EINVAL, "bundle", 0,
				 "tfc_bundle_pack: an argument is NULL");
	int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (from < 0 || fstat(from, &status) < 0)
		result = pack_fail_errno(&p, path);
	if (result == TFC_OK) {
		to = open(zip_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (to < 0 || fstat(to, &p.own) < 0)
			result = pack_fail_errno(&p, zip_path);
	}
	if (result == TFC_OK && (result = pack_into(&p, path, from, &status, zip_path, to)) < 0)
		unlink(zip_path);
	for (size_t i = 0; i < p.count; i++)
		free(p.items[i].name);
	free(p.items);
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	if (p.root >= 0)
		close(p.root);
	return result;
}
