/* feed: a schema and a layout without memory say so and leave nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include "feed/layout.h"

static const int64_t offsets[] = {0, 1, 3};
static const int32_t numbers[] = {1, 2, 3, 4, 5, 6};
static uint8_t block[1024] __attribute__((aligned(TFC__FEED_ALIGN)));

static int references;
static int kept;

static void keep(void *user)
{
	references++;
	kept++;
}

static void release(void *user)
{
	references--;
}

static const struct tfc__feed_owner owner = {keep, release, NULL};

static int export_rows(const struct tfc__feed_schema *schema, const tfc_feed_column *column)
{
	const struct tfc__feed_rows rows = {.columns = column, .rows = 2};
	struct tfc__feed_layout layout = {0};
	struct ArrowSchema arrow_schema;
	struct ArrowArray arrow;
	int code = tfc__feed_schema_export(schema, &arrow_schema);
	if (code < 0)
		return code;
	arrow_schema.release(&arrow_schema);
	code = tfc__feed_layout_plan(schema, &rows, 0, 2, &layout);
	if (code == TFC_OK) {
		assert_true(layout.bytes <= sizeof(block));
		tfc__feed_layout_fill(schema, &rows, 0, &layout, block);
		code = tfc__feed_layout_export(schema, &layout, block, &owner, &arrow);
		if (code == TFC_OK)
			arrow.release(&arrow);
		assert_int_equal(references, 0);
	}
	tfc__feed_layout_fini(&layout);
	return code;
}

static int copy(void)
{
	tfc_feed_column items = TFC_FEED_COLUMN_INIT, column = TFC_FEED_COLUMN_INIT;
	struct tfc__feed_schema schema;
	tfc_error error = TFC_ERROR_INIT;
	items.type = TFC_FEED_TYPE_INT32;
	items.values = numbers;
	items.dimension_count = 1;
	items.dimensions[0] = 2;
	column.type = TFC_FEED_TYPE_LIST;
	column.name = "x";
	column.offsets = offsets;
	column.items = &items;
	column.item_count = 3;
	int code = failing_said(tfc__feed_schema_from_columns(&column, 1, &error, &schema), &error);
	if (code < 0)
		return code;
	code = export_rows(&schema, &column);
	tfc__feed_schema_fini(&schema);
	return code;
}

static void all_or_nothing(void **state)
{
	failing_sweep(copy, 10);
	assert_true(kept > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(all_or_nothing)};
	return cmocka_run_group_tests_name("feed_nomem", tests, NULL, NULL);
}
