/*
 * The table of keys of a job file. The parser, tfc_job_set, the writer, copy, free and the
 * suggestion for a mistyped key all use it, so that a key is described once: here, and in
 * doc/guide/job-file.md, which a test compares with the table.
 */
#ifndef TFC_JOB_JOB_KEYS_H
#define TFC_JOB_JOB_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tfcluster/error.h>

/* The kind of a key's value, and the C type of its field. */
enum tfc__key_kind {
	TFC__KEY_STRING = 0, /* char *; nullable: NULL and "" mean "none" */
	TFC__KEY_BOOL,       /* bool */
	TFC__KEY_COUNT,      /* uint32_t */
	TFC__KEY_PORT,       /* uint16_t */
	TFC__KEY_SECONDS,    /* double; nullable: -1 is the job's value; is_auto: -1 is "auto" */
	TFC__KEY_CHOICE,     /* uint32_t, an index into names */
	TFC__KEY_LIST,       /* struct tfc__strv */
	TFC__KEY_ENV,        /* struct tfc__strv of "NAME=value" */
	TFC__KEY_SECRETS,    /* struct tfc__strv of "NAME=value" or "NAME" */
	TFC__KEY_BACKOFF,    /* double[2] */
	TFC__KEY_BYTES,      /* uint64_t */
	TFC__KEY_LIMIT,      /* uint64_t; 0: "auto", TFC__NO_LIMIT: false */
	TFC__KEY_NUMBER,     /* double */
	TFC__KEY_INT,        /* int32_t; nullable: INT32_MIN means the host's value */
	TFC__KEY_RLIMITS,    /* struct tfc__rlimits */
	TFC__KEY_ROLES,      /* the object of all roles */
	TFC__KEY_LATER,      /* no field: a later version's key, accepted if inactive */
};

struct tfc__json_key {
	const char *path; /* "restart.max", relative to the job or the role */
	enum tfc__key_kind kind;
	uint32_t offset;          /* offset of the field in tfc_job or struct tfc__role */
	bool is_range_later;      /* TFC__KEY_COUNT: {"min": M, "max": N} is for a later version */
	bool is_nullable;         /* null is allowed and means "none" or the job's value */
	bool is_never_empty;      /* TFC__KEY_STRING: "" in a file is an error, not null */
	bool is_auto;             /* TFC__KEY_SECONDS: "auto" is allowed, and the default */
	uint32_t given;           /* bit in restart_given for a key that a role overrides; or 0 */
	double min, max, initial; /* of numbers; for TFC__KEY_BACKOFF, of the second one */
	const char *const *names; /* TFC__KEY_CHOICE: the values, NULL-terminated */
	const char *inactive;     /* TFC__KEY_LATER: the accepted values, as a JSON list */
};

/* The table of a job or of a role. Keys with a common prefix are adjacent. */
struct tfc__json_keys {
	const struct tfc__json_key *items;
	size_t count;
};

extern const struct tfc__json_keys tfc__job_keys;
extern const struct tfc__json_keys tfc__role_keys;

const struct tfc__json_key *tfc__keys_find(const struct tfc__json_keys *keys,
					   const char *path); /* or NULL */

/* Whether any key is in the group `path`, such as "restart". */
bool tfc__keys_have_group(const struct tfc__json_keys *keys, const char *path);

/*
 * Finds the name in `group` ("" is the top level) that is most similar to a mistyped one and copies
 * it to ret_name. Returns ret_name, or NULL if no name is similar.
 */
const char *tfc__keys_suggest(const struct tfc__json_keys *keys, const char *group,
			      const char *name, char ret_name[64]);

/* Initialize, copy and free all fields of a job or role. For copy, `to` is a byte copy of `from` on
 * entry. Returns false when out of memory; the fields can then still be passed to fini. */
bool tfc__keys_init(const struct tfc__json_keys *keys, void *base);
bool tfc__keys_copy(const struct tfc__json_keys *keys, void *to, const void *from);
void tfc__keys_fini(const struct tfc__json_keys *keys, void *base);

static inline void *tfc__key_field(const struct tfc__json_key *key, void *base)
{
	return (char *)base + key->offset;
}

/* ---- key paths: the key in the file that an error is about */

#define TFC__KEY_PATH_MAX 8

/* Parts are borrowed. `own` stores a part that exists nowhere else: an element of a list, which has
 * the form "[3]", or the name of a variable. */
struct tfc__key_path {
	const char *parts[TFC__KEY_PATH_MAX];
	uint32_t count;
	char own[64];
};

void tfc__key_path_push(struct tfc__key_path *path, const char *part);
void tfc__key_path_push_element(struct tfc__key_path *path, size_t index);
void tfc__key_path_push_variable(struct tfc__key_path *path, const char *variable);
void tfc__key_path_pop(struct tfc__key_path *path);

/* Fills *error with "roles.worker.count: <message>" and returns the code. */
int tfc__key_fail(const struct tfc__key_path *path, tfc_error *error, int code, const char *format,
		  ...) TFC_PRINTF(4, 5);

/*
 * The line, from 1, of the key at `path` in well-formed JSON. If the path does not exist
 * completely, the line of its last existing part. Called only when there is an error to report.
 */
uint32_t tfc__key_line(const char *json, size_t len, const struct tfc__key_path *path);

#endif
