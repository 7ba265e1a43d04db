/*
 * `tfc_run completion`: prints the script with which a shell completes command lines of tfc_run.
 */
#include <string.h>

#include "bash_script.h"
#include "client.h"
#include "fish_script.h"
#include "zsh_script.h"

static const struct {
	const char *name, *script;
} shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

static int print_script(const char *shell)
{
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (strcmp(shell, shells[i].name) == 0)
			return print_verbatim(shells[i].script);
	complain("unknown shell \"%s\"; there are scripts for bash, zsh and fish", shell);
	return RUN_FAILED;
}

int completion_main(int argc, char **argv)
{
	struct command_line line = {
		.command = "completion",
		.usage = "usage: tfc_run completion bash|zsh|fish\n\n"
			 "Prints a script with which the shell completes commands, options, "
			 "values, jobs, tasks\n"
			 "and nodes. The installed package has these scripts where the shells look "
			 "for them.\n"
			 "Otherwise, in a start file of the shell:\n\n"
			 "  bash  source <(tfc_run completion bash)\n"
			 "  zsh   source <(tfc_run completion zsh)\n"
			 "  fish  tfc_run completion fish | source",
		.operands = {"bash,zsh,fish"},
		.least = 1,
		.most = 1,
	};
	enum options_result result = options_parse(&line, argc, argv);
	int status = result == OPTIONS_OK     ? print_script(line.words[0])
		     : result == OPTIONS_HELP ? 0
					      : RUN_FAILED;
	options_end(&line);
	return status;
}
