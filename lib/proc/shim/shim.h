/*
 * tfc-shim: the parent of one task. It starts the task, copies its output to the log, forwards
 * stops and signals, and reports the end once no process of the task is left. It also ends the task
 * without the guard, which may be stopped or dead: when the host or the guard dies, and when the
 * task's lease is over. One thread; small, because there is one shim per task.
 */
#ifndef TFC_SHIM_SHIM_H
#define TFC_SHIM_SHIM_H

#include <stdbool.h>
#include <sys/types.h>

#include "core.h"
#include "log/writer.h"
#include "proc/protocol.h"

/* The output that the log could not take. */
struct shim_loss {
	bool is_watched;
	bool is_reported;    /* that output is being lost */
	uint64_t dropped;    /* log.dropped when it was last observed */
	uint64_t dropped_at; /* when it had grown */
	uint64_t before;     /* log.dropped and log.dropped_lines when the loss began */
	uint64_t lines_before;
	uint64_t pause; /* after this time without a loss, the end of the loss is reported */
};

struct shim {
	pid_t task;
	pid_t child; /* a process that a zygote has forked, and that waits to become the task; or 0
		      */
	int zygote;  /* the task is a zygote: the socket for it, until it is started; or -1 */
	int out;     /* read ends of the task's pipes, or -1 */
	int err;
	int signals;           /* signalfd: SIGCHLD */
	int group;             /* the task's cgroup directory, or -1 */
	int locks[TFC__LOCKS]; /* or -1: shared as long as the shim lives */
	uint32_t isolation;    /* enum tfc__isolation in effect, never AUTO after the start */
	int memory_error;      /* errno: why the memory limit was not applied, which is permitted */
	int64_t memory_limit;  /* bytes that were requested; 0: none */
	bool has_groups;       /* the guard's cgroup directory was passed to this shim */
	int progress;          /* read end of the progress pipe, or -1 */
	int reports;           /* read end of the pipe for reports, or -1 */
	int timer;             /* timerfd of CLOCK_BOOTTIME, which counts the time of a suspend */
	uint64_t timer_at;     /* the time it is set to */
	int suspended_by;      /* the signal that suspended the task last */
	struct tfc__command command; /* the guard's SPAWN */
	struct shim_core core;
	struct tfc__log_writer log;
	struct shim_loss loss;
	struct tfc__report report;
};

/*
 * launch.c. await: waits for the guard's SPAWN, for a long time if this shim is a spare; false when
 * the guard is gone. map: maps and checks the memfd and turns its offsets into pointers; 0 or an
 * errno.
 */
struct shim_launch {
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
int launch_map(struct shim_launch *launch);
void launch_unmap(struct shim_launch *launch);

/*
 * task.c: starts shim->task with these descriptors. Returns 0, or an errno; then shim->report has
 * the step that failed and its details.
 */
struct task_fds {
	int out; /* this and the next: -1: the shim's own, which is /dev/null */
	int err;
	int progress; /* -1: none */
	int reports;  /* -1: none */
	int zygote;   /* -1: none */
};
int task_start(struct shim *shim, const struct shim_launch *launch, const struct task_fds *fds);

/*
 * warm.c: lets the process that a zygote has forked become the task. False: there is none, or it
 * has failed and was killed; the task is then to be started as usual.
 */
bool warm_start(struct shim *shim, const struct shim_launch *launch, const struct task_fds *fds);
void warm_end_child(struct shim *shim); /* kills and reaps it, if it has not become the task */

/* limits.c: limits memory and CPUs of the task's cgroup. 0, or an errno and the report as above. */
int limits_group(struct shim *shim, const struct shim_launch *launch);

/* limits.c: the task has ended, its cgroup is still there: reports whether memory had run out. */
void limits_report_oom(struct shim *shim);

/* limits.c: in the child, before its exec. 0, or an errno and *report as above. */
int limits_apply(const struct shim_launch *launch, volatile struct tfc__report *report);

/* stall.c. open: 0 or an errno; the caller owns the write end. */
int stall_open(struct shim *shim, uint32_t stall_ms, int *ret_write_end);
void stall_sign(struct shim *shim);   /* the task gave a sign of life */
void stall_read(struct shim *shim);   /* reads the pipe, which counts as a sign of life */
bool stall_is_due(struct shim *shim); /* fills in the report */

/*
 * suspension.c. observe: SIGCHLD has come. observe, is_due: the kind of the report to send, which
 * is filled in, or 0.
 */
void suspension_watch(struct shim *shim, uint32_t suspend_ms);
uint32_t suspension_observe(struct shim *shim);
uint32_t suspension_is_due(struct shim *shim);

/*
 * loss.c. observe: the report to send, if true; is_last: the task has ended. due: when to observe
 * again; 0: after the next output.
 */
bool loss_observe(struct shim *shim, bool is_last, struct tfc__report *ret_report);
uint64_t loss_due(const struct shim *shim);

/*
 * isolation.c: groups the task with all that it starts, so that the kernel can kill them together.
 * prepare: makes a cgroup before it is known whether one is wanted. begin: 0, or an errno and the
 * step in shim->report; kill and end do nothing without a cgroup.
 */
bool isolation_has_groups(void); /* call first, before that descriptor number can be reused */
void isolation_prepare(struct shim *shim);
int isolation_begin(struct shim *shim, uint32_t wanted);
void isolation_kill(const struct shim *shim);
void isolation_end(struct shim *shim);

/*
 * In the child: mounts the namespace's own /proc, for the child and all that it starts. 0 or an
 * errno.
 */
int isolation_mount_proc(void);

/* As vfork, but the child has its own memory. */
pid_t isolation_fork_into_group(const struct shim *shim);

/*
 * output.c: stdout, stderr and reports. due: when the state of a progress bar is to be written, on
 * the monotonic clock; 0: none waits. drain: everything that is in the pipes now.
 */
bool output_read(struct shim *shim, int fd); /* one chunk; false at end of file */
uint64_t output_due(void);
void output_write_due(struct shim *shim);
void output_drain(struct shim *shim);

/*
 * end.c. step: passes an event to the core, sends the signals it asks for and sets the timer.
 * decide: the same for an event at the current time, with the lease and the guard's SPAWN.
 */
int end_open(struct shim *shim); /* 0 or an errno */
struct shim_result end_step(struct shim *shim, const struct shim_event *event);
struct shim_result end_decide(struct shim *shim, enum shim_event_kind kind);
void end_due(struct shim *shim);  /* the timer has fired */
bool end_reap(struct shim *shim); /* true once the task and its descendants are gone */

#endif
