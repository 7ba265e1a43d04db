/*
 * Log sources for the logs in one directory of this machine. An inotify(7) watch on the directory
 * reports when the logs grow.
 */
#ifndef TFC_LOG_LOCAL_H
#define TFC_LOG_LOCAL_H

#include "base/list.h"
#include "ctx/ctx.h"
#include "log/source.h"
#include <stdbool.h>
#include <stdint.h>

struct tfc__log_dir {
	tfc_ctx *ctx;
	const char *path;     /* borrowed */
	const char *subject;  /* of the log entries about the directory; borrowed */
	uint32_t *open_count; /* files open for reading, shared */
	struct tfc__link sources;
	bool is_complete;    /* nothing is written here any more */
	bool is_unwatchable; /* the kernel has no more watches; a warning was logged */
	struct tfc__io inotify;
	struct tfc__noted_fd inotify_fd;
	int watch;                 /* the watch on it, valid while watch_count > 0 */
	uint32_t watch_count;      /* number of watched sources */
	struct tfc__link *buckets; /* the watched sources, by the hash of their names; NULL until
				      the first one */
};

/* Initializes a zeroed structure. open_count is borrowed, also by the sources. */
void tfc__log_dir_init(struct tfc__log_dir *dir, tfc_ctx *ctx, const char *path,
		       const char *subject, uint32_t *open_count);

/*
 * Nothing is written here any more: from now on no source is newly watched; sources that are
 * watched stay so until they are closed.
 */
void tfc__log_dir_complete(struct tfc__log_dir *dir);

/* Open sources return no further records from now on. Does nothing to a zeroed structure. */
void tfc__log_dir_fini(struct tfc__log_dir *dir);

/*
 * Reads a log from `position` (0: from the oldest record). The caller closes the source; it may do
 * so after the directory's fini. On failure (TFC_ENOMEM) returns NULL and sets *error.
 */
struct tfc__log_source *tfc__log_dir_open(struct tfc__log_dir *dir, const char *name,
					  uint64_t position, tfc_error *error);

/* As tfc__log_dir_open, for a log that is not written any more: `wake` is never called. */
struct tfc__log_source *tfc__log_file_open(const char *path, const char *name, uint64_t position,
					   tfc_error *error);

#endif
