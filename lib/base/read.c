#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"

ssize_t tfc__read_text(const char *path, char *ret_text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* it may be a named pipe */
	ssize_t len = fd < 0 ? -1 : read(fd, ret_text, size - 1);
	int error = errno;
	ret_text[len > 0 ? len : 0] = '\0';
	if (fd >= 0)
		close(fd);
	errno = error;
	return len;
}
