/*
 * What the files of this room share: the agent, its jobs and their tasks.
 *
 *   agent.c      the machine: directories, port pool, the list of jobs
 *   agent_job.c  a job on it: open, close, holds, queries
 *   launch.c     one attempt: argv, environment, spawn
 *   environ.c    the environment of a task
 *   watch.c      the wait for listeners, and the strangers found by it
 *   bundle.c     packing and unpacking, in a process of its own
 *   follow.c     who is told that a log has grown
 */
#ifndef TFC_AGENT_INSIDE_H
#define TFC_AGENT_INSIDE_H

#include "agent/agent.h"
#include "base/list.h"
#include "base/strv.h"
#include "ctx/ctx.h"
#include "port/port.h"
#include "proc/proc.h"

#define PORT_BUCKETS 256

struct tfc__agent {
	tfc_ctx *ctx;
	char *name;
	char *host;
	char *python;
	char *log_dir; /* NULL: logs are private */
	char *run_dir; /* private, ours to remove */
	struct tfc__strv env;
	tfc_port_pool *pool;
	struct tfc__link jobs;
	/* Tasks whose listener is awaited, by port: one look at the kernel serves them all. */
	struct tfc__timer watch_timer;
	uint64_t watch_pause;
	uint32_t watched;
	uint32_t urgent; /* of those: tasks that are not ready before they listen */
	struct tfc__link by_port[PORT_BUCKETS];
	/* Hooks of the host. */
	void *hook_user;
	int (*before_launch)(void *user, const tfc_task_info *task, tfc_env *env);
	void (*after_exit)(void *user, const tfc_task_info *task);
};

/* What a task still has to say in the next dispatch. */
enum reply { REPLY_NONE = 0, REPLY_HELD, REPLY_HOLD_FAILED, REPLY_REFUSED };

struct agent_task {
	struct tfc__agent_job *job;
	const struct tfc__role *role;
	uint32_t number; /* of the task in the job */
	uint32_t index;  /* within its role */
	tfc_port_hold *hold;
	uint16_t port; /* its port for life; 0: none yet */
	char *address;
	tfc_process *process; /* the attempt, or the unpacking before it */
	pid_t pid;
	uint32_t attempt;
	uint32_t generation;
	bool is_unpacked;
	bool is_stranger;
	bool is_queued;        /* to be launched once the bundle is packed */
	bool is_stopped;       /* before its program was started: by tfc__agent_stop */
	struct tfc__strv argv; /* of the attempt that waits for its bundle, else empty */
	struct tfc__strv env;
	struct tfc__link watch_link; /* in agent->by_port */
	struct tfc__work reply;
	enum reply reply_kind;
	tfc_error error; /* the sentence of a failed hold or a refusal, or about a stranger */
};

enum bundle_state { BUNDLE_NONE = 0, BUNDLE_PACKING, BUNDLE_READY, BUNDLE_FAILED };

struct tfc__agent_job {
	struct tfc__link link;
	struct tfc__agent *agent;
	struct tfc__agent_job_info info;
	tfc__agent_fn fn;
	void *user;
	char *run_dir; /* agent->run_dir/ID: bundle, unpacked directories, private logs */
	char *log_dir;
	struct agent_task *tasks;
	uint32_t task_count;
	uint8_t *states; /* of the answer to a query, one per task */
	uint32_t query;  /* the unanswered one, or 0 */
	struct tfc__work answer;
	enum bundle_state bundle_state;
	tfc_process *packing; /* or removing, once the job has ended */
	tfc_error bundle_error;
	/* followers of the logs */
	struct tfc__link watches;
	struct tfc__io inotify;
};

void agent_tell(struct agent_task *task, struct tfc__agent_event *event);
void agent_reply(struct agent_task *task, enum reply kind);
void refuse_stopped(struct agent_task *task); /* it was told to stop before it was started */
void agent_task_info(const struct agent_task *task, tfc_task_info *ret_info);

int hold_port(struct agent_task *task);
void answer_when_settled(struct tfc__agent_job *job);

int render_environ(struct agent_task *task, const tfc_spec *spec, struct tfc__strv *env,
		   tfc_error *error);
int render_argv(struct agent_task *task, const tfc_spec *spec, struct tfc__strv *argv,
		tfc_error *error);
void spawn_attempt(struct agent_task *task);

void watch_listener(struct agent_task *task);
void unwatch_listener(struct agent_task *task);
void watch_tick(struct tfc__timer *timer);

/* Whether somebody else listens on the task's port; then the sentence is in task->error. */
bool find_stranger(struct agent_task *task);

int bundle_begin(struct tfc__agent_job *job, tfc_error *error);
void bundle_launch(struct agent_task *task); /* unpacks if needed, then spawn_attempt */
void bundle_end(struct tfc__agent_job *job);
char *bundle_dir(const struct agent_task *task);

void follow_end(struct tfc__agent_job *job);

#endif
