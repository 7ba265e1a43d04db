#include "options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tfcluster/version.h>

#include "candidates.h"
#include "tfc_run.h"

/* ---- options of every command */

static const struct option common[] = {
	{"help", NULL, "print this", .letter = 'h'},
	{"version", NULL, "print the version"},
};

#define COMMON_COUNT (sizeof(common) / sizeof(common[0]))

void print_version(void)
{
	unsigned version = tfc_version();
	printf("tfc_run %u.%u.%u\n", version >> 16, version >> 8 & 0xff, version & 0xff);
}

#define LEFT 22  /* width of the column with an option and its value */
#define RIGHT 75 /* width of the column with its help */

static void print_option(const struct option *option)
{
	const char *help = option->help;
	char left[40];
	if (!option->name) {
		printf("\n%s:\n", option->help);
		return;
	}
	if (option->letter)
		snprintf(left, sizeof(left), "-%c, --%s %s", option->letter, option->name,
			 option->value ? option->value : "");
	else
		snprintf(left, sizeof(left), "--%s %s", option->name,
			 option->value ? option->value : "");
	printf("  %-*s ", LEFT, left);
	while (strlen(help) > RIGHT) {
		int len = RIGHT;
		while (help[len] != ' ')
			len--;
		printf("%.*s\n%*s", len, help, LEFT + 3, "");
		help += len + 1;
	}
	puts(help);
}

static void print_help(const struct command_line *line)
{
	puts(line->usage);
	if (!line->tables[0].count || line->tables[0].options[0].name)
		puts("\nOptions:");
	for (const struct option_table *table = line->tables; table->count; table++)
		for (size_t i = 0; i < table->count; i++)
			if (table->options[i].help)
				print_option(&table->options[i]);
	printf("  %-*s %s\n  %-*s %s\n", LEFT, "--help", common[0].help, LEFT, "--version",
	       common[1].help);
	if (line->footer)
		printf("\n%s\n", line->footer);
}

/* ---- finding an option */

static bool is_called(const struct option *option, const char *word, size_t len)
{
	if (!option->name)
		return false;
	if (len == 2 && word[1] != '-')
		return option->letter && option->letter == word[1];
	return len > 2 && strlen(option->name) == len - 2 && strncmp(word, "--", 2) == 0 &&
	       strncmp(option->name, word + 2, len - 2) == 0;
}

const struct option *options_at(const struct command_line *line, size_t index, void **ret_target)
{
	const struct option_table *table = line->tables;
	for (; table->count && index >= table->count; table++)
		index -= table->count;
	if (ret_target)
		*ret_target = table->count ? table->target : NULL;
	if (table->count)
		return &table->options[index];
	return index < COMMON_COUNT ? &common[index] : NULL;
}

const struct option *options_find(const struct command_line *line, const char *word, size_t len,
				  void **ret_target)
{
	const struct option *option;
	for (size_t i = 0; (option = options_at(line, i, ret_target)); i++)
		if (is_called(option, word, len))
			break;
	return option;
}

/* Options of other commands and programs, and what to write instead. */
static const struct {
	const char *command, *option, *instead;
} elsewhere[] = {
	{"local", "detach", "\"tfc_run start --detach\" runs a job on a node, in the background"},
	{"local", "role", "a job file (--job) has roles with programs of their own"},
	{"start", "role", "a job file (--job) has roles with programs of their own"},
	{"stop", "all", "\"tfc_run stop $(tfc_run ps -q)\" stops all jobs"},
};

static int unknown_option(const struct command_line *line, const char *word, int len)
{
	char name[64];
	int dashes = (int)strspn(word, "-");
	snprintf(name, sizeof(name), "%.*s", len - dashes, word + dashes);
	const char *names[128];
	const struct option *option;
	size_t count = 0;
	for (; count < 128 && (option = options_at(line, count, NULL)); count++)
		names[count] = option->help ? option->name : NULL;
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (strcmp(line->command, elsewhere[i].command) == 0 &&
		    strcmp(name, elsewhere[i].option) == 0)
			return complain("unknown option \"%.*s\"; %s", len, word,
					elsewhere[i].instead);
	const char *near = nearest(name, names, count, sizeof(names[0]));
	if (near)
		return complain("unknown option \"%.*s\"; did you mean --%s?", len, word, near);
	return complain("unknown option \"%.*s\"; \"tfc_run %s --help\" lists all options", len,
			word, line->command);
}

/* ---- reading */

/* Whether a word can only be meant as an option, and not as the value of the option before it. */
static bool is_plainly_option(const struct command_line *line, const char *word)
{
	void *target;
	return strncmp(word, "--", 2) == 0 &&
	       (!word[2] || options_find(line, word, strcspn(word, "="), &target));
}

/* Reads the option at *at and its value, and advances *at. */
static int read_option(const struct command_line *line, char ***at, struct given *ret_given)
{
	const char *word = **at;
	size_t len = strcspn(word, "=");
	void *target;
	const struct option *option = options_find(line, word, len, &target);
	const char *value = word[len] ? word + len + 1 : NULL;
	*at += 1;
	if (!option)
		return unknown_option(line, word, (int)len);
	if (!option->help)
		return complain("--%s is not supported by this version", option->name);
	if (value && !option->value)
		return complain("--%s takes no value", option->name);
	if (!value && option->value && *option->value == '[')
		value = **at && ***at != '-' ? *(*at)++ : "";
	if (!value && option->value && **at && !is_plainly_option(line, **at))
		value = *(*at)++;
	if (!value && option->value)
		return complain("--%s needs a value: %s", option->name, option->value);
	*ret_given = (struct given){option, target, value ? value : ""};
	return 0;
}

/* Flags of one letter may share a dash: "-aq". */
static bool are_joined_flags(const struct command_line *line, const char *word)
{
	void *target;
	size_t i = 1;
	for (; word[1] != '-' && word[i]; i++) {
		const struct option *option = options_find(line, (const char[]){'-', word[i], 0}, 2,
							   &target);
		if (!option || option->value)
			return false;
	}
	return i > 2;
}

static void read_joined_flags(struct command_line *line, const char *word)
{
	for (size_t i = 1; word[i]; i++) {
		struct given *given = &line->items[line->count++];
		given->option = options_find(line, (const char[]){'-', word[i], 0}, 2,
					     &given->target);
		given->value = "";
	}
}

/* The program begins at the first word that is no option. */
static int read_all(struct command_line *line, char **argv)
{
	bool are_options_over = false;
	while (*argv) {
		bool is_option = **argv == '-' && strcmp(*argv, "-") != 0 && !are_options_over;
		if (is_option && strcmp(*argv, "--") == 0) {
			line->is_separated = line->is_separated || !line->word_count;
			are_options_over = true;
			argv++;
		} else if (is_option && are_joined_flags(line, *argv)) {
			read_joined_flags(line, *argv++);
		} else if (is_option) {
			if (read_option(line, &argv, &line->items[line->count]) < 0)
				return -1;
			line->count++;
		} else {
			are_options_over = are_options_over || line->has_program;
			line->words[line->word_count++] = *argv++;
		}
	}
	return 0;
}

/* "JOB" or "ENDED-JOB" is a job. */
static int complain_missing(const struct command_line *line, const char *operand)
{
	const char *dash = strrchr(operand, '-');
	char name[32];
	size_t len = (size_t)snprintf(name, sizeof(name), "%s", dash ? dash + 1 : operand);
	for (size_t i = 0; i < len; i++)
		name[i] = (char)tolower((unsigned char)name[i]);
	return complain("%s missing; %.*s", name, (int)strcspn(line->usage, "\n"), line->usage);
}

static int check_word_count(const struct command_line *line)
{
	if (line->has_program)
		return 0;
	if (line->word_count > line->most)
		return complain("unexpected argument \"%s\"; \"tfc_run %s --help\" shows the usage",
				line->words[line->most], line->command);
	if (line->word_count < line->least)
		return complain_missing(line, line->operands[line->word_count]);
	return 0;
}

enum options_result options_read(struct command_line *line, int argc, char **argv)
{
	size_t items = 0;
	for (int i = 0; i < argc; i++)
		items += strlen(argv[i]) + 1; /* "-aq" is two */
	line->items = calloc(items, sizeof(*line->items));
	line->words = calloc((size_t)argc + 1, sizeof(*line->words));
	if (!line->items || !line->words) {
		complain("out of memory");
		return OPTIONS_BAD;
	}
	if (argc > 1 && strcmp(argv[1], "--complete") == 0) {
		candidates_print(line, argv + 2);
		return OPTIONS_HELP;
	}
	int result = read_all(line, argv + 1);
	if (result == 0 && options_value(line, "help")) {
		print_help(line);
		return OPTIONS_HELP;
	}
	if (result == 0 && options_value(line, "version")) {
		print_version();
		return OPTIONS_HELP;
	}
	return result == 0 && check_word_count(line) == 0 ? OPTIONS_OK : OPTIONS_BAD;
}

int options_set(const struct command_line *line)
{
	for (const struct given *given = line->items; given < line->items + line->count; given++)
		if (given->option->set &&
		    given->option->set(given->target, given->option, given->value) < 0)
			return -1;
	return 0;
}

enum options_result options_parse(struct command_line *line, int argc, char **argv)
{
	enum options_result result = options_read(line, argc, argv);
	return result == OPTIONS_OK && options_set(line) < 0 ? OPTIONS_BAD : result;
}

void options_end(struct command_line *line)
{
	free(line->items);
	free(line->words);
}

const char *options_value(const struct command_line *line, const char *name)
{
	for (size_t i = line->count; i-- > 0;)
		if (strcmp(line->items[i].option->name, name) == 0)
			return line->items[i].value;
	return NULL;
}
