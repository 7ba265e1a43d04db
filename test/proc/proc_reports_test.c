/* proc: the reports of a process, which it writes to descriptor 4. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>

#include "base/buf.h"
#include "proc_run.h"
#include <tfcluster/log.h>

static void start(struct proc_run *run, struct proc_task *task, const char *const *argv)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.log_dir = run->dir;
	options.log_name = "log";
	options.has_reports = 1;
	proc_start_with(run, task, &options);
}

/* What a stream of the log has before `end`; the caller frees it. */
static struct tfc__buf logged(const struct proc_run *run, uint32_t stream, uint64_t end)
{
	struct tfc__buf bytes = {0};
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_log *log;
	assert_int_equal(tfc_log_open(run->dir, "log", 0, NULL, &log), TFC_OK);
	while (tfc_log_next(log, &record, NULL) > 0 && record.next <= end)
		if (record.stream == stream)
			tfc__buf_add(&bytes, record.data, record.len);
	tfc__buf_add(&bytes, "", 1);
	assert_false(bytes.is_failed);
	tfc_log_close(log);
	return bytes;
}

static void assert_logged(const struct proc_run *run, uint32_t stream, uint64_t end,
			  const char *expected)
{
	struct tfc__buf bytes = logged(run, stream, end);
	assert_string_equal(bytes.data, expected);
	tfc__buf_fini(&bytes);
}

/* Runs a script to its end; its log is then read with assert_logged. */
static void run_script(struct proc_run *run, struct proc_task *task, const char *script)
{
	const char *argv[] = {"/bin/sh", "-c", script, NULL};
	proc_run_begin(run);
	start(run, task, argv);
	proc_await_end(run, task);
	proc_close(task);
}

static void all_reports_of_a_killed_process_come_before_its_end(void **state)
{
	struct proc_run run;
	struct proc_task task;
	struct tfc__buf expected = {0};
	char line[16];
	for (int i = 0; i < 3000; i++)
		tfc__buf_add(&expected, line,
			     (size_t)snprintf(line, sizeof(line), "report %d\n", i));
	tfc__buf_add(&expected, "", 1);
	run_script(&run, &task,
		   "echo out; echo err >&2; i=0; "
		   "while [ $i -lt 3000 ]; do echo report $i >&4; i=$((i+1)); done; kill -9 $$");
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task.end.status, SIGKILL);
	assert_logged(&run, TFC_STREAM_REPORT, task.end.log_end, expected.data);
	assert_logged(&run, TFC_STREAM_STDOUT, task.end.log_end, "out\n");
	assert_logged(&run, TFC_STREAM_STDERR, task.end.log_end, "err\n");
	tfc__buf_fini(&expected);
	proc_run_end(&run);
}

static void a_report_may_have_a_megabyte(void **state)
{
	struct proc_run run;
	struct proc_task task;
	run_script(&run, &task, "head -c 1048576 /dev/zero | tr '\\0' x >&4; echo >&4; kill -9 $$");
	struct tfc__buf bytes = logged(&run, TFC_STREAM_REPORT, task.end.log_end);
	assert_int_equal(bytes.len, (1 << 20) + 2);
	assert_int_equal(strspn(bytes.data, "x"), 1 << 20);
	assert_string_equal(bytes.data + (1 << 20), "\n");
	tfc__buf_fini(&bytes);
	proc_run_end(&run);
}

/* Of output, the shim keeps only the last state of a bar. */
static void bytes_of_reports_are_kept_as_they_are(void **state)
{
	struct proc_run run;
	struct proc_task task;
	run_script(&run, &task,
		   "printf ' 10%%\\r 20%%\\r 30%%\\r\\n\\nb\\033[A\\n' >&4; "
		   "printf ' 10%%\\r 20%%\\n'");
	assert_logged(&run, TFC_STREAM_REPORT, task.end.log_end, " 10%\r 20%\r 30%\r\n\nb\033[A\n");
	assert_logged(&run, TFC_STREAM_STDOUT, task.end.log_end, "\r 20%\n");
	proc_run_end(&run);
}

static void a_process_may_close_the_descriptor(void **state)
{
	struct proc_run run;
	struct proc_task task;
	run_script(&run, &task, "echo one >&4; exec 4>&-; echo still here; exit 3");
	assert_int_equal(task.end.status, 3);
	assert_logged(&run, TFC_STREAM_REPORT, task.end.log_end, "one\n");
	assert_logged(&run, TFC_STREAM_STDOUT, task.end.log_end, "still here\n");
	proc_run_end(&run);
}

static void a_child_may_report_and_does_not_delay_the_end(void **state)
{
	struct proc_run run;
	struct proc_task task;
	run_script(&run, &task, "sh -c 'echo of a child >&4'; sleep 1000 & echo of its parent >&4");
	assert_int_equal(task.end.status, 0);
	assert_logged(&run, TFC_STREAM_REPORT, task.end.log_end, "of a child\nof its parent\n");
	proc_run_end(&run);
}

static void the_descriptor_is_there_only_when_it_is_wanted(void **state)
{
	static const struct {
		uint32_t has_reports, stall_ms;
		const char *fds;
	} cases[] = {
		{0, 0, "0 1 2\n"},
		{0, 60000, "0 1 2 3\n"},
		{1, 0, "0 1 2 4\n"},
		{1, 60000, "0 1 2 3 4\n"},
	};
	const char *argv[] = {proc_task_program(), "fds", NULL};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct proc_run run;
		struct proc_task task;
		tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
		proc_run_begin(&run);
		options.argv = argv;
		options.log_dir = run.dir;
		options.log_name = "log";
		options.has_reports = cases[i].has_reports;
		options.stall_ms = cases[i].stall_ms;
		proc_start_with(&run, &task, &options);
		proc_await_end(&run, &task);
		proc_close(&task);
		assert_logged(&run, TFC_STREAM_STDOUT, task.end.log_end, cases[i].fds);
		proc_run_end(&run);
	}
}

/* The program writes for longer than the silence that would be reported. */
static void a_report_is_a_sign_of_life(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "beat", "4", "1500", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	proc_run_begin(&run);
	options.argv = argv;
	options.log_dir = run.dir;
	options.log_name = "log";
	options.has_reports = 1;
	options.stall_ms = 1000;
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_int_equal(task.stalls, 0);
	assert_int_equal(task.end.status, 0);
	proc_close(&task);
	proc_run_end(&run);
}

static void reports_need_a_log(void **state)
{
	struct proc_run run;
	const char *argv[] = {"/bin/true", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_process *process = NULL;
	options.argv = argv;
	options.has_reports = 1;
	proc_run_begin(&run);
	assert_int_equal(tfc_process_spawn(run.ctx, &options, (tfc_process_fn)abort, NULL,
					   &process),
			 TFC_EINVAL);
	assert_null(process);
	assert_string_equal(
		tfc_ctx_error(run.ctx)->text,
		"tfc_process_options.has_reports requires log_dir, to which the reports "
		"are written");
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_reports_of_a_killed_process_come_before_its_end),
		cmocka_unit_test(a_report_may_have_a_megabyte),
		cmocka_unit_test(bytes_of_reports_are_kept_as_they_are),
		cmocka_unit_test(a_process_may_close_the_descriptor),
		cmocka_unit_test(a_child_may_report_and_does_not_delay_the_end),
		cmocka_unit_test(the_descriptor_is_there_only_when_it_is_wanted),
		cmocka_unit_test(a_report_is_a_sign_of_life),
		cmocka_unit_test(reports_need_a_log),
	};
	return cmocka_run_group_tests_name("proc_reports", tests, NULL, NULL);
}
