/* Performs the requests of a store on files. */
#include "store/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/strv.h"
#include "store/internal.h"

static void record_path(const char *key, char path[TFC__DISK_PATH_MAX])
{
	snprintf(path, TFC__DISK_PATH_MAX, TFC__DISK_RECORDS "/%s", key);
}

/* Reads the complete file; the value follows the head. */
static int disk_read_record(const struct tfc__disk *disk, const char *key, struct tfc__buf *file,
			    uint64_t *ret_version, tfc_error *error)
{
	char path[TFC__DISK_PATH_MAX];
	const char *why;
	record_path(key, path);
	int code = tfc__disk_read(disk, path, TFC__RECORD_HEAD + TFC__STORE_VALUE_MAX, file, error);
	if (code == TFC_OK && tfc__record_check(key, file->data, file->len, ret_version, &why) < 0)
		code = tfc__fail(error, TFC_EPARSE, "store", 0, "record \"%s/%s\" is damaged: %s",
				 disk->path, path, why);
	return code;
}

int tfc__disk_get(struct tfc__disk *disk, const char *key, struct tfc__buf *data, tfc_error *error,
		  uint64_t *ret_version)
{
	struct tfc__buf file = {0};
	int code = disk_read_record(disk, key, &file, ret_version, error);
	if (code == TFC_OK)
		tfc__buf_add(data, file.data + TFC__RECORD_HEAD, file.len - TFC__RECORD_HEAD);
	tfc__buf_fini(&file);
	return code == TFC_OK && data->is_failed ? tfc__fail_nomem(error, "store") : code;
}

/* ---- put */

/* Creates each folder of a file's path and syncs the parent folder. */
static int disk_make_record_folders(struct tfc__disk *disk, char *path, tfc_error *error)
{
	for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		int code = TFC_OK;
		*slash = '\0';
		if (disk->calls->mkdir(disk->root, path) == 0)
			code = tfc__disk_sync_folder(disk, path, error);
		else if (errno != EEXIST)
			code = tfc__fail_errno(error, "store", errno, "cannot create \"%s/%s\"",
					       disk->path, path);
		*slash = '/';
		if (code < 0)
			return code;
	}
	return TFC_OK;
}

int tfc__disk_put(struct tfc__disk *disk, const char *key, const void *data, size_t len,
		  uint64_t version, tfc_error *error, uint64_t *ret_version)
{
	char path[TFC__DISK_PATH_MAX];
	uint8_t head[TFC__RECORD_HEAD];
	int code;
	record_path(key, path);
	if (version != UINT64_MAX) {
		struct tfc__buf file = {0};
		uint64_t there = 0;
		code = disk_read_record(disk, key, &file, &there, error);
		tfc__buf_fini(&file);
		if (code < 0 && code != TFC_ENOENT)
			return code;
		if (there != version)
			return tfc__fail(error, TFC_ESTATE, "store", 0,
					 "record \"%s/%s\" has another version", disk->path, path);
	}
	code = disk_make_record_folders(disk, path, error);
	if (code < 0)
		return code;
	*ret_version = ++disk->version;
	tfc__record_head(key, data, len, *ret_version, head);
	return tfc__disk_write(disk, path, head, sizeof(head), data, len, error);
}

/* ---- remove */

/* Renames the folder first, in one step: the remains after a crash are then no records. */
static int disk_remove_folder(struct tfc__disk *disk, char *path, tfc_error *error)
{
	char temp[TFC__DISK_PATH_MAX];
	path[strlen(path) - 1] = '\0';
	tfc__disk_temp_name(disk, temp);
	if (disk->calls->rename(disk->root, path, temp) < 0)
		return errno == ENOENT
			       ? TFC_OK
			       : tfc__fail_errno(error, "store", errno, "cannot remove \"%s/%s\"",
						 disk->path, path);
	int code = tfc__disk_sync_folder(disk, path, error);
	int fd = openat(disk->root, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		tfc__empty_dir(fd);
	unlinkat(disk->root, temp, AT_REMOVEDIR); /* on failure, the next opening removes it */
	return code;
}

int tfc__disk_remove(struct tfc__disk *disk, const char *key, tfc_error *error)
{
	char path[TFC__DISK_PATH_MAX];
	record_path(key, path);
	if (path[strlen(path) - 1] == '/')
		return disk_remove_folder(disk, path, error);
	if (disk->calls->unlink(disk->root, path) == 0)
		return tfc__disk_sync_folder(disk, path, error);
	if (errno == ENOENT || errno == ENOTDIR)
		return tfc__fail(error, TFC_ENOENT, "store", 0, "no such record: \"%s/%s\"",
				 disk->path, path);
	return tfc__fail_errno(error, "store", errno, "cannot remove \"%s/%s\"", disk->path, path);
}

/* ---- list */

struct listing {
	struct tfc__disk *disk;
	tfc__disk_list_fn fn;
	void *user;
	uint32_t damaged;
	tfc_error *error; /* the error of the first damaged record */
};

static int listing_add_record(struct listing *listing, const char *key)
{
	struct tfc__buf file = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc_store_value value = {.size = sizeof(value), .key = key};
	int code = disk_read_record(listing->disk, key, &file, &value.version, &error);
	if (code == TFC_OK) {
		value.data = file.data + TFC__RECORD_HEAD;
		value.len = file.len - TFC__RECORD_HEAD;
	} else if (code == TFC_EPARSE && listing->damaged++ == 0 && listing->error) {
		*listing->error = error;
	}
	if (code == TFC_OK || code == TFC_EPARSE)
		code = listing->fn(listing->user, &value);
	else if (listing->error)
		*listing->error = error;
	tfc__buf_fini(&file);
	return code;
}

static int compare_record_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Reads the names in a folder, in the order of the keys; names of folders end in '/'. */
static int read_record_names(int fd, struct tfc__strv *names)
{
	struct tfc__dir dir;
	tfc__dir_init(&dir, fd);
	for (const char *name; (name = tfc__dir_next(&dir));) {
		char text[TFC__DISK_PATH_MAX];
		struct stat status;
		bool is_folder = fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
				 S_ISDIR(status.st_mode);
		snprintf(text, sizeof(text), "%s%s", name, is_folder ? "/" : "");
		tfc__strv_add(names, text);
	}
	int failed = names->is_failed ? ENOMEM : errno;
	if (names->count)
		qsort(names->items, names->count, sizeof(*names->items), compare_record_names);
	return failed;
}

static int listing_add_folder(struct listing *listing, const char *prefix)
{
	char path[TFC__DISK_PATH_MAX], key[TFC__STORE_KEY_MAX + 1];
	struct tfc__strv names = {0};
	record_path(prefix, path);
	int fd = openat(listing->disk->root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return TFC_OK;
	int failed = fd < 0 ? errno : read_record_names(fd, &names);
	int code = failed ? tfc__fail_errno(listing->error, "store", failed,
					    "cannot read \"%s/%s\"", listing->disk->path, path)
			  : TFC_OK;
	for (size_t i = 0; i < names.count && code == TFC_OK; i++) {
		const char *name = names.items[i];
		bool is_prefix = name[strlen(name) - 1] == '/';
		int len = snprintf(key, sizeof(key), "%s%s", prefix, name);
		bool is_name = is_prefix ? tfc__is_store_prefix(key) : tfc__is_store_key(key);
		if (len > TFC__STORE_KEY_MAX || !is_name)
			continue; /* not a file of the store */
		code = is_prefix ? listing_add_folder(listing, key)
				 : listing_add_record(listing, key);
	}
	tfc__strv_fini(&names);
	if (fd >= 0)
		close(fd);
	return code;
}

int tfc__disk_list(struct tfc__disk *disk, const char *prefix, tfc__disk_list_fn fn, void *user,
		   tfc_error *error)
{
	struct listing listing = {.disk = disk, .fn = fn, .user = user, .error = error};
	int code = listing_add_folder(&listing, prefix);
	return code == TFC_OK && listing.damaged ? TFC_EPARSE : code;
}
