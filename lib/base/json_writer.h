/*
 * Writes JSON into a buffer, and the separators between values. The caller writes what is valid:
 * in an object, each value after its name.
 */
#ifndef TFC_BASE_JSON_WRITER_H
#define TFC_BASE_JSON_WRITER_H

#include <stdint.h>

#include "base/buf.h"

enum tfc__json_position {
	TFC__JSON_FIRST = 0,   /* at the start of the text, an object or a list */
	TFC__JSON_AFTER_NAME,  /* of a member */
	TFC__JSON_AFTER_VALUE, /* in an object or a list */
};

/* A zeroed writer is ready for one value. A failed allocation sets buf.is_failed. */
struct tfc__json_writer {
	struct tfc__buf buf;
	bool is_spaced; /* write ", " and ": " in place of "," and ":" */
	enum tfc__json_position position;
	uint32_t block_depth; /* open objects that have each member on a line */
	uint32_t depth;       /* open objects and lists in these */
};

/* Open and close an object, '{' and '}', or a list, '[' and ']'. */
void tfc__json_begin(struct tfc__json_writer *json, char bracket);
void tfc__json_end(struct tfc__json_writer *json, char bracket);

/* Opens an object that has each member on a line, indented. It may only be in another one. */
void tfc__json_begin_block(struct tfc__json_writer *json);

/* The name of a member; as a string, see tfc__json_bytes. */
void tfc__json_name(struct tfc__json_writer *json, const char *name);
void tfc__json_name_bytes(struct tfc__json_writer *json, const char *name, size_t len);

void tfc__json_null(struct tfc__json_writer *json);
void tfc__json_bool(struct tfc__json_writer *json, bool value);
void tfc__json_int(struct tfc__json_writer *json, int64_t value);
void tfc__json_uint(struct tfc__json_writer *json, uint64_t value);
/* The shortest form that is read as the same number; whole numbers without a fraction. */
void tfc__json_real(struct tfc__json_writer *json, double value);

/* A string of arbitrary bytes, without loss: a byte that is not UTF-8 becomes the four characters
 * "\xNN". */
void tfc__json_bytes(struct tfc__json_writer *json, const char *data, size_t len);
void tfc__json_text(struct tfc__json_writer *json, const char *text); /* NULL is null */
/* A string of at most 255 bytes. */
void tfc__json_textf(struct tfc__json_writer *json, const char *format, ...) TFC_PRINTF(2, 3);
/* A time of CLOCK_REALTIME as a string, RFC 3339 in UTC. */
void tfc__json_time(struct tfc__json_writer *json, uint64_t time_ns);

/* JSON that is written already: a value, or members or items without their brackets. */
void tfc__json_raw(struct tfc__json_writer *json, const char *text, size_t len);

#endif
