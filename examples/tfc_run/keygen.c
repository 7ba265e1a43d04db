/*
 * `tfc_run keygen`: creates a key for the members and clients of a cluster.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tfcluster/key.h>

#include "client.h"
#include "options.h"
#include "table.h"
#include "tfc_run.h"

/* Returns the exit status. */
static int report_key(const char *path, const char *role)
{
	struct text text = {.data = NULL};
	char id[17];
	FILE *file = fopen(path, "re");
	if (file && fscanf(file, "tfcluster-key 1 %*s %16s", id) == 1)
		text_add_line(&text, "%s key %s written to \"%s\"", role, id, path);
	if (file)
		fclose(file);
	int status = text.data ? print_text(text.data) : 0;
	free(text.data);
	return status;
}

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
	int status = result == OPTIONS_HELP ? 0 : RUN_FAILED;
	role = role ? role : "node";
	if (result == OPTIONS_OK && tfc_key_generate(line.words[0], role, &error) < 0)
		complain("%s", error.text);
	else if (result == OPTIONS_OK)
		status = report_key(line.words[0], role);
	options_end(&line);
	return status;
}
