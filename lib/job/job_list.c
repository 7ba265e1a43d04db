/* Reads lists, environments and resource limits from JSON. */
#include "job/job_apply.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* The most entries of one env, secret_env or labels. Each is searched linearly, at every launch
 * too; the kernel accepts 2 MiB of arguments and environment. */
#define VARIABLES_MAX 4096

int tfc__apply_check_text(struct tfc__apply *apply, const char *text)
{
	errno = 0;
	json_t *checked = json_string(text); /* fails for text that is not UTF-8 */
	bool is_nomem = errno == ENOMEM;     /* see base/json.h */
	json_decref(checked);
	if (checked)
		return TFC_OK;
	return is_nomem ? tfc__fail_nomem(apply->error, "job")
			: tfc__key_fail(&apply->path, apply->error, TFC_EINVAL, "is not UTF-8");
}

int tfc__apply_list(struct tfc__apply *apply, const struct tfc__json_key *key,
		    struct tfc__strv *field, json_t *value)
{
	struct tfc__strv list = {0};
	size_t i;
	json_t *item;
	if (!json_is_array(value) && !(key->is_nullable && json_is_null(value)))
		return tfc__apply_wrong(apply, "a list of strings", value);
	json_array_foreach(value, i, item)
	{
		if (!json_is_string(item)) {
			tfc__strv_fini(&list);
			tfc__key_path_push_element(&apply->path, i);
			return tfc__apply_wrong(apply, "a string", item);
		}
		tfc__strv_add(&list, json_string_value(item));
	}
	if (list.is_failed) {
		tfc__strv_fini(&list);
		return tfc__fail_nomem(apply->error, "job");
	}
	tfc__strv_fini(field);
	*field = list;
	return TFC_OK;
}

static void secrets_remove(struct tfc__strv *secrets, const char *name)
{
	size_t len = strlen(name), kept = 0;
	for (size_t i = 0; i < secrets->count; i++) {
		char *item = secrets->items[i];
		if (strncmp(item, name, len) == 0 && (item[len] == '=' || !item[len]))
			free(item);
		else
			secrets->items[kept++] = item;
	}
	secrets->count = kept;
	if (secrets->items)
		secrets->items[kept] = NULL;
}

int tfc__apply_variable(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
			const char *name, const char *value)
{
	struct tfc__strv *env = tfc__key_field(key, base);
	int result = tfc__apply_check_text(apply, name);
	if (result < 0 || (value && (result = tfc__apply_check_text(apply, value)) < 0))
		return result;
	if (!*name || strchr(name, '='))
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "a name must not be empty or contain '='");
	if (key->kind == TFC__KEY_SECRETS)
		secrets_remove(env, name);
	if (value)
		tfc__strv_set_env(env, name, value);
	else
		tfc__strv_add(env, name);
	return env->is_failed ? tfc__fail_nomem(apply->error, "job") : TFC_OK;
}

/* Like tfc__apply_wrong, but without showing the value, which may be a secret. */
static int apply_wrong_secret(struct tfc__apply *apply, const char *wanted)
{
	return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL, "must be %s", wanted);
}

/* Applies secrets that are given by name only. */
static int apply_secret_names(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
			      json_t *names)
{
	size_t i;
	json_t *item;
	if (json_array_size(names) > VARIABLES_MAX)
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "has %zu names; the limit is %d", json_array_size(names),
				     VARIABLES_MAX);
	tfc__strv_fini(tfc__key_field(key, base));
	json_array_foreach(names, i, item)
	{
		tfc__key_path_push_element(&apply->path, i);
		if (!json_is_string(item))
			return apply_wrong_secret(apply, "the name of a variable");
		int result = tfc__apply_variable(apply, key, base, json_string_value(item), NULL);
		if (result < 0)
			return result;
		tfc__key_path_pop(&apply->path);
	}
	return TFC_OK;
}

int tfc__apply_env(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		   json_t *value)
{
	bool is_secret = key->kind == TFC__KEY_SECRETS;
	const char *name;
	json_t *item;
	if (is_secret && json_is_array(value))
		return apply_secret_names(apply, key, base, value);
	if (!json_is_object(value))
		return is_secret ? apply_wrong_secret(apply,
						      "an object of strings, or a list of names")
				 : tfc__apply_wrong(apply, "an object of strings", value);
	if (json_object_size(value) > VARIABLES_MAX)
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "has %zu entries; the limit is %d", json_object_size(value),
				     VARIABLES_MAX);
	tfc__strv_fini(tfc__key_field(key, base));
	json_object_foreach(value, name, item)
	{
		tfc__key_path_push(&apply->path, name);
		if (is_secret && !json_is_string(item) && !json_is_null(item))
			return apply_wrong_secret(apply, "a string or null");
		if (!is_secret && !json_is_string(item))
			return tfc__apply_wrong(apply, "a string", item);
		int result = tfc__apply_variable(apply, key, base, name, json_string_value(item));
		if (result < 0)
			return result;
		tfc__key_path_pop(&apply->path);
	}
	return TFC_OK;
}

int tfc__apply_element(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		       const char *text)
{
	if (key->kind == TFC__KEY_LIST) {
		struct tfc__strv *list = tfc__key_field(key, base);
		int result = tfc__apply_check_text(apply, text);
		if (result < 0)
			return result;
		tfc__strv_add(list, text);
		return list->is_failed ? tfc__fail_nomem(apply->error, "job") : TFC_OK;
	}
	const char *sign = strchr(text, '=');
	if (key->kind == TFC__KEY_ENV && !sign)
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "must be NAME=value, not \"%.40s\"", text);
	if (key->kind != TFC__KEY_ENV && key->kind != TFC__KEY_SECRETS)
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "is not a list; remove the []");
	char *name = sign ? strndup(text, (size_t)(sign - text)) : strdup(text);
	if (!name)
		return tfc__fail_nomem(apply->error, "job");
	int result = tfc__apply_variable(apply, key, base, name, sign ? sign + 1 : NULL);
	free(name);
	return result;
}

/* ---- resource limits */

static bool read_rlimit(json_t *value, uint64_t *ret_limit)
{
	const char *text = json_string_value(value);
	if (text && strcmp(text, "unlimited") == 0) {
		*ret_limit = UINT64_MAX;
		return true;
	}
	*ret_limit = (uint64_t)json_integer_value(value);
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

int tfc__apply_rlimit(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		      const char *name, json_t *value)
{
	struct tfc__rlimits *rlimits = tfc__key_field(key, base);
	struct tfc__rlimit rlimit;
	bool is_pair = json_is_array(value) && json_array_size(value) == 2;
	if (!tfc__rlimit_find(name, &rlimit.resource)) {
		char names[200] = "";
		for (size_t i = 0; (name = tfc__rlimit_nth(i)); i++)
			snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s",
				 i ? " " : "", name);
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "unknown limit; the limits are %s", names);
	}
	if (!read_rlimit(is_pair ? json_array_get(value, 0) : value, &rlimit.soft) ||
	    !read_rlimit(is_pair ? json_array_get(value, 1) : value, &rlimit.hard))
		return tfc__apply_wrong(
			apply, "a number, \"unlimited\", or a list of the soft and the hard limit",
			value);
	if (rlimit.soft > rlimit.hard)
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "the soft limit exceeds the hard limit");
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
