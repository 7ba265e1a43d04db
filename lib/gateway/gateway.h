/*
 * The inside of the gateway: what a gateway handle does is a question that one of its kinds
 * answers - local.c in this process, remote.c by asking a node. tfc_gateway_open belongs to the
 * node module, which knows where jobs are kept.
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

/* What is asked for. Borrowed: valid while the question is being put. */
struct tfc__question {
	enum tfc_verb verb;
	const char *job;           /* id, prefix or name; "" when not about one */
	const char *task;          /* SPEC */
	const char *node;          /* DRAIN */
	const tfc_job *definition; /* SUBMIT, EXPLAIN */
	const void *host_tag;      /* SUBMIT */
	uint64_t host_tag_len;
	const char *submitter; /* SUBMIT: who asks, in words; or NULL. It does not travel */
	bool has_minimal_env;  /* SUBMIT, EXPLAIN: see tfc__agent_job_info. It does not travel */
	uint32_t owner;        /* SUBMIT: the uid whose key client_key is. It does not travel */
	/* SUBMIT: the definition as it came, and the hash of its bundle; or NULL. They are passed
	 * on, and known again, as they are: the node's own changes are in `definition` alone. */
	const void *definition_json;
	uint64_t definition_len;
	const char *bundle;
	const char *home; /* SUBMIT: node id; NULL: the node that is asked */
	const char *as;   /* SUBMIT, forwarded: who submits, for tfc__rights_submitter; or NULL */
	/* SUBMIT: told how much of the bundle has gone to the node; or NULL. They do not travel */
	void (*progress)(void *user, uint64_t sent, uint64_t total);
	/* Called with what the request holds until it is answered, whenever that has grown: TFC_OK,
	 * or the error that ends it. NULL: it may hold anything. It does not travel */
	int (*reserve)(void *user, size_t bytes, tfc_error *error);
	const char *client_key; /* SUBMIT: or NULL. SUBSCRIBE: its cursor, or NULL */
	uint32_t interrupt_ms;  /* STOP */
	bool is_kill;           /* STOP */
	bool is_environ;        /* SPEC: all variables of the framework, not TF_CONFIG */
	bool is_off;            /* DRAIN: takes tasks again */
	bool skip_output;       /* SUBSCRIBE */
	bool wants_live;        /* SUBSCRIBE */
	bool is_forwarded;      /* asked by a member: what is not here is not here */
};

/* A request under way. */
struct tfc__request {
	tfc_op op;
	struct tfc__link link; /* of its gateway */
	tfc_reply_fn fn;
	void *user;
	int (*reserve)(void *user, size_t bytes, tfc_error *error); /* as in its question */
	int code;
	tfc_error error;
	struct tfc__buf text;
	char home[TFC__NODE_ID_SIZE];                 /* tfc_reply.home */
	void *doing;                                  /* of who answers it later */
	void (*forget)(struct tfc__request *request); /* nobody wants the answer any more; or NULL
						       */
};

/* What it holds has grown: its text, and so many bytes besides. TFC_OK, or a code to end it with:
 * then the error is in request->error, and the text is gone. */
int tfc__request_reserve(struct tfc__request *request, size_t besides);

/* After request->text was filled, or request->error and a code below 0; the reply comes in a later
 * turn. TFC__LATER: does nothing, since somebody else will end it. */
#define TFC__LATER 1
void tfc__request_end(struct tfc__request *request, int code);

struct tfc__gateway_ops {
	/* Answers with tfc__request_end, at once or later. The definition was validated. */
	void (*ask)(tfc_gateway *gateway, const struct tfc__question *question,
		    struct tfc__request *request);
	int (*subscribe)(tfc_gateway *gateway, const char *job,
			 const tfc_subscribe_options *options, tfc_event_fn fn, void *user,
			 tfc_error *error, tfc_sub **ret_sub);
	int (*check)(tfc_gateway *gateway, tfc_error *error); /* TFC_ESTATE: its node is closed */
	void (*close)(tfc_gateway *gateway); /* requests and subscriptions are gone; frees */
};

struct tfc_gateway {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	const struct tfc__gateway_ops *ops;
	struct tfc__link requests; /* under way: struct tfc__request */
	struct tfc__link subs;     /* open: struct tfc_sub */
};

void tfc__gateway_init(tfc_gateway *gateway, tfc_ctx *ctx, const struct tfc__gateway_ops *ops);

/* TFC_OK, or TFC_ESTATE and its sentence when the node is closed. */
int tfc__gateway_check(tfc_gateway *gateway);

/* Puts any question; as tfc_gateway_jobs otherwise. */
int tfc__gateway_ask(tfc_gateway *gateway, const struct tfc__question *question,
		     uint32_t timeout_ms, tfc_reply_fn fn, void *user, tfc_op **ret_op);

/* All its subscriptions end without an event. */
void tfc__gateway_orphan_subs(tfc_gateway *gateway);

/* One job as a JSON object, as tfc_gateway_describe gives it. */
void tfc__describe(const struct tfc__record *record, struct tfc__buf *json);

/* One that cannot be read, with the same keys as far as they are known; its state is "damaged". */
void tfc__describe_damaged(const struct tfc__directory *directory,
			   const struct tfc__damaged *damaged, struct tfc__buf *json);

/* In brief, as tfc_gateway_jobs gives it. */
void tfc__describe_briefly(const struct tfc__record *record, struct tfc__buf *json);

/* "worker/0" of a job, as a task number, or UINT32_MAX. */
uint32_t tfc__find_task(const struct tfc__record *record, const char *name);

#endif
