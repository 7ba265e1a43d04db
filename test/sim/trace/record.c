#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "trace.h"

static char path[PATH_MAX];

static void choose_path(void)
{
	char program[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash = len < 0 ? NULL : memrchr(program, '/', (size_t)len);
	if (!slash)
		abort();
	program[len] = 0;
	snprintf(path, sizeof(path), "%.*s/trace/%.16s-%d-%llu", (int)(slash - program), program,
		 slash + 1, (int)getpid(), (unsigned long long)tfc__boot_time());
}

/* No descriptor stays open: the program has the numbers that it has without this. */
void trace_write(const struct trace_record *record)
{
	int error = errno;
	if (!*path)
		choose_path();
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, record, sizeof(*record)) != (ssize_t)sizeof(*record))
		abort();
	close(fd);
	errno = error;
}
