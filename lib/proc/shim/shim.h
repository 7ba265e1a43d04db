/*
 * tfc-shim: the parent of one task. It starts the task, copies its output into the log, passes
 * stops and signals on, and reports the end once nothing of the task is left. It lives on when the
 * guard dies, to clean up. One thread; small, because there is one per task.
 */
#ifndef TFC_SHIM_SHIM_H
#define TFC_SHIM_SHIM_H

#include <stdbool.h>
#include <sys/types.h>

#include "proc/log_write.h"
#include "proc/protocol.h"

struct shim {
	pid_t task;
	int out; /* read ends of the task's pipes, or -1 */
	int err;
	int signals;       /* signalfd: SIGCHLD, SIGTERM */
	bool is_orphan;    /* the guard is gone */
	bool is_dead;      /* the task is; what it left behind may not be */
	bool is_stopping;  /* TERM was sent */
	uint64_t kill_at;  /* nanoseconds, CLOCK_MONOTONIC; 0: no deadline */
	uint32_t grace_ms; /* when guard or host die */
	struct tfc__log_writer log;
	struct tfc__report report;
};

/* launch.c: the memfd, checked, its offsets turned into pointers. 0 or an errno. */
struct launch {
	struct tfc__launch *head;
	size_t size;
	char **argv;
	char **env;
	const char *cwd;
	const char *log_dir; /* NULL: none */
	const char *log_name;
};
int launch_map(struct launch *launch);
void launch_unmap(struct launch *launch);

/* task.c: starts the task with out and err as its output. Returns 0 or an errno and *ret_step. */
int task_start(const struct launch *launch, int out, int err, pid_t *ret_pid, uint32_t *ret_step);

/* output.c */
bool output_read(struct shim *shim, int fd); /* one chunk; false at the end of file */
void output_drain(struct shim *shim);        /* all that is in the pipes now */

/* end.c */
void end_stop(struct shim *shim, uint32_t grace_ms);
void end_kill(struct shim *shim);
bool end_reap(struct shim *shim); /* true once the task and all it left behind are gone */

#endif
