/*
 * Sets one key from text. The change is made on a copy, so that a failure leaves the job unchanged.
 */
#include "job/job_apply.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"

/* The change to make, with the path split. */
struct change {
	struct tfc__apply apply;
	const struct tfc__json_keys *keys;
	void *base;      /* the job or a role */
	char *path;      /* relative to the base */
	bool is_element; /* the path ended in "[]" */
	const char *value;
};

/* Converts the text to the JSON value that a job file would contain. Text that is not JSON becomes
 * a string, which the key's own check then refuses or accepts. */
static int change_read_value(struct change *c, const struct tfc__json_key *key, json_t **ret_value)
{
	bool is_text = key && (key->kind == TFC__KEY_STRING || key->kind == TFC__KEY_CHOICE);
	json_t *value = NULL;
	int result = tfc__apply_check_text(&c->apply, c->value);
	if (result < 0)
		return result;
	if (!is_text)
		result = tfc__json_load(c->value, strlen(c->value),
					JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL, &value);
	if (is_text && key->is_nullable && !*c->value)
		value = json_null(); /* "" clears the key */
	if (!value && result != TFC_ENOMEM)
		value = json_string(c->value);
	if (!value)
		return tfc__fail_nomem(c->apply.error, "job");
	*ret_value = value;
	return TFC_OK;
}

/* Sets a key, one limit of a key, or with key NULL the role or group at c->path. */
static int change_set_value(struct change *c, const struct tfc__json_key *key, const char *limit)
{
	json_t *value = NULL;
	int result = change_read_value(c, key, &value);
	if (result < 0)
		return result;
	if (limit)
		result = tfc__apply_rlimit(&c->apply, key, c->base, limit, value);
	else if (key)
		result = tfc__apply_value(&c->apply, key, c->base, value);
	else
		result = tfc__apply_object(&c->apply, c->keys, c->base, c->path, value);
	json_decref(value);
	return result;
}

/* The key that contains a path such as "env.EPOCHS" or "rlimits.nofile", or NULL. */
static const struct tfc__json_key *find_variable_key(const struct tfc__json_keys *keys,
						     const char *path, const char **ret_name)
{
	for (size_t i = 0; i < keys->count; i++) {
		const struct tfc__json_key *key = &keys->items[i];
		size_t len = strlen(key->path);
		if (key->kind != TFC__KEY_ENV && key->kind != TFC__KEY_SECRETS &&
		    key->kind != TFC__KEY_RLIMITS)
			continue;
		if (strncmp(path, key->path, len) == 0 && path[len] == '.') {
			*ret_name = path + len + 1;
			return key;
		}
	}
	return NULL;
}

/* Reports the first part of the path that is not a key, with a suggestion. */
static int change_fail_unknown(struct change *c)
{
	char *last = strrchr(c->path, '.');
	for (char *dot = strchr(c->path, '.'); dot; dot = strchr(dot + 1, '.')) {
		*dot = '\0';
		bool is_group = tfc__keys_have_group(c->keys, c->path);
		*dot = '.';
		if (!is_group) {
			last = NULL;
			break;
		}
	}
	if (!last) {
		c->path[strcspn(c->path, ".")] = '\0';
		return tfc__apply_unknown(&c->apply, c->keys, "", c->path);
	}
	*last = '\0';
	return tfc__apply_unknown(&c->apply, c->keys, c->path, last + 1);
}

static int change_apply(struct change *c)
{
	const char *name;
	if (!*c->path && !c->is_element) /* the whole role */
		return change_set_value(c, NULL, NULL);
	const struct tfc__json_key *key = tfc__keys_find(c->keys, c->path);
	if (key && c->is_element)
		return tfc__apply_element(&c->apply, key, c->base, c->value);
	if (key)
		return change_set_value(c, key, NULL);
	if (c->is_element)
		return change_fail_unknown(c);
	key = find_variable_key(c->keys, c->path, &name);
	if (key && key->kind == TFC__KEY_RLIMITS)
		return change_set_value(c, key, name);
	if (key)
		return tfc__apply_variable(&c->apply, key, c->base, name, c->value);
	if (tfc__keys_have_group(c->keys, c->path))
		return change_set_value(c, NULL, NULL);
	return change_fail_unknown(c);
}

static int job_set_in_copy(tfc_job *copy, const char *path, char *own_path, const char *value,
			   tfc_error *error)
{
	struct change c = {
		.apply = {.job = copy, .error = error},
		.keys = &tfc__job_keys,
		.base = copy,
		.path = own_path,
		.value = value,
	};
	size_t len = strlen(own_path);
	tfc__key_path_push(&c.apply.path, path);
	if (len > 2 && strcmp(own_path + len - 2, "[]") == 0) {
		c.is_element = true;
		own_path[len - 2] = '\0';
	}
	if (!*own_path)
		return tfc__fail(error, TFC_EINVAL, "job", 0, "the key's path is empty");
	if (strncmp(own_path, "roles.", 6) == 0) {
		char *name = own_path + 6, *dot = strchr(name, '.');
		struct tfc__role *role;
		if (dot)
			*dot = '\0';
		int result = tfc__apply_role(&c.apply, name, &role);
		if (result < 0)
			return result;
		c.keys = &tfc__role_keys;
		c.base = role;
		c.path = dot ? dot + 1 : name + strlen(name);
	}
	return change_apply(&c);
}

int tfc_job_set(tfc_job *job, const char *path, const char *value, tfc_error *error)
{
	if (!job || !path || !value)
		return tfc__fail(error, TFC_EINVAL, "job", 0, "tfc_job_set: an argument is NULL");
	tfc_job *copy = tfc__job_copy(job);
	char *own_path = strdup(path);
	int result = TFC_ENOMEM;
	if (!copy || !own_path)
		tfc__fail_nomem(error, "job");
	else
		result = job_set_in_copy(copy, path, own_path, value, error);
	if (result == TFC_OK) {
		tfc__job_inherit(copy);
		tfc_job older = *job;
		*job = *copy;
		*copy = older;
	}
	tfc_job_free(copy);
	free(own_path);
	return result;
}
