/*
 * How fast one subscriber receives the output of a job that has ended; prints MB/s and lines/s.
 *
 *   subscribe local HELPERS MEGABYTES      in the process of the node
 *   subscribe ADDRESS KEY JOB              from a node elsewhere; KEY "-": none
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tfcluster/tfcluster.h>

struct reported {
	char job[64];
	double bytes, lines;
	int is_over;
};

static void die(const char *what)
{
	fprintf(stderr, "subscribe: %s\n", what);
	exit(1);
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void on_event(void *user, const tfc_event *event)
{
	struct reported *reported = user;
	if (event->kind == TFC_EVENT_LOST)
		die(event->text);
	if (event->kind == TFC_EVENT_GAP)
		die("output was rotated away");
	reported->is_over |= event->kind == TFC_EVENT_END;
	if (event->kind == TFC_EVENT_OUTPUT) {
		reported->bytes += (double)event->data_len + 1;
		reported->lines++;
	}
}

static void follow(tfc_ctx *ctx, tfc_gateway *gateway, const char *job, int is_quiet,
		   struct reported *reported)
{
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	tfc_sub *sub = NULL;
	options.skip_output = (uint32_t)is_quiet;
	if (tfc_gateway_subscribe(gateway, job, &options, on_event, reported, &sub) < 0)
		die(tfc_ctx_error(ctx)->text);
	while (!reported->is_over)
		tfc_ctx_run(ctx, -1);
	tfc_sub_close(sub);
}

static void on_submitted(void *user, const tfc_reply *reply)
{
	if (reply->code < 0)
		die(reply->error->text);
	snprintf(user, 64, "%s", reply->text);
}

/* Lines of 100 bytes. */
static void run_job(tfc_ctx *ctx, tfc_gateway *gateway, const char *megabytes, char job[64])
{
	char json[512];
	tfc_job *parsed = NULL;
	struct reported reported = {.bytes = 0};
	snprintf(json, sizeof(json),
		 "{\"framework\":\"none\",\"argv\":[\"/bin/sh\",\"-c\",\"head -c %s000000 "
		 "/dev/zero | "
		 "tr '\\\\000' x | fold -w 99\"],\"roles\":{\"worker\":{}}}",
		 megabytes);
	if (tfc_job_parse(json, strlen(json), NULL, NULL, &parsed) < 0 ||
	    tfc_gateway_submit(gateway, parsed, NULL, on_submitted, job, NULL) < 0)
		die("the job was refused");
	tfc_job_free(parsed);
	while (!job[0])
		tfc_ctx_run(ctx, -1);
	follow(ctx, gateway, job, 1, &reported);
}

int main(int argc, char **argv)
{
	char job[64] = "";
	struct reported reported = {.bytes = 0};
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx = NULL;
	tfc_node *node = NULL;
	tfc_gateway *gateway = NULL;
	tfc_ctx_options context = TFC_CTX_OPTIONS_INIT;
	tfc_node_options place = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
	if (argc != 4)
		die("usage: subscribe local HELPERS MEGABYTES | ADDRESS KEY JOB");
	int is_local = strcmp(argv[1], "local") == 0;
	context.helper_dir = is_local ? argv[2] : NULL;
	place.env = env;
	if (tfc_ctx_new(&context, &error, &ctx) < 0)
		die(error.text);
	if (is_local && tfc_node_open(ctx, &place, &node) < 0)
		die(tfc_ctx_error(ctx)->text);
	options.node = node;
	options.address = is_local ? NULL : argv[1];
	options.key_file = is_local || strcmp(argv[2], "-") == 0 ? NULL : argv[2];
	if (tfc_gateway_open(ctx, &options, &gateway) < 0)
		die(tfc_ctx_error(ctx)->text);
	if (is_local)
		run_job(ctx, gateway, argv[3], job);
	else
		snprintf(job, sizeof(job), "%s", argv[3]);
	double begin = now_s();
	follow(ctx, gateway, job, 0, &reported);
	double took = now_s() - begin;
	printf("%.1f %.0f\n", reported.bytes / took / 1e6, reported.lines / took);
	tfc_gateway_close(gateway);
	tfc_node_close(node);
	tfc_ctx_free(ctx);
	return 0;
}
