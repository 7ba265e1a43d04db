/*
 * The static membership: the members are listed in a file.
 *
 *   {"members": [
 *     {"name": "a", "address": "tcp://10.0.0.1:7777", "slots": 4, "memory": 8589934592, "gpus": 1,
 *      "labels": {"rack": "1"}, "node_id": "6f1c..."},
 *     ...]}
 *
 * name and address are required. The file is read again when it is written or replaced by a rename;
 * changes are reported. If the new version cannot be read or does not list this node, the members
 * do not change and a warning is logged.
 */
#ifndef TFC_MEMBER_STATIC_FILE_H
#define TFC_MEMBER_STATIC_FILE_H

#include "member/member.h"

struct tfc__static_file; /* `user` of the table below */
extern const tfc_membership_ops tfc__static_file_ops;

/* Makes the membership of the file at `path`, which is not read yet. The caller owns it and frees
 * it after it has closed the members. NULL is a no-op. Returns TFC_OK or TFC_ENOMEM. */
int tfc__static_file_new(const char *path, tfc_error *error, struct tfc__static_file **ret_file);
void tfc__static_file_free(struct tfc__static_file *file);

/* The parsed file (static_parse.c). */
struct tfc__static_list {
	/* sorted by name; names and addresses are unique; the list owns all strings */
	tfc_member_info *items;
	uint32_t count;
};

/* Parses a members file. Error texts begin with "FILE:LINE: ". Returns TFC_EPARSE, TFC_EINVAL or
 * TFC_ENOMEM. The caller frees the list, which is empty after a failure. */
int tfc__static_parse(const char *json, size_t len, const char *file, tfc_error *error,
		      struct tfc__static_list *ret_list);
void tfc__static_list_free(struct tfc__static_list *list);

#endif
