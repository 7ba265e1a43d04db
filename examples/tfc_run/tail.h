/* Keeps the last lines of each task among the events received so far. */
#ifndef TFC_RUN_TAIL_H
#define TFC_RUN_TAIL_H

#include "output.h"

struct tail_task;

struct tail {
	uint32_t limit; /* lines of each task; 0: nothing is kept */
	struct tasks tasks;
	struct tail_task *kept; /* of each task in `tasks` */
	uint64_t number;        /* sequence number of the next event */
};

void tail_begin(struct tail *tail, uint32_t limit);
void tail_end(struct tail *tail);

/* Keeps a copy of an output event or a gap. */
void tail_add(struct tail *tail, const tfc_event *event);

/* Shows the kept lines, in the order in which they were received. */
void tail_each(struct tail *tail, struct output *output);

#endif
