#include "log/format.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dir.h"

static char *header_write_digits(char *text, uint64_t value, int digits)
{
	for (int i = digits - 1; i >= 0; i--) {
		text[i] = (char)('0' + value % 10);
		value /= 10;
	}
	return text + digits;
}

void tfc__log_header_write(char *text, const struct tfc__log_header *header)
{
	*text++ = '#';
	text = header_write_digits(text, header->time_ns / 1000000000u, 10);
	*text++ = '.';
	text = header_write_digits(text, header->time_ns % 1000000000u, 9);
	*text++ = ' ';
	*text++ = header->stream;
	*text++ = ' ';
	text = header_write_digits(text, header->attempt, 10);
	*text++ = ' ';
	text = header_write_digits(text, header->len, 12);
	*text = '\n';
}

static bool header_read_digits(const char *text, int digits, uint64_t *ret_value)
{
	uint64_t value = 0;
	for (int i = 0; i < digits; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	*ret_value = value;
	return true;
}

bool tfc__log_header_read(const char *text, struct tfc__log_header *ret_header)
{
	uint64_t seconds, nanoseconds, attempt, len;
	char stream = text[22];
	if (text[0] != '#' || text[11] != '.' || text[21] != ' ' || text[23] != ' ' ||
	    text[34] != ' ' || text[47] != '\n' || !header_read_digits(text + 1, 10, &seconds) ||
	    !header_read_digits(text + 12, 9, &nanoseconds) ||
	    !header_read_digits(text + 24, 10, &attempt) ||
	    !header_read_digits(text + 35, 12, &len))
		return false;
	if (!stream || !strchr("oerg", stream) || attempt > UINT32_MAX || len == 0 ||
	    (stream != 'g' && len > TFC__LOG_PAYLOAD_MAX))
		return false;
	ret_header->time_ns = seconds * 1000000000u + nanoseconds;
	ret_header->stream = stream;
	ret_header->attempt = (uint32_t)attempt;
	ret_header->len = len;
	return true;
}

void tfc__log_segment_name(char path[TFC__LOG_PATH_SIZE], const char *name, uint64_t position)
{
	size_t len = strlen(name);
	memcpy(path, name, len);
	path += len;
	*path++ = '.';
	for (int shift = 60; shift >= 0; shift -= 4)
		*path++ = "0123456789abcdef"[position >> shift & 15];
	memcpy(path, ".log", 5);
}

static bool parse_segment_name(const char *file, const char *name, size_t name_len,
			       uint64_t *ret_position)
{
	if (strncmp(file, name, name_len) != 0 || file[name_len] != '.')
		return false;
	file += name_len + 1;
	uint64_t position = 0;
	for (int i = 0; i < 16; i++, file++) {
		static const char hex[] = "0123456789abcdef";
		const char *digit = *file ? strchr(hex, *file) : NULL;
		if (!digit)
			return false;
		position = position << 4 | (uint64_t)(digit - hex);
	}
	*ret_position = position;
	return strcmp(file, ".log") == 0;
}

static void segments_add(struct tfc__log_segments *segments, uint64_t start, uint64_t position)
{
	if (!segments->count || start < segments->oldest)
		segments->oldest = start;
	if (!segments->count || start > segments->newest)
		segments->newest = start;
	segments->count++;
	if (start <= position &&
	    (segments->at_or_before == UINT64_MAX || start > segments->at_or_before))
		segments->at_or_before = start;
	if (start > position && start < segments->after)
		segments->after = start;
}

int tfc__log_scan(int dir_fd, const char *name, uint64_t position,
		  struct tfc__log_segments *ret_segments)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	struct tfc__dir dir;
	tfc__dir_init(&dir, fd);
	struct tfc__log_segments segments = {.at_or_before = UINT64_MAX, .after = UINT64_MAX};
	size_t name_len = strlen(name);
	uint64_t start;
	for (const char *file; (file = tfc__dir_next(&dir));)
		if (parse_segment_name(file, name, name_len, &start))
			segments_add(&segments, start, position);
	close(fd);
	*ret_segments = segments;
	return 0;
}

/* ---- the newest segment */

/* The bytes of the record at `at`, or 0 when it is not complete. */
static uint64_t segment_record_size(int fd, uint64_t at, uint64_t end)
{
	struct tfc__log_header header;
	char text[TFC__LOG_HEADER], last;
	if (pread(fd, text, sizeof(text), (off_t)at) != (ssize_t)sizeof(text) ||
	    !tfc__log_header_read(text, &header))
		return 0;
	if (header.stream == 'g')
		return TFC__LOG_HEADER;
	uint64_t size = TFC__LOG_HEADER + header.len;
	if (at + size > end || pread(fd, &last, 1, (off_t)(at + size - 1)) != 1)
		return 0;
	size += last != '\n';
	return at + size <= end ? size : 0;
}

/*
 * The common case, without reading the whole segment: a record ends exactly at the end of the file.
 * Headers are checked in the chunks, which overlap by a header: what a task has written may be full
 * of '#'.
 */
static bool segment_ends_whole(int fd, uint64_t end)
{
	enum { STEP = 2048 };
	struct tfc__log_header header;
	char chunk[STEP + TFC__LOG_HEADER];
	for (uint64_t back = 0; back < TFC__LOG_RECORD_MAX && back < end; back += STEP) {
		uint64_t high = end - back;
		uint64_t start = high < STEP ? 0 : high - STEP;
		uint64_t len = end - start < sizeof(chunk) ? end - start : sizeof(chunk);
		if (pread(fd, chunk, len, (off_t)start) != (ssize_t)len)
			return false;
		for (uint64_t i = high - start; i-- > 0;)
			if (chunk[i] == '#' && i + TFC__LOG_HEADER <= len &&
			    tfc__log_header_read(chunk + i, &header) &&
			    segment_record_size(fd, start + i, end) == end - (start + i))
				return true;
	}
	return false;
}

/* Opens the segment at `start`. 0 or an errno. */
static int segment_open(int dir_fd, const char *name, uint64_t start, int flags,
			struct tfc__log_segment *ret_segment, bool *ret_is_emptied)
{
	char path[TFC__LOG_PATH_SIZE];
	struct stat status;
	tfc__log_segment_name(path, name, start);
	int fd = openat(dir_fd, path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno;
	if (fstat(fd, &status) < 0) {
		int error = errno;
		close(fd);
		return error;
	}
	uint64_t end = (uint64_t)status.st_size, whole = segment_ends_whole(fd, end) ? end : 0;
	for (uint64_t size = 1; whole < end && size; whole += size)
		size = segment_record_size(fd, whole, end);
	*ret_segment = (struct tfc__log_segment){fd, start, whole, end};
	*ret_is_emptied = start == 0 && end == 0 && status.st_mtim.tv_sec == 0;
	return 0;
}

int tfc__log_open_newest(int dir_fd, const char *name, int flags,
			 struct tfc__log_segment *ret_newest)
{
	struct tfc__log_segment newest = {.fd = -1}, next;
	struct tfc__log_segments segments;
	uint64_t start = 0;
	bool is_emptied = false;
	int error;
	while (!(error = segment_open(dir_fd, name, start, flags, &next, &is_emptied))) {
		if (newest.fd >= 0)
			close(newest.fd);
		newest = next;
		if (is_emptied)
			error = tfc__log_scan(dir_fd, name, 0, &segments);
		if (error || (newest.whole == 0 && (!is_emptied || segments.newest == 0)))
			break;
		start = is_emptied ? segments.newest : newest.start + newest.whole;
	}
	if (newest.fd >= 0 && (error == 0 || error == ENOENT)) {
		*ret_newest = newest;
		return 0;
	}
	if (newest.fd >= 0)
		close(newest.fd);
	return error;
}
