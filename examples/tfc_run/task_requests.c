/* The commands that act on one task of a job: signal, stacks. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "client.h"
#include "options.h"

/* ---- signal */

static int set_signal(void *target, const struct option *option, const char *value)
{
	uint32_t *ret_signal = target;
	char *end;
	long number = strtol(value, &end, 10);
	if (*value && !*end && number >= 1 && number <= SIGRTMAX) {
		*ret_signal = (uint32_t)number;
		return 0;
	}
	const char *name = strncasecmp(value, "SIG", 3) == 0 ? value + 3 : value;
	for (int signal = 1; signal < SIGRTMIN; signal++) {
		const char *known = sigabbrev_np(signal);
		if (known && strcasecmp(name, known) == 0) {
			*ret_signal = (uint32_t)signal;
			return 0;
		}
	}
	return bad_value(option, value, "must be a signal, such as TERM or 15");
}

static int signal_task(struct client *client, char **words, uint32_t signal)
{
	struct response response = {.text = NULL};
	tfc_signal_options options = TFC_SIGNAL_OPTIONS_INIT;
	options.signal = signal;
	int begun = tfc_gateway_signal(client->gateway, words[0], words[1], &options,
				       client_on_reply, &response, NULL);
	int status = client_await(client, begun, &response) == 0 ? 0 : RUN_FAILED;
	free(response.text);
	return status;
}

int signal_main(int argc, char **argv)
{
	uint32_t signal = SIGKILL;
	static const struct option table[] = {
		{"signal", "S", "its name or number (KILL)", set_signal},
	};
	struct client client = {.ctx = NULL};
	struct command_line line = {
		.command = "signal",
		.usage =
			"usage: tfc_run signal [--gateway G] JOB TASK [--signal S]\n\n"
			"Sends a signal to a task, wherever it runs. If the task ends, its restart "
			"policy decides what\nfollows, as for any other end.",
		.tables = {OPTION_TABLE(table, &signal), GATEWAY_OPTION_TABLE(&client.options)},
		.operands = {"LIVE-JOB", "TASK"},
		.least = 2,
		.most = 2,
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = signal_task(&client, line.words, signal);
	client_end(&client);
	options_end(&line);
	return status;
}

/* ---- stacks */

#define STACKS_S 10 /* until their report must have come */

/* The event that reports them: it comes after the request, and after all older events. */
struct stacks_report {
	const char *task;
	bool is_live; /* the older events are over */
	int status;   /* of the command; -1: not known yet */
};

static void stacks_on_event(void *user, const tfc_event *event)
{
	struct stacks_report *report = user;
	char task[128];
	snprintf(task, sizeof(task), "%s/%u", event->task_type, event->task_index);
	bool is_of_task = event->kind == TFC_EVENT_TASK && strcmp(task, report->task) == 0;
	bool is_task_end = is_of_task && event->task_state >= TFC_TASK_EXITED;
	bool is_end = event->kind == TFC_EVENT_END;
	if (report->status >= 0)
		return;
	if (event->kind == TFC_EVENT_LOST || (report->is_live && (is_end || is_task_end))) {
		complain("%s", event->text);
		report->status = RUN_FAILED;
	} else if (event->kind == TFC_EVENT_LIVE || is_end) { /* the request fails after an end */
		report->is_live = true;
	} else if (report->is_live && is_of_task && strstr(event->text, "stacks")) {
		report->status = print_line(event->text);
	}
}

/* The node of the task responds within two seconds, unless it is unreachable or has no memory. */
static void await_report(struct client *client, struct stacks_report *report)
{
	struct timespec now, until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += STACKS_S;
	while (report->status < 0) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= until.tv_sec) {
			complain("no response from the node of %s within %d s", report->task,
				 STACKS_S);
			report->status = RUN_FAILED;
		} else if (tfc_ctx_run(client->ctx, 1000) < 0) {
			report->status = RUN_FAILED;
		}
	}
}

static int await_stacks(struct client *client, char **words)
{
	struct response response = {.text = NULL};
	struct stacks_report report = {.task = words[1], .status = -1};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	tfc_sub *sub = NULL;
	options.skip_output = 1;
	options.wants_live = 1;
	if (tfc_gateway_subscribe(client->gateway, words[0], &options, stacks_on_event, &report,
				  &sub) < 0) {
		complain("%s", tfc_ctx_error(client->ctx)->text);
		return RUN_FAILED;
	}
	while (report.status < 0 && !report.is_live)
		if (tfc_ctx_run(client->ctx, -1) < 0)
			report.status = RUN_FAILED;
	if (report.status < 0) {
		int begun = tfc_gateway_stacks(client->gateway, words[0], words[1], NULL,
					       client_on_reply, &response, NULL);
		if (client_await(client, begun, &response) < 0)
			report.status = RUN_FAILED;
		free(response.text);
	}
	await_report(client, &report);
	tfc_sub_close(sub);
	return report.status;
}

int stacks_main(int argc, char **argv)
{
	struct client client = {.ctx = NULL};
	struct command_line line = {
		.command = "stacks",
		.usage = "usage: tfc_run stacks [--gateway G] JOB TASK\n\n"
			 "Makes the Python processes of a task print the stacks of all their "
			 "threads "
			 "to stderr, and prints\nwhere the main thread is. `tfc_run logs JOB TASK` "
			 "has the stacks. They need a job with --on-stall\nstacks or restart, or a "
			 "program that has registered faulthandler for signal 58.",
		.tables = {GATEWAY_OPTION_TABLE(&client.options)},
		.operands = {"LIVE-JOB", "TASK"},
		.least = 2,
		.most = 2,
	};
	int status;
	if (client_begin(&client, &line, argc, argv, &status))
		status = await_stacks(&client, line.words);
	client_end(&client);
	options_end(&line);
	return status;
}
