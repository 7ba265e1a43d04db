/*
 * Placement: which node each task goes to. A pure function of the members, what they have left and
 * the job's wishes; whatever changes is asked again.
 */
#ifndef TFC_CLUSTER_PLACEMENT_H
#define TFC_CLUSTER_PLACEMENT_H

#include "base/fail.h"
#include "job/job.h"
#include "member/member.h"

/* What a node has said of its ports when it had none for a task of this job. */
struct tfc__place_ports {
	uint32_t pool; /* the job can have so many of its pool; UINT32_MAX: no limit known */
	const uint8_t *barred; /* per task of the job: its fixed port is taken there */
	bool is_lasting;       /* what has them is no other job, which would give them back */
	const char *text;
};

/* What one node has and how much of it this maintainer's jobs have taken. */
struct tfc__place_node {
	const struct tfc__member *member;
	uint32_t tasks;  /* taken: of all jobs known here */
	uint64_t memory; /* taken, bytes */
	uint32_t gpus;   /* taken */
	bool is_avoided; /* attempts failed there lately: only when nowhere else fits */
	const struct tfc__place_ports *ports; /* NULL: it has said nothing of them */
};

struct tfc__place_request {
	const tfc_job *job;
	const uint32_t *tasks; /* task numbers to place, rising */
	uint32_t task_count;
	/* Per task of the whole job: index of its node now, or UINT32_MAX. One that is to be placed
	 * stays there if it can; what it takes there is not in the node's counts any more. NULL:
	 * nowhere. */
	const uint32_t *at;
	/* Per task of the whole job: index of the one node that it may go to (its data is there),
	 * or UINT32_MAX. NULL: anywhere. */
	const uint32_t *wanted;
	struct tfc__place_node *nodes; /* `tasks`, `memory`, `gpus` are raised by what is placed */
	uint32_t node_count;
	bool is_alone; /* there is only this node, for ever, and it is empty: say what it has */
	uint64_t seed; /* where a round begins, so that jobs do not all start on node 0 */
};

/*
 * Only nodes that are alive, are not draining and have the job's labels are used. Gives per task
 * asked for an index of nodes.
 *
 *   spread  to where the fewest tasks of this job are, then where the fewest of all are
 *   pack    to where tasks of this job are, then where the most of all are, as long as they fit
 *
 * A job of one kind of task is placed whenever that is possible at all; one of several kinds (they
 * differ in memory, gpus or ports that nodes lack), too, unless a search of TFC__PLACE_STEPS steps
 * finds no way.
 *
 * All or nothing: TFC_OK; TFC_EAGAIN with the sentence of what it waits for ("worker/2 needs a node
 * with label gpu=a100: none has it") and all counts as they were; TFC_ENOMEM.
 */
#define TFC__PLACE_STEPS 20000
int tfc__place(const struct tfc__place_request *request, uint32_t *ret_nodes, tfc_error *error);

/* "worker/2" of a task's number; the text is cut to `size`. */
void tfc__place_task_name(const tfc_job *job, uint32_t task, char *ret_name, size_t size);

/* What one task of that number takes. */
struct tfc__place_need {
	uint64_t memory;
	uint32_t gpus;
	bool is_pooled; /* a port of the pool, and a node has said how many there are */
	uint32_t
		fixed; /* its fixed port, which a node has barred: number of the task + 1; 0: not */
};
struct tfc__place_need tfc__place_need(const struct tfc__place_request *request, uint32_t task);

#endif
