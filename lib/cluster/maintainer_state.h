/*
 * The state of a maintainer, shared by its files.
 *
 * maintainer.c        opening, closing, steps of the core
 * maintainer_links.c  the agents of its nodes
 * maintainer_agents.c requests to agents, and their events
 * maintainer_launch.c launches, ordered once they are stored, and the cluster spec that they need;
 *                     the head start of rank 0
 * maintainer_place.c  nodes for tasks, and the capacity they use
 * maintainer_report.c   the journal
 * maintainer_upstream.c  workers that follow the host's data
 * maintainer_zygotes.c  what the agents reported about zygotes
 */
#ifndef TFC_CLUSTER_MAINTAINER_STATE_H
#define TFC_CLUSTER_MAINTAINER_STATE_H

#include "base/map.h"
#include "cluster/maintainer.h"
#include "cluster/nodes.h"
#include "cluster/refusals.h"
#include "ctx/ctx.h"

/*
 * The agent of one node, for this job. A node that was lost returns as another link. The core
 * refers to the link by its number.
 */
struct agent_link {
	struct tfc__maintainer *maintainer;
	uint32_t number;
	struct tfc__node_entry *node;
	const struct tfc__agent_ops *ops;
	void *job;    /* NULL: not opened yet */
	bool is_lost; /* it receives no requests any more, and its events are ignored */
	/* it could not be opened for a query, which is reported in a later turn */
	bool is_unopened;
	char *failure; /* the reason; NULL: out of memory */
	/* it may have tasks of an earlier epoch, all covered by this will; incarnation 0: by none
	 */
	bool has_inherited;
	struct tfc__will_key will;
	uint32_t spec_generation; /* of the spec that it got last; 0: it needs one */
	uint32_t tasks;           /* that use its node's capacity */
	uint32_t pooled_tasks;    /* ... of these, the ones with a port of the pool */
	bool is_drained;          /* the core has been notified that tasks must leave it */
	uint64_t unreachable_ns;  /* CLOCK_REALTIME of its last sign of life; 0: it responds */
	uint64_t noted_at;        /* tfc__now of the last UNREACHABLE in the journal; 0: none */
	bool is_noted;            /* the journal has the current one */
};

/* An attempt that is launched once the entries up to `mark` are stored. */
struct launch {
	struct tfc__link link; /* in the maintainer's launches, while the launch is pending */
	uint32_t attempt;
	uint32_t generation;
	uint32_t mark; /* 0: the step that requested it is not complete */
};

/* What the agents reported about a task's latest attempt. */
struct seen {
	struct agent_link *link;          /* NULL: not placed yet */
	struct agent_link *capacity_link; /* of the node whose capacity the task uses; NULL: none */
	char *address;                    /* NULL: none */
	int32_t pid;
	uint32_t isolation;
	uint64_t memory_limit; /* in force; 0: none */
	uint64_t started_ns;   /* tfc__now */
	bool is_stopped;       /* the maintainer has stopped or signaled it */
	char *error_line;      /* of the latest attempt that failed; NULL: none is known */
	char *output_loss;     /* why its output is being lost; NULL: it is not, or no memory */
	uint64_t log_end;      /* where the task's log on this node ends; 0: it has none */
	/* A PLACE for this task alone, in the maintainer's placings until it has a response; and
	 * its number. */
	struct tfc__link placing;
	uint32_t place;
	struct launch launch;
	/* A request that could not be made: its response comes in a turn of its own. In the
	 * maintainer's failures. */
	struct tfc__link failure_link;
	enum tfc__task_event_kind failed; /* REFUSED, HOLD_FAILED, STACKED */
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
	struct tfc__map latest; /* the number of the latest link, by the address of its node */
	struct tfc__journal *journal;
	struct tfc__core *core;
	tfc_spec *spec;
	struct tfc__strv hosts;      /* made with `spec`: the addresses of the roles outside it */
	uint32_t spec_generation;    /* the generation of `spec`; 0: another one is needed */
	struct seen *seen;           /* per task */
	struct following *following; /* NULL: no upstream is followed */
	uint32_t task_count;
	uint32_t gang_place; /* number of an unanswered PLACE for the gang; or 0 */
	bool is_unplaced;    /* some task may be waiting for room */
	/* The tasks with something to do, as lists of struct seen: a turn visits no other task. */
	struct tfc__link placings;
	struct tfc__link launches; /* in the order of their marks */
	struct tfc__link
		late_launches; /* stored; they wait until the first rank's head start ends */
	struct tfc__link failures;
	uint32_t *placed; /* per task: the response to PLACE */
	struct tfc__link refusals;
	struct tfc__link zygotes; /* of the links' nodes, as they were last reported */
	struct tfc__timer timer;
	struct tfc__work first_step;
	struct tfc__observer reader; /* of the journal */
	struct tfc__work launching;
	uint32_t first_rank;          /* the task that gets a head start; UINT32_MAX: none */
	struct tfc__timer head_start; /* set while the first rank has it */
	struct tfc__work failing;
	struct tfc__work closing;
	tfc__maintainer_end_fn end_fn;
	void *end_user;
	enum tfc__maintainer_end end; /* 0: it is running */
	bool is_resumed;              /* a resumed job whose first step is pending */
	/* several steps are in progress: the end waits for the last one */
	uint32_t busy;
	bool is_settled; /* end_fn was called */
	/* a step is in progress, in which hooks of the host may be called */
	bool is_stepping;
	bool is_stop_waiting;        /* a stop was requested inside that step */
	struct tfc__core_event stop; /* ... this one */
};

/* maintainer.c */
/* Unless `busy` is set, the maintainer may have been closed when this returns. */
void tfc__maintainer_step(struct tfc__maintainer *maintainer, const struct tfc__core_event *event);
/* the end that `busy` has delayed */
void tfc__maintainer_settle(struct tfc__maintainer *maintainer);
/* Executes a stop that was requested inside a step. */
void tfc__maintainer_accept_stop(struct tfc__maintainer *maintainer);

/* maintainer_links.c */
/* The open link of a node, made if there is none; NULL when out of memory. */
struct agent_link *tfc__maintainer_link(struct tfc__maintainer *maintainer,
					struct tfc__node_entry *node);
/* Opens the link's job, if it is not open. Errors: those of job_open; TFC_ELOST: there is no
 * connection to the node. */
int tfc__maintainer_open_link(struct agent_link *link, tfc_error *error);
void tfc__maintainer_end_links(struct tfc__maintainer *maintainer);
void tfc__maintainer_close_links(struct tfc__maintainer *maintainer);

/* maintainer_agents.c */
void tfc__maintainer_on_agent(void *user, const struct tfc__task_event *event);
void tfc__maintainer_order(struct tfc__maintainer *maintainer, uint32_t node,
			   const struct tfc__task_order *order);
void tfc__maintainer_fail(struct tfc__maintainer *maintainer, uint32_t task,
			  enum tfc__task_event_kind response, uint32_t number,
			  const tfc_error *error);
void tfc__maintainer_notify_failures(struct tfc__work *work);

/* maintainer_launch.c */
void tfc__maintainer_launch_init(struct tfc__maintainer *maintainer);
void tfc__maintainer_launch_fini(struct tfc__maintainer *maintainer);
/* Call when an address has changed: the next launch on each node needs another spec. */
void tfc__maintainer_drop_spec(struct tfc__maintainer *maintainer);
void tfc__maintainer_note_launch(struct tfc__maintainer *maintainer,
				 const struct tfc__task_order *order);
/* Returns whether a launch was pending. */
bool tfc__maintainer_drop_launch(struct tfc__maintainer *maintainer, uint32_t task);
void tfc__maintainer_mark_launches(struct tfc__maintainer *maintainer); /* a step is complete */
/* The first rank listens, or its attempt has ended. */
void tfc__maintainer_end_head_start(struct tfc__maintainer *maintainer);

/* maintainer_place.c */
void tfc__maintainer_note_place(struct tfc__maintainer *maintainer,
				const struct tfc__core_action *action);
/* Computes the response to a pending PLACE. Returns false if there is none. The event is valid
 * until the next call. */
bool tfc__maintainer_next_placed(struct tfc__maintainer *maintainer, tfc_error *error,
				 struct tfc__core_event *ret_event);
void tfc__maintainer_acquire(struct tfc__maintainer *maintainer, uint32_t task,
			     struct agent_link *link);
void tfc__maintainer_release(struct tfc__maintainer *maintainer, uint32_t task);
void tfc__maintainer_on_nodes(struct tfc__observer *user, const void *event);

int tfc__maintainer_resume(struct tfc__maintainer *maintainer, const struct tfc__resume *resume,
			   tfc_error *error);

/* maintainer_upstream.c */
int tfc__maintainer_follow_begin(struct tfc__maintainer *maintainer, tfc_error *error);
void tfc__maintainer_follow_end(struct tfc__maintainer *maintainer);
/* Called before these tasks are placed: assigns each worker its partitions and the node that it
 * should run on. TFC_EAGAIN: the host must respond first. */
int tfc__maintainer_follow(struct tfc__maintainer *maintainer, const uint32_t *tasks,
			   uint32_t task_count, tfc_error *error);
/* Per task of the job: the node that it must run on, or NULL. NULL: all tasks may run anywhere. */
const char *const *tfc__maintainer_wanted(const struct tfc__maintainer *maintainer);
/* The task was placed on `node`. Returns TFC_OK or TFC_ENOMEM. */
int tfc__maintainer_followed(struct tfc__maintainer *maintainer, uint32_t task, const char *node);
/* Environment variables of the task's attempts besides those of the job; NULL: none. */
const char *const *tfc__maintainer_extra_env(const struct tfc__maintainer *maintainer,
					     uint32_t task);

/* maintainer_zygotes.c */
void tfc__maintainer_note_zygote(struct agent_link *link, const struct tfc__task_event *event);
void tfc__maintainer_drop_zygotes(struct agent_link *link); /* its node's zygotes are lost */
void tfc__maintainer_free_zygotes(struct tfc__maintainer *maintainer);

/* maintainer_report.c */
void tfc__maintainer_notify(struct tfc__maintainer *maintainer, uint32_t kind,
			    const struct tfc__core_action *action);

#endif
