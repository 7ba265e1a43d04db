#include "wire/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/file.h"

/* ---- reading */

static int check_secret_file(int fd, const char *path, size_t max, tfc_error *error)
{
	struct stat stat;
	if (fstat(fd, &stat) < 0)
		return tfc__fail_errno(error, "wire", errno, "cannot read \"%s\"", path);
	if (!S_ISREG(stat.st_mode))
		return tfc__fail(error, TFC_EPARSE, "wire", 0, "\"%s\" is not a regular file",
				 path);
	if (stat.st_uid != geteuid())
		return tfc__fail(error, TFC_EACCES, "wire", 0,
				 "secret file \"%s\" belongs to user %u, not to user %u who reads "
				 "it; change its owner",
				 path, stat.st_uid, geteuid());
	if (stat.st_mode & 077)
		return tfc__fail(error, TFC_EACCES, "wire", 0,
				 "secret file \"%s\" is accessible by other users (mode %04o); run "
				 "\"chmod 600 %s\"",
				 path, stat.st_mode & 07777, path);
	if ((uint64_t)stat.st_size > max)
		return tfc__fail(error, TFC_ETOOBIG, "wire", 0,
				 "secret file \"%s\" exceeds %zu bytes", path, max);
	return TFC_OK;
}

static int read_secret(int fd, const char *path, char *text, size_t max, tfc_error *error,
		       size_t *ret_len)
{
	size_t len = 0;
	while (len < max) {
		ssize_t n = read(fd, text + len, max - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return tfc__fail_errno(error, "wire", errno, "cannot read \"%s\"", path);
		if (n == 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	*ret_len = len;
	return TFC_OK;
}

int tfc__secret_read(const char *path, size_t max, tfc_error *error, char **ret_text,
		     size_t *ret_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return tfc__fail_errno(error, "wire", errno, "cannot read \"%s\"", path);
	char *text = malloc(max + 1);
	int code = text ? check_secret_file(fd, path, max, error) : tfc__fail_nomem(error, "wire");
	if (code == TFC_OK)
		code = read_secret(fd, path, text, max, error, ret_len);
	if (code == TFC_OK)
		*ret_text = text;
	else
		free(text);
	close(fd);
	return code;
}

void tfc__secret_free(char *text, size_t len)
{
	if (text)
		sodium_memzero(text, len);
	free(text);
}

/* ---- writing */

static int write_temp_file(const char *temp, const char *path, const char *text, size_t len,
			   tfc_error *error)
{
	int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return tfc__fail_errno(error, "wire", errno, "cannot create \"%s\"", path);
	int code = TFC_OK;
	if (fchmod(fd, 0600) < 0 || tfc__write_all(fd, text, len) < 0 || fsync(fd) < 0)
		code = tfc__fail_errno(error, "wire", errno, "cannot write \"%s\"", path);
	close(fd);
	return code;
}

/* Syncs the directory, so that the name is as durable as the file. */
static int sync_parent(const char *path, tfc_error *error)
{
	const char *slash = strrchr(path, '/');
	char *parent = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path))
			     : strdup(".");
	if (!parent)
		return tfc__fail_nomem(error, "wire");
	int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = TFC_OK;
	if (fd < 0 || fsync(fd) < 0)
		code = tfc__fail_errno(error, "wire", errno, "cannot sync \"%s\"", parent);
	if (fd >= 0)
		close(fd);
	free(parent);
	return code;
}

/* link(2) never replaces an existing file; rename(2) would. */
static int link_new_file(const char *temp, const char *path, tfc_error *error)
{
	if (link(temp, path) == 0)
		return TFC_OK;
	if (errno == EEXIST)
		return tfc__fail(error, TFC_EEXIST, "wire", EEXIST,
				 "cannot create \"%s\": the file exists", path);
	return tfc__fail_errno(error, "wire", errno, "cannot create \"%s\"", path);
}

int tfc__secret_write(const char *path, const char *text, size_t len, tfc_error *error)
{
	char hex[17], *temp;
	if (tfc__random_hex(hex) < 0)
		return tfc__fail_errno(error, "wire", errno, "cannot get random bytes");
	if (asprintf(&temp, "%s.%s", path, hex) < 0)
		return tfc__fail_nomem(error, "wire");
	int code = write_temp_file(temp, path, text, len, error);
	if (code == TFC_OK)
		code = link_new_file(temp, path, error);
	unlink(temp);
	free(temp);
	return code == TFC_OK ? sync_parent(path, error) : code;
}
