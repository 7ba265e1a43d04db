/*
 * `tfc_run drain`: a node takes no new tasks and its tasks move elsewhere; with --off, undrains it.
 */
#include <stdlib.h>

#include "client.h"
#include "options.h"

static int drain_node(struct client *client, const char *node, bool is_off)
{
	struct response response = {.text = NULL};
	int begun = (is_off ? tfc_gateway_undrain : tfc_gateway_drain)(client->gateway, node, NULL,
								       client_on_reply, &response,
								       NULL);
	int status = client_await(client, begun, &response) == 0 ? 0 : RUN_FAILED;
	free(response.text);
	return status;
}

int drain_main(int argc, char **argv)
{
	struct client client = {.ctx = NULL};
	bool is_off = false;
	static const struct option table[] = {
		{"off", NULL, "let the node take tasks again", set_flag},
	};
	struct command_line line = {
		.command = "drain",
		.usage = "usage: tfc_run drain [--gateway G] NODE [--off]\n\nThe node takes no new "
			 "tasks, and its tasks move to other nodes as their restart "
			 "policy\nallows. `tfc_run members` shows it as draining.",
		.tables = {OPTION_TABLE(table, &is_off), GATEWAY_OPTION_TABLE(&client.options)},
		.operands = {"NODE"},
		.least = 1,
		.most = 1,
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = drain_node(&client, line.words[0], is_off);
	client_end(&client);
	options_end(&line);
	return status;
}
