/*
 * A job inside a libuv loop: a uv_poll_t for the library, a uv_signal_t each for SIGINT and
 * SIGTERM.
 *
 *   embed_libuv PROGRAM [ARGUMENT...]       two workers, each running the program
 *   embed_libuv python3 examples/tensorflow/mirrored.py
 *
 * uv_poll_t is level-triggered, which suits the descriptor. A handle of libuv must be closed, and
 * its close callback must have run, before its descriptor is closed. So the job is closed only
 * after the loop has ended by itself, which it does when no handle is open.
 */
#include <signal.h>
#include <stdio.h>
#include <uv.h>

#include "job.h"

struct host {
	struct job job;
	uv_poll_t library;
	uv_signal_t interrupt;
	uv_signal_t terminate;
};

/* uv_run returns when no handle is open. */
static void close_handles(struct host *host)
{
	uv_close((uv_handle_t *)&host->library, NULL);
	uv_close((uv_handle_t *)&host->interrupt, NULL);
	uv_close((uv_handle_t *)&host->terminate, NULL);
}

static void end_if_over(struct host *host)
{
	if (host->job.is_over && !uv_is_closing((uv_handle_t *)&host->library))
		close_handles(host);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct host *host = poll->data;
	if (status < 0)
		job_fail(&host->job, uv_strerror(status));
	else if (tfc_ctx_dispatch(host->job.ctx, 0) < 0)
		job_fail(&host->job, NULL);
	end_if_over(host);
}

static void on_signal(uv_signal_t *signal, int signal_number)
{
	struct host *host = signal->data;
	job_stop(&host->job, signal_number);
	end_if_over(host);
}

static int watch_signal(uv_loop_t *loop, uv_signal_t *signal, int signal_number, struct host *host)
{
	int code = uv_signal_init(loop, signal);
	signal->data = host;
	return code < 0 ? code : uv_signal_start(signal, on_signal, signal_number);
}

static int watch_library(uv_loop_t *loop, struct host *host)
{
	int code = uv_poll_init(loop, &host->library, tfc_ctx_fd(host->job.ctx));
	host->library.data = host;
	return code < 0 ? code : uv_poll_start(&host->library, UV_READABLE, on_readable);
}

int main(int argc, char **argv)
{
	struct host host = {0};
	uv_loop_t loop;
	if (argc < 2) {
		fprintf(stderr, "usage: embed_libuv PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	int code = uv_loop_init(&loop);
	if (code == 0)
		code = watch_signal(&loop, &host.interrupt, SIGINT, &host);
	if (code == 0)
		code = watch_signal(&loop, &host.terminate, SIGTERM, &host);
	if (code == 0 && job_open(&host.job, argv + 1)) {
		code = watch_library(&loop, &host);
		if (code == 0)
			uv_run(&loop, UV_RUN_DEFAULT);
	}
	if (code < 0)
		job_fail(&host.job, uv_strerror(code));
	uv_loop_close(&loop);
	job_close(&host.job);
	return host.job.status;
}
