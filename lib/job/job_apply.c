#include "job/job_apply.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/names.h"

#define MAX_ROLES 256

static int apply_fail_nomem(struct tfc__apply *apply)
{
	return tfc__fail_nomem(apply->error, "job");
}

int tfc__apply_wrong(struct tfc__apply *apply, const char *wanted, json_t *value)
{
	char text[64];
	if (json_is_string(value))
		snprintf(text, sizeof(text), "\"%.40s\"", json_string_value(value));
	else if (json_is_integer(value))
		snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, sizeof(text), "%g", json_real_value(value));
	else if (json_is_array(value))
		snprintf(text, sizeof(text), "a list of %zu", json_array_size(value));
	else
		snprintf(text, sizeof(text), "%s",
			 json_is_null(value)      ? "null"
			 : json_is_boolean(value) ? json_is_true(value) ? "true" : "false"
						  : "an object");
	return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL, "must be %s, not %s", wanted,
			     text);
}

/* ---- single values */

static int apply_string(struct tfc__apply *apply, const struct tfc__json_key *key, char **field,
			json_t *value)
{
	const char *text = json_string_value(value);
	bool is_none = key->is_nullable && (json_is_null(value) || (text && !*text));
	if (!text && !is_none)
		return tfc__apply_wrong(apply, key->is_nullable ? "a string or null" : "a string",
					value);
	if (text && !*text && key->is_never_empty)
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "must not be empty; omit it to use the node's user");
	char *copy = is_none ? NULL : strdup(text);
	if (!copy && !is_none)
		return apply_fail_nomem(apply);
	free(*field);
	*field = copy;
	return TFC_OK;
}

static int apply_whole(struct tfc__apply *apply, const struct tfc__json_key *key, json_t *value,
		       json_int_t *ret_number)
{
	json_int_t number = json_integer_value(value);
	if (!json_is_integer(value) || number < (json_int_t)key->min ||
	    number > (json_int_t)key->max) {
		char wanted[64];
		snprintf(wanted, sizeof(wanted), "a whole number from %lld to %lld",
			 (long long)key->min, (long long)key->max);
		return tfc__apply_wrong(apply, wanted, value);
	}
	*ret_number = number;
	return TFC_OK;
}

static int apply_number(struct tfc__apply *apply, const struct tfc__json_key *key, double *field,
			json_t *value)
{
	double number = json_number_value(value);
	if (!json_is_number(value) || !(number >= key->min && number <= key->max)) {
		char wanted[64];
		snprintf(wanted, sizeof(wanted), "a number from %lld to %lld", (long long)key->min,
			 (long long)key->max);
		return tfc__apply_wrong(apply, wanted, value);
	}
	*field = number;
	return TFC_OK;
}

/* Stores a number in a field whose width depends on the key's kind. */
static int apply_unsigned(struct tfc__apply *apply, const struct tfc__json_key *key, void *field,
			  json_t *value)
{
	json_int_t number;
	int result = apply_whole(apply, key, value, &number);
	if (result < 0)
		return result;
	if (key->kind == TFC__KEY_PORT)
		*(uint16_t *)field = (uint16_t)number;
	else if (key->kind == TFC__KEY_COUNT)
		*(uint32_t *)field = (uint32_t)number;
	else
		*(uint64_t *)field = (uint64_t)number;
	return TFC_OK;
}

static int apply_limit(struct tfc__apply *apply, const struct tfc__json_key *key, uint64_t *field,
		       json_t *value)
{
	const char *text = json_string_value(value);
	json_int_t number = json_integer_value(value);
	if (json_is_false(value)) {
		*field = TFC__NO_LIMIT;
	} else if (text && strcmp(text, "auto") == 0) {
		*field = 0;
	} else if (number >= (json_int_t)key->min && number <= (json_int_t)key->max) {
		*field = (uint64_t)number;
	} else {
		char wanted[96];
		snprintf(wanted, sizeof(wanted),
			 "\"auto\", false or a whole number from %lld to %lld", (long long)key->min,
			 (long long)key->max);
		return tfc__apply_wrong(apply, wanted, value);
	}
	return TFC_OK;
}

static int apply_int(struct tfc__apply *apply, const struct tfc__json_key *key, int32_t *field,
		     json_t *value)
{
	json_int_t number = INT32_MIN;
	int result = TFC_OK;
	if (!key->is_nullable || !json_is_null(value))
		result = apply_whole(apply, key, value, &number);
	if (result == TFC_OK)
		*field = (int32_t)number;
	return result;
}

/* A range is reserved for a later version: jobs that grow and shrink. */
static int apply_refuse_range(struct tfc__apply *apply, json_t *value)
{
	json_int_t min, max;
	if (json_unpack(value, "{s:I, s:I !}", "min", &min, "max", &max) != 0 || min > max)
		return tfc__apply_wrong(apply, "a whole number", value);
	return tfc__key_fail(&apply->path, apply->error, TFC_ENOTSUP,
			     "a range is reserved for a later version; give one number from "
			     "%" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT,
			     min, max);
}

static int apply_seconds(struct tfc__apply *apply, const struct tfc__json_key *key, double *field,
			 json_t *value)
{
	double number = json_number_value(value);
	const char *text = json_string_value(value);
	if ((key->is_nullable && json_is_null(value)) ||
	    (key->is_auto && text && strcmp(text, "auto") == 0))
		number = -1;
	else if (!json_is_number(value) || !(number >= key->min && number <= key->max)) {
		char wanted[80];
		snprintf(wanted, sizeof(wanted), "%sa number of seconds from %lld to %lld",
			 key->is_auto ? "\"auto\" or " : "", (long long)key->min,
			 (long long)key->max);
		return tfc__apply_wrong(apply, wanted, value);
	}
	*field = number;
	return TFC_OK;
}

static int apply_backoff(struct tfc__apply *apply, const struct tfc__json_key *key, double *field,
			 json_t *value)
{
	double pair[2];
	if (!json_is_array(value) || json_array_size(value) != 2)
		return tfc__apply_wrong(apply,
					"a list of two numbers: the first and the longest wait",
					value);
	for (size_t i = 0; i < 2; i++) {
		tfc__key_path_push_element(&apply->path, i);
		int result = apply_seconds(apply, key, &pair[i], json_array_get(value, i));
		if (result < 0)
			return result;
		tfc__key_path_pop(&apply->path);
	}
	if (pair[0] > pair[1])
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "the first wait exceeds the longest");
	memcpy(field, pair, sizeof(pair));
	return TFC_OK;
}

static int apply_choice(struct tfc__apply *apply, const struct tfc__json_key *key, uint32_t *field,
			json_t *value)
{
	const char *text = json_string_value(value);
	for (uint32_t i = 0; text && key->names[i]; i++) {
		if (strcmp(key->names[i], text) == 0) {
			*field = i;
			return TFC_OK;
		}
	}
	char wanted[128]; /* "a, b or c" */
	size_t len = 0;
	for (const char *const *name = key->names; *name && len < sizeof(wanted); name++)
		len += (size_t)snprintf(wanted + len, sizeof(wanted) - len, "%s%s", *name,
					!name[1]   ? ""
					: !name[2] ? " or "
						   : ", ");
	return tfc__apply_wrong(apply, wanted, value);
}

static int apply_later(struct tfc__apply *apply, const struct tfc__json_key *key, json_t *value)
{
	json_t *accepted;
	if (tfc__json_load(key->inactive, strlen(key->inactive), 0, NULL, &accepted) < 0)
		return apply_fail_nomem(apply);
	bool is_inactive = json_is_null(value);
	for (size_t i = 0; i < json_array_size(accepted); i++) {
		json_t *one = json_array_get(accepted, i);
		bool is_same = json_is_number(one) && json_is_number(value)
				       ? json_number_value(one) == json_number_value(value)
				       : json_equal(one, value);
		is_inactive = is_inactive || is_same;
	}
	char *offer = tfc__json_dump(json_array_get(accepted, 0), JSON_ENCODE_ANY);
	json_decref(accepted);
	int result = TFC_OK;
	if (!is_inactive)
		result = tfc__key_fail(&apply->path, apply->error, TFC_ENOTSUP,
				       "not supported by this version; omit it or set it to %s",
				       offer ? offer : "its default");
	free(offer);
	return result;
}

/* ---- roles */

int tfc__apply_role(struct tfc__apply *apply, const char *name, struct tfc__role **ret_role)
{
	tfc_job *job = apply->job;
	for (uint32_t i = 0; i < job->role_count; i++) {
		if (strcmp(job->roles[i].name, name) == 0) {
			*ret_role = &job->roles[i];
			return TFC_OK;
		}
	}
	if (!tfc__is_role_name(name))
		return tfc__key_fail(
			&apply->path, apply->error, TFC_EINVAL,
			"a role's name must be 1 to 63 of a-z, 0-9 and _ and begin with a letter");
	if (job->role_count == MAX_ROLES)
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "a job has at most %d roles", MAX_ROLES);
	struct tfc__role *roles = realloc(job->roles, (job->role_count + 1) * sizeof(*roles));
	if (!roles)
		return apply_fail_nomem(apply);
	job->roles = roles;
	struct tfc__role *role = &roles[job->role_count++];
	*role = (struct tfc__role){.name = strdup(name)};
	if (!tfc__keys_init(&tfc__role_keys, role) || !role->name)
		return apply_fail_nomem(apply);
	*ret_role = role;
	return TFC_OK;
}

static int apply_roles(struct tfc__apply *apply, json_t *value)
{
	const char *name;
	json_t *item;
	if (!json_is_object(value))
		return tfc__apply_wrong(apply, "an object of roles", value);
	json_object_foreach(value, name, item)
	{
		struct tfc__role *role;
		tfc__key_path_push(&apply->path, name);
		int result = tfc__apply_role(apply, name, &role);
		if (result < 0)
			return result;
		result = tfc__apply_object(apply, &tfc__role_keys, role, "", item);
		if (result < 0)
			return result;
		tfc__key_path_pop(&apply->path);
	}
	return TFC_OK;
}

/* ---- any value */

static int apply_typed(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		       json_t *value)
{
	void *field = tfc__key_field(key, base);
	switch (key->kind) {
	case TFC__KEY_STRING:
		return apply_string(apply, key, field, value);
	case TFC__KEY_BOOL:
		if (!json_is_boolean(value))
			return tfc__apply_wrong(apply, "true or false", value);
		*(bool *)field = json_is_true(value);
		return TFC_OK;
	case TFC__KEY_COUNT:
		if (key->is_range_later && json_is_object(value))
			return apply_refuse_range(apply, value);
		return apply_unsigned(apply, key, field, value);
	case TFC__KEY_LIMIT:
		return apply_limit(apply, key, field, value);
	case TFC__KEY_PORT:
	case TFC__KEY_BYTES:
		return apply_unsigned(apply, key, field, value);
	case TFC__KEY_SECONDS:
		return apply_seconds(apply, key, field, value);
	case TFC__KEY_CHOICE:
		return apply_choice(apply, key, field, value);
	case TFC__KEY_LIST:
		return tfc__apply_list(apply, key, field, value);
	case TFC__KEY_ENV:
	case TFC__KEY_SECRETS:
		return tfc__apply_env(apply, key, base, value);
	case TFC__KEY_BACKOFF:
		return apply_backoff(apply, key, field, value);
	case TFC__KEY_NUMBER:
		return apply_number(apply, key, field, value);
	case TFC__KEY_INT:
		return apply_int(apply, key, field, value);
	case TFC__KEY_RLIMITS:
		return tfc__apply_rlimits(apply, key, base, value);
	case TFC__KEY_ROLES:
		return apply_roles(apply, value);
	case TFC__KEY_LATER:
		return apply_later(apply, key, value);
	}
	assert(false); /* every kind of key has a case */
	return TFC_EINVAL;
}

int tfc__apply_value(struct tfc__apply *apply, const struct tfc__json_key *key, void *base,
		     json_t *value)
{
	if (!key->given) {
		int result = apply_typed(apply, key, base, value);
		if (result == TFC_OK && base == apply->job)
			apply->job->given |= UINT64_C(1) << (key - tfc__job_keys.items);
		return result;
	}
	struct tfc__role *role = base; /* only a role's keys are overrides */
	if (json_is_null(value)) {
		role->restart_given &= ~key->given;
		return TFC_OK;
	}
	int result = apply_typed(apply, key, base, value);
	if (result == TFC_OK)
		role->restart_given |= key->given;
	return result;
}

int tfc__apply_unknown(struct tfc__apply *apply, const struct tfc__json_keys *keys,
		       const char *group, const char *name)
{
	char near[64];
	bool is_role = keys == &tfc__role_keys, is_top = !*group && !strchr(name, '.');
	const struct tfc__json_keys *others = is_role ? &tfc__job_keys : &tfc__role_keys;
	if (is_top && (tfc__keys_find(others, name) || tfc__keys_have_group(others, name)))
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     is_role ? "unknown key here; use the job's key %s"
					     : "unknown key here; use the roles' key roles.ROLE.%s",
				     name);
	if (tfc__keys_suggest(keys, group, name, near))
		return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL,
				     "unknown key; did you mean %s?", near);
	return tfc__key_fail(&apply->path, apply->error, TFC_EINVAL, "unknown key");
}

int tfc__apply_object(struct tfc__apply *apply, const struct tfc__json_keys *keys, void *base,
		      const char *group, json_t *value)
{
	const char *name;
	json_t *item;
	if (json_is_null(value) && *group && keys == &tfc__role_keys) { /* no overrides */
		((struct tfc__role *)base)->restart_given = 0;
		return TFC_OK;
	}
	if (!json_is_object(value))
		return tfc__apply_wrong(apply, "an object", value);
	json_object_foreach(value, name, item)
	{
		char path[128];
		int len = snprintf(path, sizeof(path), "%s%s%s", group, *group ? "." : "", name);
		bool is_name = len > 0 && (size_t)len < sizeof(path) && !strchr(name, '.');
		const struct tfc__json_key *key = is_name ? tfc__keys_find(keys, path) : NULL;
		tfc__key_path_push(&apply->path, name);
		int result = key ? tfc__apply_value(apply, key, base, item)
			     : is_name && tfc__keys_have_group(keys, path)
				     ? tfc__apply_object(apply, keys, base, path, item)
				     : tfc__apply_unknown(apply, keys, group, name);
		if (result < 0)
			return result;
		tfc__key_path_pop(&apply->path);
	}
	return TFC_OK;
}
