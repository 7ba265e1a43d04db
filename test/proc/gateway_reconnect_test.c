/* gateway: a subscription to a job that reports nothing, whose connection is lost again and again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "gateway/event_wire.h"
#include "node_run.h"
#include "rpc_pair.h"
#include "served.h"

#define RECONNECT_MS 400
#define JOB "0123456789abcdef" /* of the member */

/* ---- a member that has a job; played, in the same context */

static struct home {
	struct rpc_pair pair;
	bool is_silent; /* it does not respond to a subscription */
	bool is_unreachable;
	uint32_t subscriptions; /* requested so far */
} home;

static void on_cancel(void *user)
{
	tfc__rpc_reply(user, NULL);
}

static void serve(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		  const msgpack_object *params)
{
	struct tfc__buf buf = {0};
	if (strcmp(method, "gateway.find") == 0) {
		tfc__msg_map(&buf, 2);
		tfc__msg_put_str(&buf, "prefix", JOB);
		tfc__msg_put_u64(&buf, "prefixes", 1);
		tfc__rpc_reply(request, &buf);
	} else if (strcmp(method, "gateway.hello") == 0) {
		tfc__rpc_reply(request, NULL);
	} else {
		static const tfc_event head = {.job = JOB, .name = "", .host_tag = ""};
		struct tfc__sub_item item = {.count = 0};
		assert_string_equal(method, "gateway.subscribe");
		home.subscriptions++;
		tfc__rpc_watch(request, NULL, on_cancel, request);
		tfc__sub_item_confirm(&item, &head);
		assert_int_equal(tfc__sub_item_write(&item, &buf), TFC_OK);
		tfc__sub_item_fini(&item);
		if (!home.is_silent)
			assert_int_equal(tfc__rpc_item(request, &buf), TFC_OK);
	}
	tfc__buf_fini(&buf);
}

static bool next(void *user, struct tfc__gateway_member *member)
{
	bool is_first = !member->place;
	member->name = "home";
	member->place = &home;
	return is_first && (home.pair.ends[0].rpc || home.is_unreachable);
}

static void connect_to(void *user, const char *node, struct tfc__member_wait *wait)
{
	static const tfc_error why = {.code = TFC_ELOST, .text = "no connection"};
	wait->fn(wait, home.is_unreachable ? NULL : home.pair.ends[0].rpc, &why);
}

static bool are_joining(void *user)
{
	return false;
}

static const struct tfc__gateway_members_ops members = {.next = next,
							.are_joining = are_joining,
							.connect = connect_to};

/* ---- the client */

struct client {
	tfc_gateway *gateway;
	tfc_sub *sub;
	bool is_live;
	bool is_ended;
	bool is_lost;
	bool is_reconnecting;
	uint32_t reconnected; /* how many times */
	char text[256];       /* of the last RECONNECTING */
	char node[64];
};

static void on_event(void *user, const tfc_event *event)
{
	struct client *client = user;
	client->is_live |= event->kind == TFC_EVENT_LIVE;
	client->is_ended |= event->kind == TFC_EVENT_END;
	client->is_lost |= event->kind == TFC_EVENT_LOST;
	if (event->kind == TFC_EVENT_RECONNECTED) {
		assert_true(client->is_reconnecting);
		assert_string_equal(event->job, JOB);
		client->is_reconnecting = false;
		client->reconnected++;
	}
	if (event->kind != TFC_EVENT_RECONNECTING)
		return;
	assert_string_equal(event->job, JOB);
	assert_int_equal(event->error_code, TFC_ELOST);
	client->is_reconnecting = true;
	snprintf(client->text, sizeof(client->text), "%s", event->text);
	snprintf(client->node, sizeof(client->node), "%s", event->node);
}

static void subscribe(struct node_run *run, const char *job, struct client *client)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_subscribe_options subscribe = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.address = served_address(run->served);
	options.reconnect_ms = RECONNECT_MS;
	subscribe.wants_live = 1;
	subscribe.wants_reconnects = strcmp(job, JOB) == 0;
	assert_int_equal(tfc_gateway_open(run->ctx, &options, &client->gateway), 0);
	assert_int_equal(tfc_gateway_subscribe(client->gateway, job, &subscribe, on_event, client,
					       &client->sub),
			 0);
}

/* Loses the connection, and dispatches for longer than reconnect_ms. */
static void cut_for_long(struct node_run *run)
{
	uint64_t begun = tfc__now();
	assert_true(served_cut(run->served) > 0);
	while (tfc__now() < begun + (RECONNECT_MS + 50) * TFC__MS)
		assert_true(tfc_ctx_run(run->ctx, 20) >= 0);
}

static void unsubscribe(struct client *client)
{
	tfc_sub_close(client->sub);
	tfc_gateway_close(client->gateway);
}

/* ---- tests */

static bool is_live(void *user)
{
	return ((struct client *)user)->is_live;
}

static bool is_ended(void *user)
{
	return ((struct client *)user)->is_ended;
}

static void a_silent_job_may_lose_its_connection_again_and_again(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct client client = {NULL};
	node_run_begin_served(&run, NULL);
	char *json = node_script(1, "exec sleep 100");
	node_start(&run, json, &follower);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 1);
	subscribe(&run, follower.job, &client);
	node_await(&run, is_live, &client, "LIVE");
	for (int i = 0; i < 3; i++)
		cut_for_long(&run);
	assert_false(client.is_lost);
	node_stop(&run, follower.job, true);
	node_await(&run, is_ended, &client, "END");
	assert_false(client.is_lost);
	unsubscribe(&client);
	node_await_end(&run, &follower);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
}

static void begin_with_home(struct node_run *run, struct client *client)
{
	const struct tfc__gateway_service_options options = {
		.submit_uid = UINT32_MAX,
		.members = {.ops = &members},
	};
	home = (struct home){.subscriptions = 0};
	node_run_begin_served(run, &options);
	assert_int_equal(rpc_pair_open(&home.pair, run->ctx), TFC_OK);
	home.pair.ends[1].serve = serve;
	subscribe(run, JOB, client);
	while (!home.subscriptions)
		assert_true(tfc_ctx_run(run->ctx, 10000) >= 0);
}

static void end_with_home(struct node_run *run, struct client *client)
{
	unsubscribe(client);
	rpc_run(run->ctx);
	rpc_pair_close(&home.pair);
	rpc_run(run->ctx);
	node_run_end(run);
}

static void a_silent_job_of_a_member_may_lose_its_connection_again_and_again(void **state)
{
	struct node_run run;
	struct client client = {NULL};
	begin_with_home(&run, &client);
	for (uint32_t i = 0; i < 3; i++) {
		cut_for_long(&run);
		assert_int_equal(home.subscriptions, i + 2);
	}
	assert_false(client.is_lost);
	end_with_home(&run, &client);
}

/* The node that forwards the subscription answers, the node that has the job does not. */
static void a_job_whose_node_does_not_respond_is_lost(void **state)
{
	struct node_run run;
	struct client client = {NULL};
	begin_with_home(&run, &client);
	home.is_silent = true;
	cut_for_long(&run);
	assert_int_equal(home.subscriptions, 2);
	assert_false(client.is_lost);
	cut_for_long(&run);
	assert_true(client.is_lost);
	assert_int_equal(home.subscriptions, 2);
	end_with_home(&run, &client);
}

static bool is_reconnecting(void *user)
{
	return ((struct client *)user)->is_reconnecting;
}

static bool has_reconnected(void *user)
{
	return ((struct client *)user)->reconnected;
}

static void lose_home(struct node_run *run)
{
	home.is_unreachable = true;
	rpc_pair_close(&home.pair);
	rpc_run(run->ctx);
}

static void a_node_that_does_not_respond_is_reported_until_it_is_back(void **state)
{
	struct node_run run;
	struct client client = {NULL};
	begin_with_home(&run, &client);
	lose_home(&run);
	node_await(&run, is_reconnecting, &client, "RECONNECTING");
	assert_string_equal(client.text, "cannot follow job " JOB "; retrying for 1 s at most: "
					 "node home, which maintains it, does not respond");
	assert_string_equal(client.node, "home");
	assert_int_equal(rpc_pair_open(&home.pair, run.ctx), TFC_OK);
	home.pair.ends[1].serve = serve;
	home.is_unreachable = false;
	node_await(&run, has_reconnected, &client, "RECONNECTED");
	assert_false(client.is_lost);
	assert_int_equal(home.subscriptions, 2);
	end_with_home(&run, &client);
}

static bool is_lost(void *user)
{
	return ((struct client *)user)->is_lost;
}

/* The node that forwards the subscription waits as long as its client says. */
static void a_node_that_does_not_respond_is_waited_for_as_long_as_was_said(void **state)
{
	struct node_run run;
	struct client client = {NULL};
	begin_with_home(&run, &client);
	uint64_t begun = tfc__now();
	lose_home(&run);
	node_await(&run, is_lost, &client, "LOST");
	assert_in_range(tfc__now() - begun, RECONNECT_MS * TFC__MS, 3 * TFC__SECOND);
	assert_string_equal(client.text, "cannot follow job " JOB "; retrying for 1 s at most: "
					 "node home, which maintains it, does not respond");
	assert_int_equal(rpc_pair_open(&home.pair, run.ctx), TFC_OK); /* to be closed */
	end_with_home(&run, &client);
}

/* The connection to the node that forwards is up again each time, which does not help. */
static void a_node_that_does_not_respond_is_not_waited_for_without_an_end(void **state)
{
	struct node_run run;
	struct client client = {NULL};
	begin_with_home(&run, &client);
	lose_home(&run);
	node_await(&run, is_reconnecting, &client, "RECONNECTING");
	cut_for_long(&run);
	assert_false(client.is_lost);
	cut_for_long(&run);
	assert_true(client.is_lost);
	assert_int_equal(client.reconnected, 0);
	assert_int_equal(rpc_pair_open(&home.pair, run.ctx), TFC_OK); /* to be closed */
	end_with_home(&run, &client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_silent_job_may_lose_its_connection_again_and_again),
		cmocka_unit_test(a_silent_job_of_a_member_may_lose_its_connection_again_and_again),
		cmocka_unit_test(a_job_whose_node_does_not_respond_is_lost),
		cmocka_unit_test(a_node_that_does_not_respond_is_reported_until_it_is_back),
		cmocka_unit_test(a_node_that_does_not_respond_is_waited_for_as_long_as_was_said),
		cmocka_unit_test(a_node_that_does_not_respond_is_not_waited_for_without_an_end),
	};
	return cmocka_run_group_tests_name("gateway_reconnect", tests, NULL, NULL);
}
