/*
 * Reports that a file may have changed: it was written, it was replaced by a rename, or a symbolic
 * link of its path was replaced, as Kubernetes does.
 */
#ifndef TFC_MEMBER_FILE_WATCH_H
#define TFC_MEMBER_FILE_WATCH_H

#include "ctx/ctx.h"

/* Embedded; zeroed. */
struct tfc__file_watch {
	tfc_ctx *ctx;          /* NULL: not started */
	const char *component; /* for error texts; static */
	void (*changed)(struct tfc__file_watch *watch);
	char *path;
	char *directory; /* of the file, "." if the path has none */
	char *name;      /* in the directory; borrowed from path */
	struct tfc__io io;
	struct tfc__noted_fd fd;
};

/* The caller has set `component` and `changed`, and calls tfc__file_watch_fini later. Returns
 * TFC_OK or TFC_ENOMEM. */
int tfc__file_watch_init(struct tfc__file_watch *watch, const char *path, tfc_error *error);
/* Stops the watch and frees what it holds. */
void tfc__file_watch_fini(struct tfc__file_watch *watch);

/* Errors: TFC_ENOENT (the directory), TFC_EACCES, TFC_EMFILE (also: all inotify instances of this
 * user are in use), TFC_ENOMEM, TFC_ESYS. */
int tfc__file_watch_start(struct tfc__file_watch *watch, tfc_ctx *ctx, tfc_error *error);
void tfc__file_watch_stop(struct tfc__file_watch *watch); /* a no-op when not started */

#endif
