/*
 * The gateway's service: handles "gateway.*" calls of clients and members on one node, according to
 * the caller's permissions. They follow from the role of its key (over unix: NODE for the node's
 * own uid and root, SUBMIT for other users that may connect):
 *
 *   READ    query: list, describe, spec, find, subscribe, watch, members
 *   SUBMIT  also change: submit, stop, forget, drain, explain, feed
 *   NODE    everything, including forwarding requests of others
 */
#ifndef TFC_GATEWAY_SERVICE_H
#define TFC_GATEWAY_SERVICE_H

#include "gateway/gateway.h"
#include "gateway/members.h"
#include "transport/peer.h"

struct tfc__gateway_service;

struct tfc__gateway_service_options {
	struct tfc__gateway_members members;
	/* The user as whom tasks run that were submitted over tcp with a submit key; UINT32_MAX:
	 * the node's user. */
	uint32_t submit_uid;
	uint32_t submit_gid;
	tfc_node_hooks hooks; /* authorize */
};

/* Serves the jobs of a node. TFC_ENOMEM. */
int tfc__gateway_service_open(tfc_ctx *ctx, struct tfc__directory *directory,
			      const struct tfc__gateway_service_options *options,
			      struct tfc__gateway_service **ret_service);

/* Call before the directory is closed: pending calls fail with TFC_ELOST. NULL is a no-op. */
void tfc__gateway_service_close(struct tfc__gateway_service *service);

/* Whether `caller` has the permission for TFC_VERB_FEED. TFC_EACCES. */
int tfc__gateway_service_check_feed(const struct tfc__gateway_service *service,
				    const struct tfc__peer_id *caller, const char *job,
				    bool is_forwarded, tfc_error *error);

/* Serves a call of a method "gateway.*" by `caller`; it gets a response in any case. NULL request:
 * ignored. */
void tfc__gateway_service_serve(struct tfc__gateway_service *service,
				const struct tfc__peer_id *caller, struct tfc__rpc_request *request,
				const char *method, const msgpack_object *map);

#endif
