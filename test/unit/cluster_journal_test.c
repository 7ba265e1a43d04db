/* cluster: a journal reports the end of a job even when there is no memory left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/strv.h"
#include "cluster/journal.h"
#include "cluster/journal_msg.h"
#include "failing_malloc.h"
#include <tfcluster/process.h>

static int add(struct tfc__journal *journal, uint32_t kind, bool is_memory_gone)
{
	struct tfc__journal_entry entry = {.kind = kind,
					   .task = UINT32_MAX,
					   .text = (char *)"why",
					   .end.status = 3};
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
		assert_int_equal(journal.entries[before].end.status, 3);
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

static void the_lines_of_an_end_read_back_as_they_were_written(void **state)
{
	const char *const tail[] = {"one", "two", NULL};
	const char *const ignored[] = {"worker/1 exited with 1", NULL};
	struct tfc__strv lines = {0}, failures = {0};
	struct tfc__journal journal, again;
	struct tfc__buf buf = {0};
	tfc__strv_add_all(&lines, tail);
	tfc__strv_add_all(&failures, ignored);
	struct tfc__journal_entry entry = {.kind = TFC_EVENT_END,
					   .job_state = TFC_JOB_SUCCEEDED,
					   .task = UINT32_MAX,
					   .log_tail = tfc__strv_steal(&lines),
					   .error_line = (char *)"KeyError: 'lr'",
					   .ignored_failures = tfc__strv_steal(&failures)};
	assert_int_equal(tfc__journal_init(&journal), TFC_OK);
	assert_int_equal(tfc__journal_init(&again), TFC_OK);
	assert_int_equal(tfc__journal_add(&journal, &entry), TFC_OK);
	tfc__journal_write(&journal, 0, 1, &buf);
	assert_int_equal(tfc__journal_read(&again, buf.data, buf.len, 2, NULL), TFC_OK);
	assert_int_equal(again.count, 1);
	assert_string_equal(again.entries[0].log_tail[1], "two");
	assert_null(again.entries[0].log_tail[2]);
	assert_string_equal(again.entries[0].error_line, "KeyError: 'lr'");
	assert_string_equal(again.entries[0].ignored_failures[0], "worker/1 exited with 1");
	assert_null(again.entries[0].ignored_failures[1]);
	tfc__journal_fini(&journal);
	tfc__journal_fini(&again);
	tfc__buf_fini(&buf);
}

static struct tfc__journal_entry task_entry(uint32_t task, uint32_t state, uint32_t attempt)
{
	return (struct tfc__journal_entry){.kind = TFC_EVENT_TASK,
					   .task = task,
					   .task_state = state,
					   .attempt = attempt,
					   .generation = attempt,
					   .pid = 42,
					   .node = (char *)"n1",
					   .address = (char *)"a:1"};
}

static void the_digest_says_how_each_task_stands(void **state)
{
	struct tfc__journal journal;
	assert_int_equal(tfc__journal_init(&journal), TFC_OK);
	assert_string_equal(tfc__journal_task(&journal, 7)->node, "");
	struct tfc__journal_entry entry = task_entry(3, TFC_TASK_READY, 2);
	tfc__journal_add(&journal, &entry);
	const struct tfc__journal_task *task = tfc__journal_task(&journal, 3);
	assert_int_equal(task->state, TFC_TASK_READY);
	assert_int_equal(task->attempt, 2);
	assert_int_equal(task->pid, 42);
	assert_string_equal(task->node, "n1");
	assert_string_equal(task->address, "a:1");
	assert_false(task->is_done);
	assert_null(tfc__journal_last_end(&journal, 3));
	entry = task_entry(3, TFC_TASK_EXITED, 2);
	entry.end.reason = TFC_EXIT_CODE;
	tfc__journal_add(&journal, &entry);
	task = tfc__journal_task(&journal, 3);
	assert_true(task->is_done);
	assert_int_equal(task->pid, 0);
	assert_int_equal(tfc__journal_last_end(&journal, 3)->attempt, 2);
	entry.end.status = 3;
	tfc__journal_add(&journal, &entry);
	assert_false(tfc__journal_task(&journal, 3)->is_done);
	assert_int_equal(tfc__journal_task(&journal, 2)->state, TFC_TASK_PENDING);
	entry = (struct tfc__journal_entry){.kind = TFC_EVENT_END, .job_state = TFC_JOB_FAILED};
	tfc__journal_add(&journal, &entry);
	assert_int_equal(journal.job_state, TFC_JOB_FAILED);
	tfc__journal_fini(&journal);
}

/* The attempt of a task ends for a reason, and the next one starts in a generation. */
static void restart(struct tfc__journal *journal, uint32_t task, uint32_t reason,
		    uint32_t generation)
{
	struct tfc__journal_entry entry = task_entry(task, TFC_TASK_FAILED,
						     tfc__journal_task(journal, task)->attempt);
	entry.generation = journal->generation;
	entry.reason = reason;
	assert_int_equal(tfc__journal_add(journal, &entry), TFC_OK);
	if (generation != journal->generation)
		return;
	entry.task_state = TFC_TASK_STARTING;
	entry.attempt++;
	assert_int_equal(tfc__journal_add(journal, &entry), TFC_OK);
}

static void begin(struct tfc__journal *journal, uint32_t tasks, uint32_t generation)
{
	for (uint32_t i = 0; i < tasks; i++) {
		struct tfc__journal_entry entry =
			task_entry(i, TFC_TASK_STARTING,
				   tfc__journal_task(journal, i)->attempt + 1);
		entry.generation = generation;
		assert_int_equal(tfc__journal_add(journal, &entry), TFC_OK);
	}
}

static void a_restart_is_an_incident_however_many_tasks_it_affects(void **state)
{
	struct tfc__journal journal;
	assert_int_equal(tfc__journal_init(&journal), TFC_OK);
	begin(&journal, 4, 1);
	assert_int_equal(journal.incidents, 0);
	restart(&journal, 1, TFC_END_SIGNAL, 2); /* a group of four, of which two have died */
	restart(&journal, 2, TFC_END_EXIT, 2);
	restart(&journal, 0, TFC_END_CONSEQUENCE, 2);
	restart(&journal, 3, TFC_END_CONSEQUENCE, 2);
	assert_int_equal(journal.incidents, 0);
	begin(&journal, 4, 2);
	assert_int_equal(journal.incidents, 1);
	assert_int_equal(journal.restarts, 4);
	restart(&journal, 3, TFC_END_LOST, 2); /* alone */
	assert_int_equal(journal.incidents, 2);
	restart(&journal, 0, TFC_END_EXIT, 2); /* a ps with its coordinator */
	restart(&journal, 1, TFC_END_CONSEQUENCE, 2);
	assert_int_equal(journal.incidents, 3);
	assert_int_equal(journal.restarts, 7);
	restart(&journal, 0, TFC_END_STOPPED, 3); /* a group that moves */
	restart(&journal, 1, TFC_END_CONSEQUENCE, 3);
	begin(&journal, 2, 3);
	assert_int_equal(journal.incidents, 4);
	restart(&journal, 2, TFC_END_EXIT, 3); /* one that has not restarted with the group */
	assert_int_equal(journal.incidents, 5);
	assert_int_equal(journal.restarts, 10);
	tfc__journal_fini(&journal);
}

static void every_task_has_ended_when_its_job_has(void **state)
{
	static const uint32_t last_reported[] = {TFC_TASK_PENDING,  TFC_TASK_HOLDING,
						 TFC_TASK_STARTING, TFC_TASK_READY,
						 TFC_TASK_EXITED,   TFC_TASK_FAILED};
	static const uint32_t after[] = {TFC_TASK_STOPPED, TFC_TASK_STOPPED, TFC_TASK_LOST,
					 TFC_TASK_LOST,    TFC_TASK_EXITED,  TFC_TASK_FAILED,
					 TFC_TASK_STOPPED}; /* the last: nothing was reported of it
							     */
	struct tfc__journal journal;
	assert_int_equal(tfc__journal_init(&journal), TFC_OK);
	for (uint32_t i = 0; i < 6; i++) {
		struct tfc__journal_entry entry = task_entry(i, last_reported[i], 1);
		assert_int_equal(tfc__journal_add(&journal, &entry), TFC_OK);
		assert_int_equal(tfc__journal_task(&journal, i)->state, last_reported[i]);
	}
	struct tfc__journal_entry end = {.kind = TFC_EVENT_END, .job_state = TFC_JOB_STOPPED};
	assert_int_equal(tfc__journal_add(&journal, &end), TFC_OK);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(tfc__journal_task(&journal, i)->state, after[i]);
	tfc__journal_fini(&journal);
}

static uint32_t written, shown;

static void count_written(struct tfc__journal_writer *writer)
{
	written++;
}

static void count_shown(struct tfc__observer *reader, const void *event)
{
	assert_int_equal(*(const enum tfc__journal_event *)event, TFC__JOURNAL_SHOWN);
	shown++;
}

static void nobody_sees_an_entry_before_it_is_stored(void **state)
{
	struct tfc__journal journal;
	struct tfc__journal_writer writer = {count_written};
	struct tfc__observer reader = {.fn = count_shown};
	assert_int_equal(tfc__journal_init(&journal), TFC_OK);
	journal.writer = &writer;
	tfc__observers_add(&journal.readers, &reader);
	for (uint32_t i = 0; i < 3; i++) {
		struct tfc__journal_entry entry = task_entry(0, TFC_TASK_READY, i + 1);
		assert_int_equal(tfc__journal_add(&journal, &entry), TFC_OK);
	}
	assert_int_equal(written, 3);
	assert_int_equal(journal.added, 3);
	assert_int_equal(journal.count, 0);
	assert_int_equal(shown, 0);
	assert_int_equal(tfc__journal_task(&journal, 0)->state, TFC_TASK_PENDING);
	tfc__journal_show(&journal, 2);
	assert_int_equal(journal.count, 2);
	assert_int_equal(shown, 1);
	assert_int_equal(tfc__journal_task(&journal, 0)->attempt, 2);
	tfc__journal_fini(&journal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_needs_no_memory),
		cmocka_unit_test(the_lines_of_an_end_read_back_as_they_were_written),
		cmocka_unit_test(the_digest_says_how_each_task_stands),
		cmocka_unit_test(a_restart_is_an_incident_however_many_tasks_it_affects),
		cmocka_unit_test(every_task_has_ended_when_its_job_has),
		cmocka_unit_test(nobody_sees_an_entry_before_it_is_stored),
		cmocka_unit_test(whichever_allocation_fails_nothing_leaks),
	};
	return cmocka_run_group_tests_name("cluster_journal", tests, NULL, NULL);
}
