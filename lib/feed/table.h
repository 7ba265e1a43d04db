/* Records by the number of their partition. */
#ifndef TFC_FEED_TABLE_H
#define TFC_FEED_TABLE_H

#include "base/map.h"

/* Zeroed: empty. */
struct tfc__feed_table {
	void **records; /* in no order */
	uint32_t count;
	uint32_t capacity;
	struct tfc__map by_number; /* the index in `records` */
};

void *tfc__feed_table_find(const struct tfc__feed_table *table, uint64_t number); /* or NULL */
/* The caller keeps the record. Returns false when out of memory. */
bool tfc__feed_table_add(struct tfc__feed_table *table, uint64_t number, void *record);
/* `number_of` is the number of the record that takes its index. */
void tfc__feed_table_remove(struct tfc__feed_table *table, uint64_t number,
			    uint64_t (*number_of)(const void *record));
void tfc__feed_table_fini(struct tfc__feed_table *table);

#endif
