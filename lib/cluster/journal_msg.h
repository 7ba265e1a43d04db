/*
 * Journal entries as bytes, for the store: a list of maps. The keys are in
 * doc/internals/store-format.md; unknown ones are ignored, missing ones are 0 or "".
 */
#ifndef TFC_CLUSTER_JOURNAL_MSG_H
#define TFC_CLUSTER_JOURNAL_MSG_H

#include "base/buf.h"
#include "cluster/journal.h"
#include <tfcluster/error.h>

/* Most entries in one piece: so that it stays within what is unpacked at once. */
#define TFC__JOURNAL_PIECE 1000

/* Writes the entries [from, until). A failed allocation is in buf->is_failed. */
void tfc__journal_write(const struct tfc__journal *journal, uint32_t from, uint32_t until,
			struct tfc__buf *buf);

/* Whether what was written has no entries. */
bool tfc__journal_is_empty(const void *data, size_t len);

/* Adds what was written to a journal of a job with so many tasks. TFC_EPARSE, TFC_ENOMEM: some of
 * the entries may have been added. */
int tfc__journal_read(struct tfc__journal *journal, const void *data, size_t len,
		      uint32_t task_count, tfc_error *error);

#endif
