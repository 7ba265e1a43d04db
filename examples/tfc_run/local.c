/*
 * `tfc_run local`: one job in this process. It shows everything that a host has to do: a context, a
 * node, a gateway, a submit, a subscription, and an event loop.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <tfcluster/tfcluster.h>
#include <unistd.h>

#include "local.h"

#include "follow.h"
#include "job_options.h"

#define INTERRUPT_MS 2000 /* between SIGINT and the stop sequence */
#define STUCK_MS 2000     /* once stopping, output that is blocked for so long is dropped */
#define KILLED_MS 1000    /* after a kill, unwritten output is dropped after this time */
#define STOPPING_POLL_MS 100

void local_fail(struct local *local, const char *text)
{
	output_message(&local->output, ERROR, "%s", text ? text : tfc_ctx_error(local->ctx)->text);
	output_hush(&local->output);
	local->status = RUN_FAILED;
	local->is_ended = true;
}

/* ---- stopping */

static uint64_t after_ms(uint64_t ms)
{
	return now_ns() + ms * 1000000;
}

void local_stop(struct local *local, int signal, uint32_t interrupt_ms, bool is_kill)
{
	if (!local->is_stopping)
		local->stop_signal = signal;
	local->is_stopping = true;
	local->stop = (tfc_stop_options)TFC_STOP_OPTIONS_INIT;
	local->stop.interrupt_ms = interrupt_ms;
	local->stop.is_kill = is_kill;
	local->still_here_ns = interrupt_ms ? after_ms(interrupt_ms) : 0;
	if (local->job[0])
		follow_stop_job(local->gateway, local->ctx, local->job, &local->stop,
				&local->output);
}

static void local_report_running(struct local *local, const char *what)
{
	char names[256];
	if (output_alive(&local->output, names, sizeof(names)))
		output_message(&local->output, NOTICE, "%s %s; a second Ctrl-C kills at once", what,
			       names);
}

static void local_on_interrupt(struct local *local)
{
	if (local->is_stopping) {
		output_message(&local->output, NOTICE, "killing the remaining tasks");
		local_stop(local, SIGINT, 0, true);
		local->drop_ns = after_ms(KILLED_MS);
	} else {
		local_report_running(local, "interrupted, waiting for");
		local_stop(local, SIGINT, INTERRUPT_MS, false);
	}
}

static void local_read_signals(struct local *local)
{
	struct signalfd_siginfo info;
	while (read(local->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGINT)
			local_on_interrupt(local);
		else if (!local->is_stopping || local->still_here_ns)
			local_stop(local, (int)info.ssi_signo, 0, false);
	}
}

/* ---- the job */

static void local_on_event(void *user, const tfc_event *event)
{
	struct local *local = user;
	tfc_event known = *event;
	known.size = sizeof(known);
	if (local->is_output_dropped && event->kind != TFC_EVENT_END)
		return;
	if (event->kind == TFC_EVENT_END) {
		if (event->reason == TFC_END_STOPPED)
			known.signal = local->stop_signal;
		local->status = tfc_event_exit_status(&known);
		local->is_ended = true;
	}
	output_sub_event(&local->output, local->sub, &known);
}

static void local_on_submitted(void *user, const tfc_reply *reply)
{
	struct local *local = user;
	if (reply->code < 0) {
		local_fail(local, reply->error->text);
		return;
	}
	snprintf(local->job, sizeof(local->job), "%s", reply->text);
	if (local->is_stopping)
		follow_stop_job(local->gateway, local->ctx, local->job, &local->stop,
				&local->output);
}

static void local_on_explained(void *user, const tfc_reply *reply)
{
	struct local *local = user;
	int error = reply->code < 0 ? 0 : explain_print(reply, local->options->output.is_json);
	char text[128];
	snprintf(text, sizeof(text), "cannot write to standard output: %s", strerror(error));
	if (error == EPIPE) /* the exit status of a process killed by SIGPIPE */
		local->status = 128 + SIGPIPE;
	else if (reply->code < 0 || error)
		local_fail(local, error ? text : reply->error->text);
	local->is_ended = true;
}

/* Sends the command's request. */
static int local_send_request(struct local *local)
{
	tfc_job *job = local->options->job;
	tfc_subscribe_options how = TFC_SUBSCRIBE_OPTIONS_INIT;
	if (local->options->is_explained)
		return tfc_gateway_explain(local->gateway, job, NULL, local_on_explained, local,
					   NULL);
	how.wants_progress = output_wants_progress(&local->output);
	how.wants_reports = local->output.options->is_json;
	return tfc_gateway_run(local->gateway, job, NULL, &how, local_on_submitted, local_on_event,
			       local, &local->sub);
}

static void local_on_log(void *user, const tfc_log_entry *entry)
{
	struct local *local = user;
	bool is_task = strchr(entry->subject, '/'); /* otherwise it is about the only job */
	output_message(&local->output, ERROR, "%s%s%s%s", local->who, is_task ? entry->subject : "",
		       is_task ? ": " : "", entry->text);
}

void local_open(struct local *local, const struct local_options *options)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	*local = (struct local){.options = options, .who = ""};
	output_open(&local->output, &options->output);
	local->output.log_dir = options->log_dir;
	local->output.has_status = !options->output.is_quiet;
	local->signals = signals_open();
	ctx.helper_dir = getenv("TFC_HELPER_DIR"); /* for helpers that are not installed yet */
	ctx.log = local_on_log;
	ctx.log_user = local;
	ctx.log_level = TFC_LOG_WARNING;
	if (local->signals < 0)
		local_fail(local, strerror(errno));
	else if (tfc_ctx_new(&ctx, &error, &local->ctx) < 0)
		local_fail(local, error.text);
}

void local_submit(struct local *local, tfc_node *node)
{
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	gateway.node = node;
	if (tfc_gateway_open(local->ctx, &gateway, &local->gateway) < 0 ||
	    local_send_request(local) < 0)
		local_fail(local, NULL);
}

static tfc_node *local_open_node(struct local *local)
{
	extern char **environ;
	tfc_node *opened = NULL;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	const char *temp_dir = getenv("TMPDIR");
	node.env = (const char *const *)environ;
	node.port_first = local->options->ports[0];
	node.port_last = local->options->ports[1];
	node.host = local->options->host;
	node.log_dir = local->options->log_dir;
	node.gpus = job_wants_gpus(local->options->job) ? "auto" : NULL;
	node.temp_dir = temp_dir && *temp_dir == '/' ? temp_dir : NULL;
	if (tfc_node_open(local->ctx, &node, &opened) < 0)
		local_fail(local, NULL);
	return opened;
}

/* ---- the loop */

/* The remaining output cannot be written: waits only for the end of the job. */
static void local_drop_output(struct local *local)
{
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	local->is_output_dropped = true;
	local->output.is_paused = false;
	if (local->is_ended || !local->job[0])
		return;
	tfc_sub_close(local->sub);
	local->sub = NULL;
	options.skip_output = 1;
	if (tfc_gateway_subscribe(local->gateway, local->job, &options, local_on_event, local,
				  &local->sub) < 0)
		local_fail(local, NULL);
}

static bool stream_is_stuck(const struct stream *stream, uint64_t now)
{
	return stream_pending(stream) && now >= stream->moved_ns + STUCK_MS * 1000000ull;
}

/* Checks the output streams: the job is stopped when stdout is closed, and output is dropped when a
 * stream stays blocked. */
static void local_check_output(struct local *local)
{
	struct stream *out = local->output.out, *err = local->output.err;
	uint64_t now = now_ns();
	if (out->error == EPIPE && !local->is_stopping) { /* as if killed by SIGPIPE */
		output_hush(&local->output);
		local_stop(local, SIGPIPE, 0, false);
		local->drop_ns = now;
	} else if (out->error && out->error != EPIPE && !local->is_output_dropped) {
		output_message(&local->output, ERROR, "cannot write to standard output: %s",
			       strerror(out->error));
		output_flush(&local->output);
		local->has_lost_output = true;
		local->drop_ns = now;
	} else if (local->is_stopping && (stream_is_stuck(out, now) || stream_is_stuck(err, now))) {
		local->drop_ns = now;
	}
	if (local->drop_ns && now >= local->drop_ns && !local->is_output_dropped)
		local_drop_output(local);
	if (local->is_output_dropped) {
		stream_drop(out);
		stream_drop(err);
	}
	output_resume(&local->output, local->sub);
}

void local_run_loop(struct local *local)
{
	while (!local->is_ended || !output_is_written(&local->output)) {
		if (!output_poll(&local->output, local->signals, local->ctx,
				 local->is_stopping ? STOPPING_POLL_MS : -1))
			break;
		local_read_signals(local);
		if (!local->is_ended && tfc_ctx_dispatch(local->ctx, 0) < 0)
			local_fail(local, NULL);
		if (local->still_here_ns && now_ns() >= local->still_here_ns) {
			local->still_here_ns = 0;
			local_report_running(local, "still running, now stopping:");
		}
		output_flush(&local->output);
		local_check_output(local);
	}
}

void local_close_gateway(struct local *local)
{
	tfc_sub_close(local->sub);
	tfc_gateway_close(local->gateway);
	local->sub = NULL;
	local->gateway = NULL;
}

int local_close(struct local *local)
{
	local_close_gateway(local);
	tfc_ctx_free(local->ctx);
	output_close(&local->output);
	close(local->signals);
	return local->status == 0 && local->has_lost_output ? RUN_FAILED : local->status;
}

int local_main(int argc, char **argv)
{
	struct local_options options;
	struct local local;
	tfc_node *node = NULL;
	enum options_result result = local_options_read(argc, argv, &options);
	int status = result == OPTIONS_HELP ? 0 : RUN_FAILED;
	if (result == OPTIONS_OK) {
		local_open(&local, &options);
		if (!local.is_ended && (node = local_open_node(&local)))
			local_submit(&local, node);
		local_run_loop(&local);
		local_close_gateway(&local);
		tfc_node_close(node);
		status = local_close(&local);
	}
	local_options_end(&options);
	return status;
}
