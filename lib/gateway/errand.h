/* A question that another node answers: one call, whose result is the reply's text. */
#ifndef TFC_GATEWAY_ERRAND_H
#define TFC_GATEWAY_ERRAND_H

#include "gateway/gateway.h"
#include "gateway/upload.h"
#include "wire/msg.h"
#include "wire/rpc.h"

struct tfc__errand {
	struct tfc__link link; /* for its owner */
	struct tfc__request *request;
	enum tfc_verb verb;
	struct tfc__buf params;
	struct tfc__rpc_call *call;
	struct tfc__upload *upload; /* of what goes first; NULL: nothing */
	struct tfc__rpc *rpc;       /* that it goes over */
	void (*progress)(void *user, uint64_t sent, uint64_t total); /* or NULL */
	void (*packed)(struct tfc__errand *errand);                  /* its owner may let it go */
	/* It is about to be put: its owner may write the end of its params. NULL: nothing. */
	void (*putting)(struct tfc__errand *errand);
	/* Whether the answer leaves open what was done, as a lost connection does; or NULL. */
	bool (*is_open)(const struct tfc__errand *errand, int code);
	uint32_t tries;   /* calls that were lost with their connection */
	bool has_secrets; /* they go over no connection that others can read */
	bool is_once;     /* what it asks for may be another thing the second time */
	/* The connection was lost under way: its owner may put it again. NULL: it fails. */
	void (*lost)(struct tfc__errand *errand, const tfc_error *error);
	void *owner;
	struct tfc__home *home; /* of a submit, its owner's; or NULL. Freed with the errand */
	void (*free_home)(struct tfc__home *home);
};

/* For a request, whose `forget` and `doing` it takes. NULL: no memory, and the request has ended.
 */
struct tfc__errand *tfc__errand_new(struct tfc__request *request,
				    const struct tfc__question *question);

/* The bundle at `path` goes first; `packed` is called once it may. Out of luck, the request ends.
 */
void tfc__errand_bring(struct tfc__errand *errand, struct tfc__uploads *uploads, const char *path);

/* Puts it over a connection, behind what it brings; ends with the request. */
void tfc__errand_go(struct tfc__errand *errand, struct tfc__rpc *rpc);
/* Puts it without that. */
void tfc__errand_put(struct tfc__errand *errand, struct tfc__rpc *rpc);
void tfc__errand_fail(struct tfc__errand *errand, const tfc_error *error);

#endif
