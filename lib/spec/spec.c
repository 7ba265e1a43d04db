#include "spec/spec.h"
#include "base/fail.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char *const type_names[TFC__TYPE_COUNT] = {"chief", "worker", "ps", "evaluator"};

const char *tfc__task_type_name(enum tfc__task_type type)
{
	return type_names[type];
}

enum tfc__task_type tfc__task_type_find(const char *name)
{
	enum tfc__task_type type = TFC__CHIEF;
	while (type < TFC__TYPE_COUNT && (!name || strcmp(name, type_names[type]) != 0))
		type++;
	return type;
}

int tfc_spec_new(tfc_spec **ret_spec)
{
	if (!ret_spec)
		return TFC_EINVAL;
	tfc_spec *spec = calloc(1, sizeof(*spec));
	struct tfc__spec_common *common = calloc(1, sizeof(*common));
	if (!spec || !common) {
		free(spec);
		free(common);
		return TFC_ENOMEM;
	}
	spec->common = common;
	*ret_spec = spec;
	return 0;
}

void tfc_spec_free(tfc_spec *spec)
{
	if (!spec)
		return;
	for (int type = 0; type < TFC__TYPE_COUNT; type++) {
		struct tfc__spec_list *list = &spec->lists[type];
		for (uint32_t i = 0; i < list->count; i++) {
			free(list->items[i].address);
			free(list->items[i].key);
		}
		free(list->items);
	}
	tfc__spec_common_clear(spec->common);
	free(spec->common);
	free(spec->seen);
	free(spec);
}

/* The position of a task in its list, or the position at which to insert it. */
static uint32_t spec_list_position(const struct tfc__spec_list *list, uint32_t task_index)
{
	uint32_t low = 0, high = list->count;
	if (high && list->items[high - 1].index < task_index)
		return high;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (list->items[middle].index < task_index)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct tfc__spec_task *tfc__spec_find(const tfc_spec *spec, enum tfc__task_type type,
					    uint32_t task_index)
{
	const struct tfc__spec_list *list = &spec->lists[type];
	uint32_t at = spec_list_position(list, task_index);
	return at < list->count && list->items[at].index == task_index ? &list->items[at] : NULL;
}

bool tfc__spec_is_dense(const struct tfc__spec_list *list)
{
	return list->count == 0 || list->items[list->count - 1].index == list->count - 1;
}

/* The slot that holds the key, or the free slot for it. */
static const char **seen_slot(const char **seen, uint32_t capacity, const char *key)
{
	uint32_t at = tfc__text_hash(key, strlen(key)) & (capacity - 1);
	while (seen[at] && strcmp(seen[at], key) != 0)
		at = (at + 1) & (capacity - 1);
	return &seen[at];
}

/* Keeps the table at most half full after one more key is added. */
static int seen_reserve(tfc_spec *spec)
{
	if (spec->task_count + 1 <= spec->seen_capacity / 2)
		return 0;
	uint32_t capacity = spec->seen_capacity ? spec->seen_capacity * 2 : 16;
	const char **seen = calloc(capacity, sizeof(*seen));
	if (!seen)
		return TFC_ENOMEM;
	for (uint32_t i = 0; i < spec->seen_capacity; i++)
		if (spec->seen[i])
			*seen_slot(seen, capacity, spec->seen[i]) = spec->seen[i];
	free(spec->seen);
	spec->seen = seen;
	spec->seen_capacity = capacity;
	return 0;
}

/* Names the task that already has the address. The linear search is paid only on failure. */
static int spec_refuse_duplicate(const tfc_spec *spec, enum tfc__task_type type,
				 uint32_t task_index, const char *address, const char *key,
				 tfc_error *error)
{
	for (int other = 0; other < TFC__TYPE_COUNT; other++)
		for (uint32_t i = 0; i < spec->lists[other].count; i++)
			if (strcmp(spec->lists[other].items[i].key, key) == 0)
				return tfc__fail(error, TFC_ESPEC, "spec", 0,
						 "%s/%u: address \"%s\" is already the address of "
						 "%s/%u; give each task a port of its own",
						 type_names[type], task_index, address,
						 type_names[other],
						 spec->lists[other].items[i].index);
	return tfc__fail(error, TFC_ESPEC, "spec", 0, "%s/%u: address \"%s\" is in use",
			 type_names[type], task_index, address);
}

static int spec_insert(tfc_spec *spec, enum tfc__task_type type, uint32_t task_index,
		       const char *address, const char *key)
{
	struct tfc__spec_list *list = &spec->lists[type];
	if (seen_reserve(spec) < 0)
		return TFC_ENOMEM;
	if (list->count == list->capacity) {
		uint32_t capacity = list->capacity ? list->capacity * 2 : 4;
		struct tfc__spec_task *items = realloc(list->items, capacity * sizeof(*items));
		if (!items)
			return TFC_ENOMEM;
		list->items = items;
		list->capacity = capacity;
	}
	struct tfc__spec_task task = {task_index, strdup(address), strdup(key)};
	if (!task.address || !task.key) {
		free(task.address);
		free(task.key);
		return TFC_ENOMEM;
	}
	uint32_t at = spec_list_position(list, task_index);
	memmove(list->items + at + 1, list->items + at, (list->count - at) * sizeof(task));
	list->items[at] = task;
	list->count++;
	spec->task_count++;
	*seen_slot(spec->seen, spec->seen_capacity, task.key) = task.key;
	tfc__spec_common_clear(spec->common);
	return 0;
}

int tfc_spec_add(tfc_spec *spec, const char *task_type, uint32_t task_index, const char *address,
		 tfc_error *error)
{
	if (!spec || !task_type || !address)
		return tfc__fail(error, TFC_EINVAL, "spec", 0,
				 "tfc_spec_add: spec, task_type and address must not be NULL");
	enum tfc__task_type type = TFC__TYPE_COUNT;
	char key[TFC__ADDRESS_SIZE];
	int code = tfc__rules_type(task_type, task_index, error, &type);
	if (code == 0)
		code = tfc__rules_index(type, task_index, error);
	if (code == 0)
		code = tfc__address_check(task_type, task_index, address, error, key);
	if (code < 0)
		return code;
	if (tfc__spec_find(spec, type, task_index))
		return tfc__fail(error, TFC_ESPEC, "spec", 0,
				 "%s/%u: is in the cluster already; give it another index",
				 task_type, task_index);
	if (spec->seen && *seen_slot(spec->seen, spec->seen_capacity, key))
		return spec_refuse_duplicate(spec, type, task_index, address, key, error);
	if (spec_insert(spec, type, task_index, address, key) < 0)
		return tfc__fail_nomem(error, "spec");
	return 0;
}

uint32_t tfc_spec_count(const tfc_spec *spec, const char *task_type)
{
	if (!spec)
		return 0;
	if (!task_type)
		return spec->task_count;
	enum tfc__task_type type = tfc__task_type_find(task_type);
	return type == TFC__TYPE_COUNT ? 0 : spec->lists[type].count;
}

const char *tfc_spec_address(const tfc_spec *spec, const char *task_type, uint32_t task_index)
{
	enum tfc__task_type type = tfc__task_type_find(task_type);
	if (!spec || type == TFC__TYPE_COUNT)
		return NULL;
	const struct tfc__spec_task *task = tfc__spec_find(spec, type, task_index);
	return task ? task->address : NULL;
}

int tfc_spec_each(const tfc_spec *spec, tfc_spec_each_fn fn, void *user)
{
	if (!spec || !fn)
		return TFC_EINVAL;
	for (int type = 0; type < TFC__TYPE_COUNT; type++) {
		const struct tfc__spec_list *list = &spec->lists[type];
		for (uint32_t i = 0; i < list->count; i++) {
			int result = fn(user, type_names[type], list->items[i].index,
					list->items[i].address);
			if (result)
				return result;
		}
	}
	return 0;
}

int tfc_spec_equal(const tfc_spec *a, const tfc_spec *b)
{
	if (!a || !b)
		return a == b;
	for (int type = 0; type < TFC__TYPE_COUNT; type++) {
		const struct tfc__spec_list *x = &a->lists[type], *y = &b->lists[type];
		if (x->count != y->count)
			return 0;
		for (uint32_t i = 0; i < x->count; i++)
			if (x->items[i].index != y->items[i].index ||
			    strcmp(x->items[i].address, y->items[i].address) != 0)
				return 0;
	}
	return 1;
}

/* ---- the part of a cluster that one worker sees with "topology": "partial" */

static int part_copy_task(tfc_spec *part, enum tfc__task_type type,
			  const struct tfc__spec_task *task, tfc_error *error)
{
	return tfc_spec_add(part, tfc__task_type_name(type), task->index, task->address, error);
}

static int part_copy_list(tfc_spec *part, const tfc_spec *spec, enum tfc__task_type type,
			  tfc_error *error)
{
	int code = 0;
	for (uint32_t i = 0; code == 0 && i < spec->lists[type].count; i++)
		code = part_copy_task(part, type, &spec->lists[type].items[i], error);
	return code;
}

int tfc_spec_part(const tfc_spec *spec, uint32_t worker_index, tfc_error *error,
		  tfc_spec **ret_part)
{
	tfc_spec *part = NULL;
	if (!spec || !ret_part)
		return tfc__fail(error, TFC_EINVAL, "spec", 0,
				 "tfc_spec_part: spec and ret_part must not be NULL");
	int code = tfc__rules_task(spec, TFC_STRATEGY_NONE, TFC__WORKER, worker_index, error);
	if (code < 0)
		return code;
	if (tfc_spec_new(&part) < 0)
		return tfc__fail_nomem(error, "spec");
	part->is_part = true;
	code = part_copy_list(part, spec, TFC__CHIEF, error);
	if (code == 0)
		code = part_copy_task(part, TFC__WORKER,
				      tfc__spec_find(spec, TFC__WORKER, worker_index), error);
	if (code == 0)
		code = part_copy_list(part, spec, TFC__PS, error);
	if (code < 0) {
		tfc_spec_free(part);
		return code;
	}
	*ret_part = part;
	return 0;
}
