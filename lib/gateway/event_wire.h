/*
 * Events as they travel in the stream of "gateway.subscribe": an item is a list of a head, {job,
 * name, tag}, and events, maps of what is not 0 or empty. With each goes how far the subscription
 * is once it was told, so that another connection can go on behind it.
 */
#ifndef TFC_GATEWAY_EVENT_WIRE_H
#define TFC_GATEWAY_EVENT_WIRE_H

#include "gateway/internal.h"
#include "wire/msg.h"

/* Adds one event. Out of memory is in buf->is_failed. `scratch` is empty before and after. */
void tfc__told_write(struct tfc__buf *buf, struct tfc__buf *scratch, const tfc_event *event,
		     const struct tfc__mark *mark);
void tfc__told_write_head(struct tfc__buf *buf, const tfc_event *event);

/* An event that was read: its strings are in `text`, `tail` and `ignored`, its data in the message.
 */
struct tfc__told_in {
	tfc_event event;
	struct tfc__mark mark;
	struct tfc__buf text;
	char **tail;    /* log_tail */
	char **ignored; /* ignored_failures */
};

/* TFC_OK, TFC_EPARSE (no kind that this version knows), TFC_ENOMEM. `in` is zeroed at first, then
 * read into again and again, and ended with tfc__told_in_fini. */
int tfc__told_read(struct tfc__told_in *in, const msgpack_object *head,
		   const msgpack_object *object);
void tfc__told_in_fini(struct tfc__told_in *in);

#endif
