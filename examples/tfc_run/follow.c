#include "follow.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tail.h"

#define INTERRUPT_MS 2000 /* between SIGINT and the stop sequence */
#define DETACHED_MS 1000  /* then unwritten output is dropped */

struct follow {
	const struct follow_options *options;
	struct client *client;
	struct output *output;
	struct tail tail;
	tfc_sub *sub;
	char id[64];
	bool is_stopping;
	bool is_live; /* the existing output was shown: the tail is no longer cut */
	uint32_t job_state;
	char note[1152]; /* the latest replayed text about a wait; "": none */
	bool is_over;
	uint64_t drop_ns; /* when to stop waiting for output to be written; 0: never */
	int status;
};

static void follow_end(struct follow *follow, int status)
{
	if (!follow->is_over)
		follow->status = status;
	follow->is_over = true;
	output_end_status(follow->output);
}

/* ---- events */

/* Whether the event says what a job waits for now, which explains why no output comes. */
static bool is_wait(const struct follow *follow, const tfc_event *event)
{
	return event->kind == TFC_EVENT_JOB && event->job_state == follow->job_state &&
	       follow->is_live;
}

static bool is_of_connection(const tfc_event *event)
{
	return event->kind == TFC_EVENT_RECONNECTING || event->kind == TFC_EVENT_RECONNECTED;
}

static bool follow_wants_event(const struct follow *follow, const tfc_event *event)
{
	const struct follow_options *options = follow->options;
	char name[128];
	if (is_of_connection(event))
		return true;
	if (event->kind != TFC_EVENT_OUTPUT && event->kind != TFC_EVENT_REPORT &&
	    event->kind != TFC_EVENT_PROGRESS && event->kind != TFC_EVENT_GAP)
		return !options->is_only_output || is_wait(follow, event);
	snprintf(name, sizeof(name), "%s/%u", event->task_type, event->task_index);
	return (!options->task || strcmp(options->task, name) == 0) &&
	       (!options->attempt || !event->attempt || options->attempt == event->attempt) &&
	       (!event->time_ns || event->time_ns >= options->since_ns);
}

static void follow_show_tail(struct follow *follow)
{
	follow->is_live = true;
	tail_each(&follow->tail, follow->output);
	tail_end(&follow->tail);
	if (follow->note[0] && !follow->options->ends_when_live)
		output_message(follow->output, NOTICE, "%s", follow->note);
}

/* What a job waited for while its state was the same. Events are replayed before the output of
 * running tasks: such a text is printed behind that output, and only if no later one exists. */
static bool follow_hold_note(struct follow *follow, const tfc_event *event)
{
	bool is_note = !follow->is_live && !follow->output->options->is_json &&
		       event->kind == TFC_EVENT_JOB && event->job_state == follow->job_state &&
		       event->job_state > TFC_JOB_PENDING && event->job_state <= TFC_JOB_RUNNING;
	if (event->kind == TFC_EVENT_JOB || event->kind == TFC_EVENT_END)
		snprintf(follow->note, sizeof(follow->note), "%s", is_note ? event->text : "");
	return is_note;
}

static void follow_on_event(void *user, const tfc_event *event)
{
	struct follow *follow = user;
	bool is_end = event->kind == TFC_EVENT_END;
	tfc_event known = *event;
	known.size = sizeof(known);
	if (event->kind == TFC_EVENT_LOST) {
		output_message(follow->output, ERROR, "%s", event->text);
		follow_end(follow, RUN_FAILED);
		return;
	}
	snprintf(follow->id, sizeof(follow->id), "%s", event->job);
	if (follow_hold_note(follow, event))
		return;
	if ((is_end || event->kind == TFC_EVENT_LIVE) && !follow->is_live)
		follow_show_tail(follow);
	if (event->kind == TFC_EVENT_LIVE) {
		if (follow->options->ends_when_live)
			follow_end(follow, 0);
		return;
	}
	if (is_end && event->reason == TFC_END_STOPPED && follow->is_stopping)
		known.signal = SIGINT;
	if (follow_wants_event(follow, &known)) {
		if (follow->options->tail && !follow->is_live &&
		    event->kind != TFC_EVENT_PROGRESS && !is_of_connection(event))
			tail_add(&follow->tail, &known);
		else
			output_sub_event(follow->output, follow->sub, &known);
	}
	if (event->kind == TFC_EVENT_JOB)
		follow->job_state = event->job_state;
	if (is_end)
		follow_end(follow,
			   follow->options->is_only_output ? 0 : tfc_event_exit_status(&known));
}

/* ---- signals */

static void follow_on_stop_reply(void *user, const tfc_reply *reply)
{
	if (reply->code < 0 && reply->code != TFC_ESTATE && reply->code != TFC_ECANCELED)
		output_message(user, ERROR, "cannot stop the job: %s", reply->error->text);
}

void follow_stop_job(tfc_gateway *gateway, const tfc_ctx *ctx, const char *job,
		     const tfc_stop_options *options, struct output *output)
{
	if (tfc_gateway_stop(gateway, job, options, follow_on_stop_reply, output, NULL) < 0)
		output_message(output, ERROR, "cannot stop the job: %s", tfc_ctx_error(ctx)->text);
}

/* Detaches: the job continues. */
static void follow_detach(struct follow *follow, int status)
{
	const char *job = follow->id[0] ? follow->id : follow->options->job;
	if (!follow->options->is_only_output)
		output_message(follow->output, NOTICE,
			       "detached; the job continues (\"tfc_run attach %s\" follows it, "
			       "\"tfc_run stop %s\" stops it)",
			       job, job);
	follow->drop_ns = now_ns() + DETACHED_MS * 1000000ull;
	follow_end(follow, status);
}

static void follow_on_interrupt(struct follow *follow)
{
	tfc_stop_options options = TFC_STOP_OPTIONS_INIT;
	if (!follow->options->stops_on_interrupt) {
		follow_detach(follow, 0);
		return;
	}
	output_message(follow->output, NOTICE,
		       follow->is_stopping
			       ? "killing the remaining tasks"
			       : "interrupted, stopping the job; a second Ctrl-C kills at once");
	options.interrupt_ms = follow->is_stopping ? 0 : INTERRUPT_MS;
	options.is_kill = follow->is_stopping;
	follow_stop_job(follow->client->gateway, follow->client->ctx,
			follow->id[0] ? follow->id : follow->options->job, &options,
			follow->output);
	follow->is_stopping = true;
}

static void follow_read_signals(struct follow *follow)
{
	struct signalfd_siginfo info;
	while (read(follow->options->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGINT)
			follow_on_interrupt(follow);
		else
			follow_detach(follow, 128 + (int)info.ssi_signo);
	}
}

/* ---- the loop */

static void follow_check_output(struct follow *follow)
{
	struct stream *out = follow->output->out, *err = follow->output->err;
	if (out->error && !follow->is_over) {
		if (out->error != EPIPE)
			output_message(follow->output, ERROR, "cannot write to standard output: %s",
				       strerror(out->error));
		else /* the exit status of a process killed by SIGPIPE */
			output_hush(follow->output);
		follow_end(follow, out->error == EPIPE ? 128 + SIGPIPE : RUN_FAILED);
		follow->drop_ns = now_ns() + DETACHED_MS * 1000000ull;
	}
	if (follow->drop_ns && now_ns() >= follow->drop_ns) {
		stream_drop(out);
		stream_drop(err);
	}
	output_resume(follow->output, follow->sub);
}

static void follow_run_loop(struct follow *follow)
{
	while (!follow->is_over || !output_is_written(follow->output)) {
		if (!output_poll(follow->output, follow->options->signals, follow->client->ctx,
				 follow->drop_ns ? 100 : -1))
			break;
		follow_read_signals(follow);
		if (!follow->is_over && tfc_ctx_dispatch(follow->client->ctx, 0) < 0)
			follow_end(follow, RUN_FAILED);
		output_flush(follow->output);
		follow_check_output(follow);
	}
}

int follow(struct client *client, struct output *output, const struct follow_options *options)
{
	tfc_subscribe_options how = TFC_SUBSCRIBE_OPTIONS_INIT;
	struct follow follow = {.options = options,
				.client = client,
				.output = output,
				.status = RUN_FAILED};
	how.cursor = options->cursor;
	how.wants_live = 1;
	how.wants_progress = output_wants_progress(output) && !options->ends_when_live;
	how.wants_reports = output->options->is_json;
	how.wants_reconnects = 1;
	client->output = output;
	tail_begin(&follow.tail, options->tail);
	if (tfc_gateway_subscribe(client->gateway, options->job, &how, follow_on_event, &follow,
				  &follow.sub) < 0) {
		output_message(output, ERROR, "%s", tfc_ctx_error(client->ctx)->text);
		follow.is_over = true;
	}
	follow_run_loop(&follow);
	tfc_sub_close(follow.sub);
	tail_end(&follow.tail);
	client->output = NULL;
	return follow.status;
}
