#include "log/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/*
 * How much longer a segment may get, plus a 32nd of its size, while it waits for the ends of lines.
 */
#define LINE_WAIT_BYTES (2 * TFC__LOG_PAYLOAD_MAX)

static bool is_full_disk(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EIO || error == EFBIG;
}

static int writer_open_segment(struct tfc__log_writer *writer, uint64_t position, int flags)
{
	char path[TFC__LOG_PATH_SIZE];
	tfc__log_segment_name(path, writer->name, position);
	int fd = openat(writer->dir_fd, path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags,
			0600);
	if (fd < 0)
		return errno;
	writer->fd = fd;
	writer->segment = position;
	return 0;
}

static int writer_continue_newest(struct tfc__log_writer *writer)
{
	struct tfc__log_segment newest;
	int error = tfc__log_open_newest(writer->dir_fd, writer->name, O_RDWR | O_APPEND, &newest);
	if (error)
		return error;
	writer->fd = newest.fd;
	writer->segment = newest.start;
	if (newest.whole < newest.size && ftruncate(newest.fd, (off_t)newest.whole) < 0)
		return errno;
	writer->position = newest.start + newest.whole;
	return 0;
}

int tfc__log_writer_open(struct tfc__log_writer *writer, const char *dir)
{
	writer->fd = -1;
	writer->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (writer->dir_fd < 0)
		return errno;
	/*
	 * Rotation empties the segment at 0 and never removes it, so its absence means a new log.
	 */
	int error = writer_open_segment(writer, 0, O_CREAT | O_EXCL);
	if (error == EEXIST)
		error = writer_continue_newest(writer);
	return is_full_disk(error) ? 0 : error;
}

/*
 * The segment at 0 is emptied, not removed: see tfc__log_writer_open. The mtime 0 distinguishes it
 * from a new segment for readers, whatever steps the clock makes.
 */
static void writer_remove_oldest(struct tfc__log_writer *writer)
{
	static const struct timespec long_ago[2];
	struct tfc__log_segments segments;
	struct stat status;
	char path[TFC__LOG_PATH_SIZE];
	for (;;) {
		if (tfc__log_scan(writer->dir_fd, writer->name, 0, &segments))
			return;
		tfc__log_segment_name(path, writer->name, 0);
		bool is_first_empty = fstatat(writer->dir_fd, path, &status, AT_SYMLINK_NOFOLLOW) ==
					      0 &&
				      status.st_size == 0;
		if (segments.count - is_first_empty <= writer->segments)
			return;
		if (is_first_empty) {
			tfc__log_segment_name(path, writer->name, segments.after);
			if (unlinkat(writer->dir_fd, path, 0) < 0)
				return;
			continue;
		}
		int fd = openat(writer->dir_fd, path,
				O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0)
			return;
		futimens(fd, long_ago);
		close(fd);
	}
}

/* How many streams have a line that has not ended. */
static uint32_t writer_lines_mid(const struct tfc__log_writer *writer)
{
	uint32_t count = 0;
	for (size_t i = 0; i < TFC__LOG_STREAMS; i++)
		count += writer->is_mid_line[i];
	return count;
}

static bool writer_segment_is_full(const struct tfc__log_writer *writer)
{
	return writer->position - writer->segment >= writer->segment_bytes;
}

/*
 * Whether the disk has room for the next `size` bytes of the segment. A file system that cannot
 * reserve has room until a write fails.
 */
static bool writer_reserve(struct tfc__log_writer *writer, size_t size)
{
	off_t end = (off_t)(writer->position - writer->segment);
	if (fallocate(writer->fd, FALLOC_FL_KEEP_SIZE, end, (off_t)size) == 0 ||
	    !is_full_disk(errno))
		return true;
	writer->error = errno;
	return false;
}

/*
 * Writes the gap record, if any, and the record behind it, if any. All or nothing: a partial write
 * is cut off again. Readers do not see an incomplete record, but they would see the gap in front of
 * it, hence the reservation. A gap is written together with the next record and not alone: on a
 * disk that stays full, the little room at the end of the last block is kept for the last gap.
 */
static bool writer_write_records(struct tfc__log_writer *writer, const char *gap,
				 const char *record, size_t record_size)
{
	struct iovec parts[2] = {{(void *)gap, gap ? TFC__LOG_HEADER : 0},
				 {(void *)record, record_size}};
	size_t size = parts[0].iov_len + record_size;
	if (writer->fd < 0) {
		int error = writer_open_segment(writer, writer->position, O_CREAT);
		if (error) {
			writer->error = error;
			return false;
		}
	}
	/* A full segment waits for the ends of lines, but not without limit. */
	uint64_t wait = LINE_WAIT_BYTES + writer->segment_bytes / 32;
	bool is_overdue = writer->position - writer->segment >= writer->segment_bytes + wait;
	if (writer_segment_is_full(writer) && (!writer_lines_mid(writer) || is_overdue)) {
		int old = writer->fd;
		/* On failure the old segment is kept; the next record tries again. */
		if (writer_open_segment(writer, writer->position, O_CREAT | O_EXCL) == 0) {
			close(old);
			writer_remove_oldest(writer);
		}
	}
	if (gap && !writer_reserve(writer, size))
		return false;
	ssize_t written;
	do
		written = writev(writer->fd, parts, 2);
	while (written < 0 && errno == EINTR);
	if (written == (ssize_t)size) {
		writer->position += size;
		return true;
	}
	writer->error = written < 0 ? errno : ENOSPC;
	if (written > 0 && ftruncate(writer->fd, (off_t)(writer->position - writer->segment)) < 0) {
		/* Readers stop at the damage; the next attempt's shim cuts it off. */
		close(writer->fd);
		writer->fd = -1;
	}
	return false;
}

/*
 * Writes the record after a gap record for what was dropped before it. Size 0: the gap record
 * alone.
 */
static bool writer_write_after_gap(struct tfc__log_writer *writer, const char *record, size_t size)
{
	char gap[TFC__LOG_HEADER];
	struct tfc__log_header header = {tfc__wall(), 'g', writer->attempt, writer->gap};
	if (header.len > TFC__LOG_LENGTH_MAX)
		header.len = TFC__LOG_LENGTH_MAX;
	tfc__log_header_write(gap, &header);
	if (!writer_write_records(writer, writer->gap ? gap : NULL, record, size))
		return false;
	writer->gap = 0;
	return true;
}

static bool *writer_mid_line(struct tfc__log_writer *writer, char stream)
{
	return &writer->is_mid_line[stream == 'o' ? 0 : stream == 'e' ? 1 : 2];
}

static void writer_append_record(struct tfc__log_writer *writer, char *record, size_t len,
				 char stream)
{
	struct tfc__log_header header = {tfc__wall(), stream, writer->attempt, len};
	size_t size = TFC__LOG_HEADER + len;
	bool ends_line = record[size - 1] == '\n';
	tfc__log_header_write(record, &header);
	if (!ends_line)
		record[size++] = '\n';
	if (!writer_write_after_gap(writer, record, size)) {
		writer->gap += len;
		writer->dropped += len;
		for (size_t i = 0; i < len; i++)
			writer->dropped_lines += record[TFC__LOG_HEADER + i] == '\n';
	}
	*writer_mid_line(writer, stream) = !ends_line;
}

void tfc__log_append(struct tfc__log_writer *writer, char *record, size_t len, char stream)
{
	/* If the line that these bytes complete is all that keeps a full segment from rotation, its
	 * end is written first and the rest goes into the next segment. */
	const char *payload = record + TFC__LOG_HEADER, *newline = NULL;
	if (writer_segment_is_full(writer) && *writer_mid_line(writer, stream) &&
	    writer_lines_mid(writer) == 1)
		newline = memchr(payload, '\n', len);
	size_t head = newline ? (size_t)(newline - payload) + 1 : 0;
	if (head && head < len) {
		writer_append_record(writer, record, head, stream);
		record += head; /* the next header overwrites bytes that have been written */
		len -= head;
	}
	writer_append_record(writer, record, len, stream);
}

void tfc__log_writer_close(struct tfc__log_writer *writer)
{
	if (writer->gap)
		writer_write_after_gap(writer, NULL, 0);
	if (writer->fd >= 0)
		close(writer->fd);
	if (writer->dir_fd >= 0)
		close(writer->dir_fd);
	writer->fd = writer->dir_fd = -1;
}
