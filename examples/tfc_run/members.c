/*
 * `tfc_run members`: the nodes of the cluster, as known to the node that is queried.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "options.h"
#include "table.h"

static const char *text_of(const json_t *member, const char *key)
{
	const char *text = json_string_value(json_object_get(member, key));
	return text ? text : "-";
}

/* The amount of one resource that a node offers; `none` if it sets no limit. */
static void add_number(struct table *table, const json_t *member, const char *key, const char *none)
{
	long long number = json_integer_value(json_object_get(member, key));
	if (number)
		table_add(table, "%lld", number);
	else
		table_add(table, "%s", none);
}

static void add_labels(struct table *table, const json_t *member)
{
	struct text text = {.data = NULL};
	const char *key;
	json_t *value;
	json_object_foreach(json_object_get(member, "labels"), key, value)
		text_add(&text, "%s%s=%s", text.len ? "," : "", key, json_string_value(value));
	table_add(table, "%s", text.data ? text.data : "-");
	free(text.data);
}

static void add_member(struct table *table, const json_t *member)
{
	bool is_draining = json_is_true(json_object_get(member, "draining"));
	table_add(table, "%s", text_of(member, "name"));
	table_add(table, "%s%s", text_of(member, "state"), is_draining ? ",draining" : "");
	table_add(table, "%s", text_of(member, "address"));
	add_number(table, member, "slots", "any");
	add_number(table, member, "memory", "any");
	add_number(table, member, "gpus", "0");
	add_labels(table, member);
}

static int print_members(const char *list)
{
	static const char *const heads[] = {"NAME",   "STATE", "ADDRESS", "SLOTS",
					    "MEMORY", "GPUS",  "LABELS",  NULL};
	struct table table;
	size_t i;
	json_t *member, *members = client_json(list, true);
	table_begin(&table, heads);
	json_array_foreach(members, i, member) add_member(&table, member);
	char *text = table_end(&table);
	int status = print_text(text);
	free(text);
	json_decref(members);
	return status;
}

static int show(struct client *client, bool is_json)
{
	struct answer answer = {.text = NULL};
	int status = RUN_FAILED;
	int begun = tfc_gateway_members(client->gateway, NULL, client_answer, &answer, NULL);
	if (client_await(client, begun, &answer) == 0)
		status = (is_json ? print_line : print_members)(answer.text);
	free(answer.text);
	return status;
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
		status = show(&client, is_json);
	client_end(&client);
	options_end(&line);
	return status;
}
