/* node: two nodes with gossip, which connect when something needs it and disconnect when idle. The
 * timer of an idle connection is not waited for: it is run by hand. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gossip_member.h"
#include "leaks.h"
#include "node/internal.h"
#include "proc_run.h"
#include "sockets.h"
#include <tfcluster/tfcluster.h>

#define PATIENCE (30 * TFC__SECOND)

struct pair {
	tfc_ctx *ctx;
	tfc_node *a, *b;
	struct tfc__node_peer *peer; /* b, as a knows it */
};

static void turn(const struct pair *pair, uint64_t end)
{
	assert_true(tfc__now() < end);
	assert_true(tfc_ctx_run(pair->ctx, 100) >= 0);
}

static tfc_node *open_node(tfc_ctx *ctx, const char *name, int port, int seed_port)
{
	char own[40], seed[40];
	const char *const join[] = {seed, NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_node *node;
	snprintf(own, sizeof(own), "%s:%d", gossip_member_host(), port);
	snprintf(seed, sizeof(seed), "%s:%d", gossip_member_host(), seed_port);
	options.name = name;
	options.temp_dir = leaks_temp_dir();
	options.gossip = own;
	options.join = seed_port ? join : NULL;
	if (tfc_node_open(ctx, &options, &node) < 0)
		fail_msg("%s", tfc_ctx_error(ctx)->text);
	return node;
}

static uint32_t state_of(const tfc_node *node, const char *name)
{
	const struct tfc__member *member = tfc__members_find(node->members, name);
	return member ? member->state : TFC_MEMBER_DOWN;
}

/* Alive, and the connections of the node know it. */
static bool is_known(const tfc_node *node, const char *name)
{
	return state_of(node, name) == TFC_MEMBER_ALIVE && tfc__peers_find(node->peers, name);
}

static void begin(struct pair *pair)
{
	assert_int_equal(proc_ctx_new(&pair->ctx), TFC_OK);
	pair->a = open_node(pair->ctx, "a", 7001, 0);
	pair->b = open_node(pair->ctx, "b", 7002, 7001);
	for (uint64_t end = tfc__now() + PATIENCE;
	     !is_known(pair->a, "b") || !is_known(pair->b, "a");)
		turn(pair, end);
	pair->peer = tfc__peers_find(pair->a->peers, "b");
}

static void end(struct pair *pair)
{
	tfc_node_close(pair->b);
	tfc_node_close(pair->a);
	tfc_ctx_free(pair->ctx);
}

/* ---- what needs the connection */

struct request {
	struct tfc__member_wait wait;
	bool is_over;
	struct tfc__rpc *rpc;
	tfc_error why;
};

static void on_connected(struct tfc__member_wait *wait, struct tfc__rpc *rpc, const tfc_error *why)
{
	struct request *request = tfc__container_of(wait, struct request, wait);
	assert_false(request->is_over);
	request->is_over = true;
	request->rpc = rpc;
	if (!rpc)
		request->why = *why;
}

static void connect_and_wait(const struct pair *pair, struct request *request)
{
	*request = (struct request){.wait.fn = on_connected};
	tfc__list_init(&request->wait.link);
	tfc__node_peer_connect(pair->peer, &request->wait);
	for (uint64_t end = tfc__now() + PATIENCE; !request->is_over;)
		turn(pair, end);
}

static void connect_successfully(const struct pair *pair, struct request *request)
{
	connect_and_wait(pair, request);
	if (!request->rpc)
		fail_msg("%s", request->why.text);
}

/* As when the timer of the idle connection has fired and found it unused: node.idle is sent. */
static void begin_to_close(const struct pair *pair)
{
	assert_true(pair->peer->idle.at);
	while (!pair->peer->idle_call) /* in the second turn: what was sent before is noticed */
		tfc__node_peer_on_idle(&pair->peer->idle);
}

static void await_idle_response(const struct pair *pair)
{
	for (uint64_t end = tfc__now() + PATIENCE; pair->peer->idle_call;)
		turn(pair, end);
}

static void close_when_idle(const struct pair *pair)
{
	begin_to_close(pair);
	await_idle_response(pair);
	assert_false(pair->peer->is_up);
	assert_null(pair->peer->dialed);
	const struct tfc__node_peer *other = tfc__peers_find(pair->b->peers, "a");
	for (uint64_t end = tfc__now() + PATIENCE; other->callers;)
		turn(pair, end);
	/* its end was no evidence */
	assert_int_equal(state_of(pair->b, "a"), TFC_MEMBER_ALIVE);
	assert_null(other->dialed);
}

static void idle_nodes_are_not_connected_and_connect_again(void **state)
{
	struct pair pair = {NULL};
	struct request request;
	begin(&pair);
	for (int i = 0; i < 2; i++) {
		assert_null(pair.peer->dialed);
		connect_successfully(&pair, &request);
		close_when_idle(&pair);
	}
	end(&pair);
}

static void on_response(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	*(int *)user = code;
}

static void a_request_sent_while_the_connection_closes_is_answered(void **state)
{
	struct pair pair = {NULL};
	struct request request;
	struct tfc__rpc_call *call;
	int code = 1;
	const struct tfc__rpc_options options = {.method = "node.ping",
						 .end = on_response,
						 .user = &code};
	begin(&pair);
	connect_successfully(&pair, &request);
	begin_to_close(&pair);
	connect_successfully(&pair, &request); /* at once: it is still connected */
	assert_int_equal(tfc__rpc_call(request.rpc, &options, NULL, &call), TFC_OK);
	uint64_t until = tfc__now() + PATIENCE;
	while (code > 0)
		turn(&pair, until);
	assert_int_equal(code, TFC_OK);
	await_idle_response(&pair);
	assert_true(pair.peer->is_up);
	close_when_idle(&pair); /* later */
	end(&pair);
}

/* Nothing acknowledges a notification: the connection must not be closed behind it. */
static void a_notification_sent_while_the_connection_closes_keeps_it_open(void **state)
{
	struct pair pair = {NULL};
	struct request request;
	begin(&pair);
	connect_successfully(&pair, &request);
	begin_to_close(&pair);
	assert_int_equal(tfc__rpc_notify(request.rpc, "node.state", NULL), TFC_OK);
	await_idle_response(&pair);
	assert_true(pair.peer->is_up);
	close_when_idle(&pair);
	end(&pair);
}

static void a_connection_that_is_kept_is_not_closed(void **state)
{
	struct pair pair = {NULL};
	struct request request;
	begin(&pair);
	tfc__node_peer_keep(pair.peer, true);
	connect_successfully(&pair, &request);
	for (int i = 0; i < 3; i++)
		tfc__node_peer_on_idle(&pair.peer->idle);
	assert_null(pair.peer->idle_call);
	tfc__node_peer_keep(pair.peer, false);
	begin_to_close(&pair);
	tfc__node_peer_keep(pair.peer, true); /* while it closes */
	await_idle_response(&pair);
	assert_true(pair.peer->is_up);
	tfc__node_peer_keep(pair.peer, false);
	close_when_idle(&pair);
	end(&pair);
}

/* A member that is suspect only here may be alive. */
static void a_suspect_member_is_dialed(void **state)
{
	struct pair pair = {NULL};
	struct request request;
	begin(&pair);
	for (uint64_t end = tfc__now() + PATIENCE;
	     pair.peer->member->state != TFC_MEMBER_SUSPECT;) {
		tfc__node_peer_unreached(pair.peer);
		turn(&pair, end);
	}
	connect_successfully(&pair, &request);
	end(&pair);
}

static void whoever_cannot_connect_is_told_why(void **state)
{
	struct pair pair = {NULL};
	struct request request;
	begin(&pair);
	connect_successfully(&pair, &request);
	close_when_idle(&pair);
	tfc_node_close(pair.b); /* as a process that is killed */
	pair.b = NULL;
	connect_and_wait(&pair, &request);
	assert_null(request.rpc);
	if (!strstr(request.why.text, "connection refused") &&
	    !strstr(request.why.text, "Connection refused"))
		fail_msg("%s", request.why.text);
	for (uint64_t end = tfc__now() + PATIENCE; state_of(pair.a, "b") != TFC_MEMBER_DOWN;)
		turn(&pair, end);
	connect_and_wait(&pair, &request);
	assert_null(request.rpc);
	assert_string_equal(request.why.text, "it is down");
	end(&pair);
}

/* A process that is killed may accept a connection while it ends. */
static void a_dial_that_is_cut_off_is_repeated_until_it_shows_the_state(void **state)
{
	const struct linger at_once = {1, 0};
	struct pair pair = {NULL};
	begin(&pair);
	tfc_node_close(pair.b);
	pair.b = NULL;
	int listener = test_listen(gossip_member_host(), 7002, TEST_REUSEADDR), accepted = -1;
	assert_true(listener >= 0);
	assert_int_equal(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	tfc__node_peer_dial(pair.peer); /* as for evidence: nothing needs it */
	for (uint64_t end = tfc__now() + PATIENCE; accepted < 0;) {
		turn(&pair, end);
		accepted = accept(listener, NULL, NULL);
	}
	assert_int_equal(state_of(pair.a, "b"), TFC_MEMBER_ALIVE);
	close(listener);
	setsockopt(accepted, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(accepted);
	uint64_t began = tfc__now();
	while (state_of(pair.a, "b") != TFC_MEMBER_DOWN)
		turn(&pair, began + PATIENCE);
	assert_true(tfc__now() - began < TFC__SECOND); /* probes take longer */
	end(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_nodes_are_not_connected_and_connect_again),
		cmocka_unit_test(a_request_sent_while_the_connection_closes_is_answered),
		cmocka_unit_test(a_notification_sent_while_the_connection_closes_keeps_it_open),
		cmocka_unit_test(a_connection_that_is_kept_is_not_closed),
		cmocka_unit_test(a_suspect_member_is_dialed),
		cmocka_unit_test(whoever_cannot_connect_is_told_why),
		cmocka_unit_test(a_dial_that_is_cut_off_is_repeated_until_it_shows_the_state),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
