/* A store in memory, for a node without a state directory. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "store/internal.h"

struct item {
	uint64_t version;
	size_t len;
	void *data; /* in the same allocation, after the struct */
	char *key;  /* in the same allocation, after the data */
};

struct memory {
	struct item **items; /* in the order of keys */
	uint32_t count;
	uint32_t capacity;
	uint64_t version;
	uint8_t seal_key[TFC__STORE_SEAL_SIZE];
};

/* The position of the key, or the position at which to insert it. */
static uint32_t memory_store_find(const struct memory *memory, const char *key)
{
	uint32_t from = 0, until = memory->count;
	while (from < until) {
		uint32_t middle = from + (until - from) / 2;
		if (strcmp(memory->items[middle]->key, key) < 0)
			from = middle + 1;
		else
			until = middle;
	}
	return from;
}

static bool memory_store_has_at(const struct memory *memory, uint32_t place, const char *key)
{
	return place < memory->count && strcmp(memory->items[place]->key, key) == 0;
}

/* The number of items from `place` on whose keys begin with the prefix. */
static uint32_t memory_store_count_below(const struct memory *memory, uint32_t place,
					 const char *prefix)
{
	uint32_t until = place;
	while (until < memory->count &&
	       strncmp(memory->items[until]->key, prefix, strlen(prefix)) == 0)
		until++;
	return until - place;
}

static tfc_store_value memory_item_value(const struct item *item)
{
	return (tfc_store_value){.size = sizeof(tfc_store_value),
				 .key = item->key,
				 .data = item->data,
				 .len = item->len,
				 .version = item->version};
}

static void memory_store_get(void *impl, const char *key, tfc_store_done done, void *request)
{
	const struct memory *memory = impl;
	uint32_t place = memory_store_find(memory, key);
	if (!memory_store_has_at(memory, place, key)) {
		done(request, TFC_ENOENT, NULL, 0, "no such record");
		return;
	}
	tfc_store_value value = memory_item_value(memory->items[place]);
	done(request, TFC_OK, &value, 1, NULL);
}

static void memory_store_list(void *impl, const char *prefix, tfc_store_done done, void *request)
{
	const struct memory *memory = impl;
	uint32_t first = memory_store_find(memory, prefix);
	uint32_t count = memory_store_count_below(memory, first, prefix);
	tfc_store_value *values = calloc(count ? count : 1, sizeof(*values));
	if (!values) {
		done(request, TFC_ENOMEM, NULL, 0, NULL);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		values[i] = memory_item_value(memory->items[first + i]);
	done(request, TFC_OK, values, count, NULL);
	free(values);
}

static struct item *memory_item_new(const char *key, const void *data, size_t len)
{
	size_t key_size = strlen(key) + 1;
	struct item *item = malloc(sizeof(*item) + len + key_size);
	if (!item)
		return NULL;
	*item = (struct item){.len = len, .data = item + 1, .key = (char *)(item + 1) + len};
	memcpy(item->key, key, key_size);
	if (len)
		memcpy(item->data, data, len);
	return item;
}

static void memory_store_move_items(struct memory *memory, uint32_t from, uint32_t to)
{
	memmove(memory->items + to, memory->items + from,
		(memory->count - from) * sizeof(struct item *));
	memory->count = memory->count - from + to;
}

static void memory_store_put(void *impl, const char *key, const void *data, uint64_t len,
			     uint64_t version, tfc_store_done done, void *request)
{
	struct memory *memory = impl;
	uint32_t place = memory_store_find(memory, key);
	struct item *older = memory_store_has_at(memory, place, key) ? memory->items[place] : NULL;
	if (version != UINT64_MAX && version != (older ? older->version : 0)) {
		done(request, TFC_ESTATE, NULL, 0, "the record has another version");
		return;
	}
	if (memory->count == memory->capacity) {
		uint32_t capacity = memory->capacity ? 2 * memory->capacity : 16;
		struct item **items = realloc(memory->items, capacity * sizeof(struct item *));
		if (!items) {
			done(request, TFC_ENOMEM, NULL, 0, NULL);
			return;
		}
		memory->items = items;
		memory->capacity = capacity;
	}
	struct item *item = memory_item_new(key, data, len);
	if (!item) {
		done(request, TFC_ENOMEM, NULL, 0, NULL);
		return;
	}
	if (older)
		free(older);
	else
		memory_store_move_items(memory, place, place + 1);
	memory->items[place] = item;
	item->version = ++memory->version;
	tfc_store_value value = memory_item_value(item);
	done(request, TFC_OK, &value, 1, NULL);
}

static void memory_store_drop_items(struct memory *memory, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		free(memory->items[first + i]);
	if (count)
		memory_store_move_items(memory, first + count, first);
}

static void memory_store_remove(void *impl, const char *key, tfc_store_done done, void *request)
{
	struct memory *memory = impl;
	size_t len = strlen(key);
	uint32_t first = memory_store_find(memory, key);
	bool is_one = key[len - 1] != '/';
	uint32_t count = is_one ? memory_store_has_at(memory, first, key)
				: memory_store_count_below(memory, first, key);
	memory_store_drop_items(memory, first, count);
	if (is_one && !count)
		done(request, TFC_ENOENT, NULL, 0, "no such record");
	else
		done(request, TFC_OK, NULL, 0, NULL);
}

static void memory_store_close(void *impl)
{
	struct memory *memory = impl;
	memory_store_drop_items(memory, 0, memory->count);
	free(memory->items);
	sodium_memzero(memory->seal_key, sizeof(memory->seal_key));
	free(memory);
}

int tfc__store_open_memory(tfc_ctx *ctx, tfc_error *error, struct tfc__store **ret_store)
{
	static const tfc_store_ops ops = {
		.size = sizeof(ops),
		.get = memory_store_get,
		.list = memory_store_list,
		.put = memory_store_put,
		.remove = memory_store_remove,
		.close = memory_store_close,
	};
	struct memory *memory = calloc(1, sizeof(*memory));
	if (!memory)
		return tfc__fail_nomem(error, "store");
	randombytes_buf(memory->seal_key, sizeof(memory->seal_key));
	const struct tfc__store_kind kind = {.seal_key = memory->seal_key, .is_volatile = true};
	return tfc__store_open(ctx, &ops, memory, &kind, error, ret_store);
}
