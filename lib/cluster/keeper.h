/*
 * Keeps one journal in the store, in segments: the entries that come during one turn of dispatch
 * are written together, and are shown once they are there. A segment grows, written anew each time,
 * until it is large; then the next one begins. Its key is the number of its first entry.
 */
#ifndef TFC_CLUSTER_KEEPER_H
#define TFC_CLUSTER_KEEPER_H

#include "cluster/journal.h"
#include "store/store.h"

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
	uint32_t kept;            /* entries that are in the store */
	uint32_t putting;         /* and will be with this write */
	bool is_segment_full;     /* after it */
	bool is_failing;          /* and that was logged */
};

/* Takes over a journal whose entries are all in the store. `id` is borrowed: the job's. */
void tfc__keeper_open(struct tfc__keeper *keeper, tfc_ctx *ctx, struct tfc__store *store,
		      struct tfc__journal *journal, const char *id);

/* Hands what is left to the store, and shows it to nobody. A no-op when it is not open. */
void tfc__keeper_close(struct tfc__keeper *keeper);

/* The same, and forgets what is left: the job is removed. */
void tfc__keeper_abandon(struct tfc__keeper *keeper);

/* The number of a segment's first entry, from its key; UINT32_MAX: none. */
uint32_t tfc__keeper_segment(const char *key);

#endif
