/*
 * The writing end of a log: one per shim. It never fails its caller: what cannot be written is
 * counted, and a gap record tells readers once there is room again.
 */
#ifndef TFC_LOG_WRITER_H
#define TFC_LOG_WRITER_H

#include "log/format.h"

struct tfc__log_writer {
	int dir_fd;        /* -1: no log, output is not even read */
	int fd;            /* newest segment, or -1 while there is no room for one */
	uint64_t segment;  /* position where it begins */
	uint64_t position; /* end of the log */
	uint64_t segment_bytes;
	uint32_t segments;
	uint32_t attempt;
	uint64_t dropped;    /* in all */
	uint64_t gap;        /* since the last record */
	bool is_mid_line[2]; /* stdout, stderr: what came last did not end its line */
	char name[TFC__LOG_NAME_MAX + 1];
};

/*
 * Continues the log at its end, cutting off a record that was torn by a crash. The other fields
 * than the descriptors and positions are set by the caller. Returns 0 or an errno; a full disk is a
 * success.
 */
int tfc__log_writer_open(struct tfc__log_writer *writer, const char *dir);

/*
 * Appends a record, or two: a rotation goes where a line ends, so that the oldest segment that is
 * left begins with whole lines. The payload lies at record + TFC__LOG_HEADER, with room for the
 * header before it and for one byte behind.
 */
void tfc__log_append(struct tfc__log_writer *writer, char *record, size_t len, char stream);

/* Tells readers what was dropped last, if there is room for that, and closes. `gap` is then what no
 * record tells of. */
void tfc__log_writer_close(struct tfc__log_writer *writer);

#endif
