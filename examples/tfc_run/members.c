/*
 * `tfc_run members`: the nodes of the cluster, as known to the node that is queried.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "options.h"
#include "table.h"

/* The amount of one resource that a node offers; `none` if it sets no limit. */
static void add_number(struct table *table, uint64_t number, const char *none)
{
	if (number)
		table_add(table, "%llu", (unsigned long long)number);
	else
		table_add(table, "%s", none);
}

static void add_labels(struct table *table, const char *const *labels)
{
	struct text text = {.data = NULL};
	for (; labels && *labels; labels++)
		text_add(&text, "%s%s", text.len ? "," : "", *labels);
	table_add(table, "%s", text.data ? text.data : "-");
	free(text.data);
}

static int print_members(void *user, const tfc_reply *reply)
{
	static const char *const heads[] = {"NAME",   "STATE", "ADDRESS", "SLOTS",
					    "MEMORY", "GPUS",  "LABELS",  NULL};
	struct table table;
	const tfc_member_info *member;
	char memory[MEMORY_SIZE];
	table_begin(&table, heads);
	for (uint32_t i = 0; (member = tfc_members_at(reply->members, i)); i++) {
		table_add(&table, "%s", member->name);
		table_add(&table, "%s%s", tfc_member_state_name(member->state),
			  member->is_draining ? ",draining" : "");
		table_add(&table, "%s", member->address ? member->address : "-");
		add_number(&table, member->slots, "any");
		memory_text(member->memory_bytes, memory);
		table_add(&table, "%s", member->memory_bytes ? memory : "any");
		add_number(&table, member->gpus, "0");
		add_labels(&table, member->labels);
	}
	char *text = table_end(&table);
	int status = print_text(text);
	free(text);
	return status;
}

static int print_members_json(void *user, const tfc_reply *reply)
{
	return print_line(reply->text);
}

static int show_members(struct client *client, bool is_json)
{
	struct response response = {.handle = is_json ? print_members_json : print_members};
	int begun = tfc_gateway_members(client->gateway, NULL, client_on_reply, &response, NULL);
	return client_await(client, begun, &response) < 0 ? RUN_FAILED : response.status;
}

int members_main(int argc, char **argv)
{
	struct client client = {.ctx = NULL};
	bool is_json = false;
	static const struct option table[] = {{"json", NULL, "print a JSON list", set_flag}};
	struct command_line line = {
		.command = "members",
		.usage = "usage: tfc_run members [--gateway G] [--json]\n\nPrints the nodes of the "
			 "cluster as the gateway's node knows them.",
		.tables = {OPTION_TABLE(table, &is_json), GATEWAY_OPTION_TABLE(&client.options)},
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = show_members(&client, is_json);
	client_end(&client);
	options_end(&line);
	return status;
}
