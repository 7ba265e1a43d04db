/*
 * One process that is one node with gossip and nothing else, with the face of memberlist/main.go:
 * what gossip.py starts many of.
 *
 *   gossip HELPERS KEY STATE NAME PORT
 *
 * KEY is a key file; the node keeps its state in STATE/NAME. It begins when a line
 * with the port of a member to join comes in (0: none), and ends when its standard input ends. It
 * prints a line for each event, with the CLOCK_MONOTONIC in nanoseconds:
 *
 *   123 BY EVENT NAME
 *
 * EVENT: started, ready (of itself); alive, suspect, dead, left (of others).
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tfcluster/tfcluster.h>

static void die(const char *what)
{
	fprintf(stderr, "gossip: %s\n", what);
	exit(1);
}

/* One write per line: all members of a fleet share a pipe. */
static void emit(const char *by, const char *event, const char *name)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	printf("%lld %s %s %s\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec, by, event,
	       name);
	fflush(stdout);
}

static void on_member(void *user, uint32_t change, const tfc_member_info *member)
{
	static const char *const events[] = {
		[TFC_MEMBER_ALIVE] = "alive",
		[TFC_MEMBER_SUSPECT] = "suspect",
		[TFC_MEMBER_DOWN] = "dead",
		[TFC_MEMBER_LEFT] = "left",
	};
	if (!member->is_self && change != TFC_MEMBER_EVENT_REMOVED)
		emit(user, events[member->state], member->name);
}

int main(int argc, char **argv)
{
	char line[16], seed[32], own[32], state[4096];
	const char *const seeds[] = {seed, NULL};
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options context = TFC_CTX_OPTIONS_INIT;
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_ctx *ctx = NULL;
	tfc_node *node = NULL;
	tfc_member_watch *watch = NULL;
	if (argc != 6)
		die("usage: gossip HELPERS KEY STATE NAME PORT");
	char *name = argv[4];
	context.helper_dir = argv[1];
	emit(name, "started", name);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	snprintf(seed, sizeof(seed), "127.0.0.1:%d", atoi(line));
	snprintf(own, sizeof(own), "127.0.0.1:%s", argv[5]);
	snprintf(state, sizeof(state), "%s/%s", argv[3], name);
	options.name = name;
	options.key_file = argv[2];
	options.state_dir = state;
	options.temp_dir = argv[3];
	options.gossip = own;
	options.join = atoi(line) ? seeds : NULL;
	if (tfc_ctx_new(&context, &error, &ctx) < 0)
		die(error.text);
	if (tfc_node_open(ctx, &options, &node) < 0 ||
	    tfc_member_watch_open(node, on_member, name, &watch) < 0)
		die(tfc_ctx_error(ctx)->text);
	emit(name, "ready", name);
	struct pollfd wait[] = {{tfc_ctx_fd(ctx), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
	do {
		poll(wait, 2, -1);
		tfc_ctx_dispatch(ctx, 0);
	} while (!wait[1].revents);
	tfc_ctx_free(ctx);
	return 0;
}
