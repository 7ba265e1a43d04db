/* A batch that was received: a view of a block of the sender's memory. */
#ifndef TFC_FEED_BATCH_H
#define TFC_FEED_BATCH_H

#include "feed/layout.h"
#include "feed/segment.h"
#include <stdatomic.h>

/* A schema that batches share. */
struct tfc__feed_shared_schema {
	atomic_uint references;
	struct tfc__feed_schema schema;
};
struct tfc__feed_shared_schema *
tfc__feed_shared_schema_keep(struct tfc__feed_shared_schema *shared);
void tfc__feed_shared_schema_release(struct tfc__feed_shared_schema *shared); /* NULL is a no-op */

struct tfc_feed_batch {
	struct tfc__feed_held held; /* first: it is what is freed */
	struct tfc__link link;      /* in a queue of its owner */
	atomic_uint references;
	struct tfc__feed_mapping *mapping; /* NULL: it has no rows */
	struct tfc__feed_shared_schema *schema;
	struct tfc__feed_layout layout;
	tfc_feed_column *columns;
	const uint8_t *block;
	uint64_t bytes;
	uint64_t partition;
	uint64_t offset;
	bool is_last;
	void *source; /* for its consumer */
};

/* A view of rows in the mapping. Acquires the layout, also on failure. TFC_EPARSE or TFC_ENOMEM;
 * the block then was not returned. */
int tfc__feed_batch_new(struct tfc__feed_mapping *mapping, struct tfc__feed_shared_schema *schema,
			struct tfc__feed_layout *layout, uint32_t block, uint64_t at,
			uint64_t bytes, tfc_error *error, tfc_feed_batch **ret_batch);
/* No rows, of these columns. NULL: out of memory. */
tfc_feed_batch *tfc__feed_batch_without_rows(struct tfc__feed_shared_schema *schema);
/* The end of a partition that has `rows` rows. NULL: out of memory. */
tfc_feed_batch *tfc__feed_batch_end_of(uint64_t partition, uint64_t rows);

#endif
