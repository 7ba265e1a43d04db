/* Opens a state directory: checks its format, locks it, and removes the remains of a crash. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dir.h"
#include "base/fail.h"
#include "base/file.h"
#include "store/disk.h"

#define FORMAT "FORMAT"
#define LOCK "lock"
#define OPENS "opens" /* number of openings: the upper half of versions */
#define SEAL_KEY "key"
#define WORD "tfcluster state "

#define PATIENCE (3 * TFC__SECOND)
#define PAUSE_NS (10 * 1000 * 1000)

static int disk_fail(const struct tfc__disk *disk, int sys_errno, const char *what,
		     tfc_error *error)
{
	return tfc__fail_errno(error, "store", sys_errno, "cannot %s state directory \"%s\"", what,
			       disk->path);
}

static int disk_open_root(struct tfc__disk *disk, tfc_error *error)
{
	bool is_made = disk->calls->mkdir(AT_FDCWD, disk->path) == 0;
	if (!is_made && errno != EEXIST && errno != EROFS)
		return disk_fail(disk, errno, "create", error);
	disk->root = open(disk->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (disk->root < 0)
		return disk_fail(disk, errno, "open", error);
	if (!is_made)
		return TFC_OK;
	int parent = openat(disk->root, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0) /* the parent may not be readable */
		return TFC_OK;
	int failed = disk->calls->fsync(parent) < 0 ? errno : 0;
	close(parent);
	return failed ? disk_fail(disk, failed, "create", error) : TFC_OK;
}

/* ---- the format, which is checked before anything is written */

/* A directory without a FORMAT file is new if it contains only files that a crash can leave. */
static int disk_check_unused(const struct tfc__disk *disk, tfc_error *error)
{
	struct tfc__dir dir;
	tfc__dir_init(&dir, disk->root);
	for (const char *name; (name = tfc__dir_next(&dir));)
		if (strcmp(name, LOCK) != 0 && strcmp(name, TFC__DISK_TEMP) != 0)
			return tfc__fail(error, TFC_EPARSE, "store", 0,
					 "\"%s\" is not a state directory: it has no file " FORMAT
					 " and contains \"%.60s\"; use a new or an empty directory",
					 disk->path, name);
	return TFC_OK;
}

static int disk_check_format(const struct tfc__disk *disk, bool *ret_is_new, tfc_error *error)
{
	struct tfc__buf text = {0};
	int code = tfc__disk_read(disk, FORMAT, 256, &text, error);
	*ret_is_new = code == TFC_ENOENT;
	if (code == TFC_ENOENT) {
		code = disk_check_unused(disk, error);
	} else if (code == TFC_OK) {
		unsigned long version = 0;
		if (strncmp(text.data ? text.data : "", WORD, sizeof(WORD) - 1) == 0)
			version = strtoul(text.data + sizeof(WORD) - 1, NULL, 10);
		if (version != TFC__DISK_FORMAT)
			code = tfc__fail(
				error, TFC_EPARSE, "store", 0,
				version > TFC__DISK_FORMAT
					? "state directory \"%s\" was written by a later version "
					  "of libtfcluster (format %lu); use that version"
					: "\"%s\" is not a state directory: its file " FORMAT
					  " is not valid",
				disk->path, version);
	}
	tfc__buf_fini(&text);
	return code;
}

/* ---- the lock */

static int disk_lock(struct tfc__disk *disk, pid_t owner, tfc_error *error)
{
	char text[32] = "";
	uint64_t until = tfc__now() + PATIENCE;
	disk->lock = openat(disk->root, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (disk->lock < 0)
		return disk_fail(disk, errno, "open the lock file of", error);
	while (flock(disk->lock, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return disk_fail(disk, errno, "lock", error);
		ssize_t read = pread(disk->lock, text, sizeof(text) - 1, 0);
		text[read > 0 ? read : 0] = '\0';
		pid_t other = (pid_t)strtol(text, NULL, 10);
		bool is_alive = other > 0 && (kill(other, 0) == 0 || errno == EPERM);
		/* The helper of a dead owner may not have ended yet. */
		if (is_alive || tfc__now() > until)
			return tfc__fail(
				error, TFC_EBUSY, "store", 0,
				"state directory \"%s\" is in use by process %d; if it is a "
				"node, use that one, or stop it; or use another directory",
				disk->path, (int)other);
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	int len = snprintf(text, sizeof(text), "%d\n", (int)owner);
	if (ftruncate(disk->lock, 0) < 0 || pwrite(disk->lock, text, (size_t)len, 0) != len)
		return disk_fail(disk, errno, "write the lock file of", error);
	return TFC_OK;
}

/* ---- the contents */

static int disk_make_state_folder(struct tfc__disk *disk, const char *name, tfc_error *error)
{
	if (disk->calls->mkdir(disk->root, name) == 0 || errno == EEXIST)
		return TFC_OK;
	return disk_fail(disk, errno, "create a directory in", error);
}

/* Versions start above all that were ever assigned. */
static int disk_count_opens(struct tfc__disk *disk, tfc_error *error)
{
	struct tfc__buf text = {0};
	char number[32];
	int code = tfc__disk_read(disk, OPENS, sizeof(number), &text, error);
	uint64_t opens = code == TFC_OK ? strtoull(text.data ? text.data : "", NULL, 10) : 0;
	bool is_wrong = code == TFC_OK && (opens == 0 || opens >= UINT32_MAX);
	tfc__buf_fini(&text);
	if (is_wrong)
		return tfc__fail(error, TFC_EPARSE, "store", 0, "\"%s/" OPENS "\" is damaged",
				 disk->path);
	if (code < 0 && code != TFC_ENOENT)
		return code;
	int len = snprintf(number, sizeof(number), "%llu\n", (unsigned long long)++opens);
	disk->version = opens << 32;
	return tfc__disk_write(disk, OPENS, number, (size_t)len, NULL, 0, error);
}

static int disk_load_seal_key(struct tfc__disk *disk, tfc_error *error)
{
	struct tfc__buf key = {0};
	int code = tfc__disk_read(disk, SEAL_KEY, TFC__STORE_SEAL_SIZE, &key, error);
	if (code == TFC_OK && key.len != TFC__STORE_SEAL_SIZE)
		code = tfc__fail(error, TFC_EPARSE, "store", 0, "\"%s/" SEAL_KEY "\" is damaged",
				 disk->path);
	if (code == TFC_OK) {
		memcpy(disk->seal_key, key.data, TFC__STORE_SEAL_SIZE);
		sodium_memzero(key.data, key.len);
	} else if (code == TFC_ENOENT) {
		randombytes_buf(disk->seal_key, TFC__STORE_SEAL_SIZE);
		code = tfc__disk_write(disk, SEAL_KEY, disk->seal_key, TFC__STORE_SEAL_SIZE, NULL,
				       0, error);
	}
	tfc__buf_fini(&key);
	return code;
}

/* FORMAT is written first: a directory without it may contain only the lock and temporary files. */
static int disk_prepare(struct tfc__disk *disk, bool is_new, tfc_error *error)
{
	int code = disk_make_state_folder(disk, TFC__DISK_TEMP, error);
	if (code < 0)
		return code;
	/* The files that were being written or removed when a helper died. */
	int temp = openat(disk->root, TFC__DISK_TEMP,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int failed = temp < 0 ? errno : tfc__empty_dir(temp);
	if (failed)
		return disk_fail(disk, failed, "clear " TFC__DISK_TEMP " of", error);
	if (is_new) {
		char text[64];
		int len = snprintf(text, sizeof(text), WORD "%d\n", TFC__DISK_FORMAT);
		code = tfc__disk_write(disk, FORMAT, text, (size_t)len, NULL, 0, error);
	}
	if (code == TFC_OK)
		code = disk_make_state_folder(disk, TFC__DISK_RECORDS, error);
	if (code == TFC_OK)
		code = disk_count_opens(disk, error); /* also syncs the directory */
	return code == TFC_OK ? disk_load_seal_key(disk, error) : code;
}

int tfc__disk_open(struct tfc__disk *disk, const char *path, pid_t owner,
		   const struct tfc__disk_calls *calls, tfc_error *error)
{
	bool is_new;
	*disk = (struct tfc__disk){.calls = calls, .root = -1, .lock = -1};
	disk->path = strdup(path);
	if (!disk->path)
		return tfc__fail_nomem(error, "store");
	int code = disk_open_root(disk, error);
	if (code == TFC_OK)
		code = disk_check_format(disk, &is_new, error);
	if (code == TFC_OK)
		code = disk_lock(disk, owner, error);
	if (code == TFC_OK) /* another process may have created it meanwhile */
		code = disk_check_format(disk, &is_new, error);
	return code == TFC_OK ? disk_prepare(disk, is_new, error) : code;
}

void tfc__disk_close(struct tfc__disk *disk)
{
	if (!disk->path)
		return;
	if (disk->lock >= 0)
		close(disk->lock);
	if (disk->root >= 0)
		close(disk->root);
	sodium_memzero(disk->seal_key, sizeof(disk->seal_key));
	free(disk->path);
	disk->path = NULL;
}
