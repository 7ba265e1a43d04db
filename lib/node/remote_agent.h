/*
 * An agent on another node, as used by maintainers here: orders and events over links that outlive
 * connections, and the lease that keeps its tasks alive (doc/internals/epochs-and-leases.md).
 *
 * The owner of the connections calls `up` and `down`. LOST is reported only when no task of a job
 * can be alive there: when the last renewal that the node could have received is older than the
 * sum of lease, abort grace of the job and margin, times 1.25; or when the node itself reports it;
 * or its guard, by the node's last will.
 */
#ifndef TFC_NODE_REMOTE_AGENT_H
#define TFC_NODE_REMOTE_AGENT_H

#include "agent/agent_ops.h"
#include "bundle/cache.h"
#include "proc/will.h"
#include "wire/rpc.h"

struct tfc__remote_agent;

#define TFC__AGENT_LEASE_MS 10000
/* The time that the guard may need beyond the grace: it waits a second for the shim, then kills the
 * tasks itself. */
#define TFC__AGENT_MARGIN_MS 1500

struct tfc__remote_agent_options {
	const char *self;  /* this node's name */
	const char *node;  /* the other node's name */
	uint64_t instance; /* identifies this process, random and not 0; the same for all its agents
			    */
	uint32_t lease_ms; /* 0: TFC__AGENT_LEASE_MS */
	struct tfc__bundles *bundles; /* where the bundles of its jobs are packed; borrowed */
	/* The node did not respond to a renewal of the lease. Called in dispatch; or NULL. */
	void (*unreached)(void *user);
	/* The connection is needed from now on, or no longer. `down` is also called when it cannot
	 * be established. NULL: it is always kept. */
	void (*use)(void *user, bool is_used);
	void *user;
};

/* Strings are copied. TFC_OK or TFC_ENOMEM. */
int tfc__remote_agent_open(tfc_ctx *ctx, const struct tfc__remote_agent_options *options,
			   struct tfc__remote_agent **ret_agent);
/* Close its jobs first. NULL is a no-op. */
void tfc__remote_agent_close(struct tfc__remote_agent *agent);

/* up: a connection is established, until down; called again, it replaces the connection. */
void tfc__remote_agent_up(struct tfc__remote_agent *agent, struct tfc__rpc *rpc);
void tfc__remote_agent_down(struct tfc__remote_agent *agent);

/* Returns whether the will is that of any job; the job's tasks on that node are then lost. */
bool tfc__remote_agent_receive_will(struct tfc__remote_agent *agent,
				    const struct tfc__will_key *key);

extern const struct tfc__agent_ops tfc__remote_agent_ops; /* agent: a struct tfc__remote_agent */

#endif
