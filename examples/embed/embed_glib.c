/*
 * A job inside a GLib main loop: one source for the library, one each for SIGINT and SIGTERM.
 *
 *   embed_glib PROGRAM [ARGUMENT...]       two workers, each running the program
 *   embed_glib python3 examples/tensorflow/mirrored.py
 *
 * GLib polls level-triggered, which suits the descriptor. GTK and GNOME programs, QEMU and
 * NetworkManager already have such a loop: they only add the three sources.
 */
#include <glib-unix.h>
#include <glib.h>
#include <stdio.h>

#include "job.h"

struct host {
	struct job job;
	GMainLoop *loop;
};

static void quit_if_over(struct host *host)
{
	if (host->job.is_over)
		g_main_loop_quit(host->loop);
}

static gboolean on_readable(gint fd, GIOCondition condition, gpointer user)
{
	struct host *host = user;
	if (tfc_ctx_dispatch(host->job.ctx, 0) < 0)
		job_fail(&host->job, NULL);
	quit_if_over(host);
	return G_SOURCE_CONTINUE;
}

static gboolean on_interrupt(gpointer user)
{
	struct host *host = user;
	job_stop(&host->job, SIGINT);
	quit_if_over(host);
	return G_SOURCE_CONTINUE;
}

static gboolean on_terminate(gpointer user)
{
	struct host *host = user;
	job_stop(&host->job, SIGTERM);
	quit_if_over(host);
	return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv)
{
	struct host host = {.loop = g_main_loop_new(NULL, FALSE)};
	if (argc < 2) {
		fprintf(stderr, "usage: embed_glib PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	g_unix_signal_add(SIGINT, on_interrupt, &host);
	g_unix_signal_add(SIGTERM, on_terminate, &host);
	if (job_open(&host.job, argv + 1)) {
		guint library = g_unix_fd_add(tfc_ctx_fd(host.job.ctx), G_IO_IN, on_readable,
					      &host);
		g_main_loop_run(host.loop);
		g_source_remove(library); /* before the descriptor is closed */
	}
	g_main_loop_unref(host.loop);
	job_close(&host.job);
	return host.job.status;
}
