/*
 * The job as the modules below read it: plain fields, filled by the parser (job_parse.c) from the
 * table of keys (job_keys.c). The job owns everything it points to; strings are never NULL unless
 * stated.
 */
#ifndef TFC_JOB_JOB_H
#define TFC_JOB_JOB_H

#include "base/rlimit.h"
#include "base/strv.h"
#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/job.h>
#include <tfcluster/spec.h>

enum tfc__restart_on { TFC__RESTART_RETRYABLE = 0, TFC__RESTART_FAILURE, TFC__RESTART_NEVER };
enum tfc__scope { TFC__SCOPE_AUTO = 0, TFC__SCOPE_TASK, TFC__SCOPE_GROUP, TFC__SCOPE_COORDINATOR };
enum tfc__success {
	TFC__SUCCESS_AUTO = 0,
	TFC__SUCCESS_CHIEF,
	TFC__SUCCESS_WORKER0,
	TFC__SUCCESS_ALL_WORKERS,
	TFC__SUCCESS_DRIVER,
};
enum tfc__handover { TFC__HANDOVER_HOLD = 0, TFC__HANDOVER_OPEN, TFC__HANDOVER_RELEASE };
enum tfc__ready { TFC__READY_AUTO = 0, TFC__READY_LISTEN, TFC__READY_STARTED };
enum tfc__on_stall { TFC__STALL_REPORT = 0, TFC__STALL_STACKS, TFC__STALL_RESTART };
enum tfc__on_failure {
	TFC__ON_FAILURE_AUTO = 0,
	TFC__ON_FAILURE_FAIL,
	TFC__ON_FAILURE_IGNORE,
	TFC__ON_FAILURE_RESTART, /* synonym of FAIL, written by version 0.2 */
};

enum tfc__placement { TFC__PLACE_SPREAD = 0, TFC__PLACE_PACK, TFC__PLACE_UPSTREAM };
enum tfc__on_upstream_change { TFC__UPSTREAM_IGNORE = 0, TFC__UPSTREAM_RESTART };

enum tfc__topology { TFC__TOPOLOGY_FULL = 0, TFC__TOPOLOGY_PARTIAL };

struct tfc__restart {
	uint32_t on;            /* enum tfc__restart_on */
	uint32_t scope;         /* enum tfc__scope */
	uint32_t max;           /* restarts per window; 3 */
	double window_s;        /* 600 */
	double backoff_s[2];    /* {0, 30}: delay before the first restart, and the maximum */
	uint32_t losses;        /* restarts per losses_window_s after losses and preemptions; 100 */
	double losses_window_s; /* 86400 */
};

#define TFC__NO_LIMIT UINT64_MAX /* a limit in bytes that is switched off */

struct tfc__role {
	char *name;            /* "worker" */
	uint32_t count;        /* 1 */
	struct tfc__strv argv; /* empty: the job's */
	struct tfc__strv env;  /* "NAME=value"; overrides the job's */
	struct tfc__strv
		secret_env; /* "NAME=value", or "NAME": the node provides the value to the task */
	char *cwd;          /* NULL: the job's */
	uint16_t port;      /* fixed port of task 0, task i has port + i; 0: from the pool */
	uint32_t port_handover;      /* enum tfc__handover */
	bool is_server;              /* runs TensorFlow's own server */
	bool is_sidecar;             /* its name is meant: it is none of TensorFlow's */
	uint32_t ready;              /* enum tfc__ready */
	struct tfc__restart restart; /* the job's, with the role's overrides */
	uint32_t restart_given;      /* the role's own keys of restart, a bit each (job_keys.c) */
	uint32_t on_failure;         /* enum tfc__on_failure */
	double finish_s;             /* -1: the job's */
	double grace_s;              /* -1: the job's */
	char *log_dir;               /* tensorboard's --logdir; NULL: none */
	struct tfc__strv wrap;       /* arguments before the program's argv */
	uint64_t memory;             /* bytes per task that are reserved on its node */
	uint64_t memory_limit;       /* bytes; 0: auto; or TFC__NO_LIMIT */
	double cpus;                 /* per task; 0: no limit */
	struct tfc__rlimits rlimits;
	int32_t nice;          /* added to the host's nice value */
	int32_t oom_score_adj; /* INT32_MIN: the host's */
	char *user;            /* "name", "name:group", "1000:1000"; NULL: the host's */
	double stall_s;        /* -1: the job's */
	uint32_t gpus;         /* per task, for exclusive use */
	/* "NAME=value": labels that a node must have, besides the job's */
	struct tfc__strv labels;
};

struct tfc_job {
	char *name;         /* "": none */
	uint32_t framework; /* enum tfc_framework */
	uint32_t strategy;  /* enum tfc_strategy as given */
	struct tfc__strv argv;
	struct tfc__strv env;
	struct tfc__strv secret_env;
	char *cwd;    /* NULL: tasks start in "/", not in the submitting host's directory */
	char *bundle; /* NULL: none */
	char *python; /* NULL: the node's */
	struct tfc__role *roles; /* in the order of the job file */
	uint32_t role_count;
	struct tfc__restart restart;
	uint32_t success;            /* enum tfc__success */
	double grace_s;              /* 10 */
	double abort_grace_s;        /* -1: auto */
	double preempt_grace_s;      /* 30 */
	double finish_s;             /* 30 */
	double start_deadline_s;     /* -1: auto; 0: none */
	double deadline_s;           /* 0: none */
	double pending_deadline_s;   /* 0: none */
	uint32_t topology;           /* enum tfc__topology */
	double stall_s;              /* see tfc__role_stall_ms; -1: auto, 0: never */
	uint32_t on_stall;           /* enum tfc__on_stall */
	bool reports;                /* tasks have TFC_REPORT_FD */
	struct tfc__strv warm;       /* modules that a zygote imports; empty: starts are cold */
	uint32_t isolation;          /* enum tfc_isolation (process.h) */
	uint32_t placement;          /* enum tfc__placement */
	struct tfc__strv labels;     /* "NAME=value": labels that a node must have */
	char *upstream;              /* upstream whose partitions the workers follow; NULL: none */
	uint32_t on_upstream_change; /* enum tfc__on_upstream_change */
	uint64_t given;              /* the keys that were set, a bit each, by their place in
				      * tfc__job_keys; those of a role are not counted */
};

/* Values of keys that a job does not set itself. */
struct tfc__job_defaults {
	double first_backoff_s; /* of restart.backoff_s; 0: the key's own default */
	double pending_deadline_s;
};

void tfc__job_set_defaults(tfc_job *job, const struct tfc__job_defaults *defaults);

/*
 * As tfc_job_parse, for a job that was submitted before: a record, or the job of another node. It
 * may be of an earlier version, so the checks for mistyped names are not made.
 */
int tfc__job_parse_stored(const char *json, size_t len, const char *file, tfc_error *error,
			  tfc_job **ret_job);

const struct tfc__role *tfc__job_role(const tfc_job *job, const char *name); /* or NULL */

/*
 * The strategy with "auto" resolved: parameter_server if the job has a ps, else mirrored; none with
 * a framework other than TensorFlow.
 */
enum tfc_strategy tfc__job_strategy(const tfc_job *job);

/* Whether the framework uses ranks instead of roles: pytorch, jax, horovod. */
bool tfc__job_has_ranks(const tfc_job *job);
/* Whether the job contains values of secret_env and not only names. */
bool tfc__job_has_secrets(const tfc_job *job);

/*
 * Whether chief and workers form one group in which a single task cannot leave or be restarted
 * alone: mirrored workers, and frameworks with ranks.
 */
bool tfc__job_is_collective(const tfc_job *job);

/* Whether tasks of a role see only a part of the cluster. */
bool tfc__role_sees_part(const tfc_job *job, const struct tfc__role *role);

/* The names of roles that are no sidecars, NULL-terminated: TensorFlow's, tensorboard, driver. */
extern const char *const tfc__role_names[];

/* Whether a role belongs to the cluster spec: chief, worker, ps, evaluator. */
bool tfc__role_is_in_cluster(const char *name);

/*
 * Whether the role's tasks have a port: chief, worker, ps, tensorboard, or a role with `port` set.
 * With ranks only rank 0 listens on its port, but every rank has an address.
 */
bool tfc__role_has_port(const tfc_job *job, const struct tfc__role *role);

/* Whether the role's tasks are ready when they listen, as TensorFlow's are; otherwise they are
 * ready when they run. */
bool tfc__role_is_ready_on_listen(const tfc_job *job, const struct tfc__role *role);

/*
 * A task of the role has stalled when it has given no sign of life for so many milliseconds; 0:
 * never. "auto" is 300 s for chief and workers of a mirrored job, and for the chief of a
 * parameter-server job, unless they run TensorFlow's own server. It only reports: with another
 * on_stall it is 0.
 */
uint32_t tfc__role_stall_ms(const tfc_job *job, const struct tfc__role *role);

/* The bytes that a task may use, by memory_limit or, with auto, the reserved memory; 0: no limit.
 */
uint64_t tfc__role_memory_limit(const struct tfc__role *role);

/* Tasks are numbered across the roles, in order. The number of tasks; tfc__job_task_role returns
 * the role of a task. */
uint32_t tfc__job_task_count(const tfc_job *job);
/* The abort grace in ms; with "auto" the longest possible one. */
uint32_t tfc__job_abort_grace_ms(const tfc_job *job);
/* The longest time that a task of the job can have between SIGTERM and SIGKILL. */
double tfc__job_longest_grace_s(const tfc_job *job);
const struct tfc__role *tfc__job_task_role(const tfc_job *job, uint32_t task, uint32_t *ret_index);

/*
 * Adds "ROLE=address,address" for each role outside the cluster spec, with the addresses of its
 * tasks that have one. `address_of` returns the address of a task, or NULL or "".
 */
void tfc__job_hosts(const tfc_job *job, const char *(*address_of)(const void *user, uint32_t task),
		    const void *user, struct tfc__strv *hosts);

/* A deep copy, or NULL when out of memory. */
tfc_job *tfc__job_copy(const tfc_job *job);

#endif
