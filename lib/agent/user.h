/*
 * Whom a task runs as: a user by name or number, found in files of the form of passwd(5) and
 * group(5). Never through NSS, whose modules may ask the network, start threads and read the
 * environment, all in the host's loop: users of a directory service are given as numbers.
 */
#ifndef TFC_AGENT_USER_H
#define TFC_AGENT_USER_H

#include <stdint.h>
#include <tfcluster/error.h>

#define TFC__PASSWD_FILE "/etc/passwd"
#define TFC__GROUP_FILE "/etc/group"

struct tfc__user {
	char *name; /* the number as text where the user has no name here */
	char *home; /* "/" where none is known */
	uint32_t uid;
	uint32_t gid;
	uint32_t *groups; /* all of them, gid first */
	uint32_t group_count;
};

/*
 * Finds "name", "name:group" or the same with numbers. Without a group it is the user's own; the
 * supplementary groups are those that name the user, as initgroups(3) has them. The caller ends
 * *ret_user with tfc__user_fini, also after a failure.
 * Errors: TFC_ENOENT (no such user or group), TFC_ESYS, TFC_ENOMEM.
 */
int tfc__user_find(const char *text, const char *passwd_file, const char *group_file,
		   struct tfc__user *ret_user, tfc_error *error);
void tfc__user_fini(struct tfc__user *user);

#endif
