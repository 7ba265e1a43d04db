/*
 * The items that a subscription over a connection has received and not reported yet, and the events
 * in them, one after the other. A batch of output becomes one event for each line, or stays as it
 * is when it goes to another process.
 */
#ifndef TFC_GATEWAY_RECEIVED_ITEMS_H
#define TFC_GATEWAY_RECEIVED_ITEMS_H

#include "base/list.h"
#include "gateway/event_wire.h"
#include "wire/msg.h"

#define TFC__JOB_TASKS_MAX 65536 /* tasks in a cursor */

struct tfc__received_item;

struct tfc__received_items {
	/* For the owner to read: */
	size_t bytes;   /* of all items */
	tfc_event head; /* of the current item */
	uint32_t count; /* of the current item: its head and events; 1: it has no event */
	bool has_event; /* `event` is not reported yet; the owner clears it */
	struct tfc__sub_event event;
	/* Private to received_items.c: */
	struct tfc__link waiting;
	struct tfc__received_item *item; /* the current one, whose events are read from `at` on */
	struct tfc__msg msg;             /* of it */
	uint32_t at;
	struct tfc__reader head_reader, reader; /* strings of the head, and of the event */
	/* `event` is a batch whose lines are reported one after the other: */
	bool has_lines;
	struct tfc__line_batch_reader lines;
	struct tfc__lines_cursor lines_end; /* behind the last one */
};

void tfc__received_items_init(struct tfc__received_items *items);
void tfc__received_items_fini(struct tfc__received_items *items);

/* Drops all items: their events are received again over the next connection. */
void tfc__received_items_clear(struct tfc__received_items *items);

/* Copies an item. TFC_OK or TFC_ENOMEM. */
int tfc__received_items_add(struct tfc__received_items *items, const void *data, size_t len);

/* Drops the current item. Returns whether there was one. */
bool tfc__received_items_drop_current(struct tfc__received_items *items);

/* Parses the next item: 1; 0: there is none; TFC_ENOMEM or TFC_EPARSE. */
int tfc__received_items_next(struct tfc__received_items *items);

/* Reads the next event of the current item: 1, and has_event is false if the event is of a kind
 * that this version does not know; 0: the item has no more; TFC_ENOMEM or TFC_EPARSE. */
int tfc__received_items_read(struct tfc__received_items *items, bool keeps_batches);

#endif
