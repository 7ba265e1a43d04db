/*
 * What the files of requests share: a request, and what it is about. Requests are made and answered
 * in requests.c, over the gateways of visitors.c; the jobs that they submit are in extra_jobs.c.
 */
#ifndef TEST_SIM_NODES_REQUESTS_H
#define TEST_SIM_NODES_REQUESTS_H

#include "sim.h"

#define SIM_REQUESTS 32            /* a bit of the mask for each, above those of faults */
#define SIM_ANSWER_TIME SIM_SECOND /* in which a process that runs answers */
#define SIM_ALL_NODES SIM_NODES

enum verb {
	JOBS,
	DESCRIBE,
	EXPLAIN,
	SPEC,
	ENVIRON,
	MEMBERS,
	DRAIN,
	SUBMIT,
	STOP,
	FORGET,
	FOLLOW,
	CLOSE, /* of a gateway */
	MOVE,  /* the partitions of an upstream go to other nodes */
	VERBS,
};

enum role { NODE, SUBMITTER, READER, ROLES };

struct sim_request {
	uint32_t number;
	enum verb verb;
	uint64_t at;
	uint32_t machine; /* who makes it */
	uint32_t over;    /* a client: which node; SIM_ALL_NODES: the first that answers */
	enum role role;   /* of a client's key */
	uint32_t timeout_ms;
	uint64_t cancel_after; /* 0: it is not canceled */
	uint64_t which;
	bool is_out; /* by the mask */
	/* once it is made */
	struct sim_host *host;
	tfc_gateway *gateway;
	tfc_op *op;
	uint64_t due; /* its host's monotonic clock; 0: when times are calm */
	bool is_canceled;
	uint32_t answers;
	/* of a subscription */
	tfc_sub *sub;
	uint32_t follower; /* of the main job; 0: none */
	bool is_paused, is_resumed, is_ended;
	bool is_behind_end; /* of its job: nothing comes, not even the end */
};

/* ---- requests.c */

extern struct sim_request sim_requests[SIM_REQUESTS];
extern uint32_t sim_request_count;
extern bool sim_is_calling; /* the library is being called: no callback may run */

bool sim_can_run(const struct sim_host *host);
/* An event: that request must be answered, unless its process could not. */
void sim_request_check_answered(void *user, uint64_t number);

/* ---- visitors.c */

/* The gateway that a request of that host goes over. */
tfc_gateway *sim_visit(struct sim_host *host, const struct sim_request *request);
/* Enters a node and gives a gateway of its own; NULL: it does not run, and is not entered. */
tfc_gateway *sim_visit_node(uint32_t number);
/* Closes its gateway, if there is one. */
void sim_visit_end(struct sim_host *host, const struct sim_request *request);
void sim_subscribe(struct sim_request *request);

/* ---- extra_jobs.c */

/* The name of a job, or the beginning of its id. */
void sim_name_job(const struct sim_request *request, bool is_extra, char text[20]);
tfc_job *sim_extra_job_new(const char *name, const struct sim_request *request);
bool sim_extra_is_room(void);                                    /* for one more */
const char *sim_extra_submit(const struct sim_request *request); /* the name of a new one */
void sim_extra_judge_submit(const struct sim_request *request, const tfc_reply *reply);
/* A job of that name, or none, may end so from now on. */
void sim_extra_may_be_stopped(const char *name);
void sim_extra_may_be_forgotten(const char *name);
/* The value of a secret variable is in no answer and no event. */
void sim_check_secret(const void *text, size_t len);
void sim_extra_calm(void);        /* counts and judges them, once they have ended */
bool sim_extra_are_counted(void); /* or are being: no more may be submitted */
bool sim_extra_are_done(void);

#endif
