#include "log/format.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/dir.h"

static char *put_digits(char *text, uint64_t value, int digits)
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
	text = put_digits(text, header->time_ns / 1000000000u, 10);
	*text++ = '.';
	text = put_digits(text, header->time_ns % 1000000000u, 9);
	*text++ = ' ';
	*text++ = header->stream;
	*text++ = ' ';
	text = put_digits(text, header->attempt, 10);
	*text++ = ' ';
	text = put_digits(text, header->len, 12);
	*text = '\n';
}

static bool get_digits(const char *text, int digits, uint64_t *ret_value)
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
	    text[34] != ' ' || text[47] != '\n' || !get_digits(text + 1, 10, &seconds) ||
	    !get_digits(text + 12, 9, &nanoseconds) || !get_digits(text + 24, 10, &attempt) ||
	    !get_digits(text + 35, 12, &len))
		return false;
	if ((stream != 'o' && stream != 'e' && stream != 'g') || attempt > UINT32_MAX || len == 0 ||
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

static void count(struct tfc__log_segments *segments, uint64_t start, uint64_t position)
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
			count(&segments, start, position);
	close(fd);
	*ret_segments = segments;
	return 0;
}
