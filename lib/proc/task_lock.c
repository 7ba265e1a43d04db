#include "proc/task_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The bytes of the directory that are locked. */
#define GUARD 0
#define TASK 1 /* followed by as many bytes as the grace has milliseconds */
#define END (TASK + 1 + (off_t)UINT32_MAX)

static int task_lock_share(int dir, off_t first, off_t count)
{
	struct flock range = {.l_type = F_RDLCK,
			      .l_whence = SEEK_SET,
			      .l_start = first,
			      .l_len = count};
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fcntl(fd, F_OFD_SETLK, &range) == 0)
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

int tfc__task_lock_guard(int dir)
{
	return task_lock_share(dir, GUARD, 1);
}

int tfc__task_lock_task(int dir, uint32_t grace_ms)
{
	return task_lock_share(dir, TASK, 1 + (off_t)grace_ms);
}

/*
 * The byte behind a lock that covers one of `count` bytes (0: all) from `first`; 0: there is none.
 */
static off_t task_lock_end(int dir, off_t first, off_t count)
{
	struct flock range = {.l_type = F_WRLCK,
			      .l_whence = SEEK_SET,
			      .l_start = first,
			      .l_len = count};
	if (fcntl(dir, F_OFD_GETLK, &range) < 0)
		return -1;
	if (range.l_type == F_UNLCK)
		return 0;
	bool is_endless = !range.l_len || range.l_start + range.l_len > END;
	return is_endless ? END : range.l_start + range.l_len;
}

int tfc__task_lock_query(int dir, struct tfc__task_locks *ret_locks)
{
	off_t guard = task_lock_end(dir, GUARD, 1), end, last = TASK;
	while ((end = task_lock_end(dir, last, 0)) > last)
		last = end; /* another lock may reach further */
	if (guard < 0 || end < 0)
		return -1;
	bool has_tasks = last > TASK;
	*ret_locks = (struct tfc__task_locks){
		.has_guard = guard > 0,
		.has_tasks = has_tasks,
		.grace_ms = has_tasks ? (uint32_t)(last - TASK - 1) : 0,
	};
	return 0;
}
