/*
 * Assembles a node: state, keys, members, agent, jobs, connections. Each part depends on those
 * opened before it; they are closed in the opposite order.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "feed/broker.h"
#include "node/internal.h"
#include "node/state.h"
#include "node/upstream_map.h"
#include "transport/address.h"

/* ---- keys and identity */

static int open_identity(tfc_node *node, const char *state_dir, tfc_error *error)
{
	char *path = NULL;
	int code = state_dir ? tfc__state_dir_open(state_dir, error) : TFC_OK;
	if (code < 0)
		return code;
	if (state_dir && !(path = tfc__path_join(state_dir, "identity")))
		return tfc__fail_nomem(error, "node");
	code = tfc__identity_open(path, error, &node->identity);
	free(path);
	return code;
}

static int open_keys(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	int code = open_identity(node, options->state_dir, error);
	if (code < 0 || !options->key_file)
		return code;
	code = tfc__key_file_open(node->ctx, options->key_file, error, &node->key_file);
	if (code == TFC_OK)
		node->keyring = tfc__key_file_ring(node->key_file);
	return code;
}

/* ---- agent and jobs */

static void on_gpus(void *user, uint32_t count)
{
	tfc_node *node = user;
	tfc__members_set_gpus(node->members, count, true);
}

/* Whether `address` has a host name that other nodes can use. */
static bool find_host(const char *address, struct tfc__tcp_host *ret_host)
{
	return address && tfc__tcp_parse(address, NULL, ret_host) == TFC_OK &&
	       strcmp(ret_host->name, "0.0.0.0") != 0 && strcmp(ret_host->name, "::") != 0;
}

/* The host at which other nodes reach this node's tasks: by default the one at which they reach the
 * node. */
static const char *advertised_host(const tfc_node *node, const tfc_node_options *options,
				   struct tfc__tcp_host *host)
{
	if (options->host)
		return options->host;
	if (find_host(tfc__members_self(node->members)->address, host))
		return host->name;
	for (const char *const *at = options->listen; at && *at; at++)
		if (find_host(*at, host))
			return host->name;
	if (tfc__members_count(node->members) > 1)
		tfc__log(node->ctx, TFC_LOG_WARNING, "node", "",
			 "tasks of this node advertise the address 127.0.0.1; set advertise to the "
			 "address at which other machines reach this node");
	return NULL;
}

/* ---- feeds */

static int node_open_feed(void *user, const char *id, const uint32_t *uids, uint32_t uid_count,
			  tfc_error *error, void **ret_feed)
{
	const tfc_node *node = user;
	char address[TFC__FEED_ADDRESS_SIZE];
	struct tfc__feed_broker *broker;
	tfc__feed_address(address, id, tfc__agent_name(node->agent));
	int code = tfc__feed_broker_open(node->ctx, address, uids, uid_count, error, &broker);
	if (code == TFC_OK)
		*ret_feed = broker;
	return code;
}

static const char *node_feed_address(const void *feed)
{
	return tfc__feed_broker_address(feed);
}

static void node_close_feed(void *feed)
{
	tfc__feed_broker_close(feed);
}

static int open_agent(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	const struct tfc__member *self = tfc__members_self(node->members);
	struct tfc__tcp_host host;
	char *own_log_dir = NULL, *bundle_dir = NULL;
	if (options->base_env > TFC_BASE_ENV_NODE)
		return tfc__fail(
			error, TFC_EINVAL, "node", 0,
			"tfc_node_options.base_env is %u, which is not in enum tfc_base_env",
			options->base_env);
	if (options->state_dir && !options->log_dir &&
	    !(own_log_dir = tfc__path_join(options->state_dir, "logs")))
		return tfc__fail_nomem(error, "node");
	if (options->state_dir && !(bundle_dir = tfc__path_join(options->state_dir, "bundles"))) {
		free(own_log_dir);
		return tfc__fail_nomem(error, "node");
	}
	struct tfc__agent_options agent = {
		.port_first = options->port_first,
		.port_last = options->port_last,
		.name = options->name,
		.host = advertised_host(node, options, &host),
		.env = options->env,
		.is_env_for_all = options->base_env == TFC_BASE_ENV_NODE,
		.pass_env = options->pass_env,
		.python = options->python,
		.log_dir = own_log_dir ? own_log_dir : options->log_dir,
		.temp_dir = options->temp_dir,
		.bundle_dir = bundle_dir,
		.state_dir = options->state_dir,
		.slots = self->slots,
		.memory = self->memory_bytes,
		.zygotes = options->zygotes,
		.gpus = options->gpus,
		.gpu_count = self->gpus,
		.gpus_fn = on_gpus,
		.gpus_user = node,
		.hooks = node->hooks,
		.feeds = {node_open_feed, node_feed_address, node_close_feed, node},
	};
	int code = tfc__agent_open(node->ctx, &agent, &node->agent);
	free(own_log_dir);
	free(bundle_dir);
	if (code == TFC_OK)
		tfc__members_set_gpus(node->members, tfc__agent_gpus(node->agent),
				      !tfc__agent_is_finding_gpus(node->agent));
	return code;
}

static struct tfc__agent_handle node_agent_of(void *user, const char *name)
{
	const tfc_node *node = user;
	return tfc__node_agents_of(node->agents, name);
}

static int open_node_agents(tfc_node *node, const tfc_node_options *options)
{
	const struct tfc__node_agents_options agents = {
		.peers = node->peers,
		.agent = node->agent,
		.self = tfc__members_self(node->members)->name,
		.lease_ms = options->lease_ms,
		.identity = node->identity,
		.keyring = node->keyring,
	};
	return tfc__node_agents_open(node->ctx, &agents, &node->agents);
}

#define RETAIN_JOBS 1000
#define RETAIN_S (7 * 24 * 3600)

static int open_store(tfc_node *node, const tfc_node_options *options,
		      struct tfc__store **ret_store, tfc_error *error)
{
	if (options->store)
		return tfc__store_open_ops(node->ctx, options->store, options->store_impl, error,
					   ret_store);
	if (!options->state_dir)
		return tfc__store_open_memory(node->ctx, error, ret_store);
	char *path = tfc__path_join(options->state_dir, "store");
	int code = path ? tfc__store_open_local(node->ctx, path, error, ret_store)
			: tfc__fail_nomem(error, "node");
	free(path);
	return code;
}

/* Takes ownership of the store. */
static int open_directory(tfc_node *node, const tfc_node_options *options, struct tfc__store *store,
			  tfc_error *error)
{
	const struct tfc__directory_options directory = {
		.retain_jobs = options->retain_jobs ? options->retain_jobs : RETAIN_JOBS,
		.retain_s = (uint32_t)node->retain_s,
		.retain_bytes = options->retain_bytes,
		.secret = tfc__identity_secret(node->identity),
		.store = store,
	};
	return tfc__directory_open(node->ctx, node->agent, node->nodes, &directory,
				   &node->directory);
}

/* Opens the resolver of the host's data: the host's own upstreams, or a file. */
static int open_upstreams(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	int code = TFC_OK;
	if (options->upstream && options->upstream_map)
		return tfc__fail(
			error, TFC_EINVAL, "node", 0,
			"tfc_node_options has both upstream and upstream_map; set one of them");
	const tfc_upstream_ops *ops = options->upstream_map ? &tfc__upstream_map_ops
							    : options->upstream;
	if (options->upstream_map)
		code = tfc__upstream_map_open(node->ctx, options->upstream_map, error, &node->map);
	if (code == TFC_OK)
		code = tfc__upstreams_open(node->ctx, ops,
					   node->map ? (void *)node->map : options->upstream_impl,
					   error, &node->upstreams);
	if (code < 0)
		return code;
	if (node->map)
		tfc__upstream_map_report(node->map, node->upstreams);
	tfc__nodes_set_upstreams(node->nodes, node->upstreams);
	return TFC_OK;
}

/* The store is first: opening it locks the state directory, or fails with the node that has it. */
static int open_jobs(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	struct tfc__store *store = NULL;
	int code = open_store(node, options, &store, error);
	if (code < 0)
		return code;
	if ((code = tfc__node_open_members(node, options, error)) < 0 ||
	    (code = open_agent(node, options, error)) < 0 ||
	    (code = tfc__node_connect(node, error)) < 0 ||
	    (code = open_node_agents(node, options)) < 0 ||
	    (code = tfc__nodes_open(node->ctx, node->members, node_agent_of, node, error,
				    &node->nodes)) < 0 ||
	    (code = open_upstreams(node, options, error)) < 0) {
		tfc__store_close(store);
		return code;
	}
	return open_directory(node, options, store, error);
}

int tfc__node_open_parts(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	int code;
	node->retain_s = options->retain_s ? options->retain_s : RETAIN_S;
	tfc__node_begin_remote_job_logs(node);
	if ((code = tfc__options_copy(&node->hooks, sizeof(node->hooks), options->hooks, "node",
				      "tfc_node_hooks", offsetof(tfc_node_hooks, reserved),
				      error)) < 0 ||
	    (code = open_keys(node, options, error)) < 0 ||
	    (code = open_jobs(node, options, error)) < 0 ||
	    (code = tfc__node_open_gateway(node, options, error)) < 0)
		return code;
	tfc__node_find_remote_job_logs(node);
	if ((code = tfc__node_listen(node, options, error)) < 0)
		return code;
	return tfc__node_begin_gossip(node, options, error);
}

void tfc__node_close_parts(tfc_node *node)
{
	tfc__node_stop_listening(node);
	tfc__node_stop_leaving(node);
	tfc__node_end_remote_job_logs(node);
	tfc__node_close_gateway(node);
	tfc__directory_close(node->directory);
	tfc__upstreams_close(node->upstreams);
	tfc__upstream_map_close(node->map);
	tfc__nodes_close(node->nodes);
	tfc__node_agents_close(node->agents);
	tfc__node_disconnect(node);
	tfc__agent_close(node->agent);
	tfc__node_close_members(node);
	tfc__identity_free(node->identity);
	tfc__key_file_close(node->key_file);
}
