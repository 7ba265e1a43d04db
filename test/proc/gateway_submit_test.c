/* gateway: one submit is one job, whoever dies on the way, and however often it is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "leaks.h"
#include "node/internal.h"
#include "node_run.h"
#include "served.h"

/* ---- two nodes in one process, "a" and "b" */

struct pair {
	struct node_run run; /* its node is "a" */
	tfc_node *other;
	char dir[LEAKS_PATH];
	char members[LEAKS_PATH + 16];
};

static void open_other(struct pair *pair)
{
	static const char *const at[] = {"memory:submit-b", NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	options.name = "b";
	options.members_file = pair->members;
	options.listen = at;
	options.temp_dir = pair->run.dir;
	if (tfc_node_open(pair->run.ctx, &options, &pair->other) < 0)
		fail_msg("%s", tfc_ctx_error(pair->run.ctx)->text);
}

static bool knows_other(void *user)
{
	struct pair *pair = user;
	struct answer answer = {0};
	char wanted[80];
	snprintf(wanted, sizeof(wanted), "\"node_id\":\"%s\"", pair->other->hello.node_id);
	assert_int_equal(tfc_gateway_members(pair->run.gateway, NULL, node_answer, &answer, NULL),
			 0);
	node_await_answer(&pair->run, &answer);
	bool is_known = strstr(answer.text, wanted);
	node_answer_clear(&answer);
	return is_known;
}

static void begin(struct pair *pair)
{
	static const char *const at[] = {"memory:submit-a", NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	leaks_make_dir(pair->dir);
	snprintf(pair->members, sizeof(pair->members), "%s/members", pair->dir);
	FILE *file = fopen(pair->members, "we");
	assert_non_null(file);
	fputs("{\"members\": [{\"name\": \"a\", \"address\": \"memory:submit-a\"},"
	      " {\"name\": \"b\", \"address\": \"memory:submit-b\"}]}",
	      file);
	fclose(file);
	options.name = "a";
	options.members_file = pair->members;
	options.listen = at;
	node_run_begin(&pair->run, &options);
	open_other(pair);
	node_await(&pair->run, knows_other, pair, "the nodes to meet");
}

static void end(struct pair *pair)
{
	tfc_node_close(pair->other);
	node_run_end(&pair->run);
	unlink(pair->members);
	rmdir(pair->dir);
}

/* ---- a client of them */

#define NOBODY "00000000000000000000000000000000"

struct client {
	tfc_gateway *gateway;
	int replies;
	int code;
	char id[17];
	char home[40];
	char error[1024];
};

static void on_reply(void *user, const tfc_reply *reply)
{
	struct client *client = user;
	client->replies++;
	client->code = reply->code;
	snprintf(client->id, sizeof(client->id), "%s", reply->text);
	snprintf(client->home, sizeof(client->home), "%s", reply->home);
	snprintf(client->error, sizeof(client->error), "%s", reply->error->text);
}

static char *job_of(unsigned number)
{
	return node_json("{'name':'job-%u','framework':'none','argv':['/bin/sh','-c','exit 0'],"
			 "'roles':{'worker':{'ready':'started'}}}",
			 number);
}

/* addresses NULL: its gateway is on node a, in its process. */
static void submit(struct pair *pair, struct client *client, const char *addresses, unsigned number,
		   const char *key, const char *home)
{
	tfc_gateway_options at = TFC_GATEWAY_OPTIONS_INIT;
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	char *json = job_of(number);
	tfc_job *job;
	*client = (struct client){.replies = 0};
	at.address = addresses;
	at.node = addresses ? NULL : pair->run.node;
	at.reconnect_ms = 300;
	options.client_key = key;
	options.home = home;
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), 0);
	assert_int_equal(tfc_gateway_open(pair->run.ctx, &at, &client->gateway), 0);
	assert_int_equal(tfc_gateway_submit(client->gateway, job, &options, on_reply, client, NULL),
			 0);
	tfc_job_free(job);
	free(json);
}

static bool is_answered(void *user)
{
	return ((struct client *)user)->replies > 0;
}

/* So many callbacks: it may die behind any. */
static void turn(struct pair *pair, unsigned count, const struct client *client)
{
	struct pollfd fd = {.fd = tfc_ctx_fd(pair->run.ctx), .events = POLLIN};
	for (unsigned i = 0; i < count && !client->replies; i++) {
		poll(&fd, 1, 20);
		assert_true(tfc_ctx_dispatch(pair->run.ctx, 1) >= 0);
	}
}

static void await_reply(struct pair *pair, struct client *client)
{
	node_await(&pair->run, is_answered, client, "the reply");
	assert_int_equal(client->replies, 1);
	tfc_gateway_close(client->gateway);
}

/* The referee. */
static unsigned count_jobs(struct pair *pair, unsigned number)
{
	struct answer answer = {0};
	char name[32];
	unsigned count = 0;
	snprintf(name, sizeof(name), "\"name\":\"job-%u\"", number);
	assert_int_equal(tfc_gateway_jobs(pair->run.gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&pair->run, &answer);
	for (const char *at = answer.text; (at = strstr(at, name)); at++)
		count++;
	node_answer_clear(&answer);
	return count;
}

/* ---- who dies */

/* The client has its key and the home from before it submitted; its next life asks either node. */
static void a_client_with_state_that_dies_at_any_turn_submits_once(void **state)
{
	static const char *const addresses[] = {"memory:submit-a", "memory:submit-b"};
	struct pair pair = {0};
	struct client client;
	unsigned number = 0;
	begin(&pair);
	const char *home = pair.run.node->hello.node_id;
	for (bool is_over = false; !is_over; number++) {
		is_over = true;
		for (unsigned way = 0; way < 4; way++) {
			char key[32];
			unsigned job = 4 * number + way;
			snprintf(key, sizeof(key), "key-%u", job);
			submit(&pair, &client, addresses[way % 2], job, key, home);
			turn(&pair, number, &client);
			is_over = is_over && client.replies;
			tfc_gateway_close(client.gateway);
			node_await(&pair.run, is_answered, &client, "its end");
			submit(&pair, &client, addresses[way / 2], job, key, home);
			await_reply(&pair, &client);
			if (client.code < 0)
				fail_msg("%u turns, way %u: %s", number, way, client.error);
			assert_string_equal(client.home, home);
			assert_int_equal(count_jobs(&pair, job), 1);
		}
	}
	assert_true(number > 3);
	end(&pair);
}

/* It has two gateways, and goes to the other when the first dies, unless it has sent anything. */
static void a_home_that_is_gone_is_named_and_nobody_else_is_sent_the_submit(void **state)
{
	struct pair pair = {0};
	struct client client;
	unsigned number = 0, lost = 0, moved = 0;
	bool is_over = false;
	begin(&pair);
	for (; !is_over; number++) {
		char home[40];
		snprintf(home, sizeof(home), "%s", pair.other->hello.node_id);
		submit(&pair, &client, "memory:submit-b,memory:submit-a", number, NULL, NULL);
		turn(&pair, number, &client);
		is_over = client.replies;
		tfc_node_close(pair.other);
		await_reply(&pair, &client);
		if (!is_over && client.code < 0) {
			assert_int_equal(client.code, TFC_ELOST);
			assert_string_equal(client.home, home);
			assert_non_null(strstr(client.error, "node b ("));
			assert_non_null(strstr(client.error, home));
			lost++;
		}
		/* What it made before it died is gone with it: it has no state directory. */
		bool is_elsewhere = client.code == TFC_OK && strcmp(client.home, home) != 0;
		assert_int_equal(count_jobs(&pair, number), is_elsewhere);
		moved += is_elsewhere;
		open_other(&pair);
		node_await(&pair.run, knows_other, &pair, "the nodes to meet");
	}
	assert_true(lost > 0);
	assert_true(moved > 0);
	end(&pair);
}

static void a_home_that_nobody_knows_is_not_replaced(void **state)
{
	struct pair pair = {0};
	struct client client;
	begin(&pair);
	submit(&pair, &client, "memory:submit-a", 1, "key", NOBODY);
	await_reply(&pair, &client);
	assert_int_equal(client.code, TFC_ELOST);
	assert_non_null(strstr(client.error, NOBODY));
	assert_int_equal(count_jobs(&pair, 1), 0);
	end(&pair);
}

/* In the node's process, over a connection, and where there is none. */
static void a_reply_says_where_the_submit_was_sent(void **state)
{
	static const char a[] = "memory:submit-a", none[] = "memory:submit-none";
	struct pair pair = {0};
	struct client client;
	begin(&pair);
	const char *own = pair.run.node->hello.node_id, *other = pair.other->hello.node_id;
	const struct {
		const char *addresses, *key, *home;
		int code;
		const char *said;
	} cases[] = {
		{NULL, NULL, NULL, TFC_OK, own},
		{a, NULL, NULL, TFC_OK, own},
		{NULL, "two", other, TFC_OK, other},
		{a, "three", other, TFC_OK, other},
		{NULL, "four", NOBODY, TFC_ELOST, NOBODY},
		{a, "four", NOBODY, TFC_ELOST, NOBODY},
		{none, "five", own, TFC_ENOENT, own},
		{none, NULL, NULL, TFC_ENOENT, ""},
		{NULL, "two", own, TFC_OK, own},           /* as key is known to its home alone */
		{NULL, "three", other, TFC_EEXIST, other}, /* with another job */
		{a, "three", other, TFC_EEXIST, other},
		{NULL, "six", "here", TFC_EINVAL, ""},
		{a, "six", "here", TFC_EINVAL, ""},
		{NULL, NULL, own, TFC_EINVAL, ""},
		{a, NULL, own, TFC_EINVAL, ""},
	};
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		submit(&pair, &client, cases[i].addresses, i, cases[i].key, cases[i].home);
		await_reply(&pair, &client);
		if (client.code != cases[i].code || strcmp(client.home, cases[i].said) != 0)
			fail_msg("case %u: code %d, home \"%s\": %s", i, client.code, client.home,
				 client.error);
	}
	end(&pair);
}

/* ---- whose key it is */

static char *submit_as(struct node_run *run, const struct tfc__peer_id *who, const char *json,
		       int *ret_code, char error[1024])
{
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	struct answer answer = {0};
	options.client_key = "mine";
	served_cut(run->served); /* each comes over a connection of its own */
	served_claim(run->served, who);
	node_submit_for(run, json, &options, &answer);
	*ret_code = answer.code;
	memcpy(error, answer.error, 1024);
	return answer.text;
}

static void a_key_belongs_to_a_user(void **state)
{
	const struct tfc__gateway_service_options mapped = {.submit_uid = 99, .submit_gid = 98};
	static const struct tfc__peer_id same[] = {
		{.role = TFC__KEY_SUBMIT, .uid = UINT32_MAX, .key_id = "1", .node_id = "a"},
		{.role = TFC__KEY_SUBMIT, .uid = UINT32_MAX, .key_id = "1", .node_id = "b"},
		{.role = TFC__KEY_SUBMIT, .uid = UINT32_MAX, .key_id = "2", .node_id = "c"},
		{.role = TFC__KEY_SUBMIT, .uid = 99, .gid = 98, .pid = 1},
	};
	static const struct tfc__peer_id others[] = {
		{.role = TFC__KEY_SUBMIT, .uid = 1001, .gid = 98},
		{.role = TFC__KEY_NODE, .uid = UINT32_MAX, .key_id = "1", .node_id = "a"},
	};
	struct node_run run;
	char error[1024], *id = NULL;
	int code;
	node_run_begin_served(&run, &mapped);
	char *json = node_script(1, "exec sleep 100"), *other = node_script(1, "exec sleep 101");
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		char *text = submit_as(&run, &same[i], json, &code, error);
		assert_int_equal(code, TFC_OK);
		if (id)
			assert_string_equal(text, id);
		free(id);
		id = text;
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		free(submit_as(&run, &others[i], json, &code, error));
		assert_int_equal(code, TFC_EEXIST);
		assert_non_null(strstr(error, "another user"));
		assert_null(strstr(error, id));
	}
	free(submit_as(&run, &same[0], other, &code, error));
	assert_int_equal(code, TFC_EEXIST);
	assert_non_null(strstr(error, id));
	free(id);
	free(json);
	free(other);
	node_run_end(&run);
}

/* ---- how long it is known */

static char *submit_mine(struct node_run *run, const char *json, int *ret_code)
{
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	struct answer answer = {0};
	options.client_key = "mine";
	node_submit_for(run, json, &options, &answer);
	*ret_code = answer.code;
	return answer.text;
}

static void expect_known(struct node_run *run, const char *json, const char *id)
{
	struct answer answer = {0};
	int code;
	char *again = submit_mine(run, json, &code);
	assert_int_equal(code, TFC_OK);
	assert_string_equal(again, id);
	free(again);
	assert_int_equal(tfc_gateway_jobs(run->gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(run, &answer);
	assert_string_equal(answer.text, "{\"jobs\":[],\"not_asked\":[]}");
	node_answer_clear(&answer);
}

static void a_key_outlives_its_job_and_its_node(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	char dir[LEAKS_PATH], command[LEAKS_PATH + 64];
	int code;
	leaks_make_dir(dir);
	options.state_dir = dir;
	node_run_begin(&run, &options);
	char *json = node_script(1, "exit 0"), *other = node_script(1, "exit 1");
	char *id = submit_mine(&run, json, &code);
	assert_int_equal(code, TFC_OK);
	node_follow(&run, id, NULL, &follower);
	node_await_end(&run, &follower);
	node_follow_end(&follower);
	assert_int_equal(node_forget(&run, id), TFC_OK);
	expect_known(&run, json, id);
	node_run_end(&run);
	node_run_begin(&run, &options);
	expect_known(&run, json, id);
	free(submit_mine(&run, other, &code));
	assert_int_equal(code, TFC_EEXIST);
	node_run_end(&run);
	/* What is damaged does not let the job be made once more. */
	snprintf(command, sizeof(command), "for f in %s/store/records/keys/*; do echo x > $f; done",
		 dir);
	assert_int_equal(system(command), 0);
	node_run_begin(&run, &options);
	free(submit_mine(&run, json, &code));
	assert_int_equal(code, TFC_EPARSE);
	node_run_end(&run);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	assert_int_equal(system(command), 0);
	free(json);
	free(other);
	free(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_with_state_that_dies_at_any_turn_submits_once),
		cmocka_unit_test(a_home_that_is_gone_is_named_and_nobody_else_is_sent_the_submit),
		cmocka_unit_test(a_home_that_nobody_knows_is_not_replaced),
		cmocka_unit_test(a_reply_says_where_the_submit_was_sent),
		cmocka_unit_test(a_key_belongs_to_a_user),
		cmocka_unit_test(a_key_outlives_its_job_and_its_node),
	};
	return cmocka_run_group_tests_name("gateway_submit", tests, NULL, NULL);
}
