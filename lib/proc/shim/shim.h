/*
 * tfc-shim: the parent of one task. It starts the task, copies its output into the log, passes
 * stops and signals on, and reports the end once nothing of the task is left. It ends the task also
 * without the guard, which may be stopped or dead: when the host or the guard dies, and when the
 * task's lease is over. One thread; small, because there is one per task.
 */
#ifndef TFC_SHIM_SHIM_H
#define TFC_SHIM_SHIM_H

#include <stdbool.h>
#include <sys/types.h>

#include "core.h"
#include "log/writer.h"
#include "proc/protocol.h"

struct shim {
	pid_t task;
	int out; /* read ends of the task's pipes, or -1 */
	int err;
	int signals;           /* signalfd: SIGCHLD */
	int group;             /* the task's cgroup directory, or -1 */
	int locks[TFC__LOCKS]; /* or -1: shared as long as the shim lives */
	uint32_t isolation;    /* enum tfc__isolation: what it has become */
	bool has_groups;       /* the guard's cgroup directory was given to us */
	int progress;          /* read end of the progress pipe, or -1 */
	int timer;         /* timerfd of CLOCK_BOOTTIME, which goes on while the machine sleeps, */
	uint64_t timer_at; /* and what it is set to */
	struct tfc__command command; /* the guard's SPAWN */
	struct shim_core core;
	struct tfc__log_writer log;
	struct tfc__report report;
};

/*
 * launch.c. await: until the guard says what to start, long after this process
 * began if it is a spare; false when the guard is gone. map: the memfd, checked, its offsets turned
 * into pointers; 0 or an errno.
 */
struct launch {
	struct tfc__launch *head;
	size_t size;
	char **argv;
	char **env;
	const char *cwd;
	const char *log_dir; /* NULL: none */
	const char *log_name;
	const struct tfc__launch_rlimit *rlimits;
	const uint32_t *groups;
};
bool launch_await(struct shim *shim);
int launch_map(struct launch *launch);
void launch_unmap(struct launch *launch);

/*
 * task.c: starts shim->task with out and err as its output and progress, unless it is -1, as
 * its descriptor 3. Returns 0, or an errno, and then in
 * shim->report the step that failed and what belongs to it.
 */
int task_start(struct shim *shim, const struct launch *launch, int out, int err, int progress);

/* limits.c: memory and CPUs of the task's cgroup. 0, or an errno and the report as above. */
int limits_group(struct shim *shim, const struct launch *launch);

/* limits.c: for the child, before its exec. 0, or an errno and *report as above. */
int limits_apply(const struct launch *launch, volatile struct tfc__report *report);

/* stall.c. open: 0 or an errno; the write end is the caller's. */
int stall_open(struct shim *shim, uint32_t stall_ms, int *ret_write_end);
void stall_sign(struct shim *shim);   /* it gave one */
void stall_read(struct shim *shim);   /* it may have, through the pipe */
bool stall_is_due(struct shim *shim); /* fills in the report */

/*
 * isolation.c: what holds the task and all it starts together, so that the kernel can kill it at
 * once. prepare: makes a cgroup before it is known whether one is wanted. begin: 0, or an errno and
 * the step in shim->report; kill and end do nothing without a cgroup.
 */
bool isolation_has_groups(void); /* first of all, before that descriptor can be another */
void isolation_prepare(struct shim *shim);
int isolation_begin(struct shim *shim, uint32_t wanted);
void isolation_kill(const struct shim *shim);
void isolation_end(struct shim *shim);

/* In the child: the namespace's own /proc, for it and all it starts. 0 or an errno. */
int isolation_mount_proc(void);

/* As vfork, but with memory of its own. */
pid_t isolation_fork_into_group(const struct shim *shim);

/* lease.c: false: there is none. */
bool lease_read(const struct shim *shim, struct tfc__lease_entry *ret_lease);

/* output.c */
bool output_read(struct shim *shim, int fd); /* one chunk; false at the end of file */
void output_drain(struct shim *shim);        /* all that is in the pipes now */

/*
 * end.c. step: what the core makes of an event, after its signals were sent and the timer was set.
 * decide: the same for an event of now, with the lease and the guard's SPAWN.
 */
int end_open(struct shim *shim); /* 0 or an errno */
struct shim_result end_step(struct shim *shim, const struct shim_event *event);
struct shim_result end_decide(struct shim *shim, enum shim_event_kind kind);
void end_due(struct shim *shim);  /* the timer has fired */
bool end_reap(struct shim *shim); /* true once the task and all it left behind are gone */

#endif
