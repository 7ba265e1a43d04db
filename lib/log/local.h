/*
 * The logs in one directory of this machine as log sources, with a watch on the directory that says
 * when they grow.
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
	const char *subject;  /* of the log entries about it; borrowed */
	uint32_t *open_count; /* files that are open for reading, here and in other directories */
	struct tfc__link sources;
	bool is_complete;    /* nobody writes here any more */
	bool is_unwatchable; /* the kernel has no more watches; that was logged */
	struct tfc__io inotify;
	int watch;                 /* of it, while there are watched sources */
	uint32_t watch_count;      /* such sources */
	struct tfc__link *buckets; /* they, by the hash of their names; NULL: there was none yet */
};

/* Of a zeroed structure. open_count is borrowed, also by the sources. */
void tfc__log_dir_init(struct tfc__log_dir *dir, tfc_ctx *ctx, const char *path,
		       const char *subject, uint32_t *open_count);

/* Nobody writes here any more: nothing is watched from now on but for sources that are open. */
void tfc__log_dir_complete(struct tfc__log_dir *dir);

/* Sources that are open stay where they are. Harmless for a zeroed structure. */
void tfc__log_dir_fini(struct tfc__log_dir *dir);

/* Reads a log from `position` (0: the oldest there is); the caller closes it, also after the
 * directory. NULL and *error: TFC_ENOMEM. */
struct tfc__log_source *tfc__log_dir_open(struct tfc__log_dir *dir, const char *name,
					  uint64_t position, tfc_error *error);

/* A log that nobody writes any more: `wake` never comes. The same. */
struct tfc__log_source *tfc__log_file_open(const char *path, const char *name, uint64_t position,
					   tfc_error *error);

#endif
