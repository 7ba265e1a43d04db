/*
 * An agent as the maintainer sees it: the local one (agent.h), or one of another machine behind
 * calls (node/remote_agent.h). One handle per job and node; the same orders, the same events.
 *
 * Orders need no answer to be counted on: an order that was taken is carried out once, in order, or
 * its tasks are told LOST. Events come in dispatch only, never inside an order.
 */
#ifndef TFC_AGENT_AGENT_OPS_H
#define TFC_AGENT_AGENT_OPS_H

#include "agent/agent.h"
#include "log/source.h"

struct tfc__agent_ops {
	/* Opens a job there; the handle is the caller's. epoch orders: an agent that has heard a
	 * higher one refuses (TFC__AGENT_FENCED). */
	int (*job_open)(void *agent, const struct tfc__agent_job_info *info, tfc__agent_fn fn,
			void *user, void **ret_job, tfc_error *error);
	void (*job_end)(void *job);   /* as tfc__agent_job_end */
	void (*job_close)(void *job); /* as tfc__agent_job_close */
	void (*hold)(void *job, uint32_t task, uint32_t number);
	void (*release)(void *job, uint32_t task);
	/* Variables of the task's attempts from the next launch on, over the job's own, in place of
	 * those set before. */
	void (*set_env)(void *job, uint32_t task, const char *const *env);
	void (*launch)(void *job, uint32_t task, uint32_t attempt, uint32_t generation,
		       const tfc_spec *spec);
	void (*signal)(void *job, uint32_t task, int signal_number);
	void (*stop)(void *job, uint32_t task, uint32_t grace_ms);
	void (*query)(void *job, uint32_t query);
	void (*stacks)(void *job, uint32_t task, bool is_ending);
	void (*look)(void *job, uint32_t number);
	/* Log records of one task on that node, see log/source.h; NULL and *error. Also after
	 * job_end. */
	struct tfc__log_source *(*log_open)(void *job, uint32_t task, uint64_t position,
					    tfc_error *error);
	/* The last lines of a task's log, NULL-terminated, for tfc_strv_free. It never waits: an
	 * agent elsewhere gives those that came with the last end that was no exit 0. */
	int (*log_tail)(void *job, uint32_t task, char ***ret_lines);
	/* The log of a task of a job that has no handle: an ended one. NULL and *error. */
	struct tfc__log_source *(*kept_log)(void *agent, const char *id, const tfc_job *job,
					    uint32_t task, uint64_t position, tfc_error *error);
	/* The job is forgotten: its logs go, as soon as that node can be told. */
	void (*forget)(void *agent, const char *id);
	/* As tfc__agent_after_previous; NULL: it is not known here. */
	void (*after_previous)(void *agent, struct tfc__work *work);
};

#define TFC__LOG_TAIL_LINES 10

struct tfc__agent_handle {
	const struct tfc__agent_ops *ops;
	void *agent;
};

extern const struct tfc__agent_ops tfc__local_agent_ops; /* agent is a struct tfc__agent */

/*
 * What only an agent elsewhere tells, of all its tasks at once:
 *   LOST    they are gone and cannot come back: the node was down and its lease is over, or it came
 *           back without them; text says why. No EXITED comes for them
 *   SILENT  the node does not answer: what was asked is waited for
 *   BACK    it answers again, and its tasks are as they were
 *   FENCED  a higher epoch was heard there: this maintainer must let go of the job
 * After LOST or FENCED the handle takes only log_open, log_tail and job_close.
 */

#endif
