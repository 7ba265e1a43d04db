/*
 * Running real processes in tests: a context with the built helper programs, a log directory, and
 * processes whose events are awaited. `proc_run_end` checks that neither a descriptor nor a child
 * is left.
 */
#ifndef TEST_PROC_RUN_H
#define TEST_PROC_RUN_H

#include <stdbool.h>
#include <tfcluster/process.h>

struct proc_run {
	tfc_ctx *ctx;
	char *dir; /* for logs and marks; removed at the end */
	int fds;   /* open before */
	bool is_zygote_ready;
	uint32_t import_ms;  /* that the zygote may take; 0: 60 s */
	tfc_process *zygote; /* with TFC_TEST_WARM: the tasks are forked from it; else NULL */
};

struct proc_task {
	tfc_process *process;
	bool is_started;
	int ends; /* how many terminal events came */
	int stalls;
	uint32_t silent_ms; /* of the last stall, or of one of the following */
	int suspensions, continuations;
	int suspended_by; /* the signal */
	pid_t pid;
	tfc_process_event end; /* a copy; its text is below */
	char text[512];
	char started_text[512];
	uint64_t started_memory_limit;
};

/* As tfc_ctx_new, with the built helper programs. */
int proc_ctx_new(tfc_ctx **ret_ctx);

void proc_run_begin(struct proc_run *run);
/* With other programs in place of guard and shim, which are called DIR/NAME/tfc-guard and so on. */
void proc_run_begin_with(struct proc_run *run, const char *name, const char *guard,
			 const char *shim);
void proc_run_end(struct proc_run *run);

const char *proc_task_program(void);

/* Spawns the test program: verbs as in test/proc/task.c, NULL-terminated. Logs as `name`. */
void proc_start(struct proc_run *run, struct proc_task *task, const char *name, ...);
/* The same with an enum tfc_isolation. */
void proc_start_isolated(struct proc_run *run, struct proc_task *task, uint32_t isolation,
			 const char *name, ...);
void proc_start_with(struct proc_run *run, struct proc_task *task,
		     const tfc_process_options *options);
/* Starts run->zygote unless there is one. */
void proc_start_zygote(struct proc_run *run);
void proc_await_start(struct proc_run *run, struct proc_task *task);
void proc_await_end(struct proc_run *run, struct proc_task *task);
/* Runs the test program until it kills itself by a signal, which must be what is reported. */
void proc_expect_signal(struct proc_run *run, uint32_t isolation, int number);
/* Waits for the next stall; the process must not end before. */
void proc_await_stall(struct proc_run *run, struct proc_task *task);
/* Waits until *count, one of the counts in `task`, grows; the process must not end before. */
void proc_await_count(struct proc_run *run, struct proc_task *task, const int *count);
void proc_close(struct proc_task *task);

/* All output of a log, NUL-terminated behind *ret_len bytes; the caller frees it. */
char *proc_output(struct proc_run *run, const char *name, size_t *ret_len);

/* "DIR/name" in a buffer that lives until the next 8 calls. */
const char *proc_path(struct proc_run *run, const char *name);

/* Something happens in a directory: an entry is made, written to or removed. `proc_watch` gives a
 * descriptor to be closed; look then, and before each next look await a change, for `what`. In a
 * directory that is not there nothing happens. */
int proc_watch(const char *dir);
void proc_await_change(int watch, const char *what);

/* Waits until a log has output. */
void proc_await_output(struct proc_run *run, const char *name);

/* Waits until a file is there and reads the number in it. */
long proc_await_number(const char *path);

/* Whether a process exists and is no zombie. */
bool proc_is_alive(pid_t pid);

/* Its state as in proc(5): 'R', 'S', 'D', ...; 0: it is gone. */
char proc_state(pid_t pid);

/* Bit N - 1 is signal N, of 1 to 31: those that a process blocks, and those that it ignores. */
uint32_t proc_blocked(pid_t pid);
uint32_t proc_ignored(pid_t pid);

/* Waits until a program "deaf" ignores TERM: it may not have got so far when it has started. */
void proc_await_deaf(pid_t pid);

/* The signals that end a node, in the same form. */
uint32_t proc_node_signals(void);
void proc_send_node_signals(pid_t pid); /* each of them */

/* SIGSTOP, and waits until the process has stopped. */
void proc_stop(pid_t pid);

/* Waits up to `ms` for a process to be gone; false when it is not. */
bool proc_await_gone(pid_t pid, int ms);

/* Whether this machine can isolate so; if not, prints the refusal: the test is skipped for it. */
bool proc_can_isolate(uint32_t isolation);
/* The one that a test program is called with, by name. 0, or what it is to exit with: it is called
 * in another way, or is to be skipped. */
int proc_isolation_of(int argc, char **argv, uint32_t *ret_isolation);

#define PROC_OUTSIDER 54321 /* no user of the system */
/* Calls `check` in a child that has given up root's rights; fails the test unless it comes back. */
void proc_as_outsider(void (*check)(void));

/* The cgroup v2 directory of a process, in a buffer of the caller's. */
void proc_group(pid_t pid, char path[4096]);

/* All that descends from a process, itself included, up to `size`; returns how many. */
size_t proc_family(pid_t root, pid_t *pids, size_t size);

/* How many processes, zombies aside, have this name (comm). */
int proc_count_named(const char *name);

/* The pid of the guard: the parent of a shim. */
pid_t proc_parent(pid_t pid);
bool proc_has_children(pid_t pid);

/* Whether it executes the program of a shim, and waits. */
bool proc_is_waiting_shim(pid_t pid);

/* Until the guard has its spare shim, so that it starts nothing by itself any more; its pid. */
pid_t proc_await_spare(pid_t guard);

#endif
