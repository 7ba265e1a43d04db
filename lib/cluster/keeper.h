/*
 * Keeps one journal in the store, in segments: the entries that come during one turn of dispatch
 * are written together, and are shown once they are stored, however long that takes: no crash takes
 * back what was shown. A segment grows, written anew each time, until it is full; then the next one
 * begins. Its key is the number of its first entry.
 *
 * A segment that is missing must not look like an end of the journal: what was done would be done
 * again. So each is there, empty, before anything says that it is: the first one of a term before
 * the record names it, the next one before the last is full.
 */
#ifndef TFC_CLUSTER_KEEPER_H
#define TFC_CLUSTER_KEEPER_H

#include "base/clock.h"
#include "cluster/journal.h"
#include "store/store.h"

#define TFC__STORE_RETRY_NS TFC__SECOND /* until a store that has failed is asked again */

struct tfc__keeper {
	struct tfc__journal_writer writer;
	struct tfc__journal *journal;
	struct tfc__store *store;
	tfc_ctx *ctx; /* NULL: not open */
	const char *id;
	struct tfc__work work;
	struct tfc__timer retry;
	struct tfc__store_op *op; /* a segment is being written */
	uint32_t first;           /* of the segment that grows */
	uint32_t next;            /* of the one behind it, which is there; 0: none yet */
	uint32_t kept;            /* entries that are in the store */
	uint32_t putting;         /* and will be with this write */
	char why[192];            /* why the last write failed; "": it did not */
};

/* Stores an empty segment that begins with entry `first` of a job's journal. NULL: out of memory.
 */
struct tfc__store_op *tfc__keeper_begin(struct tfc__store *store, const char *id, uint32_t first,
					tfc__store_fn fn, void *user);

/* Takes over a journal whose entries are all in the store, and the segment that is to begin behind
 * them, too. `id` is borrowed: the job's. */
void tfc__keeper_open(struct tfc__keeper *keeper, tfc_ctx *ctx, struct tfc__store *store,
		      struct tfc__journal *journal, const char *id);

/* Hands what is left to the store, and shows it to nobody. A no-op when it is not open. */
void tfc__keeper_close(struct tfc__keeper *keeper);

/* The same, and forgets what is left: the job is removed. */
void tfc__keeper_abandon(struct tfc__keeper *keeper);

/* The number of a segment's first entry, from its key; UINT32_MAX: none. */
uint32_t tfc__keeper_segment(const char *key);

/* Whether a segment of so many entries and bytes is full, so that another is there behind it. */
bool tfc__keeper_is_full(uint32_t entries, size_t bytes);

#endif
