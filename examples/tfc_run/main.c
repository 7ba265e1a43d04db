/*
 * tfc_run: runs TensorFlow clusters from the command line. This file is the table of commands.
 */
#include "tfc_run.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "candidates.h"
#include "gateway_options.h"

static int help_main(int argc, char **argv);
static int unknown(const char *word);
static int complete_main(int argc, char **argv);

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
	{"allocation", "run a job on all hosts of an allocation of Slurm, MPI or Kubernetes",
	 allocation_main},
	{"start", "submit a job to a node and follow it", start_main},
	{"attach", "replay a job's output so far and follow it", attach_main},
	{"ps", "list jobs", ps_main},
	{"describe", "show a job and its tasks", describe_main},
	{"logs", "print the output of a job", logs_main},
	{"spec", "print the cluster as a task's environment describes it", spec_main},
	{"signal", "send a signal to a task of a job", signal_main},
	{"stacks", "print the Python stacks of a task to its log", stacks_main},
	{"stop", "stop a job", stop_main},
	{"rm", "remove a job that has ended, and its logs", rm_main},
	{"node", "be a node of a cluster: serve jobs until stopped", node_main},
	{"members", "print the nodes of the cluster", members_main},
	{"drain", "let a node take no new tasks, and move its tasks", drain_main},
	{"keygen", "make a key for a cluster", keygen_main},
	{"completion", "print a script that completes commands, options and jobs in a shell",
	 completion_main},
	{"help", NULL, help_main},
	{"--help", NULL, help_main},
	{"-h", NULL, help_main},
	{"--version", NULL, version_main},
	{"--complete", NULL, complete_main},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(name, commands[i].name) == 0)
			return &commands[i];
	return NULL;
}

static int help_main(int argc, char **argv)
{
	if (argc > 1) {
		const struct command *command = find_command(argv[1]);
		char *help[] = {argv[1], (char *)"--help", NULL};
		return command && command->help ? command->main(2, help) : unknown(argv[1]);
	}
	puts("usage: tfc_run [--context CONTEXT] COMMAND [OPTIONS] [--] [PROGRAM [ARG...]]\n\n"
	     "Runs TensorFlow clusters.\n\nCommands:");
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (commands[i].help)
			printf("  %-20s %s\n", commands[i].name, commands[i].help);
	puts("\n  tfc_run COMMAND --help   the options of a command\n"
	     "  tfc_run --version        the version");
	return 0;
}

/* What may precede the command: gateway options, which then count as the command's. */
static struct command_line front_line(void)
{
	return (struct command_line){.tables = {GATEWAY_OPTION_TABLE(NULL)}};
}

/* How many of `words` are such options and their values. */
static int count_front(char **words)
{
	struct command_line front = front_line();
	int count = 0;
	while (words[count]) {
		size_t len = strcspn(words[count], "=");
		const struct option *option = options_find(&front, words[count], len, NULL);
		if (!option || !option->value)
			break;
		count += words[count][len] || !words[count + 1] ? 1 : 2;
	}
	return count;
}

/* Prints the candidates for the last word of a command line. */
static int complete_main(int argc, char **argv)
{
	struct command_line front = front_line();
	int count = count_front(argv + 1);
	char *word = argc > 1 ? argv[1 + count] : (char *)"";
	bool is_command = argc > 2 + count;
	const struct command *command = is_command ? find_command(word) : NULL;
	if (command && command->help) {
		memmove(argv + 2, argv + 1, (size_t)count * sizeof(*argv));
		argv[0] = word;
		argv[1] = (char *)"--complete";
		return command->main(argc, argv);
	}
	if (!word || *word == '-')
		candidates_print(&front, argv + 1);
	for (size_t i = 0; word && !is_command && i < COMMAND_COUNT; i++)
		if (commands[i].help)
			candidate_print(word, commands[i].name, commands[i].help);
	return 0;
}

/* What other programs call it. */
static const struct {
	const char *word, *name;
} aliases[] = {
	{"-V", "--version"},      {"-v", "--version"},
	{"version", "--version"}, {"cancel", "stop"},
	{"list", "ps"},           {"ls", "ps"},
	{"jobs", "ps"},           {"status", "ps"},
	{"submit", "start"},      {"run", "local"},
	{"delete", "rm"},         {"remove", "rm"},
	{"nodes", "members"},     {"kill", "stop (a job) or signal (a task)"},
};

static const char *nearest_command(const char *word)
{
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (strcmp(word, aliases[i].word) == 0)
			return aliases[i].name;
	return nearest(word, &commands[0].name, COMMAND_COUNT, sizeof(commands[0]));
}

static int unknown(const char *word)
{
	const char *near = nearest_command(word);
	bool is_option = *word == '-';
	const char *near_option = nearest(word + strspn(word, "-"), &gateway_options[0].name,
					  gateway_option_count, sizeof(gateway_options[0]));
	if (is_option && !near && near_option)
		complain("unknown option \"%s\"; did you mean --%s?", word, near_option);
	else if (near)
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
	int count = argc > 1 ? count_front(argv + 1) : 0;
	char *word = argc > 1 + count ? argv[1 + count] : (char *)"";
	const struct command *command = find_command(word);
	if (command) {
		memmove(argv + 2, argv + 1, (size_t)count * sizeof(*argv));
		argv[1] = word;
		return command->main(argc - 1, argv + 1);
	}
	if (*word)
		return unknown(word);
	complain("command missing; \"tfc_run --help\" lists all commands");
	return RUN_FAILED;
}
