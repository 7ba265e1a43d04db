/* log: a reader that has no memory says so; the next call finds what that one could not read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "failing_malloc.h"
#include "leaks.h"
#include "log/format.h"
#include "log/tail.h"
#include "proc/proc.h"
#include <tfcluster/log.h>
#include <tfcluster/memory.h>

#define RECORDS 3 /* in each of two segments */

static char dir[LEAKS_PATH];

/* One segment of lines, as a shim writes them; returns where the next begins. */
static uint64_t write_segment(uint64_t position)
{
	static const char line[] = "a line\n";
	char name[TFC__LOG_PATH_SIZE], header[TFC__LOG_HEADER];
	const struct tfc__log_header fields = {.time_ns = 1,
					       .stream = 'o',
					       .attempt = 1,
					       .len = sizeof(line) - 1};
	tfc__log_segment_name(name, "task", position);
	char *path = tfc__path_join(dir, name);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	tfc__log_header_write(header, &fields);
	for (int i = 0; i < RECORDS; i++) {
		assert_int_equal(fwrite(header, 1, sizeof(header), file), sizeof(header));
		assert_true(fputs(line, file) >= 0);
		position += sizeof(header) + sizeof(line) - 1;
	}
	fclose(file);
	free(path);
	return position;
}

static int read_all(void)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	tfc_log *log = NULL;
	int records = 0, code, failures = 0;
	SWEPT(tfc_log_open);
	SWEPT(tfc_log_next);
	code = failing_said(tfc_log_open(dir, "task", 0, &error, &log), &error);
	assert_true(code == TFC_OK || !log);
	if (code < 0)
		return code;
	while ((code = tfc_log_next(log, &record, &error)) > 0 || (code < 0 && !failures++)) {
		failing_said(code, &error);
		records += code > 0;
	}
	/* A failure passes over nothing: the record comes with the next call that works. */
	assert_true(code < 0 || records == 2 * RECORDS);
	tfc_log_close(log);
	return code < 0 || failures ? TFC_ENOMEM : TFC_OK;
}

static int read_tail(void)
{
	char **lines = NULL;
	int code = tfc__log_tail(dir, "task", 0, 0, 2, &lines);
	assert_true(code == TFC_OK ? lines && lines[0] && lines[1] && !lines[2] : !lines);
	tfc_strv_free(lines);
	return code;
}

static void a_log_is_read_whole_or_the_failure_is_reported(void **state)
{
	leaks_make_dir(dir);
	write_segment(write_segment(0));
	failing_sweep(read_all, 1);
	failing_sweep(read_tail, 2);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_is_read_whole_or_the_failure_is_reported),
	};
	return cmocka_run_group_tests_name("log_nomem", tests, NULL, NULL);
}
