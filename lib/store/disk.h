/*
 * A state directory: the file operations of the helper program tfc-store. All functions may block.
 * The layout and the order of writes are described in doc/internals/store-format.md.
 */
#ifndef TFC_STORE_DISK_H
#define TFC_STORE_DISK_H

#include "base/buf.h"
#include "store/store.h"
#include <stdbool.h>
#include <sys/types.h>

#define TFC__DISK_FORMAT 1

/* The system calls that change files. A test replaces them to simulate a crash between any two. */
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
	char *path; /* as given, for messages */
	int root;
	int lock;
	uint64_t version; /* the last version assigned */
	uint64_t temps;   /* number of temporary file names assigned */
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
};

/*
 * Opens a state directory, or creates it, and locks it; `owner` is the process that another
 * process's error message names. Waits up to 3 s for a lock whose owner has just died.
 * tfc__disk_close accepts a zeroed disk and a disk that could not be opened.
 */
int tfc__disk_open(struct tfc__disk *disk, const char *path, pid_t owner,
		   const struct tfc__disk_calls *calls, tfc_error *error);
void tfc__disk_close(struct tfc__disk *disk);

/* Perform the requests of store.h; keys must be valid. */
int tfc__disk_get(struct tfc__disk *disk, const char *key, struct tfc__buf *data, tfc_error *error,
		  uint64_t *ret_version);
int tfc__disk_put(struct tfc__disk *disk, const char *key, const void *data, size_t len,
		  uint64_t version, tfc_error *error, uint64_t *ret_version);
int tfc__disk_remove(struct tfc__disk *disk, const char *key, tfc_error *error);

/*
 * Calls fn for each record in order; a damaged record has data NULL. The listing ends with an error
 * when fn fails, when a folder or file cannot be read, or when a file is in the place of a folder:
 * the listing is then incomplete.
 */
typedef int (*tfc__disk_list_fn)(void *user, const tfc_store_value *value);
int tfc__disk_list(struct tfc__disk *disk, const char *prefix, tfc__disk_list_fn fn, void *user,
		   tfc_error *error);

/* ---- shared by the files of the disk */

#define TFC__DISK_RECORDS "records"
#define TFC__DISK_TEMP "temp"
#define TFC__DISK_PATH_MAX (TFC__STORE_KEY_MAX + 32)

/* Writes a file completely or not at all: temporary file, fsync, rename, fsync of the folder. */
int tfc__disk_write(struct tfc__disk *disk, const char *path, const void *head, size_t head_len,
		    const void *data, size_t len, tfc_error *error);
/* Syncs the folder of a path after a name in it has changed. */
int tfc__disk_sync_folder(struct tfc__disk *disk, const char *path, tfc_error *error);
/* Makes an unused name in the folder of temporary files. */
void tfc__disk_temp_name(struct tfc__disk *disk, char name[TFC__DISK_PATH_MAX]);
/* Reads a file of at most `max` bytes. Errors: TFC_ENOENT, TFC_EPARSE for a larger file, and
 * others. */
int tfc__disk_read(const struct tfc__disk *disk, const char *path, size_t max,
		   struct tfc__buf *data, tfc_error *error);

/* The size of the head before a record's value. */
#define TFC__RECORD_HEAD 64
void tfc__record_head(const char *key, const void *data, size_t len, uint64_t version,
		      uint8_t head[TFC__RECORD_HEAD]);
/* Checks a complete record file; the value follows the head. Returns TFC_OK, or TFC_EPARSE and the
 * reason. */
int tfc__record_check(const char *key, const void *file, size_t len, uint64_t *ret_version,
		      const char **ret_why);

#endif
