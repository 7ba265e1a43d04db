/*
 * Shared by the files of this module: the node, its connections, the agents of other nodes, and the
 * service by which other nodes use the agent of this one.
 *
 *   open.c           the parts of a node, in the order in which they are opened
 *   connect.c        dialing and listening
 *   peers.c          the connections to the members; peers_dial.c dials, callers.c accepts
 *   remote_agent.c   the agent of another node: stamps, renewals, unreachability, and the time at
 *                    which its tasks are certainly lost
 *   remote_job.c     one job there: sends orders, receives events
 *   remote_open.c    opens the job there, resumes it over the next connection, drops it
 *   remote_log.c     its log records
 *   agent_service.c  sessions and leases of maintainers on other nodes
 *   served_job.c     one job of a maintainer on another node: receives orders, sends events
 *   served_logs.c    streams of log records
 */
#ifndef TFC_NODE_INTERNAL_H
#define TFC_NODE_INTERNAL_H

#include <tfcluster/node.h>

#include "base/name_table.h"
#include "base/strv.h"
#include "bundle/transfer.h"
#include "cluster/directory.h"
#include "cluster/upstream.h"
#include "gateway/service.h"
#include "member/gossip.h"
#include "member/static_file.h"
#include "node/agent_link.h"
#include "node/agent_service.h"
#include "node/agent_wire.h"
#include "node/agents.h"
#include "node/calls.h"
#include "node/key_file.h"
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

	struct tfc__key_file *key_file; /* NULL: none */
	struct tfc__keyring *keyring;   /* of the key file; NULL: none */
	struct tfc__identity *identity;
	struct tfc__static_file *file;         /* NULL: none */
	struct tfc__gossip_membership *gossip; /* NULL: none */
	struct tfc__datagrams *datagrams;      /* NULL: none */
	struct tfc__datagram_receiver wills;   /* of `datagrams` */
	uint64_t will_second;                  /* of tfc__now */
	uint32_t will_count;                   /* received in datagrams in that second */
	struct tfc__members *members;
	struct tfc__observer stalls; /* of the context */
	struct tfc__hello hello;
	struct tfc__peers *peers;
	struct tfc__node_agents *agents;
	struct tfc__quota quota; /* limits for clients */
	struct tfc__peer_listener **listeners;
	uint32_t listener_count;

	struct tfc__gateway_service *gateway;
	struct tfc__feed_service *feeds;
	struct tfc__link drains; /* struct tfc__drain_call: pending calls to members */

	struct tfc__link watches; /* struct tfc_member_watch */

	struct tfc__link logs_queries; /* pending queries of remote_job_logs.c */
	struct tfc__timer remote_job_logs_timer;
	uint64_t retain_s;

	tfc_node_hooks hooks; /* zeros: none */

	/* Called when tfc_node_leave has completed; NULL: not leaving. */
	void (*left)(void *user);
	void *left_user;
	struct tfc__timer leaving;
	struct tfc__work emptied; /* the agent has no tasks left, of any maintainer */
	uint64_t leave_by;        /* tfc__now when leaving ends at the latest */
	bool is_suspended;        /* no maintainer of this node has a task left */
};

/* ---- open.c: the parts of a node, in the order in which they are opened */

int tfc__node_open_parts(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_parts(tfc_node *node);

/* ---- connect.c */

/* Dials the members, before any part calls them; listens, after every part that serves calls is
 * open. */
int tfc__node_connect(tfc_node *node, tfc_error *error);
int tfc__node_listen(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_receive_wills(tfc_node *node); /* last wills of other nodes, in datagrams */
void tfc__node_stop_listening(tfc_node *node);
void tfc__node_disconnect(tfc_node *node);

/* ---- gossip.c */

/* Makes the membership by gossip; it begins after the node listens. */
int tfc__node_open_gossip(tfc_node *node, const tfc_node_options *options, tfc_error *error);
int tfc__node_begin_gossip(tfc_node *node, const tfc_node_options *options, tfc_error *error);
/* The address at which `listen` NULL listens, as "tcp://HOST:PORT"; NULL: none. The caller frees
 * it. Returns TFC_OK or TFC_ENOMEM. */
int tfc__node_gossip_address(const tfc_node_options *options, tfc_error *error, char **ret_address);

/* ---- gateway.c: the services for clients and members: of the gateway, and of feeds */

int tfc__node_open_gateway(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_close_gateway(tfc_node *node);
int tfc__node_gateway_new(tfc_node *node, tfc_gateway **ret_gateway); /* in this process */

/* ---- remote_job_logs.c */

/* Call when a member is connected, or can be: queries which of the jobs whose logs are kept here
 * still exist. */
void tfc__node_query_remote_job_logs(tfc_node *node, struct tfc__node_peer *peer);
void tfc__node_serve_known(tfc_node *node, struct tfc__rpc_request *request,
			   const msgpack_object *params);
void tfc__node_begin_remote_job_logs(tfc_node *node); /* call first of all; retain_s is set */
/* Finds the logs of the previous incarnation. The agent is open. */
void tfc__node_find_remote_job_logs(tfc_node *node);
void tfc__node_end_remote_job_logs(tfc_node *node);

/* ---- node.c */

void tfc__node_stop_leaving(tfc_node *node);

/* ---- members.c */

int tfc__node_open_members(tfc_node *node, const tfc_node_options *options, tfc_error *error);
void tfc__node_on_stall(struct tfc__observer *stalls, const void *event);
void tfc__node_close_members(tfc_node *node);
/* The id that the member reported; else the one that its member entry requires; or NULL. Borrowed.
 */
const char *tfc__node_member_id(const tfc_node *node, const struct tfc__member *member);
/* Drains or undrains this node, and notifies the members. */
void tfc__node_set_draining(tfc_node *node, bool is_draining);
/* Replaces the labels that this node offers while it runs. */
int tfc__node_set_labels(tfc_node *node, const char *const *labels, tfc_error *error);

/* ==== peers */

struct tfc__peers {
	tfc_ctx *ctx;
	struct tfc__peers_options options;
	struct tfc__link all; /* struct tfc__node_peer */
	struct tfc__name_table names;
	struct tfc__name_table ids; /* of those that are members and have an id */
	struct tfc__link callers;
	struct tfc__observer watch; /* of the members */
	struct tfc__member_prober prober;
	uint64_t random;
	bool was_accepted;         /* a member has accepted our hello, or `refused` was scheduled */
	struct tfc__work refusing; /* calls options.refused */
	tfc_error refusal;

	/* Called when all members have responded to node.bye; NULL: not leaving. */
	void (*left)(void *user);
	void *left_user;
	uint32_t goodbyes; /* pending node.bye calls */
	struct tfc__timer leaving;

	uint32_t busy; /* callbacks in progress, during which the memory is kept */
	bool is_closed;
};

struct tfc__node_peer {
	struct tfc__link link;
	struct tfc__named named;      /* in the names of `peers` */
	struct tfc__named identified; /* in the ids */
	struct tfc__peers *peers;
	struct tfc__member *member; /* NULL: it is not a member now */
	char *name;
	struct tfc__peer *dialed; /* or NULL */
	char *address;            /* that was dialed last; NULL: none */
	bool is_up;               /* dialed, and the member has accepted our hello */
	bool is_refused;          /* the member refused our last hello */
	bool is_unclear;          /* the last dial did not show its state: it is dialed again */
	struct tfc__rpc_call *hello, *ping, *bye;
	struct tfc__timer redial;
	uint32_t failures;
	uint32_t keepers;       /* who needs the connection for longer (tfc__node_peer_keep) */
	struct tfc__link waits; /* struct tfc__member_wait, for the connection */
	struct tfc__timer idle; /* set while a connection that is closed when idle is up */
	uint64_t idle_sent;     /* messages that were sent when it was last checked */
	struct tfc__rpc_call *idle_call;
	bool was_alive;       /* since it was last down; with gossip */
	uint32_t callers;     /* accepted connections from the member */
	uint64_t received_at; /* tfc__now of the last heartbeat */
	uint64_t pinged_at;   /* tfc__now when the pending ping was sent */
	uint64_t rtt_ns;      /* of the last ping; 0: none */
	/* As last reported; before its first report the pinned id of its member, or "". */
	char node_id[TFC__NODE_ID_SIZE];
	char boot_id[17];
	bool has_left; /* this incarnation has said goodbye: later messages are no heartbeat */
	/* Of its connection. The event is a const bool *: whether it is up. */
	struct tfc__observers watches;
	char *logged; /* last log text about it, so that it is not repeated; or NULL */
};

struct tfc__caller {
	struct tfc__link link;
	struct tfc__peers *peers;
	struct tfc__peer *peer;
	struct tfc__node_peer *member; /* NULL: not a member, or hello not received yet */
	bool is_idle;                  /* the member is about to close the connection */
};

/* Call enter and leave around every call that may run a callback; after leave, `peers` may have
 * been freed. */
static inline void tfc__peers_enter(struct tfc__peers *peers)
{
	peers->busy++;
}
void tfc__peers_exit(struct tfc__peers *peers);

/* Creates the peer of a member and dials it. On failure (out of memory), member->owner is NULL. */
void tfc__peers_adopt(struct tfc__peers *peers, struct tfc__member *member);

/* Puts the peer into the table of ids, or removes it: its id or its member has changed. */
void tfc__node_peer_index_id(struct tfc__node_peer *peer);

/* Writes this node's current hello. to: the name of the dialed node, or "" for any. */
void tfc__peers_write_hello(struct tfc__peers *peers, const char *to, struct tfc__buf *buf);

/* ---- peers_dial.c */

/* Whether the connection has to be kept: with gossip only while something uses it. */
bool tfc__node_peer_is_needed(const struct tfc__node_peer *peer);
/* Dials, unless the member is connected, is being dialed, or must not be dialed. Also when nothing
 * needs the connection: then once. */
void tfc__node_peer_dial(struct tfc__node_peer *peer);
void tfc__node_peer_hang_up(struct tfc__node_peer *peer);
void tfc__node_peer_report(struct tfc__node_peer *peer, bool is_up);
void tfc__node_peer_on_redial(struct tfc__timer *timer);
void tfc__node_peer_on_idle(struct tfc__timer *timer);
/* The waits for the connection are over; without a connection, they have failed: `why`, or NULL:
 * the member is down, has left, or is no member any more. */
void tfc__node_peer_end_waits(struct tfc__node_peer *peer, const tfc_error *why);
void tfc__node_peer_on_probe(struct tfc__member_prober *prober, struct tfc__member *member);

void tfc__node_peer_received(struct tfc__node_peer *peer);

/* Call when the member has said goodbye. */
void tfc__node_peer_left(struct tfc__node_peer *peer);

/* Stores what the member reported about itself. */
void tfc__node_peer_learn(struct tfc__node_peer *peer, const struct tfc__hello *hello);

/* Dials at once if not connected and needed: the member has just sent something. */
void tfc__node_peer_redial(struct tfc__node_peer *peer);

/* ---- callers.c */

/* An accepted connection from the member; NULL: none. */
struct tfc__rpc *tfc__caller_rpc_of(const struct tfc__node_peer *peer);

/* Closes the accepted connections from the member, except `except`. */
void tfc__callers_drop(struct tfc__node_peer *peer, const struct tfc__caller *except);
void tfc__callers_close(struct tfc__peers *peers);

/* ==== agents of other nodes */

struct tfc__remote_agent {
	tfc_ctx *ctx;
	char *self;
	char *node;
	uint64_t instance;
	uint32_t lease_ms;
	struct tfc__rpc *rpc; /* NULL: not connected */
	struct tfc__rpc_call *stamp_call;
	uint64_t boot; /* the incarnation of the remote service, as last reported; 0: unknown */
	struct tfc__will_key will; /* of that incarnation */
	struct tfc__timer
		will_received; /* set while jobs with a known will await their last events */
	/* Open while the connection is used; the remote agent's notifications are its items. */
	struct tfc__rpc_call *stay;
	void (*use)(void *user, bool is_used); /* NULL: the connection is always kept */
	bool is_used;                          /* as `use` was last called */
	struct tfc__strv forgotten; /* jobs whose logs are to be removed there, when connected */
	bool is_unreachable;        /* unreachable: the jobs were notified, or will be */
	/* CLOCK_BOOTTIME when the stamp was received that was last sent back; 0: none. */
	uint64_t received_ns;
	uint64_t alive_ns; /* tfc__boot_time of the last message from the node */
	int64_t ahead_ns;  /* our CLOCK_BOOTTIME minus the remote one */
	struct tfc__timer renewal;
	struct tfc__timer loss; /* the next time at which a job may be certainly lost */
	struct tfc__bundles *bundles;
	void (*unreached)(void *user); /* or NULL */
	void *user;
	struct tfc__link logs;
	struct tfc__link jobs;
	uint32_t job_count; /* of those that are not REMOTE_GONE */
	uint64_t last_handle;
};

enum remote_state {
	REMOTE_OPEN,     /* open, or to be opened */
	REMOTE_DROPPING, /* to be ended there; only LOST is still reported */
	REMOTE_GONE,     /* nothing of it is left there */
};

struct remote_job {
	struct tfc__link link;
	struct tfc__remote_agent *agent;
	uint64_t handle;
	char *id;
	uint64_t epoch;
	enum remote_state state;
	struct tfc__agent_job_info info; /* borrowed until close */
	tfc__agent_fn fn;                /* NULL: closed */
	void *user;
	uint32_t task_count;
	uint32_t grace_ms; /* abort grace of its tasks after the lease has expired */
	char ***log_tails; /* the last lines of the latest ended attempts, by task; or NULL */
	struct tfc__agent_link stream;
	bool is_up;         /* the stream is established over this connection */
	bool was_requested; /* an open was sent: the remote service may have the job */
	uint64_t boot;      /* the incarnation of the service that opened it; 0: not opened yet */
	uint64_t since_ns;  /* CLOCK_BOOTTIME: the lease is counted from this time or a later one */
	struct tfc__will_key
		will;       /* covers all of it that may be alive there; incarnation 0: none */
	bool has_inherited; /* tasks of an earlier epoch may be alive there */
	bool is_will_known; /* that will has come */
	struct tfc__rpc_call *call; /* pending open or drop */
	struct tfc__work flush;
	struct tfc__timer retry; /* of the call, or of the flush */
	struct tfc__work report; /* reports UNREACHABLE, REACHABLE, LOST, FENCED */
	bool is_unreachable;
	bool is_reported_unreachable;
	bool has_ended;                       /* END was ordered: nothing is reported any more */
	enum tfc__task_event_kind last_event; /* LOST or FENCED, or 0 */
	tfc_error why;
	bool is_reporting;          /* inside fn */
	struct tfc__bundle *bundle; /* a reference; NULL: none */
	struct tfc__observer bundle_waiter;
	/* Offers the bundle to the node; NULL: not being offered, or another job offers the same
	 * bundle. */
	struct tfc__bundle_sender *sender;
};

/* remote_agent.c */
/* Connected, and the session is established. */
bool tfc__remote_is_ready(const struct tfc__remote_agent *agent);
void tfc__remote_begin(struct tfc__remote_agent *agent); /* a job was added */
/* Call when a job or a log was added or removed: the connection may be needed, or not any more. */
void tfc__remote_update_use(struct tfc__remote_agent *agent);
/* The connection is being established: nothing is known yet. */
bool tfc__remote_is_connecting(const struct tfc__remote_agent *agent);
/* Sets silent_ms and number of an UNREACHABLE, if the node has responded before. */
void tfc__remote_silence(const struct remote_job *job, struct tfc__task_event *event);
void tfc__remote_forget(void *agent, const char *id);

/* remote_open.c */
void tfc__remote_connect(struct remote_job *job); /* sends open, resume or drop, whichever is due */
/* Call while the remote service is still ending the job. */
void tfc__remote_retry(struct remote_job *job);
/* Offers the bundle to the node, if due, unless another job offers the same bundle. */
void tfc__remote_offer_bundle(struct remote_job *job);

/* remote_job.c */
#define REMOTE_RETRY (100 * TFC__MS) /* until a failed operation is retried */
void tfc__remote_disconnect(struct remote_job *job);
void tfc__remote_flush(struct remote_job *job); /* sends the queued messages, as far as possible */
/* Call when orders or events are missing: ends whatever the node has of the job, then reports LOST.
 */
void tfc__remote_give_up(struct remote_job *job, const char *why);
void tfc__remote_receive(struct remote_job *job, const struct tfc__agent_message *message);
/* Call when the job was opened, or the agent has reported its will. */
void tfc__remote_update_will(struct remote_job *job);
void tfc__remote_lose(struct remote_job *job, enum tfc__task_event_kind word, const char *why);
void tfc__remote_set_unreachable(struct remote_job *job, bool is_unreachable);
void tfc__remote_free(struct remote_job *job);

/* remote_log.c */
struct tfc__log_source *tfc__remote_log_open(void *job, uint32_t task, uint64_t position,
					     tfc_error *error);
struct tfc__log_source *tfc__remote_kept_log(void *agent, const char *id, const tfc_job *job,
					     uint32_t task, uint64_t position, tfc_error *error);
/* Call when the connection comes up or goes down. */
void tfc__remote_logs_wake(struct tfc__remote_agent *agent);
#define ALL_TASKS UINT32_MAX
void tfc__remote_logs_retry(const struct remote_job *job, uint32_t task); /* or ALL_TASKS */
void tfc__remote_logs_detach(const struct remote_job *job); /* call when the job is closed */
void tfc__remote_logs_end(struct tfc__remote_agent *agent);

/* ==== the service for maintainers on other nodes */

#define JOB_BUCKETS 64

struct tfc__agent_service {
	tfc_ctx *ctx;
	struct tfc__agent_service_options options;
	struct tfc__will *will; /* NULL: none */
	struct tfc__agent_handle agent;
	struct tfc__bundles *bundles;
	uint64_t boot; /* random: identifies this incarnation */
	struct tfc__link sessions;
	struct tfc__link jobs; /* of all sessions */
	struct tfc__name_table job_ids;
	uint32_t job_count;
};

/* The session of a maintaining process. */
struct session {
	struct tfc__link link;
	struct tfc__agent_service *service;
	uint64_t instance;                /* random: identifies the process */
	char name[256];                   /* of its node */
	struct tfc__will_address address; /* of its node; port 0: unknown */
	/* Its items carry our notifications; NULL: not connected. */
	struct tfc__rpc_request *stay;
	struct tfc__lease *lease;
	uint64_t deadline_ns; /* CLOCK_BOOTTIME */
	bool is_over;
	struct tfc__link buckets[JOB_BUCKETS]; /* its jobs by handle */
	uint32_t job_count;
	struct tfc__work end; /* frees the session when it is over and has no jobs */
};

/* A job of a session on this node. */
struct served_job {
	struct tfc__link link; /* in the session's bucket */
	struct tfc__link all;
	struct tfc__named named; /* in the service's job_ids */
	struct session *session;
	uint64_t handle; /* the maintainer's number of the job */
	char *id;
	uint64_t epoch;
	bool has_minimal_env;
	tfc_job *job;
	void *tag;
	void *local; /* the agent's handle; NULL: opening it failed with `error` */
	tfc_error error;
	uint32_t task_count;
	bool *is_launched; /* by task */
	uint32_t launched;
	bool is_unreadable; /* a SPEC or ENV could not be read: `error` */
	struct tfc__agent_link stream;
	bool is_up;              /* the stream is established over the session's connection */
	struct tfc__work flush;  /* sends the queued events */
	struct tfc__timer retry; /* the same, after out of memory */
	bool is_forgotten;       /* its logs are removed with it */
	bool is_ending;          /* its tasks are being ended; then it is freed */
	struct tfc__work freeing;
	uint32_t query; /* the pending query of a job that could not be opened; 0: none */
	struct tfc__work response;
	struct tfc__link logs;
	struct tfc__bundle *bundle; /* a reference; NULL: none */
};

/* Sends a notification to the maintainer. TFC_OK, TFC_ESTATE (no credit or not connected),
 * TFC_ENOMEM, TFC_ELOST. */
int tfc__session_notify(struct session *session, const struct tfc__buf *item);
/* Drops its connection: the maintainer resumes each job. */
void tfc__session_disconnect(struct session *session);
void tfc__session_job_freed(struct session *session); /* call when a job of the session was freed */

/* served_job.c */
struct served_job *tfc__served_job_find(struct session *session, uint64_t handle);
struct served_job *tfc__served_job_find_id(struct tfc__agent_service *service, const char *id);
void tfc__served_job_open(struct session *session, struct tfc__rpc_request *request,
			  const msgpack_object *params);
void tfc__served_job_drop(struct session *session, struct tfc__rpc_request *request,
			  const struct tfc__agent_target *target);
void tfc__served_job_receive(struct served_job *job, const msgpack_object *params);
void tfc__served_job_lost(struct served_job *job); /* call when the connection is lost */
void tfc__served_job_flush(struct served_job *job);
/* Ends its tasks; the job is freed later, in dispatch. */
void tfc__served_job_abort(struct served_job *job);
void tfc__served_job_free(struct served_job *job);

/* Flushes after `ns`, unless a flush is due earlier. */
#define SERVED_RETRY (100 * TFC__MS)
void tfc__served_job_later(struct served_job *job, uint64_t ns);

/* served_logs.c */
void tfc__served_logs_serve(struct tfc__agent_service *service, struct tfc__rpc_request *request,
			    const msgpack_object *params);
void tfc__served_logs_end(struct served_job *job);

#endif
