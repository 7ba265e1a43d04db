/*
 * The inside of a maintainer, as its files share it.
 *
 * maintainer.c        opening, closing, steps of the core
 * maintainer_links.c  the agents of its nodes
 * maintainer_agents.c orders to them, events from them
 * maintainer_launch.c attempts, written ahead
 * maintainer_place.c  nodes for tasks, and what they take there
 * maintainer_tell.c   the journal
 * maintainer_upstream.c  workers that follow the host's data
 * maintainer_spec.c   the cluster spec, from the addresses that agents told
 */
#ifndef TFC_CLUSTER_MAINTAINER_STATE_H
#define TFC_CLUSTER_MAINTAINER_STATE_H

#include "cluster/maintainer.h"
#include "cluster/nodes.h"
#include "cluster/refusals.h"
#include "ctx/ctx.h"

/*
 * The agent of one node, for this job; a node that was lost comes back as another. Its number is
 * the core's name for it.
 */
struct agent_link {
	struct tfc__maintainer *maintainer;
	uint32_t number;
	struct tfc__node_entry *node;
	const struct tfc__agent_ops *ops;
	void *job;        /* NULL: not opened yet */
	bool is_lost;     /* it takes no orders any more, and nothing that it says counts */
	bool is_unopened; /* it could not be opened to be asked: that is reported soon, */
	char *failure;    /* with this reason; NULL: out of memory */
	bool is_drained;  /* the core knows that it is to be left */
};

/* An attempt that is to be ordered once entries up to `mark` are kept. */
struct launch {
	struct tfc__link link; /* in the maintainer's launches, while there is one */
	uint32_t attempt;
	uint32_t generation;
	uint32_t mark; /* 0: the step that wants it is not over */
};

/* What the agents told of a task's latest attempt. */
struct seen {
	struct agent_link *link;       /* NULL: on no node yet */
	struct tfc__node_entry *taken; /* where its place counts; NULL: nowhere */
	char *address;                 /* NULL: none */
	int32_t pid;
	uint32_t isolation;
	uint64_t started_ns; /* tfc__now */
	bool is_stopped;     /* we told it to */
	uint64_t log_end;
	uint64_t log_gap;
	uint64_t user_us;
	uint64_t system_us;
	uint64_t max_rss_kib;
	/* A PLACE for it alone that is to be answered, in the maintainer's placings; its number. */
	struct tfc__link placing;
	uint32_t place;
	struct launch launch;
	/* An order that could not even be given: its answer comes in a turn of its own. In the
	 * maintainer's failures. */
	struct tfc__link failure_link;
	enum tfc__core_event_kind failed; /* REFUSED, HOLD_FAILED, STACKED */
	uint32_t failed_number;           /* attempt, hold */
	char *failure;                    /* why; NULL: out of memory */
};

struct tfc__maintainer {
	tfc_ctx *ctx;
	struct tfc__agent_job_info info;
	struct tfc__nodes *nodes;
	struct tfc__observer nodes_user;
	struct agent_link **links;
	uint32_t link_count;
	struct tfc__journal *journal;
	struct tfc__core *core;
	tfc_spec *spec;
	uint32_t spec_generation;    /* the one that spec belongs to */
	struct seen *seen;           /* per task */
	struct following *following; /* NULL: no upstream is followed */
	uint32_t task_count;
	uint32_t gang_place; /* number of a PLACE for the gang that is to be answered; or 0 */
	bool is_unplaced;    /* some task waits for room, for all that is known */
	/* Of the tasks' struct seen, those that have something to do: a turn looks at no other. */
	struct tfc__link placings;
	struct tfc__link launches; /* in the order of their marks */
	struct tfc__link failures;
	uint32_t *placed; /* per task: the answer */
	struct tfc__link refusals;
	struct tfc__timer timer;
	struct tfc__work first_step;
	struct tfc__observer reader; /* of the journal */
	struct tfc__work launching;
	struct tfc__work failing;
	struct tfc__work closing;
	tfc__maintainer_end_fn end_fn;
	void *end_user;
	enum tfc__maintainer_end end; /* 0: it goes on */
	bool is_resumed;              /* and has not taken its first step */
	uint32_t busy;                /* several steps are being made: the end waits for the last */
	bool is_settled;              /* end_fn was called */
	bool is_stepping;             /* a hook of the host runs inside */
	bool is_stop_waiting;         /* the host asked for a stop in that hook */
	struct tfc__core_event stop;  /* that one */
};

/* maintainer.c */
/* Unless it is busy, the maintainer may be closed when this returns. */
void tfc__maintainer_step(struct tfc__maintainer *maintainer, const struct tfc__core_event *event);
void tfc__maintainer_settle(struct tfc__maintainer *maintainer); /* what busy has put off */
/* A stop that a hook of the host asked for. */
void tfc__maintainer_accept_stop(struct tfc__maintainer *maintainer);

/* maintainer_links.c */
/* The link that takes orders for a node, made if need be; NULL when out of memory. */
struct agent_link *tfc__maintainer_link(struct tfc__maintainer *maintainer,
					struct tfc__node_entry *node);
/* Opens it, if it is not. Errors: those of job_open; TFC_ELOST: there is no way to it. */
int tfc__maintainer_open_link(struct agent_link *link, tfc_error *error);
void tfc__maintainer_end_links(struct tfc__maintainer *maintainer);
void tfc__maintainer_close_links(struct tfc__maintainer *maintainer);

/* maintainer_agents.c */
void tfc__maintainer_on_agent(void *user, const struct tfc__agent_event *event);
void tfc__maintainer_order(struct tfc__maintainer *maintainer,
			   const struct tfc__core_action *action);
void tfc__maintainer_fail(struct tfc__maintainer *maintainer, uint32_t task,
			  enum tfc__core_event_kind answer, uint32_t number,
			  const tfc_error *error);
void tfc__maintainer_notify_failures(struct tfc__work *work);

/* maintainer_launch.c */
void tfc__maintainer_note_launch(struct tfc__maintainer *maintainer,
				 const struct tfc__core_action *action);
/* Whether there was one that waits. */
bool tfc__maintainer_drop_launch(struct tfc__maintainer *maintainer, uint32_t task);
void tfc__maintainer_mark_launches(struct tfc__maintainer *maintainer); /* a step is over */
void tfc__maintainer_on_shown(struct tfc__observer *reader, const void *event);
void tfc__maintainer_launch_kept(struct tfc__work *work);

/* maintainer_place.c */
void tfc__maintainer_note_place(struct tfc__maintainer *maintainer,
				const struct tfc__core_action *action);
/* The answer to a PLACE that was noted; whether there was one. The event is valid until the next.
 */
bool tfc__maintainer_next_placed(struct tfc__maintainer *maintainer,
				 struct tfc__core_event *ret_event, tfc_error *error);
void tfc__maintainer_acquire(struct tfc__maintainer *maintainer, uint32_t task,
			     struct agent_link *link);
void tfc__maintainer_release(struct tfc__maintainer *maintainer, uint32_t task);
void tfc__maintainer_on_nodes(struct tfc__observer *user, const void *event);

int tfc__maintainer_resume(struct tfc__maintainer *maintainer, const struct tfc__resume *resume,
			   tfc_error *error);

/* maintainer_upstream.c */
int tfc__maintainer_follow_begin(struct tfc__maintainer *maintainer, tfc_error *error);
void tfc__maintainer_follow_end(struct tfc__maintainer *maintainer);
/* Before these tasks are placed: gives each worker its partitions, and says where it wants to be.
 * TFC_EAGAIN: the host has to answer first. */
int tfc__maintainer_follow(struct tfc__maintainer *maintainer, const uint32_t *tasks,
			   uint32_t task_count, tfc_error *error);
/* Per task of the job: the node that it wants, or NULL. NULL: all may go anywhere. */
const char *const *tfc__maintainer_wanted(const struct tfc__maintainer *maintainer);
/* It was placed there. TFC_OK, TFC_ENOMEM. */
int tfc__maintainer_followed(struct tfc__maintainer *maintainer, uint32_t task, const char *node);
/* What its attempts are given beside the job's own variables; NULL: nothing. */
const char *const *tfc__maintainer_extra_env(const struct tfc__maintainer *maintainer,
					     uint32_t task);

/* maintainer_tell.c */
void tfc__maintainer_notify(struct tfc__maintainer *maintainer, uint32_t kind,
			    const struct tfc__core_action *action);

/* maintainer_spec.c */
int tfc__maintainer_make_spec(struct tfc__maintainer *maintainer, uint32_t generation,
			      tfc_error *error);

#endif
