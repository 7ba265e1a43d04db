/*
 * What the files of placement share.
 */
#ifndef TFC_CLUSTER_PLACEMENT_INSIDE_H
#define TFC_CLUSTER_PLACEMENT_INSIDE_H

#include "cluster/placement.h"

/* What is left of a node. */
struct tfc__place_room {
	bool is_usable; /* takes tasks and has the labels */
	bool is_avoided;
	uint64_t slots;  /* UINT64_MAX: no limit */
	uint64_t memory; /* UINT64_MAX: no limit */
	uint32_t gpus;
	uint32_t ports;        /* of the pool; UINT32_MAX: no limit known */
	const uint8_t *barred; /* as in struct tfc__place_ports, or NULL */
	uint32_t own;          /* tasks of this job there */
	uint32_t load;         /* of all jobs */
};

/* A task to be placed. */
struct tfc__place_item {
	uint32_t task;
	uint32_t position; /* in the request */
	uint32_t node;     /* UINT32_MAX: none yet */
	struct tfc__place_need need;
};

struct tfc__place {
	const struct tfc__place_request *request;
	struct tfc__place_room *empty_rooms; /* as they were */
	struct tfc__place_room *rooms;
	struct tfc__place_item *items; /* what needs most stands first */
};

bool tfc__place_takes_tasks(const struct tfc__member *member);
bool tfc__place_has_label(const struct tfc__member *member, const char *label);
uint64_t tfc__place_fit(const struct tfc__place_room *room, const struct tfc__place_need *need);
void tfc__place_take(struct tfc__place_room *room, const struct tfc__place_need *need,
		     int64_t count);

/* Places the items that have no node in any way at all; false when it found none. */
bool tfc__place_search(struct tfc__place *place);

/* Why nothing fits, from the task that found no place. TFC_EAGAIN. */
int tfc__place_say(const struct tfc__place *place, const struct tfc__place_item *failed,
		   tfc_error *error);

#endif
