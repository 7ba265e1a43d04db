/*
 * The log of a task's output. The task's shim writes it; any program that may read the files can
 * read it.
 *
 * A log is a sequence of segment files NAME.OFFSET.log in one directory. OFFSET, 16 hex digits, is
 * the log position of the segment's first byte. Log positions count the bytes of the log. They grow
 * over rotations and attempts, and never repeat: a reader can be opened where another one ended. A
 * record is a header line of fixed width and the bytes that the task wrote
 * (doc/internals/log-format.md).
 *
 * When the disk is full, output is dropped, and a gap record has the number of missing bytes. If an
 * attempt ends before the disk has room for the gap record, tfc_process_event.log_gap and
 * subscriptions report the missing bytes.
 *
 * A reader has at most one descriptor and one buffer, and needs no context. Thread: one at a time
 * per reader.
 */
#ifndef TFCLUSTER_LOG_H
#define TFCLUSTER_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tfc_log tfc_log;

enum tfc_stream {
	TFC_STREAM_STDOUT = 1,
	TFC_STREAM_STDERR = 2,
	/* `len` bytes are missing here: of output, because the disk was full; or of the log,
	 * because they were rotated away. data is NULL */
	TFC_STREAM_GAP = 3,
	/* The reports of a process with tfc_process_options.has_reports. */
	TFC_STREAM_REPORT = 4,
};

/* One record. `data` is borrowed: valid until the next call on the reader. */
typedef struct tfc_log_record {
	uint32_t size;
	uint32_t stream;   /* enum tfc_stream */
	uint64_t time_ns;  /* when the shim read it, CLOCK_REALTIME; 0: a gap of rotation */
	uint64_t position; /* where the record begins */
	uint64_t next;     /* position after it: a reader opened there continues */
	const char *data;  /* len bytes, not terminated; NULL for a gap */
	uint64_t len;      /* bytes of data; of a gap: bytes missing */
	uint32_t attempt;  /* tfc_process_options.attempt of the writer; 0: a gap of rotation */
	uint32_t reserved; /* 0 */
} tfc_log_record;

#define TFC_LOG_RECORD_INIT                                    \
	{                                                      \
		sizeof(tfc_log_record), 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_log_record_init(tfc_log_record *record, uint32_t size);

/**
 * Opens a reader on log `name` in directory `dir` at `position` (0: the oldest there is). The log
 * need not exist yet. The caller owns *ret_log.
 * Errors: TFC_EINVAL, TFC_ENOMEM; TFC_ENOENT and TFC_EACCES when the directory cannot be read.
 */
TFC_API int tfc_log_open(const char *dir, const char *name, uint64_t position, tfc_error *error,
			 tfc_log **ret_log);

/**
 * Reads the next record into *record, whose `size` the host has set (TFC_LOG_RECORD_INIT). Returns
 * 1, or 0 when there is no record yet: call again when the log has grown. A position that was
 * rotated away yields a TFC_STREAM_GAP first. On failure the reader stays where it is. Errors:
 * TFC_EINVAL (`size` is not set), TFC_EPARSE (damaged, or opened at a position within a record; the
 * text names file and offset), TFC_ESYS, TFC_ENOMEM.
 */
TFC_API int tfc_log_next(tfc_log *log, tfc_log_record *record, tfc_error *error);

/** Returns the position after the last record that tfc_log_next returned. Errors: none. */
TFC_API uint64_t tfc_log_position(const tfc_log *log);

/** Closes a reader. NULL is a no-op. */
TFC_API void tfc_log_close(tfc_log *log);

#ifdef __cplusplus
}
#endif
#endif
