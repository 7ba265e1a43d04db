/*
 * Keeps one journal in the store, in segments. Entries added in one turn of dispatch are written
 * together, and are shown once they are stored: a crash never takes back an entry that was shown.
 * The last segment grows; it is rewritten with each write until it is full, and then the next one
 * begins. A segment's key is the number of its first entry.
 *
 * A missing segment must not look like the end of the journal, or the job would repeat what it has
 * done. So each segment is stored, empty, before anything refers to it: the first one of an epoch
 * before the record names it, the next one before the current one is full.
 */
#ifndef TFC_CLUSTER_KEEPER_H
#define TFC_CLUSTER_KEEPER_H

#include "base/clock.h"
#include "cluster/journal.h"
#include "store/store.h"

#define TFC__STORE_RETRY_NS TFC__SECOND /* before a failed write is retried */

struct tfc__keeper {
	struct tfc__journal_writer writer;
	struct tfc__journal *journal;
	struct tfc__store *store;
	tfc_ctx *ctx; /* NULL: not open */
	const char *id;
	struct tfc__work work;
	struct tfc__timer retry;
	struct tfc__store_op *op; /* a segment is being written */
	uint32_t first;           /* number of the current segment */
	uint32_t next;            /* number of the next segment, which is stored; 0: none yet */
	uint32_t kept;            /* entries that are stored */
	uint32_t putting;         /* entries that are stored once `op` is done */
	bool is_paused;           /* nothing more is written: the job is being removed */
	char why[1024];           /* why the last write failed; "": it succeeded */
};

/* Stores an empty segment that begins with entry `first` of a job's journal. NULL: out of
 * memory. */
struct tfc__store_op *tfc__keeper_begin(struct tfc__store *store, const char *id, uint32_t first,
					tfc__store_fn fn, void *user);

/* Begins to keep a journal. All of its entries, and the empty segment after them, must be in the
 * store. `id` is the job's and borrowed. */
void tfc__keeper_open(struct tfc__keeper *keeper, tfc_ctx *ctx, struct tfc__store *store,
		      struct tfc__journal *journal, const char *id);

/* Passes the remaining entries to the store, without showing them; drops them while it is paused. A
 * no-op when it is not open. */
void tfc__keeper_close(struct tfc__keeper *keeper);

/* While the job is being removed nothing is written, or it would be written after the removal. A
 * write that has begun comes before it. Resume when the removal has failed. */
void tfc__keeper_pause(struct tfc__keeper *keeper);
void tfc__keeper_resume(struct tfc__keeper *keeper);

/* Like tfc__keeper_close, but drops the remaining entries: the job is being removed. */
void tfc__keeper_abandon(struct tfc__keeper *keeper);

/* Whether nothing waits to be stored. */
bool tfc__keeper_is_done(const struct tfc__keeper *keeper);

/* The number in a segment's key; UINT32_MAX: not a segment. */
uint32_t tfc__keeper_segment(const char *key);

/* Whether a segment of this size is full, so that another one must follow it. */
bool tfc__keeper_is_full(uint32_t entries, size_t bytes);

#endif
