/* proc: output reaches the log whole, and neither a flood nor a full disk holds the task up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strv.h"
#include "log/tail.h"
#include "proc/proc.h"
#include "proc_run.h"
#include "sanitized.h"
#include <tfcluster/log.h>

static void any_bytes_arrive_as_they_were(void **state)
{
	struct proc_run run;
	struct proc_task task;
	size_t len;
	proc_run_begin(&run);
	proc_start(&run, &task, "t", "nul", "print", "no newline", NULL);
	proc_await_end(&run, &task);
	char *output = proc_output(&run, "t", &len);
	assert_int_equal(len, 13);
	assert_memory_equal(output, "a\0bno newline", 13);
	free(output);
	proc_close(&task);
	struct stat status;
	assert_int_equal(stat(proc_path(&run, "t.0000000000000000.log"), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	proc_run_end(&run);
}

static void streams_are_distinguished(void **state)
{
	struct proc_run run;
	struct proc_task task;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_log *log;
	int seen[4] = {0};
	proc_run_begin(&run);
	proc_start(&run, &task, "t", "print", "out", "error", "err", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(tfc_log_open(run.dir, "t", 0, NULL, &log), 0);
	while (tfc_log_next(log, &record, NULL) > 0) {
		assert_int_equal(record.len, 3);
		assert_int_equal(record.attempt, 1);
		assert_memory_equal(record.data, record.stream == TFC_STREAM_STDERR ? "err" : "out",
				    3);
		seen[record.stream]++;
	}
	assert_int_equal(seen[TFC_STREAM_STDOUT], 1);
	assert_int_equal(seen[TFC_STREAM_STDERR], 1);
	assert_int_equal(tfc_log_position(log), task.end.log_end);
	tfc_log_close(log);
	proc_close(&task);
	proc_run_end(&run);
}

static void a_task_that_closes_its_output_runs_on(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, "t", "print", "x", "close", "daemon", proc_path(&run, "pid"),
		   "wait", NULL);
	proc_await_start(&run, &task);
	proc_await_number(proc_path(&run, "pid"));
	assert_true(proc_is_alive(task.pid));
	tfc_process_stop(task.process, 0);
	proc_await_end(&run, &task);
	char *output = proc_output(&run, "t", NULL);
	assert_string_equal(output, "x");
	free(output);
	proc_close(&task);
	proc_run_end(&run);
}

static long resident_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = -1;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	fclose(file);
	return kib;
}

/* Of a task with the log "t". */
static tfc_process_options logged(const struct proc_run *run, const char *const *argv,
				  uint64_t segment_bytes, uint32_t segments)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.log_dir = run->dir;
	options.log_name = "t";
	options.log_segment_bytes = segment_bytes;
	options.log_segments = segments;
	return options;
}

static void a_flood_is_kept_within_bounds(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "flood", "1073741824", "wait", NULL};
	proc_run_begin(&run);
	tfc_process_options options = logged(&run, argv, 4 << 20, 4);
	proc_start_with(&run, &task, &options);
	proc_await_start(&run, &task);
	uint64_t begin = tfc__now();
	while (tfc__log_end(run.dir, "t") < UINT64_C(1) << 30)
		assert_true(tfc__now() - begin < 60 * TFC__SECOND);
	print_message("1 GiB in %d ms, shim %ld KiB at most\n",
		      (int)((tfc__now() - begin) / TFC__MS),
		      resident_kib(tfc__process_shim(task.process)));
	if (!TEST_IS_SANITIZED) /* the shim, too */
		assert_in_range(resident_kib(tfc__process_shim(task.process)), 1, 1500);
	tfc_process_stop(task.process, 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.log_dropped, 0);
	proc_close(&task);

	/* the oldest are gone, what is left is whole and ends where it should */
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_error error = TFC_ERROR_INIT;
	uint64_t bytes = 0, first = 0;
	int code;
	assert_int_equal(tfc_log_open(run.dir, "t", 0, &error, &log), 0);
	while ((code = tfc_log_next(log, &record, &error)) > 0) {
		assert_int_equal(record.stream, TFC_STREAM_STDOUT);
		first = bytes ? first : record.position;
		bytes += record.len;
	}
	assert_int_equal(code, 0);
	assert_in_range(bytes, 3 * (4 << 20), 4 * (5 << 20));
	assert_true(first > 200000000);
	assert_int_equal(tfc_log_position(log), task.end.log_end);
	tfc_log_close(log);

	/* a reader from the middle of what is gone gets one gap up to there */
	assert_int_equal(tfc_log_open(run.dir, "t", 1000, &error, &log), 0);
	assert_int_equal(tfc_log_next(log, &record, &error), 1);
	assert_int_equal(record.stream, TFC_STREAM_GAP);
	assert_int_equal(record.position, 1000);
	assert_int_equal(record.next, first);
	assert_null(record.data);

	/* a host with older headers, whose records end earlier, keeps what lies behind */
	record.size = offsetof(tfc_log_record, data);
	record.len = 12345;
	assert_int_equal(tfc_log_next(log, &record, &error), 1);
	assert_int_equal(record.position, first);
	assert_int_equal(record.size, offsetof(tfc_log_record, data));
	assert_null(record.data);
	assert_int_equal(record.len, 12345);
	tfc_log_close(log);
	proc_run_end(&run);
}

static void an_attempt_continues_the_log_of_the_one_before(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "print", "again\n", NULL};
	uint64_t end = 0;
	proc_run_begin(&run);
	tfc_process_options options = logged(&run, argv, 100, 3);
	for (uint32_t attempt = 1; attempt <= 20; attempt++) {
		options.attempt = attempt;
		proc_start_with(&run, &task, &options);
		proc_await_end(&run, &task);
		assert_int_equal(task.end.log_end, end + 54);
		end = task.end.log_end;
		proc_close(&task);
		assert_int_equal(tfc__log_end(run.dir, "t"), end);
		/* a crash of the machine left half a record */
		char path[64];
		if (attempt == 9) {
			snprintf(path, sizeof(path), "t.%016llx.log",
				 (unsigned long long)(attempt - 1) / 2 * 108);
			int fd = open(proc_path(&run, path), O_WRONLY | O_APPEND);
			assert_true(fd >= 0);
			assert_int_equal(write(fd, "#17637", 6), 6);
			close(fd);
		}
	}
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	uint32_t attempt = 0;
	assert_int_equal(tfc_log_open(run.dir, "t", 0, NULL, &log), 0);
	while (tfc_log_next(log, &record, NULL) > 0) {
		assert_true(attempt == 0 || record.attempt == attempt + 1);
		attempt = record.attempt;
		assert_memory_equal(record.data, "again\n", 6);
	}
	assert_int_equal(attempt, 20);
	tfc_log_close(log);
	proc_run_end(&run);
}

static void a_reader_follows_over_segments(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "flood", "3000000", NULL};
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_error error = TFC_ERROR_INIT;
	uint64_t bytes = 0;
	int code = 0;
	proc_run_begin(&run);
	assert_int_equal(tfc_log_open(run.dir, "t", 0, &error, &log), 0);
	assert_int_equal(tfc_log_next(log, &record, &error), 0);
	tfc_process_options options = logged(&run, argv, 100000, 1000);
	proc_start_with(&run, &task, &options);
	while (!task.ends || code > 0) {
		if ((code = tfc_log_next(log, &record, &error)) == 0)
			tfc_ctx_run(run.ctx, 1);
		assert_true(code >= 0);
		if (code > 0) {
			assert_int_equal(record.stream, TFC_STREAM_STDOUT);
			bytes += record.len;
		}
	}
	while (tfc_log_next(log, &record, &error) > 0)
		bytes += record.len;
	assert_int_equal(bytes, 3000000);
	assert_int_equal(tfc_log_position(log), task.end.log_end);
	tfc_log_close(log);
	proc_close(&task);
	proc_run_end(&run);
}

static bool begins_segment(const char *dir, uint64_t position)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/t.%016llx.log", dir, (unsigned long long)position);
	return access(path, F_OK) == 0;
}

/* Whatever the writes of the task are cut into: who begins with any segment begins with lines. */
static void a_rotation_goes_where_lines_end(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {"/bin/sh", "-c",
			      "PATH=/usr/bin:/bin; seq 40000 & i=0; "
			      "while [ $i -lt 3000 ]; do echo $i >&2; i=$((i+1)); done; wait",
			      NULL};
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_error error = TFC_ERROR_INIT;
	bool is_mid_line[2] = {false, false};
	uint32_t segments = 0, torn = 0;
	proc_run_begin(&run);
	tfc_process_options options = logged(&run, argv, 20000, 1000);
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_int_equal(tfc_log_open(run.dir, "t", 0, &error, &log), 0);
	while (tfc_log_next(log, &record, &error) > 0) {
		bool is_first = begins_segment(run.dir, record.position);
		segments += is_first;
		torn += is_first && (is_mid_line[0] || is_mid_line[1]);
		is_mid_line[record.stream == TFC_STREAM_STDERR] =
			((const char *)record.data)[record.len - 1] != '\n';
	}
	tfc_log_close(log);
	assert_true(segments > 2);
	assert_int_equal(torn, 0);
	proc_close(&task);
	proc_run_end(&run);
}

static void free_lines(char **lines)
{
	for (int i = 0; lines[i]; i++)
		free(lines[i]);
	free(lines);
}

static bool ends_with_line(const struct proc_run *run, const char *text)
{
	char **lines;
	assert_int_equal(tfc__log_tail(run->dir, "t", 0, 0, 1, &lines), 0);
	bool is_found = lines[0] && strcmp(lines[0], text) == 0;
	free_lines(lines);
	return is_found;
}

/* Without its end, too, the last state of a bar of this width gets into the log, soon after it was
 * written. */
static void expect_bounded_pace(const char *width)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {"/bin/sh",
			      "-c",
			      "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); "
			      "printf '\\r%*d/10000 [###   ]' $1 $i; done; exec \"$0\" wait",
			      proc_task_program(),
			      width,
			      NULL};
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	uint64_t records = 0;
	char *last;
	assert_true(asprintf(&last, "%*d/10000 [###   ]", atoi(width), 10000) > 0);
	proc_run_begin(&run);
	tfc_process_options options = logged(&run, argv, 0, 0);
	uint64_t begin = tfc__now();
	proc_start_with(&run, &task, &options);
	while (!ends_with_line(&run, last)) {
		assert_true(tfc__now() - begin < 60 * TFC__SECOND);
		tfc_ctx_run(run.ctx, 10);
	}
	uint64_t most = (tfc__now() - begin) / (500 * TFC__MS) + 2;
	assert_int_equal(tfc_log_open(run.dir, "t", 0, NULL, &log), 0);
	while (tfc_log_next(log, &record, NULL) > 0)
		records++;
	assert_in_range(records, 2, most);
	tfc_process_stop(task.process, 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.log_end, tfc_log_position(log));
	tfc_log_close(log);
	proc_close(&task);
	proc_run_end(&run);
	free(last);
}

static void a_progress_bar_is_logged_at_a_bounded_pace(void **state)
{
	expect_bounded_pace("5");
}

static void a_bar_of_many_terminals_width_is_logged_at_the_same_pace(void **state)
{
	expect_bounded_pace("30000");
}

/* As tqdm writes them; "third" is two lines below "outer". The last state of "inner" is in the log
 * when the newline behind its cursor movement comes. */
static void nested_bars_are_lines_where_the_outer_one_moves(void **state)
{
	static const char *const expected[] = {"outer 0", "outer 1", "", "third 1"};
	struct proc_run run;
	struct proc_task task;
	char **lines;
	proc_run_begin(&run);
	assert_int_equal(mkfifo(proc_path(&run, "go"), 0600), 0);
	proc_start(&run, &task, "t", "print", "\router 0", "print", "\n", "print", "\rinner 0",
		   "print", "\033[A", "print", "\n", "print", "\rinner 1\033[A", "go", run.dir,
		   "print", "\n\rinner 2\033[A", "print", "\r       \033[A", "print", "\router 1",
		   "print", "\n\n\rthird 0", "print", "\033[A\033[A", "print", "\n\n", "print",
		   "\rthird 1", "print", "\033[A\033[A", NULL);
	uint64_t begin = tfc__now();
	while (!ends_with_line(&run, "inner 1")) {
		assert_true(tfc__now() - begin < 60 * TFC__SECOND);
		tfc_ctx_run(run.ctx, 10);
	}
	close(open(proc_path(&run, "go"), O_WRONLY | O_CLOEXEC));
	proc_await_end(&run, &task);
	assert_int_equal(task.end.log_end, tfc__log_end(run.dir, "t"));
	proc_close(&task);
	assert_int_equal(tfc__log_tail(run.dir, "t", 0, 0, 9, &lines), 0);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_string_equal(lines[i], expected[i]);
	assert_null(lines[4]);
	free_lines(lines);
	proc_run_end(&run);
}

static void the_last_state_of_a_bar_is_logged_before_the_end(void **state)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	proc_start(&run, &task, "t", "print", "one\r\n", "print", "\r 10%", "print", "\r 20%",
		   "print", "\r 30%", NULL);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.log_dropped, 0);
	assert_int_equal(task.end.log_end, tfc__log_end(run.dir, "t"));
	proc_close(&task);
	assert_true(ends_with_line(&run, " 30%"));
	proc_run_end(&run);
}

static void the_tail_is_the_last_lines(void **state)
{
	struct proc_run run;
	struct proc_task task;
	char **lines;
	proc_run_begin(&run);
	proc_start(&run, &task, "t", "print", "one\ntwo\nth", "print", "ree\n\nlast", NULL);
	proc_await_end(&run, &task);
	proc_close(&task);
	assert_int_equal(tfc__log_tail(run.dir, "t", 0, 0, 3, &lines), 0);
	assert_string_equal(lines[0], "three");
	assert_string_equal(lines[1], "");
	assert_string_equal(lines[2], "last");
	assert_null(lines[3]);
	free_lines(lines);
	assert_int_equal(tfc__log_tail(run.dir, "t", 2, 0, 3, &lines), 0); /* of another attempt */
	assert_null(lines[0]);
	free_lines(lines);
	assert_int_equal(tfc__log_tail(run.dir, "none", 0, 0, 3, &lines), 0);
	assert_null(lines[0]);
	free(lines);
	proc_run_end(&run);
}

static void damage_is_named(void **state)
{
	struct proc_run run;
	struct proc_task task;
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_error error = TFC_ERROR_INIT;
	proc_run_begin(&run);
	proc_start(&run, &task, "t", "print", "one", NULL);
	proc_await_end(&run, &task);
	proc_close(&task);
	int fd = open(proc_path(&run, "t.0000000000000000.log"), O_WRONLY);
	assert_int_equal(pwrite(fd, "x", 1, 30), 1);
	close(fd);
	assert_int_equal(tfc_log_open(run.dir, "t", 0, &error, &log), 0);
	assert_int_equal(tfc_log_next(log, &record, &error), TFC_EPARSE);
	assert_non_null(strstr(error.text, "t.0000000000000000.log"));
	assert_non_null(strstr(error.text, "byte 0"));
	tfc_log_close(log);
	proc_run_end(&run);
}

/* Over the run's directory; where that is not allowed the run is over. */
static bool mount_disk(struct proc_run *run, const char *size)
{
	bool is_mounted = mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			  mount("tmpfs", run->dir, "tmpfs", 0, size) == 0;
	if (!is_mounted)
		proc_run_end(run);
	return is_mounted;
}

/* In a child with a mount namespace of its own: 0 when all went as it should. */
static int fill_a_disk(void)
{
	struct proc_run run;
	struct proc_task task;
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	uint64_t written = 0, missing = 0;
	proc_run_begin(&run);
	if (!mount_disk(&run, "size=1m"))
		return 77;
	proc_start(&run, &task, "t", "flood", "8000000", "exit", "4", NULL);
	proc_await_end(&run, &task);
	if (task.end.status != 4 || !task.end.log_dropped)
		return 1;
	proc_close(&task);
	if (tfc_log_open(run.dir, "t", 0, NULL, &log) < 0)
		return 2;
	while (tfc_log_next(log, &record, NULL) > 0)
		*(record.stream == TFC_STREAM_GAP ? &missing : &written) += record.len;
	tfc_log_close(log);
	if (written + task.end.log_dropped != 8000000)
		return 3;
	if (missing + task.end.log_gap != task.end.log_dropped || written < 500000)
		return 4;
	umount2(run.dir, MNT_DETACH);
	proc_run_end(&run);
	return 0;
}

/* The writer cuts off what a full disk took of a write: no reader may have seen that. */
static int follow_on_a_full_disk(void)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	if (!mount_disk(&run, "size=256k"))
		return 77;
	for (int i = 0; i < 20; i++) {
		tfc_log *log;
		tfc_log_record record = TFC_LOG_RECORD_INIT;
		tfc_error error = TFC_ERROR_INIT;
		uint64_t written = 0, missing = 0, end = 0;
		int code = 1;
		if (tfc_log_open(run.dir, "t", 0, NULL, &log) < 0)
			return 1;
		proc_start(&run, &task, "t", "flood", "1000000", NULL);
		for (bool has_ended = false; code > 0 || !has_ended;) {
			has_ended = task.ends;
			code = tfc_log_next(log, &record, &error);
			if (code == 0)
				tfc_ctx_run(run.ctx, 0);
			if (code < 0 || (code > 0 && record.position != end))
				return 2;
			if (code == 0)
				continue;
			end = record.next;
			*(record.stream == TFC_STREAM_GAP ? &missing : &written) += record.len;
		}
		tfc_log_close(log);
		proc_close(&task);
		if (!missing || written + task.end.log_dropped != 1000000 ||
		    missing + task.end.log_gap != task.end.log_dropped || end != task.end.log_end)
			return 3;
		if (unlink(proc_path(&run, "t.0000000000000000.log")) < 0)
			return 4;
	}
	umount2(run.dir, MNT_DETACH);
	proc_run_end(&run);
	return 0;
}

/* Not even a gap record fits, so the end alone says how much is missing. */
static int write_to_a_full_disk(void)
{
	struct proc_run run;
	struct proc_task task;
	proc_run_begin(&run);
	if (!mount_disk(&run, "size=64k"))
		return 77;
	static char block[65536];
	int fd = open(proc_path(&run, "filler"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
		return 1;
	close(fd);
	proc_start(&run, &task, "t", "print", "lost", "flood", "100000", "exit", "4", NULL);
	proc_await_end(&run, &task);
	if (task.end.status != 4 || task.end.log_dropped != 100004 || task.end.log_gap != 100004 ||
	    task.end.log_end != 0)
		return 2;
	proc_close(&task);
	umount2(run.dir, MNT_DETACH);
	proc_run_end(&run);
	return 0;
}

static void on_a_disk_of_its_own(int (*check)(void))
{
	int status;
	if (geteuid() != 0) {
		print_message("skipped: needs root for a small file system of its own\n");
		skip();
	}
	pid_t child = fork();
	if (child == 0)
		_exit(unshare(CLONE_NEWNS) < 0 ? 77 : check());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: no mount namespace here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_full_disk_drops_and_counts(void **state)
{
	on_a_disk_of_its_own(fill_a_disk);
}

static void a_reader_beside_a_full_disk_misses_no_record(void **state)
{
	on_a_disk_of_its_own(follow_on_a_full_disk);
}

static void what_a_full_disk_does_not_take_to_the_end_is_reported_by_the_end(void **state)
{
	on_a_disk_of_its_own(write_to_a_full_disk);
}

/* Of a cursor that points into a record, whatever segment that is in. */
static void a_position_within_a_record_is_refused(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {proc_task_program(), "print", "again\n", NULL};
	proc_run_begin(&run);
	tfc_process_options options = logged(&run, argv, 100, 3);
	for (int i = 0; i < 4; i++) { /* two records of 54 bytes in each segment */
		proc_start_with(&run, &task, &options);
		proc_await_end(&run, &task);
		proc_close(&task);
	}
	static const uint64_t positions[] = {1, 53, 60, 100, 107, 110, 161};
	for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++) {
		tfc_log *log;
		tfc_log_record record = TFC_LOG_RECORD_INIT;
		tfc_error error = TFC_ERROR_INIT;
		char byte[32];
		assert_int_equal(tfc_log_open(run.dir, "t", positions[i], &error, &log), 0);
		assert_int_equal(tfc_log_next(log, &record, &error), TFC_EPARSE);
		snprintf(byte, sizeof(byte), "byte %d", (int)positions[i] % 108);
		assert_non_null(strstr(error.text, byte));
		assert_int_equal(tfc_log_next(log, &record, &error), TFC_EPARSE);
		tfc_log_close(log);
	}
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_bytes_arrive_as_they_were),
		cmocka_unit_test(streams_are_distinguished),
		cmocka_unit_test(a_task_that_closes_its_output_runs_on),
		cmocka_unit_test(a_flood_is_kept_within_bounds),
		cmocka_unit_test(an_attempt_continues_the_log_of_the_one_before),
		cmocka_unit_test(a_reader_follows_over_segments),
		cmocka_unit_test(a_rotation_goes_where_lines_end),
		cmocka_unit_test(the_tail_is_the_last_lines),
		cmocka_unit_test(a_progress_bar_is_logged_at_a_bounded_pace),
		cmocka_unit_test(a_bar_of_many_terminals_width_is_logged_at_the_same_pace),
		cmocka_unit_test(nested_bars_are_lines_where_the_outer_one_moves),
		cmocka_unit_test(the_last_state_of_a_bar_is_logged_before_the_end),
		cmocka_unit_test(damage_is_named),
		cmocka_unit_test(a_full_disk_drops_and_counts),
		cmocka_unit_test(a_reader_beside_a_full_disk_misses_no_record),
		cmocka_unit_test(what_a_full_disk_does_not_take_to_the_end_is_reported_by_the_end),
		cmocka_unit_test(a_position_within_a_record_is_refused),
	};
	return cmocka_run_group_tests_name("proc_output", tests, NULL, NULL);
}
