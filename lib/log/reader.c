#include <tfcluster/log.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/options.h"
#include "log/format.h"

#define CHUNK (2 * TFC__LOG_RECORD_MAX)

struct tfc_log {
	int dir_fd;
	int fd; /* the current segment, or -1 */
	uint64_t segment;
	uint64_t position;
	bool is_sought; /* false until the first record or gap: `position` is the caller's */
	size_t begin;   /* `chunk` holds bytes from `begin` to `end`; `begin` is at `position` */
	size_t end;
	char name[TFC__LOG_NAME_MAX + 1];
	char chunk[CHUNK];
};

int tfc_log_open(const char *dir, const char *name, uint64_t position, tfc_error *error,
		 tfc_log **ret_log)
{
	if (!dir || !name || !ret_log || !tfc__is_log_name(name))
		return tfc__fail(error, TFC_EINVAL, "log", 0,
				 "directory or name of the log is missing or not valid; a name has "
				 "1 to %d bytes, no slash and no dot at its start",
				 TFC__LOG_NAME_MAX);
	tfc_log *log = malloc(sizeof(*log));
	if (!log)
		return tfc__fail_nomem(error, "log");
	memset(log, 0, offsetof(tfc_log, chunk));
	log->fd = -1;
	log->position = position;
	strcpy(log->name, name);
	log->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (log->dir_fd < 0) {
		free(log);
		return tfc__fail_errno(error, "log", errno, "cannot read log directory \"%s\"",
				       dir);
	}
	*ret_log = log;
	return TFC_OK;
}

uint64_t tfc_log_position(const tfc_log *log)
{
	return log ? log->position : 0;
}

void tfc_log_close(tfc_log *log)
{
	if (!log)
		return;
	if (log->fd >= 0)
		close(log->fd);
	close(log->dir_fd);
	free(log);
}

static int reader_open_segment(tfc_log *log, uint64_t segment)
{
	char path[TFC__LOG_PATH_SIZE];
	tfc__log_segment_name(path, log->name, segment);
	/* a named pipe must not block dispatch */
	int fd = openat(log->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno;
	if (log->fd >= 0)
		close(log->fd);
	log->fd = fd;
	log->segment = segment;
	log->begin = log->end = 0;
	return 0;
}

/*
 * Whether the segment is new and empty. A segment that the writer emptied has another mtime
 * (writer.c). On a file system without birth times the answer is false.
 */
static bool segment_is_fresh(int fd)
{
	struct statx status;
	return statx(fd, "", AT_EMPTY_PATH, STATX_SIZE | STATX_MTIME | STATX_BTIME, &status) == 0 &&
	       status.stx_mask & STATX_BTIME && status.stx_size == 0 &&
	       status.stx_btime.tv_sec == status.stx_mtime.tv_sec &&
	       status.stx_btime.tv_nsec == status.stx_mtime.tv_nsec;
}

/*
 * All of a log that was not rotated is in its first segment. That saves a scan of the directory,
 * which may hold thousands of other logs. False: there is no log yet, because rotation empties the
 * first segment and never removes it.
 */
static bool reader_open_first(tfc_log *log)
{
	struct stat status;
	int failed = reader_open_segment(log, 0);
	if (failed)
		return failed != ENOENT;
	if (fstat(log->fd, &status) == 0 && status.st_size > 0 &&
	    log->position <= (uint64_t)status.st_size)
		return true;
	if (log->position == 0 && segment_is_fresh(log->fd))
		return true;
	close(log->fd);
	log->fd = -1;
	return true;
}

/*
 * There is no record at `position` in the current segment: finds the segment that has it. 1:
 * *record is a gap; 0: nothing there yet, or another segment was opened (*ret_is_open).
 */
static int reader_seek(tfc_log *log, tfc_log_record *record, tfc_error *error, bool *ret_is_open)
{
	struct tfc__log_segments segments;
	struct stat status;
	*ret_is_open = false;
	int failed = tfc__log_scan(log->dir_fd, log->name, log->position, &segments);
	if (failed)
		return tfc__fail_errno(error, "log", failed,
				       "cannot read the directory of log \"%s\"", log->name);
	if (segments.at_or_before != UINT64_MAX) {
		failed = reader_open_segment(log, segments.at_or_before);
		if (failed && failed != ENOENT)
			return tfc__fail_errno(error, "log", failed, "cannot read log \"%s\"",
					       log->name);
		if (!failed && fstat(log->fd, &status) == 0 &&
		    (log->position - log->segment < (uint64_t)status.st_size ||
		     segments.after == UINT64_MAX)) {
			*ret_is_open = true;
			return 0;
		}
	}
	if (segments.after == UINT64_MAX)
		return 0;
	if (log->position == 0 && !log->is_sought) { /* 0 means the oldest record: no gap */
		log->position = segments.after;
		*ret_is_open = reader_open_segment(log, segments.after) == 0;
		return 0;
	}
	record->stream = TFC_STREAM_GAP;
	record->attempt = 0;
	record->time_ns = 0;
	record->position = log->position;
	record->next = segments.after;
	record->data = NULL;
	record->len = segments.after - log->position;
	log->position = segments.after;
	return 1;
}

static int reader_fail_damaged(const tfc_log *log, tfc_error *error)
{
	char path[TFC__LOG_PATH_SIZE];
	tfc__log_segment_name(path, log->name, log->segment);
	return tfc__fail(error, TFC_EPARSE, "log", 0, "log file \"%s\" is damaged at byte %llu",
			 path, (unsigned long long)(log->position - log->segment));
}

/* Takes the record at `begin` out of the chunk. 1: a record; 0: the chunk has no complete one. */
static int chunk_next(tfc_log *log, tfc_log_record *record, tfc_error *error)
{
	const char *text = log->chunk + log->begin;
	size_t len = log->end - log->begin;
	struct tfc__log_header header;
	if (len < TFC__LOG_HEADER)
		return 0;
	if (!tfc__log_header_read(text, &header))
		return reader_fail_damaged(log, error);
	bool is_gap = header.stream == 'g';
	size_t size = TFC__LOG_HEADER + (is_gap ? 0 : (size_t)header.len);
	if (len < size)
		return 0;
	if (!is_gap && text[size - 1] != '\n') {
		size++;
		if (len < size)
			return 0;
		if (text[size - 1] != '\n')
			return reader_fail_damaged(log, error);
	}
	record->stream = header.stream == 'o'   ? TFC_STREAM_STDOUT
			 : header.stream == 'e' ? TFC_STREAM_STDERR
			 : header.stream == 'r' ? TFC_STREAM_REPORT
						: TFC_STREAM_GAP;
	record->attempt = header.attempt;
	record->time_ns = header.time_ns;
	record->position = log->position;
	record->next = log->position + size;
	record->data = is_gap ? NULL : text + TFC__LOG_HEADER;
	record->len = header.len;
	log->begin += size;
	log->position += size;
	return 1;
}

/*
 * 1: a record; 0: no complete record here. What the chunk has of an incomplete record is read
 * again, with its end: on a full disk the writer cuts it off and writes another record in its
 * place.
 */
static int reader_read_record(tfc_log *log, tfc_log_record *record, tfc_error *error)
{
	ssize_t len;
	if (log->fd < 0)
		return 0;
	if (log->begin < log->end && chunk_next(log, record, NULL) == 1)
		return 1;
	do
		len = pread(log->fd, log->chunk, CHUNK, (off_t)(log->position - log->segment));
	while (len < 0 && errno == EINTR);
	log->begin = 0;
	log->end = len > 0 ? (size_t)len : 0;
	return chunk_next(log, record, error);
}

/*
 * Whether nothing more is written to this segment: it was removed or emptied, or another one
 * follows.
 */
static bool reader_segment_is_finished(const tfc_log *log)
{
	struct stat status;
	char path[TFC__LOG_PATH_SIZE];
	if (log->fd < 0 || fstat(log->fd, &status) < 0 || status.st_nlink == 0 ||
	    (uint64_t)status.st_size < log->position - log->segment)
		return true;
	if (log->position == log->segment)
		return log->segment == 0 && !segment_is_fresh(log->fd); /* may have been emptied */
	tfc__log_segment_name(path, log->name, log->position);
	return faccessat(log->dir_fd, path, F_OK, 0) == 0;
}

/*
 * Remaining bytes that are not a complete record. In the newest segment the rest of the record may
 * follow. In an older one it does not: the position lies within a record, or the file is damaged.
 * The writer may have added to the segment during the scan, so it is read once more.
 */
static int reader_read_incomplete(tfc_log *log, tfc_log_record *record, tfc_error *error)
{
	struct tfc__log_segments segments;
	struct stat status;
	if (log->fd < 0 || fstat(log->fd, &status) < 0 ||
	    (uint64_t)status.st_size <= log->position - log->segment ||
	    tfc__log_scan(log->dir_fd, log->name, log->position, &segments) != 0 ||
	    segments.after == UINT64_MAX || segments.at_or_before != log->segment)
		return 0;
	int code = reader_read_record(log, record, error);
	return code ? code : reader_fail_damaged(log, error);
}

int tfc_log_next(tfc_log *log, tfc_log_record *record, tfc_error *error)
{
	tfc_log_record own = TFC_LOG_RECORD_INIT;
	bool is_open;
	if (!log || !record || record->size < sizeof(record->size))
		return tfc__fail(error, TFC_EINVAL, "log", 0,
				 "log or record is NULL, or record.size is not set");
	if (log->fd < 0 && !reader_open_first(log))
		return 0;
	int code = reader_read_record(log, &own, error);
	for (int i = 0; code == 0 && i < 2 && reader_segment_is_finished(log); i++) {
		code = reader_seek(log, &own, error, &is_open);
		if (code != 0 || !is_open)
			break;
		code = reader_read_record(log, &own, error);
	}
	if (code == 0)
		code = reader_read_incomplete(log, &own, error);
	if (code == 1) {
		log->is_sought = true;
		own.size = record->size; /* the host's record may be of an older, shorter version */
		memcpy(record, &own, own.size < sizeof(own) ? own.size : sizeof(own));
	}
	return code;
}

int tfc_log_record_init(tfc_log_record *record, uint32_t size)
{
	return tfc__options_init(record, size, sizeof(*record));
}
