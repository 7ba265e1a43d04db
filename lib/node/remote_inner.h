/*
 * What the files of remote agents share.
 *
 *   remote_agent.c  the node: stamps, renewals, silence, the moment when all is surely gone
 *   remote_job.c    one job there: orders out, events in
 *   remote_open.c   it is opened there, resumed over the next connection, dropped
 *   remote_bundle.c its bundle, sent in pieces
 *   remote_log.c    its log records
 */
#ifndef TFC_NODE_REMOTE_INNER_H
#define TFC_NODE_REMOTE_INNER_H

#include "base/strv.h"
#include "node/agent_link.h"
#include "node/agent_wire.h"
#include "node/remote_agent.h"

struct tfc__remote_agent {
	tfc_ctx *ctx;
	char *self;
	char *node;
	uint64_t instance;
	uint32_t lease_ms;
	struct tfc__rpc *rpc; /* NULL: there is no connection */
	struct tfc__rpc_call *stamp_call;
	uint64_t boot; /* of the other's service, as last heard; 0: never */
	struct tfc__rpc_call
		*stay;  /* open while the connection is used: what it tells comes as items */
	bool is_silent; /* told, or to be told, to the jobs */
	uint64_t
		heard_ns; /* CLOCK_BOOTTIME, when the stamp came that was last sent back; 0: none */
	int64_t ahead_ns; /* our CLOCK_BOOTTIME is ahead of the other's */
	struct tfc__timer renewal;
	struct tfc__timer loss; /* the next moment when something may be surely gone */
	struct tfc__bundles *bundles;
	struct tfc__link uploads;
	struct tfc__link logs;
	struct tfc__link jobs;
	uint64_t last_handle;
};

enum remote_state {
	REMOTE_OPEN,     /* or to be opened */
	REMOTE_DROPPING, /* it is to be ended there, nothing is told any more but LOST */
	REMOTE_GONE,     /* nothing of it is left there */
};

struct remote_job {
	struct tfc__link link;
	struct tfc__remote_agent *agent;
	uint64_t handle;
	char *id;
	uint64_t epoch;
	enum remote_state state;
	struct tfc__agent_job_info info; /* borrowed until it is closed */
	tfc__agent_fn fn;                /* NULL: closed */
	void *user;
	uint32_t task_count;
	uint32_t grace_ms; /* of its tasks when the lease is over */
	char ***log_tails; /* of the last bad ends, by task; or NULL */
	struct tfc__agent_link stream;
	uint32_t spec_generation; /* of the spec that it was sent, if it */
	bool has_spec;
	bool is_up;                 /* the stream flows over this connection */
	bool was_asked;             /* it may know it */
	uint64_t boot;              /* of the service that it was opened at; 0: none yet */
	uint64_t since_ns;          /* CLOCK_BOOTTIME: the earliest moment from which loss counts */
	struct tfc__rpc_call *call; /* open or drop, under way */
	struct tfc__work flush;
	struct tfc__timer retry; /* of the call, or of the flush */
	struct tfc__work tell;   /* SILENT, BACK, LOST, FENCED */
	bool tells_silent;
	bool is_told_silent;
	enum tfc__agent_event_kind last_word; /* LOST or FENCED, or 0 */
	tfc_error why;
	bool is_telling;            /* in fn */
	struct tfc__bundle *bundle; /* used; NULL: it has none */
	struct tfc__bundle_waiter bundle_waiter;
};

/* remote_agent.c */
bool tfc__remote_is_ready(
	const struct tfc__remote_agent *agent);          /* connected, and in its session */
void tfc__remote_begin(struct tfc__remote_agent *agent); /* a job has come */
void tfc__remote_forget(void *agent, const char *id);

/* remote_open.c */
void tfc__remote_connect(struct remote_job *job); /* opens, resumes or drops it, if it is due */
void tfc__remote_retry(struct remote_job *job);   /* it is being ended there */

/* remote_job.c */
#define REMOTE_RETRY (100 * TFC__MS) /* until what failed is tried again */
void tfc__remote_disconnect(struct remote_job *job);
void tfc__remote_flush(struct remote_job *job); /* sends what waits, as far as it goes */
/* Orders or events are missing: whatever it has there is ended, then it is told LOST. */
void tfc__remote_give_up(struct remote_job *job, const char *why);
void tfc__remote_receive(struct remote_job *job, const msgpack_object *params);
void tfc__remote_lose(struct remote_job *job, enum tfc__agent_event_kind word, const char *why);
void tfc__remote_notify_silence(struct remote_job *job, bool is_silent);
void tfc__remote_free(struct remote_job *job);

/* remote_bundle.c: `at`, what of it is there */
void tfc__remote_upload(struct remote_job *job, uint64_t at);
void tfc__remote_uploads_end(struct tfc__remote_agent *agent);

/* remote_log.c */
struct tfc__log_source *tfc__remote_log_open(void *job, uint32_t task, uint64_t position,
					     tfc_error *error);
struct tfc__log_source *tfc__remote_kept_log(void *agent, const char *id, const tfc_job *job,
					     uint32_t task, uint64_t position, tfc_error *error);
void tfc__remote_logs_wake(struct tfc__remote_agent *agent); /* the connection has come or gone */
#define ALL_TASKS UINT32_MAX
void tfc__remote_logs_retry(const struct remote_job *job, uint32_t task); /* or ALL_TASKS */
void tfc__remote_logs_leave(const struct remote_job *job);                /* it is closed */
void tfc__remote_logs_end(struct tfc__remote_agent *agent);

#endif
