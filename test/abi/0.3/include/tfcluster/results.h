/*
 * Jobs, members and plans as structs: what the gateway's requests return beside their JSON.
 *
 * The library makes all of these structs. They are borrowed, with everything that they point to:
 * valid during the callback that receives them. Strings are never NULL, except in tfc_member_info.
 * `size` is the size of the library's struct; later versions add fields at the end. Read a list of
 * structs with its function (tfc_job_info_task ...): in a later library the structs are larger than
 * those that a program was built with.
 *
 * Times are of CLOCK_REALTIME on the node that reports them, in nanoseconds since 1970.
 *
 * A job's generation is the number of the latest start of its group, the tasks that restart
 * together. Its epoch grows when the job continues after a restart of the node that maintains it.
 * The deciding task is the task whose end decided how the job ended.
 */
#ifndef TFCLUSTER_RESULTS_H
#define TFCLUSTER_RESULTS_H

#include <stdint.h>
#include <tfcluster/export.h>
#include <tfcluster/member.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The states from TFC_JOB_SUCCEEDED on are final. */
enum tfc_job_state {
	TFC_JOB_PENDING = 1,    /* it waits until its tasks can be placed */
	TFC_JOB_STARTING = 2,   /* not all of its tasks are ready yet */
	TFC_JOB_RUNNING = 3,    /* all tasks were ready, or count as ready */
	TFC_JOB_RESTARTING = 4, /* its group or its coordinator is started again */
	TFC_JOB_STOPPING = 5,   /* how it ends is decided; its tasks are being stopped */
	TFC_JOB_SUCCEEDED = 6,
	TFC_JOB_FAILED = 7,
	TFC_JOB_STOPPED = 8, /* a user or the host stopped it */
	TFC_JOB_DAMAGED = 9, /* in a list of jobs only: its record in the store is unreadable */
};

/* The states from TFC_TASK_EXITED on are those of an attempt that has ended. */
enum tfc_task_state {
	TFC_TASK_PENDING = 1,  /* not placed yet */
	TFC_TASK_HOLDING = 2,  /* its port is held */
	TFC_TASK_STARTING = 3, /* its process is being started */
	TFC_TASK_RUNNING = 4,  /* its program runs, but does not listen yet */
	TFC_TASK_READY = 5,    /* it listens; a task that never listens: its program runs */
	TFC_TASK_EXITED = 6,   /* ended by itself: with 0, or after the job had succeeded */
	TFC_TASK_FAILED = 7,   /* ended in any other way */
	TFC_TASK_LOST = 8,     /* its shim, its guard or its node was lost */
	TFC_TASK_STOPPED = 9,  /* ended because it was stopped */
};

/** "running", "ready", ...; "?" for an unknown one. Static strings. Thread: any. Errors: none. */
TFC_API const char *tfc_job_state_name(uint32_t state);
TFC_API const char *tfc_task_state_name(uint32_t state);

/* Why a job or an attempt ended. */
enum tfc_end_reason {
	TFC_END_NONE = 0,
	TFC_END_EXIT = 1,      /* see exit_code; of a job, that of the deciding task */
	TFC_END_SIGNAL = 2,    /* see signal; of a job, that of the deciding task */
	TFC_END_DEADLINE = 3,  /* deadline_s, start_deadline_s or pending_deadline_s passed; text
				  names what the job was waiting for */
	TFC_END_STOPPED = 4,   /* a user or the host stopped it */
	TFC_END_LOST = 5,      /* the exit status is not known: a shim, guard or node was lost */
	TFC_END_NOT_FOUND = 6, /* the program does not exist */
	TFC_END_NOT_EXECUTABLE = 7,
	TFC_END_REFUSED = 8, /* it could not be started: no port, no directory, a cluster spec that
				is not valid; see text */
	TFC_END_FOREIGN_LISTENER = 9, /* another program listens on the task's port */
	TFC_END_CONSEQUENCE = 10,     /* of an attempt: it ended because another task had ended */
	TFC_END_STALLED = 11,         /* no sign of life for stall_s; see the job key on_stall */
	TFC_END_UNSCHEDULABLE = 12,   /* no node can ever offer what it needs; text says what is
					 missing, and what there is */
};

/** "exit", "signal", "deadline", ...; "?" for an unknown one. Static. Thread: any. Errors: none. */
TFC_API const char *tfc_end_reason_name(uint32_t reason);

/* ---- a job and its tasks */

/* How an attempt of a task ended. */
typedef struct tfc_attempt_end {
	uint32_t size;
	uint32_t attempt;     /* from 1 */
	uint32_t task_state;  /* enum tfc_task_state */
	uint32_t reason;      /* enum tfc_end_reason */
	uint32_t exit_reason; /* enum tfc_exit_reason: how the process itself ended */
	int32_t exit_code;    /* of a process that exited: 0 to 255; else 0 */
	int32_t signal;       /* the signal that killed the process; else 0 */
	int32_t error_code;   /* enum tfc_err: why the process never ran; else 0 */
	uint64_t ended_ns;    /* when it ended */
	uint64_t user_us;     /* CPU time in user mode, microseconds; see tfc_process_event */
	uint64_t system_us;   /* the same, in the kernel */
	uint64_t max_rss_kib; /* largest resident set */
	const char *node;     /* where it ran */
	const char *text;     /* a message for people; or "" */
} tfc_attempt_end;

/* A task of a job. */
typedef struct tfc_job_task {
	uint32_t size;
	uint32_t state;         /* enum tfc_task_state */
	const char *task_type;  /* "worker" */
	uint32_t task_index;    /* among the tasks of task_type, from 0 */
	uint32_t attempt;       /* the latest, from 1; 0: none yet */
	const char *node;       /* the name of the node it is on; "": not placed yet */
	const char *address;    /* "host:port"; "": it has no port yet, or never */
	int32_t pid;            /* 0: it does not run */
	uint32_t isolation;     /* enum tfc_isolation; 0: it never ran */
	uint32_t restarts_left; /* UINT32_MAX: not known, because the job does not run */
	uint32_t generation;    /* of its latest attempt, from 1 */
	uint64_t started_ns;    /* when the program of its latest attempt started; 0: not yet */
	const char *activity; /* what its processes do, for people, or ""; of the first 128 tasks */
	const tfc_attempt_end *last_end; /* of its latest ended attempt; NULL: none has ended */
	/* It stalls after so many milliseconds without a sign of life (the job key stall_s); 0:
	 * never. */
	uint64_t stall_ms;
	/* The last sign of life of its node, which the maintainer cannot reach; the other fields
	 * are as of then. 0: the node responds, or there is no node. */
	uint64_t unreachable_ns;
	/* The bytes that it may use: the job key memory_limit, or with "auto" the reserved memory;
	 * 0: no limit. */
	uint64_t memory_limit;
	/* 1: the limit of memory_limit bytes is in force for its latest attempt */
	uint32_t is_memory_limited;
	uint32_t reserved; /* 0 */
} tfc_job_task;

enum tfc_zygote_state {
	TFC_ZYGOTE_IMPORTING = 1, /* it imports its modules; attempts that start now wait for it */
	TFC_ZYGOTE_READY = 2,     /* attempts are forked from it */
	TFC_ZYGOTE_FAILED = 3,    /* it has ended and is not made again; attempts start cold */
};

/** "importing", "ready", "failed"; "?" for an unknown one. Static. Thread: any. Errors: none. */
TFC_API const char *tfc_zygote_state_name(uint32_t state);

/*
 * A process of a node from which attempts of a job with "warm" are forked. Jobs may share it. It is
 * described as its node last reported it to the job: when its state changed, and at the latest
 * attempt of the job.
 */
typedef struct tfc_zygote {
	uint32_t size;
	uint32_t state;             /* enum tfc_zygote_state */
	const char *node;           /* the name of its node */
	const char *interpreter;    /* the program that runs in it */
	const char *const *modules; /* what it imports; NULL-terminated */
	const char *text;           /* FAILED: the reason, for people; else "" */
	int32_t pid;                /* 0: it does not run */
	uint32_t attempts;          /* of the job, that it was to fork */
	uint64_t started_ns;        /* when it was made */
	uint64_t rss_bytes;         /* its resident memory; 0: not known before it is READY */
	/* The part of rss_bytes that does not belong to files such as libraries. Attempts share it
	 * until they write to it. */
	uint64_t anonymous_bytes;
} tfc_zygote;

/* A job. Of a damaged one only job, state, maintainer and text are known. */
typedef struct tfc_job_info {
	uint32_t size;
	uint32_t state;         /* enum tfc_job_state */
	const char *job;        /* its id */
	const char *name;       /* its name, or "" */
	const char *maintainer; /* the name of the node that maintains it */
	const char *text; /* what it waits for, why it restarts, how it ended, for people; or "" */
	const void *host_tag;     /* tfc_submit_options.host_tag; NULL: none */
	uint64_t host_tag_len;    /* in bytes */
	uint64_t epoch;           /* see above; from 1 */
	uint64_t submitted_ns;    /* when it was submitted */
	uint64_t started_ns;      /* when it was first in TFC_JOB_RUNNING; 0: not yet */
	uint64_t ended_ns;        /* when it ended; 0: not yet */
	uint64_t age_ms;          /* from its submit until now, by the clock of its maintainer */
	uint64_t restarts;        /* of its tasks, in all */
	uint32_t generation;      /* see above; from 1; 0: not placed yet */
	uint32_t task_count;      /* how many tasks it has */
	uint32_t ready_count;     /* how many of them are ready */
	uint32_t reason;          /* of an ended job: enum tfc_end_reason; else 0 */
	int32_t exit_status;      /* of an ended job, as tfc_event_exit_status; else -1 */
	int32_t exit_code;        /* of an ended job: of its deciding task; else 0 */
	int32_t signal;           /* of an ended job: it killed the deciding task; else 0 */
	int32_t error_code;       /* enum tfc_err: why the deciding task never ran; else 0 */
	const char *decided_by;   /* the deciding task, "worker/0"; "": none decided */
	const char *const *nodes; /* where its tasks are, at most 64 names; NULL-terminated */
	/* Its tasks, for tfc_job_info_task: all of them from tfc_gateway_describe; otherwise NULL.
	 */
	const void *tasks;
	uint32_t described_tasks; /* structs at `tasks`: task_count or 0 */
	uint32_t task_size;       /* bytes from one of them to the next */
	/* The ends and moves of tasks that caused `restarts`: when a group of four tasks restarts
	 * because one of them has died, that is one incident and four restarts. */
	uint64_t incidents;
	/* The processes that its attempts are forked from, for tfc_job_info_zygote: from
	 * tfc_gateway_describe, of a job with "warm" that has not ended; otherwise NULL. */
	const void *zygotes;
	uint32_t zygote_count; /* structs at `zygotes` */
	uint32_t zygote_size;  /* bytes from one of them to the next */
} tfc_job_info;

/* A node whose jobs are missing in a list. */
typedef struct tfc_missing_node {
	uint32_t size;
	uint32_t reserved;  /* 0 */
	const char *node;   /* its name; "": all nodes that the queried node has not found yet */
	const char *reason; /* for people: it cannot be reached, does not answer, or refuses */
} tfc_missing_node;

/* The jobs of all nodes, for tfc_jobs_at and tfc_jobs_missing_at. */
typedef struct tfc_jobs {
	uint32_t size;
	uint32_t job_count;     /* structs at `jobs` */
	const void *jobs;       /* NULL: none */
	const void *missing;    /* NULL: none */
	uint32_t job_size;      /* bytes from one job to the next */
	uint32_t missing_count; /* structs at `missing` */
	uint32_t missing_size;  /* bytes from one missing node to the next */
} tfc_jobs;

/** The job at `index`; NULL: there is none. Borrowed: valid as long as `jobs`. Thread: any. Errors:
 * none. */
TFC_API const tfc_job_info *tfc_jobs_at(const tfc_jobs *jobs, uint32_t index);

/** The missing node at `index`; NULL: there is none. Borrowed: valid as long as `jobs`. Thread:
 * any. Errors: none. */
TFC_API const tfc_missing_node *tfc_jobs_missing_at(const tfc_jobs *jobs, uint32_t index);

/** The task at position `index`, by role and task index; NULL: there is none, or `job` has no list
 * of tasks. Borrowed: valid as long as `job`. Thread: any. Errors: none. */
TFC_API const tfc_job_task *tfc_job_info_task(const tfc_job_info *job, uint32_t index);

/** The zygote at position `index`; NULL: there is none. Borrowed: valid as long as `job`. Thread:
 * any. Errors: none. */
TFC_API const tfc_zygote *tfc_job_info_zygote(const tfc_job_info *job, uint32_t index);

/* ---- members */

/* The nodes of the cluster, as the queried node sees them, for tfc_members_at. */
typedef struct tfc_members {
	uint32_t size;
	uint32_t member_count; /* structs at `members` */
	const void *members;   /* NULL: none */
	uint32_t member_size;  /* bytes from one member to the next */
	uint32_t reserved;     /* 0 */
} tfc_members;

/** The member at `index`; NULL: there is none. Borrowed: valid as long as `members`. Thread: any.
 * Errors: none. */
TFC_API const tfc_member_info *tfc_members_at(const tfc_members *members, uint32_t index);

/* ---- what a job would run with */

/* What a task would be given. */
typedef struct tfc_task_plan {
	uint32_t size;
	uint32_t task_index;     /* among the tasks of task_type, from 0 */
	const char *task_type;   /* "worker" */
	const char *node;        /* the name of the node where it would run */
	const char *address;     /* "host:port"; "": it has no port */
	const char *cwd;         /* its working directory */
	const char *const *argv; /* its program and arguments; NULL-terminated */
	/* The variables that differ from those of the node, "NAME=value", and each of secret_env as
	 * "NAME" without a value; NULL-terminated */
	const char *const *env;
	uint32_t port;            /* 0: none */
	uint32_t inherited_count; /* variables that it has unchanged from the node */
	uint64_t stall_ms;        /* as in tfc_job_task */
	uint64_t memory_limit;    /* as in tfc_job_task, in bytes */
	/* 1: where its node cannot limit memory to these bytes, the task does not start; 0: it
	 * runs without a limit */
	uint32_t is_memory_limit_required;
	uint32_t reserved; /* 0 */
} tfc_task_plan;

/* What the tasks of a job would be given, for tfc_explanation_task. */
typedef struct tfc_explanation {
	uint32_t size;
	uint32_t strategy;   /* enum tfc_strategy */
	const char *name;    /* of the job, or "" */
	const void *tasks;   /* NULL: none */
	uint32_t task_count; /* structs at `tasks` */
	uint32_t task_size;  /* bytes from one of them to the next */
} tfc_explanation;

/** The plan at position `index`, by role and task index; NULL: there is none. Borrowed: valid as
 * long as `explanation`. Thread: any. Errors: none. */
TFC_API const tfc_task_plan *tfc_explanation_task(const tfc_explanation *explanation,
						  uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
