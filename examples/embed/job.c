#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

void job_fail(struct job *job, const char *text)
{
	fprintf(stderr, "embed: %s\n", text ? text : tfc_ctx_error(job->ctx)->text);
	job->status = 125;
	job->is_over = true;
}

/* ---- events and responses */

static void on_end(struct job *job, const tfc_event *event)
{
	tfc_event end = *event;
	end.size = sizeof(end);
	if (end.reason == TFC_END_STOPPED)
		end.signal = job->signal_number;
	job->status = tfc_event_exit_status(&end);
	printf("job %s: %s, status %d\n", tfc_job_state_name(end.job_state),
	       tfc_end_reason_name(end.reason), job->status);
	job->is_over = true;
}

static void on_event(void *user, const tfc_event *event)
{
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
		on_end(user, event);
		break;
	default:
		break;
	}
}

static void on_stopped(void *user, const tfc_reply *reply)
{
	if (reply->code < 0 && reply->code != TFC_ESTATE) /* the job has already ended */
		job_fail(user, reply->error->text);
}

static void send_stop(struct job *job)
{
	tfc_stop_options options = TFC_STOP_OPTIONS_INIT;
	options.is_kill = job->is_kill;
	if (tfc_gateway_stop(job->gateway, job->id, &options, on_stopped, job, NULL) < 0)
		job_fail(job, NULL);
}

static void on_submitted(void *user, const tfc_reply *reply)
{
	struct job *job = user;
	if (reply->code < 0) {
		job_fail(job, reply->error->text);
		return;
	}
	snprintf(job->id, sizeof(job->id), "%s", reply->text);
	if (job->signal_number)
		send_stop(job);
}

/* ---- for the loops */

void job_stop(struct job *job, int signal_number)
{
	job->is_kill = job->signal_number != 0;
	job->signal_number = signal_number;
	if (job->id[0])
		send_stop(job);
}

static int describe(char *const *argv, tfc_error *error, tfc_job **ret_job)
{
	char *directory = getcwd(NULL, 0);
	int code = tfc_job_new(ret_job);
	if (code == TFC_OK)
		code = tfc_job_set(*ret_job, "roles.worker.count", "2", error);
	for (; code == TFC_OK && *argv; argv++)
		code = tfc_job_set(*ret_job, "argv[]", *argv, error);
	if (code == TFC_OK && directory)
		code = tfc_job_resolve(*ret_job, directory, error);
	free(directory);
	return code;
}

static bool submit(struct job *job, char *const *argv)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *wanted = NULL;
	if (describe(argv, &error, &wanted) < 0)
		job_fail(job, error.text);
	else if (tfc_gateway_run(job->gateway, wanted, NULL, NULL, on_submitted, on_event, job,
				 &job->sub) < 0)
		job_fail(job, NULL);
	tfc_job_free(wanted);
	return !job->is_over;
}

bool job_open(struct job *job, char *const *argv)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	setvbuf(stdout, NULL, _IOLBF, 0);
	ctx.helper_dir = getenv("TFC_HELPER_DIR"); /* for helpers that are not installed yet */
	if (tfc_ctx_new(&ctx, &error, &job->ctx) < 0) {
		job_fail(job, error.text);
		return false;
	}
	node.env = (const char *const *)environ;
	if (tfc_node_open(job->ctx, &node, &job->node) < 0) {
		job_fail(job, NULL);
		return false;
	}
	gateway.node = job->node;
	if (tfc_gateway_open(job->ctx, &gateway, &job->gateway) < 0) {
		job_fail(job, NULL);
		return false;
	}
	return submit(job, argv);
}

void job_close(struct job *job)
{
	tfc_sub_close(job->sub);
	tfc_gateway_close(job->gateway);
	tfc_node_close(job->node);
	tfc_ctx_free(job->ctx);
}
