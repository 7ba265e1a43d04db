/*
 * msgpack values: written directly into a buffer, read from a validated tree (msgpack-c).
 *
 * Messages and records are maps with short string keys. Unknown keys are ignored and missing keys
 * have a default value, so that different versions can communicate. Data is unpacked only after a
 * successful scan.
 */
#ifndef TFC_WIRE_MSG_H
#define TFC_WIRE_MSG_H

#include "base/buf.h"
#include "base/fail.h"
#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- writing: a failed allocation sets buf->is_failed */

void tfc__msg_map(struct tfc__buf *buf, uint32_t pairs);
void tfc__msg_array(struct tfc__buf *buf, uint32_t items);
void tfc__msg_nil(struct tfc__buf *buf);
void tfc__msg_bool(struct tfc__buf *buf, bool value);
void tfc__msg_u64(struct tfc__buf *buf, uint64_t value);
void tfc__msg_i64(struct tfc__buf *buf, int64_t value);
/* Adds text. Text that is not UTF-8 is written as binary data, which every reader of text accepts
 * as well. NULL: nil. */
void tfc__msg_str(struct tfc__buf *buf, const char *text);
void tfc__msg_text(struct tfc__buf *buf, const char *text, size_t len);
void tfc__msg_bin(struct tfc__buf *buf, const void *data, size_t len);

/* Adds a copy of a value that was read. */
void tfc__msg_object(struct tfc__buf *buf, const msgpack_object *object);

/* Adds one pair to a map, whose size was written before. */
void tfc__msg_put_bool(struct tfc__buf *buf, const char *key, bool value);
void tfc__msg_put_u64(struct tfc__buf *buf, const char *key, uint64_t value);
void tfc__msg_put_i64(struct tfc__buf *buf, const char *key, int64_t value);
void tfc__msg_put_str(struct tfc__buf *buf, const char *key, const char *text);
void tfc__msg_put_bin(struct tfc__buf *buf, const char *key, const void *data, size_t len);

/* ---- reading */

/* Limits of the scan for one value; 0: the default. */
struct tfc__msg_limits {
	uint32_t depth;   /* nesting of lists and maps: default 32, also the maximum */
	uint32_t objects; /* values in total: default 65536; a value needs about 24 bytes in the
			     tree */
};

/*
 * Checks that the data is exactly one value: nesting depth, counts against the available bytes,
 * UTF-8 of strings, no extension types. Iterative; allocates nothing. Returns TFC_OK or TFC_EPARSE.
 */
int tfc__msg_scan(const void *data, size_t len, const struct tfc__msg_limits *limits,
		  tfc_error *error);

/* A parsed value. Strings and binary data point into the data from which it was parsed. */
struct tfc__msg {
	msgpack_zone zone;
	msgpack_object root;
};

/* Scans and unpacks the data. Returns TFC_OK (release it with tfc__msg_fini), TFC_EPARSE or
 * TFC_ENOMEM. */
int tfc__msg_parse(struct tfc__msg *msg, const void *data, size_t len,
		   const struct tfc__msg_limits *limits, tfc_error *error);
void tfc__msg_fini(struct tfc__msg *msg);

/* The value of a key, or NULL when `map` is NULL, is not a map or lacks the key. */
const msgpack_object *tfc__msg_get(const msgpack_object *map, const char *key);

/* Return `otherwise` for a missing value or one of another type. */
uint64_t tfc__msg_get_u64(const msgpack_object *map, const char *key, uint64_t otherwise);
int64_t tfc__msg_get_i64(const msgpack_object *map, const char *key, int64_t otherwise);

/* Copies a string into `text`. Returns false, with an empty `text`, when the string is missing,
 * contains a NUL or does not fit. It may contain bytes that are not UTF-8. */
bool tfc__msg_get_text(const msgpack_object *map, const char *key, char *text, size_t size);

/* Binary data or a string, borrowed, not NUL-terminated; NULL when missing or of another type. */
const void *tfc__msg_bytes(const msgpack_object *value, size_t *ret_len); /* NULL: missing */
const void *tfc__msg_get_bin(const msgpack_object *map, const char *key, size_t *ret_len);

/* The items of a list; 0 and NULL when the list is missing. */
uint32_t tfc__msg_get_array(const msgpack_object *map, const char *key,
			    const msgpack_object **ret_items);

/*
 * Encode an error as {"code", "errno", "room", "text"}, and decode it. A decoded code is always
 * below 0; it is TFC_EPARSE when the value is not an error. A component that this version does not
 * know becomes "remote".
 */
void tfc__msg_error(struct tfc__buf *buf, const tfc_error *error);
int tfc__msg_to_error(const msgpack_object *object, tfc_error *error);

#endif
