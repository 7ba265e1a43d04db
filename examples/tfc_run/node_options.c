#include "node_options.h"

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/node.h>
#include <unistd.h>

#include "gateway_options.h"
#include "tfc_run.h"

/* ---- values of the command line */

static json_t *config_value(const struct option *option, const char *value)
{
	json_t *text = json_string(value);
	if (!text)
		complain("--%s: is not UTF-8", option->name);
	return text;
}

static int set_value(void *target, const struct option *option, const char *value)
{
	json_t *text = config_value(option, value);
	if (text && json_object_set_new(target, option->name, text) < 0)
		die_without_memory();
	return text ? 0 : -1;
}

static int set_gossip(void *target, const struct option *option, const char *value)
{
	if (*value)
		return set_value(target, option, value);
	if (json_object_set_new(target, option->name, json_true()) < 0)
		die_without_memory();
	return 0;
}

static int set_item(void *target, const struct option *option, const char *value)
{
	json_t *text = config_value(option, value), *list = json_object_get(target, option->name);
	if (!text)
		return -1;
	if (!list && json_object_set_new(target, option->name, list = json_array()) < 0)
		die_without_memory();
	if (json_array_append_new(list, text) < 0)
		die_without_memory();
	return 0;
}

static int set_true(void *target, const struct option *option, const char *value)
{
	if (json_object_set_new(target, option->name, json_true()) < 0)
		die_without_memory();
	return 0;
}

static const struct option table[] = {
	{"name", "S", "the node's name (this host's)", set_value},
	{"listen", "ADDRESS", "tcp://HOST:PORT; may be repeated (its address in the members file)",
	 set_item},
	{"advertise", "HOST", "address that its tasks advertise (the node's in the members file)",
	 set_value},
	{"members", "FILE", "all nodes, this one included; read again when it changes", set_value},
	{"gossip", "[HOST:PORT]",
	 "find all nodes by gossip; HOST:PORT is where they reach this one (its tcp address)",
	 set_gossip},
	{"join", "HOST:PORT",
	 "with --gossip: a node, or a host name that stands for several, through which this one "
	 "finds the others; may be repeated",
	 set_item},
	{"key", "FILE", "the cluster's key (`tfc_run keygen`; TFC_KEY)", set_value},
	{"state", "DIR",
	 "directory for jobs, logs and the node's identity (the default state directory)",
	 set_value},
	{"store", "WHERE", "where jobs are kept: local (in the state directory)", set_value,
	 .values = "local"},
	{"ports", "LO-HI", "ports for tasks (20000-29999)", set_value},
	{"slots", "N", "number of tasks at one time (no limit)", set_value},
	{"memory", "BYTES", "memory for tasks that reserve some, such as 64G (no limit)",
	 set_value},
	{"zygotes", "N", "processes that warm tasks are forked from (2)", set_value},
	{"gpus", "LIST",
	 "the GPUs for tasks: 0,1,...; auto (all that the driver lists) or none (default: as the "
	 "members file says)",
	 set_value},
	{"label", "K=V", "a label that jobs may require; may be repeated", set_item},
	{"submit-user", "U[:G]",
	 "user that runs jobs submitted over tcp with a submit key (the node's)", set_value},
	{"base-env", "WHAT",
	 "environment of tasks whose job was submitted over tcp with a key, or by another user "
	 "over the unix socket: minimal (PATH, HOME, USER, LOGNAME, LANG) or node (all variables "
	 "of the node) (minimal)",
	 set_value, .values = "minimal,node"},
	{"pass-env", "NAME",
	 "another variable of the node for those tasks; NAME* stands for all that begin with NAME; "
	 "may be repeated; none: no variable (LD_LIBRARY_PATH, CUDA_*, NVIDIA_*)",
	 set_item},
	{"group", "G", "a group whose users may use the node's unix sockets; may be repeated",
	 set_item},
	{"client-connections", "N", "connections of all clients (256)", set_value},
	{"key-connections", "N", "connections of clients with one key (128)", set_value},
	{"client-requests", "N", "open requests and subscriptions of all clients (1024)",
	 set_value},
	{"key-requests", "N", "open requests and subscriptions with one key (512)", set_value},
	{"connection-requests", "N", "open requests and subscriptions over one connection (256)",
	 set_value},
	{"client-bytes", "BYTES", "memory of the node that all clients may use (64M)", set_value},
	{"key-bytes", "BYTES", "memory of the node that clients with one key may use (32M)",
	 set_value},
	{"connection-bytes", "BYTES", "bytes that may wait for one client to read them (1M)",
	 set_value},
	{"python", "PATH", "Python of tasks whose job names none (python3)", set_value},
	{"retain-jobs", "N", "ended jobs that are kept (1000)", set_value},
	{"retain", "S", "seconds for which an ended job is kept (7 days)", set_value},
	{"retain-bytes", "BYTES", "bytes of logs of ended jobs that are kept (no limit)",
	 set_value},
	{"log-dir", "DIR", "where logs are written (in the state directory)", set_value},
	{"temp-dir", "DIR", "where private directories are created (TMPDIR)", set_value},
	{"upstream-map", "FILE", "a file that says which node has which partition of the data",
	 set_value},
	{"lease", "S", "seconds after which tasks stop when their job's node is unreachable (10)",
	 set_value},
	{"probe", "S",
	 "seconds between two heartbeats of a member (1); with --gossip, between two probes (0.5)",
	 set_value},
	{"suspect", "S",
	 "seconds without a heartbeat after which a member is suspect (3); not with --gossip",
	 set_value},
	{"down", "S",
	 "seconds without a heartbeat after which a member is down (8); not with --gossip",
	 set_value},
	{"config", "FILE", "a file with a JSON object of these names; options override it"},
	{"quiet", NULL, "print only errors", set_true},
	{"json", NULL, "print one JSON object for each change of a member on stdout", set_true},
	{"verbose", NULL, "also print resumed jobs, lost tasks, refused nodes and the like",
	 set_true},
};

/* ---- the file of --config */

/* The object in the file; NULL after an error message. */
static json_t *read_config(const char *path)
{
	tfc_error error = TFC_ERROR_INIT;
	char *text;
	size_t len;
	json_t *config = NULL;
	int failed = read_file(path, &text, &len);
	if (failed) {
		complain("%s: %s", path, strerror(failed));
		return NULL;
	}
	if (tfc_node_check_json(text, len, path, &error) < 0)
		complain("%s", error.text);
	else if (!(config = json_loadb(text, len, 0, NULL)))
		die_without_memory();
	free(text);
	return config;
}

/* Adds the values of the file. The command line overrides a single value, and extends a list. */
static int merge_config(json_t *values, const char *path)
{
	json_t *config = read_config(path), *value;
	const char *name;
	if (!config)
		return -1;
	json_object_foreach(config, name, value)
	{
		const json_t *given = json_object_get(values, name);
		json_t *list = json_is_array(given) ? json_array() : NULL;
		if (given && !list)
			continue;
		if (list && (json_is_array(value) ? json_array_extend(list, value)
						  : json_array_append(list, value)) < 0)
			die_without_memory();
		if (list && json_array_extend(list, (json_t *)given) < 0)
			die_without_memory();
		if (json_object_set(values, name, list ? list : value) < 0)
			die_without_memory();
		json_decref(list);
	}
	json_decref(config);
	return 0;
}

/* ---- defaults */

static void set_default(json_t *values, const char *name, const char *value)
{
	json_t *text = value && *value ? json_string(value) : NULL;
	if (text && !json_object_get(values, name) && json_object_set(values, name, text) < 0)
		die_without_memory();
	json_decref(text);
}

static int fill_name(struct node_options *options)
{
	char name[256] = "";
	if (!json_object_get(options->values, "name") && gethostname(name, sizeof(name) - 1) < 0)
		return complain("cannot get the host name: %s", strerror(errno));
	set_default(options->values, "name", name);
	return 0;
}

static int fill_state(json_t *values)
{
	char *own = NULL;
	const char *state = json_string_value(json_object_get(values, "state"));
	if (!state && !(state = own = default_state_dir()))
		return -1;
	char *absolute = NULL;
	int code = make_absolute(&state, &absolute);
	if (code == 0 && json_object_set_new(values, "state", json_string(state)) < 0)
		code = complain("--state: is not UTF-8");
	free(absolute);
	free(own);
	return code;
}

/* Replaces groups by their numbers: the library finds only groups in files, NSS finds all. */
static int find_groups(json_t *values)
{
	json_t *value = json_object_get(values, "group"), *found = json_array(), *item;
	size_t i;
	if (json_is_array(value)) {
		json_array_foreach(value, i, item)
		{
			const char *name = json_string_value(item);
			const struct group *group = name ? getgrnam(name) : NULL;
			json_t *id = group ? json_integer(group->gr_gid) : json_incref(item);
			if (json_array_append_new(found, id) < 0)
				die_without_memory();
		}
		if (json_object_set(values, "group", found) < 0)
			die_without_memory();
	}
	json_decref(found);
	return 0;
}

/* ---- the whole command line */

/* The file was already checked, so an error is in the command line. */
static int check_values(struct node_options *options)
{
	tfc_error error = TFC_ERROR_INIT;
	options->json = json_dumps(options->values, JSON_COMPACT);
	if (!options->json)
		die_without_memory();
	if (tfc_node_check_json(options->json, strlen(options->json), NULL, &error) < 0)
		return complain("--%s", error.text);
	options->name = json_string_value(json_object_get(options->values, "name"));
	options->is_quiet = json_is_true(json_object_get(options->values, "quiet"));
	options->is_json = json_is_true(json_object_get(options->values, "json"));
	options->is_verbose = json_is_true(json_object_get(options->values, "verbose"));
	return 0;
}

enum options_result node_options_read(int argc, char **argv, struct node_options *ret_options)
{
	struct node_options *options = ret_options;
	*options = (struct node_options){.values = json_object()};
	struct command_line line = {
		.command = "node",
		.usage = "usage: tfc_run node [OPTIONS]\n\nMakes this machine a node of a cluster, "
			 "which serves jobs until it is stopped. On TERM or\nCtrl-C the node "
			 "leaves in order; a second signal stops it at once.",
		.tables = {OPTION_TABLE(table, options->values)},
	};
	const char *temp_dir = getenv("TMPDIR");
	enum options_result result = options_read(&line, argc, argv);
	const char *file = options_value(&line, "config");
	if (result == OPTIONS_OK &&
	    (options_set(&line) < 0 || (file && merge_config(options->values, file) < 0)))
		result = OPTIONS_BAD;
	if (result == OPTIONS_OK) {
		const char *key = NULL;
		if (!json_object_get(options->values, "key") && key_of_environment(&key) < 0)
			result = OPTIONS_BAD;
		set_default(options->values, "key", key);
		set_default(options->values, "temp-dir",
			    temp_dir && *temp_dir == '/' ? temp_dir : NULL);
		if (fill_name(options) < 0 || fill_state(options->values) < 0 ||
		    find_groups(options->values) < 0 || check_values(options) < 0)
			result = OPTIONS_BAD;
	}
	options_end(&line);
	return result;
}

void node_options_end(struct node_options *options)
{
	json_decref(options->values);
	free(options->json);
}
