/*
 * The gateway's service: answers "gateway.*" calls of clients and members on one node, as far as
 * who asks may. What they may, by the role of their key (of unix: NODE for the own uid and root,
 * SUBMIT for others that were let in):
 *
 *   READ    look: list, describe, spec, find, subscribe, members
 *   SUBMIT  also act: submit, stop, forget, drain, explain
 *   NODE    all, and pass on what others asked for
 */
#ifndef TFC_GATEWAY_SERVICE_H
#define TFC_GATEWAY_SERVICE_H

#include "gateway/gateway.h"
#include "gateway/members.h"
#include "transport/peer.h"

struct tfc__gateway_service;

struct tfc__gateway_service_options {
	struct tfc__gateway_members members;
	/* As whom run the tasks of what comes over tcp with a submit key; UINT32_MAX: as the node
	 */
	uint32_t submit_uid;
	uint32_t submit_gid;
	tfc_node_hooks hooks; /* authorize */
};

/* On the jobs of a node. TFC_ENOMEM. */
int tfc__gateway_service_open(tfc_ctx *ctx, struct tfc__directory *directory,
			      const struct tfc__gateway_service_options *options,
			      struct tfc__gateway_service **ret_service);

/* Before the directory is closed: what is under way ends with TFC_ELOST. NULL is a no-op. */
void tfc__gateway_service_close(struct tfc__gateway_service *service);

/* A call of a method "gateway.*" by `who`; it is answered in any case. NULL request: ignored. */
void tfc__gateway_service_serve(struct tfc__gateway_service *service,
				const struct tfc__peer_id *who, struct tfc__rpc_request *request,
				const char *method, const msgpack_object *params);

#endif
