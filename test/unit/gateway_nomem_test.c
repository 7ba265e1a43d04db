/* gateway: an event becomes JSON, or it is said that there is no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "failing_malloc.h"
#include <tfcluster/gateway.h>

static tfc_event event;

static int write_event(void)
{
	char *json = NULL;
	SWEPT(tfc_event_json);
	int code = tfc_event_json(&event, &json);
	assert_true(code == TFC_OK ? json != NULL : json == NULL);
	tfc_free(json);
	return code;
}

static void an_event_of_any_kind_is_whole_or_not_there(void **state)
{
	static const char *const tail[] = {"a line", "another", NULL};
	for (uint32_t kind = TFC_EVENT_JOB; kind <= TFC_EVENT_REPORT; kind++) {
		event = (tfc_event){
			.size = sizeof(event),
			.kind = kind,
			.cursor = "1f_0.3+1,4",
			.job = "0123456789abcdef",
			.name = "name",
			.task_type = "worker",
			.node = "local",
			.address = "127.0.0.1:1",
			.text = "a sentence that is longer than the buffer was at first",
			.log_tail = tail,
			.ignored_failures = tail,
			.data = "output",
			.data_len = 6};
		failing_sweep(write_event, 2);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_of_any_kind_is_whole_or_not_there),
	};
	return cmocka_run_group_tests_name("gateway_nomem", tests, NULL, NULL);
}
