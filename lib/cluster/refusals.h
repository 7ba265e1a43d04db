/*
 * What nodes have said of their ports to one job: how many of the pool it can have there, and which
 * of its fixed ports are taken. It is believed for a few seconds; then the node is asked again.
 */
#ifndef TFC_CLUSTER_REFUSALS_H
#define TFC_CLUSTER_REFUSALS_H

#include "cluster/nodes.h"
#include "cluster/placement.h"

/* A list of them: struct tfc__refusal by `link`. */
struct tfc__refusal {
	struct tfc__link link;
	struct tfc__node_entry *node; /* used */
	uint64_t until;
	struct tfc__place_ports ports;
	uint8_t *barred;
	char text[160];
};

/* A HOLD failed there. TFC_ENOMEM, TFC_EINVAL (the task needs no port): nothing is noted. */
int tfc__refusals_note(struct tfc__link *refusals, struct tfc__node_entry *node, const tfc_job *job,
		       const struct tfc__agent_event *event);
/* Drops the old ones; the time when the next one will be old, 0: there is none. */
uint64_t tfc__refusals_expire(struct tfc__link *refusals);
/* NULL: it has said nothing lately. */
const struct tfc__place_ports *tfc__refusals_find(const struct tfc__link *refusals,
						  const struct tfc__node_entry *node);
void tfc__refusals_free(struct tfc__link *refusals);

#endif
