/*
 * Placement: chooses a node for each task. A pure function of the members, their free capacity and
 * the job. The caller calls it again when one of these has changed.
 */
#ifndef TFC_CLUSTER_PLACEMENT_H
#define TFC_CLUSTER_PLACEMENT_H

#include "base/fail.h"
#include "job/job.h"
#include "member/member.h"

/* A node's report about its ports, when it refused a task of this job. */
struct tfc__place_ports {
	uint32_t pool; /* ports of its pool that the job can have; UINT32_MAX: no limit known */
	const uint8_t *barred; /* per task of the job: its fixed port is in use there */
	bool is_lasting;       /* the ports are not used by another job, which would release them */
	const char *text;
};

/* A node and the capacity of it that this maintainer's jobs use. */
struct tfc__place_node {
	const struct tfc__member *member;
	uint32_t tasks;       /* in use, by all jobs known here */
	uint64_t memory;      /* in use, bytes */
	uint32_t gpus;        /* in use */
	uint32_t own;         /* tasks of this job that are there and stay */
	uint32_t own_pooled;  /* ... of these, the ones with a port of the pool */
	bool is_cooling_down; /* cooldown after failures: used only if nothing else fits */
	const struct tfc__place_ports *ports; /* NULL: no report */
};

struct tfc__place_request {
	const tfc_job *job;
	const uint32_t *tasks; /* numbers of the tasks to place, ascending */
	uint32_t task_count;
	/* Per task to place: index of the only node that it may run on (its data is there), or
	 * UINT32_MAX. NULL: all may run anywhere. */
	const uint32_t *wanted;
	/* `tasks`, `memory` and `gpus` are increased by the placed tasks */
	struct tfc__place_node *nodes;
	uint32_t node_count;
	/* this node is the only one for ever, and is empty: the error text names its capacity */
	bool is_alone;
	uint64_t seed; /* where a round begins, so that not all jobs begin with node 0 */
};

/*
 * Uses only nodes that are alive, are not drained and have the job's labels and those of the task's
 * role. Returns per requested task an index of nodes.
 *
 *   spread  prefers nodes with the fewest tasks of this job, then with the fewest tasks of all jobs
 *   pack    prefers nodes with the most tasks of this job, then with the most tasks of all jobs
 *
 * A job with one kind of task is placed whenever that is possible. A job with several kinds (they
 * differ in labels, memory, gpus or ports that nodes lack) is placed unless a search of
 * TFC__PLACE_STEPS steps finds no way.
 *
 * All or nothing: TFC_OK; TFC_EAGAIN with a text that says what is missing ("worker/2 needs a node
 * with label "gpu=a100"; no node has it") and all counts unchanged; TFC_ENOMEM.
 */
#define TFC__PLACE_STEPS 20000
int tfc__place_tasks(const struct tfc__place_request *request, tfc_error *error,
		     uint32_t *ret_nodes);

/* Writes the name of a task, such as "worker/2", cut to `size`. */
void tfc__place_task_name(const tfc_job *job, uint32_t task, char *ret_name, size_t size);

/* The capacity that a task needs. */
struct tfc__place_need {
	uint64_t memory;
	uint32_t gpus;
	bool is_pooled; /* it needs a port of the pool, and some node has reported a limit */
	/* number of the task + 1 if it has a fixed port that is in use on some node; 0: not */
	uint32_t fixed;
	uint32_t labeled; /* number of the role + 1 if it has labels; 0: it has none */
};

/* Whether a task of the role has a port of the pool. */
bool tfc__place_is_pooled(const tfc_job *job, const struct tfc__role *role);

#endif
