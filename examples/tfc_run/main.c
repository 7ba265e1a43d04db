/*
 * tfc_run: runs TensorFlow clusters from the command line. This file is the table of commands.
 */
#include "tfc_run.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tfcluster/version.h>
#include <unistd.h>

struct command {
	const char *name;
	const char *help;
	int (*main)(int argc, char **argv);
};

static const struct command commands[] = {
	{"local", "run a job on this machine, in this process; no daemon", local_main},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

void complain(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("tfc_run: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* How many letters must be changed, added or dropped to make `b` of `a`. */
static size_t distance(const char *a, const char *b)
{
	size_t row[64];
	size_t b_len = strlen(b);
	if (b_len >= 64)
		return 64;
	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t change = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			row[j] = least(change, least(row[j], row[j - 1]) + 1);
		}
	}
	return row[b_len];
}

const char *nearest(const char *word, const char *const *names, size_t count, size_t stride)
{
	size_t best = strlen(word) / 3 + 2; /* further away is no help */
	const char *found = NULL;
	for (size_t i = 0; i < count; i++) {
		const char *name = *(const char *const *)((const char *)names + i * stride);
		size_t edits = name ? distance(word, name) : best;
		if (edits < best && edits < strlen(name)) {
			best = edits;
			found = name;
		}
	}
	return found;
}

static void print_help(void)
{
	puts("usage: tfc_run COMMAND [OPTIONS] [--] [PROGRAM [ARG...]]\n\n"
	     "Runs TensorFlow clusters.\n\nCommands:");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		printf("  %-20s %s\n", commands[i].name, commands[i].help);
	puts("\n  tfc_run COMMAND --help   the options of a command\n"
	     "  tfc_run --version        the version");
}

static int print_version(void)
{
	unsigned version = tfc_version();
	printf("tfc_run %u.%u.%u\n", version >> 16, version >> 8 & 0xff, version & 0xff);
	return 0;
}

/* Options of `tfc_run` itself; all others belong to a command. */
static int unknown_option(const char *word)
{
	static const char *const names[] = {"--help", "--version"};
	const char *near = nearest(word, names, 2, sizeof(names[0]));
	if (near)
		complain("unknown option '%s'; did you mean %s?", word, near);
	else
		complain("'%s' is no command: one comes first, as in `tfc_run local %s`", word,
			 word);
	return RUN_FAILED;
}

static int unknown_command(const char *word)
{
	const char *near = nearest(word, &commands[0].name, COMMAND_COUNT, sizeof(commands[0]));
	if (near)
		complain("unknown command '%s'; did you mean %s?", word, near);
	else
		complain("unknown command '%s'; `tfc_run --help` lists what this version has",
			 word);
	return RUN_FAILED;
}

/* A descriptor that the library opens must not end up as a closed stdin, stdout or stderr. */
static void open_standard_streams(void)
{
	while (true) {
		int fd = open("/dev/null", O_RDWR);
		if (fd > STDERR_FILENO)
			close(fd);
		if (fd < 0 || fd > STDERR_FILENO)
			return;
	}
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	open_standard_streams();
	if (strcmp(word, "--version") == 0)
		return print_version();
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
		print_help();
		return 0;
	}
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(word, commands[i].name) == 0)
			return commands[i].main(argc - 1, argv + 1);
	if (*word)
		return *word == '-' ? unknown_option(word) : unknown_command(word);
	complain("a command is missing; `tfc_run --help` lists them");
	return RUN_FAILED;
}
