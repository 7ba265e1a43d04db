/* proc: a guard that lies, rambles or falls silent costs its tasks, never the host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "port/port.h"
#include "proc/proc.h"
#include "proc_run.h"

/* A context whose guard is the liar in one of its modes. */
static void begin(struct proc_run *run, const char *mode)
{
	const char *liar = getenv("TFC_TEST_LIAR");
	proc_run_begin_with(run, mode, liar, liar);
}

static void note_end(void *user, const tfc_process_event *event)
{
	*(uint32_t *)user = event->reason;
}

static void expect_end(const char *mode, uint32_t reason)
{
	struct proc_run run;
	struct proc_task task;
	begin(&run, mode);
	proc_start(&run, &task, NULL, "wait", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, reason);
	assert_int_equal(task.ends, 1);
	proc_close(&task);
	proc_run_end(&run);
}

static void what_no_guard_says_loses_the_task(void **state)
{
	static const char *const modes[] = {"short",  "huge",  "kind",    "reason",
					    "signal", "again", "garbled", "version"};
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		expect_end(modes[i], TFC_EXIT_LOST);
}

static void an_end_reported_twice_is_one_end(void **state)
{
	expect_end("twice", TFC_EXIT_CODE);
}

/* Silence takes its time to be believed: all kinds of it at once. */
static void a_stop_ends_although_the_guard_is_silent(void **state)
{
	enum { MUTE, SILENT, STOPPED, COUNT };
	struct proc_run runs[COUNT];
	struct proc_task tasks[COUNT];
	begin(&runs[MUTE], "mute");
	begin(&runs[SILENT], "silent");
	proc_run_begin(&runs[STOPPED]);
	for (int i = 0; i < COUNT; i++)
		proc_start(&runs[i], &tasks[i], NULL, "deaf", "wait", NULL);
	proc_await_start(&runs[STOPPED], &tasks[STOPPED]);
	pid_t guard = proc_parent(tfc__process_shim(tasks[STOPPED].process));
	proc_stop(guard);
	assert_int_equal(tfc_process_stop(tasks[STOPPED].process, 100), 0);
	assert_int_equal(tfc_process_stop(tasks[MUTE].process, 1000), 0);
	for (uint64_t end = tfc__now() + 30 * TFC__SECOND;
	     !tasks[MUTE].ends || !tasks[SILENT].ends || !tasks[STOPPED].ends;) {
		assert_true(tfc__now() < end);
		for (int i = 0; i < COUNT; i++)
			assert_true(tfc_ctx_run(runs[i].ctx, 10) >= 0);
	}
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(tasks[i].end.reason, TFC_EXIT_LOST);
		assert_int_equal(tasks[i].ends, 1);
		proc_close(&tasks[i]);
		tfc_ctx_free(runs[i].ctx);
		runs[i].ctx = NULL;
		runs[i].fds = runs[0].fds;
	}
	assert_false(proc_is_alive(tasks[STOPPED].pid));
	assert_false(proc_is_alive(guard));
	for (int i = 0; i < COUNT; i++)
		proc_run_end(&runs[i]);
}

/* It has no pidfd then, which comes with the hello. */
static void a_guard_without_a_hello_is_reaped_however_long_it_takes_to_die(void **state)
{
	expect_end("heavy", TFC_EXIT_LOST);
}

static void a_guard_that_never_gets_to_its_hello_is_refused_by_name(void **state)
{
	struct proc_run run;
	const char *const argv[] = {"/bin/true", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_process *process = NULL;
	uint32_t reason = TFC_EXIT_NONE;
	int lost = 0, code;
	options.argv = argv;
	begin(&run, "useless");
	while (!(code = tfc_process_spawn(run.ctx, &options, note_end, &reason, &process))) {
		assert_true(lost++ < 3);
		for (uint64_t end = tfc__now() + 5 * TFC__SECOND; reason == TFC_EXIT_NONE;) {
			assert_true(tfc__now() < end);
			assert_true(tfc_ctx_run(run.ctx, 1000) >= 0);
		}
		assert_int_equal(reason, TFC_EXIT_LOST);
		reason = TFC_EXIT_NONE;
		tfc_process_close(process);
	}
	assert_int_equal(code, TFC_ESYS);
	assert_non_null(strstr(tfc_ctx_error(run.ctx)->text, "/useless/tfc-guard\" ended 3 "));
	proc_run_end(&run);
}

static void a_guard_of_another_version_is_refused_by_name(void **state)
{
	struct proc_run run;
	struct proc_task task;
	tfc_process *next;
	const char *const argv[] = {"/bin/true", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	begin(&run, "version");
	proc_start(&run, &task, NULL, "wait", NULL);
	proc_await_end(&run, &task);
	options.argv = argv;
	assert_int_equal(tfc_process_spawn(run.ctx, &options, (tfc_process_fn)abort, NULL, &next),
			 TFC_ENOTSUP);
	assert_non_null(strstr(tfc_ctx_error(run.ctx)->text, "tfc-guard\" has another version"));
	proc_close(&task);
	proc_run_end(&run);
}

/* The guard dies unnoticed before the host hands it something: the next one gets it. */
static void what_a_dead_guard_cannot_take_goes_to_the_next(void **state)
{
	struct proc_run run;
	struct proc_task task;
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	proc_run_begin(&run);
	assert_int_equal(tfc_port_pool_open(run.ctx, NULL, &pool), 0);
	for (int i = 0; i < 2; i++) {
		proc_start(&run, &task, NULL, "wait", NULL);
		proc_await_start(&run, &task);
		pid_t guard = proc_parent(tfc__process_shim(task.process));
		assert_int_equal(kill(guard, SIGKILL), 0);
		assert_true(proc_await_gone(guard, 2000));
		if (i == 0) {
			assert_int_equal(tfc_port_acquire(pool, 0, &hold), 0);
			assert_int_equal(tfc__guard_keep(run.ctx, hold), 0);
			assert_false(tfc__port_is_lost(hold));
			tfc_port_hold_release(hold);
		} else {
			struct tfc__private_dir *dir;
			assert_int_equal(tfc__private_dir_open(run.ctx, run.dir, -1, "test", NULL,
							       &dir),
					 0);
		}
		proc_await_end(&run, &task);
		proc_close(&task);
	}
	tfc_port_pool_close(pool);
	proc_run_end(&run);
}

static void note_log(void *user, const tfc_log_entry *entry)
{
	char *text = user;
	if (entry->level == TFC_LOG_ERROR)
		snprintf(text, 256, "%s", entry->text);
}

static void a_port_that_the_guard_cannot_keep_is_named_and_lost(void **state)
{
	struct proc_run run;
	tfc_port_pool *pool;
	tfc_port_hold *hold;
	char said[256] = "", expected[256];
	begin(&run, "portless");
	tfc_ctx_free(run.ctx); /* for one that logs */
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	options.helper_dir = proc_path(&run, "portless");
	options.log_level = TFC_LOG_ERROR;
	options.log = note_log;
	options.log_user = said;
	assert_int_equal(tfc_ctx_new(&options, NULL, &run.ctx), 0);
	assert_int_equal(tfc_port_pool_open(run.ctx, NULL, &pool), 0);
	assert_int_equal(tfc_port_acquire(pool, 0, &hold), 0);
	assert_int_equal(tfc__guard_keep(run.ctx, hold), 0);
	for (uint64_t end = tfc__now() + 5 * TFC__SECOND; !tfc__port_is_lost(hold);) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(run.ctx, 1000) >= 0);
	}
	snprintf(expected, sizeof(expected),
		 "port %u is no longer held: the guard is out of memory",
		 tfc_port_hold_number(hold));
	assert_string_equal(said, expected);
	assert_int_equal(tfc__guard_keep(run.ctx, hold), TFC_ELOST);
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_no_guard_says_loses_the_task),
		cmocka_unit_test(an_end_reported_twice_is_one_end),
		cmocka_unit_test(a_stop_ends_although_the_guard_is_silent),
		cmocka_unit_test(a_guard_without_a_hello_is_reaped_however_long_it_takes_to_die),
		cmocka_unit_test(a_guard_that_never_gets_to_its_hello_is_refused_by_name),
		cmocka_unit_test(a_guard_of_another_version_is_refused_by_name),
		cmocka_unit_test(what_a_dead_guard_cannot_take_goes_to_the_next),
		cmocka_unit_test(a_port_that_the_guard_cannot_keep_is_named_and_lost),
	};
	return cmocka_run_group_tests_name("proc_liar", tests, NULL, NULL);
}
