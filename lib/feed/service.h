/*
 * Serves "feed.*" calls on a node: of producers on other machines. On the node of the task, a relay
 * connects to the node's own broker as a local producer does. Any other node passes the stream on
 * to that node.
 */
#ifndef TFC_FEED_SERVICE_H
#define TFC_FEED_SERVICE_H

#include "gateway/members.h"

struct tfc__feed_service;

struct tfc__feed_service_options {
	const char *node; /* name of this node; borrowed */
	struct tfc__gateway_members members;
	/* Whether the caller may feed the job: TFC_OK or TFC_EACCES. */
	int (*check)(void *user, const void *caller, const char *job, bool is_forwarded,
		     tfc_error *error);
	void *user;
};

/* TFC_ENOMEM. */
int tfc__feed_service_open(tfc_ctx *ctx, const struct tfc__feed_service_options *options,
			   tfc_error *error, struct tfc__feed_service **ret_service);
/* Serves a call, which gets a response in any case, or a notification (request NULL) over `rpc`.
 * `caller` is for options.check. */
void tfc__feed_service_serve(struct tfc__feed_service *service, const void *caller,
			     struct tfc__rpc *rpc, struct tfc__rpc_request *request,
			     const char *method, const msgpack_object *params);
/* Open streams end with TFC_ELOST. NULL is a no-op. */
void tfc__feed_service_close(struct tfc__feed_service *service);

#endif
