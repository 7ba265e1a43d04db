/*
 * `tfc_run keygen`: creates a key for the members and clients of a cluster.
 */
#include <stdio.h>
#include <tfcluster/key.h>

#include "options.h"
#include "tfc_run.h"

int keygen_main(int argc, char **argv)
{
	const char *role = NULL;
	static const struct option table[] = {
		{"role", "ROLE",
		 "node (everything), submit (jobs) or read (only read); default node", set_text,
		 .values = "node,submit,read"},
	};
	struct command_line line = {
		.command = "keygen",
		.usage =
			"usage: tfc_run keygen FILE [--role node|submit|read]\n\n"
			"Makes a key in a new file that only you can read. Every node of a "
			"cluster\n"
			"needs the same node key; `cat` several keys into one file to accept each.",
		.tables = {OPTION_TABLE(table, &role)},
		.operands = {"FILE"},
		.least = 1,
		.most = 1,
	};
	tfc_error error = TFC_ERROR_INIT;
	enum options_result result = options_parse(&line, argc, argv);
	if (result == OPTIONS_OK &&
	    tfc_key_generate(line.words[0], role ? role : "node", &error) < 0) {
		complain("%s", error.text);
		result = OPTIONS_BAD;
	}
	options_end(&line);
	return result == OPTIONS_BAD ? RUN_FAILED : 0;
}
