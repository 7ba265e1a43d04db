/*
 * Reads a directory without allocating (opendir(3) allocates 32 KiB): for code that must work when
 * memory is exhausted, and for guard and shim. An entry that is removed during the reading may or
 * may not be returned.
 */
#ifndef TFC_BASE_DIR_H
#define TFC_BASE_DIR_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tfc__dir {
	int fd;  /* owned by the caller, opened for reading */
	int at;  /* offset of the next entry in `bytes` */
	int len; /* bytes read into `bytes` */
	_Alignas(uint64_t) char bytes[2048];
};

static inline void tfc__dir_init(struct tfc__dir *dir, int fd)
{
	dir->fd = fd;
	dir->at = dir->len = 0;
	lseek(fd, 0, SEEK_SET); /* the directory may have been read before */
}

/*
 * Returns the next name other than "." and "..", borrowed until the next call. Returns NULL at the
 * end, with errno 0, and after a failure, with errno set. The entry's layout is that of
 * getdents64(2): inode, offset, length of the entry, type, name.
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
