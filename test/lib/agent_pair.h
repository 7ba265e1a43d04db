/*
 * A maintainer's view of an agent on another node, all in one context: the remote agent, a
 * connection that can be cut, held up and made anew, the service and the local agent behind it.
 * Events are collected.
 */
#ifndef TEST_LIB_AGENT_PAIR_H
#define TEST_LIB_AGENT_PAIR_H

#include "agent/agent_ops.h"
#include "node/agent_service.h"
#include "node/remote_agent.h"
#include "rpc_pair.h"

struct agent_pair {
	tfc_ctx *ctx;
	char *dir;     /* of logs and private directories; removed at the end */
	char *log_dir; /* the agent's, in dir */
	struct tfc__agent *agent;
	struct tfc__agent_service *service;
	struct tfc__remote_agent *remote;
	struct tfc__bundles *bundles;   /* the maintainer's */
	struct tfc__identity *identity; /* the node's */
	struct rpc_pair rpc;            /* ends[0] is the maintainer's */
	bool is_connected;
};

void agent_pair_begin(struct agent_pair *pair, uint32_t lease_ms);
void agent_pair_end(struct agent_pair *pair);
void agent_pair_connect(struct agent_pair *pair);
void agent_pair_up(struct agent_pair *pair, uint32_t lease_ms); /* begun and connected */
void agent_pair_cut(struct agent_pair *pair);                   /* both ends notice */
void agent_pair_hold(struct agent_pair *pair); /* nothing comes through, and nobody notices */
void agent_pair_release(struct agent_pair *pair);
/* The remote agent goes without a word, as its process would; another takes its place. */
void agent_pair_forget(struct agent_pair *pair, uint32_t lease_ms);
/* The same, but it is the same process, which has given up its jobs here. */
void agent_pair_forget_jobs(struct agent_pair *pair, uint32_t lease_ms);
/* The service's process ends and another one comes: all of its tasks are killed. */
void agent_pair_reboot(struct agent_pair *pair);

/* An event, copied. */
struct received_event {
	enum tfc__task_event_kind kind;
	uint32_t task, attempt, number;
	pid_t pid;
	uint32_t reason;
	int32_t status;
	uint64_t time_ns, log_end;
	char address[64];
	char text[320];
	uint8_t states[16];
};

#define RECEIVED_MAX 512

/* A job of a maintainer. */
struct paired_job {
	struct agent_pair *pair;
	const struct tfc__agent_ops *ops;
	void *handle;
	tfc_job *job;
	struct received_event received[RECEIVED_MAX];
	uint32_t count;
};

/* JSON with ' for ", as node_json; fails the test when it cannot be opened. */
void paired_open(struct agent_pair *pair, struct paired_job *job, const char *id, uint64_t epoch,
		 const char *json);
/* The same, of an earlier epoch whose tasks may be alive there; `will`: what its journal has. */
void paired_resume(struct agent_pair *pair, struct paired_job *job, const char *id, uint64_t epoch,
		   const char *json, const struct tfc__will_key *will);
void paired_close(struct paired_job *job);
/* The n-th event (from 1) of a kind and task, or NULL. */
const struct received_event *paired_find(const struct paired_job *job,
					 enum tfc__task_event_kind kind, uint32_t task, uint32_t n);
const struct received_event *paired_await(struct paired_job *job, enum tfc__task_event_kind kind,
					  uint32_t task, uint32_t n);
uint32_t paired_count(const struct paired_job *job, enum tfc__task_event_kind kind, uint32_t task);
/* Holds and launches the first `count` tasks as attempt 1 of generation 1. */
void paired_start(struct paired_job *job, uint32_t count);

/* Two workers of the test program, with a port each: verbs in quotes, as "'print', 'x', 'wait'". */
void paired_open_task(struct agent_pair *pair, struct paired_job *job, uint64_t epoch,
		      const char *verbs);
/* Until the service has no job of anybody. */
void agent_pair_await_no_jobs(struct agent_pair *pair);
void agent_pair_run_for(struct agent_pair *pair, uint32_t ms);

#endif
