#include "log/tail.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/strv.h"
#include "log/format.h"
#include "log/overwrite.h"
#include <tfcluster/log.h>

#define TAIL_BYTES (UINT64_C(512) << 10) /* of a segment that are read for a tail */

static int log_open_newest(const char *dir, const char *name, struct tfc__log_segment *ret_newest)
{
	int fd = tfc__is_log_name(name) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd < 0)
		return -1;
	int error = tfc__log_open_newest(fd, name, O_RDONLY, ret_newest);
	close(fd);
	return error ? -1 : 0;
}

int tfc__log_newest(const char *dir, const char *name, uint64_t *ret_end, uint64_t *ret_written_ns)
{
	struct tfc__log_segment newest;
	struct stat status;
	if (log_open_newest(dir, name, &newest) < 0)
		return -1;
	int code = fstat(newest.fd, &status);
	close(newest.fd);
	if (code < 0)
		return -1;
	*ret_end = newest.start + newest.size;
	*ret_written_ns = (uint64_t)status.st_mtim.tv_sec * TFC__SECOND +
			  (uint64_t)status.st_mtim.tv_nsec;
	return 0;
}

uint64_t tfc__log_end(const char *dir, const char *name)
{
	struct tfc__log_segment newest;
	if (log_open_newest(dir, name, &newest) < 0)
		return 0;
	close(newest.fd);
	return newest.start + newest.whole;
}

/* ---- the last lines */

/* Collects lines as they are completed, per stream; a ring keeps the last `limit` lines. */
struct tail {
	char **ring;
	uint64_t count;
	uint32_t limit;
	bool is_failed;
	struct tfc__buf partial[2];
};

static void tail_finish_line(struct tail *tail, struct tfc__buf *line)
{
	size_t len = tfc__line_trimmed(line->data, line->len);
	size_t begin = tfc__line_overwritten(line->data, len);
	char *text = tfc__buf_steal(line);
	if (!text) {
		tail->is_failed = true;
		return;
	}
	len -= begin;
	memmove(text, text + begin, len);
	text[len] = '\0';
	for (char *nul = text; (nul = memchr(nul, '\0', (size_t)(text + len - nul)));)
		*nul = ' ';
	char **slot = &tail->ring[tail->count++ % tail->limit];
	free(*slot);
	*slot = text;
}

static void tail_add_record(struct tail *tail, const tfc_log_record *record)
{
	struct tfc__buf *line = &tail->partial[record->stream == TFC_STREAM_STDERR];
	const char *at = record->data, *end = record->data + record->len;
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		tfc__buf_add(line, at, (size_t)((newline ? newline : end) - at));
		if (!newline)
			return;
		tail_finish_line(tail, line);
		at = newline + 1;
	}
}

/* Whether a record begins at `at` and a chain of records follows it to the end of the block. */
static bool is_record_chain(const char *block, size_t len, size_t at)
{
	struct tfc__log_header header;
	bool is_record = false;
	while (at + TFC__LOG_HEADER <= len) {
		if (!tfc__log_header_read(block + at, &header))
			return false;
		is_record = true;
		at += TFC__LOG_HEADER;
		if (header.stream == 'g')
			continue;
		if (header.len > len - at)
			break;
		at += (size_t)header.len;
		if (block[at - 1] != '\n')
			at++;
	}
	return is_record;
}

/*
 * The position of the first record within the last TAIL_BYTES of a segment, or `start` when it is
 * smaller or has no record there. For a tail those bytes are enough, however large the log is.
 */
static uint64_t tail_start_in_segment(int dir_fd, const char *name, uint64_t start, uint64_t size)
{
	char path[TFC__LOG_PATH_SIZE];
	if (size <= TAIL_BYTES)
		return start;
	tfc__log_segment_name(path, name, start);
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char *block = fd < 0 ? NULL : malloc(TAIL_BYTES);
	uint64_t found = start;
	ssize_t len = block ? pread(fd, block, TAIL_BYTES, (off_t)(size - TAIL_BYTES)) : -1;
	const char *newline = len > 0 ? memchr(block, '\n', (size_t)len) : NULL;
	while (newline && found == start) {
		size_t at = (size_t)(newline - block) + 1;
		if (is_record_chain(block, (size_t)len, at))
			found = start + size - TAIL_BYTES + at;
		newline = memchr(block + at, '\n', (size_t)len - at);
	}
	free(block);
	if (fd >= 0)
		close(fd);
	return found;
}

/* If the newest segment has just begun, the tail starts in the segment before it. */
static uint64_t tail_start(const char *dir, const char *name)
{
	struct tfc__log_segments segments;
	struct tfc__log_segment newest;
	if (log_open_newest(dir, name, &newest) < 0)
		return 0;
	close(newest.fd);
	uint64_t start = newest.start;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return start;
	uint64_t from = tail_start_in_segment(fd, name, start, newest.size);
	if (from == start && start > 0 && tfc__log_scan(fd, name, start - 1, &segments) == 0 &&
	    segments.at_or_before != UINT64_MAX)
		from = tail_start_in_segment(fd, name, segments.at_or_before,
					     start - segments.at_or_before);
	close(fd);
	return from;
}

int tfc__log_tail(const char *dir, const char *name, uint32_t attempt, uint32_t stream,
		  uint32_t lines, char ***ret_lines)
{
	tfc_log *log;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	struct tail tail = {.limit = lines ? lines : 1};
	struct tfc__strv found = {0};
	int code = tfc_log_open(dir, name, tail_start(dir, name), NULL, &log);
	if (code < 0)
		return code;
	tail.ring = calloc(tail.limit, sizeof(char *));
	tail.is_failed = !tail.ring;
	while (!tail.is_failed && (code = tfc_log_next(log, &record, NULL)) > 0)
		if ((record.stream == TFC_STREAM_STDOUT || record.stream == TFC_STREAM_STDERR) &&
		    (!attempt || record.attempt == attempt) && (!stream || record.stream == stream))
			tail_add_record(&tail, &record);
	tfc_log_close(log);
	tail.is_failed |= code == TFC_ENOMEM;
	for (int i = 0; i < 2 && !tail.is_failed; i++)
		if (tail.partial[i].len)
			tail_finish_line(&tail, &tail.partial[i]);

	uint64_t first = tail.count > tail.limit ? tail.count - tail.limit : 0;
	for (uint64_t i = first; i < tail.count; i++)
		tfc__strv_add(&found, tail.ring[i % tail.limit]);
	char **items = tail.is_failed ? NULL : tfc__strv_steal(&found);
	if (items)
		*ret_lines = items;
	tfc__strv_fini(&found);
	for (uint32_t i = 0; tail.ring && i < tail.limit; i++)
		free(tail.ring[i]);
	free(tail.ring);
	tfc__buf_fini(&tail.partial[0]);
	tfc__buf_fini(&tail.partial[1]);
	return items ? TFC_OK : TFC_ENOMEM;
}
