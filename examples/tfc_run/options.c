#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tfc_run.h"

struct option {
	const char *name;  /* NULL: a heading of the help */
	const char *value; /* what the help calls its value; NULL: takes none */
	const char *help;
	int (*set)(struct options *options, const struct option *option, const char *value);
	const char *path;  /* the job's key that it sets */
	const char *fixed; /* what is set there when it takes no value */
	size_t at;         /* the field that it sets */
};

/* Complains about an option's value. */
static int bad_value(const struct option *option, const char *value, const char *why)
{
	return complain("--%s%s%s: %s", option->name, *value ? " " : "", value, why);
}

static int set_key(struct options *options, const struct option *option, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	const char *text = option->fixed ? option->fixed : value;
	if (tfc_job_set(options->job, option->path, text, &error) < 0)
		return bad_value(option, value, error.text);
	return 0;
}

/* --env K=V, and --env K for K as it is here. What is not set here is not set there. */
static int set_env(struct options *options, const struct option *option, const char *value)
{
	const char *inherited = getenv(value);
	char *pair = NULL;
	if (strchr(value, '=') || !*value)
		return set_key(options, option, *value ? value : "=");
	if (!inherited)
		return 0;
	if (asprintf(&pair, "%s=%s", value, inherited) < 0)
		return bad_value(option, value, "out of memory");
	int result = set_key(options, option, pair);
	free(pair);
	return result;
}

/* The value itself stays in the environment: the library takes it from there at launch. */
static int set_secret(struct options *options, const struct option *option, const char *value)
{
	if (strchr(value, '='))
		return bad_value(option, "", "takes a name; the value comes from the environment");
	if (!getenv(value))
		return bad_value(option, value, "is not set in the environment");
	return set_key(options, option, value);
}

static int set_ports(struct options *options, const struct option *option, const char *value)
{
	unsigned first, last;
	int end = 0;
	if (sscanf(value, "%5u-%5u%n", &first, &last, &end) != 2 || value[end] || value[0] == '-' ||
	    value[0] == '+')
		return bad_value(option, value, "is not a range LO-HI, such as 20000-29999");
	if (first > UINT16_MAX || last > UINT16_MAX)
		return bad_value(option, value, "ports end at 65535");
	if (first == 0 || first > last)
		return bad_value(option, value,
				 first ? "the range is reversed" : "ports begin at 1");
	options->port_first = (uint16_t)first;
	options->port_last = (uint16_t)last;
	return 0;
}

static int set_color(struct options *options, const struct option *option, const char *value)
{
	static const char *const names[] = {"auto", "always", "never"};
	for (options->color = COLOR_AUTO; options->color <= COLOR_NEVER; options->color++)
		if (strcmp(value, names[options->color]) == 0)
			return 0;
	return bad_value(option, value, "is none of auto, always, never");
}

static int set_text(struct options *options, const struct option *option, const char *value)
{
	if (!*value)
		return bad_value(option, value, "must not be empty");
	*(const char **)((char *)options + option->at) = value;
	return 0;
}

static int set_flag(struct options *options, const struct option *option, const char *value)
{
	*(bool *)((char *)options + option->at) = true;
	return 0;
}

#define KEY(path) set_key, path
#define FLAG(field) set_flag, .at = offsetof(struct options, field)
#define TEXT(field) set_text, .at = offsetof(struct options, field)

static const struct option table[] = {
	{NULL, NULL, "Job options"},
	{"job", "FILE", "a job file; the options beside it override it"},
	{"name", "S", "the job's name", KEY("name")},
	{"chief", NULL, "a chief", KEY("roles.chief"), "{}"},
	{"worker", "N", "N workers (1 when no role is given)", KEY("roles.worker.count")},
	{"ps", "N", "N parameter servers; adds a chief unless there is a driver",
	 KEY("roles.ps.count")},
	{"evaluator", NULL, "an evaluator", KEY("roles.evaluator"), "{}"},
	{"tensorboard", "DIR", "a TensorBoard on DIR", KEY("roles.tensorboard.log_dir")},
	{"driver", NULL, "the program is a driver; the roles run TensorFlow's server",
	 KEY("roles.driver"), "{}"},
	{"strategy", "S", "auto, multi_worker_mirrored, parameter_server or none", KEY("strategy")},
	{"framework", "F", "tensorflow, pytorch, jax, horovod or none", KEY("framework")},
	{"env", "K[=V]", "set a variable, or hand on its value here", set_env, "env[]"},
	{"secret-env", "K", "hand on a variable that is never shown", set_secret, "secret_env[]"},
	{"cwd", "DIR", "working directory of the tasks (the current one)", KEY("cwd")},
	{"bundle", "PATH", "a directory, file or zip that each task gets as its directory",
	 KEY("bundle")},
	{"python", "PATH", "Python that runs TensorFlow's server and TensorBoard (python3)",
	 KEY("python")},
	{"restart", "N", "restarts within the window (3)", KEY("restart.max")},
	{"restart-window", "S", "the window, in seconds (600)", KEY("restart.window_s")},
	{"restart-on", "WHAT", "retryable, failure or never", KEY("restart.on")},
	{"scope", "S", "what restarts: auto, task, group or coordinator", KEY("restart.scope")},
	{"grace", "S", "seconds between TERM and KILL (10)", KEY("grace_s")},
	{"start-deadline", "S", "seconds until all tasks are ready (600; 0: none)",
	 KEY("start_deadline_s")},
	{"deadline", "S", "seconds until the job ends (0: none)", KEY("deadline_s")},
	{"stall", "S", "seconds of silence that count as a stall (0: none)", KEY("stall_s")},
	{"on-stall", "WHAT", "report, stacks or restart", KEY("on_stall")},
	{NULL, NULL, "Run options"},
	{"ports", "LO-HI", "ports to take (20000-29999)", set_ports},
	{"host", "ADDR", "address that the tasks tell each other (127.0.0.1)", TEXT(host)},
	{"log-dir", "DIR", "keep the tasks' logs in DIR", TEXT(log_dir)},
	{"timestamps", NULL, "put the time in front of each line", FLAG(has_timestamps)},
	{"no-prefix", NULL, "do not put the task in front of each line", FLAG(has_no_prefix)},
	{"color", "WHEN", "auto, always or never", set_color},
	{"quiet", NULL, "say nothing but the tasks' lines and errors", FLAG(is_quiet)},
	{"json", NULL, "print one JSON object for each event on stdout", FLAG(is_json)},
	{"explain", NULL, "print what each task would be given, and run nothing",
	 FLAG(is_explained)},
	{"help", NULL, "print this"},
};

/* Names that users of later versions know: a better sentence than "unknown". */
static const char *const later[] = {"gpus", "label", "placement", "preload", "spares", "upstream"};

#define OPTION_COUNT (sizeof(table) / sizeof(table[0]))

/* The options as they were given. --job comes first, wherever it stands. */
struct given {
	const struct option *option;
	const char *value;
};

struct command_line {
	struct given *items;
	size_t count;
	char **program; /* argv from the program on, NULL-terminated; may be empty */
};

static const char *value_of(const struct command_line *line, const char *name)
{
	for (size_t i = line->count; i-- > 0;) /* the last one counts */
		if (strcmp(line->items[i].option->name, name) == 0)
			return line->items[i].value;
	return NULL;
}

static void print_help(void)
{
	puts("usage: tfc_run local [JOB OPTIONS] [RUN OPTIONS] [--] PROGRAM [ARG...]\n"
	     "       tfc_run local --job FILE [RUN OPTIONS]\n\n"
	     "Runs a job on this machine, in this process.");
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct option *option = &table[i];
		char left[32];
		if (!option->name) {
			printf("\n%s:\n", option->help);
			continue;
		}
		snprintf(left, sizeof(left), "--%s %s", option->name,
			 option->value ? option->value : "");
		printf("  %-22s %s\n", left, option->help);
	}
	puts("\nThe exit status is that of the task that decides the end; 124 deadline, 125 "
	     "tfc_run\n"
	     "itself failed, 126 and 127 program not executable or not found, 128+N signal N.");
}

/* ---- from argv to a command line */

static const struct option *find(const char *name, size_t len)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (table[i].name && strlen(table[i].name) == len &&
		    strncmp(table[i].name, name, len) == 0)
			return &table[i];
	return NULL;
}

static int unknown_option(const char *word, int len)
{
	char name[64];
	int dashes = (int)strspn(word, "-");
	snprintf(name, sizeof(name), "%.*s", len - dashes, word + dashes);
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
		if (strcmp(name, later[i]) == 0)
			return complain("--%s is not in this version", name);
	const char *near = nearest(name, &table[0].name, OPTION_COUNT, sizeof(table[0]));
	if (near)
		return complain("unknown option '%.*s'; did you mean --%s?", len, word, near);
	return complain("unknown option '%.*s'; `tfc_run local --help` lists them", len, word);
}

/* Reads the option at *at and its value, and moves *at behind them. */
static int read_option(char ***at, struct given *ret_given)
{
	const char *word = **at;
	size_t len = strcspn(word, "=");
	const struct option *option = len > 2 && word[1] == '-' ? find(word + 2, len - 2) : NULL;
	const char *value = word[len] ? word + len + 1 : NULL;
	*at += 1;
	if (strcmp(word, "-h") == 0)
		option = find("help", 4);
	if (!option)
		return unknown_option(word, (int)len);
	if (value && !option->value)
		return complain("--%s takes no value", option->name);
	if (!value && option->value && !(value = *(*at)++))
		return complain("--%s needs a value: %s", option->name, option->value);
	*ret_given = (struct given){option, value ? value : ""};
	return 0;
}

static int read_command_line(char **argv, struct command_line *line)
{
	while (*argv && **argv == '-' && strcmp(*argv, "--") != 0 && strcmp(*argv, "-") != 0) {
		if (read_option(&argv, &line->items[line->count]) < 0)
			return -1;
		line->count++;
	}
	if (*argv && strcmp(*argv, "--") == 0)
		argv++;
	line->program = argv;
	return 0;
}

/* ---- from a command line to a job */

static int read_job(const char *path, tfc_job **ret_job)
{
	tfc_error error = TFC_ERROR_INIT;
	char *text = NULL;
	size_t capacity = 0;
	FILE *file = fopen(path, "re");
	ssize_t len = file ? getdelim(&text, &capacity, '\0', file) : -1; /* JSON has no NUL */
	int result = -1;
	if (len < 0 && !(file && feof(file)))
		complain("%s: %s", path, strerror(errno));
	else if (tfc_job_parse(text, len > 0 ? (size_t)len : 0, path, &error, ret_job) < 0)
		complain("%s", error.text);
	else
		result = 0;
	free(text);
	if (file)
		fclose(file);
	return result;
}

static int set(struct options *options, const char *path, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_set(options->job, path, value, &error) < 0)
		return complain("%s", error.text);
	return 0;
}

/* The roles that the command line means without naming them. */
static int add_roles(struct options *options, const struct command_line *line)
{
	static const char *const served[] = {"chief", "worker", "ps"};
	bool has_driver = value_of(line, "driver"), has_worker = value_of(line, "worker");
	bool has_chief = value_of(line, "chief"), has_ps = value_of(line, "ps");
	if (value_of(line, "job"))
		return 0;
	if (has_ps && !has_chief && !has_driver && set(options, "roles.chief", "{}") < 0)
		return -1;
	if (!has_chief && !has_worker && !has_ps && set(options, "roles.worker", "{}") < 0)
		return -1;
	for (size_t i = 0; has_driver && i < 3; i++) {
		char path[32];
		bool is_there = value_of(line, served[i]) ||
				(i == 1 && !has_chief && !has_ps); /* the worker just added */
		snprintf(path, sizeof(path), "roles.%s.server", served[i]);
		if (is_there && set(options, path, "true") < 0)
			return -1;
	}
	return 0;
}

static int set_program(struct options *options, char **program)
{
	if (!*program)
		return 0;
	if (set(options, "argv", "[]") < 0)
		return -1;
	for (; *program; program++)
		if (set(options, "argv[]", *program) < 0)
			return -1;
	return 0;
}

/* Relative paths are meant as seen from here. */
static int resolve_paths(struct options *options)
{
	tfc_error error = TFC_ERROR_INIT;
	char *here = getcwd(NULL, 0);
	const char *log_dir = options->log_dir;
	int result = -1;
	if (!here)
		complain("the current directory: %s", strerror(errno));
	else if (tfc_job_resolve(options->job, here, &error) < 0)
		complain("%s", error.text);
	else if (log_dir && *log_dir != '/' &&
		 asprintf(&options->own_log_dir, "%s/%s", here, log_dir) < 0)
		complain("out of memory");
	else
		result = 0;
	if (options->own_log_dir)
		options->log_dir = options->own_log_dir;
	free(here);
	return result;
}

/* Makes the job. */
static int apply(struct options *options, const struct command_line *line)
{
	tfc_error error = TFC_ERROR_INIT;
	const char *file = value_of(line, "job");
	if (file ? read_job(file, &options->job) < 0 : tfc_job_new(&options->job) < 0)
		return file ? -1 : complain("out of memory");
	for (const struct given *given = line->items; given < line->items + line->count; given++)
		if (given->option->set &&
		    given->option->set(options, given->option, given->value) < 0)
			return -1;
	if (add_roles(options, line) < 0 || set_program(options, line->program) < 0)
		return -1;
	if (!file && !*line->program)
		return complain("a program is missing: "
				"tfc_run local [OPTIONS] [--] PROGRAM [ARG...]");
	if (tfc_job_validate(options->job, &error) < 0)
		return complain("%s", error.text);
	return resolve_paths(options);
}

enum options_result options_parse(int argc, char **argv, struct options *ret_options)
{
	struct command_line line = {.items = calloc((size_t)argc, sizeof(struct given))};
	enum options_result result = OPTIONS_BAD;
	*ret_options = (struct options){0};
	if (!line.items) {
		complain("out of memory");
	} else if (read_command_line(argv + 1, &line) == 0 && value_of(&line, "help")) {
		print_help();
		result = OPTIONS_HELP;
	} else if (line.program && apply(ret_options, &line) == 0) {
		result = OPTIONS_OK;
	}
	free(line.items);
	return result;
}

void options_fini(struct options *options)
{
	tfc_job_free(options->job);
	free(options->own_log_dir);
}
