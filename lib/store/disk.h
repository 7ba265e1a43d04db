/*
 * A state directory: what the helper program tfc-store does with files. Everything here may block.
 * The layout and the order of writes are in doc/internals/store-format.md.
 */
#ifndef TFC_STORE_DISK_H
#define TFC_STORE_DISK_H

#include "base/buf.h"
#include "store/store.h"
#include <stdbool.h>
#include <sys/types.h>

#define TFC__DISK_FORMAT 1

/* The system calls that change something: a test takes their place, to crash between any two. */
struct tfc__disk_calls {
	int (*create)(int dir, const char *path); /* a new file, mode 0600, for writing */
	ssize_t (*write)(int fd, const void *data, size_t len);
	int (*fsync)(int fd);
	int (*rename)(int dir, const char *from, const char *to);
	int (*unlink)(int dir, const char *path);
	int (*mkdir)(int dir, const char *path);
};
extern const struct tfc__disk_calls tfc__disk_calls;

struct tfc__disk {
	const struct tfc__disk_calls *calls;
	char *path; /* as given, for sentences */
	int root;
	int lock;
	uint64_t version; /* the last one given away */
	uint64_t temps;   /* names of temporary files given away */
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
};

/*
 * Opens or makes a state directory and locks it; `owner` is the process that is named to others.
 * Waits up to 3 s for one whose owner has just died. A zeroed disk is fit for tfc__disk_close, and
 * so is one that could not be opened.
 */
int tfc__disk_open(struct tfc__disk *disk, const char *path, pid_t owner,
		   const struct tfc__disk_calls *calls, tfc_error *error);
void tfc__disk_close(struct tfc__disk *disk);

/* As the requests of store.h; keys are valid ones. */
int tfc__disk_get(struct tfc__disk *disk, const char *key, struct tfc__buf *data,
		  uint64_t *ret_version, tfc_error *error);
int tfc__disk_put(struct tfc__disk *disk, const char *key, const void *data, size_t len,
		  uint64_t version, uint64_t *ret_version, tfc_error *error);
int tfc__disk_remove(struct tfc__disk *disk, const char *key, tfc_error *error);

/* fn gets each in order, damaged ones with data NULL; a failure of it ends the list, and so does a
 * folder or file that cannot be read, or a file where a folder belongs: all of it is not there. */
typedef int (*tfc__disk_list_fn)(void *user, const tfc_store_value *value);
int tfc__disk_list(struct tfc__disk *disk, const char *prefix, tfc__disk_list_fn fn, void *user,
		   tfc_error *error);

/* ---- between the files of the disk */

#define TFC__DISK_RECORDS "records"
#define TFC__DISK_TEMP "temp"
#define TFC__DISK_PATH_MAX (TFC__STORE_KEY_MAX + 32)

/* Writes a file whole or not at all: temporary file, fsync, rename, fsync of its folder. */
int tfc__disk_write(struct tfc__disk *disk, const char *path, const void *head, size_t head_len,
		    const void *data, size_t len, tfc_error *error);
/* The folder of a path, after a change of its names. */
int tfc__disk_sync_folder(struct tfc__disk *disk, const char *path, tfc_error *error);
/* A fresh name in the folder of temporary files. */
void tfc__disk_temp_name(struct tfc__disk *disk, char name[TFC__DISK_PATH_MAX]);
/* Reads a file of at most `max` bytes. TFC_ENOENT, TFC_EPARSE (larger), ... */
int tfc__disk_read(const struct tfc__disk *disk, const char *path, size_t max,
		   struct tfc__buf *data, tfc_error *error);

/* The bytes in front of a record's value. */
#define TFC__RECORD_HEAD 64
void tfc__record_head(const char *key, const void *data, size_t len, uint64_t version,
		      uint8_t head[TFC__RECORD_HEAD]);
/* Checks a whole file. TFC_OK, or TFC_EPARSE and why; the value follows the head. */
int tfc__record_check(const char *key, const void *file, size_t len, uint64_t *ret_version,
		      const char **ret_why);

#endif
