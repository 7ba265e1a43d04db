/*
 * A hash table of things that have a name: chains of intrusive links. It needs no memory of its
 * own, so adding never fails. Names need not be unique.
 */
#ifndef TFC_BASE_NAME_TABLE_H
#define TFC_BASE_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/list.h"
#include "base/text.h"

#define TFC__NAME_BUCKETS 256

struct tfc__named {
	struct tfc__link link;
	const char *name; /* borrowed while it is in a table */
};

struct tfc__name_table {
	struct tfc__link buckets[TFC__NAME_BUCKETS];
};

static inline void tfc__names_init(struct tfc__name_table *table)
{
	for (size_t i = 0; i < TFC__NAME_BUCKETS; i++)
		tfc__list_init(&table->buckets[i]);
}

/* The chain of all names with the same hash as this one. */
static inline struct tfc__link *tfc__names_like(struct tfc__name_table *table, const char *name)
{
	return &table->buckets[tfc__text_hash(name, strlen(name)) % TFC__NAME_BUCKETS];
}

static inline void tfc__name_add(struct tfc__name_table *table, struct tfc__named *named,
				 const char *name)
{
	named->name = name;
	tfc__list_append(tfc__names_like(table, name), &named->link);
}

static inline void tfc__name_remove(struct tfc__named *named)
{
	tfc__list_remove(&named->link);
}

/* The first with this name, or NULL. */
static inline struct tfc__named *tfc__name_find(struct tfc__name_table *table, const char *name)
{
	TFC__LIST_EACH (link, tfc__names_like(table, name)) {
		struct tfc__named *named = tfc__container_of(link, struct tfc__named, link);
		if (strcmp(named->name, name) == 0)
			return named;
	}
	return NULL;
}

#endif
