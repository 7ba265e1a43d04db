/*
 * The position of a watch: for each node, up to which change of its jobs the watch has reported. As
 * text it is the cursor that events carry, "NODE:INCARNATION:APPEARED:CHANGED" for each node,
 * separated by commas, the numbers with 16 hexadecimal digits. An event changes one node's numbers
 * in place, so that a cursor costs the same however many nodes there are. A cursor comes from a
 * client: it has at most TFC__WATCH_NODES_MAX nodes.
 */
#ifndef TFC_GATEWAY_WATCH_POSITION_H
#define TFC_GATEWAY_WATCH_POSITION_H

#include "base/buf.h"
#include "base/map.h"
#include "cluster/changes.h"
#include "gateway/place.h"

#define TFC__WATCH_NODES_MAX 4096

struct tfc__watch_slot {
	char node[64];
	struct tfc__changes_position at;
	size_t text;   /* where its numbers are in the text */
	uint32_t same; /* another slot with the same hash, + 1; 0: none */
};

/* A zeroed position is the beginning. */
struct tfc__watch_position {
	struct tfc__watch_slot *slots;
	uint32_t count;
	struct tfc__map index; /* from the hash of a node to its slot, + 1 */
	struct tfc__buf text;
};

/* Whether it is the name of a member, which a cursor can hold. */
bool tfc__watch_position_is_node(const char *name);

/* TFC_OK or TFC_ENOMEM; only a new node can fail. */
int tfc__watch_position_set(struct tfc__watch_position *position, const char *node,
			    const struct tfc__changes_position *at);
void tfc__watch_position_remove(struct tfc__watch_position *position, const char *node);
/* Moves over an event of the node. TFC_OK or TFC_ENOMEM. */
int tfc__watch_position_apply(struct tfc__watch_position *position, const char *node,
			      const struct tfc__mark *mark);
/* NULL: nothing of that node was reported. */
const struct tfc__changes_position *
tfc__watch_position_find(const struct tfc__watch_position *position, const char *node);

/* The cursor; "" at the beginning. Valid until the position changes. */
const char *tfc__watch_position_text(const struct tfc__watch_position *position);
/* Reads a cursor into a zeroed position. TFC_OK, TFC_EINVAL, TFC_ENOMEM. Call
 * tfc__watch_position_fini in any case. */
int tfc__watch_position_read(struct tfc__watch_position *position, const char *text);

size_t tfc__watch_position_bytes(const struct tfc__watch_position *position);
void tfc__watch_position_fini(struct tfc__watch_position *position);

#endif
