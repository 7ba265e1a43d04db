/*
 * A maintainer: executes the actions of the pure core (maintainer_core.h) through the agents, and
 * writes the events into the job's journal.
 */
#ifndef TFC_CLUSTER_MAINTAINER_H
#define TFC_CLUSTER_MAINTAINER_H

#include "agent/agent_ops.h"
#include "cluster/journal.h"
#include "cluster/maintainer_core.h"
#include "cluster/nodes.h"

struct tfc__maintainer;

enum tfc__maintainer_end {
	TFC__MAINTAINER_ENDED = 1, /* the END entry was written */
	TFC__MAINTAINER_SUSPENDED, /* nothing runs any more; a later epoch continues the job */
	/* a later epoch has begun; this maintainer does and reports nothing more */
	TFC__MAINTAINER_FENCED,
};

/* Called in dispatch, once. The maintainer may be closed inside. */
typedef void (*tfc__maintainer_end_fn)(void *user, enum tfc__maintainer_end end);

/*
 * Opens the maintainer of a job; its first step follows in a later turn of dispatch. `nodes`,
 * `info` and `journal` are borrowed for its life; `resume` (NULL: a new job) is read before the
 * call returns. Errors: TFC_ENOMEM; if this node is the only member, also those of
 * tfc__agent_job_open.
 */
int tfc__maintainer_open(tfc_ctx *ctx, struct tfc__nodes *nodes,
			 const struct tfc__agent_job_info *info, const struct tfc__resume *resume,
			 struct tfc__journal *journal, tfc__maintainer_end_fn fn, void *user,
			 tfc_error *error, struct tfc__maintainer **ret_maintainer);

/* Closes it and kills all running tasks. NULL is a no-op. */
void tfc__maintainer_close(struct tfc__maintainer *maintainer);

void tfc__maintainer_stop(struct tfc__maintainer *maintainer, uint32_t interrupt_ms, bool is_kill);

/* Stops all tasks with their grace and ends SUSPENDED, without an END entry. A job that is ending
 * already ends. */
void tfc__maintainer_suspend(struct tfc__maintainer *maintainer);

/*
 * Sends an order about a task that runs to its node: SIGNAL, with the number of a signal, or
 * STACKS, with 0. What the task does then is reported as usual. Errors: TFC_ELOST (the node is
 * unreachable).
 */
int tfc__maintainer_order_task(struct tfc__maintainer *maintainer, uint32_t task,
			       enum tfc__order_kind kind, uint32_t number, tfc_error *error);

/* ---- queries */

const struct tfc__core *tfc__maintainer_core(const struct tfc__maintainer *maintainer);
/* The job of the agent on this machine, or NULL. */
struct tfc__agent_job *tfc__maintainer_local_job(const struct tfc__maintainer *maintainer);

/* The name of the node where a task is, or was last; "": none. Borrowed for the maintainer's
 * life. */
const char *tfc__maintainer_node(const struct tfc__maintainer *maintainer, uint32_t task);

/* The zygotes of the job's nodes, as they were last reported; strings are borrowed until the next
 * dispatch. */
uint32_t tfc__maintainer_zygote_count(const struct tfc__maintainer *maintainer);
void tfc__maintainer_zygotes(const struct tfc__maintainer *maintainer, tfc_zygote *ret_zygotes);

/* Why the output of a task is being lost, as a text for people; "": it is not. Borrowed until the
 * next dispatch. */
const char *tfc__maintainer_output_loss(const struct tfc__maintainer *maintainer, uint32_t task);

/* When the node of a task gave its last sign of life, in nanoseconds since 1970; 0: it responds, or
 * the task has none. */
uint64_t tfc__maintainer_unreachable_ns(const struct tfc__maintainer *maintainer, uint32_t task);

/* Opens the log of a task on a node where it has been (a TASK entry names it), from `position` on.
 * Returns NULL and sets *error; TFC_ELOST if there is no connection to that node. Close the log
 * before the maintainer. */
struct tfc__log_source *tfc__maintainer_log_open(struct tfc__maintainer *maintainer,
						 const char *node, uint32_t task, uint64_t position,
						 tfc_error *error);

#endif
