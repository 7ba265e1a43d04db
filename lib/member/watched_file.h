/* A small text file that is read again when it changes. */
#ifndef TFC_MEMBER_WATCHED_FILE_H
#define TFC_MEMBER_WATCHED_FILE_H

#include "base/buf.h"
#include "member/file_watch.h"

#define TFC__WATCHED_FILE_MAX (16u << 20) /* bytes */

struct tfc__watched_file;

/* The file has a new text; also called inside tfc__watched_file_start. Returning an error (below 0,
 * with *error) refuses the text; `fn` is called again when the text changes. After TFC_ENOMEM it is
 * called again with the same text at the next event. */
typedef int (*tfc__watched_file_fn)(struct tfc__watched_file *file, const char *text, size_t len,
				    tfc_error *error);

/* Embedded. */
struct tfc__watched_file {
	const char *component; /* for error texts; static */
	/* what is kept when a text is refused, for the log: "members not changed" */
	const char *kept;
	const char *items;   /* what a text lists, for the log: "nodes" */
	uint32_t item_count; /* set by `fn` when it accepts a text */
	bool is_refused;     /* the last text was; the log has the reason */
	tfc__watched_file_fn fn;
	struct tfc__file_watch watch;
	struct tfc__buf text; /* the last text passed to `fn` */
};

/* The caller has set `component`, `kept` and `fn`, and calls tfc__watched_file_fini later. Returns
 * TFC_OK or TFC_ENOMEM. */
int tfc__watched_file_init(struct tfc__watched_file *file, const char *path, tfc_error *error);
/* Frees the file, which must not be started. A zeroed file is fine. */
void tfc__watched_file_fini(struct tfc__watched_file *file);

/* Reads the file, passes its text to `fn`, and begins to watch. If the file cannot be read or `fn`
 * refuses the text, the call fails; later this is a warning in the log, and so is, as information,
 * the next text that is accepted. */
int tfc__watched_file_start(struct tfc__watched_file *file, tfc_ctx *ctx, tfc_error *error);
void tfc__watched_file_stop(struct tfc__watched_file *file); /* a no-op when not started */

#endif
