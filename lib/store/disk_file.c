/* Files that are written completely or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"
#include "store/disk.h"

static int disk_create_file(int dir, const char *path)
{
	return openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int disk_rename_file(int dir, const char *from, const char *to)
{
	return renameat(dir, from, dir, to);
}

static int disk_unlink_file(int dir, const char *path)
{
	return unlinkat(dir, path, 0);
}

static int disk_make_folder(int dir, const char *path)
{
	return mkdirat(dir, path, 0700);
}

const struct tfc__disk_calls tfc__disk_calls = {
	.create = disk_create_file,
	.write = write,
	.fsync = fsync,
	.rename = disk_rename_file,
	.unlink = disk_unlink_file,
	.mkdir = disk_make_folder,
};

void tfc__disk_temp_name(struct tfc__disk *disk, char name[TFC__DISK_PATH_MAX])
{
	snprintf(name, TFC__DISK_PATH_MAX, TFC__DISK_TEMP "/%llu",
		 (unsigned long long)++disk->temps);
}

int tfc__disk_sync_folder(struct tfc__disk *disk, const char *path, tfc_error *error)
{
	char folder[TFC__DISK_PATH_MAX];
	const char *slash = strrchr(path, '/');
	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) : 1,
		 slash ? path : ".");
	int fd = openat(disk->root, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int failed = fd < 0 || disk->calls->fsync(fd) < 0 ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (failed)
		return tfc__fail_errno(error, "store", failed, "cannot sync \"%s/%s\"", disk->path,
				       folder);
	return TFC_OK;
}

int tfc__disk_write(struct tfc__disk *disk, const char *path, const void *head, size_t head_len,
		    const void *data, size_t len, tfc_error *error)
{
	char temp[TFC__DISK_PATH_MAX];
	int failed = 0;
	tfc__disk_temp_name(disk, temp);
	int fd = disk->calls->create(disk->root, temp);
	if (fd < 0 || tfc__write_all_by(disk->calls->write, fd, head, head_len) < 0 ||
	    tfc__write_all_by(disk->calls->write, fd, data, len) < 0 || disk->calls->fsync(fd) < 0)
		failed = errno;
	if (fd >= 0 && close(fd) < 0 && !failed)
		failed = errno;
	if (!failed && disk->calls->rename(disk->root, temp, path) < 0)
		failed = errno;
	if (!failed)
		return tfc__disk_sync_folder(disk, path, error);
	unlinkat(disk->root, temp, 0);
	return tfc__fail_errno(error, "store", failed, "cannot write \"%s/%s\"", disk->path, path);
}

/* Returns 0, or an errno; EFBIG when the file has more than `max` bytes or is no regular file. */
static int disk_read_up_to(int fd, size_t max, struct tfc__buf *data)
{
	struct stat status;
	if (fstat(fd, &status) < 0)
		return errno;
	size_t size = S_ISREG(status.st_mode) ? (size_t)status.st_size : max + 1;
	if (size > max)
		return EFBIG;
	for (;;) {
		char *end = tfc__buf_reserve(data, size + 1);
		if (!end)
			return ENOMEM;
		ssize_t n = read(fd, end, size + 1);
		if (n < 0 && errno != EINTR)
			return errno;
		if (n == 0)
			return 0;
		if (n > 0)
			tfc__buf_grow(data, (size_t)n);
		if (data->len > max)
			return EFBIG;
	}
}

int tfc__disk_read(const struct tfc__disk *disk, const char *path, size_t max,
		   struct tfc__buf *data, tfc_error *error)
{
	tfc__buf_clear(data);
	int fd = openat(disk->root, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int failed = fd < 0 ? errno : disk_read_up_to(fd, max, data);
	if (fd >= 0)
		close(fd);
	if (failed == EFBIG || failed == EISDIR || failed == ELOOP)
		return tfc__fail(error, TFC_EPARSE, "store", failed,
				 "\"%s/%s\" is not a file of a store", disk->path, path);
	if (failed == ENOENT || failed == ENOTDIR)
		return tfc__fail(error, TFC_ENOENT, "store", failed, "no such record: \"%s/%s\"",
				 disk->path, path);
	if (failed)
		return tfc__fail_errno(error, "store", failed, "cannot read \"%s/%s\"", disk->path,
				       path);
	return TFC_OK;
}
