/*
 * What a maintainer orders from an agent about the tasks of a job, and what the agent reports. Both
 * are one struct each, from the maintainer's core to the agent and back; node/agent_wire.c
 * describes their fields on the wire. Values only: the core is pure.
 */
#ifndef TFC_AGENT_TASK_H
#define TFC_AGENT_TASK_H

#include "agent/activity.h"

#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/results.h>
#include <tfcluster/spec.h>

/* ---- orders. The numbers are on the wire. */

enum tfc__order_kind {
	TFC__ORDER_END =
		1, /* the job has ended: its bundle and unpacked directories go, its logs stay */
	/* acquire a slot and the task's port, if it has one; response HELD or HOLD_FAILED, with
	 * this number. After HOLD_FAILED the task keeps what it has acquired, a slot without a
	 * port. */
	TFC__ORDER_HOLD = 2,
	/* release both: the task is reaped and done, or must move. Cancels a HOLD that has no
	 * response yet or has failed. */
	TFC__ORDER_RELEASE = 3,
	TFC__ORDER_SPEC = 4, /* for the launches of `generation` that follow: spec, hosts */
	/* run `attempt` in `generation`; response STARTED, READY, EXITED, or REFUSED */
	TFC__ORDER_LAUNCH = 5,
	/* send signal `number` to the task's group, if `attempt` runs (0: any) */
	TFC__ORDER_SIGNAL = 6,
	/* stop the attempt with a grace of `number` ms; a second STOP with less shortens it */
	TFC__ORDER_STOP = 7,
	/* response STATES with this number, once nothing of the node's previous incarnation is
	 * awaited; a later QUERY replaces one that has no response yet */
	TFC__ORDER_QUERY = 8,
	/* write the Python stacks of the attempt into its log; response STACKED, within two
	 * seconds. number 1: the attempt is stopped afterwards, so it may be continued */
	TFC__ORDER_STACKS = 9,
	/* inspect the first tasks that are not ready; response INSPECTED */
	TFC__ORDER_INSPECT = 10,
	/* for the task's launches that follow: env, instead of any before; it overrides the job's
	 * own variables */
	TFC__ORDER_ENV = 11,
};

/* Borrowed: valid during the call. */
struct tfc__task_order {
	enum tfc__order_kind kind;
	uint32_t task;
	uint32_t attempt;
	uint32_t generation;
	uint32_t number;
	const char *const *env; /* "NAME=value", NULL-terminated; or NULL */
	tfc_spec *spec;         /* one that was read from the wire is the reader's to free */
	/* SPEC: "ROLE=address,address" for each role outside the cluster spec, NULL-terminated; or
	 * NULL */
	const char *const *hosts;
};

/* ---- events */

/* How an attempt ended. The job's journal keeps it. */
struct tfc__attempt_end {
	uint32_t reason; /* enum tfc_exit_reason */
	int32_t status;  /* as in tfc_process_event */
	bool is_oom;
	bool is_port_occupied; /* by another program: another port is needed */
	bool is_bind_failed;   /* it could not bind its port, which has no listener now */
	bool had_notice;       /* its output shows that it or a peer received SIGTERM before */
	/* Set by the maintainer: attempts fail on its node, the next one should get another. */
	bool is_node_bad;
	bool is_with_node; /* set by the core: LOST with its node */
	/* When it ended. An agent reports CLOCK_REALTIME; the core gets it on the clock of `now`,
	 * as well as the agent knows. */
	uint64_t time_ns;
	uint64_t user_us; /* these three as in tfc_process_event */
	uint64_t system_us;
	uint64_t max_rss_kib;
	uint64_t log_end;      /* where its output ends; 0: it never had a log */
	uint64_t log_gap;      /* number of bytes missing after log_end */
	uint64_t memory_limit; /* is_oom: bytes, if it used more than that; 0: another reason */
};

/* The numbers are on the wire. */
enum tfc__task_event_kind {
	TFC__AGENT_HELD = 1, /* the port is held: address; also of a task without one: "" */
	/* text; is_full: no room here, another place is needed. Otherwise no port, with missing
	 * (how many of the job's tasks got none: the first such event ends the job), ports,
	 * is_lasting */
	TFC__AGENT_HOLD_FAILED = 2,
	TFC__AGENT_STARTED = 3,   /* the program runs: pid, isolation, memory_limit */
	TFC__AGENT_READY = 4,     /* the task's own listener was found, the bind window is closed */
	TFC__AGENT_EXITED = 5,    /* end; text; pid, isolation */
	TFC__AGENT_REFUSED = 6,   /* the attempt could not be started: text, end.is_port_occupied */
	TFC__AGENT_STALLED = 7,   /* silent_ms; text: the task's activity */
	TFC__AGENT_STACKED = 8,   /* response to STACKS: text, activity, silent_ms */
	TFC__AGENT_INSPECTED = 9, /* response to INSPECT: inspected */
	/* the response to a QUERY: states of all tasks. It comes after the EXITED of every
	 * attempt that was dead when the node was queried. */
	TFC__AGENT_STATES = 10,
	/* About all tasks of a node, only from agents of other nodes: see agent_ops.h. */
	TFC__AGENT_LOST = 11,
	/* silent_ms; number: ms until LOST, at most; 0: there was no connection to the node yet */
	TFC__AGENT_UNREACHABLE = 12,
	TFC__AGENT_REACHABLE = 13,
	TFC__AGENT_FENCED = 14,
	/* text: a message about the attempt, without the task's name, for the job's followers */
	TFC__AGENT_NOTICE = 15, /* number: enum tfc__notice */
	/* zygote: a zygote of the job's attempts has changed, or is reported anew; NULL: it has
	 * ended, or the job does not use it any more. number: which of the node's zygotes */
	TFC__AGENT_ZYGOTE = 16,
};

/* What a NOTICE is about. The numbers are on the wire. */
enum tfc__notice {
	TFC__NOTICE_OTHER = 0,
	TFC__NOTICE_OUTPUT_LOST = 1,    /* text: since now and until OUTPUT_RESUMED */
	TFC__NOTICE_OUTPUT_RESUMED = 2, /* also implied by the end of the attempt */
};

/* The state of a task's process. */
enum tfc__proc_state {
	TFC__PROC_NONE = 0, /* no process */
	TFC__PROC_RUNNING = 1,
	TFC__PROC_STOPPED = 2, /* SIGSTOP */
};

/* The current activity of a task that is not ready yet. */
#define TFC__INSPECTED_MAX 4
struct tfc__inspected {
	uint32_t task;
	char text[128]; /* "not listening: idle" */
};

/* Borrowed: valid during the callback. */
struct tfc__task_event {
	enum tfc__task_event_kind kind;
	uint32_t task;
	uint32_t attempt;
	uint32_t number;  /* the number of the HOLD, QUERY or INSPECT that it responds to; NOTICE:
			     enum tfc__notice; ZYGOTE: see there */
	uint32_t missing; /* see HOLD_FAILED */
	uint32_t ports;   /* ports of the pool that the job has here, or could have */
	bool is_full;
	bool is_lasting; /* the missing ports are not held by another job that might release them */
	uint32_t process; /* of STARTED and EXITED: enum tfc_process_event_kind; else 0 */
	int32_t pid;
	uint32_t isolation;    /* enum tfc_isolation in effect */
	uint64_t memory_limit; /* STARTED: bytes, in force; 0: none */
	struct tfc__attempt_end end;
	uint32_t silent_ms;
	enum tfc__activity activity;
	uint32_t inspected_count;
	const struct tfc__inspected *inspected;
	const uint8_t *states; /* enum tfc__proc_state, per task of the job */
	uint64_t state_count;
	const char *address; /* "host:port", or "" when the task has no port */
	const char *text;    /* or NULL */
	/* EXITED, of an agent of another node: the last lines, NULL-terminated; or NULL */
	const char *const *log_tail;
	const char *error_line; /* EXITED: the line of the output that names the reason; or NULL */
	const tfc_zygote *zygote; /* without its node; or NULL */
};

#endif
