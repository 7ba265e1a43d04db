#include "base/file.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

int tfc__write_all(int fd, const void *data, size_t len)
{
	return tfc__write_all_by(write, fd, data, len);
}

int tfc__write_all_by(tfc__write_call *call, int fd, const void *data, size_t len)
{
	const char *at = data;
	while (len) {
		ssize_t n = call(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int tfc__random_hex(char ret_hex[17])
{
	uint64_t number;
	if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		return -1;
	snprintf(ret_hex, 17, "%016llx", (unsigned long long)number);
	return 0;
}

char *tfc__path_join(const char *directory, const char *name)
{
	char *path;
	return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

int tfc__make_private_dir(const char *parent, const char *prefix, const char *component,
			  tfc_error *error, char **ret_path)
{
	char *path;
	char hex[17];
	do {
		if (tfc__random_hex(hex) < 0)
			return tfc__fail_errno(error, component, errno, "cannot get random bytes");
		if (asprintf(&path, "%s/%s%s", parent, prefix, hex) < 0)
			return tfc__fail_nomem(error, component);
		if (mkdir(path, 0700) == 0) {
			*ret_path = path;
			return TFC_OK;
		}
		free(path);
	} while (errno == EEXIST);
	return tfc__fail_errno(error, component, errno, "cannot create a directory in \"%s\"",
			       parent);
}
