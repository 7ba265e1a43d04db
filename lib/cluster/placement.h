/*
 * Placement: which node each task goes to. A pure function of the members, what they have left and
 * the job's wishes; whatever changes is asked again.
 */
#ifndef TFC_CLUSTER_PLACEMENT_H
#define TFC_CLUSTER_PLACEMENT_H

#include "base/fail.h"
#include "job/job.h"
#include "member/member.h"

/* What one node has and how much of it this maintainer's jobs have taken. */
struct tfc__place_node {
	const struct tfc__member *member;
	uint32_t tasks;  /* taken: of all jobs known here */
	uint64_t memory; /* taken, bytes */
	uint32_t gpus;   /* taken */
	bool is_avoided; /* attempts failed there lately: only when nowhere else fits */
};

struct tfc__place_request {
	const tfc_job *job;
	const uint32_t *tasks; /* task numbers to place */
	uint32_t task_count;
	const uint32_t *at; /* per task of the whole job: index of its node now, or UINT32_MAX */
	struct tfc__place_node *nodes; /* `tasks`, `memory`, `gpus` are raised by what is placed */
	uint32_t node_count;
	uint64_t seed; /* where a round begins, so that jobs do not all start on node 0 */
};

/* ret_nodes: per task asked for, an index of nodes. All or nothing: TFC_OK, or TFC_EAGAIN with the
 * sentence of what it waits for ("worker/2 needs a node with label gpu=a100: none has it") and all
 * counts as they were. */
int tfc__place(const struct tfc__place_request *request, uint32_t *ret_nodes, tfc_error *error);

#endif
