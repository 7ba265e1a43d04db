/* wire: whichever allocation fails, the call says so, changes nothing and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include "wire/msg.h"

static int write_and_parse(void)
{
	struct tfc__buf buf = {0};
	struct tfc__msg msg;
	tfc_error error = TFC_ERROR_INIT;
	tfc__msg_map(&buf, 2);
	tfc__msg_put_str(&buf, "name", "value");
	tfc__msg_str(&buf, "list");
	tfc__msg_array(&buf, 100);
	for (unsigned i = 0; i < 100; i++)
		tfc__msg_u64(&buf, i);
	int code = buf.is_failed ? TFC_ENOMEM : TFC_OK;
	if (code == TFC_OK)
		code = failing_said(tfc__msg_parse(&msg, buf.data, buf.len, NULL, &error), &error);
	if (code == TFC_OK) {
		char *name = tfc__msg_get_str(&msg.root, "name");
		code = name ? TFC_OK : TFC_ENOMEM;
		free(name);
		tfc__msg_fini(&msg);
	}
	tfc__buf_fini(&buf);
	return code;
}

static void messages(void **state)
{
	failing_sweep(write_and_parse, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages),
	};
	return cmocka_run_group_tests_name("wire nomem", tests, NULL, NULL);
}
