/*
 * Gossip as a node's membership: its options, and the sockets that it shares with the listeners.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/internal.h"
#include "transport/address.h"

static bool is_auto(const char *gossip)
{
	return strcmp(gossip, "auto") == 0;
}

static int gossip_check_options(const tfc_node_options *options, tfc_error *error)
{
	if (options->members_file || options->membership)
		return tfc__fail(error, TFC_EINVAL, "node", 0,
				 "tfc_node_options has both gossip and %s; set one of them",
				 options->members_file ? "members_file" : "membership");
	if (options->suspect_ms || options->down_ms)
		return tfc__fail(error, TFC_EINVAL, "node", 0,
				 "%s has no effect with gossip, which derives it from probe and "
				 "the number of members; remove it",
				 options->suspect_ms ? "suspect" : "down");
	if (is_auto(options->gossip) && !options->listen)
		return tfc__fail(error, TFC_EINVAL, "node", 0,
				 "gossip: the node listens nowhere; set gossip to HOST:PORT, or "
				 "listen to tcp://HOST:PORT");
	return TFC_OK;
}

static void node_on_gossip_refused(void *user, const tfc_error *error)
{
	tfc_node *node = user;
	if (node->hooks.refused)
		node->hooks.refused(node->hooks.user, error);
}

int tfc__node_open_gossip(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	int code = gossip_check_options(options, error);
	if (code < 0)
		return code;
	const struct tfc__gossip_membership_options gossip = {
		.keyring = node->keyring,
		.identity = node->identity,
		.state_dir = options->state_dir,
		.seeds = options->join,
		.interval_ns = options->probe_ms * TFC__MS,
		.refused = node_on_gossip_refused,
		.user = node,
	};
	return tfc__gossip_membership_new(&gossip, error, &node->gossip);
}

int tfc__node_gossip_address(const tfc_node_options *options, tfc_error *error, char **ret_address)
{
	struct tfc__tcp_host host;
	char *address;
	*ret_address = NULL;
	if (!options->gossip || is_auto(options->gossip))
		return TFC_OK;
	bool has_scheme = strncmp(options->gossip, "tcp://", 6) == 0;
	if (asprintf(&address, "tcp://%s", options->gossip + (has_scheme ? 6 : 0)) < 0)
		return tfc__fail_nomem(error, "node");
	int code = tfc__tcp_parse(address, error, &host);
	if (code == TFC_OK && !host.count)
		code = tfc__fail(error, TFC_EINVAL, "node", 0,
				 "\"%.80s\": a numeric address is required, not a name",
				 options->gossip);
	if (code < 0) {
		free(address);
		return tfc__fail_prefix(error, code, "gossip: ");
	}
	*ret_address = address;
	return TFC_OK;
}

static bool is_wildcard(const struct tfc__tcp_host *host)
{
	return strcmp(host->name, "0.0.0.0") == 0 || strcmp(host->name, "::") == 0;
}

/* The address at which others reach this node: `given`, with the actual port; else the first tcp
 * listener, with the advertised host in place of a wildcard. */
static int find_own_address(const tfc_node *node, const tfc_node_options *options,
			    const char *given, tfc_error *error, char ret_address[300])
{
	struct tfc__tcp_host host = {.count = 0}, listener;
	const char *address;
	bool has_listener = false;
	for (uint32_t i = 0; !has_listener && (address = tfc_node_address(node, i)); i++)
		has_listener = strncmp(address, "tcp://", 6) == 0 &&
			       tfc__tcp_parse(address, NULL, &listener) == TFC_OK;
	if (!has_listener)
		return tfc__fail(error, TFC_EINVAL, "node", 0,
				 "gossip: the node does not listen over tcp; set listen to "
				 "tcp://HOST:PORT");
	if (given)
		tfc__tcp_parse(given, NULL, &host);
	const char *name = given ? host.name : listener.name;
	if (is_wildcard(given ? &host : &listener))
		name = options->host;
	if (!name)
		return tfc__fail(
			error, TFC_EINVAL, "node", 0,
			"gossip: other nodes cannot reach this one at %s; set advertise to "
			"the address of this machine that they use",
			given ? given : listener.name);
	snprintf(ret_address, 300, strchr(name, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u", name,
		 given && host.port ? host.port : listener.port);
	return TFC_OK;
}

static int open_datagrams(tfc_node *node, tfc_error *error)
{
	const char *address;
	int code = tfc__datagrams_open(node->ctx, error, &node->datagrams);
	if (code == TFC_OK)
		tfc__node_receive_wills(node);
	for (uint32_t i = 0; code == TFC_OK && (address = tfc_node_address(node, i)); i++)
		if (strncmp(address, "tcp://", 6) == 0)
			code = tfc__datagrams_bind(node->datagrams, address, error);
	return code;
}

int tfc__node_begin_gossip(tfc_node *node, const tfc_node_options *options, tfc_error *error)
{
	char *given, address[300];
	if (!node->gossip)
		return TFC_OK;
	int code = tfc__node_gossip_address(options, error, &given);
	if (code == TFC_OK)
		code = find_own_address(node, options, given, error, address);
	free(given);
	if (code == TFC_OK && (code = open_datagrams(node, error)) == TFC_OK)
		code = tfc__gossip_membership_begin(node->gossip, node->datagrams, address, error);
	return code;
}
