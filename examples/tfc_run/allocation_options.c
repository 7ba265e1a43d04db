#include "allocation_options.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gateway_options.h"
#include "job_options.h"

/* ---- values */

static int set_rank(void *target, const struct option *option, const char *value)
{
	tfc_allocation_options *library = target;
	char *end;
	errno = 0;
	unsigned long rank = strtoul(value, &end, 10);
	if (*value < '0' || *value > '9' || *end || errno || rank > INT32_MAX)
		return bad_value(option, value, "must be a whole number");
	library->rank = (uint32_t)rank;
	library->has_rank = 1;
	return 0;
}

static int set_wait(void *target, const struct option *option, const char *value)
{
	tfc_allocation_options *library = target;
	char *end;
	double seconds = strtod(value, &end);
	if (*end || !(seconds >= 0.001 && seconds <= 1e6))
		return bad_value(option, value, "must be seconds, from 0.001 to 1000000");
	library->wait_ms = (uint32_t)(seconds * 1000);
	return 0;
}

/* The options of the node, which the library checks. */
static int set_node_value(void *target, const struct option *option, const char *value)
{
	json_t **node = target, *text = json_string(value);
	if (!text)
		return bad_value(option, "", "is not UTF-8");
	if (json_object_set_new(*node, option->name, text) < 0)
		die_without_memory();
	return 0;
}

static const struct option table[] = {
	{NULL, NULL, "Allocation options"},
	{"rendezvous", "DIR|HOST:PORT",
	 "where the ranks find rank 0: a directory that they share "
	 "(~/.local/state/tfcluster/allocations), or "
	 "the address at which rank 0 listens",
	 TEXT(tfc_allocation_options, rendezvous)},
	{"rank", "N", "number of this rank, if no engine states it", set_rank},
	{"size", "N", "number of ranks, if no engine states it",
	 NUMBER(tfc_allocation_options, rank_count)},
	{"min-nodes", "N",
	 "with fewer ranks the job ends; it starts with so many when --wait is over (all must "
	 "join, one must remain)",
	 NUMBER(tfc_allocation_options, min_ranks)},
	{"wait", "S", "seconds within which all ranks must join, and tasks find room (300)",
	 set_wait},
	{"host", "ADDR", "numeric address of this host that other ranks use",
	 TEXT(tfc_allocation_options, host)},
	{"key", "FILE", "the cluster's key (TFC_KEY, TFC_KEY_DATA; else rank 0 makes one)",
	 TEXT(tfc_allocation_options, key_file)},
};

static const struct option node_table[] = {
	{"ports", "LO-HI", "ports for tasks (20000-29999)", set_node_value},
	{"slots", "N", "number of tasks of a rank at one time (the CPUs that it was granted)",
	 set_node_value},
	{"output-dir", "DIR", "keep the tasks' logs in DIR/rank-N"},
};

/* ---- what the options lead to */

/* Creates a directory and those above it, with mode 0700. 0, or an errno. */
static int make_dirs(char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		int error = mkdir(path, 0700) < 0 ? errno : 0;
		*slash = '/';
		if (error && error != EEXIST)
			return error;
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? errno : 0;
}

/* A directory in the home directory, which hosts of one engine share as a rule. */
static int find_rendezvous(struct allocation_options *options)
{
	char *state = user_state_dir();
	if (!state || asprintf(&options->rendezvous, "%s/allocations", state) < 0)
		die_without_memory();
	free(state);
	int error = make_dirs(options->rendezvous);
	if (error)
		return complain("cannot create directory \"%s\": %s; set --rendezvous to a "
				"directory that all ranks share",
				options->rendezvous, strerror(error));
	options->library.rendezvous = options->rendezvous;
	return 0;
}

static int make_output_dir(json_t *node, const char *dir)
{
	const char *absolute = dir;
	char *own = NULL;
	if (make_absolute(&absolute, &own) < 0)
		return -1;
	int code = 0;
	if (mkdir(absolute, 0777) < 0 && errno != EEXIST)
		code = complain("cannot create directory \"%s\": %s", absolute, strerror(errno));
	else if (json_object_set_new(node, "log-dir", json_string(absolute)) < 0)
		die_without_memory();
	free(own);
	return code;
}

/* The job without what may differ between hosts, and the number of its tasks. */
static int describe_job(struct allocation_options *options)
{
	static const char *const local_keys[] = {"cwd", "env", "bundle", "python"};
	char *text = NULL;
	if (tfc_job_json(options->local.job, 0, &text) < 0)
		die_without_memory();
	json_t *job = json_loads(text, 0, NULL), *role;
	const char *name;
	tfc_free(text);
	if (!job)
		die_without_memory();
	json_object_foreach(json_object_get(job, "roles"), name, role)
	{
		json_t *value = json_object_get(role, "count");
		uint32_t count = json_is_integer(value) ? (uint32_t)json_integer_value(value) : 1;
		options->library.needed_slots += count;
		options->library.needed_gpus += count * (uint32_t)json_integer_value(
								json_object_get(role, "gpus"));
		for (size_t i = 0; i < sizeof(local_keys) / sizeof(local_keys[0]); i++)
			json_object_del(role, local_keys[i]);
	}
	for (size_t i = 0; i < sizeof(local_keys) / sizeof(local_keys[0]); i++)
		json_object_del(job, local_keys[i]);
	options->agreement = json_dumps(job, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(job);
	if (!options->agreement)
		die_without_memory();
	options->library.agreement = options->agreement;
	return 0;
}

static int finish_node(struct allocation_options *options, const struct command_line *line,
		       json_t *node)
{
	const char *temp_dir = getenv("TMPDIR"), *output_dir = options_value(line, "output-dir");
	tfc_error error = TFC_ERROR_INIT;
	if (temp_dir && *temp_dir == '/' &&
	    json_object_set_new(node, "temp-dir", json_string(temp_dir)) < 0)
		die_without_memory();
	if (output_dir && make_output_dir(node, output_dir) < 0)
		return -1;
	options->node = json_dumps(node, JSON_COMPACT);
	if (!options->node)
		die_without_memory();
	if (tfc_node_check_json(options->node, strlen(options->node), NULL, &error) < 0)
		return complain("--%s", error.text);
	options->library.node = options->node;
	return 0;
}

static int finish(struct allocation_options *options, const struct command_line *line, json_t *node)
{
	extern char **environ;
	tfc_allocation_options *library = &options->library;
	library->env = (const char *const *)environ;
	library->key_data = library->key_file ? NULL : getenv("TFC_KEY_DATA");
	/* mpirun gives each rank a terminal of its own, wherever its output goes. */
	if (options->local.output.color == COLOR_AUTO && getenv("OMPI_COMM_WORLD_RANK"))
		options->local.output.color = COLOR_NEVER;
	if (job_options_make(line, &options->local.job) < 0 || finish_node(options, line, node) < 0)
		return -1;
	if (!library->key_file && !library->key_data && key_of_environment(&library->key_file) < 0)
		return -1;
	if (!library->rendezvous && !library->has_rank && find_rendezvous(options) < 0)
		return -1;
	return describe_job(options);
}

enum options_result allocation_options_read(int argc, char **argv,
					    struct allocation_options *ret_options)
{
	struct allocation_options *options = ret_options;
	json_t *node = json_object();
	struct command_line line = {
		.command = "allocation",
		.usage =
			"usage: tfc_run allocation [JOB OPTIONS] [ALLOCATION OPTIONS] [--] PROGRAM "
			"[ARG...]\n\n"
			"Runs a job on the hosts that Slurm, Open MPI or Kubernetes has allocated: "
			"the engine starts\nthis command on each of them, as in \"srun -N 4 "
			"--ntasks-per-node 1 tfc_run allocation\n--worker 4 -- python3 "
			"train.py\". The first one submits the job and prints its output;\nall "
			"end with the job's status.",
		.footer = EXIT_STATUS_HELP,
		.tables = {JOB_OPTION_TABLE(&options->local.job),
			   OPTION_TABLE(table, &options->library), OPTION_TABLE(node_table, &node),
			   OUTPUT_OPTION_TABLE(&options->local.output)},
		.has_program = true,
	};
	*options = (struct allocation_options){.library = TFC_ALLOCATION_OPTIONS_INIT};
	if (!node)
		die_without_memory();
	enum options_result result = options_read(&line, argc, argv);
	if (result == OPTIONS_OK && finish(options, &line, node) < 0)
		result = OPTIONS_BAD;
	options_end(&line);
	json_decref(node);
	return result;
}

void allocation_options_end(struct allocation_options *options)
{
	local_options_end(&options->local);
	free(options->rendezvous);
	free(options->agreement);
	free(options->node);
}
