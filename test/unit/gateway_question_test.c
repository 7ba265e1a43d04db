/* gateway: what a client asks is bounded before anything is done with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/question.h"
#include "leaks.h"
#include "wire/msg.h"

static int read_with(const char *key, size_t len, tfc_error *error)
{
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	struct tfc__heard heard;
	char *text = calloc(1, len + 1);
	assert_non_null(text);
	memset(text, 'x', len);
	tfc__msg_map(&buf, 1);
	tfc__msg_put_str(&buf, key, text);
	assert_int_equal(tfc__msg_parse(&msg, buf.data, buf.len, NULL, error), TFC_OK);
	int code = tfc__question_read(&heard, TFC__DESCRIBE, &msg.root, error);
	tfc__heard_fini(&heard);
	tfc__msg_fini(&msg);
	tfc__buf_fini(&buf);
	free(text);
	return code;
}

/* A name is looked for on other nodes, too. */
static void long_texts_are_refused(void **state)
{
	static const struct {
		const char *key;
		size_t max;
		const char *text;
	} cases[] = {
		{"job", 255, "job is longer than 255 bytes"},
		{"task", 255, "task is longer than 255 bytes"},
		{"node", 255, "node is longer than 255 bytes"},
		{"home", 255, "home is longer than 255 bytes"},
		{"as", 255, "as is longer than 255 bytes"},
		{"key", 4 << 20, "key is longer than 4194304 bytes"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_error error = TFC_ERROR_INIT;
		assert_int_equal(read_with(cases[i].key, cases[i].max, &error), TFC_OK);
		assert_int_equal(read_with(cases[i].key, cases[i].max + 1, &error), TFC_EINVAL);
		assert_string_equal(error.text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(long_texts_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
