/*
 * A job inside somebody else's event loop. The host here is of the demanding kind: it owns the poll
 * loop, a SIGCHLD handler, and a waitpid(-1) loop that reaps every child of the process. The
 * library needs none of them: its one descriptor stands among the host's, and what it knows of its
 * tasks does not come from waitpid.
 *
 *   embed_poll PROGRAM [ARGUMENT...]       two workers, each running the program
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <tfcluster/tfcluster.h>
#include <unistd.h>

extern char **environ;

struct host {
	tfc_ctx *ctx;
	tfc_node *node;
	tfc_gateway *gateway;
	tfc_sub *sub;
	pid_t own_child; /* the host's own business */
	bool is_own_child_gone;
	bool is_ended;
	int status;
};

/* ---- the host's children: a handler that writes into a pipe, a loop that reaps whatever there is
 */

static int child_pipe[2];

static void on_sigchld(int signal_number)
{
	int saved = errno;
	if (write(child_pipe[1], "", 1) < 0)
		errno = 0; /* full: the loop is told already */
	errno = saved;
}

static int watch_children(void)
{
	struct sigaction action = {.sa_handler = on_sigchld, .sa_flags = SA_RESTART};
	if (pipe2(child_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	return sigaction(SIGCHLD, &action, NULL);
}

static void reap_children(struct host *host)
{
	char drained[64];
	pid_t pid;
	int status;
	while (read(child_pipe[0], drained, sizeof(drained)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != host->own_child) {
			printf("reaped a child that somebody else started\n");
			continue;
		}
		printf("own child exited with %d\n", WEXITSTATUS(status));
		host->is_own_child_gone = true;
	}
}

/* Any long-lived program may fork a helper now and then. */
static pid_t fork_child(struct host *host)
{
	pid_t pid = fork();
	if (pid == 0) {
		tfc_ctx_abandon(host->ctx); /* not inherited: see tfcluster/ctx.h */
		_exit(42);
	}
	return pid;
}

/* ---- the job */

static void fail(struct host *host, const char *text)
{
	fprintf(stderr, "embed_poll: %s\n", text);
	host->status = 1;
	host->is_ended = true;
}

static void on_event(void *user, const tfc_event *event)
{
	struct host *host = user;
	switch (event->kind) {
	case TFC_EVENT_OUTPUT:
		printf("[%s/%u] %.*s\n", event->task_type, event->task_index, (int)event->data_len,
		       event->data);
		break;
	case TFC_EVENT_TASK:
		printf("%s/%u attempt %u is %s\n", event->task_type, event->task_index,
		       event->attempt, tfc_task_state_name(event->task_state));
		break;
	case TFC_EVENT_END:
		printf("job %s: %s %d\n", tfc_job_state_name(event->job_state),
		       tfc_end_reason_name(event->reason), event->status);
		host->status = event->job_state == TFC_JOB_SUCCEEDED ? 0 : 1;
		host->is_ended = true;
		break;
	default:
		break;
	}
}

static void on_submitted(void *user, const tfc_reply *reply)
{
	struct host *host = user;
	if (reply->code < 0)
		fail(host, reply->error->text);
	else if (tfc_gateway_subscribe(host->gateway, reply->text, NULL, on_event, host,
				       &host->sub) < 0)
		fail(host, tfc_ctx_error(host->ctx)->text);
}

static int make_job(char **argv, tfc_error *error, tfc_job **ret_job)
{
	int code = tfc_job_new(ret_job);
	if (code == TFC_OK)
		code = tfc_job_set(*ret_job, "roles.worker.count", "2", error);
	for (; code == TFC_OK && *argv; argv++)
		code = tfc_job_set(*ret_job, "argv[]", *argv, error);
	return code;
}

static int open_library(struct host *host)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	ctx.helper_dir = getenv("TFC_HELPER_DIR"); /* where they are before they are installed */
	node.env = (const char *const *)environ;
	int code = tfc_ctx_new(&ctx, &error, &host->ctx);
	if (code < 0) {
		fail(host, error.text);
		return code;
	}
	code = tfc_node_open(host->ctx, &node, &host->node);
	gateway.node = host->node;
	if (code == TFC_OK)
		code = tfc_gateway_open(host->ctx, &gateway, &host->gateway);
	if (code < 0)
		fail(host, tfc_ctx_error(host->ctx)->text);
	return code;
}

static void submit(struct host *host, char **argv)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = NULL;
	if (make_job(argv, &error, &job) < 0)
		fail(host, error.text);
	else if (tfc_gateway_submit(host->gateway, job, NULL, on_submitted, host, NULL) < 0)
		fail(host, tfc_ctx_error(host->ctx)->text);
	tfc_job_free(job);
}

/* ---- the host's loop */

static void run_loop(struct host *host)
{
	struct pollfd fds[] = {
		{.fd = child_pipe[0], .events = POLLIN},
		{.fd = tfc_ctx_fd(host->ctx), .events = POLLIN},
	};
	while (!host->is_ended || !host->is_own_child_gone) {
		if (poll(fds, 2, -1) < 0)
			continue; /* the handler ran; its byte is in the pipe */
		if (fds[0].revents)
			reap_children(host);
		if (fds[1].revents && tfc_ctx_dispatch(host->ctx, 0) < 0)
			fail(host, tfc_ctx_error(host->ctx)->text);
	}
}

int main(int argc, char **argv)
{
	struct host host = {.status = 1};
	if (argc < 2 || watch_children() < 0) {
		fprintf(stderr, "usage: embed_poll PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (open_library(&host) == TFC_OK) {
		submit(&host, argv + 1);
		host.own_child = fork_child(&host);
		host.is_own_child_gone = host.own_child < 0; /* none to wait for */
		run_loop(&host);
	}
	tfc_sub_close(host.sub);
	tfc_gateway_close(host.gateway);
	tfc_node_close(host.node);
	tfc_ctx_free(host.ctx);
	return host.status;
}
