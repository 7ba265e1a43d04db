/*
 * tfc_run: runs TensorFlow clusters from the command line. This file is the table of commands.
 */
#include "tfc_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int help_main(int argc, char **argv);

static int version_main(int argc, char **argv)
{
	print_version();
	return 0;
}

/* The first word of a command line; --help lists the commands that have a help text. */
static const struct command {
	const char *name;
	const char *help;
	int (*main)(int argc, char **argv);
} commands[] = {
	{"local", "run a job on this machine, in this process; no daemon", local_main},
	{"start", "submit a job to a node and follow it", start_main},
	{"attach", "replay a job's output so far and follow it", attach_main},
	{"ps", "list jobs", ps_main},
	{"describe", "show a job and its tasks", describe_main},
	{"logs", "print the output of a job", logs_main},
	{"spec", "print the cluster as a task's environment describes it", spec_main},
	{"stop", "stop a job", stop_main},
	{"rm", "remove a job that has ended, and its logs", rm_main},
	{"node", "be a node of a cluster: serve jobs until stopped", node_main},
	{"members", "print the nodes of the cluster", members_main},
	{"drain", "let a node take no new tasks, and move its tasks", drain_main},
	{"keygen", "make a key for a cluster", keygen_main},
	{"--help", NULL, help_main},
	{"-h", NULL, help_main},
	{"--version", NULL, version_main},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static int help_main(int argc, char **argv)
{
	puts("usage: tfc_run COMMAND [OPTIONS] [--] [PROGRAM [ARG...]]\n\n"
	     "Runs TensorFlow clusters.\n\nCommands:");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (commands[i].help)
			printf("  %-20s %s\n", commands[i].name, commands[i].help);
	puts("\n  tfc_run COMMAND --help   the options of a command\n"
	     "  tfc_run --version        the version");
	return 0;
}

static int unknown(const char *word)
{
	const char *near = nearest(word, &commands[0].name, COMMAND_COUNT, sizeof(commands[0]));
	bool is_option = *word == '-';
	if (near)
		complain("unknown %s \"%s\"; did you mean %s?", is_option ? "option" : "command",
			 word, near);
	else if (is_option) /* all other options belong to a command */
		complain("\"%s\" is not a command; write a command first, as in \"tfc_run local "
			 "%s\"",
			 word, word);
	else
		complain("unknown command \"%s\"; \"tfc_run --help\" lists all commands", word);
	return RUN_FAILED;
}

/* If stdin, stdout or stderr is closed, a descriptor that the library opens must not get its
 * number. */
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
	open_standard_streams();
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (argc > 1 && strcmp(argv[1], commands[i].name) == 0)
			return commands[i].main(argc - 1, argv + 1);
	if (argc > 1 && *argv[1])
		return unknown(argv[1]);
	complain("command missing; \"tfc_run --help\" lists all commands");
	return RUN_FAILED;
}
