/*
 * The position of a watch: for each node, up to which change of its jobs the watch has reported. As
 * text it is the cursor that events carry, "NODE:INCARNATION:APPEARED:CHANGED" for each node,
 * separated by commas, the numbers with 16 hexadecimal digits. An event changes one node's numbers
 * in place, so that a cursor costs the same however many nodes there are.
 */
#ifndef TFC_GATEWAY_WATCH_POSITION_H
#define TFC_GATEWAY_WATCH_POSITION_H

#include "base/buf.h"
#include "cluster/changes.h"

struct tfc__watch_slot {
	char node[64];
	struct tfc__changes_position at;
	size_t text; /* where its numbers are in the text */
};

/* A zeroed position is the beginning. */
struct tfc__watch_position {
	struct tfc__watch_slot *slots;
	uint32_t count;
	uint32_t last; /* the slot that was found last */
	struct tfc__buf text;
};

/* TFC_OK or TFC_ENOMEM; only a new node can fail. */
int tfc__watch_position_set(struct tfc__watch_position *position, const char *node,
			    const struct tfc__changes_position *at);
void tfc__watch_position_remove(struct tfc__watch_position *position, const char *node);
/* NULL: nothing of that node was reported. */
const struct tfc__changes_position *tfc__watch_position_find(struct tfc__watch_position *position,
							     const char *node);

/* The cursor; "" at the beginning. Valid until the position changes. */
const char *tfc__watch_position_text(const struct tfc__watch_position *position);
/* Reads a cursor into a zeroed position. TFC_OK, TFC_EINVAL, TFC_ENOMEM. Call
 * tfc__watch_position_fini in any case. */
int tfc__watch_position_read(struct tfc__watch_position *position, const char *text);

size_t tfc__watch_position_bytes(const struct tfc__watch_position *position);
void tfc__watch_position_fini(struct tfc__watch_position *position);

#endif
