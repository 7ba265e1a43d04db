/*
 * The writing end of a log; each shim has one. Writing never fails for the caller: bytes that
 * cannot be written are counted, and a gap record reports them to readers once there is room again.
 */
#ifndef TFC_LOG_WRITER_H
#define TFC_LOG_WRITER_H

#include "log/format.h"

struct tfc__log_writer {
	int dir_fd;        /* -1: no log, and the output is not read */
	int fd;            /* newest segment, or -1 while the disk has no room for one */
	uint64_t segment;  /* position at which the segment begins */
	uint64_t position; /* end of the log */
	uint64_t segment_bytes;
	uint32_t segments;
	uint32_t attempt;
	uint64_t dropped;       /* bytes dropped in total */
	uint64_t dropped_lines; /* ends of lines among them */
	int error;              /* errno of the last write that failed */
	uint64_t gap;           /* bytes dropped since the last record */
	/* stdout, stderr, reports: the last bytes did not end their line */
	bool is_mid_line[TFC__LOG_STREAMS];
	char name[TFC__LOG_NAME_MAX + 1];
};

/*
 * Continues the log at its end and cuts off a record that a crash left incomplete. The caller sets
 * all fields except the descriptors and positions before. Returns 0 or an errno; a full disk is a
 * success.
 */
int tfc__log_writer_open(struct tfc__log_writer *writer, const char *dir);

/*
 * Appends the payload as one record, or as two: a rotation happens at the end of a line, so that
 * the oldest remaining segment begins with whole lines. The payload lies at record +
 * TFC__LOG_HEADER; the buffer has room for the header before it and for one byte behind it.
 */
void tfc__log_append(struct tfc__log_writer *writer, char *record, size_t len, char stream);

/*
 * Writes a gap record for the bytes dropped last, if there is room, and closes the log. `gap` is
 * then the number of bytes that no gap record reports.
 */
void tfc__log_writer_close(struct tfc__log_writer *writer);

#endif
