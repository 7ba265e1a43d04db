#include "shim.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

static char record[TFC__LOG_RECORD_MAX];

bool output_read(struct shim *shim, int fd)
{
	ssize_t len;
	do
		len = read(fd, record + TFC__LOG_HEADER, TFC__LOG_PAYLOAD_MAX);
	while (len < 0 && errno == EINTR);
	if (len > 0)
		stall_sign(shim);
	if (len > 0)
		tfc__log_append(&shim->log, record, (size_t)len, fd == shim->out ? 'o' : 'e');
	return len > 0;
}

/*
 * A process outside the task's tree may keep the pipe open, so this does not wait for end of file.
 */
static void output_drain_pipe(struct shim *shim, int fd)
{
	int waiting;
	while (fd >= 0 && ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0 &&
	       output_read(shim, fd))
		;
}

void output_drain(struct shim *shim)
{
	output_drain_pipe(shim, shim->out);
	output_drain_pipe(shim, shim->err);
}
