/* proc: the files of a log, as a crash or somebody's hand may have left them. Readers return only
 * what is in the files, in order, and come to an end; the next attempt can go on writing. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strv.h"
#include "fuzz.h"
#include "log/tail.h"
#include "log/writer.h"
#include "proc/proc.h"
#include <tfcluster/log.h>
#include <tfcluster/memory.h>

#define SEGMENTS_MAX 4

static void path_of(uint64_t position, char *ret_path, size_t size)
{
	char name[TFC__LOG_PATH_SIZE];
	tfc__log_segment_name(name, "task", position);
	snprintf(ret_path, size, "%s/%s", fuzz_dir(), name);
}

static void empty_dir(void)
{
	int fd = open(fuzz_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0 && tfc__empty_dir(fd) == 0);
}

struct segment {
	uint64_t position;
	const uint8_t *data;
	size_t len;
};

static size_t write_segments(struct fuzz_input *input, struct segment *segments)
{
	size_t count = 1 + fuzz_number(input, 1) % SEGMENTS_MAX;
	uint64_t position = fuzz_number(input, 1) % 2 ? fuzz_number(input, 4) : 0;
	char path[512];
	for (size_t i = 0; i < count; i++) {
		size_t len = i + 1 < count ? (size_t)fuzz_number(input, 2) : input->len;
		segments[i].position = position;
		segments[i].data = fuzz_bytes(input, len, &segments[i].len);
		path_of(position, path, sizeof(path));
		fuzz_write(path, segments[i].data, segments[i].len);
		position += segments[i].len + 1 + (i % 2 ? 50 : (uint64_t)-1);
	}
	return count;
}

/* The record's bytes stand in a file at its position. */
static void check_record(const tfc_log_record *record, const struct segment *segments, size_t count)
{
	char text[TFC__LOG_HEADER];
	struct tfc__log_header header;
	for (size_t i = 0; i < count; i++) {
		const struct segment *segment = &segments[i];
		uint64_t at = record->position - segment->position;
		if (record->position < segment->position || at + TFC__LOG_HEADER > segment->len)
			continue;
		if (!tfc__log_header_read((const char *)segment->data + at, &header))
			continue;
		tfc__log_header_write(text, &header);
		CHECK(memcmp(text, segment->data + at, sizeof(text)) == 0);
		if (header.len == record->len &&
		    at + TFC__LOG_HEADER + record->len <= segment->len &&
		    memcmp(segment->data + at + TFC__LOG_HEADER, record->data, record->len) == 0)
			return;
	}
	CHECK(!"what was read is not in the files");
}

static void read_all(uint64_t position, const struct segment *segments, size_t count, size_t bytes)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_log *log = NULL;
	int code;
	size_t records = 0;
	CHECK(tfc_log_open(fuzz_dir(), "task", position, &error, &log) == TFC_OK);
	for (;;) {
		tfc_log_record record = TFC_LOG_RECORD_INIT;
		code = tfc_log_next(log, &record, &error);
		if (code != 1)
			break;
		CHECK(++records <= bytes / TFC__LOG_HEADER + count);
		CHECK(record.position >= position);
		CHECK(record.next > record.position);
		CHECK(tfc_log_position(log) == record.next);
		if (record.stream == TFC_STREAM_GAP)
			CHECK(!record.data);
		else if (count)
			check_record(&record, segments, count);
		position = record.next;
	}
	if (code < 0) {
		CHECK(code == TFC_EPARSE);
		fuzz_check_error(code, &error);
	}
	tfc_log_close(log);
}

static void check_tail(void)
{
	char **lines = NULL;
	for (uint32_t attempt = 0; attempt < 2; attempt++) {
		int code = tfc__log_tail(fuzz_dir(), "task", attempt, 0, 3, &lines);
		if (code < 0) {
			CHECK(code == TFC_EPARSE);
			continue;
		}
		for (size_t i = 0; lines[i]; i++)
			CHECK(i < 3 && !strchr(lines[i], '\n'));
		tfc_strv_free(lines);
	}
}

/* A new attempt goes on behind the last whole record; what it writes can be read. */
static void check_next_attempt(void)
{
	char record[TFC__LOG_HEADER + 8];
	struct tfc__log_writer writer = {.name = "task",
					 .segment_bytes = 1 << 20,
					 .segments = 8,
					 .attempt = 9};
	tfc_error error = TFC_ERROR_INIT;
	tfc_log *log = NULL;
	tfc_log_record read = TFC_LOG_RECORD_INIT;
	CHECK(tfc__log_writer_open(&writer, fuzz_dir()) == 0);
	uint64_t position = writer.position;
	memcpy(record + TFC__LOG_HEADER, "again\n", 6);
	tfc__log_append(&writer, record, 6, 'o');
	CHECK(writer.dropped == 0);
	tfc__log_writer_close(&writer);
	CHECK(tfc_log_open(fuzz_dir(), "task", position, &error, &log) == TFC_OK);
	CHECK(tfc_log_next(log, &read, &error) == 1);
	CHECK(read.attempt == 9 && read.len == 6 && memcmp(read.data, "again\n", 6) == 0);
	tfc_log_close(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct segment segments[SEGMENTS_MAX];
	empty_dir();
	uint64_t from = fuzz_number(&input, 2);
	size_t count = write_segments(&input, segments);
	read_all(0, segments, count, size);
	read_all(from, segments, count, size);
	check_tail();
	CHECK(tfc__log_end(fuzz_dir(), "task") != UINT64_MAX);
	check_next_attempt();
	return 0;
}
