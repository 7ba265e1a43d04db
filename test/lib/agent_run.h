/*
 * Incarnations of a node, as far as its agent is one: with a job of one task, which is deaf, and a
 * host in a process of its own that is killed.
 */
#ifndef TEST_AGENT_RUN_H
#define TEST_AGENT_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/agent.h"
#include "leaks.h"

#define AGENT_RUN_GRACE_MS 1000

struct agent_run {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__agent_job *job;
	tfc_job *definition;
	char address[64];
	bool is_held;
	bool is_answered;
	pid_t pid;
};

/* `dir` is the parent of private directories; `state` may be NULL: there is none. */
int agent_run_open(struct agent_run *run, const char *state, const char *dir);
/* With a job, whose port is asked for. */
int agent_run_begin(struct agent_run *run, const char *dir);
void agent_run_end(struct agent_run *run);
void agent_run_until(struct agent_run *run, const bool *what, int seconds);
void agent_run_for(struct agent_run *run, uint64_t ns);
/* Until there are so many in `dir`. */
void agent_run_await_private_dirs(struct agent_run *run, const char *dir, int count);

/* A process that is a node's host, and what it has started. */
struct dead_host {
	pid_t host;
	pid_t guard;
	pid_t shim;
	pid_t task;
};

/* What it reports is the return value. */
pid_t dead_host_fork(struct dead_host *dead, void (*host)(int report, const char *dir),
		     const char *dir);
void dead_host_start(struct dead_host *dead, const char *dir);
void dead_host_kill(const struct dead_host *dead);
/* Host and guard die together, and with is_shim the shim; it can do nothing about that. */
void dead_host_die_with_guard(struct dead_host *dead, const char *dir, bool is_shim);

/* "DIR/tfc-...", the only one there. */
void find_private_dir(const char *dir, char ret_path[LEAKS_PATH * 2]);

#endif
