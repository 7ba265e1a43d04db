#include "node/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"

/* Creates the directory and its missing parents, without changing existing ones. 0, or -1 and
 * errno. */
static int create_directories(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int made = mkdir(path, 0700);
		*slash = '/';
		if (made < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
			return -1;
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -1 : 0;
}

static int state_dir_check(const char *path, const struct stat *state, tfc_error *error)
{
	if (!S_ISDIR(state->st_mode))
		return tfc__fail(error, TFC_EINVAL, "node", 0,
				 "state directory \"%s\" is not a directory", path);
	if (state->st_uid != geteuid())
		return tfc__fail(error, TFC_EACCES, "node", 0,
				 "state directory \"%s\" belongs to user %u, not to the node's "
				 "user %u; use a directory of its own",
				 path, state->st_uid, geteuid());
	if (state->st_mode & 077)
		return tfc__fail(error, TFC_EACCES, "node", 0,
				 "state directory \"%s\" is accessible by other users (mode %04o); "
				 "run \"chmod 700\" on it",
				 path, state->st_mode & 07777);
	return TFC_OK;
}

/* Permission bits do not decide alone (root, read-only file systems), so this creates a file. */
static int state_dir_check_writable(const char *path, tfc_error *error)
{
	int fd = open(path, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT))
		fd = faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS);
	if (fd < 0)
		return tfc__fail_errno(error, "node", errno,
				       "cannot write to state directory \"%s\"", path);
	if (fd > 0)
		close(fd);
	return TFC_OK;
}

int tfc__state_dir_open(const char *path, tfc_error *error)
{
	struct stat state;
	if (*path != '/')
		return tfc__fail(error, TFC_EINVAL, "node", 0,
				 "state directory \"%s\" is not an absolute path", path);
	char *copy = strdup(path);
	if (!copy)
		return tfc__fail_nomem(error, "node");
	for (size_t len = strlen(copy); len > 1 && copy[len - 1] == '/'; len--)
		copy[len - 1] = '\0';
	int code = TFC_OK;
	if (create_directories(copy) < 0 || stat(copy, &state) < 0)
		code = tfc__fail_errno(error, "node", errno, "cannot open state directory \"%s\"",
				       path);
	else if ((code = state_dir_check(copy, &state, error)) == TFC_OK)
		code = state_dir_check_writable(copy, error);
	free(copy);
	return code;
}
