/*
 * Nodes' refusals of ports to one job: how many ports of the pool the job can have on a node, and
 * which of its fixed ports are in use there. A refusal counts for a few seconds; then the node is
 * tried again.
 */
#ifndef TFC_CLUSTER_REFUSALS_H
#define TFC_CLUSTER_REFUSALS_H

#include "cluster/nodes.h"
#include "cluster/placement.h"

/* An element of a list, by `link`. */
struct tfc__refusal {
	struct tfc__link link;
	struct tfc__node_entry *node; /* kept in use */
	uint64_t until;
	struct tfc__place_ports ports;
	uint8_t *barred;
	char text[1024];
};

/* Notes a HOLD that failed on the node. Returns TFC_ENOMEM or TFC_EINVAL (the task needs no port);
 * nothing is noted then. */
int tfc__refusals_note(struct tfc__link *refusals, struct tfc__node_entry *node, const tfc_job *job,
		       const struct tfc__task_event *event);
/* Drops expired refusals. Returns the time when the next one expires; 0: there is none. */
uint64_t tfc__refusals_expire(struct tfc__link *refusals);
/* NULL: there is no refusal of the node */
const struct tfc__place_ports *tfc__refusals_find(const struct tfc__link *refusals,
						  const struct tfc__node_entry *node);
void tfc__refusals_free(struct tfc__link *refusals);

#endif
