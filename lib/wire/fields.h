/*
 * One description of each message and record: a table of its fields, from which it is written, read
 * and shown as JSON.
 *
 * It travels as a map with the names of the fields as keys. A field that has its initial value is
 * not written, one that is missing or nil is read as its initial value, and unknown keys are
 * ignored: that is how versions live together. A value of another type, or out of range, is an
 * error that names the field.
 */
#ifndef TFC_WIRE_FIELDS_H
#define TFC_WIRE_FIELDS_H

#include "wire/msg.h"

enum tfc__field_type {
	TFC__BOOL,    /* bool or uint32_t; a number that is not 0 is read as true */
	TFC__UINT,    /* uint8_t to uint64_t, and enums */
	TFC__INT,     /* int32_t, int64_t */
	TFC__TIME,    /* uint64_t, ns of CLOCK_REALTIME; see tfc__reader */
	TFC__TEXT,    /* char[]: text that fits in, with a NUL */
	TFC__STRING,  /* const char *; NULL or "" is not written */
	TFC__LINES,   /* const char *const *: a list of texts that ends with NULL; what is behind a
			 NUL inside is cut off; NULL or empty is not written */
	TFC__BYTES,   /* const void *, and a uint64_t for their number; borrowed from the message */
	TFC__DIGEST,  /* uint8_t[]: so many bytes and no others */
	TFC__MESSAGE, /* const struct *, of the table `nested`; or NULL */
	TFC__MESSAGES, /* const struct *, of `nested`, and a uint32_t for their number */
	TFC__CUSTOM,   /* a pointer that `custom` reads and writes; NULL is not written */
};

struct tfc__reader;

/* A value that is no struct of ours. read: *ret_value was NULL or is a value that came before it;
 * whatever is there after a failure is the caller's, too. */
struct tfc__field_custom {
	void (*write)(struct tfc__buf *buf, const void *value);
	int (*read)(const msgpack_object *object, tfc_error *error, void **ret_value);
};

struct tfc__field {
	const char *name; /* on the wire; NULL: of the JSON alone */
	enum tfc__field_type type;
	uint32_t since;  /* the version that had it first: TFC__V0_2 ... */
	uint32_t offset; /* in the struct */
	uint32_t size;   /* of the member */
	uint32_t max;    /* STRING: bytes; LINES, MESSAGES: items; 0: any */
	uint32_t count;  /* BYTES, MESSAGES: offset of their number */
	const struct tfc__fields *nested;
	const struct tfc__field_custom *custom;
	/* As JSON. A message has variants, a bit each, for which different fields are shown. */
	const char *json;                /* its key there; NULL: not shown */
	uint32_t shown;                  /* in these variants */
	uint32_t shown_if_set;           /* in these, unless it has its initial value */
	const char *(*word)(uint32_t n); /* what a UINT or INT is shown as */
};

struct tfc__fields {
	const struct tfc__field *fields;
	uint32_t count;
	uint32_t size;       /* of the struct */
	const void *initial; /* a struct; NULL: zeros */
};

#define TFC__V0_2 0x000200
#define TFC__V0_3 0x000300

/* A row: of a struct type, its key, type and member, the version, and more members of tfc__field.
 */
#define TFC__FIELD(T, key, kind, member, ...)                             \
	{                                                                 \
		.name = key, .type = kind, .offset = offsetof(T, member), \
		.size = sizeof(((T *)0)->member), .since = __VA_ARGS__    \
	}

#define TFC__FIELDS(rows, T, first)                                                         \
	{                                                                                   \
		.fields = rows, .count = sizeof(rows) / sizeof(rows[0]), .size = sizeof(T), \
		.initial = first                                                            \
	}

/* ---- writing: a failed allocation is in buf->is_failed */

void tfc__fields_write(struct tfc__buf *buf, const struct tfc__fields *table, const void *message);

/* The same in parts, where a map has other pairs as well: how many pairs it has, and the pairs. */
uint32_t tfc__fields_pairs(const struct tfc__fields *table, const void *message);
void tfc__fields_put(struct tfc__buf *buf, const struct tfc__fields *table, const void *message);

/* ---- reading */

/*
 * The memory of what was read: strings, lists and nested messages live until the reader is cleared
 * or ended. Zeroed is empty. Times travel on the sender's CLOCK_BOOTTIME, as machines do not agree
 * on the time of day; `ahead_ns` is what the reader's is ahead of it.
 */
struct tfc__reader {
	int64_t ahead_ns;
	bool has_zone;
	msgpack_zone zone;
};

/* Fills the fields of the table; other members stay as they are. TFC_OK, TFC_EPARSE ("process.pid:
 * must be ..."), TFC_ENOMEM, and what `custom` says; then some fields may be filled. Texts may hold
 * bytes that are not UTF-8. */
int tfc__fields_read(struct tfc__reader *reader, const struct tfc__fields *table,
		     const msgpack_object *map, tfc_error *error, void *ret_message);
void tfc__reader_clear(struct tfc__reader *reader); /* keeps some memory for the next */
void tfc__reader_fini(struct tfc__reader *reader);

/* ---- JSON */

/* Adds what is shown of a variant, "KEY":VALUE behind each other. Bytes that are not UTF-8 become
 * the four letters \xNN. */
void tfc__fields_json(struct tfc__buf *json, const struct tfc__fields *table, const void *message,
		      uint32_t variant);

#endif
