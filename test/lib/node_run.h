/*
 * A node in tests: a context, a node and a gateway with the built helper programs; jobs from JSON;
 * events collected into a list and awaited with a deadline. `node_run_end` checks that no
 * descriptor, child or private directory is left.
 *
 * With TFC_TEST_GATEWAY=remote in the environment the gateway is a client of the node's service,
 * over a unix socket: what holds for one holds for the other.
 */
#ifndef TEST_NODE_RUN_H
#define TEST_NODE_RUN_H

#include <stdbool.h>
#include <tfcluster/gateway.h>
#include <tfcluster/node.h>

struct node_run {
	tfc_ctx *ctx;
	tfc_node *node;
	tfc_gateway *gateway;
	char *dir;             /* the node's temp_dir; removed at the end */
	int fds;               /* open before */
	struct served *served; /* NULL: the gateway is local */
	char log[8192];        /* what the library has logged from INFO on, a line each */
};

/* One event, copied. */
struct seen_event {
	tfc_event event; /* its strings are copies, too; data ends with a NUL behind data_len */
	char task[80];   /* "worker/0", "" for none */
	char *text;
	char *data;
	char *tail; /* END: log_tail, each line with a newline */
	char cursor[192];
	char address[80];
	char node[80];
	char name[80];
	char host_tag[64];
};

struct follower {
	tfc_sub *sub;
	struct seen_event *events;
	size_t count;
	bool is_ended;
	char job[17];           /* its id, once an event has come; at once with node_start */
	uint64_t output;        /* bytes of all OUTPUT events */
	bool is_output_dropped; /* they are counted, not collected */
	void (*on_event)(struct follower *follower, const tfc_event *event); /* or NULL */
	void *user;
};

struct answer {
	int count; /* how often it came */
	int code;
	char *text;
	char error[1024];
};

/* Options may be NULL; temp_dir is filled in. */
void node_run_begin(struct node_run *run, const tfc_node_options *options);
/* The gateway is a client of the node's service in any case; options: the service's, or NULL. */
struct tfc__gateway_service_options;
void node_run_begin_served(struct node_run *run,
			   const struct tfc__gateway_service_options *options);
/* A context's log: into run->log, which is `user`; warnings are printed, too. */
void node_keep_log(void *user, const tfc_log_entry *entry);
void node_run_close(struct node_run *run); /* gateway and node */
bool node_run_is_remote(void);
void node_run_end(struct node_run *run);

/* printf-like JSON with ' in place of ", so that it reads well. The caller frees it. */
char *node_json(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A job of `count` workers that run a line of sh, which needs no port. The caller frees it. */
char *node_script(uint32_t count, const char *script);

/* The path of the test program, test/proc/task.c. */
const char *node_task_program(void);

void node_answer(void *user, const tfc_reply *reply); /* into a struct answer */
void node_answer_clear(struct answer *answer);
void node_await_answer(struct node_run *run, struct answer *answer);

/* Submits, awaits the reply and returns the id. Fails the test when it is refused. */
char *node_submit(struct node_run *run, const char *json);
/* As node_submit with a reply to look at. */
void node_submit_for(struct node_run *run, const char *json, const tfc_submit_options *options,
		     struct answer *answer);
void node_stop(struct node_run *run, const char *job, bool is_kill);
/* Removes a job, repeating the request while the node reads its store; returns the reply's code. */
int node_forget(struct node_run *run, const char *job);

/* Describes a job: parsed by node_describe's caller. */
char *node_describe(struct node_run *run, const char *job);

void node_follow(struct node_run *run, const char *job, const tfc_subscribe_options *options,
		 struct follower *follower);
void node_follow_end(struct follower *follower); /* closes and frees */
/* Submits and follows from the beginning: follower->job is the id. */
void node_start(struct node_run *run, const char *json, struct follower *follower);

/* Dispatches until the condition is met; fails the test after 30 s. */
typedef bool (*node_condition)(void *user);
void node_await(struct node_run *run, node_condition is_met, void *user, const char *what);

/* An event of the kind and, for tasks, of task and state (0: any); found among all so far. */
const struct seen_event *node_find(const struct follower *follower, uint32_t kind, const char *task,
				   uint32_t state, uint32_t attempt);
const struct seen_event *node_await_task(struct node_run *run, struct follower *follower,
					 const char *task, uint32_t state, uint32_t attempt);
const struct seen_event *node_await_end(struct node_run *run, struct follower *follower);

/* Follows a job from its beginning to its end and closes the subscription, keeping the events. */
const struct seen_event *node_run_job(struct node_run *run, const char *json,
				      struct follower *follower);

/* All output of a task and stream (0: both), lines ended by newlines. The caller frees it. */
char *node_output(const struct follower *follower, const char *task, uint32_t stream);
char *node_reports(const struct follower *follower, const char *task); /* the same */

/* Breaks the connections of a run that is served, each time after 1 to `most` more events. */
struct node_cutter {
	struct node_run *run;
	unsigned most, seed;
	size_t next;   /* event at which the connections break */
	unsigned cuts; /* so far */
};
void node_cutter_on_event(struct node_cutter *cutter, const struct follower *follower);
void node_cut(struct follower *follower, const tfc_event *event); /* its user is a cutter */

#endif
