/*
 * Parses a members file. Errors name the line and the key, as those of a job file do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/memory.h>

#include "base/json.h"
#include "job/job_keys.h"
#include "member/info.h"
#include "member/static_file.h"

#define SLOTS_MAX 1000000
#define MEMORY_MAX 1000000000000000000

/* For suggestions of the nearest key; members_read_key reads the values. */
static const struct tfc__json_key member_key_list[] = {
	{.path = "name"},   {.path = "address"}, {.path = "node_id"}, {.path = "slots"},
	{.path = "memory"}, {.path = "gpus"},    {.path = "labels"},
};
static const struct tfc__json_keys member_keys = {member_key_list,
						  sizeof(member_key_list) /
							  sizeof(member_key_list[0])};
static const struct tfc__json_key file_key_list[] = {{.path = "members"}};
static const struct tfc__json_keys file_keys = {file_key_list, 1};

struct parse {
	struct tfc__key_path path; /* of the value that an error refers to */
	tfc_error *error;
};

#define FAIL(p, ...) tfc__key_fail(&(p)->path, (p)->error, TFC_EINVAL, __VA_ARGS__)

static int members_nomem(struct parse *p)
{
	return tfc__fail_nomem(p->error, "member");
}

static int members_refuse_key(struct parse *p, const struct tfc__json_keys *keys, const char *name)
{
	char near[64];
	if (tfc__keys_suggest(keys, "", name, near))
		return FAIL(p, "unknown key; did you mean %s?", near);
	return FAIL(p, "unknown key");
}

static int members_read_text(struct parse *p, json_t *value, const char **ret_text)
{
	char *copy = json_is_string(value) ? strdup(json_string_value(value)) : NULL;
	if (!json_is_string(value))
		return FAIL(p, "must be a string");
	if (!copy)
		return members_nomem(p);
	free((char *)*ret_text);
	*ret_text = copy;
	return TFC_OK;
}

static int members_read_number(struct parse *p, json_t *value, uint64_t max, uint64_t *ret_number)
{
	json_int_t number = json_integer_value(value);
	if (!json_is_integer(value) || number < 0 || (uint64_t)number > max)
		return FAIL(p, "must be a whole number from 0 to %llu", (unsigned long long)max);
	*ret_number = (uint64_t)number;
	return TFC_OK;
}

static int members_read_count(struct parse *p, json_t *value, uint32_t *ret_count)
{
	uint64_t number = 0;
	int code = members_read_number(p, value, SLOTS_MAX, &number);
	if (code == TFC_OK)
		*ret_count = (uint32_t)number;
	return code;
}

static int members_read_labels(struct parse *p, json_t *value, const char *const **ret_labels)
{
	struct tfc__strv labels = {0};
	const char *name;
	json_t *item;
	int code = TFC_OK;
	if (!json_is_object(value))
		return FAIL(p, "must be an object of strings");
	json_object_foreach(value, name, item)
	{
		const char *text = json_string_value(item);
		char *label = NULL;
		tfc__key_path_push(&p->path, name);
		if (!text)
			code = FAIL(p, "must be a string");
		else if (strchr(name, '='))
			code = FAIL(p, "a label's name has no '='");
		if (code < 0)
			break;
		if (asprintf(&label, "%s=%s", name, text) < 0)
			label = NULL;
		tfc__strv_take(&labels, label);
		if (labels.is_failed) {
			code = members_nomem(p);
			break;
		}
		tfc__key_path_pop(&p->path);
	}
	if (code < 0)
		tfc__strv_fini(&labels);
	else
		*ret_labels = (const char *const *)labels.items;
	return code;
}

static int members_read_key(struct parse *p, const char *name, json_t *value, tfc_member_info *info)
{
	bool is_null = json_is_null(value);
	if (strcmp(name, "name") == 0)
		return members_read_text(p, value, &info->name);
	if (strcmp(name, "address") == 0)
		return members_read_text(p, value, &info->address);
	if (strcmp(name, "node_id") == 0)
		return is_null ? TFC_OK : members_read_text(p, value, &info->node_id);
	if (strcmp(name, "slots") == 0)
		return members_read_count(p, value, &info->slots);
	if (strcmp(name, "memory") == 0)
		return members_read_number(p, value, MEMORY_MAX, &info->memory_bytes);
	if (strcmp(name, "gpus") == 0)
		return members_read_count(p, value, &info->gpus);
	if (strcmp(name, "labels") == 0)
		return is_null ? TFC_OK : members_read_labels(p, value, &info->labels);
	return members_refuse_key(p, &member_keys, name);
}

/* Turns the error about a field into one about its key. */
static int members_check_fields(struct parse *p, const tfc_member_info *info)
{
	static const char *const fields[] = {"name", "address", "node_id", "labels", "gpus"};
	tfc_error detail = TFC_ERROR_INIT;
	if (!info->address && info->name)
		return FAIL(p, "address of member \"%.63s\" is missing", info->name);
	if (tfc__member_check(info, &detail) == TFC_OK)
		return TFC_OK;
	size_t len = strcspn(detail.text, ":");
	for (size_t i = 0; info->name && i < sizeof(fields) / sizeof(fields[0]); i++)
		if (strlen(fields[i]) == len && memcmp(fields[i], detail.text, len) == 0) {
			tfc__key_path_push(&p->path, fields[i]);
			return FAIL(p, "%s", detail.text + len + 2);
		}
	return FAIL(p, "%s", detail.text);
}

static int members_read_member(struct parse *p, json_t *value, tfc_member_info *info)
{
	const char *name;
	json_t *item;
	if (!json_is_object(value))
		return FAIL(p, "must be an object");
	json_object_foreach(value, name, item)
	{
		tfc__key_path_push(&p->path, name);
		int code = members_read_key(p, name, item, info);
		if (code < 0)
			return code;
		tfc__key_path_pop(&p->path);
	}
	return members_check_fields(p, info);
}

/* ---- names and addresses are unique */

/* Compares positions last, so that the error names the second of two. */
static int compare_members(const char *a, const char *b, const tfc_member_info *x,
			   const tfc_member_info *y)
{
	int order = strcmp(a, b);
	return order ? order : (x->state > y->state) - (x->state < y->state);
}

static int compare_by_address(const void *a, const void *b)
{
	const tfc_member_info *x = a, *y = b;
	return compare_members(x->address, y->address, x, y);
}

static int compare_by_name(const void *a, const void *b)
{
	const tfc_member_info *x = a, *y = b;
	return compare_members(x->name, y->name, x, y);
}

static int members_fail_duplicate(struct parse *p, const tfc_member_info *first,
				  const tfc_member_info *second, const char *key)
{
	bool is_name = strcmp(key, "name") == 0;
	tfc__key_path_push_element(&p->path, second->state);
	tfc__key_path_push(&p->path, key);
	if (is_name)
		return FAIL(p, "members[%u] has the same name \"%s\"", first->state, first->name);
	return FAIL(p, "members[%u] (%s) has the same address", first->state, first->name);
}

/* During this check `state` of an item is its position in the file. */
static int members_check_unique(struct parse *p, struct tfc__static_list *list)
{
	qsort(list->items, list->count, sizeof(list->items[0]), compare_by_address);
	for (uint32_t i = 1; i < list->count; i++)
		if (strcmp(list->items[i].address, list->items[i - 1].address) == 0)
			return members_fail_duplicate(p, &list->items[i - 1], &list->items[i],
						      "address");
	qsort(list->items, list->count, sizeof(list->items[0]), compare_by_name);
	for (uint32_t i = 1; i < list->count; i++)
		if (strcmp(list->items[i].name, list->items[i - 1].name) == 0)
			return members_fail_duplicate(p, &list->items[i - 1], &list->items[i],
						      "name");
	for (uint32_t i = 0; i < list->count; i++)
		list->items[i].state = 0;
	return TFC_OK;
}

static int members_read_list(struct parse *p, json_t *value, struct tfc__static_list *list)
{
	size_t count = json_array_size(value);
	if (!json_is_array(value))
		return FAIL(p, "must be a list of members");
	if (!count)
		return FAIL(p, "the list is empty");
	list->items = calloc(count, sizeof(list->items[0]));
	if (!list->items)
		return members_nomem(p);
	for (size_t i = 0; i < count; i++) {
		tfc_member_info *info = &list->items[list->count++];
		*info = (tfc_member_info)TFC_MEMBER_INFO_INIT;
		tfc__key_path_push_element(&p->path, i);
		int code = members_read_member(p, json_array_get(value, i), info);
		if (code < 0)
			return code;
		info->state = (uint32_t)i;
		tfc__key_path_pop(&p->path);
	}
	return members_check_unique(p, list);
}

static int members_read_file(struct parse *p, json_t *root, struct tfc__static_list *list)
{
	const char *name;
	json_t *item;
	if (!json_is_object(root))
		return FAIL(p, "must be an object: {\"members\": [...]}");
	json_object_foreach(root, name, item)
	{
		tfc__key_path_push(&p->path, name);
		int code = strcmp(name, "members") == 0 ? members_read_list(p, item, list)
							: members_refuse_key(p, &file_keys, name);
		if (code < 0)
			return code;
		tfc__key_path_pop(&p->path);
	}
	return list->items ? TFC_OK : FAIL(p, "the key \"members\" is missing");
}

/* Prefixes the error with "members.json:12: ". */
static int members_fail_at(const char *file, uint32_t line, int code, tfc_error *error)
{
	if (error)
		error->component = "member";
	return tfc__fail_prefix(error, code, "%.80s:%u: ", file, line);
}

int tfc__static_parse(const char *json, size_t len, const char *file, tfc_error *error,
		      struct tfc__static_list *ret_list)
{
	struct parse p = {.error = error};
	json_error_t detail;
	json_t *root = NULL;
	*ret_list = (struct tfc__static_list){0};
	int code = tfc__json_load(json, len, JSON_REJECT_DUPLICATES, &detail, &root);
	if (code == TFC_ENOMEM)
		return members_nomem(&p);
	if (code < 0) {
		tfc__fail(error, TFC_EPARSE, "member", 0, "%s", detail.text);
		return members_fail_at(file, detail.line > 0 ? (uint32_t)detail.line : 1, code,
				       error);
	}
	code = members_read_file(&p, root, ret_list);
	if (code < 0 && code != TFC_ENOMEM)
		members_fail_at(file, tfc__key_line(json, len, &p.path), code, error);
	json_decref(root); /* last: the path points into it */
	if (code < 0)
		tfc__static_list_free(ret_list);
	return code;
}

void tfc__static_list_free(struct tfc__static_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		tfc_member_info *item = &list->items[i];
		free((char *)item->name);
		free((char *)item->address);
		free((char *)item->node_id);
		tfc_strv_free((char **)item->labels);
	}
	free(list->items);
	*list = (struct tfc__static_list){0};
}
