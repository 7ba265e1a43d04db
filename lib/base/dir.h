/*
 * Reading a directory without allocating (opendir(3) takes 32 KiB): for what must work when there
 * is no memory, and for guard and shim. Entries that are removed on the way may or may not come.
 */
#ifndef TFC_BASE_DIR_H
#define TFC_BASE_DIR_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tfc__dir {
	int fd;  /* the caller's, opened for reading */
	int at;  /* of the next entry in bytes */
	int len; /* of bytes */
	_Alignas(uint64_t) char bytes[2048];
};

static inline void tfc__dir_init(struct tfc__dir *dir, int fd)
{
	dir->fd = fd;
	dir->at = dir->len = 0;
	lseek(fd, 0, SEEK_SET); /* it may have been read before */
}

/*
 * The next name but "." and "..", borrowed until the next call; NULL at the end and, with errno not
 * 0, after a failure. getdents64(2): inode, offset, length of the entry, type, name.
 */
static inline const char *tfc__dir_next(struct tfc__dir *dir)
{
	for (;;) {
		uint16_t size;
		if (dir->at == dir->len) {
			errno = 0;
			dir->at = 0;
			dir->len = (int)syscall(SYS_getdents64, dir->fd, dir->bytes,
						sizeof(dir->bytes));
			if (dir->len <= 0) {
				dir->len = 0;
				return NULL;
			}
		}
		memcpy(&size, dir->bytes + dir->at + 16, sizeof(size));
		const char *name = dir->bytes + dir->at + 19;
		dir->at += size;
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
			return name;
	}
}

#endif
