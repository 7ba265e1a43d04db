/*
 * The agent of this node, at the service of maintainers on others (doc/internals/agent-rpc.md).
 *
 * Each maintaining process has a session here, and each session a lease: what it has asked for
 * lives only while it is heard. The stamps that it sends back were made here, so that a word that
 * was long on its way renews nothing. A job belongs to one maintainer and epoch; a higher epoch
 * ends what a lower one has here before it gets anything.
 */
#ifndef TFC_NODE_AGENT_SERVICE_H
#define TFC_NODE_AGENT_SERVICE_H

#include "agent/agent_ops.h"
#include "wire/rpc.h"

struct tfc__agent_service;

/* The agent is borrowed, and closed after the service. The caller owns *ret_service. */
int tfc__agent_service_open(tfc_ctx *ctx, struct tfc__agent *agent,
			    struct tfc__agent_service **ret_service);

/* Kills what still runs for others. NULL is a no-op. */
void tfc__agent_service_close(struct tfc__agent_service *service);

/* A request or (NULL) notification "agent.*" or "bundle.*" of a peer that is a node. */
void tfc__agent_service_serve(struct tfc__agent_service *service, struct tfc__rpc_request *request,
			      const char *method, const msgpack_object *params);

/* The logs go of the jobs whose "ids" are in a map; while a job is here, with it. */
void tfc__agent_service_forget(struct tfc__agent_service *service, const msgpack_object *params);

/* How many jobs others have here. */
uint32_t tfc__agent_service_jobs(const struct tfc__agent_service *service);

#endif
