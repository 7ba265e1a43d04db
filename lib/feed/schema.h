/*
 * The schema of a feed: its columns by name and type, read from the Arrow C Data Interface or from
 * plain columns, and encoded as one msgpack value (doc/internals/feed.md).
 *
 * A schema is a tree in preorder: the columns, and the items of lists below them.
 */
#ifndef TFC_FEED_SCHEMA_H
#define TFC_FEED_SCHEMA_H

#include "base/buf.h"
#include "wire/msg.h"
#include <stdbool.h>
#include <tfcluster/feed.h>

#define TFC__FEED_COLUMNS_MAX 1024 /* nodes of a schema, items of lists included */
#define TFC__FEED_DEPTH_MAX 8      /* of lists in lists */
#define TFC__FEED_NAME_MAX 255     /* bytes of a column's name */

/* A column, or the items of a list. */
struct tfc__feed_field {
	char *name; /* of the column, also of items below it */
	enum tfc_feed_type type;
	uint32_t dimension_count; /* of a type of fixed width */
	uint64_t dimensions[TFC_FEED_DIMENSIONS_MAX];
	bool is_fixed_binary; /* BINARY: `width` bytes per row, without offsets (w:N) */
	bool is_tensor;       /* in Arrow: arrow.fixed_shape_tensor, not nested fixed-size lists */
	uint64_t width;       /* bytes per row of a fixed width; of BOOL, bits; 0: with offsets */
	uint32_t descendants; /* fields below it, which follow it */
};

struct tfc__feed_schema {
	struct tfc__feed_field *fields; /* preorder */
	uint32_t field_count;
	uint32_t column_count; /* those at the top */
};

/* TFC_EINVAL (not a struct, no column, a name twice, malformed), TFC_ENOTSUP (a type; the text
 * names column and format), TFC_ETOOBIG, TFC_ENOMEM. The caller ends *ret_schema with
 * tfc__feed_schema_fini. */
int tfc__feed_schema_import(const struct ArrowSchema *arrow, tfc_error *error,
			    struct tfc__feed_schema *ret_schema);
int tfc__feed_schema_from_columns(const tfc_feed_column *columns, uint32_t column_count,
				  tfc_error *error, struct tfc__feed_schema *ret_schema);
/* As one msgpack value. */
void tfc__feed_schema_write(const struct tfc__feed_schema *schema, struct tfc__buf *buf);
/* TFC_EPARSE: not a schema that tfc__feed_schema_write writes. */
int tfc__feed_schema_read(const void *data, size_t len, tfc_error *error,
			  struct tfc__feed_schema *ret_schema);
/* Whether rows of both can follow one another. If not, *error has TFC_EINVAL and names the column.
 */
int tfc__feed_schema_compare(const struct tfc__feed_schema *expected,
			     const struct tfc__feed_schema *actual, tfc_error *error);
/* A struct schema with a release callback of its own. TFC_ENOMEM. */
int tfc__feed_schema_export(const struct tfc__feed_schema *schema, struct ArrowSchema *ret_arrow);
/* Acquires `schema`, also on failure. The first one becomes *shared; a later one must be equal:
 * TFC_EINVAL, as tfc__feed_schema_compare. TFC_ENOMEM. */
struct tfc__feed_shared_schema;
int tfc__feed_schema_share(struct tfc__feed_shared_schema **shared, struct tfc__feed_schema *schema,
			   tfc_error *error);
void tfc__feed_schema_fini(struct tfc__feed_schema *schema);

#endif
