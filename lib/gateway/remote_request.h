/* A request that another node handles: one RPC, whose result becomes the text of the reply. */
#ifndef TFC_GATEWAY_REMOTE_REQUEST_H
#define TFC_GATEWAY_REMOTE_REQUEST_H

#include "gateway/gateway.h"
#include "gateway/members.h"
#include "gateway/upload.h"
#include "wire/msg.h"
#include "wire/rpc.h"

struct tfc__remote_request {
	struct tfc__link link; /* for the owner's use */
	struct tfc__request *request;
	enum tfc_verb verb;
	struct tfc__buf params;
	struct tfc__rpc_call *call;
	struct tfc__upload *upload; /* sent before the call; NULL: none */
	struct tfc__rpc *rpc;       /* the connection that it uses */
	void (*progress)(void *user, uint64_t sent, uint64_t total); /* or NULL */
	/* The bundle is packed; the owner may call tfc__remote_request_send. */
	void (*packed)(struct tfc__remote_request *remote_request);
	/* Called before the call is sent: the owner may append to params. NULL: none. */
	void (*before_send)(struct tfc__remote_request *remote_request);
	/* Whether an error code leaves it unknown if the request was carried out, as a lost
	 * connection does; or NULL. */
	bool (*is_outcome_unknown)(const struct tfc__remote_request *remote_request, int code);
	uint32_t tries;   /* calls that failed because the connection was lost */
	bool has_secrets; /* not sent over a connection that others can read */
	bool is_once;     /* must not be repeated: a second call could have another effect */
	/* The connection was lost during the call: the owner may repeat it. NULL: the request
	 * fails. */
	void (*lost)(struct tfc__remote_request *remote_request, const tfc_error *error);
	void *owner;
	/* Of a request that this node forwards: to which node, and the wait for the connection. */
	struct tfc__member_wait wait;
	char node[64];
	/* Of a submit, set by the owner; or NULL. Freed with the remote request. */
	struct tfc__home *home;
	void (*free_home)(struct tfc__home *home);
};

/* Sets the request's `cancel` and `impl`. NULL: out of memory; the request was ended. */
struct tfc__remote_request *tfc__remote_request_new(struct tfc__request *request,
						    const struct tfc__request_params *params);

/* Sends the bundle at `path` before the call. `packed` is called when it is packed. On failure the
 * request is ended. */
void tfc__remote_request_add_bundle(struct tfc__remote_request *remote_request,
				    struct tfc__uploads *uploads, const char *path);

/* Uploads the bundle, if there is one, then makes the call. The remote request ends with the
 * request. */
void tfc__remote_request_send(struct tfc__remote_request *remote_request, struct tfc__rpc *rpc);
/* Makes the call without uploading the bundle. */
void tfc__remote_request_send_alone(struct tfc__remote_request *remote_request,
				    struct tfc__rpc *rpc);
void tfc__remote_request_fail(struct tfc__remote_request *remote_request, const tfc_error *error);

#endif
