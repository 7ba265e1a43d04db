/*
 * What the files of the agent service share.
 *
 *   agent_service.c  sessions, leases, and who is answered what
 *   served_job.c     one job of a maintainer elsewhere: its orders in, its events out
 *   served_logs.c     streams of log records
 */
#ifndef TFC_NODE_AGENT_SERVICE_INNER_H
#define TFC_NODE_AGENT_SERVICE_INNER_H

#include "bundle/cache.h"
#include "node/agent_link.h"
#include "node/agent_service.h"
#include "node/agent_wire.h"
#include "proc/proc.h"

#define JOB_BUCKETS 64

struct tfc__agent_service {
	tfc_ctx *ctx;
	struct tfc__agent_handle agent;
	struct tfc__bundles *bundles;
	uint64_t boot; /* random: another process has another one */
	struct tfc__link sessions;
	struct tfc__link jobs; /* all, of all sessions */
	uint32_t job_count;
};

/* A maintaining process, as far as it is heard. */
struct session {
	struct tfc__link link;
	struct tfc__agent_service *service;
	uint64_t instance; /* random: which process */
	char name[256];    /* of its node */
	struct tfc__rpc_request
		*stay; /* what it is told goes out as its items; NULL: no connection */
	struct tfc__lease *lease;
	uint64_t deadline_ns; /* CLOCK_BOOTTIME */
	bool is_over;
	struct tfc__link buckets[JOB_BUCKETS]; /* its jobs by handle */
	uint32_t job_count;
	struct tfc__work end; /* it goes: it is over, and has no jobs */
};

/* A job that a session has here. */
struct served_job {
	struct tfc__link link; /* in the session's bucket */
	struct tfc__link all;
	struct session *session;
	uint64_t handle; /* the maintainer's number for it */
	char *id;
	uint64_t epoch;
	bool has_minimal_env;
	tfc_job *job;
	void *tag;
	void *local; /* the agent's handle; NULL: it could not be opened, and why: */
	tfc_error error;
	uint32_t task_count;
	bool *is_launched; /* by task */
	uint32_t launched;
	tfc_spec *spec;
	uint32_t spec_generation;
	struct tfc__agent_link stream;
	bool is_up;              /* the stream flows over the session's connection */
	struct tfc__work flush;  /* what is to be sent */
	struct tfc__timer retry; /* the same, when there was no memory for it, or no bundle came */
	bool is_forgotten;       /* its logs go with it */
	bool is_ending;          /* what runs is being ended, then it goes */
	struct tfc__work gone;
	uint32_t query; /* not answered yet, of a job that could not be opened; 0: none */
	struct tfc__work answer;
	struct tfc__link logs;
	struct tfc__bundle *bundle; /* used; NULL: it has none */
	struct tfc__bundle_waiter bundle_waiter;
	bool asks_bundle; /* it is still to be told so */
};

/* Tells its maintainer. TFC_OK, TFC_ESTATE (no credit, no connection), TFC_ENOMEM, TFC_ELOST. */
int tfc__session_notify(struct session *session, const struct tfc__buf *item);
void tfc__session_leave(struct session *session);   /* its connection: it asks again for each job */
void tfc__session_is_left(struct session *session); /* by a job of it */

/* served_job.c */
struct served_job *tfc__served_job_find(struct session *session, uint64_t handle);
struct served_job *tfc__served_job_find_id(struct tfc__agent_service *service, const char *id);
void tfc__served_job_open(struct session *session, struct tfc__rpc_request *request,
			  const msgpack_object *params);
void tfc__served_job_drop(struct session *session, struct tfc__rpc_request *request,
			  const msgpack_object *params);
void tfc__served_job_receive(struct served_job *job, const msgpack_object *params);
void tfc__served_job_lost(struct served_job *job); /* the connection */
void tfc__served_job_flush(struct served_job *job);
void tfc__served_job_abort(struct served_job *job); /* then it goes, in dispatch */
void tfc__served_job_free(struct served_job *job);

/* Flushes then, or before. */
#define SERVED_RETRY (100 * TFC__MS)
void tfc__served_job_later(struct served_job *job, uint64_t ns);

/* served_bundle.c */
int tfc__served_bundle_open(struct served_job *job, const msgpack_object *params, tfc_error *error);
bool tfc__served_bundle_is_wanted(const struct served_job *job); /* bytes of it */
void tfc__served_bundle_request(
	struct served_job *job); /* for them, if they are, until they come */
void tfc__served_bundle_leave(struct served_job *job);

/* served_logs.c */
void tfc__served_logs_serve(struct tfc__agent_service *service, struct tfc__rpc_request *request,
			    const msgpack_object *params);
void tfc__served_logs_end(struct served_job *job);

#endif
