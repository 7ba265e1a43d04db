/* wire: messages are written in the shortest form, checked before they are unpacked, and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "wire/msg.h"

/* ---- writing */

static void add_number(struct tfc__buf *buf, int64_t number)
{
	tfc__msg_i64(buf, number);
}

static void numbers_take_the_shortest_form(void **state)
{
	static const struct {
		int64_t number;
		const char *bytes;
		size_t len;
	} cases[] = {
		{0, "\x00", 1},
		{127, "\x7f", 1},
		{128, "\xcc\x80", 2},
		{255, "\xcc\xff", 2},
		{256, "\xcd\x01\x00", 3},
		{65535, "\xcd\xff\xff", 3},
		{65536, "\xce\x00\x01\x00\x00", 5},
		{4294967295, "\xce\xff\xff\xff\xff", 5},
		{4294967296, "\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 9},
		{-1, "\xff", 1},
		{-32, "\xe0", 1},
		{-33, "\xd0\xdf", 2},
		{-128, "\xd0\x80", 2},
		{-129, "\xd1\xff\x7f", 3},
		{-32769, "\xd2\xff\xff\x7f\xff", 5},
		{-2147483649, "\xd3\xff\xff\xff\xff\x7f\xff\xff\xff", 9},
		{INT64_MIN, "\xd3\x80\x00\x00\x00\x00\x00\x00\x00", 9},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__buf buf = {0};
		add_number(&buf, cases[i].number);
		assert_int_equal(buf.len, cases[i].len);
		assert_memory_equal(buf.data, cases[i].bytes, buf.len);
		tfc__buf_fini(&buf);
	}
}

/* The head of a value with a count, as it should be. */
static void counts_take_the_shortest_form(void **state)
{
	static const struct {
		char kind; /* map, array, string, bytes */
		uint32_t count;
		const char *head;
		size_t len;
	} cases[] = {
		{'m', 15, "\x8f", 1},
		{'m', 16, "\xde\x00\x10", 3},
		{'m', 65536, "\xdf\x00\x01\x00\x00", 5},
		{'a', 15, "\x9f", 1},
		{'a', 16, "\xdc\x00\x10", 3},
		{'a', 65536, "\xdd\x00\x01\x00\x00", 5},
		{'s', 31, "\xbf", 1},
		{'s', 32, "\xd9\x20", 2},
		{'s', 256, "\xda\x01\x00", 3},
		{'s', 65536, "\xdb\x00\x01\x00\x00", 5},
		{'b', 0, "\xc4\x00", 2},
		{'b', 256, "\xc5\x01\x00", 3},
		{'b', 65536, "\xc6\x00\x01\x00\x00", 5},
	};
	char *text = malloc(65536);
	assert_non_null(text);
	memset(text, 'x', 65536);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__buf buf = {0};
		uint32_t count = cases[i].count;
		switch (cases[i].kind) {
		case 'm':
			tfc__msg_map(&buf, count);
			break;
		case 'a':
			tfc__msg_array(&buf, count);
			break;
		case 's':
			tfc__msg_text(&buf, text, count);
			break;
		default:
			tfc__msg_bin(&buf, text, count);
		}
		assert_memory_equal(buf.data, cases[i].head, cases[i].len);
		if (cases[i].kind == 's' || cases[i].kind == 'b')
			assert_int_equal(buf.len, cases[i].len + count);
		else
			assert_int_equal(buf.len, cases[i].len);
		tfc__buf_fini(&buf);
	}
	free(text);
}

/* ---- the scan */

static int scan(const void *data, size_t len, uint32_t depth, uint32_t objects)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__msg_limits limits = {.depth = depth, .objects = objects};
	char *copy = malloc(len ? len : 1); /* a read behind it is seen by the sanitizer */
	assert_non_null(copy);
	memcpy(copy, data, len);
	int code = tfc__msg_scan(copy, len, &limits, &error);
	free(copy);
	assert_int_equal(error.code, code);
	return code;
}

static void what_is_not_valid_is_refused(void **state)
{
	static const struct bytes cases[] = {
		BYTES(""),
		BYTES("\xc1"),             /* never used */
		BYTES("\xc7\x01\x01\x00"), /* extensions */
		BYTES("\xc8\x00\x01\x01\x00"),
		BYTES("\xc9\x00\x00\x00\x01\x01\x00"),
		BYTES("\xd4\x01\x00"),
		BYTES("\xd5\x01\x00\x00"),
		BYTES("\xd6\xff\x00\x00\x00\x00"),
		BYTES("\xd7\xff\x00\x00\x00\x00\x00\x00\x00\x00"),
		BYTES("\xd8\x01"
		      "0123456789abcdef"),
		BYTES("\x01\x02"), /* two values */
		BYTES("\xa1"),     /* cut short */
		BYTES("\xd9\x02"
		      "a"),
		BYTES("\xda\x00"),
		BYTES("\xc4\x05"
		      "abcd"),
		BYTES("\xcf\x00\x00\x00\x00\x00\x00\x00"),
		BYTES("\xcb\x00"),
		BYTES("\x92\x01"),
		BYTES("\x81\x01"),
		BYTES("\xdd\xff\xff\xff\xff\x01\x02\x03"), /* counts that cannot be */
		BYTES("\xdf\xff\xff\xff\xff\x01\x02\x03"),
		BYTES("\xc6\xff\xff\xff\xff"
		      "abc"),
		BYTES("\xdb\xff\xff\xff\xff"
		      "abc"),
		BYTES("\x92\x92\x01\x02"), /* the outer one lacks its second */
		BYTES("\xa1\xff"),         /* not UTF-8 */
		BYTES("\xa2\xc0\xaf"),
		BYTES("\xa3\xed\xa0\x80"),
		BYTES("\xa9"
		      "12345678\xc3"),
		BYTES("\x81\xa1\xff\x01"), /* nor a key */
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (scan(cases[i].data, cases[i].len, 0, 0) != TFC_EPARSE)
			fail_msg("case %zu is let through", i);
}

static void what_is_valid_is_let_through(void **state)
{
	static const struct bytes cases[] = {
		BYTES("\x00"),
		BYTES("\xff"),
		BYTES("\xc0"),
		BYTES("\xc3"),
		BYTES("\xca\x00\x00\x00\x00"),
		BYTES("\xcb\x00\x00\x00\x00\x00\x00\x00\x00"),
		BYTES("\xd3\x00\x00\x00\x00\x00\x00\x00\x00"),
		BYTES("\x90"),
		BYTES("\x80"),
		BYTES("\xa0"),
		BYTES("\xdd\x00\x00\x00\x00"), /* longer forms than needed */
		BYTES("\xd9\x01"
		      "a"),
		BYTES("\xab"
		      "gr\xc3\xbc\xc3\x9f"
		      "e123\0"),
		BYTES("\xc4\x02\xff\xfe"),
		BYTES("\x82\xa1"
		      "a\x92\x01\xc0\xa1"
		      "b\x81\x05\xc2"),
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (scan(cases[i].data, cases[i].len, 0, 0) != TFC_OK)
			fail_msg("case %zu is refused", i);
		for (size_t cut = 0; cut < cases[i].len; cut++)
			assert_int_equal(scan(cases[i].data, cut, 0, 0), TFC_EPARSE);
	}
}

static void nested(struct tfc__buf *buf, unsigned depth, bool is_map)
{
	for (unsigned i = 0; i < depth; i++) {
		if (is_map)
			tfc__msg_map(buf, 1);
		else
			tfc__msg_array(buf, 1);
		if (is_map)
			tfc__msg_nil(buf);
	}
	tfc__msg_nil(buf);
}

/* What the scan lets through is what msgpack-c can unpack. */
static void depth_is_limited_as_the_unpacker_is(void **state)
{
	for (int is_map = 0; is_map < 2; is_map++) {
		struct tfc__buf buf = {0}, deep = {0};
		struct tfc__msg msg;
		nested(&buf, 32, is_map);
		nested(&deep, 33, is_map);
		assert_int_equal(scan(buf.data, buf.len, 0, 0), TFC_OK);
		assert_int_equal(scan(buf.data, buf.len, 31, 0), TFC_EPARSE);
		assert_int_equal(scan(deep.data, deep.len, 0, 0), TFC_EPARSE);
		assert_int_equal(scan(deep.data, deep.len, 1000, 0), TFC_EPARSE);
		assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, NULL), TFC_OK);
		tfc__msg_fini(&msg);
		tfc__buf_fini(&buf);
		tfc__buf_fini(&deep);
	}
}

static void values_are_counted_all_in_all(void **state)
{
	struct tfc__buf buf = {0};
	tfc__msg_array(&buf, 10);
	for (int i = 0; i < 10; i++) {
		tfc__msg_map(&buf, 1);
		tfc__msg_put_u64(&buf, "k", 1);
	}
	assert_int_equal(scan(buf.data, buf.len, 0, 31), TFC_OK);
	assert_int_equal(scan(buf.data, buf.len, 0, 30), TFC_EPARSE);
	tfc__buf_clear(&buf);
	tfc__msg_array(&buf, 65536);
	for (int i = 0; i < 65536; i++)
		tfc__msg_nil(&buf);
	assert_int_equal(scan(buf.data, buf.len, 0, 0), TFC_EPARSE);
	assert_int_equal(scan(buf.data, buf.len, 0, 65537), TFC_OK);
	tfc__buf_fini(&buf);
}

/* ---- reading */

static void write_all(struct tfc__buf *buf)
{
	tfc__msg_map(buf, 14);
	tfc__msg_put_str(buf, "empty", "");
	tfc__msg_put_bin(buf, "nothing", NULL, 0);
	tfc__msg_put_bool(buf, "yes", true);
	tfc__msg_put_u64(buf, "big", UINT64_MAX);
	tfc__msg_put_i64(buf, "less", -5);
	tfc__msg_put_u64(buf, "more", 5);
	tfc__msg_put_str(buf, "name", "gr\xc3\xbc\xc3\x9f");
	tfc__msg_put_str(buf, "path", "/tmp/\xff");
	tfc__msg_put_str(buf, "none", NULL);
	tfc__msg_put_bin(buf, "bytes", "a\0b", 3);
	tfc__msg_str(buf, "list");
	tfc__msg_array(buf, 2);
	tfc__msg_u64(buf, 7);
	tfc__msg_str(buf, "x");
	tfc__msg_u64(buf, 1); /* a key that is no string */
	tfc__msg_nil(buf);
	tfc__msg_put_u64(buf, "twice", 1);
	tfc__msg_put_u64(buf, "twice", 2);
}

static void read_numbers(const msgpack_object *map)
{
	assert_true(tfc__msg_get_u64(map, "big", 1) == UINT64_MAX);
	assert_int_equal(tfc__msg_get_u64(map, "less", 1), 1);
	assert_int_equal(tfc__msg_get_u64(map, "name", 1), 1);
	assert_int_equal(tfc__msg_get_i64(map, "big", 1), 1);
	assert_int_equal(tfc__msg_get_i64(map, "less", 1), -5);
	assert_int_equal(tfc__msg_get_i64(map, "more", 1), 5);
	assert_int_equal(tfc__msg_get_i64(map, "mor", 1), 1);
	assert_int_equal(tfc__msg_get_u64(map, "twice", 0), 1);
}

static void read_text(const msgpack_object *map)
{
	size_t len = 0;
	char text[8];
	assert_true(tfc__msg_get_text(map, "path", text, sizeof(text)));
	assert_string_equal(text, "/tmp/\xff"); /* it went as bytes */
	assert_true(tfc__msg_get_text(map, "nothing", text, sizeof(text)));
	assert_string_equal(text, ""); /* not missing */
	assert_non_null(tfc__msg_get_bin(map, "empty", &len));
	assert_int_equal(len, 0);
	assert_true(tfc__msg_get_text(map, "empty", text, 1));
	assert_false(tfc__msg_get_text(map, "bytes", text, sizeof(text)));
	assert_false(tfc__msg_get_text(map, "none", text, sizeof(text)));
	assert_false(tfc__msg_get_text(map, "big", text, sizeof(text)));
	assert_memory_equal(tfc__msg_get_bin(map, "bytes", &len), "a\0b", 3);
	assert_int_equal(len, 3);
	assert_null(tfc__msg_get_bin(map, "list", &len));
	assert_true(tfc__msg_get_text(map, "name", text, sizeof(text)));
	assert_string_equal(text, "gr\xc3\xbc\xc3\x9f");
	assert_false(tfc__msg_get_text(map, "name", text, 6));
	assert_string_equal(text, "");
	assert_false(tfc__msg_get_text(map, "nix", text, sizeof(text)));
}

static void what_was_written_is_read(void **state)
{
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	const msgpack_object *items;
	write_all(&buf);
	assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, NULL), TFC_OK);
	read_numbers(&msg.root);
	read_text(&msg.root);
	assert_int_equal(tfc__msg_get_array(&msg.root, "list", &items), 2);
	assert_int_equal(items[0].via.u64, 7);
	assert_int_equal(tfc__msg_get_array(&msg.root, "name", &items), 0);
	assert_null(items);
	assert_null(tfc__msg_get(NULL, "list"));
	assert_null(tfc__msg_get(tfc__msg_get(&msg.root, "list"), "list"));
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
}

static int to_error(const struct tfc__buf *buf, tfc_error *error)
{
	struct tfc__msg msg;
	assert_int_equal(tfc__msg_parse(&msg, buf->data, buf->len, NULL, NULL), TFC_OK);
	int code = tfc__msg_to_error(&msg.root, error);
	tfc__msg_fini(&msg);
	return code;
}

static void an_error_travels(void **state)
{
	struct tfc__buf buf = {0};
	tfc_error error = TFC_ERROR_INIT, back = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_EBUSY, "port", 98, "port 2222 is taken");
	tfc__msg_error(&buf, &error);
	assert_int_equal(to_error(&buf, &back), TFC_EBUSY);
	assert_int_equal(back.code, TFC_EBUSY);
	assert_int_equal(back.sys_errno, 98);
	assert_string_equal(back.component, "port");
	assert_string_equal(back.text, error.text);
	tfc__buf_fini(&buf);
}

/* From a newer version: a code and a room that are not known here, and no text. */
static void an_unknown_error_is_still_one(void **state)
{
	struct tfc__buf buf = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc__msg_map(&buf, 2);
	tfc__msg_put_i64(&buf, "code", -999);
	tfc__msg_put_str(&buf, "room", "attic");
	assert_int_equal(to_error(&buf, &error), -999);
	assert_string_equal(error.component, "remote");
	assert_string_equal(error.text, "unknown error");
	tfc__buf_clear(&buf);
	tfc__msg_u64(&buf, 3);
	assert_int_equal(to_error(&buf, &error), TFC_EPARSE);
	tfc__buf_clear(&buf);
	tfc__msg_map(&buf, 1);
	tfc__msg_put_i64(&buf, "code", 5); /* would read as success */
	assert_int_equal(to_error(&buf, &error), TFC_EPARSE);
	tfc__buf_fini(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_take_the_shortest_form),
		cmocka_unit_test(counts_take_the_shortest_form),
		cmocka_unit_test(what_is_not_valid_is_refused),
		cmocka_unit_test(what_is_valid_is_let_through),
		cmocka_unit_test(depth_is_limited_as_the_unpacker_is),
		cmocka_unit_test(values_are_counted_all_in_all),
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(an_error_travels),
		cmocka_unit_test(an_unknown_error_is_still_one),
	};
	return cmocka_run_group_tests_name("wire msg", tests, NULL, NULL);
}
