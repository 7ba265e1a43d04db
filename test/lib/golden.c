#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void golden_expect(struct tfc__buf *written, const char *hex)
{
	struct tfc__buf text = {0};
	assert_false(written->is_failed);
	for (size_t i = 0; i < written->len; i++)
		tfc__buf_addf(&text, "%02x", (uint8_t)written->data[i]);
	assert_string_equal(text.data ? text.data : "", hex);
	tfc__buf_fini(&text);
	tfc__buf_fini(written);
}

struct tfc__buf golden_bytes(const char *hex)
{
	struct tfc__buf bytes = {0};
	for (; *hex; hex += 2) {
		char digits[3] = {hex[0], hex[1], '\0'};
		tfc__buf_add_char(&bytes, (char)strtoul(digits, NULL, 16));
	}
	assert_false(bytes.is_failed);
	return bytes;
}

struct tfc__buf golden_parse(const char *hex, struct tfc__msg *ret_msg)
{
	struct tfc__buf bytes = golden_bytes(hex);
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__msg_parse(ret_msg, bytes.data, bytes.len, NULL, &error) < 0)
		fail_msg("%s", error.text);
	return bytes;
}

static void expect_read(const struct tfc__fields *table, const char *hex, const char *expected)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__msg msg;
	struct tfc__buf bytes = golden_parse(hex, &msg), written = {0};
	tfc_error error = TFC_ERROR_INIT;
	void *message = calloc(1, table->size);
	assert_non_null(message);
	if (tfc__fields_read(&reader, table, &msg.root, &error, message) < 0)
		fail_msg("%s", error.text);
	tfc__fields_write(&written, table, message);
	golden_expect(&written, expected);
	tfc__reader_fini(&reader);
	free(message);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&bytes);
}

void golden_expect_message(const struct tfc__fields *table, const void *message, const char *hex,
			   const char *earlier)
{
	struct tfc__buf written = {0};
	tfc__fields_write(&written, table, message);
	golden_expect(&written, hex);
	expect_read(table, hex, hex);
	expect_read(table, earlier, hex);
}
