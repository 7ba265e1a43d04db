#include "feed/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

#define BYTES_MAX (UINT64_C(1) << 48)
#define VIEW_INLINE 12 /* bytes */

static uint64_t align_up(uint64_t bytes)
{
	return (bytes + TFC__FEED_ALIGN - 1) / TFC__FEED_ALIGN * TFC__FEED_ALIGN;
}

static uint64_t bits_to_bytes(uint64_t bits)
{
	return bits / 8 + (bits % 8 != 0);
}

/* ---- where the rows of a field are in the caller's memory */

/* A text of Arrow's formats vu and vz. */
struct arrow_view {
	int32_t length;
	union {
		uint8_t bytes[VIEW_INLINE]; /* up to that length */
		struct {
			uint8_t prefix[4];
			int32_t buffer;
			int32_t offset;
		} place;
	};
};

struct field_source {
	const uint8_t *validity; /* NULL: no nulls */
	uint64_t validity_first; /* the bit of row 0 */
	const uint8_t *values;
	uint64_t values_first; /* fixed width: the row, of `width`, that is row 0 */
	const void *offsets;
	uint64_t offsets_first;
	bool has_small_offsets;         /* 32 bits wide */
	bool has_byte_bools;            /* a byte each */
	const struct arrow_view *views; /* of text and bytes, in place of offsets and values */
	const struct ArrowArray *array; /* of a list or of views */
	const tfc_feed_column *column;
};

static uint64_t source_offset(const struct field_source *source, uint64_t row)
{
	row += source->offsets_first;
	if (source->has_small_offsets)
		return (uint64_t)((const int32_t *)source->offsets)[row];
	return (uint64_t)((const int64_t *)source->offsets)[row];
}

/* The bytes of a text of views. A null may have any view. */
static uint64_t view_bytes(const struct field_source *source, uint64_t row)
{
	uint64_t bit = source->validity_first + row;
	if (source->validity && !(source->validity[bit / 8] >> bit % 8 & 1))
		return 0;
	return (uint64_t)source->views[row].length;
}

static const uint8_t *view_data(const struct field_source *source, uint64_t row)
{
	const struct arrow_view *view = &source->views[row];
	if (view->length <= VIEW_INLINE)
		return view->bytes;
	return (const uint8_t *)source->array->buffers[2 + view->place.buffer] + view->place.offset;
}

/* ---- Arrow has the kind of offsets in the schema, which is not kept: it follows from the
 * buffers' owner */

static bool schema_has_small_offsets(const struct ArrowSchema *schema)
{
	return !strcmp(schema->format, "u") || !strcmp(schema->format, "z") ||
	       !strcmp(schema->format, "+l");
}

static bool schema_has_views(const struct ArrowSchema *schema)
{
	return schema->format[0] == 'v';
}

/* The rows of `array` begin at its own offset plus `first`. */
static struct field_source source_of_array(const struct tfc__feed_field *field,
					   const struct ArrowSchema *schema,
					   const struct ArrowArray *array, uint64_t first)
{
	first += (uint64_t)array->offset;
	struct field_source source = {
		.validity = array->null_count ? array->buffers[0] : NULL,
		.validity_first = first,
		.has_small_offsets = schema_has_small_offsets(schema),
		.array = array,
	};
	if (schema_has_views(schema)) {
		const struct arrow_view *views = array->buffers[1];
		source.views = views ? views + first : NULL;
		return source;
	}
	if (!field->width && !field->is_fixed_binary && field->type >= TFC_FEED_TYPE_UTF8) {
		source.offsets = array->buffers[1];
		source.offsets_first = first;
		source.values = field->type == TFC_FEED_TYPE_LIST ? NULL : array->buffers[2];
		return source;
	}
	uint64_t element = first;
	for (uint32_t i = 0; i < field->dimension_count; i++) {
		uint64_t size = field->dimensions[i];
		if (field->is_tensor)
			for (i++; i < field->dimension_count; i++)
				size *= field->dimensions[i];
		array = array->children[0];
		element = element * size + (uint64_t)array->offset;
	}
	source.values = array->buffers[1];
	source.values_first = element; /* in elements: see element_bits */
	return source;
}

static struct field_source source_of_column(const tfc_feed_column *column)
{
	return (struct field_source){
		.validity = column->validity,
		.values = column->values,
		.offsets = column->offsets,
		.has_byte_bools = column->type == TFC_FEED_TYPE_BOOL,
		.column = column,
	};
}

/* The number of elements of a row. */
static uint64_t row_elements(const struct tfc__feed_field *field)
{
	uint64_t elements = 1;
	for (uint32_t i = 0; i < field->dimension_count; i++)
		elements *= field->dimensions[i];
	return elements;
}

/* ---- copying */

/* Copies `count` bits from bit `first` on to bit 0. */
static void copy_bits(uint8_t *to, const uint8_t *from, uint64_t first, uint64_t count)
{
	uint64_t bytes = bits_to_bytes(count);
	unsigned shift = first % 8;
	if (!count)
		return;
	from += first / 8;
	if (!shift) {
		memcpy(to, from, bytes);
	} else {
		uint64_t last = bits_to_bytes(shift + count) - 1;
		for (uint64_t i = 0; i < bytes; i++)
			to[i] = (uint8_t)(from[i] >> shift |
					  (i < last ? from[i + 1] << (8 - shift) : 0));
	}
	if (count % 8)
		to[bytes - 1] &= (uint8_t)((1u << count % 8) - 1);
}

static void pack_bools(uint8_t *to, const uint8_t *from, uint64_t count)
{
	memset(to, 0, bits_to_bytes(count));
	for (uint64_t i = 0; i < count; i++)
		to[i / 8] |= (uint8_t)((from[i] != 0) << i % 8);
}

static uint64_t count_zeros(const uint8_t *bits, uint64_t first, uint64_t count)
{
	uint64_t ones = 0, i = first, end = first + count;
	for (; i < end && i % 8; i++)
		ones += bits[i / 8] >> i % 8 & 1;
	for (; i + 8 <= end; i += 8)
		ones += (uint64_t)__builtin_popcount(bits[i / 8]);
	for (; i < end; i++)
		ones += bits[i / 8] >> i % 8 & 1;
	return count - ones;
}

/* ---- one walk over the fields measures, plans or fills */

struct walk {
	const struct tfc__feed_schema *schema;
	const struct ArrowSchema *arrow; /* of struct tfc__feed_rows */
	struct tfc__feed_node *nodes;    /* to plan; or NULL */
	uint8_t *block;                  /* to fill; or NULL */
	uint64_t bytes;
};

static struct tfc__feed_place walk_place(struct walk *walk, uint64_t len)
{
	struct tfc__feed_place place = {walk->bytes, len};
	walk->bytes += align_up(len);
	return place;
}

static void walk_validity(struct walk *walk, struct tfc__feed_node *node,
			  const struct field_source *source, uint64_t first, uint64_t count)
{
	if (!source->validity)
		return;
	node->validity = walk_place(walk, bits_to_bytes(count));
	if (walk->nodes)
		node->nulls = count_zeros(source->validity, source->validity_first + first, count);
	if (walk->block)
		copy_bits(walk->block + node->validity.at, source->validity,
			  source->validity_first + first, count);
}

static void walk_fixed(struct walk *walk, struct tfc__feed_node *node,
		       const struct tfc__feed_field *field, const struct field_source *source,
		       uint64_t first, uint64_t count)
{
	uint64_t elements = row_elements(field);
	if (field->type == TFC_FEED_TYPE_BOOL) {
		node->values = walk_place(walk, bits_to_bytes(count * elements));
		if (!walk->block)
			return;
		uint8_t *to = walk->block + node->values.at;
		if (source->has_byte_bools)
			pack_bools(to, source->values + first * elements, count * elements);
		else
			copy_bits(to, source->values, source->values_first + first * elements,
				  count * elements);
		return;
	}
	uint64_t element_bytes = elements ? field->width / elements : 0;
	node->values = walk_place(walk, count * field->width);
	if (walk->block && node->values.len)
		memcpy(walk->block + node->values.at,
		       source->values + source->values_first * element_bytes + first * field->width,
		       node->values.len);
}

static void walk_offsets(struct walk *walk, struct tfc__feed_node *node,
			 const struct field_source *source, uint64_t first, uint64_t count)
{
	node->offsets = walk_place(walk, (count + 1) * sizeof(int64_t));
	if (!walk->block)
		return;
	int64_t *to = (int64_t *)(void *)(walk->block + node->offsets.at);
	if (!count) { /* Arrow then needs no offsets */
		*to = 0;
		return;
	}
	uint64_t base = source_offset(source, first);
	for (uint64_t i = 0; i <= count; i++)
		to[i] = (int64_t)(source_offset(source, first + i) - base);
}

static void walk_views(struct walk *walk, struct tfc__feed_node *node,
		       const struct field_source *source, uint64_t first, uint64_t count)
{
	uint64_t bytes = 0;
	for (uint64_t i = 0; i < count; i++)
		bytes += view_bytes(source, first + i);
	node->offsets = walk_place(walk, (count + 1) * sizeof(int64_t));
	node->values = walk_place(walk, bytes);
	if (!walk->block)
		return;
	int64_t *to = (int64_t *)(void *)(walk->block + node->offsets.at);
	uint8_t *values = walk->block + node->values.at;
	to[0] = 0;
	for (uint64_t i = 0; i < count; i++) {
		bytes = view_bytes(source, first + i);
		if (bytes)
			memcpy(values + to[i], view_data(source, first + i), bytes);
		to[i + 1] = to[i] + (int64_t)bytes;
	}
}

static void walk_field(struct walk *walk, uint32_t index, const struct ArrowSchema *arrow,
		       const struct field_source *source, uint64_t first, uint64_t count)
{
	const struct tfc__feed_field *field = &walk->schema->fields[index];
	struct tfc__feed_node own = {0};
	struct tfc__feed_node *node = walk->nodes ? &walk->nodes[index] : &own;
	*node = (struct tfc__feed_node){.rows = count};
	walk_validity(walk, node, source, first, count);
	if (field->type < TFC_FEED_TYPE_UTF8 || field->is_fixed_binary) {
		walk_fixed(walk, node, field, source, first, count);
		return;
	}
	if (source->views) {
		walk_views(walk, node, source, first, count);
		return;
	}
	uint64_t from = count ? source_offset(source, first) : 0;
	uint64_t until = count ? source_offset(source, first + count) : 0;
	walk_offsets(walk, node, source, first, count);
	if (field->type == TFC_FEED_TYPE_LIST) {
		const struct ArrowSchema *child = arrow ? arrow->children[0] : NULL;
		struct field_source items = source->array
						    ? source_of_array(field + 1, child,
								      source->array->children[0], 0)
						    : source_of_column(source->column->items);
		walk_field(walk, index + 1, child, &items, from, until - from);
		return;
	}
	node->values = walk_place(walk, until - from);
	if (walk->block && until > from)
		memcpy(walk->block + node->values.at, source->values + from, until - from);
}

static void walk_rows(struct walk *walk, const struct tfc__feed_rows *rows, uint64_t begin,
		      uint64_t count)
{
	uint32_t column = 0;
	for (uint32_t i = 0; i < walk->schema->field_count;
	     i += 1 + walk->schema->fields[i].descendants, column++) {
		const struct ArrowSchema *arrow = rows->array ? rows->schema->children[column]
							      : NULL;
		struct field_source source =
			rows->array ? source_of_array(&walk->schema->fields[i], arrow,
						      rows->array->children[column],
						      (uint64_t)rows->array->offset)
				    : source_of_column(&rows->columns[column]);
		walk_field(walk, i, arrow, &source, begin, count);
	}
}

uint64_t tfc__feed_layout_bytes(const struct tfc__feed_schema *schema,
				const struct tfc__feed_rows *rows, uint64_t begin, uint64_t count)
{
	struct walk walk = {.schema = schema};
	walk_rows(&walk, rows, begin, count);
	return walk.bytes;
}

static int layout_reserve(struct tfc__feed_layout *layout, uint32_t count)
{
	if (layout->node_count == count)
		return TFC_OK;
	struct tfc__feed_node *nodes = realloc(layout->nodes, count * sizeof(*nodes));
	if (!nodes)
		return TFC_ENOMEM;
	memset(nodes, 0, count * sizeof(*nodes));
	layout->nodes = nodes;
	layout->node_count = count;
	return TFC_OK;
}

int tfc__feed_layout_plan(const struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			  uint64_t begin, uint64_t count, struct tfc__feed_layout *layout)
{
	int code = layout_reserve(layout, schema->field_count);
	if (code < 0)
		return code;
	struct walk walk = {.schema = schema, .nodes = layout->nodes};
	walk_rows(&walk, rows, begin, count);
	layout->rows = count;
	layout->bytes = walk.bytes;
	return walk.bytes > BYTES_MAX ? TFC_ETOOBIG : TFC_OK;
}

void tfc__feed_layout_fill(const struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			   uint64_t begin, const struct tfc__feed_layout *layout, void *block)
{
	struct walk walk = {.schema = schema, .block = block};
	walk_rows(&walk, rows, begin, layout->rows);
}

void tfc__feed_layout_fini(struct tfc__feed_layout *layout)
{
	free(layout->nodes);
	*layout = (struct tfc__feed_layout){0};
}

/* ---- checking the caller's rows */

static int fail_column(const struct tfc__feed_field *field, const char *what, tfc_error *error)
{
	return tfc__fail(error, TFC_EINVAL, "feed", 0, "column \"%s\": %s", field->name, what);
}

static int check_offsets(const struct tfc__feed_field *field, const struct field_source *source,
			 uint64_t first, uint64_t count, uint64_t *ret_end, tfc_error *error)
{
	int64_t before = 0;
	*ret_end = 0;
	if (!count)
		return TFC_OK;
	if (!source->offsets)
		return fail_column(field, "it has no offsets", error);
	for (uint64_t i = 0; i <= count; i++) {
		int64_t offset = (int64_t)source_offset(source, first + i);
		if (source->has_small_offsets)
			offset = (int32_t)offset;
		if (offset < before)
			return fail_column(field, "its offsets decrease, or are negative", error);
		before = offset;
	}
	*ret_end = (uint64_t)before;
	return TFC_OK;
}

static bool array_has_nulls(const struct ArrowArray *array)
{
	if (!array->null_count || !array->buffers || !array->n_buffers || !array->buffers[0])
		return false;
	return count_zeros(array->buffers[0], (uint64_t)array->offset, (uint64_t)array->length) > 0;
}

static int64_t buffers_of(const struct tfc__feed_field *field)
{
	if (field->dimension_count || field->is_tensor)
		return 1; /* of the fixed-size list */
	if (field->type == TFC_FEED_TYPE_LIST || field->type < TFC_FEED_TYPE_UTF8 ||
	    field->is_fixed_binary)
		return 2;
	return 3;
}

/* Whether a value is null in a row that is not. Each row has `size` values, those of row 0 from
 * `first` on. */
static bool has_nulls_inside(const struct ArrowArray *outer, uint64_t row, uint64_t rows,
			     const struct ArrowArray *inner, uint64_t first, uint64_t size)
{
	const uint8_t *valid = outer->null_count ? outer->buffers[0] : NULL;
	if (!inner->null_count || !inner->buffers || inner->n_buffers < 1 || !inner->buffers[0])
		return false;
	for (uint64_t i = 0; i < rows; i++)
		if ((!valid || valid[(row + i) / 8] >> (row + i) % 8 & 1) &&
		    count_zeros(inner->buffers[0], first + i * size, size))
			return true;
	return false;
}

/* The nested arrays of fixed-size lists, down to the values, for rows [first, first + rows) behind
 * the array's own offset. */
static int check_dimensions(const struct tfc__feed_field *field, const struct ArrowArray *array,
			    uint64_t first, uint64_t rows, tfc_error *error)
{
	const struct ArrowArray *outer = array;
	uint64_t row = (uint64_t)array->offset + first, begin = row, per_row = 1, end;
	for (uint32_t i = 0; i < field->dimension_count; i++) {
		uint64_t size = field->dimensions[i];
		if (field->is_tensor)
			for (i++; i < field->dimension_count; i++)
				size *= field->dimensions[i];
		if (array->n_children != 1 || !array->children || !array->children[0])
			return fail_column(field, "its fixed-size list has no items", error);
		array = array->children[0];
		if (__builtin_mul_overflow(begin, size, &begin) ||
		    __builtin_mul_overflow(per_row, size, &per_row) ||
		    __builtin_mul_overflow(rows, per_row, &end) ||
		    __builtin_add_overflow(begin, end, &end) || array->length < 0 ||
		    array->offset < 0 || (uint64_t)array->length < end)
			return fail_column(field, "its fixed-size list has too few items", error);
		begin += (uint64_t)array->offset;
		if (has_nulls_inside(outer, row, rows, array, begin, per_row))
			return fail_column(field, "there are nulls within a fixed-size list",
					   error);
	}
	if (array->n_buffers != 2 || !array->buffers || (rows && per_row && !array->buffers[1]))
		return fail_column(field, "it has no values", error);
	return TFC_OK;
}

/* Whether the views of rows [first, first + count) are within their buffers, the last of which has
 * the lengths of the others. */
static bool views_are_fine(const struct field_source *source, uint64_t first, uint64_t count)
{
	const struct ArrowArray *array = source->array;
	int64_t buffers = array->n_buffers - 3;
	const int64_t *lengths = array->buffers[array->n_buffers - 1];
	for (uint64_t i = first; i < first + count; i++) {
		const struct arrow_view *view = &source->views[i];
		if (!view_bytes(source, i) || (view->length > 0 && view->length <= VIEW_INLINE))
			continue;
		if (view->length < 0 || view->place.buffer < 0 || view->place.buffer >= buffers ||
		    !lengths || !array->buffers[2 + view->place.buffer] || view->place.offset < 0 ||
		    view->place.offset > lengths[view->place.buffer] - view->length)
			return false;
	}
	return true;
}

static int check_views(const struct tfc__feed_field *field, const struct ArrowSchema *arrow,
		       const struct ArrowArray *array, uint64_t first, uint64_t count,
		       tfc_error *error)
{
	struct field_source source = source_of_array(field, arrow, array, 0);
	if (count && !source.views)
		return fail_column(field, "it has no values", error);
	return views_are_fine(&source, first, count)
		       ? TFC_OK
		       : fail_column(field, "a text is not within its buffers", error);
}

/* Rows [first, first + count) are used, behind the array's own offset. */
static int check_array(const struct tfc__feed_schema *schema, uint32_t index,
		       const struct ArrowSchema *arrow, const struct ArrowArray *array,
		       uint64_t first, uint64_t count, tfc_error *error)
{
	const struct tfc__feed_field *field = &schema->fields[index];
	uint64_t rows = first + count, end;
	if (!array || array->length < 0 || array->offset < 0 || (uint64_t)array->length < rows)
		return fail_column(field, "it has fewer rows than the others", error);
	bool fits = schema_has_views(arrow) ? array->n_buffers >= 3
					    : array->n_buffers == buffers_of(field);
	if (!fits || !array->buffers || array->dictionary)
		return fail_column(field, "its array does not fit its Arrow format", error);
	if (array->null_count > 0 && !array->buffers[0])
		return fail_column(field, "it has nulls, but no validity bitmap", error);
	if (field->dimension_count)
		return check_dimensions(field, array, first, count, error);
	if (field->type < TFC_FEED_TYPE_UTF8 || field->is_fixed_binary)
		return rows && field->width && !array->buffers[1]
			       ? fail_column(field, "it has no values", error)
			       : TFC_OK;
	if (schema_has_views(arrow))
		return check_views(field, arrow, array, first, count, error);
	struct field_source source = source_of_array(field, arrow, array, 0);
	int code = check_offsets(field, &source, first, count, &end, error);
	if (code < 0)
		return code;
	if (field->type != TFC_FEED_TYPE_LIST)
		return end && !source.values ? fail_column(field, "it has no bytes", error)
					     : TFC_OK;
	if (array->n_children != 1 || !array->children)
		return fail_column(field, "its list has no items", error);
	return check_array(schema, index + 1, arrow->children[0], array->children[0], 0, end,
			   error);
}

static int check_struct(const struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			uint64_t begin, tfc_error *error)
{
	const struct ArrowArray *array = rows->array;
	if (array_has_nulls(array))
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "rows are null as a whole; only their columns can be");
	uint32_t column = 0;
	int code = TFC_OK;
	for (uint32_t i = 0; i < schema->field_count && code == TFC_OK;
	     i += 1 + schema->fields[i].descendants, column++)
		code = check_array(schema, i, rows->schema->children[column],
				   array->children[column], (uint64_t)array->offset + begin,
				   rows->rows - begin, error);
	return code;
}

static int check_column(const struct tfc__feed_schema *schema, uint32_t index,
			const tfc_feed_column *column, uint64_t first, uint64_t count,
			tfc_error *error)
{
	const struct tfc__feed_field *field = &schema->fields[index];
	uint64_t end;
	struct field_source source = source_of_column(column);
	if (field->type < TFC_FEED_TYPE_UTF8)
		return count && field->width && !column->values
			       ? fail_column(field, "it has no values", error)
			       : TFC_OK;
	int code = check_offsets(field, &source, first, count, &end, error);
	if (code < 0)
		return code;
	if (field->type != TFC_FEED_TYPE_LIST)
		return end && !column->values ? fail_column(field, "it has no bytes", error)
					      : TFC_OK;
	if (column->item_count < end)
		return fail_column(field, "its list has fewer items than its offsets say", error);
	return check_column(schema, index + 1, column->items, 0, end, error);
}

int tfc__feed_rows_check(const struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			 uint64_t begin, tfc_error *error)
{
	if (rows->array)
		return check_struct(schema, rows, begin, error);
	uint32_t column = 0;
	int code = TFC_OK;
	for (uint32_t i = 0; i < schema->field_count && code == TFC_OK;
	     i += 1 + schema->fields[i].descendants)
		code = check_column(schema, i, &rows->columns[column++], begin, rows->rows - begin,
				    error);
	return code;
}

int tfc__feed_rows_of_array(const struct ArrowSchema *arrow, const struct ArrowArray *array,
			    uint64_t begin, tfc_error *error, struct tfc__feed_rows *ret_rows,
			    struct tfc__feed_schema *ret_schema)
{
	if (!arrow || !array)
		return tfc__fail(error, TFC_EINVAL, "feed", 0, "schema or array is NULL");
	if (!array->release || !arrow->release || array->n_children != arrow->n_children ||
	    array->length < 0 || array->offset < 0 || (array->n_children && !array->children))
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "the Arrow array is not a struct of the schema's columns, or was "
				 "released");
	if (begin > (uint64_t)array->length)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "begin is %llu, but the array has %lld rows",
				 (unsigned long long)begin, (long long)array->length);
	*ret_rows = (struct tfc__feed_rows){.schema = arrow,
					    .array = array,
					    .rows = (uint64_t)array->length};
	return tfc__feed_schema_import(arrow, error, ret_schema);
}

int tfc__feed_rows_of_columns(const tfc_feed_column *columns, uint32_t column_count, uint64_t rows,
			      uint64_t begin, tfc_error *error, struct tfc__feed_rows *ret_rows,
			      struct tfc__feed_schema *ret_schema)
{
	if (!columns || begin > rows)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "columns is NULL, or begin is above rows");
	*ret_rows = (struct tfc__feed_rows){.columns = columns, .rows = rows};
	return tfc__feed_schema_from_columns(columns, column_count, error, ret_schema);
}

/* ---- on the wire: a list of numbers: rows, bytes, and for each node rows, nulls and its places */

enum { HEAD_NUMBERS = 2, NODE_NUMBERS = 8 };

void tfc__feed_layout_write(const struct tfc__feed_layout *layout, struct tfc__buf *buf)
{
	tfc__msg_array(buf, HEAD_NUMBERS + NODE_NUMBERS * layout->node_count);
	tfc__msg_u64(buf, layout->rows);
	tfc__msg_u64(buf, layout->bytes);
	for (uint32_t i = 0; i < layout->node_count; i++) {
		const struct tfc__feed_node *node = &layout->nodes[i];
		const uint64_t numbers[NODE_NUMBERS] = {node->rows,        node->nulls,
							node->validity.at, node->validity.len,
							node->offsets.at,  node->offsets.len,
							node->values.at,   node->values.len};
		for (int n = 0; n < NODE_NUMBERS; n++)
			tfc__msg_u64(buf, numbers[n]);
	}
}

static int fail_layout(tfc_error *error)
{
	return tfc__fail(error, TFC_EPARSE, "feed", 0,
			 "the other end of the feed has sent a batch that does not fit its schema");
}

int tfc__feed_layout_read(const struct tfc__feed_schema *schema, const msgpack_object *object,
			  tfc_error *error, struct tfc__feed_layout *layout)
{
	const msgpack_object_array *list = &object->via.array;
	if (object->type != MSGPACK_OBJECT_ARRAY ||
	    list->size != HEAD_NUMBERS + NODE_NUMBERS * schema->field_count)
		return fail_layout(error);
	for (uint32_t i = 0; i < list->size; i++)
		if (list->ptr[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
			return fail_layout(error);
	if (layout_reserve(layout, schema->field_count) < 0)
		return tfc__fail_nomem(error, "feed");
	layout->rows = list->ptr[0].via.u64;
	layout->bytes = list->ptr[1].via.u64;
	for (uint32_t i = 0; i < layout->node_count; i++) {
		const msgpack_object *n = &list->ptr[HEAD_NUMBERS + NODE_NUMBERS * i];
		layout->nodes[i] = (struct tfc__feed_node){
			.rows = n[0].via.u64,
			.nulls = n[1].via.u64,
			.validity = {n[2].via.u64, n[3].via.u64},
			.offsets = {n[4].via.u64, n[5].via.u64},
			.values = {n[6].via.u64, n[7].via.u64},
		};
	}
	return TFC_OK;
}

/* An empty place, too: what views the block points to it. */
static bool place_is_inside(struct tfc__feed_place place, uint64_t bytes)
{
	return place.at % TFC__FEED_ALIGN == 0 && place.at <= bytes &&
	       place.len <= bytes - place.at;
}

/* Whether the offsets of `rows` rows begin at 0, do not decrease and end at or before `limit`. */
static bool offsets_are_fine(const struct tfc__feed_node *node, const uint8_t *block,
			     uint64_t *ret_end)
{
	const int64_t *offsets = (const int64_t *)(const void *)(block + node->offsets.at);
	if (node->offsets.len / sizeof(int64_t) < node->rows + 1 || offsets[0])
		return false;
	for (uint64_t i = 0; i < node->rows; i++)
		if (offsets[i + 1] < offsets[i])
			return false;
	*ret_end = (uint64_t)offsets[node->rows];
	return true;
}

static bool node_is_fine(const struct tfc__feed_schema *schema, uint32_t index,
			 const struct tfc__feed_layout *layout, uint64_t rows, const uint8_t *block,
			 uint64_t bytes)
{
	const struct tfc__feed_field *field = &schema->fields[index];
	const struct tfc__feed_node *node = &layout->nodes[index];
	uint64_t end = 0, needed;
	if (node->rows != rows || rows > BYTES_MAX || node->nulls > rows ||
	    !place_is_inside(node->validity, bytes) || !place_is_inside(node->offsets, bytes) ||
	    !place_is_inside(node->values, bytes) ||
	    (node->validity.len && node->validity.len < bits_to_bytes(rows)) ||
	    (node->nulls && !node->validity.len))
		return false;
	if (field->type < TFC_FEED_TYPE_UTF8 || field->is_fixed_binary) {
		if (__builtin_mul_overflow(rows, field->width, &needed))
			return false;
		if (field->type == TFC_FEED_TYPE_BOOL)
			needed = bits_to_bytes(needed);
		return node->values.len >= needed && !node->offsets.len;
	}
	if (!offsets_are_fine(node, block, &end))
		return false;
	if (field->type == TFC_FEED_TYPE_LIST)
		return !node->values.len &&
		       node_is_fine(schema, index + 1, layout, end, block, bytes);
	return end <= node->values.len;
}

int tfc__feed_layout_check(const struct tfc__feed_schema *schema,
			   const struct tfc__feed_layout *layout, const void *block, uint64_t bytes,
			   tfc_error *error)
{
	if (layout->node_count != schema->field_count || layout->bytes > bytes)
		return fail_layout(error);
	for (uint32_t i = 0; i < schema->field_count; i += 1 + schema->fields[i].descendants)
		if (!node_is_fine(schema, i, layout, layout->rows, block, bytes))
			return tfc__fail(error, TFC_EPARSE, "feed", 0,
					 "the other end of the feed has sent a batch whose column "
					 "\"%s\" does not fit its schema",
					 schema->fields[i].name);
	return TFC_OK;
}

/* ---- views */

void tfc__feed_layout_columns(const struct tfc__feed_schema *schema,
			      const struct tfc__feed_layout *layout, const void *block,
			      tfc_feed_column *columns)
{
	const uint8_t *bytes = block;
	uint32_t top = 0, below = schema->column_count, next_top = 0;
	tfc_feed_column *list = NULL; /* whose items the next field is */
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct tfc__feed_field *field = &schema->fields[i];
		const struct tfc__feed_node *node = &layout->nodes[i];
		tfc_feed_column *column = &columns[i == next_top ? top++ : below++];
		if (i == next_top)
			next_top = i + 1 + field->descendants;
		else
			list->items = column, list->item_count = node->rows;
		*column = (tfc_feed_column){
			.size = sizeof(*column),
			.type = field->type,
			.name = field->name,
			.dimension_count = field->dimension_count,
			.values = bytes + node->values.at,
			.validity = node->nulls ? bytes + node->validity.at : NULL,
		};
		memcpy(column->dimensions, field->dimensions, sizeof(column->dimensions));
		if (field->is_fixed_binary)
			column->dimensions[0] = field->width;
		if (node->offsets.len)
			column->offsets = (const int64_t *)(const void *)(bytes + node->offsets.at);
		list = field->type == TFC_FEED_TYPE_LIST ? column : NULL;
	}
}

/* An exported array, with what it points to. */
struct exported {
	const void *buffers[3];
	struct ArrowArray **children;
	struct tfc__feed_owner
		owner; /* each array has a reference: a child may outlive its parent */
};

static void exported_array_release(struct ArrowArray *array)
{
	struct exported *exported = array->private_data;
	for (int64_t i = 0; i < array->n_children; i++) {
		struct ArrowArray *child = array->children[i];
		if (child && child->release)
			child->release(child);
		free(child);
	}
	exported->owner.release(exported->owner.user);
	free(exported->children);
	free(exported);
	array->release = NULL;
}

static int array_export_begin(struct ArrowArray *array, uint64_t length, uint64_t nulls,
			      int64_t buffer_count, uint32_t children,
			      const struct tfc__feed_owner *owner)
{
	struct exported *exported = calloc(1, sizeof(*exported));
	if (!exported)
		return TFC_ENOMEM;
	exported->owner = *owner;
	owner->keep(owner->user);
	*array = (struct ArrowArray){.length = (int64_t)length,
				     .null_count = (int64_t)nulls,
				     .n_buffers = buffer_count,
				     .buffers = exported->buffers,
				     .release = exported_array_release,
				     .private_data = exported};
	exported->children = calloc(children ? children : 1, sizeof(*exported->children));
	if (!exported->children) {
		exported_array_release(array);
		return TFC_ENOMEM;
	}
	array->children = exported->children;
	for (uint32_t i = 0; i < children; i++) {
		exported->children[i] = calloc(1, sizeof(**exported->children));
		if (!exported->children[i]) {
			exported_array_release(array);
			return TFC_ENOMEM;
		}
		array->n_children++;
	}
	return TFC_OK;
}

static int export_node(const struct tfc__feed_field *field, const struct tfc__feed_node *node,
		       const uint8_t *block, uint32_t dimension, uint64_t rows,
		       const struct tfc__feed_owner *owner, struct ArrowArray *array)
{
	bool is_outer = !dimension;
	const void *validity = is_outer && node->nulls ? block + node->validity.at : NULL;
	uint64_t nulls = is_outer ? node->nulls : 0;
	int code;
	if (dimension < field->dimension_count) {
		uint64_t size = field->dimensions[dimension++];
		if (field->is_tensor)
			while (dimension < field->dimension_count)
				size *= field->dimensions[dimension++];
		if ((code = array_export_begin(array, rows, nulls, 1, 1, owner)) < 0)
			return code;
		array->buffers[0] = validity;
		return export_node(field, node, block, dimension, rows * size, owner,
				   array->children[0]);
	}
	bool is_list = field->type == TFC_FEED_TYPE_LIST;
	bool is_fixed = field->type < TFC_FEED_TYPE_UTF8 || field->is_fixed_binary;
	if ((code = array_export_begin(array, rows, nulls, is_list || is_fixed ? 2 : 3, is_list,
				       owner)) < 0)
		return code;
	array->buffers[0] = validity;
	array->buffers[1] = block + (is_fixed ? node->values.at : node->offsets.at);
	if (!is_list && !is_fixed)
		array->buffers[2] = block + node->values.at;
	return is_list ? export_node(field + 1, node + 1, block, 0, node[1].rows, owner,
				     array->children[0])
		       : TFC_OK;
}

int tfc__feed_layout_export(const struct tfc__feed_schema *schema,
			    const struct tfc__feed_layout *layout, const void *block,
			    const struct tfc__feed_owner *owner, struct ArrowArray *ret_array)
{
	struct ArrowArray array;
	uint32_t column = 0;
	int code = array_export_begin(&array, layout->rows, 0, 1, schema->column_count, owner);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < schema->field_count && code == TFC_OK;
	     i += 1 + schema->fields[i].descendants)
		code = export_node(&schema->fields[i], &layout->nodes[i], block, 0, layout->rows,
				   owner, array.children[column++]);
	if (code < 0) {
		array.release(&array);
		return code;
	}
	*ret_array = array;
	return TFC_OK;
}
