#include "feed/batch.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

struct tfc__feed_shared_schema *tfc__feed_shared_schema_keep(struct tfc__feed_shared_schema *shared)
{
	if (shared)
		atomic_fetch_add(&shared->references, 1);
	return shared;
}

void tfc__feed_shared_schema_release(struct tfc__feed_shared_schema *shared)
{
	if (!shared || atomic_fetch_sub(&shared->references, 1) != 1)
		return;
	tfc__feed_schema_fini(&shared->schema);
	free(shared);
}

static void batch_free(struct tfc__feed_held *held)
{
	tfc_feed_batch *batch = tfc__container_of(held, tfc_feed_batch, held);
	tfc__feed_shared_schema_release(batch->schema);
	tfc__feed_layout_fini(&batch->layout);
	free(batch->columns);
	free(batch);
}

static tfc_feed_batch *batch_alloc(void)
{
	tfc_feed_batch *batch = calloc(1, sizeof(*batch));
	if (!batch)
		return NULL;
	atomic_init(&batch->references, 1);
	batch->held.free = batch_free;
	tfc__list_init(&batch->held.link);
	tfc__list_init(&batch->link);
	return batch;
}

int tfc__feed_batch_new(struct tfc__feed_mapping *mapping, struct tfc__feed_shared_schema *schema,
			struct tfc__feed_layout *layout, uint32_t block, uint64_t at,
			uint64_t bytes, tfc_error *error, tfc_feed_batch **ret_batch)
{
	uint64_t size = tfc__feed_mapping_size(mapping);
	tfc_feed_batch *batch = batch_alloc();
	if (!batch) {
		tfc__feed_layout_fini(layout);
		return tfc__fail_nomem(error, "feed");
	}
	batch->layout = *layout;
	batch->schema = tfc__feed_shared_schema_keep(schema);
	batch->held.block = block;
	batch->bytes = bytes;
	batch->columns = calloc(schema->schema.field_count, sizeof(*batch->columns));
	int code = TFC_OK;
	if (!batch->columns)
		code = tfc__fail_nomem(error, "feed");
	else if (at % TFC__FEED_ALIGN || at > size || bytes > size - at)
		code = tfc__fail(
			error, TFC_EPARSE, "feed", 0,
			"the other end of the feed has sent a batch outside of its memory");
	else
		code = tfc__feed_layout_check(&schema->schema, layout,
					      tfc__feed_mapping_base(mapping) + at, bytes, error);
	if (code < 0) {
		batch_free(&batch->held);
		return code;
	}
	batch->block = tfc__feed_mapping_base(mapping) + at;
	batch->mapping = mapping;
	tfc__feed_mapping_keep(mapping);
	tfc__feed_layout_columns(&schema->schema, &batch->layout, batch->block, batch->columns);
	*ret_batch = batch;
	return TFC_OK;
}

tfc_feed_batch *tfc__feed_batch_without_rows(struct tfc__feed_shared_schema *schema)
{
	/* what offsets begin with is 0 */
	static const _Alignas(TFC__FEED_ALIGN) uint8_t empty[TFC__FEED_ALIGN];
	uint32_t count = schema->schema.field_count;
	tfc_feed_batch *batch = batch_alloc();
	if (!batch)
		return NULL;
	batch->schema = tfc__feed_shared_schema_keep(schema);
	batch->layout.nodes = calloc(count, sizeof(*batch->layout.nodes));
	batch->columns = calloc(count, sizeof(*batch->columns));
	if (!batch->layout.nodes || !batch->columns) {
		batch_free(&batch->held);
		return NULL;
	}
	batch->layout.node_count = count;
	for (uint32_t i = 0; i < count; i++) {
		const struct tfc__feed_field *field = &schema->schema.fields[i];
		if (field->type >= TFC_FEED_TYPE_UTF8 && !field->is_fixed_binary)
			batch->layout.nodes[i].offsets.len = sizeof(int64_t);
	}
	batch->block = empty;
	tfc__feed_layout_columns(&schema->schema, &batch->layout, empty, batch->columns);
	return batch;
}

tfc_feed_batch *tfc__feed_batch_end_of(uint64_t partition, uint64_t rows)
{
	tfc_feed_batch *batch = batch_alloc();
	if (!batch)
		return NULL;
	batch->partition = partition;
	batch->offset = rows;
	batch->is_last = true;
	return batch;
}

tfc_feed_batch *tfc_feed_batch_keep(tfc_feed_batch *batch)
{
	if (batch)
		atomic_fetch_add(&batch->references, 1);
	return batch;
}

void tfc_feed_batch_release(tfc_feed_batch *batch)
{
	if (!batch || (batch->mapping && tfc__feed_mapping_is_forked(batch->mapping)) ||
	    atomic_fetch_sub(&batch->references, 1) != 1)
		return;
	struct tfc__feed_mapping *mapping = batch->mapping;
	if (!mapping) {
		batch_free(&batch->held);
		return;
	}
	tfc__feed_mapping_return(mapping, &batch->held);
	tfc__feed_mapping_release(mapping);
}

uint64_t tfc_feed_batch_rows(const tfc_feed_batch *batch)
{
	return batch ? batch->layout.rows : 0;
}

uint64_t tfc_feed_batch_partition(const tfc_feed_batch *batch)
{
	return batch ? batch->partition : 0;
}

uint64_t tfc_feed_batch_offset(const tfc_feed_batch *batch)
{
	return batch ? batch->offset : 0;
}

int tfc_feed_batch_is_last(const tfc_feed_batch *batch)
{
	return batch && batch->is_last;
}

uint64_t tfc_feed_batch_bytes(const tfc_feed_batch *batch)
{
	return batch ? batch->bytes : 0;
}

uint64_t tfc_feed_batch_window_bytes(const tfc_feed_batch *batch)
{
	return batch && batch->mapping ? tfc__feed_mapping_size(batch->mapping) : 0;
}

uint32_t tfc_feed_batch_column_count(const tfc_feed_batch *batch)
{
	return batch && batch->schema ? batch->schema->schema.column_count : 0;
}

int tfc_feed_batch_column(const tfc_feed_batch *batch, uint32_t index, tfc_feed_column *ret_column)
{
	if (!batch || !ret_column)
		return TFC_EINVAL;
	if (index >= tfc_feed_batch_column_count(batch))
		return TFC_ENOENT;
	uint32_t size = ret_column->size;
	if (size < sizeof(uint32_t))
		return TFC_EINVAL;
	uint32_t known = size < sizeof(*ret_column) ? size : (uint32_t)sizeof(*ret_column);
	memset(ret_column, 0, size);
	memcpy(ret_column, &batch->columns[index], known);
	ret_column->size = size;
	return TFC_OK;
}

static void batch_keep_owner(void *user)
{
	tfc_feed_batch_keep(user);
}

static void batch_release_owner(void *user)
{
	tfc_feed_batch_release(user);
}

int tfc_feed_batch_export(tfc_feed_batch *batch, struct ArrowSchema *ret_schema,
			  struct ArrowArray *ret_array)
{
	struct ArrowSchema schema;
	if (!batch || !ret_schema || !ret_array || !batch->schema)
		return TFC_EINVAL;
	int code = tfc__feed_schema_export(&batch->schema->schema, &schema);
	if (code < 0)
		return code;
	const struct tfc__feed_owner owner = {batch_keep_owner, batch_release_owner, batch};
	code = tfc__feed_layout_export(&batch->schema->schema, &batch->layout, batch->block, &owner,
				       ret_array);
	if (code < 0) {
		schema.release(&schema);
		return code;
	}
	*ret_schema = schema;
	return TFC_OK;
}
