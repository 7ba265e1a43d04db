/* The files that exec tries for a program whose name has no slash. */
#ifndef TFC_BASE_EXEC_PATH_H
#define TFC_BASE_EXEC_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TFC__EXEC_PATH "/usr/local/bin:/bin:/usr/bin" /* for an environment without PATH */

/*
 * The file for the first entry of `*path`, a value of PATH; an empty entry is the working
 * directory. `*path` becomes what follows the entry, or NULL after the last one. False: the file's
 * name is too long. For a child of vfork, too.
 */
static inline bool tfc__exec_path_next(const char **path, const char *name, char *ret_file,
				       size_t size)
{
	const char *entry = *path;
	size_t len = strcspn(entry, ":"), name_len = strlen(name);
	*path = entry[len] ? entry + len + 1 : NULL;
	if (len + name_len + 2 > size)
		return false;
	memcpy(ret_file, entry, len);
	ret_file[len] = '/';
	memcpy(ret_file + len + (len > 0), name, name_len + 1);
	return true;
}

#endif
