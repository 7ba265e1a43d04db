/* `tfc_run start` and `attach`: a job on other machines, followed from here. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "follow.h"
#include "job_options.h"

struct start {
	struct client client;
	struct output_options output;
	tfc_job *job;
	char *id;
	bool is_detached;
	bool is_explained;
	bool stops_on_interrupt;
	int signals; /* the descriptor from signals_open */
};

static const struct option attach_table[] = {
	{"stop-on-interrupt", NULL, "Ctrl-C stops the job instead of detaching",
	 FLAG(struct start, stops_on_interrupt)},
};

static const struct option start_table[] = {
	{NULL, NULL, "Start options"},
	{"detach", NULL, "print the job's id and do not follow the job",
	 FLAG(struct start, is_detached)},
	{"stop-on-interrupt", NULL, "Ctrl-C stops the job instead of detaching",
	 FLAG(struct start, stops_on_interrupt)},
	{"explain", NULL,
	 "print placement, ports, environment and arguments of each task, and run nothing",
	 FLAG(struct start, is_explained)},
};

/* Prints the id first, so that it is known whatever happens later. */
static int print_id(const struct start *start)
{
	char line[256], now[TIME_SIZE];
	time_text(wall_ns(), now);
	if (start->output.is_json)
		snprintf(line, sizeof(line),
			 "{\"time\":\"%s\",\"event\":\"submitted\",\"job\":\"%s\"}\n", now,
			 start->id);
	else
		snprintf(line, sizeof(line), "%s\n", start->id);
	return print_text(line);
}

/* A pending submit. On a terminal, a line shows the progress of a long one. */
struct submit {
	struct response response;
	struct start *start;
	bool shows_progress;
	bool is_shown;
	uint64_t show_ns; /* when that line is to be written next */
	int signal;       /* the signal that interrupted it; 0: none */
};

#define SHOW_AFTER_NS UINT64_C(1000000000)
#define SHOW_EACH_NS UINT64_C(200000000)

static void submit_on_progress(void *user, uint64_t sent, uint64_t total)
{
	struct submit *submit = user;
	client_begin_wait(&submit->start->client);
	if (!submit->shows_progress || now_ns() < submit->show_ns)
		return;
	fprintf(stderr, "\rtfc_run: sending the bundle: %.1f of %.1f MB ", (double)sent / 1e6,
		(double)total / 1e6);
	submit->is_shown = true;
	submit->show_ns = now_ns() + SHOW_EACH_NS;
}

static void submit_on_reply(void *user, const tfc_reply *reply)
{
	struct submit *submit = user;
	if (submit->is_shown)
		fputs("\r\033[K", stderr);
	if (!submit->signal || reply->code != TFC_ECANCELED) {
		client_on_reply(&submit->response, reply);
		return;
	}
	submit->response.has_arrived = true;
	submit->response.code = reply->code;
	complain(reply->home[0] ? "interrupted before the node responded; the job may have been "
				  "submitted (\"tfc_run ps --all\" lists it then)"
				: "interrupted; the job was not submitted");
}

static void cancel_on_signal(const struct start *start, struct submit *submit, tfc_op *op)
{
	struct signalfd_siginfo info;
	if (read(start->signals, &info, sizeof(info)) != sizeof(info))
		return;
	submit->signal = (int)info.ssi_signo;
	tfc_op_cancel(op);
}

/* Dispatches until the response has arrived or a signal cancels the submit; client_await reports
 * the result. */
static void await_submit(struct start *start, struct submit *submit, tfc_op *op)
{
	struct pollfd fds[] = {
		{.fd = start->signals, .events = POLLIN},
		{.fd = tfc_ctx_fd(start->client.ctx), .events = POLLIN},
	};
	int result = 0;
	/* A bundle is packed first, for as long as that takes. */
	if (!job_has_bundle(start->job))
		client_begin_wait(&start->client);
	while (!submit->response.has_arrived && result >= 0) {
		poll(fds, 2, client_note_wait(&start->client));
		cancel_on_signal(start, submit, op);
		result = tfc_ctx_dispatch(start->client.ctx, 0);
	}
}

/* 0, or the exit status after an error message. */
static int submit_job(struct start *start)
{
	struct submit submit = {.start = start, .show_ns = now_ns() + SHOW_AFTER_NS};
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	submit.shows_progress = isatty(STDERR_FILENO) && !start->output.is_quiet &&
				!start->output.is_json;
	options.progress = submit_on_progress;
	tfc_op *op = NULL;
	int begun = tfc_gateway_submit(start->client.gateway, start->job, &options, submit_on_reply,
				       &submit, &op);
	if (begun == TFC_OK)
		await_submit(start, &submit, op);
	int result = client_await(&start->client, begun, &submit.response);
	start->id = submit.response.text;
	if (result < 0)
		return submit.signal ? 128 + submit.signal : RUN_FAILED;
	if (submit.signal) /* the id arrived first: the signal is handled while following the job */
		raise(submit.signal);
	return 0;
}

static int follow_job(struct start *start, const char *job)
{
	struct output output;
	struct follow_options options = {
		.job = job,
		.stops_on_interrupt = start->stops_on_interrupt,
		.signals = start->signals,
	};
	output_open(&output, &start->output);
	output.has_kept_logs = true;
	output.has_status = !start->output.is_quiet;
	output.line.gateway = start->client.options.address;
	int status = follow(&start->client, &output, &options);
	output_close(&output);
	return status;
}

static int print_explanation(void *user, const tfc_reply *reply)
{
	const struct start *start = user;
	signal(SIGPIPE, SIG_IGN);
	int error = explain_print(reply, start->output.is_json);
	if (error == EPIPE) /* the exit status of a process killed by SIGPIPE */
		return 128 + SIGPIPE;
	if (error)
		complain("cannot write to standard output: %s", strerror(error));
	return error ? RUN_FAILED : 0;
}

static int explain_job(struct start *start)
{
	struct response response = {.handle = print_explanation, .user = start};
	int begun = tfc_gateway_explain(start->client.gateway, start->job, NULL, client_on_reply,
					&response, NULL);
	return client_await(&start->client, begun, &response) < 0 ? RUN_FAILED : response.status;
}

static int run_start(struct start *start)
{
	if (client_open(&start->client) < 0)
		return RUN_FAILED;
	if (start->is_explained)
		return explain_job(start);
	start->signals = signals_open();
	int status = submit_job(start);
	if (status == 0)
		status = print_id(start);
	return status || start->is_detached ? status : follow_job(start, start->id);
}

int start_main(int argc, char **argv)
{
	struct start start = {.job = NULL};
	struct command_line line = {
		.command = "start",
		.usage = "usage: tfc_run start [--gateway G] [JOB OPTIONS] [--detach | --explain] "
			 "[--] PROGRAM "
			 "[ARG...]\n"
			 "       tfc_run start [--gateway G] --job FILE [--detach | --explain]\n\n"
			 "Submits a job to a node, prints its id and follows it. Ctrl-C only "
			 "detaches.\n"
			 "If a node does not respond after a part of the job was sent to it, "
			 "tfc_run retries that node\n"
			 "for five minutes, and sends the job to no other node meanwhile.",
		.footer = EXIT_STATUS_HELP,
		.tables = {JOB_OPTION_TABLE(&start.job), OPTION_TABLE(start_table, &start),
			   GATEWAY_OPTION_TABLE(&start.client.options),
			   OUTPUT_OPTION_TABLE(&start.output)},
		.has_program = true,
	};
	enum options_result result = options_read(&line, argc, argv);
	if (result == OPTIONS_OK && job_options_make(&line, &start.job) < 0)
		result = OPTIONS_BAD;
	int status = result == OPTIONS_OK     ? run_start(&start)
		     : result == OPTIONS_HELP ? 0
					      : RUN_FAILED;
	client_end(&start.client);
	options_end(&line);
	tfc_job_free(start.job);
	free(start.id);
	return status;
}

int attach_main(int argc, char **argv)
{
	struct start start = {.job = NULL};
	struct command_line line = {
		.command = "attach",
		.usage = "usage: tfc_run attach [--gateway G] JOB\n\n"
			 "Replays all output of a job so far, then follows it. Ctrl-C only "
			 "detaches.",
		.footer = EXIT_STATUS_HELP,
		.tables = {OPTION_TABLE(attach_table, &start),
			   GATEWAY_OPTION_TABLE(&start.client.options),
			   OUTPUT_OPTION_TABLE(&start.output)},
		.operands = {"JOB"},
		.least = 1,
		.most = 1,
	};
	int status;
	if (client_begin(&start.client, &line, argc, argv, &status)) {
		start.signals = signals_open();
		status = follow_job(&start, line.words[0]);
	}
	client_end(&start.client);
	options_end(&line);
	return status;
}
