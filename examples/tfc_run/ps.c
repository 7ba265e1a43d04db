/* `tfc_run ps`: the jobs of the cluster. */
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "options.h"
#include "table.h"

/* Exit status when the list lacks the jobs of a node that does not respond. */
#define STATUS_INCOMPLETE 1

struct ps {
	struct client client;
	bool is_all;
	bool is_quiet;
	bool is_json;
	uint32_t states;  /* a bit for each state to list; 0: those that have not ended */
	const char *name; /* a pattern; NULL: all names */
};

static int set_state(void *target, const struct option *option, const char *value)
{
	struct ps *ps = target;
	for (uint32_t state = TFC_JOB_PENDING; state <= TFC_JOB_DAMAGED; state++)
		if (strcmp(value, tfc_job_state_name(state)) == 0) {
			ps->states |= 1u << state;
			return 0;
		}
	return bad_value(option, value,
			 "must be pending, starting, running, restarting, stopping, succeeded, "
			 "failed, stopped or damaged");
}

static bool is_listed(const struct ps *ps, const tfc_job_info *job)
{
	if (ps->name && fnmatch(ps->name, job->name, 0) != 0)
		return false;
	return ps->states ? ps->states >> job->state & 1 : ps->is_all || !job_has_ended(job);
}

/* ---- the table */

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

static void add_duration(struct table *table, uint64_t ms)
{
	char text[DURATION_SIZE];
	duration_text(ms, text);
	table_add(table, "%s", text);
}

/* How long all of its tasks have been running, by the clock of its maintainer. */
static void add_time_running(struct table *table, const tfc_job_info *job)
{
	uint64_t until = job->ended_ns ? job->ended_ns : job->submitted_ns + job->age_ms * 1000000;
	if (!job->started_ns)
		table_add(table, "-");
	else
		add_duration(table,
			     until > job->started_ns ? (until - job->started_ns) / 1000000 : 0);
}

static void add_job(struct table *table, const tfc_job_info *job)
{
	bool is_known = job->state != TFC_JOB_DAMAGED;
	table_add(table, "%s", job->job);
	table_add(table, "%s", *job->name ? job->name : "-");
	table_add(table, "%s", tfc_job_state_name(job->state));
	table_add(table, is_known ? "%u/%u" : "-", job->ready_count, job->task_count);
	table_add(table, is_known ? "%llu" : "-", (unsigned long long)job->incidents);
	table_add(table, job_has_ended(job) ? "%d" : "-", job->exit_status);
	add_nodes(table, job->nodes);
	if (is_known)
		add_duration(table, job->age_ms);
	else
		table_add(table, "-");
	add_time_running(table, job);
	table_add(table, "%s", *job->text && job->state != TFC_JOB_SUCCEEDED ? job->text : "-");
}

static int print_job_table(const struct ps *ps, const tfc_jobs *jobs)
{
	static const char *const heads[] = {"ID",       "NAME",   "STATE", "READY",
					    "RESTARTS", "EXIT",   "NODES", "AGE",
					    "DURATION", "REASON", NULL};
	struct table table;
	const tfc_job_info *job;
	table_begin(&table, heads);
	for (uint32_t i = 0; (job = tfc_jobs_at(jobs, i)); i++)
		if (is_listed(ps, job))
			add_job(&table, job);
	char *text = table_end(&table, stdout_columns());
	int status = print_text(text);
	free(text);
	return status;
}

/* ---- other forms */

static int print_job_ids(const struct ps *ps, const tfc_jobs *jobs)
{
	struct text text = {.data = NULL};
	const tfc_job_info *job;
	for (uint32_t i = 0; (job = tfc_jobs_at(jobs, i)); i++)
		if (is_listed(ps, job))
			text_add_line(&text, "%s", job->job);
	int status = text.data ? print_text(text.data) : 0;
	free(text.data);
	return status;
}

static int print_jobs_json(const struct ps *ps, const tfc_reply *reply)
{
	json_t *reported = json_loads(reply->text, 0, NULL),
	       *jobs = json_object_get(reported, "jobs");
	if (!jobs) {
		complain("the gateway's response is not valid JSON");
		json_decref(reported);
		return RUN_FAILED;
	}
	for (uint32_t i = reply->jobs->job_count; i-- > 0;)
		if (!is_listed(ps, tfc_jobs_at(reply->jobs, i)))
			json_array_remove(jobs, i);
	char *text = json_dumps(jobs, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
	if (!text)
		die_without_memory();
	int status = print_line(text);
	free(text);
	json_decref(reported);
	return status;
}

/* ---- the command */

static int print_jobs(void *user, const tfc_reply *reply)
{
	const struct ps *ps = user;
	const tfc_missing_node *missing;
	int status = ps->is_json    ? print_jobs_json(ps, reply)
		     : ps->is_quiet ? print_job_ids(ps, reply->jobs)
				    : print_job_table(ps, reply->jobs);
	for (uint32_t i = 0; (missing = tfc_jobs_missing_at(reply->jobs, i)); i++) {
		complain("cannot list the jobs of %s%s: %s",
			 missing->node[0] ? "node " : "other nodes", missing->node,
			 missing->reason);
		status = status ? status : STATUS_INCOMPLETE;
	}
	return status;
}

static int list_jobs(struct ps *ps)
{
	struct response response = {.handle = print_jobs, .user = ps};
	if (ps->is_quiet && ps->is_json) {
		complain("--quiet and --json exclude each other");
		return RUN_FAILED;
	}
	int begun = tfc_gateway_jobs(ps->client.gateway, NULL, client_on_reply, &response, NULL);
	return client_await(&ps->client, begun, &response) < 0 ? RUN_FAILED : response.status;
}

int ps_main(int argc, char **argv)
{
	static const struct option table[] = {
		{"all", NULL, "also list jobs that have ended", FLAG(struct ps, is_all),
		 .letter = 'a'},
		{"quiet", NULL, "print only the ids", FLAG(struct ps, is_quiet), .letter = 'q'},
		{"state", "S",
		 "only jobs in this state, ended ones too; may be given several times", set_state,
		 .values = "pending,starting,running,restarting,stopping,succeeded,failed,stopped,"
			   "damaged"},
		{"name", "GLOB", "only jobs whose name matches the pattern", TEXT(struct ps, name)},
		{"json", NULL, "print a JSON list, an object for each job",
		 FLAG(struct ps, is_json)},
	};
	struct ps ps = {.states = 0};
	struct command_line line = {
		.command = "ps",
		.usage = "usage: tfc_run ps [--gateway G] [-a | --all] [--state S] [--name GLOB] "
			 "[-q | --json]\n\n"
			 "Lists the jobs of the cluster. RESTARTS counts what caused restarts: a "
			 "group that restarts\n"
			 "because one task has died counts once. DURATION is the time since all "
			 "tasks were ready. EXIT is\n"
			 "the exit status of attach. If a node does not respond, its jobs are "
			 "missing and the exit status\nis 1.",
		.tables = {OPTION_TABLE(table, &ps), GATEWAY_OPTION_TABLE(&ps.client.options)},
	};
	int status;
	if (client_begin(&ps.client, &line, argc, argv, &status))
		status = list_jobs(&ps);
	client_end(&ps.client);
	options_end(&line);
	return status;
}
