/* `tfc_run describe`: a job and its tasks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "options.h"
#include "output.h"
#include "table.h"

/* `text`, or "-" for an empty one. */
static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

/* ", node unreachable for 12s", by the clock of the job's maintainer. */
static void unreachable_text(const tfc_job_info *job, const tfc_job_task *task, char *text,
			     size_t size)
{
	uint64_t now = job->submitted_ns + job->age_ms * 1000000;
	char duration[DURATION_SIZE];
	text[0] = '\0';
	if (!task->unreachable_ns)
		return;
	duration_text(now > task->unreachable_ns ? (now - task->unreachable_ns) / 1000000 : 0,
		      duration);
	snprintf(text, size, ", node unreachable for %s", duration);
}

/* "-", "2GiB", or "2GiB, not enforced" if the task runs without this limit. */
#define MEMORY_LIMIT_SIZE (MEMORY_SIZE + 16)
static void memory_limit_text(const tfc_job_task *task, char text[MEMORY_LIMIT_SIZE])
{
	char limit[MEMORY_SIZE];
	bool is_unlimited = task->started_ns && !task->is_memory_limited;
	memory_text(task->memory_limit, limit);
	snprintf(text, MEMORY_LIMIT_SIZE, "%s%s", task->memory_limit ? limit : "-",
		 task->memory_limit && is_unlimited ? ", not enforced" : "");
}

static void describe_tasks(const tfc_job_info *job, struct text *text)
{
	static const char *const heads[] = {"TASK",         "NODE",
					    "ADDRESS",      "PID",
					    "ATTEMPT",      "RESTARTS LEFT",
					    "STALLS AFTER", "MEMORY LIMIT",
					    "STATE",        NULL};
	struct table table;
	const tfc_job_task *task;
	char unreachable[64], limit[MEMORY_LIMIT_SIZE];
	table_begin(&table, heads);
	for (uint32_t i = 0; (task = tfc_job_info_task(job, i)); i++) {
		unreachable_text(job, task, unreachable, sizeof(unreachable));
		table_add(&table, "%s/%u", task->task_type, task->task_index);
		table_add(&table, "%s", or_dash(task->node));
		table_add(&table, "%s", or_dash(task->address));
		table_add(&table, task->pid ? "%d" : "-", task->pid);
		table_add(&table, "%u", task->attempt);
		table_add(&table, task->restarts_left == UINT32_MAX ? "-" : "%u",
			  task->restarts_left);
		table_add(&table, task->stall_ms ? "%.7g s" : "-", (double)task->stall_ms / 1e3);
		memory_limit_text(task, limit);
		table_add(&table, "%s", limit);
		table_add(&table, "%s%s%s%s", tfc_task_state_name(task->state),
			  *task->activity ? ": " : "", task->activity, unreachable);
	}
	char *lines = table_end(&table, stdout_columns());
	text_add(text, "\n%s", lines);
	free(lines);
}

/* "tensorflow sklearn" */
static void add_modules(const tfc_zygote *zygote, struct table *table)
{
	struct text text = {.data = NULL};
	for (const char *const *module = zygote->modules; *module; module++)
		text_add(&text, "%s%s", module == zygote->modules ? "" : " ", *module);
	table_add(table, "%s", text.data ? text.data : "-");
	free(text.data);
}

/* The processes that its attempts are forked from. */
static void describe_zygotes(const tfc_job_info *job, struct text *text)
{
	static const char *const heads[] = {"WARM", "NODE",      "PID",   "ATTEMPTS", "AGE",
					    "RSS",  "ANONYMOUS", "STATE", NULL};
	uint64_t now = job->submitted_ns + job->age_ms * 1000000;
	struct table table;
	const tfc_zygote *zygote;
	char age[DURATION_SIZE], memory[MEMORY_SIZE];
	if (!job->zygote_count)
		return;
	table_begin(&table, heads);
	for (uint32_t i = 0; (zygote = tfc_job_info_zygote(job, i)); i++) {
		duration_text(now > zygote->started_ns ? (now - zygote->started_ns) / 1000000 : 0,
			      age);
		add_modules(zygote, &table);
		table_add(&table, "%s", or_dash(zygote->node));
		table_add(&table, zygote->pid ? "%d" : "-", zygote->pid);
		table_add(&table, "%u", zygote->attempts);
		table_add(&table, "%s", age);
		memory_text(zygote->rss_bytes, memory);
		table_add(&table, "%s", zygote->rss_bytes ? memory : "-");
		memory_text(zygote->anonymous_bytes, memory);
		table_add(&table, "%s", zygote->rss_bytes ? memory : "-");
		table_add(&table, "%s%s%s", tfc_zygote_state_name(zygote->state),
			  *zygote->text ? ": " : "", zygote->text);
	}
	char *lines = table_end(&table, stdout_columns());
	text_add(text, "\n%s", lines);
	free(lines);
}

/* The address of its TensorBoard, and the latest failed attempts of its tasks. */
static void describe_more(const tfc_job_info *job, struct text *text)
{
	const tfc_job_task *task;
	char time[TIME_SIZE];
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
		time_text(end->ended_ns, time);
		text_add_line(text, "  %s %s/%u#%u%s%s: %s", time, task->task_type,
			      task->task_index, end->attempt, *end->node ? " on " : "", end->node,
			      *end->text ? end->text : tfc_end_reason_name(end->reason));
	}
}

static void describe_time(const char *name, uint64_t time_ns, struct text *text)
{
	char time[TIME_SIZE];
	time_text(time_ns, time);
	if (time_ns)
		text_add_line(text, "%-11s %s", name, time);
}

static int print_description(void *user, const tfc_reply *reply)
{
	const tfc_job_info *job = reply->job;
	struct text text = {.data = NULL};
	char age[DURATION_SIZE];
	duration_text(job->age_ms, age);
	text_add_line(&text, "%-11s %s", "job", job->job);
	if (*job->name)
		text_add_line(&text, "%-11s %s", "name", job->name);
	text_add_line(&text, "%-11s %s", "state", tfc_job_state_name(job->state));
	if (*job->text)
		text_add_line(&text, "%-11s %s", "", job->text);
	if (job_has_ended(job))
		text_add_line(&text, "%-11s %d", "exit status", job->exit_status);
	text_add_line(&text, "%-11s %s", "age", age);
	describe_time("submitted", job->submitted_ns, &text);
	describe_time("started", job->started_ns, &text);
	describe_time("ended", job->ended_ns, &text);
	text_add_line(&text, "%-11s %u", "generation", job->generation);
	text_add_line(&text, "%-11s %s (epoch %llu)", "maintainer", job->maintainer,
		      (unsigned long long)job->epoch);
	describe_tasks(job, &text);
	describe_zygotes(job, &text);
	describe_more(job, &text);
	int status = print_text(text.data);
	free(text.data);
	return status;
}

static int print_description_json(void *user, const tfc_reply *reply)
{
	return print_line(reply->text);
}

static int describe_job(struct client *client, const char *name, bool is_json)
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
			 "Shows a job, its tasks, and the processes that warm tasks are forked "
			 "from.",
		.tables = {OPTION_TABLE(own, &is_json), GATEWAY_OPTION_TABLE(&client.options)},
		.operands = {"JOB"},
		.least = 1,
		.most = 1,
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = describe_job(&client, line.words[0], is_json);
	client_end(&client);
	options_end(&line);
	return status;
}
