/*
 * The user that a task runs as, by name or number, found in files of the format of passwd(5) and
 * group(5). Never through NSS, whose modules may query the network, start threads and read the
 * environment, all in the host's loop. Users of a directory service must be given as numbers.
 */
#ifndef TFC_AGENT_USER_H
#define TFC_AGENT_USER_H

#include <stdint.h>
#include <tfcluster/error.h>

#define TFC__PASSWD_FILE "/etc/passwd"
#define TFC__GROUP_FILE "/etc/group"

struct tfc__user {
	char *name; /* the number as text if the user has no name here */
	char *home; /* "/" if none is known */
	uint32_t uid;
	uint32_t gid;
	uint32_t *groups; /* all groups, gid first */
	uint32_t group_count;
};

/*
 * Finds "name", "name:group" or the same with numbers. Without a group it is the user's own. The
 * supplementary groups are those that list the user, as in initgroups(3). The caller calls
 * tfc__user_fini on *ret_user, also after a failure. Errors: TFC_ENOENT (no such user or group),
 * TFC_ESYS, TFC_ENOMEM.
 */
int tfc__user_find(const char *text, const char *passwd_file, const char *group_file,
		   tfc_error *error, struct tfc__user *ret_user);
void tfc__user_fini(struct tfc__user *user);

#endif
