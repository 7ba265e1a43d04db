/*
 * An agent as the maintainer sees it: the local one (agent.h), or one of another node, reached by
 * calls (node/remote_agent.h). One handle per job and node; the same orders, the same events.
 *
 * An order needs no confirmation: an order that was accepted is carried out once and in order, or
 * its tasks are reported LOST. Events come only in dispatch, never inside an order.
 */
#ifndef TFC_AGENT_AGENT_OPS_H
#define TFC_AGENT_AGENT_OPS_H

#include "agent/agent.h"
#include "log/source.h"

struct tfc__agent_ops {
	/*
	 * Opens a job there; the caller owns the handle. An agent that has seen a higher epoch
	 * refuses (TFC__AGENT_FENCED).
	 */
	int (*job_open)(void *agent, const struct tfc__agent_job_info *info, tfc__agent_fn fn,
			void *user, void **ret_job, tfc_error *error);
	void (*job_close)(void *job); /* as tfc__agent_job_close */
	void (*order)(void *job, const struct tfc__task_order *order);
	/*
	 * The commitment to the last will of that node (proc/will.h), which covers what is launched
	 * there now; incarnation 0: none is known. NULL: the agent is in this process.
	 */
	struct tfc__will_key (*will)(const void *job);
	/*
	 * Log records of one task on that node, see log/source.h; NULL and *error. Also after
	 * the order END.
	 */
	struct tfc__log_source *(*log_open)(void *job, uint32_t task, uint64_t position,
					    tfc_error *error);
	/*
	 * The last lines of a task's log, NULL-terminated, for tfc_strv_free. Never blocks: an
	 * agent of another node returns the lines that came with the end of the latest attempt.
	 */
	int (*log_tail)(void *job, uint32_t task, char ***ret_lines);
	/* The log of a task of an ended job, which has no handle. NULL and *error. */
	struct tfc__log_source *(*kept_log)(void *agent, const char *id, const tfc_job *job,
					    uint32_t task, uint64_t position, tfc_error *error);
	/* The job is forgotten: removes its logs, as soon as that node can be reached. */
	void (*forget)(void *agent, const char *id);
	/* As tfc__agent_after_previous; NULL: not known here. */
	void (*after_previous)(void *agent, struct tfc__work *work);
};

#define TFC__LOG_TAIL_LINES 10

struct tfc__agent_handle {
	const struct tfc__agent_ops *ops;
	void *agent;
};

extern const struct tfc__agent_ops tfc__local_agent_ops; /* agent is a struct tfc__agent */

/*
 * Events that only agents of other nodes send, about all their tasks at once:
 *
 *   LOST         the tasks are lost for good: the node was down and its lease is over, or it came
 *                back without them; text has the reason. No EXITED comes for them
 *   UNREACHABLE  outstanding orders and queries stay pending
 *   REACHABLE    the node responds again, and its tasks are as they were
 *   FENCED       the node has seen a higher epoch: this maintainer must give up the job
 *
 * After LOST or FENCED the handle accepts only log_open, log_tail and job_close.
 */

#endif
