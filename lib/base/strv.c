#include "base/strv.h"

#include <stdlib.h>
#include <string.h>

#include <tfcluster/memory.h>

void tfc__strv_take(struct tfc__strv *strv, char *text)
{
	if (!text || strv->is_failed)
		goto fail;
	if (strv->count + 1 >= strv->capacity) {
		size_t capacity = strv->capacity ? strv->capacity * 2 : 16;
		char **items = realloc(strv->items, capacity * sizeof(*items));
		if (!items)
			goto fail;
		strv->items = items;
		strv->capacity = capacity;
	}
	strv->items[strv->count++] = text;
	strv->items[strv->count] = NULL;
	return;
fail:
	strv->is_failed = true;
	free(text);
}

void tfc__strv_add(struct tfc__strv *strv, const char *text)
{
	tfc__strv_take(strv, strdup(text));
}

void tfc__strv_add_all(struct tfc__strv *strv, const char *const *items)
{
	for (; items && *items; items++)
		tfc__strv_add(strv, *items);
}

static char **strv_find_env(char **env, const char *name, size_t len)
{
	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return env;
	return NULL;
}

void tfc__strv_set_env(struct tfc__strv *strv, const char *name, const char *value)
{
	size_t name_len = strlen(name), value_len = strlen(value);
	char *text = malloc(name_len + value_len + 2);
	if (text) {
		memcpy(text, name, name_len);
		text[name_len] = '=';
		memcpy(text + name_len + 1, value, value_len + 1);
	}
	tfc__strv_set_variable(strv, text);
}

void tfc__strv_set_variable(struct tfc__strv *strv, char *text)
{
	char **older = text ? strv_find_env(strv->items, text, strcspn(text, "=")) : NULL;
	if (!older) {
		tfc__strv_take(strv, text);
		return;
	}
	free(*older);
	*older = text;
}

void tfc__strv_unset_env(struct tfc__strv *strv, const char *name)
{
	char **item = strv_find_env(strv->items, name, strlen(name));
	if (!item)
		return;
	free(*item);
	*item = strv->items[--strv->count];
	strv->items[strv->count] = NULL;
}

const char *tfc__env_get(const char *const *env, const char *name)
{
	size_t len = strlen(name);
	for (; env && *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

char **tfc__strv_steal(struct tfc__strv *strv)
{
	if (!strv->items && !strv->is_failed)
		strv->items = calloc(1, sizeof(*strv->items));
	char **items = strv->items;
	if (strv->is_failed) {
		tfc_strv_free(items);
		items = NULL;
	}
	*strv = (struct tfc__strv){0};
	return items;
}

void tfc__strv_fini(struct tfc__strv *strv)
{
	tfc_strv_free(strv->items);
	*strv = (struct tfc__strv){0};
}

void tfc_strv_free(char **env)
{
	for (char **item = env; item && *item; item++)
		free(*item);
	free(env);
}

void tfc_free(void *memory)
{
	free(memory);
}
