/* `tfc_run logs`: the output of a job, without its states. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "follow.h"

struct logs {
	struct client client;
	struct output_options output;
	struct follow_options follow;
	bool follows;
};

/* A cursor contains a '_' or '~' if it is of an output event; a duration contains neither: "90s",
 * "1.5h". */
static int set_since(void *target, const struct option *option, const char *value)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
	struct logs *logs = target;
	char *end;
	double number = strtod(value, &end);
	if (strpbrk(value, "_~")) {
		logs->follow.cursor = value;
		return 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (end == value || strcmp(end, units[i].name) != 0 || !(number >= 0) ||
		    number * units[i].seconds > 1e9)
			continue;
		logs->follow.since_ns = wall_ns() - (uint64_t)(number * units[i].seconds * 1e9);
		return 0;
	}
	return bad_value(option, value,
			 "must be a duration such as 500ms, 30s, 5m, 2h or 1d, or a cursor");
}

static const struct option table[] = {
	{"follow", NULL, "follow until the job ends", FLAG(struct logs, follows), .letter = 'f'},
	{"since", "WHEN", "only output since 30s, 5m, 2h or 1d ago, or after a cursor of --json",
	 set_since},
	{"tail", "N", "only the last N lines of each task", set_number,
	 .at = offsetof(struct logs, follow.tail)},
	{"attempt", "N", "only output of this attempt", set_number,
	 .at = offsetof(struct logs, follow.attempt)},
};

static void note_spec(void *user, const tfc_reply *reply)
{
	struct response *response = user;
	response->has_arrived = true;
	response->code = reply->code;
	if (reply->code == TFC_ENOENT)
		complain("%s", reply->error->text);
}

/* Whether the job has the task. A subscription reports nothing about a task that does not exist, so
 * this requests the task's spec. If that fails for another reason, following the job reports the
 * reason. */
static bool is_task_there(struct client *client, const struct follow_options *follow)
{
	struct response response = {.text = NULL};
	if (!follow->task)
		return true;
	int begun = tfc_gateway_tf_config(client->gateway, follow->job, follow->task, NULL,
					  note_spec, &response, NULL);
	if (begun < 0)
		return true;
	client_begin_wait(client);
	while (!response.has_arrived)
		if (tfc_ctx_run(client->ctx, client_note_wait(client)) < 0)
			return true;
	return response.code != TFC_ENOENT;
}

static int run_logs(struct logs *logs)
{
	struct output output;
	if (client_open(&logs->client) < 0 || !is_task_there(&logs->client, &logs->follow))
		return RUN_FAILED;
	output_open(&output, &logs->output);
	logs->follow.signals = signals_open();
	logs->follow.is_only_output = true;
	logs->follow.ends_when_live = !logs->follows;
	int status = follow(&logs->client, &output, &logs->follow);
	output_close(&output);
	close(logs->follow.signals);
	return status;
}

int logs_main(int argc, char **argv)
{
	struct logs logs = {.follows = false};
	struct command_line line = {
		.command = "logs",
		.usage = "usage: tfc_run logs [--gateway G] JOB [TASK] [-f] [--since WHEN] "
			 "[--tail N] [--attempt N]\n\n"
			 "Prints the output of a job or of one task of it.",
		.tables = {OPTION_TABLE(table, &logs), GATEWAY_OPTION_TABLE(&logs.client.options),
			   OUTPUT_OPTION_TABLE(&logs.output)},
		.operands = {"JOB", "TASK"},
		.least = 1,
		.most = 2,
	};
	enum options_result result = options_parse(&line, argc, argv);
	int status = result == OPTIONS_HELP ? 0 : RUN_FAILED;
	if (result == OPTIONS_OK) {
		logs.follow.job = line.words[0];
		logs.follow.task = line.words[1];
		status = run_logs(&logs);
	}
	client_end(&logs.client);
	options_end(&line);
	return status;
}
