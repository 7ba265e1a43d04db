/*
 * A small text file that is read again when it changes: when it is written, or another is renamed
 * over it, or a link on the way to it is replaced as Kubernetes does it.
 */
#ifndef TFC_MEMBER_WATCHED_FILE_H
#define TFC_MEMBER_WATCHED_FILE_H

#include "base/buf.h"
#include "ctx/ctx.h"

#define TFC__WATCHED_FILE_MAX (16u << 20) /* bytes */

struct tfc__watched_file;

/* The file has another text than before; also inside tfc__watched_file_start. Refusing a text
 * (below 0, with *error) changes nothing: the next one is told again. TFC_ENOMEM: the same text is
 * told again with the next event. */
typedef int (*tfc__watched_file_fn)(struct tfc__watched_file *file, const char *text, size_t len,
				    tfc_error *error);

/* Embedded. */
struct tfc__watched_file {
	tfc_ctx *ctx;          /* NULL: not started */
	const char *component; /* for sentences, static */
	const char *kept; /* what stays when a text is refused: "the members stay as they are" */
	tfc__watched_file_fn fn;
	char *path;
	char *directory; /* of it, "." when the path names none */
	char *name;      /* in the directory; borrowed from path */
	struct tfc__io watch;
	struct tfc__buf text; /* that was told last */
};

/* `component`, `kept` and `fn` are set by the caller. TFC_ENOMEM. End it with
 * tfc__watched_file_fini. */
int tfc__watched_file_init(struct tfc__watched_file *file, const char *path, tfc_error *error);
/* A file that was only zeroed is fine. Stop it first. */
void tfc__watched_file_fini(struct tfc__watched_file *file);

/* Reads it, tells the text, and begins to watch. What fn refuses, or what cannot be read, is an
 * error now; later it is a warning in the log. */
int tfc__watched_file_start(struct tfc__watched_file *file, tfc_ctx *ctx, tfc_error *error);
void tfc__watched_file_stop(struct tfc__watched_file *file); /* a no-op when not started */

#endif
