/*
 * The inside of a maintainer, as its files share it.
 *
 * maintainer.c        opening, closing, steps of the core
 * maintainer_agents.c the agents of its nodes: orders to them, events from them
 * maintainer_tell.c   the journal
 * maintainer_spec.c   the cluster spec, from the addresses that agents told
 */
#ifndef TFC_CLUSTER_MAINTAINER_STATE_H
#define TFC_CLUSTER_MAINTAINER_STATE_H

#include "cluster/maintainer.h"
#include "ctx/ctx.h"

/* The agent of one node, for this job. Its number is the core's name for the node. */
struct agent_link {
	struct tfc__maintainer *maintainer;
	char *node; /* its name */
	const struct tfc__agent_ops *ops;
	void *job;
};

/* What the agents told of a task's latest attempt. */
struct seen {
	struct agent_link *link; /* NULL: on no node yet */
	char *address;           /* NULL: none */
	int32_t pid;
	uint32_t isolation;
	uint64_t log_end;
	uint64_t log_gap;
	uint64_t user_us;
	uint64_t system_us;
	uint64_t max_rss_kib;
	bool is_refused; /* its launch, by ourselves: REFUSED is still to be taken in */
	uint32_t refused_attempt;
};

struct tfc__maintainer {
	tfc_ctx *ctx;
	struct tfc__agent_job_info info;
	struct agent_link link;
	struct tfc__journal *journal;
	struct tfc__core *core;
	tfc_spec *spec;
	uint32_t spec_generation; /* the one that spec belongs to */
	struct seen *seen;        /* per task */
	uint32_t task_count;
	struct tfc__timer timer;
	struct tfc__work first_step;
	struct tfc__work refusal;
	tfc_error refused; /* why */
	tfc__maintainer_end_fn end_fn;
	void *end_user;
	bool is_ended;
	bool is_stepping;            /* a hook of the host runs inside */
	bool is_stop_waiting;        /* the host asked for a stop in that hook */
	struct tfc__core_event stop; /* that one */
};

/* maintainer.c */
void maintainer_step(struct tfc__maintainer *maintainer, const struct tfc__core_event *event);

/* maintainer_agents.c */
int maintainer_open_link(struct tfc__maintainer *maintainer, struct tfc__agent_handle agent,
			 const char *node, tfc_error *error);
void maintainer_close_links(struct tfc__maintainer *maintainer);
void maintainer_order(struct tfc__maintainer *maintainer, const struct tfc__core_action *action);
void maintainer_refuse(struct tfc__work *work);

/* maintainer_tell.c */
void maintainer_tell(struct tfc__maintainer *maintainer, uint32_t kind,
		     const struct tfc__core_action *action);

/* maintainer_spec.c */
int maintainer_make_spec(struct tfc__maintainer *maintainer, uint32_t generation, tfc_error *error);

#endif
