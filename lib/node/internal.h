/*
 * What the files of this module share: the node, its connections, the agents of other nodes, and
 * the service by which other nodes use the agent of this one.
 *
 *   open.c           the parts of a node, in the order in which they are opened
 *   connect.c        dialing and listening
 *   peers.c          the members as connections; peers_dial.c dials, callers.c lets in
 *   remote_agent.c   the agent of another node: stamps, renewals, silence, the moment when all is
 *                    surely gone
 *   remote_job.c     one job there: orders out, events in
 *   remote_open.c    it is opened there, resumed over the next connection, dropped
 *   remote_log.c     its log records
 *   agent_service.c  sessions and leases of maintainers elsewhere
 *   served_job.c     one job of a maintainer elsewhere: its orders in, its events out
 *   served_logs.c    streams of log records
 */
#ifndef TFC_NODE_INTERNAL_H
#define TFC_NODE_INTERNAL_H

#include <tfcluster/node.h>

#include "base/strv.h"
#include "bundle/transfer.h"
#include "cluster/directory.h"
#include "cluster/upstream.h"
#include "gateway/service.h"
#include "member/static_file.h"
#include "node/agent_link.h"
#include "node/agent_service.h"
#include "node/agent_wire.h"
#include "node/agents.h"
#include "node/peers.h"
#include "node/remote_agent.h"
#include "proc/proc.h"

/* ==== the node */

struct tfc_node {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__nodes *nodes;
	struct tfc__upstreams *upstreams;
	struct tfc__upstream_map *map; /* NULL: none */
	struct tfc__directory *directory;

	struct tfc__keyring *keyring; /* NULL: none */
	struct tfc__identity *identity;
	struct tfc__static_file *file; /* NULL: none */
	struct tfc__members *members;
	struct tfc__hello hello;
	struct tfc__peers *peers;
	struct tfc__node_agents *agents;
	struct tfc__quota quota; /* of clients */
	struct tfc__peer_listener **listeners;
	uint32_t listener_count;

	struct tfc__gateway_service *gateway;
	struct tfc__link drains; /* struct tfc__drain_call: members that are asked */

	struct tfc__link watches; /* struct tfc_member_watch */

	struct tfc__link askings; /* of guests.c */
	struct tfc__timer guest_look;
	uint64_t retain_s;

	tfc_node_hooks hooks; /* zeros: none */

	void (*left)(void *user); /* who waits for tfc_node_leave; NULL: nobody */
	void *left_user;
	struct tfc__timer leaving;
	struct tfc__work emptied; /* no task of anybody is left here */
	uint64_t leave_by;        /* tfc__now */
	bool is_suspended;        /* no maintainer of this node has a task left */
};

/* ---- open.c: the parts, in the order in which they are opened */

int tfc__node_open_parts(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_parts(tfc_node *node);

/* ---- connect.c */

/* Dials the members, before anything that speaks to them; listens, after all that is asked for. */
int tfc__node_connect(tfc_node *node, tfc_error *error);
int tfc__node_listen(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_stop_listening(tfc_node *node);
void tfc__node_disconnect(tfc_node *node);

/* ---- gateway.c: what others may ask of the jobs here */

int tfc__node_open_gateway(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_gateway(tfc_node *node);
int tfc__node_gateway_new(tfc_node *node, tfc_gateway **ret_gateway); /* in this process */

/* ---- guests.c */

/* A member is met: asks it for the jobs whose logs are here. */
void tfc__node_ask_guests(tfc_node *node, struct tfc__node_peer *peer);
void tfc__node_serve_known(tfc_node *node, struct tfc__rpc_request *request,
			   const msgpack_object *params);
void tfc__node_begin_guests(tfc_node *node); /* first of all; retain_s is set */
void tfc__node_find_guests(tfc_node *node);  /* those of an earlier run: the agent is open */
void tfc__node_end_guests(tfc_node *node);

/* ---- node.c */

void tfc__node_stop_leaving(tfc_node *node);

/* ---- members.c */

int tfc__node_open_members(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_members(tfc_node *node);
/* As it has said; else as it is pinned; or NULL. Borrowed. */
const char *tfc__node_member_id(const tfc_node *node, const struct tfc__member *member);
/* It takes no new task, or takes them again; everybody is told. */
void tfc__node_set_draining(tfc_node *node, bool is_draining);

/* ==== peers */

struct tfc__peers {
	tfc_ctx *ctx;
	struct tfc__peers_options options;
	struct tfc__link all; /* struct tfc__node_peer */
	struct tfc__link callers;
	struct tfc__observer watch; /* of the members */
	struct tfc__member_prober prober;
	uint64_t random;
	bool was_let_in;           /* a member has answered our hello */
	struct tfc__work refusing; /* tells `refused` */
	tfc_error refusal;

	void (*left)(void *user); /* who waits for goodbyes; NULL: nobody */
	void *left_user;
	uint32_t goodbyes; /* under way */
	struct tfc__timer leaving;

	uint32_t busy; /* callbacks are on the way: memory stays */
	bool is_closed;
};

struct tfc__node_peer {
	struct tfc__link link;
	struct tfc__peers *peers;
	struct tfc__member *member; /* NULL: it was taken out */
	char *name;
	struct tfc__peer *dialed; /* or NULL */
	char address[300];        /* where that goes to */
	bool is_up;               /* dialed, and it has answered our hello */
	bool is_refused;          /* our last hello was */
	struct tfc__rpc_call *hello, *ping, *bye;
	struct tfc__timer redial;
	uint32_t failures;
	uint32_t callers;                /* connections of it that came in */
	uint64_t heard_at;               /* tfc__now */
	char node_id[TFC__NODE_ID_SIZE]; /* as it said last, or "" */
	char boot_id[17];
	bool has_left; /* that run of it has said goodbye: what still comes is no sign of life */
	struct tfc__observers watches; /* of its connection: const bool *, it is up */
	char said[256];                /* what the log said of it last */
};

struct tfc__caller {
	struct tfc__link link;
	struct tfc__peers *peers;
	struct tfc__peer *peer;
	struct tfc__node_peer *member; /* NULL: no member, or not yet */
};

/* Around everything that may call out; after leave, `peers` may be gone. */
static inline void tfc__peers_enter(struct tfc__peers *peers)
{
	peers->busy++;
}
void tfc__peers_exit(struct tfc__peers *peers);

/* Makes the peer of a member, and dials it. member->owner is NULL when there was no memory. */
void tfc__peers_adopt(struct tfc__peers *peers, struct tfc__member *member);

/* The hello of this node as it is now, to the node that is dialed ("": to whoever reads it). */
void tfc__peers_write_hello(struct tfc__peers *peers, const char *to, struct tfc__buf *buf);

/* ---- peers_dial.c */

/* Dials, unless it is connected, being dialed, or not to be. */
void tfc__node_peer_dial(struct tfc__node_peer *peer);
void tfc__node_peer_hang_up(struct tfc__node_peer *peer);
void tfc__node_peer_tell(struct tfc__node_peer *peer, bool is_up);
void tfc__node_peer_on_redial(struct tfc__timer *timer);
void tfc__node_peer_on_probe(struct tfc__member_prober *prober, struct tfc__member *member);

void tfc__node_peer_heard(struct tfc__node_peer *peer);

/* It has said goodbye. */
void tfc__node_peer_left(struct tfc__node_peer *peer);

/* Takes over what it said of itself. */
void tfc__node_peer_learn(struct tfc__node_peer *peer, const struct tfc__hello *hello);

/* Dials now, if it is not connected: it has just been heard. */
void tfc__node_peer_redial(struct tfc__node_peer *peer);

/* ---- callers.c */

/* A connection that came in from it; NULL: none. */
struct tfc__rpc *tfc__caller_rpc_of(const struct tfc__node_peer *peer);

/* Ends the connections that came in from it, all but `except`. */
void tfc__callers_drop(struct tfc__node_peer *peer, const struct tfc__caller *except);
void tfc__callers_close(struct tfc__peers *peers);

/* ==== agents of other nodes */

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
	struct tfc__observer bundle_waiter;
	struct tfc__bundle_sender *sender; /* to its node; NULL: it is not offered, or another job
					      there offers the same */
};

/* remote_agent.c */
bool tfc__remote_is_ready(
	const struct tfc__remote_agent *agent);          /* connected, and in its session */
void tfc__remote_begin(struct tfc__remote_agent *agent); /* a job has come */
void tfc__remote_forget(void *agent, const char *id);

/* remote_open.c */
void tfc__remote_connect(struct remote_job *job); /* opens, resumes or drops it, if it is due */
void tfc__remote_retry(struct remote_job *job);   /* it is being ended there */
/* Offers its bundle there, if it is due, unless another job offers the same. */
void tfc__remote_offer_bundle(struct remote_job *job);

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

/* ==== the service for maintainers elsewhere */

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
	struct tfc__timer retry; /* the same, when there was no memory for it */
	bool is_forgotten;       /* its logs go with it */
	bool is_ending;          /* what runs is being ended, then it goes */
	struct tfc__work gone;
	uint32_t query; /* not answered yet, of a job that could not be opened; 0: none */
	struct tfc__work answer;
	struct tfc__link logs;
	struct tfc__bundle *bundle; /* used; NULL: it has none */
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

/* served_logs.c */
void tfc__served_logs_serve(struct tfc__agent_service *service, struct tfc__rpc_request *request,
			    const msgpack_object *params);
void tfc__served_logs_end(struct served_job *job);

#endif
