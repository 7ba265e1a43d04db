/*
 * The layout of a batch: the buffers of its columns one after the other in one block of memory,
 * each aligned to 64 bytes. For each field of the schema, in preorder: rows, nulls, and the place
 * of its validity bitmap, offsets and values in the block; bits are shifted and offsets rebased, so
 * that each field begins with row 0. Offsets are 64 bits wide.
 */
#ifndef TFC_FEED_LAYOUT_H
#define TFC_FEED_LAYOUT_H

#include "feed/schema.h"

#define TFC__FEED_ALIGN 64

/* A buffer in the block. len 0: there is none, or it is empty. */
struct tfc__feed_place {
	uint64_t at;
	uint64_t len;
};

struct tfc__feed_node {
	uint64_t rows;
	uint64_t nulls;
	struct tfc__feed_place validity; /* len 0: there are no nulls */
	struct tfc__feed_place offsets;
	struct tfc__feed_place values;
};

struct tfc__feed_layout {
	uint64_t rows;
	uint64_t bytes;               /* of the block, a multiple of TFC__FEED_ALIGN */
	struct tfc__feed_node *nodes; /* one per field of the schema */
	uint32_t node_count;
};

/* Rows in the caller's memory, either as Arrow arrays or as plain columns. */
struct tfc__feed_rows {
	const struct ArrowSchema *schema; /* with an array */
	const struct ArrowArray *array;   /* a struct array; or NULL */
	const tfc_feed_column *columns;   /* when array is NULL */
	uint64_t rows;
};

/* The rows and the schema of a host's call: those of a struct array, or of plain columns.
 * TFC_EINVAL, and the errors of the schema. The caller ends *ret_schema. */
int tfc__feed_rows_of_array(const struct ArrowSchema *arrow, const struct ArrowArray *array,
			    uint64_t begin, tfc_error *error, struct tfc__feed_rows *ret_rows,
			    struct tfc__feed_schema *ret_schema);
int tfc__feed_rows_of_columns(const tfc_feed_column *columns, uint32_t column_count, uint64_t rows,
			      uint64_t begin, tfc_error *error, struct tfc__feed_rows *ret_rows,
			      struct tfc__feed_schema *ret_schema);

/* Checks rows [begin, rows->rows) against the schema: structure, lengths, nulls at the top, offsets
 * that do not decrease. TFC_OK or TFC_EINVAL with the column's name. Costs O(fields), and O(rows)
 * for offsets.
 */
int tfc__feed_rows_check(const struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			 uint64_t begin, tfc_error *error);

/* The layout of rows [begin, begin + count), which were checked. TFC_ENOMEM; TFC_ETOOBIG over 2^48
 * bytes. The caller ends *ret_layout with tfc__feed_layout_fini; nodes that it had are used again.
 */
int tfc__feed_layout_plan(const struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			  uint64_t begin, uint64_t count, struct tfc__feed_layout *layout);
/* Bytes that [begin, begin + count) need, without allocating: the same as layout->bytes. */
uint64_t tfc__feed_layout_bytes(const struct tfc__feed_schema *schema,
				const struct tfc__feed_rows *rows, uint64_t begin, uint64_t count);
/* Copies the rows of the plan into `block`, which is aligned to TFC__FEED_ALIGN and has
 * layout->bytes. */
void tfc__feed_layout_fill(const struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			   uint64_t begin, const struct tfc__feed_layout *layout, void *block);

/* As one msgpack value, and back: TFC_EPARSE, also if the nodes are not those of the schema. */
void tfc__feed_layout_write(const struct tfc__feed_layout *layout, struct tfc__buf *buf);
int tfc__feed_layout_read(const struct tfc__feed_schema *schema, const msgpack_object *object,
			  tfc_error *error, struct tfc__feed_layout *layout);
/* Checks a layout that came from another process, and the offsets in its block of `bytes` bytes:
 * TFC_OK, or TFC_EPARSE with the column's name. After it, no reader of the columns leaves the
 * block. */
int tfc__feed_layout_check(const struct tfc__feed_schema *schema,
			   const struct tfc__feed_layout *layout, const void *block, uint64_t bytes,
			   tfc_error *error);
void tfc__feed_layout_fini(struct tfc__feed_layout *layout);

/* Views of a block. `columns` is an array of schema->field_count, which the items of lists point
 * into; those at the top come first. */
void tfc__feed_layout_columns(const struct tfc__feed_schema *schema,
			      const struct tfc__feed_layout *layout, const void *block,
			      tfc_feed_column *columns);
/* What the block lives in. Each exported array keeps it once, and releases it on any thread. */
struct tfc__feed_owner {
	void (*keep)(void *user);
	void (*release)(void *user);
	void *user;
};

/* A struct array over the block. TFC_ENOMEM: nothing is kept. */
int tfc__feed_layout_export(const struct tfc__feed_schema *schema,
			    const struct tfc__feed_layout *layout, const void *block,
			    const struct tfc__feed_owner *owner, struct ArrowArray *ret_array);

#endif
