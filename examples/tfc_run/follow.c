#include "follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tail.h"

#define PENDING_MAX 262144 /* bytes queued for stdout; beyond that the subscription is paused */
#define INTERRUPT_MS 2000  /* between SIGINT and the stop sequence */
#define DETACHED_MS 1000   /* then unwritten output is dropped */

struct follow {
	const struct follow_options *options;
	struct client *client;
	struct output *output;
	struct tail tail;
	tfc_sub *sub;
	char id[64];
	bool is_paused;
	bool is_stopping;
	bool is_live; /* the existing output was shown: the tail is no longer cut */
	bool is_over;
	uint64_t drop_ns; /* when to stop waiting for output to be written; 0: never */
	int status;
};

static void end(struct follow *follow, int status)
{
	if (!follow->is_over)
		follow->status = status;
	follow->is_over = true;
}

/* ---- events */

static bool is_wanted(const struct follow *follow, const tfc_event *event)
{
	const struct follow_options *options = follow->options;
	char name[128];
	if (event->kind != TFC_EVENT_OUTPUT && event->kind != TFC_EVENT_GAP)
		return !options->is_only_output;
	snprintf(name, sizeof(name), "%s/%u", event->task_type, event->task_index);
	return (!options->task || strcmp(options->task, name) == 0) &&
	       (!options->attempt || !event->attempt || options->attempt == event->attempt) &&
	       (!event->time_ns || event->time_ns >= options->since_ns);
}

static void show(struct follow *follow, const tfc_event *event)
{
	output_event(follow->output, event);
	if (stream_pending(follow->output->out) > PENDING_MAX)
		output_flush(follow->output);
	if (stream_pending(follow->output->out) > PENDING_MAX) {
		tfc_sub_pause(follow->sub); /* a slow reader delays this process, but no task */
		follow->is_paused = true;
	}
}

static void show_tail(struct follow *follow)
{
	follow->is_live = true;
	tail_each(&follow->tail, follow->output);
	tail_end(&follow->tail);
}

static void on_event(void *user, const tfc_event *event)
{
	struct follow *follow = user;
	bool is_end = event->kind == TFC_EVENT_END;
	if (event->kind == TFC_EVENT_LOST) {
		output_message(follow->output, ERROR, "%s", event->text);
		end(follow, RUN_FAILED);
		return;
	}
	snprintf(follow->id, sizeof(follow->id), "%s", event->job);
	if ((is_end || event->kind == TFC_EVENT_LIVE) && !follow->is_live)
		show_tail(follow);
	if (event->kind == TFC_EVENT_LIVE) {
		if (follow->options->ends_when_live)
			end(follow, 0);
		return;
	}
	if (is_wanted(follow, event)) {
		if (follow->options->tail && !follow->is_live)
			tail_add(&follow->tail, event);
		else
			show(follow, event);
	}
	if (is_end)
		end(follow, follow->options->is_only_output ? 0 : tfc_event_exit_status(event));
}

/* ---- signals */

static void on_stop_reply(void *user, const tfc_reply *reply)
{
	struct follow *follow = user;
	if (reply->code < 0 && reply->code != TFC_ESTATE && reply->code != TFC_ECANCELED)
		output_message(follow->output, ERROR, "cannot stop the job: %s",
			       reply->error->text);
}

static void stop(struct follow *follow, uint32_t interrupt_ms, bool is_kill)
{
	tfc_stop_options options = TFC_STOP_OPTIONS_INIT;
	options.interrupt_ms = interrupt_ms;
	options.is_kill = is_kill;
	if (tfc_gateway_stop(follow->client->gateway,
			     follow->id[0] ? follow->id : follow->options->job, &options,
			     on_stop_reply, follow, NULL) < 0)
		output_message(follow->output, ERROR, "cannot stop the job: %s",
			       tfc_ctx_error(follow->client->ctx)->text);
}

/* Detaches: the job continues. */
static void leave(struct follow *follow, int status)
{
	const char *job = follow->id[0] ? follow->id : follow->options->job;
	if (!follow->options->is_only_output)
		output_message(follow->output, NOTICE,
			       "detached; the job continues (\"tfc_run attach %s\" follows it, "
			       "\"tfc_run stop %s\" stops it)",
			       job, job);
	follow->drop_ns = now_ns() + DETACHED_MS * 1000000ull;
	end(follow, status);
}

static void on_interrupt(struct follow *follow)
{
	if (!follow->options->stops_on_interrupt) {
		leave(follow, 0);
		return;
	}
	output_message(follow->output, NOTICE,
		       follow->is_stopping
			       ? "killing the remaining tasks"
			       : "interrupted, stopping the job; a second Ctrl-C kills at once");
	stop(follow, follow->is_stopping ? 0 : INTERRUPT_MS, follow->is_stopping);
	follow->is_stopping = true;
}

static void read_signals(struct follow *follow)
{
	struct signalfd_siginfo info;
	while (read(follow->options->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGINT)
			on_interrupt(follow);
		else
			leave(follow, 128 + (int)info.ssi_signo);
	}
}

/* ---- the loop */

static void watch_output(struct follow *follow)
{
	struct stream *out = follow->output->out, *err = follow->output->err;
	if (out->error && !follow->is_over) {
		if (out->error != EPIPE)
			output_message(follow->output, ERROR, "cannot write to standard output: %s",
				       strerror(out->error));
		else /* the exit status of a process killed by SIGPIPE */
			output_hush(follow->output);
		end(follow, out->error == EPIPE ? 128 + SIGPIPE : RUN_FAILED);
		follow->drop_ns = now_ns() + DETACHED_MS * 1000000ull;
	}
	if (follow->drop_ns && now_ns() >= follow->drop_ns) {
		stream_drop(out);
		stream_drop(err);
	}
	if (follow->is_paused && stream_pending(out) == 0) {
		follow->is_paused = false;
		tfc_sub_resume(follow->sub);
	}
}

static bool is_done(const struct follow *follow)
{
	return follow->is_over && stream_pending(follow->output->out) == 0 &&
	       stream_pending(follow->output->err) == 0;
}

static void run_loop(struct follow *follow)
{
	struct stream *out = follow->output->out, *err = follow->output->err;
	while (!is_done(follow)) {
		struct pollfd fds[] = {
			{.fd = follow->options->signals, .events = POLLIN},
			{.fd = tfc_ctx_fd(follow->client->ctx), .events = POLLIN},
			{.fd = stream_pending(out) ? out->fd : -1, .events = POLLOUT},
			{.fd = stream_pending(err) ? err->fd : -1, .events = POLLOUT},
		};
		if (poll(fds, 4, follow->drop_ns ? 100 : -1) < 0 && errno != EINTR)
			break;
		read_signals(follow);
		if (!follow->is_over && tfc_ctx_dispatch(follow->client->ctx, 0) < 0)
			end(follow, RUN_FAILED);
		output_flush(follow->output);
		watch_output(follow);
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
	client->output = output;
	tail_begin(&follow.tail, options->tail);
	if (tfc_gateway_subscribe(client->gateway, options->job, &how, on_event, &follow,
				  &follow.sub) < 0) {
		output_message(output, ERROR, "%s", tfc_ctx_error(client->ctx)->text);
		follow.is_over = true;
	}
	run_loop(&follow);
	tfc_sub_close(follow.sub);
	tail_end(&follow.tail);
	client->output = NULL;
	return follow.status;
}
