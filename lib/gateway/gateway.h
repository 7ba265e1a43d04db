/*
 * Internals of the gateway. A call on a gateway handle becomes a tfc__request_params, which one of
 * two kinds of gateway handles: local.c in this process, remote.c by calling a node.
 * tfc_gateway_open is in the node module, which knows where jobs are kept.
 */
#ifndef TFC_GATEWAY_GATEWAY_H
#define TFC_GATEWAY_GATEWAY_H

#include "base/buf.h"
#include "base/list.h"
#include "cluster/directory.h"
#include "ctx/ctx.h"
#include "gateway/sub.h"
#include "wire/keyring.h"
#include <tfcluster/gateway.h>

struct tfc__member_wait;

/* A request's parameters. Borrowed: valid only during the call that submits it. */
struct tfc__request_params {
	enum tfc_verb verb;
	const char *job;           /* id, prefix or name; "" when the request is not about a job */
	const char *task;          /* SPEC, SIGNAL, STACKS */
	const char *node;          /* DRAIN */
	const tfc_job *definition; /* SUBMIT, EXPLAIN */
	const void *host_tag;      /* SUBMIT */
	uint64_t host_tag_len;
	const char *submitter; /* SUBMIT: a text that names the submitter, or NULL. Not sent */
	bool has_minimal_env;  /* SUBMIT, EXPLAIN: see tfc__agent_job_info. Not sent */
	uint32_t owner;        /* SUBMIT: the uid that owns client_key. Not sent */
	/* SUBMIT: the definition as received, and the hash of its bundle; or NULL. They are
	 * forwarded, and hashed to recognize a repeated submit, unmodified: the node's own changes
	 * are in `definition` only. */
	const void *definition_json;
	uint64_t definition_len;
	const char *bundle;
	const char *home; /* SUBMIT: node id; NULL: the node that receives the request */
	const char *as;   /* SUBMIT, forwarded: the submitter, for tfc__rights_submitter; or NULL */
	/* SUBMIT: reports how many bytes of the bundle were sent to the node; or NULL. Not sent */
	void (*progress)(void *user, uint64_t sent, uint64_t total);
	/* Called with the bytes that the request holds until its response, each time that number
	 * has grown. Returns TFC_OK, or the error with which the request fails. NULL: no limit. Not
	 * sent */
	int (*reserve)(void *user, size_t bytes, tfc_error *error);
	const char *client_key; /* SUBMIT: client key or NULL. SUBSCRIBE: cursor or NULL */
	uint32_t patience_ms;   /* SUBSCRIBE: how long a lost job is waited for; 0: default */
	uint32_t interrupt_ms;  /* STOP */
	uint32_t signal;        /* SIGNAL */
	bool is_kill;           /* STOP */
	bool is_environ;        /* SPEC: all variables of the framework, not TF_CONFIG */
	bool is_off;            /* DRAIN: undrain instead */
	bool skip_output;       /* SUBSCRIBE */
	bool wants_live;        /* SUBSCRIBE */
	bool wants_progress;    /* SUBSCRIBE */
	bool wants_reports;     /* SUBSCRIBE */
	bool wants_reconnects;  /* SUBSCRIBE; not sent */
	bool is_forwarded;      /* a member forwards it: only jobs of this node are considered */
	/* The text of the reply is the result as it is written (gateway/results.h). Not sent */
	bool is_relayed;
};

/* A pending request. */
struct tfc__request {
	tfc_op op;
	struct tfc__link link; /* in its gateway's list */
	tfc_reply_fn fn;
	void *user;
	int (*reserve)(void *user, size_t bytes, tfc_error *error); /* as in its params */
	enum tfc_verb result; /* of which text is the written result; 0: text is for the host */
	int code;
	tfc_error error;
	struct tfc__buf text;
	char home[TFC__NODE_ID_SIZE]; /* tfc_reply.home */
	/* State of the module that completes it later. */
	void *impl;
	/* Frees `impl` when the request is canceled; or NULL. */
	void (*cancel)(struct tfc__request *request);
};

/* Call when the request has grown: it holds its text and `besides` bytes. TFC_OK, or a code with
 * which to end the request; then request->error is set and the text is freed. */
int tfc__request_reserve(struct tfc__request *request, size_t besides);

/* Call after filling request->text, or request->error with a code below 0. The reply is delivered
 * in a later turn of dispatch. With TFC__LATER it does nothing: the request is ended by a later
 * call. */
#define TFC__LATER 1
void tfc__request_end(struct tfc__request *request, int code);

struct tfc__gateway_ops {
	/* Completes the request with tfc__request_end, in this call or later. The definition was
	 * validated. */
	void (*handle)(tfc_gateway *gateway, const struct tfc__request_params *params,
		       struct tfc__request *request);
	int (*subscribe)(tfc_gateway *gateway, const char *job,
			 const tfc_subscribe_options *options, tfc_event_fn fn, void *user,
			 tfc_error *error, tfc_sub **ret_sub);
	int (*watch)(tfc_gateway *gateway, const tfc_watch_options *options, tfc_event_fn fn,
		     void *user, tfc_error *error, tfc_sub **ret_sub);
	/* Finds a connection to a node that passes calls on to `node`, or is that node. wait->fn is
	 * called inside the call or later; the removal of wait->link ends the wait. */
	void (*connect)(tfc_gateway *gateway, const char *node, struct tfc__member_wait *wait);
	/* TFC_ESTATE: its node is closed. NULL: it has none. */
	int (*check)(tfc_gateway *gateway, tfc_error *error);
	void (*close)(tfc_gateway *gateway); /* frees; no requests or subscriptions are left */
};

struct tfc_gateway {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	const struct tfc__gateway_ops *ops;
	struct tfc__link requests; /* pending: struct tfc__request */
	struct tfc__link subs;     /* open: struct tfc_sub */
};

void tfc__gateway_init(tfc_gateway *gateway, tfc_ctx *ctx, const struct tfc__gateway_ops *ops);

/* TFC_OK, or TFC_ESTATE and a message when the node is closed. */
int tfc__gateway_check(tfc_gateway *gateway, tfc_error *error);

/* Submits any request; otherwise as tfc_gateway_jobs. */
int tfc__gateway_request(tfc_gateway *gateway, const struct tfc__request_params *params,
			 uint32_t timeout_ms, tfc_reply_fn fn, void *user, tfc_op **ret_op);

/* Cancels a request whose callback must not be called any more. */
void tfc__request_abandon(tfc_op *op);

/* Ends all its subscriptions without an event. */
void tfc__gateway_orphan_subs(tfc_gateway *gateway);

/* A job as in a list of jobs. Borrowed: valid until the next event of the job. */
#define TFC__JOB_NODES_MAX 64
struct tfc__job_summary {
	tfc_job_info info; /* its strings may be those below: not to be copied alone */
	const char *nodes[TFC__JOB_NODES_MAX + 1];
	char decided_by[128];
	char text[1152];
};
void tfc__summarize(const struct tfc__record *record, struct tfc__job_summary *ret_summary);
void tfc__summarize_damaged(const struct tfc__directory *directory,
			    const struct tfc__damaged *damaged, tfc_job_info *ret_info);

/* Why the job's events wait to be stored, and so to be reported, and the first task that loses its
 * output, because the event about that waits as well; "": they do not wait. */
void tfc__describe_blocked(const struct tfc__record *record, char *text, size_t size);

/* Writes the result of DESCRIBE. */
void tfc__describe(const struct tfc__record *record, struct tfc__buf *buf);

/* Writes the result of EXPLAIN to the request's text. */
int tfc__explain(struct tfc__directory *directory, const struct tfc__request_params *params,
		 struct tfc__request *request);

/* The number of a task by its name ("worker/0"), or UINT32_MAX. */
uint32_t tfc__find_task(const struct tfc__record *record, const char *name);

#endif
