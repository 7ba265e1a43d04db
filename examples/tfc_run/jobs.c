/* `tfc_run ps` and `describe`: the gateway's jobs as tables. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "options.h"
#include "table.h"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

static unsigned number_of(const json_t *object, const char *key)
{
	return (unsigned)json_integer_value(json_object_get(object, key));
}

static bool has_ended(const json_t *job)
{
	const char *state = text_of(job, "state");
	return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ||
	       strcmp(state, "stopped") == 0;
}

static bool is_damaged(const json_t *job)
{
	return strcmp(text_of(job, "state"), "damaged") == 0;
}

/* "45s", "12m", "3h", "2d". */
static void age_text(double seconds, char text[32])
{
	static const struct {
		double least, unit;
		char letter;
	} units[] = {{172800, 86400, 'd'}, {7200, 3600, 'h'}, {120, 60, 'm'}, {0, 1, 's'}};
	size_t i = 0;
	while (i < 3 && seconds < units[i].least)
		i++;
	snprintf(text, 32, "%lld%c", (long long)(seconds / units[i].unit), units[i].letter);
}

/* ---- ps */

struct ps_options {
	bool is_all;
	bool is_json;
};

/* The nodes of a job's tasks: "a,b"; "a,b,c,+4" if there are many. */
static void nodes_text(const json_t *job, char *text, size_t size)
{
	const json_t *nodes = json_object_get(job, "nodes");
	size_t count = json_array_size(nodes), i, len = 0;
	text[0] = '\0';
	for (i = 0; i < count && i < 3; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%s", i ? "," : "",
					json_string_value(json_array_get(nodes, i)));
	if (count > 3)
		snprintf(text + len, size - len, ",+%zu", count - 3);
	if (!count)
		snprintf(text, size, "-");
}

static void add_job(struct table *table, const json_t *job)
{
	char nodes[1024], age[32];
	nodes_text(job, nodes, sizeof(nodes));
	age_text(json_number_value(json_object_get(job, "age_s")), age);
	if (is_damaged(job)) {
		complain("%s", text_of(job, "text"));
		snprintf(age, sizeof(age), "-");
	}
	table_add(table, "%s", text_of(job, "job"));
	table_add(table, "%s", *text_of(job, "name") ? text_of(job, "name") : "-");
	table_add(table, "%s", text_of(job, "state"));
	table_add(table, "%u/%u", number_of(job, "ready"), number_of(job, "task_count"));
	table_add(table, "%u", number_of(job, "restarts"));
	table_add(table, "%s", nodes);
	table_add(table, "%s", age);
}

static int print_jobs(json_t *jobs)
{
	static const char *const heads[] = {"ID",       "NAME", "STATE", "READY",
					    "RESTARTS", "NODE", "AGE",   NULL};
	struct table table;
	size_t i;
	const json_t *job;
	table_begin(&table, heads);
	json_array_foreach(jobs, i, job) add_job(&table, job);
	char *text = table_end(&table);
	int status = print_text(text);
	free(text);
	return status;
}

static int print_json(const json_t *value)
{
	char *text = json_dumps(value,
				JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
	if (!text)
		die_without_memory();
	int status = print_line(text);
	free(text);
	return status;
}

static void complain_of_missing(const json_t *nodes)
{
	struct text text = {.data = NULL};
	size_t i;
	const json_t *node;
	json_array_foreach(nodes, i, node) text_add(&text, "%s%s (%s)", i ? ", " : "",
						    text_of(node, "node"), text_of(node, "reason"));
	if (text.data)
		complain("jobs of unreachable nodes are missing: %s", text.data);
	free(text.data);
}

/* Prints the list of jobs. If nodes could not be queried, a last element names them. */
static int print_jobs_json(json_t *jobs, json_t *nodes)
{
	if (json_array_size(nodes) &&
	    json_array_append_new(jobs, json_pack("{s:O}", "not_asked", nodes)) < 0)
		die_without_memory();
	return print_json(jobs);
}

static int ps(struct client *client, const struct ps_options *options)
{
	struct answer answer = {.text = NULL};
	int begun = tfc_gateway_jobs(client->gateway, NULL, client_answer, &answer, NULL);
	if (client_await(client, begun, &answer) < 0)
		return RUN_FAILED;
	json_t *reported = client_json(answer.text, !options->is_json);
	json_t *jobs = json_object_get(reported, "jobs"),
	       *nodes = json_object_get(reported, "not_asked");
	free(answer.text);
	if (!json_is_array(jobs)) {
		json_decref(reported);
		complain("the gateway's response is not valid JSON");
		return RUN_FAILED;
	}
	for (size_t i = json_array_size(jobs); i-- > 0;)
		if (!options->is_all && has_ended(json_array_get(jobs, i)))
			json_array_remove(jobs, i);
	complain_of_missing(nodes);
	int status = options->is_json ? print_jobs_json(jobs, nodes) : print_jobs(jobs);
	json_decref(reported);
	return status;
}

int ps_main(int argc, char **argv)
{
	static const struct option own[] = {
		{"all", NULL, "also list jobs that have ended", FLAG(struct ps_options, is_all),
		 .letter = 'a'},
		{"json", NULL, "print a JSON list, an object for each job",
		 FLAG(struct ps_options, is_json)},
	};
	struct client client = {.ctx = NULL};
	struct ps_options options = {.is_all = false};
	struct command_line line = {
		.command = "ps",
		.usage = "usage: tfc_run ps [--gateway G] [--all] [--json]\n\n"
			 "Lists the jobs of the cluster.",
		.tables = {OPTION_TABLE(own, &options), GATEWAY_OPTION_TABLE(&client.options)},
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = ps(&client, &options);
	client_end(&client);
	options_end(&line);
	return status;
}

/* ---- describe */

static void describe_tasks(const json_t *job, struct text *text)
{
	static const char *const heads[] = {"TASK",    "NODE",  "ADDRESS",       "PID",
					    "ATTEMPT", "STATE", "RESTARTS LEFT", NULL};
	struct table table;
	size_t i;
	const json_t *task;
	table_begin(&table, heads);
	json_array_foreach(json_object_get(job, "tasks"), i, task)
	{
		const json_t *left = json_object_get(task, "restarts_left");
		const char *doing = text_of(task, "doing");
		unsigned pid = number_of(task, "pid");
		table_add(&table, "%s", text_of(task, "task"));
		table_add(&table, "%s", *text_of(task, "node") ? text_of(task, "node") : "-");
		table_add(&table, "%s", *text_of(task, "address") ? text_of(task, "address") : "-");
		table_add(&table, pid ? "%u" : "-", pid);
		table_add(&table, "%u", number_of(task, "attempt"));
		table_add(&table, "%s%s%s", text_of(task, "state"), *doing ? ": " : "", doing);
		table_add(&table, left ? "%lld" : "-", (long long)json_integer_value(left));
	}
	char *lines = table_end(&table);
	text_add(text, "\n%s", lines);
	free(lines);
}

/* The address of its TensorBoard, and the latest failed attempts of its tasks. */
static void describe_more(const json_t *job, struct text *text)
{
	size_t i;
	const json_t *task;
	bool has_head = false;
	json_array_foreach(json_object_get(job, "tasks"), i, task)
	{
		if (strncmp(text_of(task, "task"), "tensorboard/", 12) == 0 &&
		    strcmp(text_of(task, "state"), "ready") == 0)
			text_add(text, "\nTensorBoard: http://%s/\n", text_of(task, "address"));
	}
	json_array_foreach(json_object_get(job, "tasks"), i, task)
	{
		const json_t *end = json_object_get(task, "last_end");
		bool is_well = strcmp(text_of(end, "reason"), "exit") == 0 &&
			       number_of(end, "status") == 0;
		if (!end || is_well || strcmp(text_of(end, "state"), "stopped") == 0)
			continue;
		text_add(text, "%s  %s#%u%s%s: %s\n", has_head ? "" : "\nLast failures:\n",
			 text_of(task, "task"), number_of(end, "attempt"),
			 *text_of(end, "node") ? " on " : "", text_of(end, "node"),
			 *text_of(end, "text") ? text_of(end, "text") : text_of(end, "reason"));
		has_head = true;
	}
}

static int print_description(const json_t *job)
{
	struct text text = {.data = NULL};
	char age[32];
	age_text(json_number_value(json_object_get(job, "age_s")), age);
	text_add(&text, "job         %s\n", text_of(job, "job"));
	if (*text_of(job, "name"))
		text_add(&text, "name        %s\n", text_of(job, "name"));
	text_add(&text, "state       %s\n", text_of(job, "state"));
	if (*text_of(job, "text"))
		text_add(&text, "            %s\n", text_of(job, "text"));
	text_add(&text, "age         %s\n", age);
	text_add(&text, "generation  %u\n", number_of(job, "generation"));
	text_add(&text, "maintainer  %s (epoch %u)\n", text_of(job, "maintainer"),
		 number_of(job, "epoch"));
	describe_tasks(job, &text);
	describe_more(job, &text);
	int status = print_text(text.data);
	free(text.data);
	return status;
}

static int describe(struct client *client, const char *name, bool is_json)
{
	struct answer answer = {.text = NULL};
	int begun = tfc_gateway_describe(client->gateway, name, NULL, client_answer, &answer, NULL);
	if (client_await(client, begun, &answer) < 0)
		return RUN_FAILED;
	json_t *job = client_json(answer.text, !is_json);
	free(answer.text);
	if (!job) {
		complain("the gateway's response is not valid JSON");
		return RUN_FAILED;
	}
	int status = is_json ? print_json(job) : print_description(job);
	json_decref(job);
	return status;
}

int describe_main(int argc, char **argv)
{
	static const struct option own[] = {
		{"json", NULL, "print everything as one JSON object", set_flag, .at = 0},
	};
	struct client client = {.ctx = NULL};
	bool is_json = false;
	struct command_line line = {
		.command = "describe",
		.usage = "usage: tfc_run describe [--gateway G] JOB [--json]\n\n"
			 "Shows a job and its tasks.",
		.tables = {OPTION_TABLE(own, &is_json), GATEWAY_OPTION_TABLE(&client.options)},
		.least = 1,
		.most = 1,
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = describe(&client, line.words[0], is_json);
	client_end(&client);
	options_end(&line);
	return status;
}
