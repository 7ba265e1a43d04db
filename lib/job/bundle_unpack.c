/*
 * Unpacking. Everything that can be known from the archive's directory is checked before the first
 * byte is written; what is written goes through openat2, beneath the directory and through no link.
 */
#include "job/bundle.h"

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

#define CHUNK 65536

const struct tfc__bundle_limits tfc__bundle_limits = {10000, 200, 1 << 20, UINT64_C(8) << 30};

struct entry {
	struct tfc__bundle_name name;
	uint64_t size;
	mode_t mode;
};

struct unpack {
	zip_t *zip;
	const struct tfc__bundle_limits *limits;
	struct entry *entries;
	size_t count;
	int root;
	tfc_error *error;
};

static int refuse(struct unpack *u, int code, const char *name, const char *why)
{
	return tfc__fail(u->error, code, "bundle", 0, "entry %.120s: %s", name, why);
}

/* ---- what the archive's directory says */

static int check_kind(struct unpack *u, uint64_t index, struct entry *entry)
{
	const char *name = entry->name.text;
	zip_uint8_t system = 0;
	zip_uint32_t attributes = 0;
	zip_file_get_external_attributes(u->zip, index, 0, &system, &attributes);
	bool is_unix = system == ZIP_OPSYS_UNIX || system == ZIP_OPSYS_OS_X;
	mode_t mode = is_unix ? attributes >> 16 : 0;
	bool is_directory = name[strlen(name) - 1] == '/';
	if ((mode & S_IFMT) && !S_ISREG(mode) && !S_ISDIR(mode))
		return refuse(u, TFC_EARCHIVE, name,
			      "a link or device; only files and folders may "
			      "be packed");
	if ((mode & S_IFMT) && is_directory != S_ISDIR(mode))
		return refuse(u, TFC_EARCHIVE, name, "its name and its kind disagree");
	if (!mode) /* packed where files have no permission bits */
		mode = is_directory ? 0755 : 0644;
	entry->name.is_directory = is_directory;
	entry->mode = mode & 0755;
	return TFC_OK;
}

static int check_size(struct unpack *u, const zip_stat_t *status)
{
	const struct tfc__bundle_limits *limits = u->limits;
	if (status->size > limits->ratio_bytes &&
	    status->size > (uint64_t)limits->ratio * status->comp_size)
		return refuse(u, TFC_ETOOBIG, status->name,
			      "it unpacks to over 200 times what is packed; store it as it is");
	return TFC_OK;
}

static int check_entry(struct unpack *u, uint64_t index, struct entry *entry)
{
	const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
				    ZIP_STAT_ENCRYPTION_METHOD | ZIP_STAT_COMP_METHOD;
	zip_stat_t status;
	if (zip_stat_index(u->zip, index, ZIP_FL_ENC_RAW, &status) < 0 ||
	    (status.valid & needed) != needed)
		return tfc__fail(u->error, TFC_EARCHIVE, "bundle", 0, "entry %llu: %s",
				 (unsigned long long)index, zip_strerror(u->zip));
	entry->name.text = status.name;
	entry->size = status.size;
	int result = tfc__bundle_name_check(status.name, u->error);
	if (result == TFC_OK && status.encryption_method != ZIP_EM_NONE)
		result = refuse(u, TFC_EARCHIVE, status.name, "encrypted");
	if (result == TFC_OK &&
	    !zip_compression_method_supported((zip_int32_t)status.comp_method, 0))
		result = refuse(u, TFC_EARCHIVE, status.name, "an unknown compression method");
	if (result == TFC_OK)
		result = check_kind(u, index, entry);
	return result == TFC_OK ? check_size(u, &status) : result;
}

static int check_names(struct unpack *u)
{
	struct tfc__bundle_name *names = calloc(u->count + 1, sizeof(*names));
	if (!names)
		return tfc__fail_nomem(u->error, "bundle");
	for (size_t i = 0; i < u->count; i++)
		names[i] = u->entries[i].name;
	int result = tfc__bundle_names_check(names, u->count, u->error);
	free(names);
	return result;
}

static int check_all(struct unpack *u)
{
	uint64_t total = 0;
	if (u->count > u->limits->entries)
		return tfc__fail(u->error, TFC_ETOOBIG, "bundle", 0,
				 "%zu entries are more than the %u allowed", u->count,
				 u->limits->entries);
	u->entries = calloc(u->count + 1, sizeof(*u->entries));
	if (!u->entries)
		return tfc__fail_nomem(u->error, "bundle");
	for (size_t i = 0; i < u->count; i++) {
		int result = check_entry(u, i, &u->entries[i]);
		if (result < 0)
			return result;
		if (u->entries[i].size > u->limits->bytes - total)
			return refuse(u, TFC_ETOOBIG, u->entries[i].name.text,
				      "with it the archive unpacks to more than is allowed");
		total += u->entries[i].size;
	}
	return check_names(u);
}

/* ---- writing */

static int open_beneath(int root, const char *path, uint64_t flags, mode_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC | O_NOFOLLOW,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
	};
	return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

static int fail_write(struct unpack *u, const char *name)
{
	return tfc__fail_errno(u->error, "bundle", errno, "entry %.120s", name);
}

/* Makes the folder that `path` names, in a parent that is there; fine when it exists. */
static int make_folder(struct unpack *u, char *path)
{
	char *slash = strrchr(path, '/');
	int parent = u->root;
	if (slash) {
		*slash = '\0';
		parent = open_beneath(u->root, path, O_PATH | O_DIRECTORY, 0);
		*slash = '/';
	}
	if (parent < 0)
		return fail_write(u, path);
	int result = TFC_OK;
	if (mkdirat(parent, slash ? slash + 1 : path, 0755) < 0 && errno != EEXIST)
		result = fail_write(u, path);
	if (slash)
		close(parent);
	return result;
}

/* Makes all folders on the way to an entry, and the entry itself when it is one. */
static int make_folders(struct unpack *u, const char *name)
{
	char *path = strdup(name);
	int result = path ? TFC_OK : tfc__fail_nomem(u->error, "bundle");
	for (char *s = path; result == TFC_OK && (s = strchr(s, '/')); s++) {
		*s = '\0';
		result = make_folder(u, path);
		*s = '/';
	}
	free(path);
	return result;
}

/* Copies one entry's bytes, counting them: what the directory declares may be a lie. */
static int write_bytes(struct unpack *u, const struct entry *entry, zip_file_t *from, int to)
{
	char chunk[CHUNK];
	uint64_t left = entry->size;
	zip_int64_t n;
	while ((n = zip_fread(from, chunk, sizeof(chunk))) > 0) {
		if ((uint64_t)n > left)
			return refuse(u, TFC_EARCHIVE, entry->name.text, "larger than declared");
		left -= (uint64_t)n;
		if (tfc__write_all(to, chunk, (size_t)n) < 0)
			return fail_write(u, entry->name.text);
	}
	if (n < 0)
		return refuse(u, TFC_EARCHIVE, entry->name.text,
			      zip_error_strerror(zip_file_get_error(from)));
	if (left)
		return refuse(u, TFC_EARCHIVE, entry->name.text, "smaller than declared");
	if (fchmod(to, entry->mode) < 0)
		return fail_write(u, entry->name.text);
	return TFC_OK;
}

static int write_file(struct unpack *u, size_t index)
{
	const struct entry *entry = &u->entries[index];
	zip_file_t *from = zip_fopen_index(u->zip, index, 0);
	if (!from)
		return refuse(u, TFC_EARCHIVE, entry->name.text, zip_strerror(u->zip));
	int to = open_beneath(u->root, entry->name.text, O_WRONLY | O_CREAT | O_EXCL, 0600);
	int result = to < 0 ? fail_write(u, entry->name.text) : write_bytes(u, entry, from, to);
	if (to >= 0 && close(to) < 0 && result == TFC_OK)
		result = fail_write(u, entry->name.text);
	zip_fclose(from);
	return result;
}

/* Last, and from the inside out: a folder may be read-only. */
static int set_folder_modes(struct unpack *u)
{
	int result = TFC_OK;
	for (size_t i = u->count; i-- > 0 && result == TFC_OK;) {
		const struct entry *entry = &u->entries[i];
		if (!entry->name.is_directory)
			continue;
		int fd = open_beneath(u->root, entry->name.text, O_RDONLY | O_DIRECTORY, 0);
		if (fd < 0 || fchmod(fd, entry->mode) < 0)
			result = fail_write(u, entry->name.text);
		if (fd >= 0)
			close(fd);
	}
	return result;
}

static int write_all(struct unpack *u)
{
	for (size_t i = 0; i < u->count; i++) {
		int result = make_folders(u, u->entries[i].name.text);
		if (result == TFC_OK && !u->entries[i].name.is_directory)
			result = write_file(u, i);
		if (result < 0)
			return result;
	}
	return set_folder_modes(u);
}

/* ---- the whole */

/* Scans and opens the archive. */
static int open_archive(struct unpack *u, const char *zip_path)
{
	uint64_t count = 0;
	int fd = open(zip_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return tfc__fail_errno(u->error, "bundle", errno, "cannot open %.120s", zip_path);
	int result = tfc__bundle_scan(fd, &count, u->error);
	close(fd);
	if (result < 0)
		return tfc__fail_prefix(u->error, result, "%.80s: ", zip_path);
	int code = 0;
	u->zip = zip_open(zip_path, ZIP_RDONLY, &code);
	if (!u->zip) {
		zip_error_t detail;
		zip_error_init_with_code(&detail, code);
		result = tfc__fail(u->error, code == ZIP_ER_MEMORY ? TFC_ENOMEM : TFC_EARCHIVE,
				   "bundle", 0, "%.80s: %s", zip_path, zip_error_strerror(&detail));
		zip_error_fini(&detail);
		return result;
	}
	u->count = (size_t)zip_get_num_entries(u->zip, 0);
	if (u->count != count)
		return tfc__fail(u->error, TFC_EARCHIVE, "bundle", 0,
				 "%.80s: the archive's directory is damaged", zip_path);
	return TFC_OK;
}

static struct dirent *next_in(DIR *dir)
{
	struct dirent *item;
	while ((item = readdir(dir)))
		if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0)
			break;
	return item;
}

static int open_empty(const char *path, struct unpack *u)
{
	u->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = u->root < 0 ? NULL : opendir(path);
	if (!dir)
		return tfc__fail_errno(u->error, "bundle", errno,
				       "cannot open the directory %.120s", path);
	bool is_empty = !next_in(dir);
	closedir(dir);
	if (is_empty)
		return TFC_OK;
	return tfc__fail(u->error, TFC_EEXIST, "bundle", 0, "the directory %.120s is not empty",
			 path);
}

static void empty_again(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *item;
	while (dir && (item = next_in(dir))) {
		char *child = tfc__path_join(path, item->d_name);
		if (child)
			tfc__remove_tree(child);
		free(child);
	}
	if (dir)
		closedir(dir);
}

int tfc__bundle_unpack(const char *zip_path, const char *dir,
		       const struct tfc__bundle_limits *limits, tfc_error *error)
{
	struct unpack u = {.limits = limits, .root = -1, .error = error};
	int result = open_empty(dir, &u);
	if (result == TFC_OK)
		result = open_archive(&u, zip_path);
	if (result == TFC_OK)
		result = check_all(&u);
	if (result == TFC_OK && (result = write_all(&u)) < 0)
		empty_again(dir);
	zip_discard(u.zip);
	free(u.entries);
	if (u.root >= 0)
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
