/* A host somebody else wrote, in C: runs one job to its end and exits with 0 when it succeeded. */
#include <stdio.h>
#include <string.h>
#include <tfcluster/tfcluster.h>

struct run {
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	tfc_sub *sub;
	int is_ended;
	int has_output;
	int state;
};

static void on_event(void *user, const tfc_event *event)
{
	struct run *run = user;
	static const char hello[] = "hello from 0";
	if (event->kind == TFC_EVENT_OUTPUT && event->data_len == sizeof(hello) - 1 &&
	    memcmp(event->data, hello, sizeof(hello) - 1) == 0)
		run->has_output = 1;
	if (event->kind == TFC_EVENT_END) {
		run->state = (int)event->job_state;
		run->is_ended = 1;
	}
}

static void on_reply(void *user, const tfc_reply *reply)
{
	struct run *run = user;
	if (reply->code < 0) {
		fprintf(stderr, "%s\n", reply->error->text);
		run->is_ended = 1;
	}
}

static const char job_text[] = "{\"argv\": [\"/bin/sh\", \"-c\", \"echo hello from {task_index}\"],"
			       " \"roles\": {\"worker\": {}}}";

int main(int argc, char **argv)
{
	struct run run = {0};
	tfc_error error = TFC_ERROR_INIT;
	tfc_node *node = NULL;
	tfc_job *job = NULL;
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_gateway_options gateway_options = TFC_GATEWAY_OPTIONS_INIT;
	options.helper_dir = argc > 1 ? argv[1] : NULL;

	if (tfc_version() != TFC_VERSION_NUMBER)
		return 2;
	if (tfc_ctx_new(&options, &error, &run.ctx) < 0 ||
	    tfc_job_parse(job_text, strlen(job_text), "job.json", &error, &job) < 0) {
		fprintf(stderr, "%s\n", error.text);
		return 3;
	}
	int code = tfc_node_open(run.ctx, NULL, &node);
	gateway_options.node = node;
	if (code == TFC_OK)
		code = tfc_gateway_open(run.ctx, &gateway_options, &run.gateway);
	if (code == TFC_OK)
		code = tfc_gateway_run(run.gateway, job, NULL, NULL, on_reply, on_event, &run,
				       &run.sub);
	while (code >= 0 && !run.is_ended)
		code = tfc_ctx_run(run.ctx, -1);
	if (code < 0)
		fprintf(stderr, "%s\n", tfc_ctx_error(run.ctx)->text);
	tfc_sub_close(run.sub);
	tfc_gateway_close(run.gateway);
	tfc_node_close(node);
	tfc_job_free(job);
	tfc_ctx_free(run.ctx);
	return run.state == TFC_JOB_SUCCEEDED && run.has_output ? 0 : 1;
}
