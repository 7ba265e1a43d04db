/*
 * Encoding of journal entries for the store: a list of maps. doc/internals/store-format.md defines
 * the keys. Unknown keys are ignored, missing ones are 0 or "".
 */
#ifndef TFC_CLUSTER_JOURNAL_MSG_H
#define TFC_CLUSTER_JOURNAL_MSG_H

#include "base/buf.h"
#include "cluster/journal.h"
#include <tfcluster/error.h>

/* Maximum number of entries in one segment, so that the decoder's limit is not exceeded. */
#define TFC__JOURNAL_SEGMENT_ENTRIES 1000

/* Writes the entries [from, until). A failed allocation is in buf->is_failed. */
void tfc__journal_write(const struct tfc__journal *journal, uint32_t from, uint32_t until,
			struct tfc__buf *buf);

/* Whether the encoded list is empty. */
bool tfc__journal_is_empty(const void *data, size_t len);

/* Adds the encoded entries to the journal of a job with `task_count` tasks. Returns TFC_EPARSE or
 * TFC_ENOMEM; some entries may have been added then. */
int tfc__journal_read(struct tfc__journal *journal, const void *data, size_t len,
		      uint32_t task_count, tfc_error *error);

#endif
