/* feed: rows are copied into a block, and read from it, by value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed/layout.h"

/* Rows [begin, begin + count) in a block of their own. */
struct copied {
	struct tfc__feed_schema schema;
	struct tfc__feed_layout layout;
	uint8_t *block;
	tfc_feed_column columns[4];
};

static void copy_rows(struct copied *copied, const struct tfc__feed_rows *rows, uint64_t begin,
		      uint64_t count)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__feed_rows_check(&copied->schema, rows, begin, &error), TFC_OK);
	assert_int_equal(tfc__feed_layout_plan(&copied->schema, rows, begin, count,
					       &copied->layout),
			 TFC_OK);
	uint64_t bytes = copied->layout.bytes;
	assert_int_equal(bytes % TFC__FEED_ALIGN, 0);
	assert_int_equal(tfc__feed_layout_bytes(&copied->schema, rows, begin, count), bytes);
	assert_int_equal(posix_memalign((void **)&copied->block, TFC__FEED_ALIGN, bytes + 1), 0);
	tfc__feed_layout_fill(&copied->schema, rows, begin, &copied->layout, copied->block);
	assert_int_equal(tfc__feed_layout_check(&copied->schema, &copied->layout, copied->block,
						bytes, &error),
			 TFC_OK);
	assert_true(copied->schema.field_count <= 4);
	tfc__feed_layout_columns(&copied->schema, &copied->layout, copied->block, copied->columns);
}

static void copied_fini(struct copied *copied)
{
	free(copied->block);
	tfc__feed_layout_fini(&copied->layout);
	tfc__feed_schema_fini(&copied->schema);
}

static void copy_columns(struct copied *copied, const tfc_feed_column *column, uint64_t rows,
			 uint64_t begin, uint64_t count)
{
	tfc_error error = TFC_ERROR_INIT;
	const struct tfc__feed_rows all = {.columns = column, .rows = rows};
	assert_int_equal(tfc__feed_schema_from_columns(column, 1, &error, &copied->schema), TFC_OK);
	copy_rows(copied, &all, begin, count);
}

static void values_of_each_width(void **state)
{
	static const uint8_t widths[] = {[TFC_FEED_TYPE_INT8] = 1,    [TFC_FEED_TYPE_INT16] = 2,
					 [TFC_FEED_TYPE_INT32] = 4,   [TFC_FEED_TYPE_INT64] = 8,
					 [TFC_FEED_TYPE_UINT8] = 1,   [TFC_FEED_TYPE_UINT16] = 2,
					 [TFC_FEED_TYPE_UINT32] = 4,  [TFC_FEED_TYPE_UINT64] = 8,
					 [TFC_FEED_TYPE_FLOAT16] = 2, [TFC_FEED_TYPE_FLOAT32] = 4,
					 [TFC_FEED_TYPE_FLOAT64] = 8, [TFC_FEED_TYPE_BFLOAT16] = 2};
	uint8_t values[8 * 30];
	for (size_t i = 0; i < sizeof(values); i++)
		values[i] = (uint8_t)(i * 7 + 1);
	for (uint32_t type = TFC_FEED_TYPE_INT8; type <= TFC_FEED_TYPE_BFLOAT16; type++) {
		tfc_feed_column column = TFC_FEED_COLUMN_INIT;
		struct copied copied = {0};
		column.type = type;
		column.name = "x";
		column.values = values;
		column.dimension_count = 2;
		column.dimensions[0] = 2, column.dimensions[1] = 3;
		copy_columns(&copied, &column, 5, 1, 3);
		assert_memory_equal(copied.columns[0].values, values + 6 * widths[type],
				    18 * widths[type]);
		assert_int_equal(copied.columns[0].dimensions[1], 3);
		assert_null(copied.columns[0].validity);
		copied_fini(&copied);
	}
}

/* Every place that a byte can be begun at, of bools and of their validity. */
static void bits_at_odd_places(void **state)
{
	static const uint8_t validity[] = {0xb5, 0x6a, 0x93};
	uint8_t bools[24];
	for (uint64_t i = 0; i < 24; i++)
		bools[i] = i % 3 == 0;
	for (uint64_t begin = 0; begin <= 24; begin++)
		for (uint64_t count = 0; begin + count <= 24; count++) {
			tfc_feed_column column = TFC_FEED_COLUMN_INIT;
			struct copied copied = {0};
			uint64_t nulls = 0;
			column.type = TFC_FEED_TYPE_BOOL;
			column.name = "x";
			column.values = bools;
			column.validity = validity;
			copy_columns(&copied, &column, 24, begin, count);
			const uint8_t *to = copied.columns[0].values;
			const uint8_t *valid = copied.columns[0].validity;
			for (uint64_t i = 0; i < count; i++) {
				uint64_t row = begin + i;
				int is_valid = validity[row / 8] >> row % 8 & 1;
				nulls += !is_valid;
				assert_int_equal(to[i / 8] >> i % 8 & 1, bools[row]);
				assert_int_equal(valid ? valid[i / 8] >> i % 8 & 1 : 1, is_valid);
			}
			assert_int_equal(copied.layout.nodes[0].nulls, nulls);
			copied_fini(&copied);
		}
}

static void lists_of_text(void **state)
{
	static const int64_t text[] = {0, 2, 2, 5, 6}, lists[] = {0, 1, 1, 4};
	tfc_feed_column items = TFC_FEED_COLUMN_INIT, column = TFC_FEED_COLUMN_INIT;
	struct copied copied = {0};
	items.type = TFC_FEED_TYPE_UTF8;
	items.values = "abcdef";
	items.offsets = text;
	column.type = TFC_FEED_TYPE_LIST;
	column.name = "x";
	column.offsets = lists;
	column.items = &items;
	column.item_count = 4;
	copy_columns(&copied, &column, 3, 1, 2);
	assert_int_equal(copied.columns[0].offsets[1], 0);
	assert_int_equal(copied.columns[0].offsets[2], 3);
	const tfc_feed_column *got = copied.columns[0].items;
	assert_int_equal(copied.columns[0].item_count, 3);
	assert_int_equal(got->offsets[0], 0);
	assert_int_equal(got->offsets[1], 0);
	assert_int_equal(got->offsets[3], 4);
	assert_memory_equal(got->values, "cdef", 4);
	copied_fini(&copied);
}

/* The offset of the struct is added to that of its child; small offsets become large ones. */
static void sliced_arrays(void **state)
{
	static const int32_t offsets[] = {0, 1, 3, 3, 6, 7};
	static const uint8_t validity[] = {0x1b};
	const void *buffers[] = {validity, offsets, "abcdefg"}, *none[] = {NULL};
	struct ArrowSchema leaf = {.format = "u", .name = "x", .flags = ARROW_FLAG_NULLABLE};
	struct ArrowSchema *leaves[] = {&leaf};
	struct ArrowSchema schema = {.format = "+s",
				     .name = "",
				     .n_children = 1,
				     .children = leaves};
	struct ArrowArray child = {
		.length = 4, .null_count = -1, .offset = 1, .n_buffers = 3, .buffers = buffers};
	struct ArrowArray *children[] = {&child};
	struct ArrowArray array = {.length = 3,
				   .offset = 1,
				   .n_buffers = 1,
				   .buffers = none,
				   .n_children = 1,
				   .children = children};
	schema.release = leaf.release = (void (*)(struct ArrowSchema *))abort;
	array.release = child.release = (void (*)(struct ArrowArray *))abort;
	struct copied copied = {0};
	const struct tfc__feed_rows rows = {.schema = &schema, .array = &array, .rows = 3};
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__feed_schema_import(&schema, &error, &copied.schema), TFC_OK);
	copy_rows(&copied, &rows, 0, 3);
	assert_int_equal(copied.layout.nodes[0].nulls, 1);
	assert_int_equal(copied.columns[0].validity[0], 0x6);
	assert_int_equal(copied.columns[0].offsets[1], 0);
	assert_int_equal(copied.columns[0].offsets[2], 3);
	assert_int_equal(copied.columns[0].offsets[3], 4);
	assert_memory_equal(copied.columns[0].values, "defg", 4);
	copied_fini(&copied);
}

/* As Arrow has it, for vu and vz: up to 12 bytes are in the view itself. */
struct view {
	int32_t length;
	union {
		char bytes[12];
		struct {
			char prefix[4];
			int32_t buffer;
			int32_t offset;
		} place;
	};
};

static const struct view views[] = {
	{9, {.bytes = "not a row"}},
	{3, {.bytes = "abc"}},
	{13, {.place = {"well", 0, 2}}},
	{-5, {.place = {"null", 77, -1}}}, /* a null has any view */
	{0, {.bytes = ""}},
	{12, {.bytes = {'t', 'w', 'e', 'l', 'v', 'e', ' ', 'b', 'y', 't', 'e', 's'}}},
	{14, {.place = {"the ", 1, 0}}},
};
static const int64_t view_lengths[] = {16, 14};

/* Views of rows [begin, begin + count) of a struct whose offset is 1. `in` is "vu", or a list of
 * it. */
static int copy_views(struct copied *copied, const struct view *list, bool in_list, uint64_t begin,
		      uint64_t count, tfc_error *error)
{
	static const uint8_t validity[] = {0x77};
	static const int32_t offsets[] = {0, 0, 1, 4, 4, 6, 7};
	const void *buffers[] = {validity, list, "..well, 13 bytes", "the other one.",
				 view_lengths};
	const void *list_buffers[] = {NULL, offsets};
	struct ArrowSchema leaf = {.format = "vu", .name = "x", .flags = ARROW_FLAG_NULLABLE};
	struct ArrowSchema *leaves[] = {&leaf};
	struct ArrowSchema outer = {.format = "+l",
				    .name = "x",
				    .n_children = 1,
				    .children = leaves};
	struct ArrowSchema *columns[] = {in_list ? &outer : &leaf};
	struct ArrowSchema schema = {.format = "+s",
				     .name = "",
				     .n_children = 1,
				     .children = columns};
	struct ArrowArray texts = {.length = 7,
				   .null_count = 1,
				   .n_buffers = 5,
				   .buffers = buffers};
	struct ArrowArray *items[] = {&texts};
	struct ArrowArray lists = {.length = 6,
				   .n_buffers = 2,
				   .buffers = list_buffers,
				   .n_children = 1,
				   .children = items};
	struct ArrowArray *children[] = {in_list ? &lists : &texts};
	struct ArrowArray array = {.length = in_list ? 5 : 6,
				   .offset = 1,
				   .n_buffers = 1,
				   .buffers = list_buffers,
				   .n_children = 1,
				   .children = children};
	schema.release = leaf.release = outer.release = (void (*)(struct ArrowSchema *))abort;
	const struct tfc__feed_rows rows = {.schema = &schema,
					    .array = &array,
					    .rows = (uint64_t)array.length};
	assert_int_equal(tfc__feed_schema_import(&schema, error, &copied->schema), TFC_OK);
	int code = tfc__feed_rows_check(&copied->schema, &rows, begin, error);
	if (code == TFC_OK)
		copy_rows(copied, &rows, begin, count);
	return code;
}

static void expect_texts(const tfc_feed_column *column, const char *const *texts, uint64_t count)
{
	assert_int_equal(column->offsets[0], 0);
	for (uint64_t i = 0; i < count; i++) {
		size_t len = (size_t)(column->offsets[i + 1] - column->offsets[i]);
		bool is_null = column->validity && !(column->validity[i / 8] >> i % 8 & 1);
		assert_int_equal(is_null, !texts[i]);
		assert_int_equal(len, texts[i] ? strlen(texts[i]) : 0);
		if (len)
			assert_memory_equal((const char *)column->values + column->offsets[i],
					    texts[i], len);
	}
}

static void views_of_text(void **state)
{
	static const char *const texts[] = {"abc", "well, 13 byte", NULL,
					    "",    "twelve bytes",  "the other one."};
	tfc_error error = TFC_ERROR_INIT;
	for (uint64_t begin = 0; begin <= 6; begin++)
		for (uint64_t count = 0; begin + count <= 6; count++) {
			struct copied copied = {0};
			assert_int_equal(copy_views(&copied, views, false, begin, count, &error),
					 TFC_OK);
			assert_int_equal(copied.columns[0].type, TFC_FEED_TYPE_UTF8);
			expect_texts(&copied.columns[0], texts + begin, count);
			copied_fini(&copied);
		}
	/* lists [abc, well, null], [], ["", twelve], [the other] */
	struct copied copied = {0};
	assert_int_equal(copy_views(&copied, views, true, 1, 3, &error), TFC_OK);
	static const int64_t offsets[] = {0, 3, 3, 5};
	assert_memory_equal(copied.columns[0].offsets, offsets, sizeof(offsets));
	assert_int_equal(copied.columns[0].item_count, 5);
	expect_texts(copied.columns[0].items, texts, 5);
	copied_fini(&copied);
}

static void views_outside_of_their_buffers_are_refused(void **state)
{
	static const struct view bad[] = {
		{-1, {.bytes = ""}},
		{15, {.place = {"well", 0, 2}}},
		{13, {.place = {"well", 0, -1}}},
		{13, {.place = {"well", 0, INT32_MAX}}},
		{13, {.place = {"well", 2, 0}}},
		{13, {.place = {"well", -1, 0}}},
		{INT32_MAX, {.place = {"well", 1, 1}}},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct view list[sizeof(views) / sizeof(views[0])];
		struct copied copied = {0};
		tfc_error error = TFC_ERROR_INIT;
		memcpy(list, views, sizeof(views));
		list[4] = bad[i];
		assert_int_equal(copy_views(&copied, list, false, 0, 6, &error), TFC_EINVAL);
		assert_string_equal(error.text, "column \"x\": a text is not within its buffers");
		copied_fini(&copied);
		/* rows that were put before are not looked at again */
		copied = (struct copied){0};
		assert_int_equal(copy_views(&copied, list, false, 4, 2, &error), TFC_OK);
		copied_fini(&copied);
	}
}

/* Each change of a good layout is refused. */
static void hostile_layouts(void **state)
{
	static const int64_t offsets[] = {0, 2, 3};
	static const struct {
		size_t at;
		uint64_t value;
	} changes[] = {
		{offsetof(struct tfc__feed_node, rows), 3},
		{offsetof(struct tfc__feed_node, nulls), 1},
		{offsetof(struct tfc__feed_node, validity.at), UINT64_MAX - 63},
		{offsetof(struct tfc__feed_node, offsets.at), 8},
		{offsetof(struct tfc__feed_node, offsets.at), UINT64_MAX - 63},
		{offsetof(struct tfc__feed_node, offsets.len), 16},
		{offsetof(struct tfc__feed_node, offsets.len), UINT64_MAX},
		{offsetof(struct tfc__feed_node, values.at), 1 << 20},
		{offsetof(struct tfc__feed_node, values.len), 2},
		{offsetof(struct tfc__feed_node, values.len), UINT64_MAX},
	};
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	struct copied copied = {0};
	column.type = TFC_FEED_TYPE_BINARY;
	column.name = "x";
	column.values = "abc";
	column.offsets = offsets;
	copy_columns(&copied, &column, 2, 0, 2);
	const struct tfc__feed_node good = copied.layout.nodes[0];
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		tfc_error error = TFC_ERROR_INIT;
		memcpy((char *)copied.layout.nodes + changes[i].at, &changes[i].value, 8);
		assert_int_equal(tfc__feed_layout_check(&copied.schema, &copied.layout,
							copied.block, copied.layout.bytes, &error),
				 TFC_EPARSE);
		assert_non_null(strstr(error.text, "\"x\""));
		copied.layout.nodes[0] = good;
	}
	int64_t *in_block = (int64_t *)(void *)(copied.block + good.offsets.at);
	in_block[1] = 4;
	assert_int_equal(tfc__feed_layout_check(&copied.schema, &copied.layout, copied.block,
						copied.layout.bytes, NULL),
			 TFC_EPARSE);
	copied_fini(&copied);
}

/* A host puts a part of its rows at a time. */
static void rows_from_begin_on_are_checked(void **state)
{
	static const int64_t offsets[] = {0, 2, 4, 3, 6};
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	const struct tfc__feed_rows all = {.columns = &column, .rows = 4};
	struct tfc__feed_schema schema;
	column.type = TFC_FEED_TYPE_UTF8;
	column.name = "x";
	column.offsets = offsets;
	column.values = "abcdef";
	assert_int_equal(tfc__feed_schema_from_columns(&column, 1, NULL, &schema), TFC_OK);
	for (uint64_t begin = 0; begin <= 4; begin++)
		assert_int_equal(tfc__feed_rows_check(&schema, &all, begin, NULL),
				 begin <= 2 ? TFC_EINVAL : TFC_OK);
	const struct tfc__feed_rows first = {.columns = &column, .rows = 2};
	assert_int_equal(tfc__feed_rows_check(&schema, &first, 0, NULL), TFC_OK);
	tfc__feed_schema_fini(&schema);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_of_each_width),
		cmocka_unit_test(bits_at_odd_places),
		cmocka_unit_test(lists_of_text),
		cmocka_unit_test(sliced_arrays),
		cmocka_unit_test(views_of_text),
		cmocka_unit_test(views_outside_of_their_buffers_are_refused),
		cmocka_unit_test(hostile_layouts),
		cmocka_unit_test(rows_from_begin_on_are_checked),
	};
	return cmocka_run_group_tests_name("feed_layout", tests, NULL, NULL);
}
