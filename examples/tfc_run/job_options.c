#include "job_options.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tfc_run.h"

/* ---- setters: the target is the address of the job */

static int set_key(void *target, const struct option *option, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	const char *text = option->fixed ? option->fixed : value;
	if (tfc_job_set(*(tfc_job **)target, option->path, text, &error) < 0)
		return bad_value(option, value, error.text);
	return 0;
}

/* --env K=V, and --env K for K from this process's environment. */
static int set_env(void *target, const struct option *option, const char *value)
{
	const char *inherited = getenv(value);
	char *pair = NULL;
	if (strchr(value, '=') || !*value)
		return set_key(target, option, *value ? value : "=");
	if (!inherited)
		return bad_value(option, value, "not set in the environment");
	if (asprintf(&pair, "%s=%s", value, inherited) < 0)
		return bad_value(option, value, "out of memory");
	int result = set_key(target, option, pair);
	free(pair);
	return result;
}

/* Adds a variable of this process's environment: its value is written to the job, and to no
 * message. 0 or TFC_E... */
static int add_secret(tfc_job *job, const char *path, const char *name, tfc_error *error)
{
	char *pair;
	if (asprintf(&pair, "%s=%s", name, getenv(name)) < 0)
		die_without_memory();
	int code = tfc_job_set(job, path, pair, error);
	explicit_bzero(pair, strlen(pair));
	free(pair);
	return code;
}

static int set_secret(void *target, const struct option *option, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	if (strchr(value, '='))
		return bad_value(option, "",
				 "must be a name; the value comes from the environment");
	if (!getenv(value))
		return bad_value(option, value, "not set in the environment");
	if (add_secret(*(tfc_job **)target, option->path, value, &error) < 0)
		return bad_value(option, value, error.text);
	return 0;
}

/* Sets the upstream, and the placement policy that follows it. */
static int set_upstream(void *target, const struct option *option, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = *(tfc_job **)target;
	if (tfc_job_set(job, "placement.upstream", value, &error) < 0 ||
	    tfc_job_set(job, "placement.policy", "upstream", &error) < 0)
		return bad_value(option, value, error.text);
	return 0;
}

/* Adds the modules, which commas separate. */
static int set_warm(void *target, const struct option *option, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	char *copy = strdup(value), *rest = copy;
	int code = copy ? TFC_OK : TFC_ENOMEM;
	for (char *name; code == TFC_OK && (name = strsep(&rest, ","));)
		code = tfc_job_set(*(tfc_job **)target, option->path, name, &error);
	free(copy);
	return code < 0 ? bad_value(option, value, error.text) : 0;
}

#define KEY(path) set_key, path

const struct option job_options[] = {
	{NULL, NULL, "Job options"},
	{"job", "FILE", "a job file; options override it"},
	{"name", "S", "the job's name", KEY("name")},
	{"chief", NULL, "a chief", KEY("roles.chief"), "{}"},
	{"worker", "N", "N workers (1 when no role is given)", KEY("roles.worker.count")},
	{"ps", "N", "N parameter servers; adds a chief unless there is a driver",
	 KEY("roles.ps.count")},
	{"evaluator", NULL, "an evaluator", KEY("roles.evaluator"), "{}"},
	{"tensorboard", "DIR", "a TensorBoard on DIR", KEY("roles.tensorboard.log_dir")},
	{"driver", NULL,
	 "the program is a driver, which gets no TF_CONFIG; the roles run TensorFlow's server",
	 KEY("roles.driver"), "{}"},
	{"strategy", "S", "auto, multi_worker_mirrored, parameter_server or none", KEY("strategy"),
	 .values = "auto,multi_worker_mirrored,parameter_server,none"},
	{"framework", "F", "tensorflow, pytorch, jax, horovod or none", KEY("framework"),
	 .values = "tensorflow,none,pytorch,jax,horovod"},
	{"env", "K[=V]", "set a variable, or pass it from this environment", set_env, "env[]"},
	{"secret-env", "K", "pass a secret variable, whose value is never shown", set_secret,
	 "secret_env[]"},
	{"cwd", "DIR", "working directory of the tasks (the current one)", KEY("cwd")},
	{"bundle", "PATH", "a directory, file or zip archive that becomes each task's directory",
	 KEY("bundle")},
	{"python", "PATH", "Python that runs TensorFlow's server and TensorBoard (python3)",
	 KEY("python")},
	{"restart", "N", "restarts that are allowed within the window (3)", KEY("restart.max")},
	{"restart-window", "S", "the window of --restart, in seconds (600)",
	 KEY("restart.window_s")},
	{"losses", "N", "restarts that are allowed in a day after lost nodes and preemptions (100)",
	 KEY("restart.losses")},
	{"restart-on", "WHAT",
	 "failures after which a task restarts: retryable, failure (any) or never",
	 KEY("restart.on"), .values = "retryable,failure,never"},
	{"on-failure", "ROLE=WHAT", "when a task of ROLE has failed for good: fail or ignore"},
	{"scope", "S", "what restarts: auto, task, group or coordinator", KEY("restart.scope"),
	 .values = "auto,task,group,coordinator"},
	{"grace", "S", "seconds between TERM and KILL (10)", KEY("grace_s")},
	{"abort-grace", "S", "the same seconds when the job fails or a group restarts (auto)",
	 KEY("abort_grace_s")},
	{"start-deadline", "S", "seconds within which all tasks must be ready (auto; 0: no limit)",
	 KEY("start_deadline_s")},
	{"pending-deadline", "S", "seconds within which every task must have a node (0: no limit)",
	 KEY("pending_deadline_s")},
	{"deadline", "S", "seconds within which the job must end (0: no limit)", KEY("deadline_s")},
	{"stall", "S", "seconds without output or progress that count as a stall (auto; 0: none)",
	 KEY("stall_s")},
	{"on-stall", "WHAT", "what to do about a stall: report, stacks or restart", KEY("on_stall"),
	 .values = "report,stacks,restart"},
	{"reports", NULL, "give each task TFC_REPORT_FD, for reports to programs (see --json)",
	 KEY("reports"), "true"},
	{"topology", "T", "what a worker's TF_CONFIG names: full or, with --ps, partial (full)",
	 KEY("topology")},
	{"warm", "MODULES",
	 "fork the tasks from a process that has imported these, as in tensorflow,numpy", set_warm,
	 "warm[]"},
	{"isolation", "I", "how a task's processes are found: auto, plain, cgroup or pidns (auto)",
	 KEY("isolation")},
	{"gpus", "N", "GPUs for each worker, and for the chief of a job without --ps (0)"},
	{"memory", "BYTES", "memory to reserve for each of the same tasks, such as 8G (0)"},
	{"memory-limit", "LIMIT",
	 "memory that each may use: BYTES, auto (what is reserved, where the kernel can) or false"},
	{"cpus", "N", "CPU time for each of the same tasks, in CPUs, such as 1.5 (0: no limit)"},
	{"label", "K=V", "a label that a node must have", KEY("placement.labels[]")},
	{"placement", "P", "spread tasks over the nodes, pack them on few, or follow an upstream",
	 KEY("placement.policy"), .values = "spread,pack,upstream"},
	{"upstream", "NAME", "place the workers where the partitions of NAME are", set_upstream},
	{"preload", NULL, NULL},
	{"spares", NULL, NULL},
};

const size_t job_option_count = sizeof(job_options) / sizeof(job_options[0]);

/* ---- from a command line to a job */

static int read_job(const char *path, tfc_job **ret_job)
{
	tfc_error error = TFC_ERROR_INIT;
	char *text;
	size_t len;
	int failed = read_file(path, &text, &len);
	if (failed)
		return complain("%s: %s", path, strerror(failed));
	int code = tfc_job_parse(text, len, path, &error, ret_job);
	free(text);
	return code < 0 ? complain("%s", error.text) : 0;
}

static int set_in_job(tfc_job *job, const char *path, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_set(job, path, value, &error) < 0)
		return complain("%s", error.text);
	return 0;
}

/* Adds the roles that the command line implies without naming them. */
static int add_roles(tfc_job *job, const struct command_line *line)
{
	static const char *const served[] = {"chief", "worker", "ps"};
	bool has_driver = options_value(line, "driver"), has_worker = options_value(line, "worker");
	bool has_chief = options_value(line, "chief"), has_ps = options_value(line, "ps");
	if (options_value(line, "job"))
		return 0;
	if (has_ps && !has_chief && !has_driver && set_in_job(job, "roles.chief", "{}") < 0)
		return -1;
	if (!has_chief && !has_worker && !has_ps && set_in_job(job, "roles.worker", "{}") < 0)
		return -1;
	for (size_t i = 0; has_driver && i < 3; i++) {
		char path[32];
		bool is_there = options_value(line, served[i]) ||
				(i == 1 && !has_chief && !has_ps); /* the worker just added */
		snprintf(path, sizeof(path), "roles.%s.server", served[i]);
		if (is_there && set_in_job(job, path, "true") < 0)
			return -1;
	}
	return 0;
}

/* The number of bytes that a value such as "8G" means; NULL: none. */
static const char *expand_bytes(const char *value, char text[32])
{
	static const char units[] = "KMGT";
	char *end;
	errno = 0;
	unsigned long long number = strtoull(value, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;
	unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
	if ((*end && (!unit || end[1])) || errno || *value < '0' || *value > '9' ||
	    number > UINT64_MAX >> shift)
		return NULL;
	snprintf(text, 32, "%llu", number << shift);
	return text;
}

static int set_resource(tfc_job *job, const struct option *option, const char *role,
			const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	char text[32], path[32];
	bool is_memory = strcmp(option->name, "memory") == 0;
	bool is_limit = strcmp(option->name, "memory-limit") == 0;
	const char *number = is_memory || is_limit ? expand_bytes(value, text) : value;
	if (!number && is_limit) /* "auto" or "false"; the job refuses others */
		number = value;
	if (!number)
		return bad_value(option, value,
				 "must be a number of bytes, which may end in K, M, G or T (powers "
				 "of 1024), such as 8G");
	snprintf(path, sizeof(path), "roles.%s.%s", role, is_limit ? "memory_limit" : option->name);
	if (tfc_job_set(job, path, number, &error) < 0)
		return bad_value(option, value, error.text);
	return 0;
}

/* Sets what each task of the roles that train gets. */
static int set_resources(tfc_job *job, const struct command_line *line)
{
	static const char *const names[] = {"--gpus", "--memory", "--memory-limit", "--cpus"};
	bool does_chief_train = options_value(line, "chief") && !options_value(line, "ps");
	bool has_others = options_value(line, "chief") || options_value(line, "ps");
	bool has_workers = options_value(line, "worker") || options_value(line, "job") ||
			   !has_others;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct option *option = options_find(line, names[i], strlen(names[i]), NULL);
		const char *value = options_value(line, option->name);
		if (value && does_chief_train && set_resource(job, option, "chief", value) < 0)
			return -1;
		if (value && has_workers && set_resource(job, option, "worker", value) < 0)
			return -1;
	}
	return 0;
}

static int complain_no_role(const char *value, const char *role, json_t *roles)
{
	const char *names[32], *name;
	size_t count = 0;
	json_t *item;
	json_object_foreach(roles, name, item)
	{
		if (count < 32)
			names[count++] = name;
	}
	const char *near = nearest(role, names, count, sizeof(names[0]));
	return complain("--on-failure %s: the job has no role \"%s\"%s%s%s", value, role,
			near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

/* ROLE=WHAT for an existing role: a mistyped role must not add one. */
static int set_on_failure(tfc_job *job, json_t *roles, const char *value)
{
	char role[64], key[96];
	size_t len = strcspn(value, "=");
	const char *what = value + len + 1;
	if (!value[len] || len >= sizeof(role))
		return complain("--on-failure %s: must be ROLE=fail or ROLE=ignore", value);
	if (strcmp(what, "fail") != 0 && strcmp(what, "ignore") != 0)
		return complain("--on-failure %s: must be fail or ignore, not \"%s\"", value, what);
	memcpy(role, value, len);
	role[len] = '\0';
	if (!json_object_get(roles, role))
		return complain_no_role(value, role, roles);
	snprintf(key, sizeof(key), "roles.%s.on_failure", role);
	return set_in_job(job, key, what);
}

static int set_on_failures(tfc_job *job, const struct command_line *line)
{
	char *text = NULL;
	int result = 0;
	if (!options_value(line, "on-failure"))
		return 0;
	if (tfc_job_json(job, 0, &text) < 0)
		die_without_memory();
	json_t *root = json_loads(text, 0, NULL);
	for (size_t i = 0; i < line->count && result == 0; i++)
		if (strcmp(line->items[i].option->name, "on-failure") == 0)
			result = set_on_failure(job, json_object_get(root, "roles"),
						line->items[i].value);
	json_decref(root);
	tfc_free(text);
	return result;
}

static int set_program(tfc_job *job, char **program)
{
	if (!*program)
		return 0;
	if (set_in_job(job, "argv", "[]") < 0)
		return -1;
	for (; *program; program++)
		if (set_in_job(job, "argv[]", *program) < 0)
			return -1;
	return 0;
}

static int fill_secrets(tfc_job *job, const char *path, json_t *secrets)
{
	tfc_error error = TFC_ERROR_INIT;
	const char *name;
	json_t *value;
	json_object_foreach(secrets, name, value)
	{
		if (json_is_null(value) && getenv(name) && add_secret(job, path, name, &error) < 0)
			return complain("%s", error.text);
	}
	return 0;
}

/* Secrets that a job file only names get their values from this process's environment, where it has
 * them. */
static int fill_all_secrets(tfc_job *job)
{
	char *text = NULL, path[128];
	const char *name;
	json_t *role;
	if (tfc_job_json(job, TFC_JSON_SECRETS, &text) < 0)
		die_without_memory();
	json_t *root = json_loads(text, 0, NULL);
	int result = fill_secrets(job, "secret_env[]", json_object_get(root, "secret_env"));
	json_object_foreach(json_object_get(root, "roles"), name, role)
	{
		snprintf(path, sizeof(path), "roles.%s.secret_env[]", name);
		if (result == 0)
			result = fill_secrets(job, path, json_object_get(role, "secret_env"));
	}
	json_decref(root);
	explicit_bzero(text, strlen(text));
	tfc_free(text);
	return result;
}

/* Makes a path absolute without accessing it; NULL stands for `here`. */
static int set_path(tfc_job *job, const char *key, const char *here, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	char *path;
	if (value && *value == '/')
		return 0;
	if (asprintf(&path, "%s%s%s", here, value ? "/" : "", value ? value : "") < 0)
		die_without_memory();
	int code = tfc_job_set(job, key, path, &error);
	free(path);
	return code < 0 ? complain("%s", error.text) : 0;
}

static int set_role_paths(tfc_job *job, const char *here, json_t *roles)
{
	const char *name, *path;
	char key[128];
	json_t *role;
	json_object_foreach(roles, name, role)
	{
		if (!(path = json_string_value(json_object_get(role, "cwd"))))
			continue;
		snprintf(key, sizeof(key), "roles.%s.cwd", name);
		if (set_path(job, key, here, path) < 0)
			return -1;
	}
	return 0;
}

/* As tfc_job_resolve, but for paths on other machines, which need not exist here. */
static int resolve_elsewhere(tfc_job *job, const char *here)
{
	char *text = NULL;
	if (tfc_job_json(job, 0, &text) < 0)
		die_without_memory();
	json_t *root = json_loads(text, 0, NULL);
	const char *bundle = json_string_value(json_object_get(root, "bundle"));
	const char *cwd = json_string_value(json_object_get(root, "cwd"));
	int result = bundle ? set_path(job, "bundle", here, bundle)
			    : set_path(job, "cwd", here, cwd);
	if (!bundle && result == 0)
		result = set_role_paths(job, here, json_object_get(root, "roles"));
	json_decref(root);
	tfc_free(text);
	return result;
}

/* Resolves relative paths against the current directory. */
static int resolve_paths(tfc_job *job, bool is_elsewhere)
{
	tfc_error error = TFC_ERROR_INIT;
	char *here = getcwd(NULL, 0);
	int result = 0;
	if (!here)
		result = complain("cannot get the current directory: %s", strerror(errno));
	else if (is_elsewhere)
		result = resolve_elsewhere(job, here);
	else if (tfc_job_resolve(job, here, &error) < 0)
		result = complain("%s", error.text);
	free(here);
	return result;
}

bool job_wants_gpus(const tfc_job *job)
{
	char *text = NULL;
	const char *name;
	json_t *role;
	bool is_wanted = false;
	if (tfc_job_json(job, 0, &text) < 0)
		return false;
	json_t *root = json_loads(text, 0, NULL);
	json_object_foreach(json_object_get(root, "roles"), name, role)
	{
		is_wanted |= json_integer_value(json_object_get(role, "gpus")) > 0 &&
			     json_integer_value(json_object_get(role, "count")) > 0;
	}
	json_decref(root);
	tfc_free(text);
	return is_wanted;
}

bool job_has_bundle(const tfc_job *job)
{
	char *text = NULL;
	if (tfc_job_json(job, 0, &text) < 0)
		die_without_memory();
	json_t *root = json_loads(text, 0, NULL);
	bool has_bundle = json_is_string(json_object_get(root, "bundle"));
	json_decref(root);
	tfc_free(text);
	return has_bundle;
}

/* ---- the words behind the options */

/* The number in "--chief 2" would be the program. */
static int check_flag_value(const struct command_line *line)
{
	const struct option *last = line->count ? line->items[line->count - 1].option : NULL;
	const char *word = line->words[0];
	if (!last || last->value || line->is_separated || !word || !*word ||
	    word[strspn(word, "0123456789")])
		return 0;
	return complain("--%s takes no value; remove \"%s\"", last->name, word);
}

static int check_program(const struct command_line *line)
{
	const char *word = line->words[0], *end = word ? strrchr(word, '.') : NULL;
	if (line->is_separated || line->word_count != 1 || !end || strcmp(end, ".json") != 0)
		return 0;
	return complain("\"%s\" is not a program; \"--job %s\" runs a job file", word, word);
}

/* The program may have such an option of its own, so this is a hint only. */
static void hint_misplaced_role(const struct command_line *line)
{
	static const char *const roles[] = {"--chief",     "--worker",      "--ps",
					    "--evaluator", "--tensorboard", "--driver"};
	if (line->is_separated || options_value(line, "quiet"))
		return;
	for (size_t i = 1; i < line->word_count; i++)
		for (size_t at = 0; at < sizeof(roles) / sizeof(roles[0]); at++) {
			const char *word = line->words[i];
			if (strncmp(word, roles[at], strcspn(word, "=")) != 0 ||
			    strlen(roles[at]) != strcspn(word, "="))
				continue;
			complain("\"%s\" follows the program and is passed to it; an option of "
				 "tfc_run precedes the program (\"--\" before the program hides "
				 "this hint)",
				 roles[at]);
			return;
		}
}

int job_options_make(const struct command_line *line, tfc_job **ret_job)
{
	tfc_error error = TFC_ERROR_INIT;
	const char *file = options_value(line, "job");
	if (check_flag_value(line) < 0 || check_program(line) < 0)
		return -1;
	if (file ? read_job(file, ret_job) < 0 : tfc_job_new(ret_job) < 0)
		return file ? -1 : complain("out of memory");
	if (options_set(line) < 0 || add_roles(*ret_job, line) < 0 ||
	    set_resources(*ret_job, line) < 0 || set_on_failures(*ret_job, line) < 0 ||
	    set_program(*ret_job, line->words) < 0 || fill_all_secrets(*ret_job) < 0)
		return -1;
	if (!file && !*line->words)
		return complain(
			"program missing; usage: tfc_run %s [OPTIONS] [--] PROGRAM [ARG...]",
			line->command);
	if (tfc_job_validate(*ret_job, &error) < 0)
		return complain("%s", error.text);
	hint_misplaced_role(line);
	return resolve_paths(*ret_job, strcmp(line->command, "start") == 0);
}
