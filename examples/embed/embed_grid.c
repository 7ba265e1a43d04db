/*
 * Workers next to the data of a host: a toy grid (grid.h) of three nodes, each with its own
 * tfcluster node. The grid reports to the nodes which members exist (a membership), and which of
 * them owns each partition (a resolver); each worker runs on a node that owns partitions and reads
 * them there. Then node c gives up its partitions, and the workers follow.
 *
 *   embed_grid                          three workers that add up their numbers
 *   embed_grid PROGRAM [ARGUMENT...]    or this program, with TFC_PARTITIONS and GRID_DIR
 *
 * In a real grid each node is in its own process and has a tcp address; here all three are in one
 * process and use "memory:" addresses.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tfcluster/backend.h>
#include <tfcluster/tfcluster.h>

#include "grid.h"

extern char **environ;

/* The second attempt, after the move, ends by itself. */
static const char worker[] =
	"sum=0; for p in $(echo $TFC_PARTITIONS | tr , ' '); do for n in $(cat $GRID_DIR/$p); do "
	"sum=$((sum + n)); done; done; echo \"$TFC_PARTITIONS on $GRID_NODE: $sum\"; "
	"[ $TFC_ATTEMPT -gt 1 ] || exec sleep 60";

struct host {
	struct grid grid;
	tfc_ctx *ctx;
	tfc_node *nodes[GRID_NODES];
	tfc_gateway *gateway; /* of the first node */
	tfc_sub *sub;
	uint32_t outputs; /* first lines of first attempts */
	bool is_over;
	int status; /* the exit status of the program */
};

static void fail(struct host *host, const char *text)
{
	fprintf(stderr, "embed_grid: %s\n", text ? text : tfc_ctx_error(host->ctx)->text);
	host->status = 125;
	host->is_over = true;
}

/* ---- what the grid reports to the library */

static void address_of(uint32_t node, char ret_address[32])
{
	snprintf(ret_address, 32, "memory:grid-%s", grid_node_name(node));
}

/* The members. A real grid would continue with its topology events. */
static int start_membership(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error)
{
	int code = 0;
	(void)user;
	for (uint32_t i = 0; i < GRID_NODES && code == 0; i++) {
		char address[32];
		tfc_member_info info = TFC_MEMBER_INFO_INIT;
		address_of(i, address);
		info.name = grid_node_name(i);
		info.address = address;
		info.slots = 4;
		code = tfc_membership_put(membership, &info);
	}
	if (code < 0)
		*error = *tfc_ctx_error(ctx);
	return code;
}

static void stop_membership(void *user, tfc_membership *membership)
{
	(void)user;
	(void)membership;
}

/* The owners of the partitions. */
static void resolve(void *user, const char *upstream, tfc_upstream_request *question)
{
	const struct host *host = user;
	const struct grid *grid = &host->grid;
	if (strcmp(upstream, "grid") != 0) {
		tfc_upstream_fail(question, "there is only the grid");
		return;
	}
	for (uint32_t i = 0; i < GRID_PARTITIONS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "p%u", i);
		tfc_upstream_add_partition(question, name, grid_node_name(grid->owners[i]));
	}
	for (uint32_t i = 0; i < GRID_NODES; i++) {
		char dir[320];
		grid_node_dir(grid, i, dir, sizeof(dir));
		tfc_upstream_add_env(question, grid_node_name(i), "GRID_NODE", grid_node_name(i));
		tfc_upstream_add_env(question, grid_node_name(i), "GRID_DIR", dir);
	}
	tfc_upstream_complete(question, grid->version);
}

/* Nothing to cancel: every request is answered inside resolve. */
static void cancel(void *user, tfc_upstream_request *question)
{
	(void)user;
	(void)question;
}

/* Takes node c out of service. */
static void rebalance(struct host *host)
{
	printf("the grid moves the partitions of c to a and b\n");
	for (uint32_t i = 0; i < GRID_PARTITIONS; i++)
		if (host->grid.owners[i] == 2 && !grid_move(&host->grid, i, i % 2))
			fail(host, strerror(errno));
	for (uint32_t i = 0; i < GRID_NODES; i++)
		tfc_node_upstream_changed(host->nodes[i], "grid", host->grid.version);
}

/* ---- events of the library */

static void on_output(struct host *host, const tfc_event *event)
{
	printf("[worker/%u] %.*s\n", event->task_index, (int)event->data_len, event->data);
	if (event->attempt == 1 && ++host->outputs == 3)
		rebalance(host);
}

static void on_event(void *user, const tfc_event *event)
{
	struct host *host = user;
	switch (event->kind) {
	case TFC_EVENT_OUTPUT:
		on_output(host, event);
		break;
	case TFC_EVENT_JOB:
		if (event->text && *event->text)
			printf("job: %s\n", event->text);
		break;
	case TFC_EVENT_END:
		printf("job %s\n", tfc_job_state_name(event->job_state));
		host->status = tfc_event_exit_status(event);
		host->is_over = true;
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
}

/* ---- setup */

static int open_node(struct host *host, uint32_t number)
{
	static const tfc_upstream_ops upstream = {sizeof(upstream), 0, resolve, cancel};
	static const tfc_membership_ops membership = {sizeof(membership), 0, start_membership,
						      stop_membership};
	char address[32];
	const char *listen[] = {address, NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	address_of(number, address);
	options.name = grid_node_name(number);
	options.env = (const char *const *)environ;
	options.listen = listen;
	options.temp_dir = getenv("TMPDIR");
	options.membership = &membership;
	options.upstream = &upstream;
	options.upstream_impl = host;
	return tfc_node_open(host->ctx, &options, &host->nodes[number]);
}

static int make_job(char *const *argv, tfc_error *error, tfc_job **ret_job)
{
	static const char *const keys[][2] = {
		{"framework", "none"},          {"success", "all_workers"},
		{"roles.worker.count", "3"},    {"placement.policy", "upstream"},
		{"placement.upstream", "grid"}, {"placement.on_upstream_change", "restart"},
		{"abort_grace_s", "0.1"},
	};
	static const char *const script[] = {"sh", "-c", worker, NULL};
	const char *const *program = *argv ? (const char *const *)argv : script;
	int code = tfc_job_new(ret_job);
	for (size_t i = 0; code == 0 && i < sizeof(keys) / sizeof(keys[0]); i++)
		code = tfc_job_set(*ret_job, keys[i][0], keys[i][1], error);
	for (; code == 0 && *program; program++)
		code = tfc_job_set(*ret_job, "argv[]", *program, error);
	return code;
}

static void submit(struct host *host, char *const *argv)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job = NULL;
	if (make_job(argv, &error, &job) < 0)
		fail(host, error.text);
	else if (tfc_gateway_run(host->gateway, job, NULL, NULL, on_submitted, on_event, host,
				 &host->sub) < 0)
		fail(host, NULL);
	tfc_job_free(job);
}

static void open_host(struct host *host, char *const *argv)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	ctx.helper_dir = getenv("TFC_HELPER_DIR"); /* for helpers that are not installed yet */
	const char *parent = getenv("TMPDIR");
	if (!grid_open(&host->grid, parent ? parent : "/tmp")) {
		fail(host, strerror(errno));
		return;
	}
	if (tfc_ctx_new(&ctx, &error, &host->ctx) < 0) {
		fail(host, error.text);
		return;
	}
	for (uint32_t i = 0; i < GRID_NODES; i++)
		if (open_node(host, i) < 0) {
			fail(host, NULL);
			return;
		}
	gateway.node = host->nodes[0];
	if (tfc_gateway_open(host->ctx, &gateway, &host->gateway) < 0)
		fail(host, NULL);
	else
		submit(host, argv);
}

static void close_host(struct host *host)
{
	tfc_sub_close(host->sub);
	tfc_gateway_close(host->gateway);
	for (uint32_t i = 0; i < GRID_NODES; i++)
		tfc_node_close(host->nodes[i]);
	tfc_ctx_free(host->ctx);
	grid_close(&host->grid);
}

int main(int argc, char **argv)
{
	struct host host = {.is_over = false};
	(void)argc;
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_host(&host, argv + 1);
	while (!host.is_over)
		if (tfc_ctx_run(host.ctx, -1) < 0)
			fail(&host, NULL);
	close_host(&host);
	return host.status;
}
