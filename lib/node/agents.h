/*
 * The agents of all nodes as this node reaches them: its own, which also serves the other nodes
 * (agent_service.h), and theirs over the connections to them (remote_agent.h).
 */
#ifndef TFC_NODE_AGENTS_H
#define TFC_NODE_AGENTS_H

#include "agent/agent_ops.h"
#include "node/peers.h"

struct tfc__node_agents;

struct tfc__node_agents_options {
	struct tfc__peers *peers; /* borrowed, as is the agent; closed after the agents */
	struct tfc__agent *agent; /* this node's */
	const char *self;         /* this node's name */
	uint32_t lease_ms;        /* lease of this node's tasks on other nodes; 0: the default */
	const struct tfc__identity *identity;
	const struct tfc__keyring *keyring; /* NULL: none */
};

/* TFC_ENOMEM. */
int tfc__node_agents_open(tfc_ctx *ctx, const struct tfc__node_agents_options *options,
			  struct tfc__node_agents **ret_agents);
/* Close the maintainers first. Kills the tasks of other nodes' maintainers. NULL is a no-op. */
void tfc__node_agents_close(struct tfc__node_agents *agents);

/* A tfc__agent_of_fn. */
struct tfc__agent_handle tfc__node_agents_of(struct tfc__node_agents *agents, const char *node);

/* As tfc__agent_service_expire. */
void tfc__node_agents_expire(struct tfc__node_agents *agents, const char *node);

/* As tfc__agent_service_forget. */
void tfc__node_agents_forget(struct tfc__node_agents *agents, const msgpack_object *params);

/* A node's last will has come; `user` is a struct tfc__node_agents. Whether it is known here. */
bool tfc__node_agents_receive_will(void *user, const uint8_t *message);

/* Whether the method belongs to agents. If so, the call is served, or refused unless the caller is
 * a member. */
bool tfc__node_agents_serve(struct tfc__node_agents *agents, struct tfc__caller *caller,
			    struct tfc__rpc_request *request, const char *method,
			    const msgpack_object *params);

#endif
