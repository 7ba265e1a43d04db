/* feed: the schema, the layout and the block of a batch that another process sends. */
#include <msgpack.h>
#include <string.h>

#include "feed/layout.h"
#include "fuzz.h"

/* The first two bytes are the length of the schema, the next two that of the layout; the block is
 * the rest. */
enum { HEAD = 4 };

static uint64_t sum;

/* Reads what the column says that it has. */
static void read_column(const tfc_feed_column *column, uint64_t rows)
{
	for (uint64_t i = 0; column->validity && i < rows; i++)
		sum += column->validity[i / 8] >> i % 8 & 1;
	if (!column->offsets)
		return;
	for (uint64_t i = 0; i < rows; i++)
		CHECK(column->offsets[i] <= column->offsets[i + 1]);
	if (column->items) {
		CHECK((uint64_t)column->offsets[rows] == column->item_count);
		read_column(column->items, column->item_count);
		return;
	}
	for (int64_t i = 0; i < column->offsets[rows]; i++)
		sum += ((const uint8_t *)column->values)[i];
}

static void keep(void *user)
{
	++*(int *)user;
}

static void release(void *user)
{
	--*(int *)user;
}

static void read_block(const struct tfc__feed_schema *schema, struct tfc__feed_layout *layout,
		       const void *block)
{
	tfc_feed_column columns[TFC__FEED_COLUMNS_MAX];
	struct ArrowArray array;
	int references = 0;
	const struct tfc__feed_owner owner = {keep, release, &references};
	tfc__feed_layout_columns(schema, layout, block, columns);
	for (uint32_t i = 0; i < schema->column_count; i++)
		read_column(&columns[i], layout->rows);
	CHECK(tfc__feed_layout_export(schema, layout, block, &owner, &array) == TFC_OK);
	CHECK(array.n_children == schema->column_count && (uint64_t)array.length == layout->rows);
	/* A consumer may move a column out, and release the rest. */
	struct ArrowArray first = *array.children[0];
	array.children[0]->release = NULL;
	array.release(&array);
	CHECK(references > 0);
	first.release(&first);
	CHECK(references == 0);
}

static void read_layout(const struct tfc__feed_schema *schema, const uint8_t *text, size_t len,
			const uint8_t *block, size_t bytes)
{
	struct tfc__feed_layout layout = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	uint8_t *aligned = NULL;
	if (tfc__msg_parse(&msg, text, len, NULL, &error) < 0)
		return;
	int code = tfc__feed_layout_read(schema, &msg.root, &error, &layout);
	if (code == TFC_OK) {
		/* As long as the block is, so that a sanitizer sees who leaves it. */
		CHECK(posix_memalign((void **)&aligned, TFC__FEED_ALIGN, bytes ? bytes : 1) == 0);
		if (bytes)
			memcpy(aligned, block, bytes);
		code = tfc__feed_layout_check(schema, &layout, aligned, bytes, &error);
	}
	if (code == TFC_OK)
		read_block(schema, &layout, aligned);
	else
		fuzz_check_error(code, &error);
	free(aligned);
	tfc__feed_layout_fini(&layout);
	tfc__msg_fini(&msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tfc__feed_schema schema;
	tfc_error error = TFC_ERROR_INIT;
	struct fuzz_input input = {data, size};
	if (size < HEAD)
		return 0;
	size_t schema_len = fuzz_number(&input, 2), layout_len = fuzz_number(&input, 2);
	const uint8_t *schema_text = fuzz_bytes(&input, schema_len, &schema_len);
	const uint8_t *layout_text = fuzz_bytes(&input, layout_len, &layout_len);
	int code = tfc__feed_schema_read(schema_text, schema_len, &error, &schema);
	if (code < 0) {
		fuzz_check_error(code, &error);
		return 0;
	}
	read_layout(&schema, layout_text, layout_len, input.at, input.len);
	tfc__feed_schema_fini(&schema);
	return 0;
}
