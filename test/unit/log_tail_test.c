/* log: the end of a log is found in its own files, among those of any number of other logs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "leaks.h"
#include "log/format.h"
#include "log/tail.h"
#include <tfcluster/memory.h>

#define LINE "a line\n"
#define RECORD (TFC__LOG_HEADER + sizeof(LINE) - 1)
#define NAME "worker-1"

static uint32_t reads;

/* In place of the C library's. */
ssize_t pread(int fd, void *buf, size_t len, off_t at)
{
	reads++;
	return syscall(SYS_pread64, fd, buf, len, at);
}

static char *path_of(const char *dir, uint64_t start)
{
	char segment[TFC__LOG_PATH_SIZE];
	tfc__log_segment_name(segment, NAME, start);
	return tfc__path_join(dir, segment);
}

/* A segment of `count` records, and `rest` bytes of another one. */
static void write_segment(const char *dir, uint64_t start, int count, size_t rest)
{
	char record[TFC__LOG_HEADER + sizeof(LINE)];
	const struct tfc__log_header header = {.time_ns = 1,
					       .stream = 'o',
					       .attempt = 1,
					       .len = strlen(LINE)};
	char *path = path_of(dir, start);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	tfc__log_header_write(record, &header);
	memcpy(record + TFC__LOG_HEADER, LINE, strlen(LINE));
	for (int i = 0; i < count; i++)
		assert_int_equal(fwrite(record, RECORD, 1, file), 1);
	assert_int_equal(fwrite(record, 1, rest, file), rest);
	fclose(file);
	free(path);
}

/* As rotation does. */
static void empty_first(const char *dir)
{
	static const struct timespec long_ago[2];
	char *path = path_of(dir, 0);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, long_ago, 0), 0);
	free(path);
}

static void expect(const char *dir, uint64_t end, uint64_t size, const char *const *lines)
{
	uint64_t newest, written_ns;
	char **tail;
	size_t count = 0;
	assert_int_equal(tfc__log_end(dir, NAME), end);
	assert_int_equal(tfc__log_newest(dir, NAME, &newest, &written_ns), 0);
	assert_int_equal(newest, size);
	assert_int_equal(tfc__log_tail(dir, NAME, 0, 0, 3, &tail), 0);
	for (; lines[count]; count++)
		assert_string_equal(tail[count], lines[count]);
	assert_null(tail[count]);
	tfc_strv_free(tail);
}

static const char *const three[] = {"a line", "a line", "a line", NULL};

/* Whether the directory itself was read since the last call. */
static bool was_scanned(int inotify)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool is_scanned = false;
	for (ssize_t len; (len = read(inotify, buf, sizeof(buf))) > 0;)
		for (ssize_t at = 0; at < len;) {
			const struct inotify_event *event = (const void *)(buf + at);
			at += (ssize_t)(sizeof(*event) + event->len);
			is_scanned |= (event->mask & IN_ISDIR) != 0;
		}
	return is_scanned;
}

static void the_end_of_a_log_is_found_without_a_scan(void **state)
{
	static const char *const one[] = {"a line", NULL};
	char dir[LEAKS_PATH];
	uint64_t written_ns, end;
	leaks_make_dir(dir);
	int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	assert_true(inotify >= 0 && inotify_add_watch(inotify, dir, IN_ACCESS) >= 0);
	assert_int_equal(tfc__log_end(dir, NAME), 0);
	assert_int_equal(tfc__log_newest(dir, NAME, &end, &written_ns), -1);
	write_segment(dir, 0, 1, 0);
	expect(dir, RECORD, RECORD, one);
	write_segment(dir, 0, 10, 0);
	expect(dir, 10 * RECORD, 10 * RECORD, three);
	write_segment(dir, 10 * RECORD, 5, 0);
	write_segment(dir, 15 * RECORD, 4, 0);
	assert_int_equal(tfc__log_end(dir, NAME), 19 * RECORD);
	assert_int_equal(tfc__log_newest(dir, NAME, &end, &written_ns), 0);
	assert_int_equal(end, 19 * RECORD);
	assert_false(was_scanned(inotify));
	close(inotify);
	tfc__remove_tree(dir);
}

static void after_a_rotation_too(void **state)
{
	char dir[LEAKS_PATH];
	leaks_make_dir(dir);
	write_segment(dir, 0, 10, 7); /* a crash has left a part of a record */
	expect(dir, 10 * RECORD, 10 * RECORD + 7, three);
	write_segment(dir, 10 * RECORD, 5, 0);
	write_segment(dir, 15 * RECORD, 4, 0);
	expect(dir, 19 * RECORD, 19 * RECORD, three);
	empty_first(dir);
	expect(dir, 19 * RECORD, 19 * RECORD, three);
	char *second = path_of(dir, 10 * RECORD);
	assert_int_equal(unlink(second), 0);
	free(second);
	expect(dir, 19 * RECORD, 19 * RECORD, three);
	write_segment(dir, 19 * RECORD, 0, 0); /* the newest has just begun */
	expect(dir, 19 * RECORD, 19 * RECORD, three);
	tfc__remove_tree(dir);
}

static void a_tail_has_no_reports(void **state)
{
	static const char report[] = "a report\n";
	char dir[LEAKS_PATH], record[TFC__LOG_HEADER];
	struct tfc__log_header header = {.time_ns = 1,
					 .stream = 'r',
					 .attempt = 1,
					 .len = strlen(report)};
	leaks_make_dir(dir);
	write_segment(dir, 0, 10, 0);
	char *path = path_of(dir, 0);
	FILE *file = fopen(path, "ae");
	assert_non_null(file);
	tfc__log_header_write(record, &header);
	for (int i = 0; i < 10; i++)
		fprintf(file, "%.*s%s", TFC__LOG_HEADER, record, report);
	fclose(file);
	free(path);
	uint64_t size = 10 * RECORD + 10 * (TFC__LOG_HEADER + strlen(report));
	expect(dir, size, size, three);
	tfc__remove_tree(dir);
}

/* It is read in chunks, not at each sign, wherever in them the header is. */
static void a_log_full_of_number_signs_takes_few_reads(void **state)
{
	static char record[TFC__LOG_RECORD_MAX];
	struct tfc__log_header header = {.time_ns = 1, .stream = 'o', .attempt = 1};
	char dir[LEAKS_PATH];
	leaks_make_dir(dir);
	char *path = path_of(dir, 0);
	for (size_t less = 0; less < 2100; less += 7) {
		header.len = TFC__LOG_PAYLOAD_MAX - less;
		size_t len = TFC__LOG_HEADER + header.len + 1;
		memset(record, '#', sizeof(record));
		tfc__log_header_write(record, &header);
		record[len - 1] = '\n';
		write_segment(dir, 0, 60, 0); /* more reads than the chunks */
		FILE *file = fopen(path, "ae");
		assert_non_null(file);
		assert_int_equal(fwrite(record, len, 1, file), 1);
		fclose(file);
		reads = 0;
		assert_int_equal(tfc__log_end(dir, NAME), 60 * RECORD + len);
		assert_in_range(reads, 1, TFC__LOG_RECORD_MAX / 2048 + 3);
	}
	free(path);
	tfc__remove_tree(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_end_of_a_log_is_found_without_a_scan),
		cmocka_unit_test(after_a_rotation_too),
		cmocka_unit_test(a_tail_has_no_reports),
		cmocka_unit_test(a_log_full_of_number_signs_takes_few_reads),
	};
	return cmocka_run_group_tests_name("log_tail", tests, NULL, NULL);
}
