#include "node_options.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/node.h>
#include <unistd.h>

#include "config.h"
#include "gateway_options.h"
#include "tfc_run.h"

static int set_store(void *target, const struct option *option, const char *value)
{
	if (strncmp(value, "etcd:", 5) == 0)
		return bad_value(option, value, "etcd is not in this version");
	if (strcmp(value, "local") != 0)
		return bad_value(option, value, "is no store; local is one");
	return 0;
}

static int set_base_env(void *target, const struct option *option, const char *value)
{
	struct node_options *options = target;
	if (strcmp(value, "minimal") == 0)
		options->base_env = TFC_BASE_ENV_MINIMAL;
	else if (strcmp(value, "node") == 0)
		options->base_env = TFC_BASE_ENV_NODE;
	else
		return bad_value(option, value, "is neither minimal nor node");
	return 0;
}

static const struct option table[] = {
	{"name", "S", "the node's name (this host's)", TEXT(struct node_options, name)},
	{"listen", "ADDRESS", "tcp://HOST:PORT; may be repeated (its address in the members file)",
	 TEXTS(struct node_options, listen)},
	{"advertise", "HOST", "address that its tasks tell others (that of its own in the members)",
	 TEXT(struct node_options, advertise)},
	{"members", "FILE", "all nodes, this one included; read again when it changes",
	 TEXT(struct node_options, members)},
	{"key", "FILE", "the cluster's key (`tfc_run keygen`; TFC_KEY)",
	 TEXT(struct node_options, key)},
	{"state", "DIR", "where it keeps jobs, logs and its identity (the default state directory)",
	 TEXT(struct node_options, state)},
	{"store", "WHERE", "where jobs are kept: local (in the state directory)", set_store},
	{"ports", "LO-HI", "ports for tasks (20000-29999)", set_ports,
	 .at = offsetof(struct node_options, ports)},
	{"slots", "N", "tasks that it runs at one time (no limit)",
	 NUMBER(struct node_options, slots)},
	{"memory", "BYTES", "for tasks that ask for memory, such as 64G (no limit)",
	 BYTES(struct node_options, memory_bytes)},
	{"gpus", "LIST", "0,1,...; auto (ask the driver) or none (as the members say)",
	 TEXT(struct node_options, gpus)},
	{"label", "K=V", "what jobs may ask for; may be repeated",
	 TEXTS(struct node_options, labels)},
	{"submit-user", "U[:G]",
	 "as whom run jobs that come over tcp with a submit key (the node's)",
	 TEXT(struct node_options, submit_user)},
	{"base-env", "WHAT",
	 "the environment of tasks whose job came over tcp: minimal (PATH, HOME, USER, LOGNAME, "
	 "LANG) or node (all that the node has) (minimal)",
	 set_base_env},
	{"pass-env", "NAME",
	 "a variable of the node that those tasks get, too; NAME* stands for all that begin with "
	 "NAME; may be repeated; none: no variable (LD_LIBRARY_PATH, CUDA_*, NVIDIA_*)",
	 TEXTS(struct node_options, pass_env)},
	{"group", "G", "its users may use the node's unix sockets; may be repeated",
	 TEXTS(struct node_options, group_names)},
	{"client-connections", "N", "connections of all clients (256)",
	 NUMBER(struct node_options, client_connections)},
	{"key-connections", "N", "connections of clients with one key (128)",
	 NUMBER(struct node_options, key_connections)},
	{"client-requests", "N", "open requests and subscriptions of all clients (1024)",
	 NUMBER(struct node_options, client_requests)},
	{"key-requests", "N", "open requests and subscriptions with one key (512)",
	 NUMBER(struct node_options, key_requests)},
	{"connection-requests", "N", "the same over one connection (256)",
	 NUMBER(struct node_options, connection_requests)},
	{"client-bytes", "BYTES", "that all clients may make the node hold (64M)",
	 BYTES(struct node_options, client_bytes)},
	{"key-bytes", "BYTES", "that clients with one key may make it hold (32M)",
	 BYTES(struct node_options, key_bytes)},
	{"connection-bytes", "BYTES", "that wait for one client to read them (1M)",
	 BYTES(struct node_options, connection_bytes)},
	{"upstream-map", "FILE", "where the host's data is, for jobs that follow it",
	 TEXT(struct node_options, upstream_map)},
	{"lease", "S", "its tasks stop when their job's node is silent so long (10)",
	 SECONDS(struct node_options, lease_ms)},
	{"probe", "S", "seconds between two looks at each member (1)",
	 SECONDS(struct node_options, probe_ms)},
	{"suspect", "S", "silence after which a member is suspect (3)",
	 SECONDS(struct node_options, suspect_ms)},
	{"down", "S", "silence after which it is down (8)", SECONDS(struct node_options, down_ms)},
	{"config", "FILE", "a JSON object with these names; the options beside it override it"},
	{"quiet", NULL, "say nothing but errors", FLAG(struct node_options, is_quiet)},
	{"json", NULL, "print one JSON object for each change of a member on stdout",
	 FLAG(struct node_options, is_json)},
	{"gossip", NULL, NULL},
	{"join", NULL, NULL},
};

static int fill_name(struct node_options *options)
{
	if (options->name)
		return 0;
	if (gethostname(options->own_name, sizeof(options->own_name) - 1) < 0)
		return complain("this host's name: %s", strerror(errno));
	options->name = options->own_name;
	return 0;
}

static int fill_state(struct node_options *options)
{
	if (!options->state)
		return (options->state = options->own_state = default_state_dir()) ? 0 : -1;
	return make_absolute(&options->state, &options->own_state);
}

/* "none" stands for an empty list. */
static int check_pass_env(const struct texts *names)
{
	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->items[i];
		size_t len = strcspn(name, "=");
		if (name[len])
			return complain("--pass-env %.*s: takes a name; the value is that of the "
					"node's environment",
					(int)len, name);
		if (names->count > 1 && strcmp(name, "none") == 0)
			return complain("--pass-env none: passes nothing, and is given alone");
	}
	return 0;
}

static int find_groups(struct node_options *options)
{
	for (size_t i = 0; i < options->group_names.count; i++) {
		const char *name = options->group_names.items[i];
		const struct group *group = getgrnam(name);
		if (i == sizeof(options->groups) / sizeof(options->groups[0]))
			return complain("--group %s: too many groups", name);
		if (!group)
			return complain("--group %s: there is no such group here", name);
		options->groups[i] = group->gr_gid;
	}
	return 0;
}

enum options_result node_options_read(int argc, char **argv, struct node_options *ret_options)
{
	struct node_options *options = ret_options;
	struct command_line line = {
		.command = "node",
		.usage = "usage: tfc_run node [OPTIONS]\n\n"
			 "Makes this machine a member: it serves jobs until it is stopped. Stopped "
			 "(TERM, Ctrl-C),\nit leaves in order; a second time, at once.",
		.tables = {OPTION_TABLE(table, options)},
	};
	*options = (struct node_options){0};
	enum options_result result = options_read(&line, argc, argv);
	const char *file = options_value(&line, "config");
	if (result == OPTIONS_OK &&
	    ((file && config_apply(&line, file, &options->config) < 0) || options_set(&line) < 0 ||
	     check_pass_env(&options->pass_env) < 0 || fill_name(options) < 0 ||
	     fill_state(options) < 0 || find_groups(options) < 0))
		result = OPTIONS_BAD;
	if (!options->key && getenv("TFC_KEY") && *getenv("TFC_KEY"))
		options->key = getenv("TFC_KEY");
	options_end(&line);
	return result;
}

void node_options_end(struct node_options *options)
{
	texts_fini(&options->listen);
	texts_fini(&options->labels);
	texts_fini(&options->pass_env);
	texts_fini(&options->group_names);
	free(options->own_state);
	config_free(options->config);
}
