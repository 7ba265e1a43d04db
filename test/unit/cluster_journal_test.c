/* cluster: a journal tells the end of a job even when there is no memory left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/journal.h"
#include "failing_malloc.h"

static int add(struct tfc__journal *journal, uint32_t kind, bool is_memory_gone)
{
	struct tfc__journal_entry entry = {.kind = kind,
					   .task = UINT32_MAX,
					   .text = (char *)"why",
					   .status = 3};
	if (is_memory_gone)
		failing_begin(0, true);
	int code = tfc__journal_add(journal, &entry);
	failing_end();
	return code;
}

static void the_end_needs_no_memory(void **state)
{
	for (uint32_t before = 0; before < 200; before++) {
		struct tfc__journal journal;
		assert_int_equal(tfc__journal_init(&journal), TFC_OK);
		for (uint32_t i = 0; i < before; i++)
			assert_int_equal(add(&journal, TFC_EVENT_JOB, false), TFC_OK);
		assert_int_equal(add(&journal, TFC_EVENT_JOB, true), TFC_ENOMEM);
		assert_int_equal(journal.count, before);
		assert_int_equal(add(&journal, TFC_EVENT_END, true), TFC_OK);
		assert_int_equal(journal.count, before + 1);
		assert_int_equal(journal.entries[before].status, 3);
		assert_non_null(strstr(journal.entries[before].text, "out of memory"));
		tfc__journal_fini(&journal);
	}
}

static int open_and_close(void)
{
	struct tfc__journal journal;
	int code = tfc__journal_init(&journal);
	for (int i = 0; i < 40 && code == TFC_OK; i++) {
		struct tfc__journal_entry entry = {.kind = TFC_EVENT_TASK,
						   .task = (uint32_t)i,
						   .task_state = TFC_TASK_EXITED,
						   .address = (char *)"a:1"};
		code = tfc__journal_add(&journal, &entry);
	}
	tfc__journal_fini(&journal);
	return code;
}

static void whichever_allocation_fails_nothing_leaks(void **state)
{
	failing_sweep(open_and_close, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_needs_no_memory),
		cmocka_unit_test(whichever_allocation_fails_nothing_leaks),
	};
	return cmocka_run_group_tests_name("cluster_journal", tests, NULL, NULL);
}
