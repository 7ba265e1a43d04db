/*
 * The members of a file: the static membership.
 *
 *   {"members": [
 *     {"name": "a", "address": "tcp://10.0.0.1:7777", "slots": 4, "memory": 8589934592, "gpus": 1,
 *      "labels": {"rack": "1"}, "node_id": "6f1c..."},
 *     ...]}
 *
 * name and address are needed. The file is read again when it is written, or another is renamed
 * over it; what changed is told. While a new version cannot be read, or does not name this node,
 * the members stay as they are and the log says why.
 */
#ifndef TFC_MEMBER_STATIC_FILE_H
#define TFC_MEMBER_STATIC_FILE_H

#include "member/member.h"

struct tfc__static_file; /* `user` of the table below */
extern const tfc_membership_ops tfc__static_file_ops;

/* For the file at `path`, which is not read yet. TFC_ENOMEM. The caller owns it, and frees it after
 * the members were closed; NULL is a no-op. */
int tfc__static_file_new(const char *path, tfc_error *error, struct tfc__static_file **ret_file);
void tfc__static_file_free(struct tfc__static_file *file);

/* The members of a file as a value (static_parse.c). */
struct tfc__static_list {
	tfc_member_info *items; /* by name, no name or address twice; all strings are the list's */
	uint32_t count;
};

/* Sentences begin with "FILE:LINE: ". TFC_EPARSE, TFC_EINVAL, TFC_ENOMEM. The caller frees the
 * list; it is empty after a failure. */
int tfc__static_parse(const char *json, size_t len, const char *file, tfc_error *error,
		      struct tfc__static_list *ret_list);
void tfc__static_list_free(struct tfc__static_list *list);

#endif
