#include "agent/user.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

#define FIELDS 7 /* of a line of passwd; group has 4 */

/* Calls fn with the fields of each line until it returns true. 0, or an errno. */
static int user_file_each_line(const char *file,
			       bool (*fn)(void *user, char *fields[FIELDS], size_t count),
			       void *user)
{
	FILE *stream = fopen(file, "re");
	char *line = NULL;
	size_t size = 0;
	bool is_done = false;
	if (!stream)
		return errno;
	errno = 0;
	while (!is_done && getline(&line, &size, stream) > 0) {
		char *fields[FIELDS], *rest = line;
		size_t count = 0;
		line[strcspn(line, "\n")] = '\0';
		while (rest && count < FIELDS)
			fields[count++] = strsep(&rest, ":");
		is_done = fn(user, fields, count);
	}
	int error = ferror(stream) || (!is_done && errno == ENOMEM) ? errno : 0;
	free(line);
	fclose(stream);
	return error;
}

/* Whether the text is an id, and which: at most 4294967294, because 4294967295 means "none". */
static bool user_read_id(const char *text, uint32_t *ret_id)
{
	char *end;
	errno = 0;
	unsigned long id = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || errno || id >= UINT32_MAX)
		return false;
	*ret_id = (uint32_t)id;
	return true;
}

struct search {
	const char *name; /* the name to find, */
	uint32_t id;      /* or the id, */
	bool has_id;      /* if has_id */
	bool is_found;
	bool is_failed;
	uint32_t found_id;
	struct tfc__user *user;
};

static void search_set_text(struct search *search, char **field, const char *text)
{
	free(*field);
	*field = strdup(text);
	search->is_failed |= !*field;
}

/* A user with that name is preferred to one with that number. */
static bool match_user(void *user, char *fields[FIELDS], size_t count)
{
	struct search *search = user;
	uint32_t uid, gid;
	if (count < 6 || !user_read_id(fields[2], &uid) || !user_read_id(fields[3], &gid))
		return false;
	bool is_name = strcmp(fields[0], search->name) == 0;
	if (!is_name && (search->is_found || !search->has_id || uid != search->id))
		return false;
	search->is_found = true;
	search->user->uid = uid;
	search->user->gid = gid;
	search_set_text(search, &search->user->name, fields[0]);
	search_set_text(search, &search->user->home, fields[5][0] ? fields[5] : "/");
	return is_name;
}

static bool match_group(void *user, char *fields[FIELDS], size_t count)
{
	struct search *search = user;
	return count >= 3 && strcmp(fields[0], search->name) == 0 &&
	       (search->is_found = user_read_id(fields[2], &search->found_id));
}

static bool group_has_member(char *members, const char *name)
{
	for (char *member; (member = strsep(&members, ",\n"));)
		if (strcmp(member, name) == 0)
			return true;
	return false;
}

static bool user_add_group(struct tfc__user *user, uint32_t gid)
{
	for (uint32_t i = 0; i < user->group_count; i++)
		if (user->groups[i] == gid)
			return true;
	uint32_t *groups = realloc(user->groups, (user->group_count + 1) * sizeof(*groups));
	if (!groups)
		return false;
	groups[user->group_count++] = gid;
	user->groups = groups;
	return true;
}

static bool match_membership(void *user, char *fields[FIELDS], size_t count)
{
	struct search *search = user;
	uint32_t gid;
	if (count >= 4 && user_read_id(fields[2], &gid) &&
	    group_has_member(fields[3], search->name))
		search->is_failed |= !user_add_group(search->user, gid);
	return search->is_failed;
}

static int find_user(const char *name, bool has_group, const char *file, struct tfc__user *user,
		     tfc_error *error)
{
	struct search search = {.name = name, .user = user};
	search.has_id = user_read_id(name, &search.id);
	int failed = user_file_each_line(file, match_user, &search);
	if (failed && !(search.has_id && has_group))
		return tfc__fail_errno(error, "agent", failed, "cannot read \"%s\"", file);
	if (!search.is_found && !search.has_id)
		return tfc__fail(error, TFC_ENOENT, "agent", 0,
				 "user \"%.60s\" not found in \"%s\"; give a user that is not in "
				 "this file (LDAP) as numbers, such as 1000:1000",
				 name, file);
	if (!search.is_found && !has_group)
		return tfc__fail(
			error, TFC_ENOENT, "agent", 0,
			"user \"%.60s\" not found in \"%s\"; give its group too, as in %.60s:%.60s",
			name, file, name, name);
	if (!search.is_found) {
		user->uid = search.id;
		search_set_text(&search, &user->name, name);
		search_set_text(&search, &user->home, "/");
	}
	return search.is_failed ? tfc__fail_nomem(error, "agent") : TFC_OK;
}

static int find_group(const char *name, const char *file, uint32_t *ret_gid, tfc_error *error)
{
	struct search search = {.name = name};
	bool is_id = user_read_id(name, ret_gid);
	int failed = user_file_each_line(file, match_group, &search);
	if (search.is_found)
		*ret_gid = search.found_id;
	if (search.is_found || is_id)
		return TFC_OK;
	if (failed)
		return tfc__fail_errno(error, "agent", failed, "cannot read \"%s\"", file);
	return tfc__fail(error, TFC_ENOENT, "agent", 0, "group \"%.60s\" not found in \"%s\"", name,
			 file);
}

int tfc__user_find(const char *text, const char *passwd_file, const char *group_file,
		   tfc_error *error, struct tfc__user *ret_user)
{
	*ret_user = (struct tfc__user){0};
	char *name = strdup(text);
	if (!name)
		return tfc__fail_nomem(error, "agent");
	char *group = strchr(name, ':');
	if (group)
		*group++ = '\0';
	int code = find_user(name, group, passwd_file, ret_user, error);
	if (code == TFC_OK && group)
		code = find_group(group, group_file, &ret_user->gid, error);
	if (code == TFC_OK && !user_add_group(ret_user, ret_user->gid))
		code = tfc__fail_nomem(error, "agent");
	free(name);
	if (code < 0)
		return code;
	struct search search = {.name = ret_user->name, .user = ret_user};
	int failed = user_file_each_line(group_file, match_membership, &search);
	if (search.is_failed)
		return tfc__fail_nomem(error, "agent");
	if (failed && failed != ENOENT)
		return tfc__fail_errno(error, "agent", failed, "cannot read \"%s\"", group_file);
	return TFC_OK;
}

void tfc__user_fini(struct tfc__user *user)
{
	free(user->name);
	free(user->home);
	free(user->groups);
	*user = (struct tfc__user){0};
}
