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

struct variable {
	char *text;
	size_t at;
};

static int variable_compare_names(const struct variable *a, const struct variable *b)
{
	size_t a_len = strcspn(a->text, "="), b_len = strcspn(b->text, "=");
	int order = memcmp(a->text, b->text, a_len < b_len ? a_len : b_len);
	return order || a_len == b_len ? order : a_len < b_len ? -1 : 1;
}

static int variable_compare(const void *a, const void *b)
{
	const struct variable *first = a, *second = b;
	int order = variable_compare_names(first, second);
	return order ? order : first->at < second->at ? -1 : 1;
}

void tfc__strv_merge_env(struct tfc__strv *strv)
{
	size_t count = strv->count, kept = 0;
	struct variable *sorted = count ? malloc(count * sizeof(*sorted)) : NULL;
	if (!sorted) {
		strv->is_failed |= count > 0;
		return;
	}
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct variable){strv->items[i], i};
	qsort(sorted, count, sizeof(*sorted), variable_compare);
	for (size_t i = 0, first = 0; i < count; i++) {
		bool is_last = i + 1 == count ||
			       variable_compare_names(&sorted[i], &sorted[i + 1]) != 0;
		strv->items[sorted[i].at] = NULL;
		if (!is_last) {
			free(sorted[i].text);
			continue;
		}
		strv->items[sorted[first].at] = sorted[i].text;
		first = i + 1;
	}
	for (size_t i = 0; i < count; i++)
		if (strv->items[i])
			strv->items[kept++] = strv->items[i];
	strv->items[kept] = NULL;
	strv->count = kept;
	free(sorted);
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
