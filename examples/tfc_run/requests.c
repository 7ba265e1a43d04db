/* The commands that send one request: spec, stop, rm. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "options.h"

/* ---- spec */

struct spec_options {
	bool is_environ;
};

static int set_format(void *target, const struct option *option, const char *value)
{
	struct spec_options *options = target;
	options->is_environ = strcmp(value, "env") == 0;
	if (options->is_environ || strcmp(value, "tf_config") == 0)
		return 0;
	return bad_value(option, value, "must be tf_config or env");
}

static int print_spec(struct client *client, char **words, bool is_environ)
{
	struct response response = {.text = NULL};
	int begun = is_environ ? tfc_gateway_environ(client->gateway, words[0], words[1], NULL,
						     client_on_reply, &response, NULL)
			       : tfc_gateway_tf_config(client->gateway, words[0], words[1], NULL,
						       client_on_reply, &response, NULL);
	int status = RUN_FAILED;
	if (client_await(client, begun, &response) == 0)
		status = (is_environ ? print_text : print_line)(response.text);
	free(response.text);
	return status;
}

int spec_main(int argc, char **argv)
{
	static const struct option table[] = {
		{"format", "F",
		 "tf_config, or env for all variables that describe the cluster, TFC_EPOCH "
		 "included",
		 set_format, .values = "tf_config,env"},
	};
	struct client client = {.ctx = NULL};
	struct spec_options options = {.is_environ = false};
	struct command_line line = {
		.command = "spec",
		.usage = "usage: tfc_run spec [--gateway G] JOB TASK [--format "
			 "tf_config|env]\n\nPrints the cluster as a task's environment describes "
			 "it.",
		.tables = {OPTION_TABLE(table, &options), GATEWAY_OPTION_TABLE(&client.options)},
		.operands = {"JOB", "TASK"},
		.least = 2,
		.most = 2,
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = print_spec(&client, line.words, options.is_environ);
	client_end(&client);
	options_end(&line);
	return status;
}

/* ---- what stop and rm share */

static int copy_job_id(void *user, const tfc_reply *reply)
{
	char **ret_id = user;
	*ret_id = strdup(reply->job->job);
	if (!*ret_id)
		die_without_memory();
	return 0;
}

/* The job's id, so that a request that is repeated after a lost response affects the same job. Of a
 * damaged job only the id is known. NULL after an error message. */
static char *resolve_job_id(struct client *client, const char *job)
{
	char *id = NULL;
	struct response response = {.handle = copy_job_id, .user = &id};
	if (strlen(job) == 16 && strspn(job, "0123456789abcdef") == 16) {
		id = strdup(job);
		if (!id)
			die_without_memory();
		return id;
	}
	int begun = tfc_gateway_describe(client->gateway, job, NULL, client_on_reply, &response,
					 NULL);
	client_await(client, begun, &response);
	return id;
}

static bool has_id(char *const *ids, size_t count, const char *id)
{
	for (size_t i = 0; i < count; i++)
		if (ids[i] && strcmp(ids[i], id) == 0)
			return true;
	return false;
}

/* The ids of the jobs that a command line names, each once. All are found before any job changes: a
 * name means another job once the first has been stopped or removed. A word that names no job has
 * NULL and sets *ret_status. */
static char **resolve_jobs(struct client *client, const struct command_line *line, int *ret_status)
{
	char **ids = calloc(line->word_count, sizeof(*ids));
	if (!ids)
		die_without_memory();
	for (size_t i = 0; i < line->word_count; i++) {
		char *id = resolve_job_id(client, line->words[i]);
		if (!id)
			*ret_status = RUN_FAILED;
		else if (has_id(ids, i, id))
			free(id);
		else
			ids[i] = id;
	}
	return ids;
}

/* Of several jobs, each is tried; the exit status is that of the worst. */
static int worse(int status, int other)
{
	return other > status ? other : status;
}

/* ---- stop */

struct stop_options {
	bool waits;
	bool is_kill;
};

static void on_end_event(void *user, const tfc_event *event)
{
	int *status = user;
	if (event->kind == TFC_EVENT_LOST) {
		complain("%s", event->text);
		*status = RUN_FAILED;
	} else if (event->kind == TFC_EVENT_END) {
		*status = 0;
	}
}

static int await_job_end(struct client *client, const char *job)
{
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	tfc_sub *sub = NULL;
	int status = -1;
	options.skip_output = 1;
	if (tfc_gateway_subscribe(client->gateway, job, &options, on_end_event, &status, &sub) <
	    0) {
		complain("%s", tfc_ctx_error(client->ctx)->text);
		return RUN_FAILED;
	}
	while (status < 0)
		if (tfc_ctx_run(client->ctx, -1) < 0)
			status = RUN_FAILED;
	tfc_sub_close(sub);
	return status;
}

/* Frees and clears *id if there is nothing to wait for. */
static int stop_job(struct client *client, char **id, const struct stop_options *options)
{
	struct response response = {.text = NULL};
	tfc_stop_options how = TFC_STOP_OPTIONS_INIT;
	how.is_kill = options->is_kill;
	int begun = tfc_gateway_stop(client->gateway, *id, &how, client_on_reply, &response, NULL);
	int result = client_await(client, begun, &response);
	free(response.text);
	if (result == 0)
		return 0;
	free(*id);
	*id = NULL;
	/* A job that has already ended is a success; the message was printed. */
	return response.code == TFC_ESTATE ? 0 : RUN_FAILED;
}

/* Stops all jobs before it waits for any. */
static int stop_jobs(struct client *client, const struct command_line *line,
		     const struct stop_options *options)
{
	int status = 0;
	char **ids = resolve_jobs(client, line, &status);
	for (size_t i = 0; i < line->word_count; i++)
		if (ids[i])
			status = worse(status, stop_job(client, &ids[i], options));
	for (size_t i = 0; i < line->word_count; i++) {
		int ended = ids[i] && options->waits ? await_job_end(client, ids[i]) : 0;
		if (ids[i] && ended == 0)
			ended = print_line(ids[i]);
		status = worse(status, ended);
		free(ids[i]);
	}
	free(ids);
	return status;
}

int stop_main(int argc, char **argv)
{
	static const struct option table[] = {
		{"wait", NULL, "wait until the job has ended", FLAG(struct stop_options, waits)},
		{"kill", NULL, "kill the tasks at once, without a grace period",
		 FLAG(struct stop_options, is_kill)},
	};
	struct client client = {.ctx = NULL};
	struct stop_options options = {.waits = false};
	struct command_line line = {
		.command = "stop",
		.usage = "usage: tfc_run stop [--gateway G] JOB... [--wait] [--kill]\n\n"
			 "Stops jobs: their tasks get TERM, and KILL after the grace period. "
			 "Prints the "
			 "id of each job\n"
			 "that it has stopped. The exit status is 0 if all were stopped or had "
			 "ended, "
			 "else 125.",
		.tables = {OPTION_TABLE(table, &options), GATEWAY_OPTION_TABLE(&client.options)},
		.operands = {"LIVE-JOB"},
		.least = 1,
		.most = UINT_MAX,
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = stop_jobs(&client, &line, &options);
	client_end(&client);
	options_end(&line);
	return status;
}

/* ---- rm */

static int forget_job(struct client *client, const char *id)
{
	struct response response = {.text = NULL};
	int begun = tfc_gateway_forget(client->gateway, id, NULL, client_on_reply, &response, NULL);
	int status = client_await(client, begun, &response) < 0 ? RUN_FAILED : print_line(id);
	free(response.text);
	return status;
}

static int forget_jobs(struct client *client, const struct command_line *line)
{
	int status = 0;
	char **ids = resolve_jobs(client, line, &status);
	for (size_t i = 0; i < line->word_count; i++) {
		if (ids[i])
			status = worse(status, forget_job(client, ids[i]));
		free(ids[i]);
	}
	free(ids);
	return status;
}

int rm_main(int argc, char **argv)
{
	struct client client = {.ctx = NULL};
	struct command_line line = {
		.command = "rm",
		.usage = "usage: tfc_run rm [--gateway G] JOB...\n\n"
			 "Removes jobs that have ended, and their logs. Prints the id of each job "
			 "that "
			 "it has removed.\n"
			 "The exit status is 0 if all were removed, else 125.",
		.tables = {GATEWAY_OPTION_TABLE(&client.options)},
		.operands = {"ENDED-JOB"},
		.least = 1,
		.most = UINT_MAX,
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = forget_jobs(&client, &line);
	client_end(&client);
	options_end(&line);
	return status;
}
