/*
 * Serves this node's agent to maintainers on other nodes (doc/internals/agent-rpc.md).
 *
 * Each maintaining process has a session here, and each session has a lease: its tasks run only
 * while the lease is renewed. A renewal returns a stamp that this node made, so a renewal that was
 * delayed on its way extends nothing. A job belongs to one maintainer and epoch; before a higher
 * epoch gets anything, all tasks of a lower one are ended.
 */
#ifndef TFC_NODE_AGENT_SERVICE_H
#define TFC_NODE_AGENT_SERVICE_H

#include "agent/agent_ops.h"
#include "wire/keyring.h"
#include "wire/rpc.h"

struct tfc__agent_service;

struct tfc__agent_service_options {
	struct tfc__agent *agent;             /* borrowed; close it after the service */
	const struct tfc__identity *identity; /* for the last will: */
	const struct tfc__keyring *keyring;   /* NULL: none */
	/* The address of a maintainer's node; false: unknown. NULL: there is no last will. */
	bool (*address_of)(void *user, const char *name, struct tfc__will_address *ret_address);
	void *user;
};

/* The caller owns *ret_service. */
int tfc__agent_service_open(tfc_ctx *ctx, const struct tfc__agent_service_options *options,
			    struct tfc__agent_service **ret_service);

/* Kills the tasks of other nodes' maintainers. NULL is a no-op. */
void tfc__agent_service_close(struct tfc__agent_service *service);

/* Serves a request or (request NULL) notification "agent.*" or "bundle.*" of a node. */
void tfc__agent_service_serve(struct tfc__agent_service *service, struct tfc__rpc_request *request,
			      const char *method, const msgpack_object *params);

/* Removes the logs of the jobs in the "ids" of a map; those of a job that is still here are removed
 * with the job. */
void tfc__agent_service_forget(struct tfc__agent_service *service, const msgpack_object *params);

/* The maintainers on the node will not come back: their tasks are stopped, with the grace of a
 * lease that is over. */
void tfc__agent_service_expire(struct tfc__agent_service *service, const char *node);

/* The number of jobs of other nodes' maintainers. */
uint32_t tfc__agent_service_jobs(const struct tfc__agent_service *service);

#endif
