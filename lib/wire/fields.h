/*
 * Describes each message and record once, as a table of its fields, which is used to write it, to
 * read it and to show it as JSON.
 *
 * A message is encoded as a map whose keys are the names of the fields. A field with its initial
 * value is not written; a field that is missing or nil is read as its initial value; unknown keys
 * are ignored. Different versions can therefore communicate. A value of the wrong type or out of
 * range is an error that names the field.
 */
#ifndef TFC_WIRE_FIELDS_H
#define TFC_WIRE_FIELDS_H

#include "base/json_writer.h"
#include "wire/msg.h"

enum tfc__field_type {
	TFC__BOOL,     /* bool or uint32_t; a nonzero number is read as true */
	TFC__UINT,     /* uint8_t to uint64_t, and enums */
	TFC__INT,      /* int32_t, int64_t */
	TFC__TIME,     /* uint64_t, ns of CLOCK_REALTIME; see tfc__reader */
	TFC__TEXT,     /* char[]: text of limited length, with a NUL */
	TFC__STRING,   /* const char *; NULL or "" is not written */
	TFC__LINES,    /* const char *const *: a NULL-terminated list of texts; a text ends at its
			  first NUL byte; NULL or an empty list is not written */
	TFC__BYTES,    /* const void *, and a uint64_t for the length; borrowed from the message */
	TFC__DIGEST,   /* uint8_t[]: exactly as many bytes as the member has */
	TFC__MESSAGE,  /* const struct *, described by `nested`; or NULL */
	TFC__GROUP,    /* further members of the same struct, described by `nested`, as a map */
	TFC__MESSAGES, /* const struct *, described by `nested`, and a uint32_t for the count */
	TFC__CUSTOM,   /* a pointer, read and written by `custom`; NULL is not written */
};

struct tfc__reader;

/* A value that is not a struct described by a table. On entry to read, *ret_value is NULL or an
 * earlier value of the field. The caller owns *ret_value, also after a failure. */
struct tfc__field_custom {
	void (*write)(struct tfc__buf *buf, const void *value);
	int (*read)(const msgpack_object *object, tfc_error *error, void **ret_value);
};

struct tfc__field {
	const char *name; /* on the wire; NULL: only in JSON */
	enum tfc__field_type type;
	uint32_t since;  /* first version that has the field: TFC__V0_2 ... */
	uint32_t offset; /* offset in the struct */
	uint32_t size;   /* size of the member */
	uint32_t max;    /* most bytes (STRING) or items (LINES, MESSAGES); 0: no limit */
	uint32_t count;  /* BYTES, MESSAGES: offset of the count */
	const struct tfc__fields *nested;
	const struct tfc__field_custom *custom;
	/* For JSON. A message has variants, a bit each, in which different fields are shown. */
	const char *json;                /* key in JSON; NULL: not shown */
	uint32_t shown;                  /* variants that show it */
	uint32_t shown_if_set;           /* variants that show it unless it has its initial value */
	const char *(*word)(uint32_t n); /* text for a UINT or INT; NULL is null in JSON */
	/* Writes the value in JSON in another form than its type's; or NULL. */
	void (*show)(struct tfc__json_writer *json, const struct tfc__field *field,
		     const void *message);
};

struct tfc__fields {
	const struct tfc__field *fields;
	uint32_t count;
	uint32_t size;       /* size of the struct */
	const void *initial; /* a struct with the initial values; NULL: zeros */
	/* The variants that a message is besides those of the message that it is in; or NULL. */
	uint32_t (*variant_of)(const void *message);
};

#define TFC__V0_2 0x000200
#define TFC__V0_3 0x000300

/* A row of a table: struct type, key, field type, member, version, and further members of struct
 * tfc__field. */
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

/* ---- writing: a failed allocation sets buf->is_failed */

void tfc__fields_write(struct tfc__buf *buf, const struct tfc__fields *table, const void *message);

/* Write a message as part of a map that has other pairs as well: the number of pairs, and the
 * pairs. */
uint32_t tfc__fields_pairs(const struct tfc__fields *table, const void *message);
void tfc__fields_put(struct tfc__buf *buf, const struct tfc__fields *table, const void *message);

/* ---- reading */

/*
 * Owns the memory of the values that were read: strings, lists and nested messages live until the
 * reader is cleared or finished. A zeroed reader is empty. Times are sent as the sender's
 * CLOCK_BOOTTIME, because the machines' wall clocks may disagree; `ahead_ns` is the reader's
 * CLOCK_BOOTTIME minus the sender's.
 */
struct tfc__reader {
	int64_t ahead_ns;
	bool has_zone;
	msgpack_zone zone;
};

/*
 * Fills the fields of the table; other members stay unchanged. Returns TFC_OK, TFC_EPARSE
 * ("process.pid: must be ..."), TFC_ENOMEM, or an error of `custom`. After a failure some fields
 * may be filled. Texts may contain bytes that are not UTF-8. The reader may be NULL if the table
 * has no times, strings, lists and nested messages.
 */
int tfc__fields_read(struct tfc__reader *reader, const struct tfc__fields *table,
		     const msgpack_object *map, tfc_error *error, void *ret_message);
/*
 * As tfc__fields_read, for the params of a request: what is not a map, or NULL, is read as an empty
 * map, and TFC_EINVAL replaces TFC_EPARSE.
 */
int tfc__params_read(struct tfc__reader *reader, const struct tfc__fields *table,
		     const msgpack_object *params, tfc_error *error, void *ret_message);
void tfc__reader_clear(struct tfc__reader *reader); /* keeps some memory for reuse */
void tfc__reader_fini(struct tfc__reader *reader);

/* ---- JSON */

/* Adds the fields that a variant shows, as members of the open object. A nested message is an
 * object, with the same variant. */
void tfc__fields_json(struct tfc__json_writer *json, const struct tfc__fields *table,
		      const void *message, uint32_t variant);

/* Add a message as an object, and the value of one of its fields. */
void tfc__fields_json_object(struct tfc__json_writer *json, const struct tfc__fields *table,
			     const void *message, uint32_t variant);
void tfc__fields_json_value(struct tfc__json_writer *json, const struct tfc__field *field,
			    const void *message, uint32_t variant);

#endif
