#include "options.h"

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
	const char *path;  /* the job's key that it sets, by set_key */
	const char *fixed; /* what is set when it takes no value */
	size_t at;         /* the field that set_text or set_flag sets */
	int (*set)(struct options *options, const struct option *option, const char *value);
};

/* Complains about an option's value. */
static int bad_value(const struct option *option, const char *value, const char *why)
{
	complain("--%s%s%s: %s", option->name, *value ? " " : "", value, why);
	return -1;
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
	if (strchr(value, '='))
		return set_key(options, option, value);
	if (!inherited && *value)
		return 0;
	if (asprintf(&pair, "%s=%s", value, inherited ? inherited : "") < 0)
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
	for (int i = 0; i < 3; i++) {
		if (strcmp(value, names[i]) == 0) {
			options->color = (enum color)i;
			return 0;
		}
	}
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

#define AT(field) NULL, NULL, offsetof(struct options, field)

static const struct option table[] = {
	{NULL, NULL, "Job options"},
	{"job", "FILE", "a job file; the options beside it override it"},
	{"name", "S", "the job's name", "name"},
	{"chief", NULL, "a chief", "roles.chief", "{}"},
	{"worker", "N", "N workers (1 when no role is given)", "roles.worker.count"},
	{"ps", "N", "N parameter servers; adds a chief unless there is a driver", "roles.ps.count"},
	{"evaluator", NULL, "an evaluator", "roles.evaluator", "{}"},
	{"tensorboard", "DIR", "a TensorBoard on DIR", "roles.tensorboard.log_dir"},
	{"driver", NULL, "the program is a driver; the roles run TensorFlow's server",
	 "roles.driver", "{}"},
	{"strategy", "S", "auto, multi_worker_mirrored, parameter_server or none", "strategy"},
	{"framework", "F", "tensorflow or none", "framework"},
	{"env", "K[=V]", "set a variable, or hand on its value here", "env[]", .set = set_env},
	{"secret-env", "K", "hand on a variable that is never shown", "secret_env[]",
	 .set = set_secret},
	{"cwd", "DIR", "working directory of the tasks (the current one)", "cwd"},
	{"bundle", "PATH", "a directory, file or zip that each task gets as its directory",
	 "bundle"},
	{"python", "PATH", "Python that runs TensorFlow's server and TensorBoard (python3)",
	 "python"},
	{"restart", "N", "restarts within the window (3)", "restart.max"},
	{"restart-window", "S", "the window, in seconds (600)", "restart.window_s"},
	{"restart-on", "WHAT", "retryable, failure or never", "restart.on"},
	{"scope", "S", "what restarts: auto, task, group or coordinator", "restart.scope"},
	{"grace", "S", "seconds between TERM and KILL (10)", "grace_s"},
	{"start-deadline", "S", "seconds until all tasks are ready (600; 0: none)",
	 "start_deadline_s"},
	{"deadline", "S", "seconds until the job ends (0: none)", "deadline_s"},
	{NULL, NULL, "Run options"},
	{"ports", "LO-HI", "ports to take (20000-29999)", .set = set_ports},
	{"host", "ADDR", "address that the tasks tell each other (127.0.0.1)", AT(host), set_text},
	{"log-dir", "DIR", "keep the tasks' logs in DIR", AT(log_dir), set_text},
	{"timestamps", NULL, "put the time in front of each line", AT(has_timestamps), set_flag},
	{"no-prefix", NULL, "do not put the task in front of each line", AT(has_no_prefix),
	 set_flag},
	{"color", "WHEN", "auto, always or never", .set = set_color},
	{"quiet", NULL, "say nothing but the tasks' lines and errors", AT(is_quiet), set_flag},
	{"json", NULL, "print one JSON object for each event on stdout", AT(is_json), set_flag},
	{"help", NULL, "print this"},
};

/* Names that users of later versions know: a better sentence than "unknown". */
static const char *const later[] = {"explain", "gpus",   "label", "placement",
				    "preload", "spares", "stall", "upstream"};

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
	for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		if (strcmp(name, later[i]) == 0) {
			complain("--%s is not in this version", name);
			return -1;
		}
	}
	const char *near = nearest(name, &table[0].name, OPTION_COUNT, sizeof(table[0]));
	if (near)
		complain("unknown option '%.*s'; did you mean --%s?", len, word, near);
	else
		complain("unknown option '%.*s'; `tfc_run local --help` lists them", len, word);
	return -1;
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
	if (value && !option->value) {
		complain("--%s takes no value", option->name);
		return -1;
	}
	if (!value && option->value) {
		if (!**at) {
			complain("--%s needs a value: %s", option->name, option->value);
			return -1;
		}
		value = **at;
		*at += 1;
	}
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

static char *read_file(const char *path, size_t *ret_len)
{
	char *text = NULL;
	FILE *file = fopen(path, "re");
	FILE *copy = open_memstream(&text, ret_len);
	bool is_read = file && copy;
	char chunk[4096];
	for (size_t n; is_read && (n = fread(chunk, 1, sizeof(chunk), file)) > 0;)
		fwrite(chunk, 1, n, copy);
	if (is_read && ferror(file))
		is_read = false;
	int saved = errno;
	if (file)
		fclose(file);
	if (copy && fclose(copy) != 0)
		is_read = false;
	if (!is_read) {
		free(text);
		errno = saved;
		return NULL;
	}
	return text;
}

static int open_job(const char *path, tfc_job **ret_job)
{
	tfc_error error = TFC_ERROR_INIT;
	size_t len;
	if (!path && tfc_job_new(ret_job) == TFC_OK)
		return 0;
	char *text = path ? read_file(path, &len) : NULL;
	if (!text) {
		complain("%s: %s", path ? path : "job", strerror(path ? errno : ENOMEM));
		return -1;
	}
	int result = tfc_job_parse(text, len, path, &error, ret_job);
	free(text);
	if (result < 0)
		complain("%s", error.text);
	return result < 0 ? -1 : 0;
}

static int set(struct options *options, const char *path, const char *value)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc_job_set(options->job, path, value, &error) == TFC_OK)
		return 0;
	complain("%s", error.text);
	return -1;
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

static int apply(struct options *options, const struct command_line *line)
{
	tfc_error error = TFC_ERROR_INIT;
	if (open_job(value_of(line, "job"), &options->job) < 0)
		return -1;
	for (size_t i = 0; i < line->count; i++) {
		const struct given *given = &line->items[i];
		const struct option *option = given->option;
		int (*set_it)(struct options *, const struct option *,
			      const char *) = option->set    ? option->set
					      : option->path ? set_key
							     : NULL;
		if (set_it && set_it(options, option, given->value) < 0)
			return -1;
	}
	if (add_roles(options, line) < 0 || set_program(options, line->program) < 0)
		return -1;
	if (!value_of(line, "job") && !*line->program) {
		complain("a program is missing: tfc_run local [OPTIONS] [--] PROGRAM [ARG...]");
		return -1;
	}
	if (tfc_job_validate(options->job, &error) < 0) {
		complain("%s", error.text);
		return -1;
	}
	return resolve_paths(options);
}

enum options_result options_parse(int argc, char **argv, struct options *ret_options)
{
	struct command_line line = {.items = calloc((size_t)argc, sizeof(struct given))};
	enum options_result result = OPTIONS_BAD;
	*ret_options = (struct options){0};
	if (!line.items) {
		complain("out of memory");
	} else if (read_command_line(argv + 1, &line) == 0) {
		if (value_of(&line, "help")) {
			print_help();
			result = OPTIONS_HELP;
		} else if (apply(ret_options, &line) == 0) {
			result = OPTIONS_OK;
		}
	}
	if (result != OPTIONS_OK)
		options_fini(ret_options);
	free(line.items);
	return result;
}

void options_fini(struct options *options)
{
	tfc_job_free(options->job);
	free(options->own_log_dir);
	options->job = NULL;
	options->own_log_dir = NULL;
}
