/*
 * msgpack values: written straight into a buffer, read from a checked tree (msgpack-c).
 *
 * Messages and records are maps with short string keys. Unknown keys are ignored, missing ones have
 * a default: that is how versions live together. Nothing is unpacked that the scan has not passed.
 */
#ifndef TFC_WIRE_MSG_H
#define TFC_WIRE_MSG_H

#include "base/buf.h"
#include "base/fail.h"
#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- writing: any failed allocation is in buf->is_failed */

void tfc__msg_map(struct tfc__buf *buf, uint32_t pairs);
void tfc__msg_array(struct tfc__buf *buf, uint32_t items);
void tfc__msg_nil(struct tfc__buf *buf);
void tfc__msg_bool(struct tfc__buf *buf, bool value);
void tfc__msg_u64(struct tfc__buf *buf, uint64_t value);
void tfc__msg_i64(struct tfc__buf *buf, int64_t value);
/* Text; what is not UTF-8 goes as bytes, which every reader of text takes as well. NULL: nil. */
void tfc__msg_str(struct tfc__buf *buf, const char *text);
void tfc__msg_text(struct tfc__buf *buf, const char *text, size_t len);
void tfc__msg_bin(struct tfc__buf *buf, const void *data, size_t len);

/* A copy of a value that was read. */
void tfc__msg_object(struct tfc__buf *buf, const msgpack_object *object);

/* A pair of a map whose size was told before. */
void tfc__msg_put_bool(struct tfc__buf *buf, const char *key, bool value);
void tfc__msg_put_u64(struct tfc__buf *buf, const char *key, uint64_t value);
void tfc__msg_put_i64(struct tfc__buf *buf, const char *key, int64_t value);
void tfc__msg_put_str(struct tfc__buf *buf, const char *key, const char *text);
void tfc__msg_put_bin(struct tfc__buf *buf, const char *key, const void *data, size_t len);

/* ---- reading */

/* What the scan allows of one value; 0: the default. */
struct tfc__msg_limits {
	uint32_t depth;   /* of lists and maps in each other: 32, which is also the most */
	uint32_t objects; /* 65536, all in all; the tree costs about 24 bytes each */
};

/* One value and nothing behind it: depth, counts against the bytes there are, UTF-8 of strings, no
 * extension types. Iterative, allocates nothing. TFC_OK or TFC_EPARSE. */
int tfc__msg_scan(const void *data, size_t len, const struct tfc__msg_limits *limits,
		  tfc_error *error);

/* A parsed value. Strings and bytes point into the data it was parsed from. */
struct tfc__msg {
	msgpack_zone zone;
	msgpack_object root;
};

/* Scans, then unpacks. TFC_OK (then tfc__msg_fini), TFC_EPARSE, TFC_ENOMEM. */
int tfc__msg_parse(struct tfc__msg *msg, const void *data, size_t len,
		   const struct tfc__msg_limits *limits, tfc_error *error);
void tfc__msg_fini(struct tfc__msg *msg);

/* The value of a key, or NULL when `map` is no map (NULL is none) or lacks it. */
const msgpack_object *tfc__msg_get(const msgpack_object *map, const char *key);

/* Of another type, or missing: the default. */
bool tfc__msg_get_bool(const msgpack_object *map, const char *key, bool otherwise);
uint64_t tfc__msg_get_u64(const msgpack_object *map, const char *key, uint64_t otherwise);
int64_t tfc__msg_get_i64(const msgpack_object *map, const char *key, int64_t otherwise);

/* A copy with a NUL, the caller's; NULL when missing, no string, or with a NUL inside. Out of
 * memory is NULL, too: callers that must tell the two look with tfc__msg_get first. It may hold
 * bytes that are not UTF-8. */
char *tfc__msg_get_str(const msgpack_object *map, const char *key);

/* Copies a string into `text`; false (and "" there) when it is missing or does not fit. */
bool tfc__msg_get_text(const msgpack_object *map, const char *key, char *text, size_t size);

/* Bytes or string, borrowed, not terminated; NULL when missing or something else. */
const void *tfc__msg_bytes(const msgpack_object *value, size_t *ret_len); /* NULL: missing */
const void *tfc__msg_get_bin(const msgpack_object *map, const char *key, size_t *ret_len);

/* Items of a list; 0 and NULL when missing. */
uint32_t tfc__msg_get_array(const msgpack_object *map, const char *key,
			    const msgpack_object **ret_items);

/* An error as a value, {"code", "errno", "room", "text"}, and back: always below 0, TFC_EPARSE
 * when it is none. A component that this version does not know is "remote". */
void tfc__msg_error(struct tfc__buf *buf, const tfc_error *error);
int tfc__msg_to_error(const msgpack_object *object, tfc_error *error);

#endif
