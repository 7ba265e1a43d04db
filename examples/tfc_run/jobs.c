/* `tfc_run ps` and `describe`: the gateway's jobs as tables. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "options.h"
#include "table.h"

static bool has_ended(const tfc_job_info *job)
{
	return job->state >= TFC_JOB_SUCCEEDED && job->state <= TFC_JOB_STOPPED;
}

/* `text`, or "-" for an empty one. */
static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

/* "45s", "12m", "3h", "2d". */
static void age_text(uint64_t age_ms, char text[32])
{
	static const struct {
		uint64_t least, unit;
		char letter;
	} units[] = {{172800, 86400, 'd'}, {7200, 3600, 'h'}, {120, 60, 'm'}, {0, 1, 's'}};
	uint64_t seconds = age_ms / 1000;
	size_t i = 0;
	while (i < 3 && seconds < units[i].least)
		i++;
	snprintf(text, 32, "%llu%c", (unsigned long long)(seconds / units[i].unit),
		 units[i].letter);
}

/* ---- ps */

struct ps_options {
	bool is_all;
	bool is_json;
};

/* The nodes of a job's tasks: "a,b"; "a,b,c,+4" if there are many. */
static void add_nodes(struct table *table, const char *const *nodes)
{
	struct text text = {.data = NULL};
	size_t count = 0;
	for (; nodes[count]; count++)
		if (count < 3)
			text_add(&text, "%s%s", count ? "," : "", nodes[count]);
	if (count > 3)
		text_add(&text, ",+%zu", count - 3);
	table_add(table, "%s", text.data ? text.data : "-");
	free(text.data);
}

static void add_job(struct table *table, const tfc_job_info *job)
{
	char age[32] = "-";
	if (job->state == TFC_JOB_DAMAGED)
		complain("%s", job->text);
	else
		age_text(job->age_ms, age);
	table_add(table, "%s", job->job);
	table_add(table, "%s", or_dash(job->name));
	table_add(table, "%s", tfc_job_state_name(job->state));
	table_add(table, "%u/%u", job->ready_count, job->task_count);
	table_add(table, "%llu", (unsigned long long)job->restarts);
	add_nodes(table, job->nodes);
	table_add(table, "%s", age);
}

static void complain_of_missing(const tfc_jobs *jobs)
{
	struct text text = {.data = NULL};
	const tfc_missing_node *missing;
	for (uint32_t i = 0; (missing = tfc_jobs_missing_at(jobs, i)); i++)
		text_add(&text, "%s%s (%s)", i ? ", " : "", missing->node, missing->reason);
	if (text.data)
		complain("jobs of unreachable nodes are missing: %s", text.data);
	free(text.data);
}

static int print_jobs(void *user, const tfc_reply *reply)
{
	static const char *const heads[] = {"ID",       "NAME", "STATE", "READY",
					    "RESTARTS", "NODE", "AGE",   NULL};
	const struct ps_options *options = user;
	struct table table;
	const tfc_job_info *job;
	complain_of_missing(reply->jobs);
	table_begin(&table, heads);
	for (uint32_t i = 0; (job = tfc_jobs_at(reply->jobs, i)); i++)
		if (options->is_all || !has_ended(job))
			add_job(&table, job);
	char *text = table_end(&table);
	int status = print_text(text);
	free(text);
	return status;
}

/* NULL after an error message. */
static json_t *parse_json(const tfc_reply *reply)
{
	json_t *value = json_loads(reply->text, 0, NULL);
	if (!value)
		complain("the gateway's response is not valid JSON");
	return value;
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

/* Prints the list of jobs. If nodes could not be queried, a last element names them. */
static int print_jobs_json(void *user, const tfc_reply *reply)
{
	const struct ps_options *options = user;
	json_t *reported = parse_json(reply);
	json_t *jobs = json_object_get(reported, "jobs"),
	       *missing = json_object_get(reported, "not_asked");
	if (!reported)
		return RUN_FAILED;
	complain_of_missing(reply->jobs);
	for (uint32_t i = reply->jobs->job_count; i-- > 0;)
		if (!options->is_all && has_ended(tfc_jobs_at(reply->jobs, i)))
			json_array_remove(jobs, i);
	if (reply->jobs->missing_count &&
	    json_array_append_new(jobs, json_pack("{s:O}", "not_asked", missing)) < 0)
		die_without_memory();
	int status = print_json(jobs);
	json_decref(reported);
	return status;
}

static int ps(struct client *client, struct ps_options *options)
{
	struct response response = {.handle = options->is_json ? print_jobs_json : print_jobs,
				    .user = options};
	int begun = tfc_gateway_jobs(client->gateway, NULL, client_on_reply, &response, NULL);
	return client_await(client, begun, &response) < 0 ? RUN_FAILED : response.status;
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

static void describe_tasks(const tfc_job_info *job, struct text *text)
{
	static const char *const heads[] = {"TASK",    "NODE",  "ADDRESS",       "PID",
					    "ATTEMPT", "STATE", "RESTARTS LEFT", NULL};
	struct table table;
	const tfc_job_task *task;
	table_begin(&table, heads);
	for (uint32_t i = 0; (task = tfc_job_info_task(job, i)); i++) {
		table_add(&table, "%s/%u", task->task_type, task->task_index);
		table_add(&table, "%s", or_dash(task->node));
		table_add(&table, "%s", or_dash(task->address));
		table_add(&table, task->pid ? "%d" : "-", task->pid);
		table_add(&table, "%u", task->attempt);
		table_add(&table, "%s%s%s", tfc_task_state_name(task->state),
			  *task->activity ? ": " : "", task->activity);
		table_add(&table, task->restarts_left == UINT32_MAX ? "-" : "%u",
			  task->restarts_left);
	}
	char *lines = table_end(&table);
	text_add(text, "\n%s", lines);
	free(lines);
}

/* The address of its TensorBoard, and the latest failed attempts of its tasks. */
static void describe_more(const tfc_job_info *job, struct text *text)
{
	const tfc_job_task *task;
	bool has_head = false;
	for (uint32_t i = 0; (task = tfc_job_info_task(job, i)); i++)
		if (strcmp(task->task_type, "tensorboard") == 0 && task->state == TFC_TASK_READY) {
			text_add(text, "\n");
			text_add_line(text, "TensorBoard: http://%s/", task->address);
		}
	for (uint32_t i = 0; (task = tfc_job_info_task(job, i)); i++) {
		const tfc_attempt_end *end = task->last_end;
		if (!end || (end->reason == TFC_END_EXIT && end->exit_code == 0) ||
		    end->task_state == TFC_TASK_STOPPED)
			continue;
		if (!has_head)
			text_add(text, "\nLast failures:\n");
		has_head = true;
		text_add_line(text, "  %s/%u#%u%s%s: %s", task->task_type, task->task_index,
			      end->attempt, *end->node ? " on " : "", end->node,
			      *end->text ? end->text : tfc_end_reason_name(end->reason));
	}
}

static int print_description(void *user, const tfc_reply *reply)
{
	const tfc_job_info *job = reply->job;
	struct text text = {.data = NULL};
	char age[32];
	age_text(job->age_ms, age);
	text_add_line(&text, "%-11s %s", "job", job->job);
	if (*job->name)
		text_add_line(&text, "%-11s %s", "name", job->name);
	text_add_line(&text, "%-11s %s", "state", tfc_job_state_name(job->state));
	if (*job->text)
		text_add_line(&text, "%-11s %s", "", job->text);
	text_add_line(&text, "%-11s %s", "age", age);
	text_add_line(&text, "%-11s %u", "generation", job->generation);
	text_add_line(&text, "%-11s %s (epoch %llu)", "maintainer", job->maintainer,
		      (unsigned long long)job->epoch);
	describe_tasks(job, &text);
	describe_more(job, &text);
	int status = print_text(text.data);
	free(text.data);
	return status;
}

static int print_description_json(void *user, const tfc_reply *reply)
{
	json_t *job = parse_json(reply);
	if (!job)
		return RUN_FAILED;
	int status = print_json(job);
	json_decref(job);
	return status;
}

static int describe(struct client *client, const char *name, bool is_json)
{
	struct response response = {.handle = is_json ? print_description_json : print_description};
	int begun = tfc_gateway_describe(client->gateway, name, NULL, client_on_reply, &response,
					 NULL);
	return client_await(client, begun, &response) < 0 ? RUN_FAILED : response.status;
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
