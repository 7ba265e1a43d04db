/*
 * `tfc_run members`: the nodes of the cluster, as known to the node that is queried.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* How long ago its last sign of life came, and the round-trip time to it. */
static void add_contact(struct table *table, const tfc_member_info *member)
{
	char text[DURATION_SIZE];
	duration_text(member->silent_ms, text);
	table_add(table, "%s", member->silent_ms ? text : "-");
	if (!member->rtt_us)
		table_add(table, "-");
	else if (member->rtt_us < 10000)
		table_add(table, "%.1fms", member->rtt_us / 1e3);
	else
		table_add(table, "%ums", member->rtt_us / 1000);
}

static void add_member(struct table *table, const tfc_member_info *member)
{
	char memory[MEMORY_SIZE];
	table_add(table, "%s", member->name);
	table_add(table, "%s%s", tfc_member_state_name(member->state),
		  member->is_draining && member->state != TFC_MEMBER_LEFT ? ",draining" : "");
	add_contact(table, member);
	table_add(table, "%s", member->address ? member->address : "-");
	add_number(table, member->slots, "any");
	memory_text(member->memory_bytes, memory);
	table_add(table, "%s", member->memory_bytes ? memory : "any");
	add_number(table, member->gpus, "0");
	add_labels(table, member->labels);
}

static void begin_members(struct table *table)
{
	static const char *const heads[] = {"NAME",  "STATE",  "SEEN", "RTT",    "ADDRESS",
					    "SLOTS", "MEMORY", "GPUS", "LABELS", NULL};
	table_begin(table, heads);
}

static int print_members(void *user, const tfc_reply *reply)
{
	struct table table;
	const tfc_member_info *member;
	begin_members(&table);
	for (uint32_t i = 0; (member = tfc_members_at(reply->members, i)); i++)
		add_member(&table, member);
	char *text = table_end(&table, stdout_columns());
	int status = print_text(text);
	free(text);
	return status;
}

static int print_members_json(void *user, const tfc_reply *reply)
{
	return print_line(reply->text);
}

/* ---- --watch: a terminal shows the table anew each second; else what has changed is printed */

#define WATCH_MS 1000
#define CLEAR_SCREEN "\033[H\033[J"

struct members_watch {
	json_t *last; /* each member by its name, without the times */
	bool is_json;
	bool is_terminal;
};

/* The member without what changes all the time. */
static json_t *lasting_part(const json_t *member)
{
	json_t *part = json_copy((json_t *)member);
	json_object_del(part, "silent_s");
	json_object_del(part, "rtt_us");
	return part;
}

/* Whether the member differs from when it was last printed. */
static bool has_changed(const struct members_watch *watch, const json_t *member)
{
	json_t *part = lasting_part(member);
	const char *name = json_string_value(json_object_get(member, "name"));
	bool is_new = !json_equal(part, json_object_get(watch->last, name ? name : ""));
	if (json_object_set_new(watch->last, name ? name : "", part) < 0)
		die_without_memory();
	return is_new;
}

static int print_change_json(const json_t *member)
{
	char *text = json_dumps(member, JSON_COMPACT);
	if (!text)
		die_without_memory();
	int status = print_line(text);
	free(text);
	return status;
}

/* Members that were listed and no longer are. */
static int print_removed(const struct members_watch *watch, const json_t *list)
{
	json_t *names = json_object(), *member;
	const char *name;
	void *next;
	size_t i;
	int status = 0;
	json_array_foreach(list, i, member)
		json_object_set(names, json_string_value(json_object_get(member, "name")), member);
	json_object_foreach_safe(watch->last, next, name, member)
	{
		if (json_object_get(names, name))
			continue;
		char *line = printable(name, "");
		if (watch->is_json &&
		    json_object_set_new(member, "state", json_string("removed")) == 0)
			status = print_change_json(member);
		else
			printf("%s was removed\n", line);
		free(line);
		json_object_del(watch->last, name);
	}
	json_decref(names);
	return status;
}

static int print_changes(void *user, const tfc_reply *reply)
{
	const struct members_watch *watch = user;
	json_t *list, *member;
	struct table table;
	uint32_t rows = 0;
	size_t i;
	int status = 0;
	if (watch->is_terminal) {
		status = print_verbatim(CLEAR_SCREEN);
		return status ? status : print_members(NULL, reply);
	}
	list = json_loads(reply->text, 0, NULL);
	if (!list)
		die_without_memory();
	begin_members(&table);
	json_array_foreach(list, i, member)
	{
		const tfc_member_info *info = tfc_members_at(reply->members, (uint32_t)i);
		if (!info || !has_changed(watch, member))
			continue;
		rows++;
		add_member(&table, info);
		if (watch->is_json && status == 0)
			status = print_change_json(member);
	}
	char *text = table_end(&table, 0);
	if (rows && !watch->is_json)
		status = print_text(text);
	free(text);
	if (status == 0)
		status = print_removed(watch, list);
	fflush(stdout);
	json_decref(list);
	return status;
}

static int request_members(struct client *client, struct response *response)
{
	int begun = tfc_gateway_members(client->gateway, NULL, client_on_reply, response, NULL);
	return client_await(client, begun, response) < 0 ? RUN_FAILED : response->status;
}

static uint64_t monotonic_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int watch_members(struct client *client, bool is_json)
{
	struct members_watch watch = {.last = json_object(),
				      .is_json = is_json,
				      .is_terminal = !is_json && isatty(STDOUT_FILENO)};
	int status = 0;
	while (status == 0) {
		struct response response = {.handle = print_changes, .user = &watch};
		uint64_t next = monotonic_ms() + WATCH_MS;
		status = request_members(client, &response);
		for (uint64_t now; status == 0 && (now = monotonic_ms()) < next;)
			if (tfc_ctx_run(client->ctx, (int)(next - now)) < 0)
				status = RUN_FAILED;
	}
	json_decref(watch.last);
	return status;
}

/* ---- the command */

struct members_options {
	bool is_json;
	bool is_watching;
};

static int show_members(struct client *client, const struct members_options *options)
{
	struct response response = {.handle = options->is_json ? print_members_json
							       : print_members};
	if (options->is_watching)
		return watch_members(client, options->is_json);
	return request_members(client, &response);
}

int members_main(int argc, char **argv)
{
	struct client client = {.ctx = NULL};
	struct members_options options = {.is_json = false};
	static const struct option table[] = {
		{"watch", NULL, "follow the changes, until Ctrl-C",
		 FLAG(struct members_options, is_watching)},
		{"json", NULL, "print a JSON list; with --watch, an object for each change",
		 FLAG(struct members_options, is_json)},
	};
	struct command_line line = {
		.command = "members",
		.usage = "usage: tfc_run members [--gateway G] [--watch] [--json]\n\nPrints the "
			 "nodes of the cluster as the gateway's node knows them: their states, "
			 "the age\nof the last sign of life of each (SEEN), and the round-trip "
			 "time to it.",
		.tables = {OPTION_TABLE(table, &options), GATEWAY_OPTION_TABLE(&client.options)},
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = show_members(&client, &options);
	client_end(&client);
	options_end(&line);
	return status;
}
