#include "folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <string.h>

int folder_count(const char *path, const char *begin)
{
	int count = 0;
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += strncmp(entry->d_name, begin, strlen(begin)) == 0 &&
			 strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
	closedir(dir);
	return count;
}

int folder_count_fds(void)
{
	return folder_count("/proc/self/fd", "") - 1; /* that of the folder itself */
}
