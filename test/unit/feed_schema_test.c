/* feed: the types of columns that are supported and refused, and what the errors say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "feed/layout.h"

#define NODES_MAX 20

/*
 * An Arrow schema that lives until the next arrow_begin. The formats of a column are separated by
 * '>', outermost first: "+l>i" is a list of int32.
 */
static struct ArrowSchema nodes[NODES_MAX];
static struct ArrowSchema *pointers[NODES_MAX];
static char texts[NODES_MAX][160];
static size_t node_count;

static void never_released(struct ArrowSchema *arrow)
{
	abort();
}

static struct ArrowSchema *arrow_column(const char *name, const char *formats)
{
	struct ArrowSchema *first = NULL, *outer = NULL;
	for (const char *at = formats; at; at = strchr(at, '>') ? strchr(at, '>') + 1 : NULL) {
		size_t index = node_count++;
		assert_true(index < NODES_MAX);
		snprintf(texts[index], sizeof(texts[index]), "%.*s", (int)strcspn(at, ">"), at);
		nodes[index] = (struct ArrowSchema){.format = texts[index],
						    .name = outer ? "item" : name,
						    .flags = ARROW_FLAG_NULLABLE,
						    .release = never_released};
		if (outer) {
			pointers[index] = &nodes[index];
			outer->n_children = 1;
			outer->children = &pointers[index];
		}
		outer = &nodes[index];
		first = first ? first : outer;
	}
	return first;
}

static struct ArrowSchema arrow_struct(struct ArrowSchema **columns, int64_t count)
{
	return (struct ArrowSchema){.format = "+s",
				    .name = "",
				    .n_children = count,
				    .children = columns,
				    .release = never_released};
}

static int import_one(struct ArrowSchema *column, tfc_error *error, struct tfc__feed_schema *schema)
{
	struct ArrowSchema root = arrow_struct(&column, 1);
	return tfc__feed_schema_import(&root, error, schema);
}

static int import_format(const char *formats, tfc_error *error, struct tfc__feed_schema *schema)
{
	node_count = 0;
	return import_one(arrow_column("x", formats), error, schema);
}

/* The formats of the only column of an exported schema, as in arrow_column. */
static void exported_formats(const struct tfc__feed_schema *schema, char *text, size_t size)
{
	struct ArrowSchema arrow;
	assert_int_equal(tfc__feed_schema_export(schema, &arrow), TFC_OK);
	assert_string_equal(arrow.format, "+s");
	assert_int_equal(arrow.n_children, 1);
	const struct ArrowSchema *node = arrow.children[0];
	assert_string_equal(node->name, "x");
	size_t len = (size_t)snprintf(text, size, "%s", node->format);
	for (; node->n_children; node = node->children[0]) {
		assert_int_equal(node->n_children, 1);
		len += (size_t)snprintf(text + len, size - len, ">%s", node->children[0]->format);
	}
	arrow.release(&arrow);
	assert_null(arrow.release);
}

static void each_supported_format_has_its_type(void **state)
{
	static const struct {
		const char *formats;
		enum tfc_feed_type type; /* of the innermost */
		uint64_t width;
		const char *exported; /* NULL: the same */
	} cases[] = {
		{"b", TFC_FEED_TYPE_BOOL, 1, NULL},
		{"c", TFC_FEED_TYPE_INT8, 1, NULL},
		{"C", TFC_FEED_TYPE_UINT8, 1, NULL},
		{"s", TFC_FEED_TYPE_INT16, 2, NULL},
		{"S", TFC_FEED_TYPE_UINT16, 2, NULL},
		{"i", TFC_FEED_TYPE_INT32, 4, NULL},
		{"I", TFC_FEED_TYPE_UINT32, 4, NULL},
		{"l", TFC_FEED_TYPE_INT64, 8, NULL},
		{"L", TFC_FEED_TYPE_UINT64, 8, NULL},
		{"e", TFC_FEED_TYPE_FLOAT16, 2, NULL},
		{"f", TFC_FEED_TYPE_FLOAT32, 4, NULL},
		{"g", TFC_FEED_TYPE_FLOAT64, 8, NULL},
		{"u", TFC_FEED_TYPE_UTF8, 0, "U"},
		{"U", TFC_FEED_TYPE_UTF8, 0, NULL},
		{"z", TFC_FEED_TYPE_BINARY, 0, "Z"},
		{"Z", TFC_FEED_TYPE_BINARY, 0, NULL},
		{"vu", TFC_FEED_TYPE_UTF8, 0, "U"},
		{"vz", TFC_FEED_TYPE_BINARY, 0, "Z"},
		{"w:0", TFC_FEED_TYPE_BINARY, 0, NULL},
		{"w:5", TFC_FEED_TYPE_BINARY, 5, NULL},
		{"+w:3>f", TFC_FEED_TYPE_FLOAT32, 12, NULL},
		{"+w:3>b", TFC_FEED_TYPE_BOOL, 3, NULL},
		{"+w:0>l", TFC_FEED_TYPE_INT64, 0, NULL},
		{"+w:2>+w:3>s", TFC_FEED_TYPE_INT16, 12, NULL},
		{"+w:1>+w:1>+w:1>+w:1>+w:1>+w:1>+w:1>+w:2>c", TFC_FEED_TYPE_INT8, 2, NULL},
		{"+l>i", TFC_FEED_TYPE_INT32, 4, "+L>i"},
		{"+L>u", TFC_FEED_TYPE_UTF8, 0, "+L>U"},
		{"+l>vz", TFC_FEED_TYPE_BINARY, 0, "+L>Z"},
		{"+l>+w:2>g", TFC_FEED_TYPE_FLOAT64, 16, "+L>+w:2>g"},
		{"+l>w:3", TFC_FEED_TYPE_BINARY, 3, "+L>w:3"},
		{"+L>+L>+L>+L>+L>+L>+L>C", TFC_FEED_TYPE_UINT8, 1, NULL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__feed_schema schema;
		tfc_error error = TFC_ERROR_INIT;
		char exported[160];
		if (import_format(cases[i].formats, &error, &schema) < 0)
			fail_msg("%s: %s", cases[i].formats, error.text);
		const struct tfc__feed_field *last = &schema.fields[schema.field_count - 1];
		assert_int_equal(schema.column_count, 1);
		assert_string_equal(schema.fields[0].name, "x");
		assert_int_equal(schema.fields[0].descendants, schema.field_count - 1);
		assert_int_equal(last->type, cases[i].type);
		assert_int_equal(last->width, cases[i].width);
		const char *inner = strrchr(cases[i].formats, '>');
		inner = inner ? inner + 1 : cases[i].formats;
		assert_int_equal(last->is_fixed_binary, !strncmp(inner, "w:", 2));
		exported_formats(&schema, exported, sizeof(exported));
		assert_string_equal(exported,
				    cases[i].exported ? cases[i].exported : cases[i].formats);
		tfc__feed_schema_fini(&schema);
	}
}

static void other_formats_are_refused_by_the_name_of_their_column(void **state)
{
	static const struct {
		const char *formats;
		const char *named; /* the format in the text; NULL: the first */
	} cases[] = {
		{"n", NULL},
		{"v", NULL},
		{"vux", NULL},
		{"d:19,10", NULL},
		{"d:19,10,256", NULL},
		{"tdD", NULL},
		{"tdm", NULL},
		{"tts", NULL},
		{"ttn", NULL},
		{"tss:UTC", NULL},
		{"tsn:", NULL},
		{"tDu", NULL},
		{"tiM", NULL},
		{"tin", NULL},
		{"+s>i", NULL},
		{"+m>+s", NULL},
		{"+ud:0>i", NULL},
		{"+us:0>i", NULL},
		{"+r>i", NULL},
		{"+vl>i", NULL},
		{"+vL>i", NULL},
		{"+l>tdD", "tdD"},
		{"+l>+s>i", "+s"},
		{"+l>+l>n", "n"},
		{"+w:2>vu", NULL},
		{"+l", NULL},
		{"+w:2", NULL},
		{"+w:2>u", NULL},
		{"+w:2>w:3", NULL},
		{"+w:2>+l>i", NULL},
		{"+w:2>tdD", NULL},
		{"+w:>i", NULL},
		{"+w:-1>i", NULL},
		{"+w:2x>i", NULL},
		{"w:", NULL},
		{"w:-1", NULL},
		{"w:2,3", NULL},
		{"+w:1>+w:1>+w:1>+w:1>+w:1>+w:1>+w:1>+w:1>+w:1>c", NULL},
		{"+L>+L>+L>+L>+L>+L>+L>+L>C", "C"},
		{"", NULL},
		{"ii", NULL},
		{"?", NULL},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__feed_schema schema = {.column_count = 99};
		tfc_error error = TFC_ERROR_INIT;
		char expected[320];
		const char *named = cases[i].named ? cases[i].named : cases[i].formats;
		snprintf(expected, sizeof(expected),
			 "column \"x\" has the Arrow format \"%.*s\", which the feed does not "
			 "support; cast it to numbers, utf8, binary or lists of these",
			 (int)strcspn(named, ">"), named);
		assert_int_equal(import_format(cases[i].formats, &error, &schema), TFC_ENOTSUP);
		assert_string_equal(error.text, expected);
		assert_string_equal(error.component, "feed");
		assert_int_equal(schema.column_count, 99);
	}
}

static void a_dictionary_is_refused_wherever_it_is(void **state)
{
	static const char *const cases[] = {"i", "+l>i", "+w:2>i", "+l>+w:2>c"};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__feed_schema schema;
		struct ArrowSchema values = {.format = "u", .name = "", .release = never_released};
		tfc_error error = TFC_ERROR_INIT;
		node_count = 0;
		struct ArrowSchema *column = arrow_column("x", cases[i]);
		nodes[node_count - 1].dictionary = &values;
		assert_int_equal(import_one(column, &error, &schema), TFC_ENOTSUP);
		assert_non_null(strstr(error.text, "column \"x\" has the Arrow format \""));
		if (!strchr(cases[i], 'w'))
			assert_non_null(strstr(error.text, "\"dictionary\""));
	}
}

/* ---- extension types */

static const char *metadata_of(const char *name, const char *data)
{
	static char metadata[512];
	const char *const parts[] = {"ARROW:extension:name", name, "ARROW:extension:metadata",
				     data};
	int32_t pairs = data ? 2 : 1;
	size_t at = sizeof(pairs);
	memcpy(metadata, &pairs, sizeof(pairs));
	for (int32_t i = 0; i < 2 * pairs; i++) {
		int32_t len = (int32_t)strlen(parts[i]);
		assert_true(at + sizeof(len) + (size_t)len <= sizeof(metadata));
		memcpy(metadata + at, &len, sizeof(len));
		memcpy(metadata + at + sizeof(len), parts[i], (size_t)len);
		at += sizeof(len) + (size_t)len;
	}
	return metadata;
}

static int import_extension(const char *formats, const char *name, const char *data,
			    tfc_error *error, struct tfc__feed_schema *schema)
{
	node_count = 0;
	struct ArrowSchema *column = arrow_column("x", formats);
	column->metadata = metadata_of(name, data);
	return import_one(column, error, schema);
}

static void a_tensor_has_the_shape_of_its_metadata(void **state)
{
	struct tfc__feed_schema schema, again;
	struct ArrowSchema arrow;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(import_extension("+w:6>f", "arrow.fixed_shape_tensor",
					  "{\"shape\":[2,3],\"dim_names\":[\"a\",\"b\"]}", &error,
					  &schema),
			 TFC_OK);
	assert_true(schema.fields[0].is_tensor);
	assert_int_equal(schema.fields[0].type, TFC_FEED_TYPE_FLOAT32);
	assert_int_equal(schema.fields[0].dimension_count, 2);
	assert_int_equal(schema.fields[0].dimensions[0], 2);
	assert_int_equal(schema.fields[0].dimensions[1], 3);
	assert_int_equal(schema.fields[0].width, 24);
	assert_int_equal(tfc__feed_schema_export(&schema, &arrow), TFC_OK);
	assert_string_equal(arrow.children[0]->format, "+w:6");
	assert_int_equal(tfc__feed_schema_import(&arrow, &error, &again), TFC_OK);
	assert_true(again.fields[0].is_tensor);
	assert_int_equal(tfc__feed_schema_compare(&schema, &again, &error), TFC_OK);
	arrow.release(&arrow);
	tfc__feed_schema_fini(&again);
	tfc__feed_schema_fini(&schema);
}

static void a_tensor_that_is_none_is_refused(void **state)
{
	static const struct {
		const char *formats;
		const char *metadata;
	} cases[] = {
		{"+w:6>f", NULL},
		{"+w:6>f", ""},
		{"+w:6>f", "{"},
		{"+w:6>f", "[2,3]"},
		{"+w:6>f", "{\"shape\":6}"},
		{"+w:6>f", "{\"shape\":[2,4]}"},
		{"+w:6>f", "{\"shape\":[-2,-3]}"},
		{"+w:6>f", "{\"shape\":[\"2\",3]}"},
		{"+w:6>f", "{\"shape\":[2,3],\"permutation\":[1,0]}"},
		{"+w:1>f", "{\"shape\":[1,1,1,1,1,1,1,1,1]}"},
		{"+w:1>f", "{\"shape\":[]}"},
		/* 2^40 * 2^24 is 0 in 64 bits */
		{"+w:0>f", "{\"shape\":[1099511627776,16777216]}"},
		{"+w:2>u", "{\"shape\":[2]}"},
		{"+w:2>w:4", "{\"shape\":[2]}"},
		{"+w:2>+w:1>f", "{\"shape\":[2]}"},
		{"+w:2", "{\"shape\":[2]}"},
		{"+l>f", "{\"shape\":[2]}"},
		{"f", "{\"shape\":[1]}"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__feed_schema schema;
		tfc_error error = TFC_ERROR_INIT;
		int code = import_extension(cases[i].formats, "arrow.fixed_shape_tensor",
					    cases[i].metadata, &error, &schema);
		if (!strcmp(cases[i].formats, "+l>f")) { /* a list of that name is a list */
			assert_int_equal(code, TFC_OK);
			tfc__feed_schema_fini(&schema);
			continue;
		}
		if (code != TFC_ENOTSUP)
			fail_msg("%s %s: %d", cases[i].formats, cases[i].metadata, code);
		assert_non_null(strstr(error.text, "column \"x\" has the Arrow format \""));
	}
	struct ArrowSchema values = {.format = "u", .name = "", .release = never_released};
	struct tfc__feed_schema schema;
	node_count = 0;
	struct ArrowSchema *column = arrow_column("x", "+w:2>i");
	column->metadata = metadata_of("arrow.fixed_shape_tensor", "{\"shape\":[2]}");
	nodes[1].dictionary = &values;
	assert_int_equal(import_one(column, NULL, &schema), TFC_ENOTSUP);
}

static void bfloat16_is_an_extension_over_two_bytes(void **state)
{
	struct tfc__feed_schema schema, again;
	struct ArrowSchema arrow;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(import_extension("w:2", "tfcluster.bfloat16", "", &error, &schema),
			 TFC_OK);
	assert_int_equal(schema.fields[0].type, TFC_FEED_TYPE_BFLOAT16);
	assert_int_equal(schema.fields[0].width, 2);
	assert_false(schema.fields[0].is_fixed_binary);
	assert_int_equal(tfc__feed_schema_export(&schema, &arrow), TFC_OK);
	assert_string_equal(arrow.children[0]->format, "w:2");
	assert_int_equal(tfc__feed_schema_import(&arrow, &error, &again), TFC_OK);
	assert_int_equal(again.fields[0].type, TFC_FEED_TYPE_BFLOAT16);
	arrow.release(&arrow);
	tfc__feed_schema_fini(&again);
	tfc__feed_schema_fini(&schema);

	/* as the values of a fixed-size list, and of a list */
	static const char *const outer[] = {"+w:3>w:2", "+l>w:2"};
	for (int i = 0; i < 2; i++) {
		node_count = 0;
		struct ArrowSchema *column = arrow_column("x", outer[i]);
		nodes[1].metadata = metadata_of("tfcluster.bfloat16", NULL);
		assert_int_equal(import_one(column, &error, &schema), TFC_OK);
		assert_int_equal(schema.fields[schema.field_count - 1].type,
				 TFC_FEED_TYPE_BFLOAT16);
		assert_int_equal(schema.fields[schema.field_count - 1].width, i ? 2 : 6);
		tfc__feed_schema_fini(&schema);
	}
	assert_int_equal(import_extension("w:3", "tfcluster.bfloat16", "", &error, &schema),
			 TFC_ENOTSUP);
}

static void another_extension_type_is_its_storage(void **state)
{
	struct tfc__feed_schema schema;
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(import_extension("w:16", "arrow.uuid", "", &error, &schema), TFC_OK);
	assert_true(schema.fields[0].is_fixed_binary);
	assert_int_equal(schema.fields[0].width, 16);
	tfc__feed_schema_fini(&schema);
	assert_int_equal(import_extension("n", "arrow.json", "", &error, &schema), TFC_ENOTSUP);
}

/* ---- schemas as a whole */

static void a_malformed_schema_is_refused(void **state)
{
	struct tfc__feed_schema schema;
	tfc_error error = TFC_ERROR_INIT;
	char name[258];
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	node_count = 0;
	struct ArrowSchema *columns[] = {arrow_column("x", "i"), arrow_column("y", "+l>u"),
					 arrow_column("x", "f")};
	struct ArrowSchema root = arrow_struct(columns, 3);
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "the schema has two columns \"x\"");
	columns[2] = NULL;
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "the Arrow schema lacks column 2");
	root.n_children = 0;
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "the schema has no column");
	root.n_children = -1;
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_EINVAL);
	root.n_children = 2;
	root.format = "+l";
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "the Arrow schema is not a struct with a field for each "
					"column, or was released");
	root.format = "+s";
	root.release = NULL;
	assert_int_equal(tfc__feed_schema_import(&root, NULL, &schema), TFC_EINVAL);
	assert_int_equal(tfc__feed_schema_import(NULL, NULL, &schema), TFC_EINVAL);
	root.release = never_released;
	columns[1]->name = name;
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_ETOOBIG);
	assert_non_null(strstr(error.text, "...\" is longer than 255 bytes"));
	name[255] = 0;
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_OK);
	assert_string_equal(schema.fields[1].name, name);
	tfc__feed_schema_fini(&schema);
	columns[0]->name = NULL; /* the same as "" */
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_OK);
	assert_string_equal(schema.fields[0].name, "");
	tfc__feed_schema_fini(&schema);
}

static void a_schema_has_at_most_1024_columns(void **state)
{
	static struct ArrowSchema many[TFC__FEED_COLUMNS_MAX + 1];
	static struct ArrowSchema *columns[TFC__FEED_COLUMNS_MAX + 1];
	static char names[TFC__FEED_COLUMNS_MAX + 1][8];
	struct tfc__feed_schema schema;
	tfc_error error = TFC_ERROR_INIT;
	for (int i = 0; i <= TFC__FEED_COLUMNS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "%d", i);
		many[i] = (struct ArrowSchema){.format = "i",
					       .name = names[i],
					       .release = never_released};
		columns[i] = &many[i];
	}
	struct ArrowSchema root = arrow_struct(columns, TFC__FEED_COLUMNS_MAX);
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_OK);
	assert_int_equal(schema.column_count, TFC__FEED_COLUMNS_MAX);
	assert_string_equal(schema.fields[1023].name, "1023");
	tfc__feed_schema_fini(&schema);
	root.n_children++;
	assert_int_equal(tfc__feed_schema_import(&root, &error, &schema), TFC_ETOOBIG);
	assert_string_equal(error.text, "the schema has more than 1024 columns");
}

/* A row has at most 2^40 values; a product that does not fit 64 bits is no smaller one. */
static void a_row_that_is_too_large_is_refused(void **state)
{
	static const struct {
		const char *formats;
		bool is_fine;
	} cases[] = {
		{"+w:1099511627776>c", true},
		{"+w:1099511627777>c", false},
		{"+w:1048576>+w:1048576>g", true},
		{"+w:1048576>+w:1048577>g", false},
		{"+w:1099511627776>+w:16777216>c", false},
		{"+w:1099511627776>+w:1099511627776>c", false},
		{"+w:18446744073709551615>c", false},
		{"+w:99999999999999999999999>c", false},
		{"w:1099511627776", true},
		{"w:1099511627777", false},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__feed_schema schema;
		tfc_error error = TFC_ERROR_INIT;
		int code = import_format(cases[i].formats, &error, &schema);
		if (code != (cases[i].is_fine ? TFC_OK : TFC_ETOOBIG))
			fail_msg("%s: %d %s", cases[i].formats, code, error.text);
		if (cases[i].is_fine)
			tfc__feed_schema_fini(&schema);
		else
			assert_string_equal(error.text,
					    "a row of column \"x\" has more than 2^40 values");
	}
}

/* ---- plain columns */

static void plain_columns_are_checked(void **state)
{
	tfc_feed_column items = TFC_FEED_COLUMN_INIT,
			columns[2] = {TFC_FEED_COLUMN_INIT, TFC_FEED_COLUMN_INIT};
	struct tfc__feed_schema schema;
	tfc_error error = TFC_ERROR_INIT;
	columns[0].name = "x";
	columns[1].name = "y";
	columns[0].type = TFC_FEED_TYPE_FLOAT32;
	columns[1].type = TFC_FEED_TYPE_LIST;
	columns[1].items = &items;
	items.type = TFC_FEED_TYPE_BFLOAT16;
	assert_int_equal(tfc__feed_schema_from_columns(columns, 2, &error, &schema), TFC_OK);
	assert_int_equal(schema.field_count, 3);
	assert_int_equal(schema.fields[1].descendants, 1);
	tfc__feed_schema_fini(&schema);

	assert_int_equal(tfc__feed_schema_from_columns(columns, 0, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "the schema has no column");
	columns[1].name = "x";
	assert_int_equal(tfc__feed_schema_from_columns(columns, 2, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "the schema has two columns \"x\"");
	columns[1].name = "y";
	items.type = 17;
	assert_int_equal(tfc__feed_schema_from_columns(columns, 2, &error, &schema), TFC_ENOTSUP);
	assert_string_equal(error.text,
			    "column \"y\" has the type 17, which is not in enum tfc_feed_type");
	columns[1].items = NULL;
	assert_int_equal(tfc__feed_schema_from_columns(columns, 2, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "column \"y\": items is NULL");
	columns[1].type = 0;
	assert_int_equal(tfc__feed_schema_from_columns(columns, 2, &error, &schema), TFC_ENOTSUP);
	columns[1].type = TFC_FEED_TYPE_UTF8;
	columns[1].dimension_count = 1;
	assert_int_equal(tfc__feed_schema_from_columns(columns, 2, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "column \"y\" has 1 dimensions; at most 8 are possible, "
					"and none for text, bytes and lists");
	columns[0].dimension_count = 9;
	assert_int_equal(tfc__feed_schema_from_columns(columns, 1, &error, &schema), TFC_EINVAL);
	columns[0].dimension_count = 2;
	columns[0].dimensions[0] = UINT64_C(1) << 40;
	columns[0].dimensions[1] = UINT64_C(1) << 24;
	assert_int_equal(tfc__feed_schema_from_columns(columns, 1, &error, &schema), TFC_ETOOBIG);
	assert_string_equal(error.text, "a row of column \"x\" has more than 2^40 values");
}

static void lists_of_plain_columns_have_a_depth(void **state)
{
	tfc_feed_column chain[TFC__FEED_DEPTH_MAX + 1];
	struct tfc__feed_schema schema;
	tfc_error error = TFC_ERROR_INIT;
	for (int i = 0; i <= TFC__FEED_DEPTH_MAX; i++) {
		chain[i] = (tfc_feed_column)TFC_FEED_COLUMN_INIT;
		chain[i].name = "x";
		chain[i].type = TFC_FEED_TYPE_LIST;
		chain[i].items = &chain[i + 1];
	}
	chain[TFC__FEED_DEPTH_MAX].type = TFC_FEED_TYPE_INT8;
	chain[TFC__FEED_DEPTH_MAX].items = NULL;
	assert_int_equal(tfc__feed_schema_from_columns(&chain[1], 1, &error, &schema), TFC_OK);
	assert_int_equal(schema.field_count, TFC__FEED_DEPTH_MAX);
	tfc__feed_schema_fini(&schema);
	assert_int_equal(tfc__feed_schema_from_columns(chain, 1, &error, &schema), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\" has lists in lists more than 8 deep");
}

/* ---- rows that follow one another */

static void a_schema_that_changes_is_refused_by_its_column(void **state)
{
	static const struct {
		const char *before;
		const char *now;
		const char *was; /* NULL: it is the same */
		const char *is;
	} cases[] = {
		{"i", "i", NULL, NULL},
		{"u", "U", NULL, NULL},
		{"vu", "u", NULL, NULL},
		{"+l>z", "+L>Z", NULL, NULL},
		{"i", "l", "int32", "int64"},
		{"f", "+w:3>f", "float32", "float32[3]"},
		{"+w:2>+w:3>e", "+w:3>+w:2>e", "float16[2, 3]", "float16[3, 2]"},
		{"w:3", "w:4", "binary of 3 bytes", "binary of 4 bytes"},
		{"z", "w:4", "binary", "binary of 4 bytes"},
		{"+l>i", "i", "list of int32", "int32"},
		{"+l>i", "+l>I", "list of int32", "list of uint32"},
		{"+l>+l>u", "+l>u", "list of list of utf8", "list of utf8"},
		{"+l>+w:2>g", "+l>g", "list of float64[2]", "list of float64"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__feed_schema before, now;
		tfc_error error = TFC_ERROR_INIT;
		char expected[200];
		assert_int_equal(import_format(cases[i].before, &error, &before), TFC_OK);
		assert_int_equal(import_format(cases[i].now, &error, &now), TFC_OK);
		int code = tfc__feed_schema_compare(&before, &now, &error);
		assert_int_equal(code, cases[i].was ? TFC_EINVAL : TFC_OK);
		if (cases[i].was) {
			snprintf(expected, sizeof(expected),
				 "column \"x\" is %s, but in the rows before it was %s",
				 cases[i].is, cases[i].was);
			assert_string_equal(error.text, expected);
		}
		tfc__feed_schema_fini(&before);
		tfc__feed_schema_fini(&now);
	}
}

static void columns_that_change_are_named(void **state)
{
	struct tfc__feed_schema before, now;
	tfc_error error = TFC_ERROR_INIT;
	node_count = 0;
	struct ArrowSchema *columns[] = {arrow_column("x", "+l>i"), arrow_column("y", "f"),
					 arrow_column("z", "f")};
	struct ArrowSchema root = arrow_struct(columns, 2);
	assert_int_equal(tfc__feed_schema_import(&root, &error, &before), TFC_OK);
	columns[1] = columns[2];
	assert_int_equal(tfc__feed_schema_import(&root, &error, &now), TFC_OK);
	assert_int_equal(tfc__feed_schema_compare(&before, &now, &error), TFC_EINVAL);
	assert_string_equal(error.text,
			    "the rows have a column \"z\" where those before had \"y\"");
	tfc__feed_schema_fini(&now);
	root.n_children = 1;
	assert_int_equal(tfc__feed_schema_import(&root, &error, &now), TFC_OK);
	assert_int_equal(tfc__feed_schema_compare(&before, &now, &error), TFC_EINVAL);
	assert_string_equal(error.text, "the rows have 1 columns, but those before had 2");
	tfc__feed_schema_fini(&now);
	/* Writers name the items of lists as they like: "item", "element", ... */
	columns[0]->children[0]->name = "element";
	columns[1] = arrow_column("y", "f");
	root.n_children = 2;
	assert_int_equal(tfc__feed_schema_import(&root, &error, &now), TFC_OK);
	assert_int_equal(tfc__feed_schema_compare(&before, &now, &error), TFC_OK);
	tfc__feed_schema_fini(&now);
	tfc__feed_schema_fini(&before);
}

/* ---- on the wire */

static void a_schema_is_read_as_it_was_written(void **state)
{
	static const char *const formats[] = {"b",       "w:7",    "w:0",      "+w:2>+w:3>e",
					      "+l>+l>u", "+w:0>i", "+l>+w:2>g"};
	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tfc__feed_schema schema, again;
		struct tfc__buf buf = {0};
		tfc_error error = TFC_ERROR_INIT;
		char exported[2][160];
		assert_int_equal(import_format(formats[i], &error, &schema), TFC_OK);
		tfc__feed_schema_write(&schema, &buf);
		assert_false(buf.is_failed);
		assert_int_equal(tfc__feed_schema_read(buf.data, buf.len, &error, &again), TFC_OK);
		assert_int_equal(tfc__feed_schema_compare(&schema, &again, &error), TFC_OK);
		assert_int_equal(again.column_count, 1);
		exported_formats(&schema, exported[0], sizeof(exported[0]));
		exported_formats(&again, exported[1], sizeof(exported[1]));
		assert_string_equal(exported[0], exported[1]);
		tfc__feed_schema_fini(&again);
		for (size_t len = 0; len < buf.len; len++)
			assert_int_equal(tfc__feed_schema_read(buf.data, len, NULL, &again),
					 TFC_EPARSE);
		tfc__buf_fini(&buf);
		tfc__feed_schema_fini(&schema);
	}
}

/* A field as it is written: name, type, flags, descendants, width, dimensions. */
static void write_field(struct tfc__buf *buf, const uint64_t *numbers, uint32_t count)
{
	tfc__msg_array(buf, 1 + count);
	tfc__msg_bin(buf, "x", 1);
	for (uint32_t i = 0; i < count; i++)
		tfc__msg_u64(buf, numbers[i]);
}

static void a_schema_that_lies_is_refused(void **state)
{
	static const struct {
		uint64_t numbers[14];
		uint32_t count;
	} cases[] = {
		{{0, 0, 0, 0}, 4},
		{{17, 0, 0, 0}, 4},
		{{TFC_FEED_TYPE_INT32, 4, 0, 0}, 4},
		{{TFC_FEED_TYPE_INT32, 1, 0, 4}, 4},
		{{TFC_FEED_TYPE_INT32, 0, 1, 0}, 4},
		{{TFC_FEED_TYPE_INT32, 0, TFC__FEED_COLUMNS_MAX, 0}, 4},
		{{TFC_FEED_TYPE_LIST, 0, 0, 0}, 4},
		{{TFC_FEED_TYPE_LIST, 0, 1, 0}, 4},
		{{TFC_FEED_TYPE_UTF8, 0, 0, 0, 2}, 5},
		{{TFC_FEED_TYPE_INT32, 0, 0}, 3},
		{{TFC_FEED_TYPE_INT32, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 13},
		{{TFC_FEED_TYPE_BINARY, 1, 0, (UINT64_C(1) << 40) + 1}, 4},
		{{TFC_FEED_TYPE_INT8, 0, 0, 0, (UINT64_C(1) << 40) + 1}, 5},
		{{TFC_FEED_TYPE_INT8, 0, 0, 0, UINT64_C(1) << 40, UINT64_C(1) << 24}, 6},
		{{TFC_FEED_TYPE_INT8, 2, 0, 0, UINT64_C(1) << 32, UINT64_C(1) << 32}, 6},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__feed_schema schema;
		struct tfc__buf buf = {0};
		tfc_error error = TFC_ERROR_INIT;
		tfc__msg_array(&buf, 1);
		write_field(&buf, cases[i].numbers, cases[i].count);
		int code = tfc__feed_schema_read(buf.data, buf.len, &error, &schema);
		if (code != TFC_EPARSE)
			fail_msg("case %zu: %d", i, code);
		assert_string_equal(error.text,
				    "the other end of the feed has sent what is not a schema");
		tfc__buf_fini(&buf);
	}
}

/* ---- rows that do not fit their schema */

static int check_rows(const tfc_feed_column *column, uint64_t rows, tfc_error *error)
{
	const struct tfc__feed_rows all = {.columns = column, .rows = rows};
	struct tfc__feed_schema schema;
	assert_int_equal(tfc__feed_schema_from_columns(column, 1, error, &schema), TFC_OK);
	int code = tfc__feed_rows_check(&schema, &all, 0, error);
	tfc__feed_schema_fini(&schema);
	return code;
}

static void ragged_lists_are_refused(void **state)
{
	static const int64_t offsets[] = {0, 2, 3}, decreasing[] = {0, 3, 2}, below[] = {-1, 0, 1};
	static const int32_t values[] = {1, 2, 3};
	tfc_feed_column items = TFC_FEED_COLUMN_INIT, column = TFC_FEED_COLUMN_INIT;
	tfc_error error = TFC_ERROR_INIT;
	items.type = TFC_FEED_TYPE_INT32;
	items.values = values;
	column.name = "x";
	column.type = TFC_FEED_TYPE_LIST;
	column.items = &items;
	column.item_count = 3;
	column.offsets = offsets;
	assert_int_equal(check_rows(&column, 2, &error), TFC_OK);
	column.item_count = 2;
	assert_int_equal(check_rows(&column, 2, &error), TFC_EINVAL);
	assert_string_equal(error.text,
			    "column \"x\": its list has fewer items than its offsets say");
	column.offsets = decreasing;
	assert_int_equal(check_rows(&column, 2, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": its offsets decrease, or are negative");
	column.offsets = below;
	assert_int_equal(check_rows(&column, 2, &error), TFC_EINVAL);
	column.offsets = NULL;
	assert_int_equal(check_rows(&column, 2, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": it has no offsets");
	column.offsets = offsets;
	column.item_count = 3;
	items.values = NULL;
	assert_int_equal(check_rows(&column, 2, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": it has no values");
}

/* One column of Arrow, whose items are an array below it. */
static int check_array(const char *formats, struct ArrowArray *column, int64_t rows,
		       tfc_error *error)
{
	struct ArrowSchema *arrow;
	struct tfc__feed_schema schema;
	struct tfc__feed_rows put;
	const void *none[] = {NULL};
	struct ArrowArray array = {.length = rows,
				   .n_buffers = 1,
				   .buffers = none,
				   .n_children = 1,
				   .children = &column,
				   .release = (void (*)(struct ArrowArray *))abort};
	node_count = 0;
	arrow = arrow_column("x", formats);
	struct ArrowSchema root = arrow_struct(&arrow, 1);
	assert_int_equal(tfc__feed_rows_of_array(&root, &array, 0, error, &put, &schema), TFC_OK);
	int code = tfc__feed_rows_check(&schema, &put, 0, error);
	tfc__feed_schema_fini(&schema);
	return code;
}

static void arrays_that_do_not_fit_their_schema_are_refused(void **state)
{
	static const int32_t values[6] = {1, 2, 3, 4, 5, 6};
	static const uint8_t valid[] = {0x3f}, some[] = {0x1f};
	const void *buffers[] = {NULL, values, values}, *item_buffers[] = {NULL, values};
	struct ArrowArray items = {.length = 6, .n_buffers = 2, .buffers = item_buffers};
	struct ArrowArray *children[] = {&items};
	struct ArrowArray column = {.length = 3, .n_buffers = 2, .buffers = buffers};
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(check_array("i", &column, 3, &error), TFC_OK);
	assert_int_equal(check_array("i", &column, 4, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": it has fewer rows than the others");
	column.null_count = 1;
	assert_int_equal(check_array("i", &column, 3, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": it has nulls, but no validity bitmap");
	column.null_count = -1; /* not counted: without a bitmap there are none */
	assert_int_equal(check_array("i", &column, 3, &error), TFC_OK);
	buffers[0] = valid;
	column.null_count = 1;
	assert_int_equal(check_array("i", &column, 3, &error), TFC_OK);
	assert_int_equal(check_array("u", &column, 3, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": its array does not fit its Arrow format");
	buffers[1] = NULL;
	assert_int_equal(check_array("i", &column, 3, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": it has no values");
	column.n_buffers = 3;
	assert_int_equal(check_array("u", &column, 3, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": it has no offsets");

	column.n_buffers = 1;
	buffers[0] = NULL;
	column.null_count = 0;
	assert_int_equal(check_array("+w:2>i", &column, 3, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": its fixed-size list has no items");
	column.n_children = 1;
	column.children = children;
	assert_int_equal(check_array("+w:2>i", &column, 3, &error), TFC_OK);
	assert_int_equal(check_array("+w:3>i", &column, 3, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": its fixed-size list has too few items");
	items.null_count = 1;
	item_buffers[0] = some;
	assert_int_equal(check_array("+w:2>i", &column, 3, &error), TFC_EINVAL);
	assert_string_equal(error.text, "column \"x\": there are nulls within a fixed-size list");
	assert_int_equal(check_array("+w:2>i", &column, 2, &error), TFC_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_supported_format_has_its_type),
		cmocka_unit_test(other_formats_are_refused_by_the_name_of_their_column),
		cmocka_unit_test(a_dictionary_is_refused_wherever_it_is),
		cmocka_unit_test(a_tensor_has_the_shape_of_its_metadata),
		cmocka_unit_test(a_tensor_that_is_none_is_refused),
		cmocka_unit_test(bfloat16_is_an_extension_over_two_bytes),
		cmocka_unit_test(another_extension_type_is_its_storage),
		cmocka_unit_test(a_malformed_schema_is_refused),
		cmocka_unit_test(a_schema_has_at_most_1024_columns),
		cmocka_unit_test(a_row_that_is_too_large_is_refused),
		cmocka_unit_test(plain_columns_are_checked),
		cmocka_unit_test(lists_of_plain_columns_have_a_depth),
		cmocka_unit_test(a_schema_that_changes_is_refused_by_its_column),
		cmocka_unit_test(columns_that_change_are_named),
		cmocka_unit_test(a_schema_is_read_as_it_was_written),
		cmocka_unit_test(a_schema_that_lies_is_refused),
		cmocka_unit_test(ragged_lists_are_refused),
		cmocka_unit_test(arrays_that_do_not_fit_their_schema_are_refused),
	};
	return cmocka_run_group_tests_name("feed_schema", tests, NULL, NULL);
}
