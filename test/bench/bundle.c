/*
 * How long a bundle takes to a task on another node, and the longest turn of a loop meanwhile:
 *
 *   bundle DIR HELPERS PROGRAM ADDRESS ADDRESS     the directory PROGRAM is the bundle; DIR is for
 *                                                  what is made; each node has an address
 *
 * Two nodes in one process, over TCP. Prints milliseconds from the submit to the end of a task that
 * does nothing – packed, hashed, sent, hashed, unpacked –, and those of the longest
 * tfc_ctx_dispatch, in which both nodes work.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tfcluster/tfcluster.h>

#define PATIENCE_MS 120000

struct bench {
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	tfc_sub *sub;
	int is_over;
	int has_failed;
	double longest;
	double longest_cpu; /* of CPU time, which other programs do not lengthen */
};

static double clock_ms(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double now_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

static void die(const char *what)
{
	fprintf(stderr, "bundle: %s\n", what);
	exit(1);
}

static tfc_node *open_node(struct bench *bench, const char *name, const char *members,
			   const char *temp_dir)
{
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_node *node;
	options.name = name;
	options.members_file = members;
	options.temp_dir = temp_dir;
	if (tfc_node_open(bench->ctx, &options, &node) < 0)
		die(tfc_ctx_error(bench->ctx)->text);
	return node;
}

static void on_event(void *user, const tfc_event *event)
{
	struct bench *bench = user;
	if (event->kind != TFC_EVENT_END)
		return;
	bench->is_over = 1;
	bench->has_failed = event->reason != TFC_END_EXIT || event->exit_code != 0;
}

static void on_submit(void *user, const tfc_reply *reply)
{
	struct bench *bench = user;
	if (reply->code < 0)
		die(reply->error->text);
	if (tfc_gateway_subscribe(bench->gateway, reply->text, NULL, on_event, bench, &bench->sub) <
	    0)
		die(tfc_ctx_error(bench->ctx)->text);
}

static void submit(struct bench *bench, const char *program)
{
	char json[4096];
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job;
	snprintf(json, sizeof(json),
		 "{\"argv\": [\"/bin/true\"], \"bundle\": \"%s\", \"framework\": \"none\", "
		 "\"placement\": {\"labels\": {\"who\": \"other\"}}, \"roles\": {\"worker\": {}}}",
		 program);
	if (tfc_job_parse(json, strlen(json), "job", &error, &job) < 0)
		die(error.text);
	if (tfc_gateway_submit(bench->gateway, job, NULL, on_submit, bench, NULL) < 0)
		die(tfc_ctx_error(bench->ctx)->text);
	tfc_job_free(job);
}

/* One turn at a time: tfc_ctx_run would hide how long each takes. */
static void run(struct bench *bench)
{
	struct pollfd ready = {.fd = tfc_ctx_fd(bench->ctx), .events = POLLIN};
	for (double end = now_ms() + PATIENCE_MS; !bench->is_over;) {
		double begin = now_ms(), cpu = clock_ms(CLOCK_THREAD_CPUTIME_ID);
		if (begin > end)
			die("it takes too long");
		if (tfc_ctx_dispatch(bench->ctx, 0) < 0)
			die(tfc_ctx_error(bench->ctx)->text);
		double took = now_ms() - begin;
		bench->longest = took > bench->longest ? took : bench->longest;
		took = clock_ms(CLOCK_THREAD_CPUTIME_ID) - cpu;
		bench->longest_cpu = took > bench->longest_cpu ? took : bench->longest_cpu;
		poll(&ready, 1, 1000);
	}
}

static void write_members(const char *path, const char *first, const char *second)
{
	FILE *file = fopen(path, "we");
	if (!file || fprintf(file,
			     "{\"members\": [{\"name\": \"one\", \"address\": \"%s\"}, {\"name\": "
			     "\"other\", \"address\": \"%s\", \"labels\": {\"who\": \"other\"}}]}",
			     first, second) < 0)
		die("the members cannot be written");
	fclose(file);
}

int main(int argc, char **argv)
{
	struct bench bench = {0};
	char members[4096];
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	if (argc != 6)
		die("DIR HELPERS PROGRAM ADDRESS ADDRESS");
	options.helper_dir = argv[2];
	snprintf(members, sizeof(members), "%s/members", argv[1]);
	write_members(members, argv[4], argv[5]);
	if (tfc_ctx_new(&options, NULL, &bench.ctx) < 0)
		die("no context");
	tfc_node *one = open_node(&bench, "one", members, argv[1]);
	tfc_node *other = open_node(&bench, "other", members, argv[1]);
	gateway.node = one;
	if (tfc_gateway_open(bench.ctx, &gateway, &bench.gateway) < 0)
		die(tfc_ctx_error(bench.ctx)->text);
	double begin = now_ms();
	submit(&bench, argv[3]);
	run(&bench);
	if (bench.has_failed)
		die("the job has failed");
	printf("%.1f %.2f %.2f\n", now_ms() - begin, bench.longest, bench.longest_cpu);
	tfc_sub_close(bench.sub);
	tfc_gateway_close(bench.gateway);
	tfc_node_close(other);
	tfc_node_close(one);
	tfc_ctx_free(bench.ctx);
	return 0;
}
