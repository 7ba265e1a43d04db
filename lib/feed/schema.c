#include "feed/schema.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/options.h"
#include "feed/batch.h"

#define EXTENSION_NAME "ARROW:extension:name"
#define EXTENSION_DATA "ARROW:extension:metadata"
#define TENSOR "arrow.fixed_shape_tensor"
#define BFLOAT16 "tfcluster.bfloat16"
#define ELEMENTS_MAX (UINT64_C(1) << 40) /* of a row of fixed width */

int tfc_feed_column_init(tfc_feed_column *column, uint32_t size)
{
	return tfc__options_init(column, size, sizeof(*column));
}

/* ---- types */

/* Bytes of a value; 0: it has no fixed width, or is BOOL. */
static uint64_t type_bytes(enum tfc_feed_type type)
{
	switch (type) {
	case TFC_FEED_TYPE_INT8:
	case TFC_FEED_TYPE_UINT8:
		return 1;
	case TFC_FEED_TYPE_INT16:
	case TFC_FEED_TYPE_UINT16:
	case TFC_FEED_TYPE_FLOAT16:
	case TFC_FEED_TYPE_BFLOAT16:
		return 2;
	case TFC_FEED_TYPE_INT32:
	case TFC_FEED_TYPE_UINT32:
	case TFC_FEED_TYPE_FLOAT32:
		return 4;
	case TFC_FEED_TYPE_INT64:
	case TFC_FEED_TYPE_UINT64:
	case TFC_FEED_TYPE_FLOAT64:
		return 8;
	case TFC_FEED_TYPE_BOOL:
	case TFC_FEED_TYPE_UTF8:
	case TFC_FEED_TYPE_BINARY:
	case TFC_FEED_TYPE_LIST:
		break;
	}
	return 0;
}

static const struct {
	char format;
	enum tfc_feed_type type;
} formats[] = {
	{'b', TFC_FEED_TYPE_BOOL},    {'c', TFC_FEED_TYPE_INT8},    {'s', TFC_FEED_TYPE_INT16},
	{'i', TFC_FEED_TYPE_INT32},   {'l', TFC_FEED_TYPE_INT64},   {'C', TFC_FEED_TYPE_UINT8},
	{'S', TFC_FEED_TYPE_UINT16},  {'I', TFC_FEED_TYPE_UINT32},  {'L', TFC_FEED_TYPE_UINT64},
	{'e', TFC_FEED_TYPE_FLOAT16}, {'f', TFC_FEED_TYPE_FLOAT32}, {'g', TFC_FEED_TYPE_FLOAT64},
	{'u', TFC_FEED_TYPE_UTF8},    {'U', TFC_FEED_TYPE_UTF8},    {'z', TFC_FEED_TYPE_BINARY},
	{'Z', TFC_FEED_TYPE_BINARY},
};

static enum tfc_feed_type type_of_format(const char *format)
{
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (format[0] == formats[i].format && !format[1])
			return formats[i].type;
	/* texts and bytes that are behind pointers in the sender's memory */
	return !strcmp(format, "vu")   ? TFC_FEED_TYPE_UTF8
	       : !strcmp(format, "vz") ? TFC_FEED_TYPE_BINARY
				       : 0;
}

static const char *format_of_type(enum tfc_feed_type type)
{
	switch (type) {
	case TFC_FEED_TYPE_UTF8:
		return "U";
	case TFC_FEED_TYPE_BINARY:
		return "Z";
	case TFC_FEED_TYPE_LIST:
		return "+L";
	case TFC_FEED_TYPE_BFLOAT16:
		return "w:2";
	default:
		for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
			if (formats[i].type == type) {
				static const char texts[][2] = {"b", "c", "s", "i", "l", "C",
								"S", "I", "L", "e", "f", "g"};
				return texts[i];
			}
	}
	return "";
}

/* Sets the width from type and dimensions. Returns false if a row would have too many elements. */
static bool field_set_width(struct tfc__feed_field *field)
{
	uint64_t elements = 1;
	if (field->is_fixed_binary)
		return field->width <= ELEMENTS_MAX;
	for (uint32_t i = 0; i < field->dimension_count; i++) {
		if (__builtin_mul_overflow(elements, field->dimensions[i], &elements) ||
		    elements > ELEMENTS_MAX)
			return false;
	}
	field->width = field->type == TFC_FEED_TYPE_BOOL ? elements
							 : elements * type_bytes(field->type);
	return true;
}

static int fail_width(const struct tfc__feed_field *field, tfc_error *error)
{
	return tfc__fail(error, TFC_ETOOBIG, "feed", 0,
			 "a row of column \"%s\" has more than 2^40 values", field->name);
}

static bool has_offsets(enum tfc_feed_type type)
{
	return type == TFC_FEED_TYPE_UTF8 || type == TFC_FEED_TYPE_BINARY ||
	       type == TFC_FEED_TYPE_LIST;
}

/* ---- building */

/* Adds a field. The pointer is valid until the next one is added. NULL: *error is set. */
static struct tfc__feed_field *schema_add(struct tfc__feed_schema *schema, const char *name,
					  tfc_error *error)
{
	uint32_t count = schema->field_count;
	if (count == TFC__FEED_COLUMNS_MAX) {
		tfc__fail(error, TFC_ETOOBIG, "feed", 0, "the schema has more than %d columns",
			  TFC__FEED_COLUMNS_MAX);
		return NULL;
	}
	if (strlen(name) > TFC__FEED_NAME_MAX) {
		tfc__fail(error, TFC_ETOOBIG, "feed", 0,
			  "the column name \"%.40s...\" is longer than %d bytes", name,
			  TFC__FEED_NAME_MAX);
		return NULL;
	}
	if (!(count & (count - 1))) {
		struct tfc__feed_field *fields = realloc(schema->fields,
							 (count ? 2 * count : 1) * sizeof(*fields));
		if (!fields) {
			tfc__fail_nomem(error, "feed");
			return NULL;
		}
		schema->fields = fields;
	}
	struct tfc__feed_field *field = &schema->fields[count];
	*field = (struct tfc__feed_field){.name = strdup(name)};
	if (!field->name) {
		tfc__fail_nomem(error, "feed");
		return NULL;
	}
	schema->field_count++;
	return field;
}

static int check_names(const struct tfc__feed_schema *schema, tfc_error *error)
{
	const struct tfc__feed_field *fields = schema->fields;
	if (!schema->column_count)
		return tfc__fail(error, TFC_EINVAL, "feed", 0, "the schema has no column");
	for (uint32_t i = 0; i < schema->field_count; i += 1 + fields[i].descendants)
		for (uint32_t j = 0; j < i; j += 1 + fields[j].descendants)
			if (!strcmp(fields[i].name, fields[j].name))
				return tfc__fail(error, TFC_EINVAL, "feed", 0,
						 "the schema has two columns \"%s\"",
						 fields[i].name);
	return TFC_OK;
}

void tfc__feed_schema_fini(struct tfc__feed_schema *schema)
{
	for (uint32_t i = 0; i < schema->field_count; i++)
		free(schema->fields[i].name);
	free(schema->fields);
	*schema = (struct tfc__feed_schema){0};
}

/* ---- from the Arrow C Data Interface */

/* The value of a key of the metadata, whose numbers have the machine's byte order. */
static const char *metadata_get(const char *metadata, const char *key, int32_t *ret_len)
{
	int32_t pairs, len;
	if (!metadata)
		return NULL;
	memcpy(&pairs, metadata, sizeof(pairs));
	metadata += sizeof(pairs);
	for (int32_t i = 0; i < pairs; i++) {
		memcpy(&len, metadata, sizeof(len));
		bool is_key = (size_t)len == strlen(key) &&
			      !memcmp(metadata + sizeof(len), key, (size_t)len);
		metadata += sizeof(len) + (size_t)len;
		memcpy(&len, metadata, sizeof(len));
		metadata += sizeof(len);
		if (is_key) {
			*ret_len = len;
			return metadata;
		}
		metadata += len;
	}
	return NULL;
}

static bool is_extension(const struct ArrowSchema *arrow, const char *name)
{
	int32_t len = 0;
	const char *value = metadata_get(arrow->metadata, EXTENSION_NAME, &len);
	return value && (size_t)len == strlen(name) && !memcmp(value, name, (size_t)len);
}

static int fail_type(const struct tfc__feed_field *field, const struct ArrowSchema *arrow,
		     tfc_error *error)
{
	return tfc__fail(error, TFC_ENOTSUP, "feed", 0,
			 "column \"%s\" has the Arrow format \"%.60s\", which the feed does not "
			 "support; cast it to numbers, utf8, binary or lists of these",
			 field->name,
			 arrow->dictionary ? "dictionary"
			 : arrow->format   ? arrow->format
					   : "");
}

/* The number behind "+w:" or "w:". */
static bool read_size(const char *text, uint64_t *ret_size)
{
	char *end;
	if (*text < '0' || *text > '9')
		return false;
	*ret_size = strtoull(text, &end, 10);
	return !*end;
}

/* The shape of a fixed-shape tensor of `elements` elements. */
static bool read_shape(const struct ArrowSchema *arrow, uint64_t elements,
		       struct tfc__feed_field *field)
{
	int32_t len = 0;
	uint64_t product = 1;
	const char *data = metadata_get(arrow->metadata, EXTENSION_DATA, &len);
	json_t *root = NULL;
	if (data)
		tfc__json_load(data, (size_t)len, 0, NULL, &root);
	const json_t *shape = json_object_get(root, "shape");
	size_t count = json_array_size(shape);
	bool is_fine = count && count <= TFC_FEED_DIMENSIONS_MAX &&
		       !json_object_get(root, "permutation");
	for (size_t i = 0; is_fine && i < count; i++) {
		const json_t *size = json_array_get(shape, i);
		is_fine = json_is_integer(size) && json_integer_value(size) >= 0;
		field->dimensions[i] = (uint64_t)json_integer_value(size);
		is_fine &= !__builtin_mul_overflow(product, field->dimensions[i], &product);
	}
	json_decref(root);
	field->dimension_count = (uint32_t)count;
	return is_fine && product == elements;
}

/* The only child, with a format; or NULL. */
static const struct ArrowSchema *only_child(const struct ArrowSchema *arrow)
{
	bool has_one = arrow->n_children == 1 && arrow->children && arrow->children[0] &&
		       arrow->children[0]->format;
	return has_one ? arrow->children[0] : NULL;
}

static bool import_tensor(const struct ArrowSchema *arrow, struct tfc__feed_field *field)
{
	uint64_t elements;
	if (strncmp(arrow->format, "+w:", 3) != 0 || !read_size(arrow->format + 3, &elements) ||
	    !only_child(arrow) || arrow->children[0]->dictionary ||
	    !read_shape(arrow, elements, field))
		return false;
	field->is_tensor = true;
	field->type = type_of_format(arrow->children[0]->format);
	return field->type && !has_offsets(field->type);
}

/* Nested fixed-size lists of numbers. */
static bool import_dimensions(const struct ArrowSchema *arrow, struct tfc__feed_field *field)
{
	while (!strncmp(arrow->format, "+w:", 3)) {
		if (field->dimension_count == TFC_FEED_DIMENSIONS_MAX || !only_child(arrow) ||
		    !read_size(arrow->format + 3, &field->dimensions[field->dimension_count++]))
			return false;
		arrow = arrow->children[0];
	}
	if (arrow->dictionary)
		return false;
	field->type = is_extension(arrow, BFLOAT16) && !strcmp(arrow->format, "w:2")
			      ? TFC_FEED_TYPE_BFLOAT16
			      : type_of_format(arrow->format);
	return field->type && (!has_offsets(field->type) || !field->dimension_count);
}

static int import_field(struct tfc__feed_schema *schema, const struct ArrowSchema *arrow,
			const char *name, uint32_t depth, tfc_error *error)
{
	uint32_t index = schema->field_count;
	struct tfc__feed_field *field = schema_add(schema, name ? name : "", error);
	if (!field)
		return error && error->code ? error->code : TFC_ENOMEM;
	if (depth > TFC__FEED_DEPTH_MAX || !arrow->format || arrow->dictionary)
		return fail_type(field, arrow, error);
	if (!strcmp(arrow->format, "+l") || !strcmp(arrow->format, "+L")) {
		if (!only_child(arrow))
			return fail_type(field, arrow, error);
		field->type = TFC_FEED_TYPE_LIST;
		int code = import_field(schema, arrow->children[0], name, depth + 1, error);
		schema->fields[index].descendants = schema->field_count - index - 1;
		return code;
	}
	if (is_extension(arrow, TENSOR)) {
		if (!import_tensor(arrow, field))
			return fail_type(field, arrow, error);
	} else if (!strncmp(arrow->format, "w:", 2) && !is_extension(arrow, BFLOAT16)) {
		field->type = TFC_FEED_TYPE_BINARY;
		field->is_fixed_binary = true;
		if (!read_size(arrow->format + 2, &field->width))
			return fail_type(field, arrow, error);
	} else if (!import_dimensions(arrow, field)) {
		return fail_type(field, arrow, error);
	}
	return field_set_width(field) ? TFC_OK : fail_width(field, error);
}

int tfc__feed_schema_import(const struct ArrowSchema *arrow, tfc_error *error,
			    struct tfc__feed_schema *ret_schema)
{
	struct tfc__feed_schema schema = {0};
	tfc_error own = TFC_ERROR_INIT;
	error = error ? error : &own;
	if (!arrow || !arrow->release || !arrow->format || strcmp(arrow->format, "+s") != 0 ||
	    arrow->n_children < 0)
		return tfc__fail(
			error, TFC_EINVAL, "feed", 0,
			"the Arrow schema is not a struct with a field for each column, or "
			"was released");
	int code = TFC_OK;
	for (int64_t i = 0; i < arrow->n_children && code == TFC_OK; i++)
		code = arrow->children && arrow->children[i]
			       ? import_field(&schema, arrow->children[i], arrow->children[i]->name,
					      1, error)
			       : tfc__fail(error, TFC_EINVAL, "feed", 0,
					   "the Arrow schema lacks column %lld", (long long)i);
	schema.column_count = (uint32_t)arrow->n_children;
	if (code == TFC_OK)
		code = check_names(&schema, error);
	if (code < 0)
		tfc__feed_schema_fini(&schema);
	else
		*ret_schema = schema;
	return code;
}

/* ---- from plain columns */

static int add_column(struct tfc__feed_schema *schema, const tfc_feed_column *column,
		      const char *name, uint32_t depth, tfc_error *error)
{
	uint32_t index = schema->field_count;
	struct tfc__feed_field *field = schema_add(schema, name ? name : "", error);
	if (!field)
		return error->code ? error->code : TFC_ENOMEM;
	field->type = column->type;
	field->dimension_count = column->dimension_count;
	if (column->type < TFC_FEED_TYPE_BOOL || column->type > TFC_FEED_TYPE_LIST)
		return tfc__fail(
			error, TFC_ENOTSUP, "feed", 0,
			"column \"%s\" has the type %u, which is not in enum tfc_feed_type",
			field->name, column->type);
	if (column->dimension_count > TFC_FEED_DIMENSIONS_MAX ||
	    (column->dimension_count && has_offsets(field->type)))
		return tfc__fail(
			error, TFC_EINVAL, "feed", 0,
			"column \"%s\" has %u dimensions; at most %d are possible, and none "
			"for text, bytes and lists",
			field->name, column->dimension_count, TFC_FEED_DIMENSIONS_MAX);
	if (depth > TFC__FEED_DEPTH_MAX)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "column \"%s\" has lists in lists more than %d deep", field->name,
				 TFC__FEED_DEPTH_MAX);
	memcpy(field->dimensions, column->dimensions,
	       column->dimension_count * sizeof(field->dimensions[0]));
	if (!field_set_width(field))
		return fail_width(field, error);
	if (column->type != TFC_FEED_TYPE_LIST)
		return TFC_OK;
	if (!column->items)
		return tfc__fail(error, TFC_EINVAL, "feed", 0, "column \"%s\": items is NULL",
				 field->name);
	int code = add_column(schema, column->items, name, depth + 1, error);
	schema->fields[index].descendants = schema->field_count - index - 1;
	return code;
}

int tfc__feed_schema_from_columns(const tfc_feed_column *columns, uint32_t column_count,
				  tfc_error *error, struct tfc__feed_schema *ret_schema)
{
	struct tfc__feed_schema schema = {.column_count = column_count};
	tfc_error own = TFC_ERROR_INIT;
	int code = TFC_OK;
	error = error ? error : &own;
	for (uint32_t i = 0; i < column_count && code == TFC_OK; i++)
		code = add_column(&schema, &columns[i], columns[i].name, 1, error);
	if (code == TFC_OK)
		code = check_names(&schema, error);
	if (code < 0)
		tfc__feed_schema_fini(&schema);
	else
		*ret_schema = schema;
	return code;
}

/* ---- on the wire: a list of [name, type, flags, descendants, width of fixed binary,
 * dimensions...] */

enum { FLAG_FIXED_BINARY = 1, FLAG_TENSOR = 2, FIELD_ITEMS = 5 };

void tfc__feed_schema_write(const struct tfc__feed_schema *schema, struct tfc__buf *buf)
{
	tfc__msg_array(buf, schema->field_count);
	for (uint32_t i = 0; i < schema->field_count; i++) {
		const struct tfc__feed_field *field = &schema->fields[i];
		tfc__msg_array(buf, FIELD_ITEMS + field->dimension_count);
		tfc__msg_bin(buf, field->name, strlen(field->name));
		tfc__msg_u64(buf, field->type);
		tfc__msg_u64(buf, (field->is_fixed_binary ? FLAG_FIXED_BINARY : 0u) |
					  (field->is_tensor ? FLAG_TENSOR : 0u));
		tfc__msg_u64(buf, field->descendants);
		tfc__msg_u64(buf, field->is_fixed_binary ? field->width : 0);
		for (uint32_t d = 0; d < field->dimension_count; d++)
			tfc__msg_u64(buf, field->dimensions[d]);
	}
}

static bool read_numbers(const msgpack_object_array *row, uint64_t *numbers)
{
	for (uint32_t i = 1; i < row->size; i++) {
		if (row->ptr[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
			return false;
		numbers[i] = row->ptr[i].via.u64;
	}
	return true;
}

static bool read_field(struct tfc__feed_schema *schema, const msgpack_object *object,
		       tfc_error *error)
{
	uint64_t numbers[FIELD_ITEMS + TFC_FEED_DIMENSIONS_MAX];
	char name[TFC__FEED_NAME_MAX + 1] = "";
	const msgpack_object_array *row = &object->via.array;
	size_t len = 0;
	if (object->type != MSGPACK_OBJECT_ARRAY || row->size < FIELD_ITEMS ||
	    row->size > FIELD_ITEMS + TFC_FEED_DIMENSIONS_MAX)
		return false;
	const void *bytes = tfc__msg_bytes(&row->ptr[0], &len);
	if ((!bytes && len) || len >= sizeof(name) || !read_numbers(row, numbers))
		return false;
	if (len)
		memcpy(name, bytes, len);
	struct tfc__feed_field *field = schema_add(schema, name, error);
	if (!field)
		return false;
	if (numbers[1] < TFC_FEED_TYPE_BOOL || numbers[1] > TFC_FEED_TYPE_LIST || numbers[2] > 3 ||
	    numbers[3] >= TFC__FEED_COLUMNS_MAX)
		return false;
	field->type = (enum tfc_feed_type)numbers[1];
	field->is_fixed_binary = numbers[2] & FLAG_FIXED_BINARY;
	field->is_tensor = numbers[2] & FLAG_TENSOR;
	field->descendants = (uint32_t)numbers[3];
	field->width = numbers[4];
	field->dimension_count = row->size - FIELD_ITEMS;
	memcpy(field->dimensions, numbers + FIELD_ITEMS,
	       field->dimension_count * sizeof(field->dimensions[0]));
	return (!field->is_fixed_binary || field->type == TFC_FEED_TYPE_BINARY) &&
	       (!has_offsets(field->type) || !field->dimension_count) && field_set_width(field);
}

/* Whether the fields form trees: a list has its items below it, and no other field has any. */
static bool is_tree(const struct tfc__feed_schema *schema, uint32_t begin, uint32_t end,
		    uint32_t depth)
{
	for (uint32_t i = begin; i < end; i += 1 + schema->fields[i].descendants) {
		const struct tfc__feed_field *field = &schema->fields[i];
		bool is_list = field->type == TFC_FEED_TYPE_LIST;
		if (field->descendants >= end - i || is_list != (field->descendants > 0) ||
		    depth > TFC__FEED_DEPTH_MAX)
			return false;
		if (is_list && (schema->fields[i + 1].descendants + 1 != field->descendants ||
				!is_tree(schema, i + 1, i + 1 + field->descendants, depth + 1)))
			return false;
	}
	return true;
}

int tfc__feed_schema_read(const void *data, size_t len, tfc_error *error,
			  struct tfc__feed_schema *ret_schema)
{
	struct tfc__feed_schema schema = {0};
	struct tfc__msg msg;
	tfc_error own = TFC_ERROR_INIT;
	int code = tfc__msg_parse(&msg, data ? data : "", len, NULL, &own);
	if (code == TFC_OK) {
		const msgpack_object *root = &msg.root;
		bool is_fine = root->type == MSGPACK_OBJECT_ARRAY;
		for (uint32_t i = 0; is_fine && i < root->via.array.size; i++)
			is_fine = read_field(&schema, &root->via.array.ptr[i], &own);
		is_fine = is_fine && is_tree(&schema, 0, schema.field_count, 1);
		for (uint32_t i = 0; is_fine && i < schema.field_count;
		     i += 1 + schema.fields[i].descendants)
			schema.column_count++;
		if (is_fine)
			code = check_names(&schema, &own);
		else
			code = own.code ? own.code : TFC_EPARSE;
		tfc__msg_fini(&msg);
	}
	if (code < 0) {
		tfc__feed_schema_fini(&schema);
		return code == TFC_ENOMEM ? tfc__fail_nomem(error, "feed")
					  : tfc__fail(error, TFC_EPARSE, "feed", 0,
						      "the other end of the feed has sent what is "
						      "not a schema");
	}
	*ret_schema = schema;
	return TFC_OK;
}

/* ---- comparing */

static const char *const type_names[] = {
	[TFC_FEED_TYPE_BOOL] = "bool",         [TFC_FEED_TYPE_INT8] = "int8",
	[TFC_FEED_TYPE_INT16] = "int16",       [TFC_FEED_TYPE_INT32] = "int32",
	[TFC_FEED_TYPE_INT64] = "int64",       [TFC_FEED_TYPE_UINT8] = "uint8",
	[TFC_FEED_TYPE_UINT16] = "uint16",     [TFC_FEED_TYPE_UINT32] = "uint32",
	[TFC_FEED_TYPE_UINT64] = "uint64",     [TFC_FEED_TYPE_FLOAT16] = "float16",
	[TFC_FEED_TYPE_FLOAT32] = "float32",   [TFC_FEED_TYPE_FLOAT64] = "float64",
	[TFC_FEED_TYPE_BFLOAT16] = "bfloat16", [TFC_FEED_TYPE_UTF8] = "utf8",
	[TFC_FEED_TYPE_BINARY] = "binary",     [TFC_FEED_TYPE_LIST] = "list",
};

/* A column of a schema that was checked: a list has its items behind it. */
static void describe_column(const struct tfc__feed_field *field, char *text, size_t size)
{
	size_t len = 0;
	for (; field->type == TFC_FEED_TYPE_LIST; field++)
		len += (size_t)snprintf(text + len, size - len, "list of ");
	len += (size_t)snprintf(text + len, size - len, "%s", type_names[field->type]);
	for (uint32_t i = 0; i < field->dimension_count; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%llu%s", i ? ", " : "[",
					(unsigned long long)field->dimensions[i],
					i + 1 == field->dimension_count ? "]" : "");
	if (field->is_fixed_binary)
		snprintf(text + len, size - len, " of %llu bytes",
			 (unsigned long long)field->width);
}

static bool fields_are_equal(const struct tfc__feed_field *a, const struct tfc__feed_field *b)
{
	return a->type == b->type && a->is_fixed_binary == b->is_fixed_binary &&
	       a->width == b->width && a->dimension_count == b->dimension_count &&
	       a->descendants == b->descendants &&
	       !memcmp(a->dimensions, b->dimensions, sizeof(a->dimensions));
}

/* Both begin at the same field: all columns before are equal. */
static int compare_column(const struct tfc__feed_field *was, const struct tfc__feed_field *is,
			  tfc_error *error)
{
	/* 8 lists, and 8 dimensions of 13 digits */
	char was_text[256], is_text[256];
	bool is_equal = true;
	if (strcmp(was->name, is->name) != 0)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "the rows have a column \"%s\" where those before had \"%s\"",
				 is->name, was->name);
	for (uint32_t i = 0; is_equal && i <= was->descendants; i++)
		is_equal = fields_are_equal(&was[i], &is[i]);
	if (is_equal)
		return TFC_OK;
	describe_column(was, was_text, sizeof(was_text));
	describe_column(is, is_text, sizeof(is_text));
	return tfc__fail(error, TFC_EINVAL, "feed", 0,
			 "column \"%s\" is %s, but in the rows before it was %s", was->name,
			 is_text, was_text);
}

int tfc__feed_schema_compare(const struct tfc__feed_schema *expected,
			     const struct tfc__feed_schema *actual, tfc_error *error)
{
	int code = TFC_OK;
	if (expected->column_count != actual->column_count)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "the rows have %u columns, but those before had %u",
				 actual->column_count, expected->column_count);
	for (uint32_t i = 0; i < expected->field_count && code == TFC_OK;
	     i += 1 + expected->fields[i].descendants)
		code = compare_column(&expected->fields[i], &actual->fields[i], error);
	return code;
}

int tfc__feed_schema_share(struct tfc__feed_shared_schema **shared, struct tfc__feed_schema *schema,
			   tfc_error *error)
{
	if (*shared) {
		int code = tfc__feed_schema_compare(&(*shared)->schema, schema, error);
		tfc__feed_schema_fini(schema);
		return code;
	}
	struct tfc__feed_shared_schema *first = calloc(1, sizeof(*first));
	if (!first) {
		tfc__feed_schema_fini(schema);
		return tfc__fail_nomem(error, "feed");
	}
	atomic_init(&first->references, 1);
	first->schema = *schema;
	*shared = first;
	return TFC_OK;
}

/* ---- to the Arrow C Data Interface */

/* An exported schema, with what it points to. */
struct exported {
	char format[32];
	char name[TFC__FEED_NAME_MAX + 1];
	char metadata[512];
	struct ArrowSchema **children;
};

static void exported_schema_release(struct ArrowSchema *arrow)
{
	struct exported *exported = arrow->private_data;
	for (int64_t i = 0; i < arrow->n_children; i++) {
		struct ArrowSchema *child = arrow->children[i];
		if (child && child->release)
			child->release(child);
		free(child);
	}
	free(exported->children);
	free(exported);
	arrow->release = NULL;
}

static size_t metadata_add(char *metadata, size_t at, const char *text)
{
	int32_t len = (int32_t)strlen(text);
	memcpy(metadata + at, &len, sizeof(len));
	memcpy(metadata + at + sizeof(len), text, (size_t)len);
	return at + sizeof(len) + (size_t)len;
}

static void export_metadata(char *metadata, const char *name, const char *data)
{
	int32_t pairs = 2;
	memcpy(metadata, &pairs, sizeof(pairs));
	size_t at = metadata_add(metadata, sizeof(pairs), EXTENSION_NAME);
	at = metadata_add(metadata, at, name);
	at = metadata_add(metadata, at, EXTENSION_DATA);
	metadata_add(metadata, at, data);
}

/* A schema with `children` children, which are to be filled in. */
static int schema_export_begin(struct ArrowSchema *arrow, const char *name, const char *format,
			       uint32_t children)
{
	struct exported *exported = calloc(1, sizeof(*exported));
	if (!exported)
		return TFC_ENOMEM;
	snprintf(exported->format, sizeof(exported->format), "%s", format);
	snprintf(exported->name, sizeof(exported->name), "%s", name);
	*arrow = (struct ArrowSchema){.format = exported->format,
				      .name = exported->name,
				      .flags = ARROW_FLAG_NULLABLE,
				      .release = exported_schema_release,
				      .private_data = exported};
	exported->children = calloc(children ? children : 1, sizeof(*exported->children));
	if (!exported->children) {
		exported_schema_release(arrow);
		return TFC_ENOMEM;
	}
	arrow->children = exported->children;
	for (uint32_t i = 0; i < children; i++) {
		exported->children[i] = calloc(1, sizeof(**exported->children));
		if (!exported->children[i]) {
			exported_schema_release(arrow);
			return TFC_ENOMEM;
		}
		arrow->n_children++;
	}
	return TFC_OK;
}

static void export_tensor(struct ArrowSchema *arrow, const struct tfc__feed_field *field)
{
	struct exported *exported = arrow->private_data;
	char shape[300] = "{\"shape\":[";
	size_t len = strlen(shape);
	for (uint32_t i = 0; i < field->dimension_count; i++)
		len += (size_t)snprintf(shape + len, sizeof(shape) - len, "%s%llu", i ? "," : "",
					(unsigned long long)field->dimensions[i]);
	snprintf(shape + len, sizeof(shape) - len, "]}");
	export_metadata(exported->metadata, TENSOR, shape);
	arrow->metadata = exported->metadata;
}

static int export_leaf(struct ArrowSchema *arrow, const struct tfc__feed_field *field,
		       const char *name)
{
	char fixed[32];
	snprintf(fixed, sizeof(fixed), "w:%llu", (unsigned long long)field->width);
	int code = schema_export_begin(arrow, name,
				       field->is_fixed_binary ? fixed : format_of_type(field->type),
				       0);
	if (code < 0 || field->type != TFC_FEED_TYPE_BFLOAT16)
		return code;
	struct exported *exported = arrow->private_data;
	export_metadata(exported->metadata, BFLOAT16, "");
	arrow->metadata = exported->metadata;
	return TFC_OK;
}

static int export_field(const struct tfc__feed_field *field, uint32_t dimension, const char *name,
			struct ArrowSchema *arrow)
{
	char format[32];
	uint64_t size = 1;
	if (field->type == TFC_FEED_TYPE_LIST) {
		int code = schema_export_begin(arrow, name, "+L", 1);
		return code < 0 ? code : export_field(field + 1, 0, "item", arrow->children[0]);
	}
	if (dimension == field->dimension_count)
		return export_leaf(arrow, field, name);
	for (uint32_t i = dimension; i < field->dimension_count; i++)
		size *= field->is_tensor || i == dimension ? field->dimensions[i] : 1;
	snprintf(format, sizeof(format), "+w:%llu", (unsigned long long)size);
	int code = schema_export_begin(arrow, name, format, 1);
	if (code < 0)
		return code;
	if (field->is_tensor)
		export_tensor(arrow, field);
	return export_field(field, field->is_tensor ? field->dimension_count : dimension + 1,
			    "item", arrow->children[0]);
}

int tfc__feed_schema_export(const struct tfc__feed_schema *schema, struct ArrowSchema *ret_arrow)
{
	struct ArrowSchema arrow;
	uint32_t column = 0;
	int code = schema_export_begin(&arrow, "", "+s", schema->column_count);
	if (code < 0)
		return code;
	for (uint32_t i = 0; i < schema->field_count && code == TFC_OK;
	     i += 1 + schema->fields[i].descendants)
		code = export_field(&schema->fields[i], 0, schema->fields[i].name,
				    arrow.children[column++]);
	if (code < 0) {
		arrow.release(&arrow);
		return code;
	}
	*ret_arrow = arrow;
	return TFC_OK;
}
