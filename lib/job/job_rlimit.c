/* Reads the resource limits of a role from JSON. */
#include "job/job_apply.h"

#include <stdio.h>
#include <string.h>

#define WANTED "a number, \"unlimited\", or a list of the soft and the hard limit"

static bool read_limit(json_t *value, uint64_t *ret_limit)
{
	const char *text = json_string_value(value);
	if (text && strcmp(text, "unlimited") == 0) {
		*ret_limit = UINT64_MAX;
		return true;
	}
	*ret_limit = (uint64_t)json_integer_value(value);
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

static int fail_unknown(struct tfc__apply *apply)
{
	char names[200] = "";
	const char *name;
	for (size_t i = 0; (name = tfc__rlimit_nth(i)); i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? " " : "",
			 name);
	return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL, "no such limit; there are %s",
			     names);
}

int tfc__apply_rlimit(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		      const char *name, json_t *value)
{
	struct tfc__rlimits *rlimits = tfc__key_field(key, base);
	struct tfc__rlimit rlimit;
	bool is_pair = json_is_array(value) && json_array_size(value) == 2;
	if (!tfc__rlimit_find(name, &rlimit.resource))
		return fail_unknown(apply);
	if (!read_limit(is_pair ? json_array_get(value, 0) : value, &rlimit.soft) ||
	    !read_limit(is_pair ? json_array_get(value, 1) : value, &rlimit.hard))
		return tfc__apply_wrong(apply, WANTED, value);
	if (rlimit.soft > rlimit.hard)
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "the soft limit is above the hard one");
	uint32_t i = 0;
	while (i < rlimits->count && rlimits->items[i].resource != rlimit.resource)
		i++;
	rlimits->items[i] = rlimit;
	rlimits->count += i == rlimits->count;
	return TFC_OK;
}

int tfc__apply_rlimits(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		       json_t *value)
{
	const char *name;
	json_t *item;
	if (!json_is_object(value))
		return tfc__apply_wrong(apply, "an object of limits", value);
	*(struct tfc__rlimits *)tfc__key_field(key, base) = (struct tfc__rlimits){0};
	json_object_foreach(value, name, item)
	{
		tfc__key_path_push(&apply->path, name);
		int result = tfc__apply_rlimit(apply, key, base, name, item);
		if (result < 0)
			return result;
		tfc__key_path_pop(&apply->path);
	}
	return TFC_OK;
}
