#include "feed/table.h"

#include <stdlib.h>

#define NONE UINT32_MAX

void *tfc__feed_table_find(const struct tfc__feed_table *table, uint64_t number)
{
	uint32_t index = tfc__map_get(&table->by_number, number, NONE);
	return index == NONE ? NULL : table->records[index];
}

bool tfc__feed_table_add(struct tfc__feed_table *table, uint64_t number, void *record)
{
	if (table->count == table->capacity) {
		uint32_t capacity = table->capacity ? 2 * table->capacity : 16;
		void **records = realloc(table->records, capacity * sizeof(*records));
		if (!records)
			return false;
		table->records = records;
		table->capacity = capacity;
	}
	if (!tfc__map_set(&table->by_number, number, table->count))
		return false;
	table->records[table->count++] = record;
	return true;
}

void tfc__feed_table_remove(struct tfc__feed_table *table, uint64_t number,
			    uint64_t (*number_of)(const void *record))
{
	uint32_t index = tfc__map_get(&table->by_number, number, NONE);
	if (index == NONE)
		return;
	tfc__map_remove(&table->by_number, number);
	void *last = table->records[--table->count];
	if (index == table->count)
		return;
	table->records[index] = last;
	tfc__map_set(&table->by_number, number_of(last), index); /* replaces: does not fail */
}

void tfc__feed_table_fini(struct tfc__feed_table *table)
{
	free(table->records);
	tfc__map_fini(&table->by_number);
	*table = (struct tfc__feed_table){0};
}
