/* A request that another node handles: one RPC, whose result becomes the text of the reply. */
#ifndef TFC_GATEWAY_ERRAND_H
#define TFC_GATEWAY_ERRAND_H

#include "gateway/gateway.h"
#include "gateway/upload.h"
#include "wire/msg.h"
#include "wire/rpc.h"

struct tfc__errand {
	struct tfc__link link; /* for the owner's use */
	struct tfc__request *request;
	enum tfc_verb verb;
	struct tfc__buf params;
	struct tfc__rpc_call *call;
	struct tfc__upload *upload; /* sent before the call; NULL: none */
	struct tfc__rpc *rpc;       /* the connection that it uses */
	void (*progress)(void *user, uint64_t sent, uint64_t total); /* or NULL */
	void (*packed)(struct tfc__errand *errand); /* the bundle is packed; the owner may call
						       tfc__errand_go */
	/* Called before the call is sent: the owner may append to params. NULL: none. */
	void (*putting)(struct tfc__errand *errand);
	/* Whether an error code leaves it unknown if the request was carried out, as a lost
	 * connection does; or NULL. */
	bool (*is_open)(const struct tfc__errand *errand, int code);
	uint32_t tries;   /* calls that failed because the connection was lost */
	bool has_secrets; /* not sent over a connection that others can read */
	bool is_once;     /* must not be repeated: a second call could have another effect */
	/* The connection was lost during the call: the owner may repeat it. NULL: the request
	 * fails. */
	void (*lost)(struct tfc__errand *errand, const tfc_error *error);
	void *owner;
	struct tfc__home *home; /* of a submit, set by the owner; or NULL. Freed with the errand */
	void (*free_home)(struct tfc__home *home);
};

/* Sets the request's `forget` and `doing`. NULL: out of memory; the request was ended. */
struct tfc__errand *tfc__errand_new(struct tfc__request *request,
				    const struct tfc__question *question);

/* Sends the bundle at `path` before the call. `packed` is called when it is packed. On failure the
 * request is ended. */
void tfc__errand_bring(struct tfc__errand *errand, struct tfc__uploads *uploads, const char *path);

/* Uploads the bundle, if there is one, then makes the call. The errand ends with the request. */
void tfc__errand_go(struct tfc__errand *errand, struct tfc__rpc *rpc);
/* Makes the call without uploading the bundle. */
void tfc__errand_put(struct tfc__errand *errand, struct tfc__rpc *rpc);
void tfc__errand_fail(struct tfc__errand *errand, const tfc_error *error);

#endif
