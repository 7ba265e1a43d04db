/* gateway: a client of a node's service, whose connections break, whose readers are slow, and who
 * are many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "leaks.h"
#include "node_run.h"
#include "sanitized.h"
#include "served.h"

/* A client of its own beside the run's local gateway. */
struct client {
	struct node_run run;
	struct served *served;
	tfc_gateway *local;
	char address[256];
};

static void begin_with(struct client *client, const struct tfc__gateway_service_options *options)
{
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	node_run_begin(&client->run, NULL);
	snprintf(client->address, sizeof(client->address), "unix:%s/s", client->run.dir);
	client->served = served_begin(client->run.ctx, client->run.node, client->address, NULL,
				      options);
	gateway.address = client->address;
	client->local = client->run.gateway;
	assert_int_equal(tfc_gateway_open(client->run.ctx, &gateway, &client->run.gateway), 0);
}

static void begin(struct client *client)
{
	begin_with(client, NULL);
}

static void end(struct client *client)
{
	tfc_gateway_close(client->run.gateway);
	client->run.gateway = client->local;
	served_end(client->served);
	node_run_end(&client->run);
}

static char *script_job(int count, const char *script)
{
	return node_json("{'framework':'none','argv':['/bin/sh','-c','%s'],'roles':{'worker':{"
			 "'count':%d}}}",
			 script, count);
}

/* ---- connections that break */

#define LINES 3000
#define WRITING                                                                   \
	"i=0; while [ $i -lt 3000 ]; do echo $TFC_ATTEMPT-$i; i=$((i+1)); done; " \
	"[ $TFC_ATTEMPT = 2 ] || kill -9 $$"

struct cutter {
	struct client *client;
	unsigned seed;
	size_t next; /* event at which the connections break */
	unsigned cuts;
};

/* Not inside the callback: the connection is the server's. */
static void cut_now(void *user)
{
	struct cutter *cutter = user;
	cutter->cuts += served_cut(cutter->client->served) > 0;
}

static void cut_sometimes(struct follower *follower, const tfc_event *event)
{
	struct cutter *cutter = follower->user;
	if (follower->count < cutter->next)
		return;
	cutter->next = follower->count + 1 + (unsigned)rand_r(&cutter->seed) % 700;
	assert_int_equal(tfc_ctx_post(cutter->client->run.ctx, cut_now, cutter), 0);
}

static void expect_every_line_once(const struct follower *follower, uint32_t tasks)
{
	uint32_t next[8] = {0}, attempts[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	for (size_t i = 0; i < follower->count; i++) {
		const struct seen_event *seen = &follower->events[i];
		uint32_t task = seen->event.task_index;
		unsigned attempt, number;
		assert_int_not_equal(seen->event.kind, TFC_EVENT_GAP);
		assert_int_not_equal(seen->event.kind, TFC_EVENT_LOST);
		if (seen->event.kind != TFC_EVENT_OUTPUT)
			continue;
		assert_int_equal(sscanf(seen->data, "%u-%u", &attempt, &number), 2);
		if (attempt != attempts[task]) {
			assert_int_equal(next[task], LINES);
			attempts[task] = attempt;
			next[task] = 0;
		}
		assert_int_equal(number, next[task]++);
	}
	for (uint32_t i = 0; i < tasks; i++) {
		assert_int_equal(attempts[i], 2);
		assert_int_equal(next[i], LINES);
	}
}

static size_t count_kind(const struct follower *follower, uint32_t kind)
{
	size_t count = 0;
	for (size_t i = 0; i < follower->count; i++)
		count += follower->events[i].event.kind == kind;
	return count;
}

static void every_event_comes_once_however_often_the_connection_breaks(void **state)
{
	struct client client;
	struct follower whole = {0};
	begin(&client);
	char *json = script_job(3, WRITING);
	for (unsigned seed = 1; seed <= 3; seed++) {
		struct cutter cutter = {.client = &client, .seed = seed};
		struct follower follower = {.on_event = cut_sometimes, .user = &cutter};
		char *id = node_submit(&client.run, json);
		node_follow(&client.run, id, NULL, &follower);
		node_await_end(&client.run, &follower);
		assert_true(cutter.cuts >= 10);
		expect_every_line_once(&follower, 3);
		node_follow(&client.run, id, NULL, &whole);
		node_await_end(&client.run, &whole);
		assert_int_equal(count_kind(&follower, TFC_EVENT_TASK),
				 count_kind(&whole, TFC_EVENT_TASK));
		assert_int_equal(count_kind(&follower, TFC_EVENT_JOB),
				 count_kind(&whole, TFC_EVENT_JOB));
		node_follow_end(&whole);
		node_follow_end(&follower);
		free(id);
	}
	free(json);
	end(&client);
}

struct returner {
	struct client *client;
	struct tfc__timer timer;
};

static void come_back(struct tfc__timer *timer)
{
	struct returner *returner = tfc__container_of(timer, struct returner, timer);
	served_return(returner->client->served);
}

/* The node is away for a while: what was asked meanwhile is answered then. */
static void a_gateway_that_comes_back_is_found_again(void **state)
{
	struct client client;
	struct follower follower = {0};
	struct answer answer = {0};
	begin(&client);
	char *json = script_job(1, "echo a; exec sleep 100");
	char *id = node_submit(&client.run, json);
	node_follow(&client.run, id, NULL, &follower);
	node_await_task(&client.run, &follower, "worker/0", TFC_TASK_READY, 1);
	struct returner returner = {.client = &client};
	tfc__timer_init(&returner.timer, client.run.ctx, come_back);
	tfc__timer_set(&returner.timer, tfc__now() + 300 * TFC__MS);
	served_leave(client.served);
	while (tfc_ctx_run(client.run.ctx, 0) > 0)
		;
	assert_int_equal(tfc_gateway_list(client.run.gateway, 0, node_answer, &answer, NULL), 0);
	node_await_answer(&client.run, &answer);
	assert_int_equal(answer.code, 0);
	assert_non_null(strstr(answer.text, id));
	node_answer_clear(&answer);
	node_stop(&client.run, id, true);
	node_await_end(&client.run, &follower);
	assert_int_equal(follower.output, 1);
	free(id);
	free(json);
	node_follow_end(&follower);
	end(&client);
}

static void nobody_there_is_said_with_what_was_tried(void **state)
{
	struct client client;
	struct answer answer = {0};
	struct follower follower = {0};
	tfc_gateway *gateway;
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	char addresses[600];
	begin(&client);
	snprintf(addresses, sizeof(addresses), "unix:%s/nobody,tcp://127.0.0.1:1", client.run.dir);
	options.address = addresses;
	assert_int_equal(tfc_gateway_open(client.run.ctx, &options, &gateway), 0);
	assert_int_equal(tfc_gateway_list(gateway, 0, node_answer, &answer, NULL), 0);
	node_await_answer(&client.run, &answer);
	assert_int_equal(answer.code, TFC_EUNREACH);
	assert_non_null(strstr(answer.error, "/nobody"));
	assert_non_null(strstr(answer.error, "tcp://127.0.0.1:1"));
	node_answer_clear(&answer);
	tfc_gateway_close(gateway);
	/* One that answers among them is enough. */
	snprintf(addresses, sizeof(addresses), "unix:%s/nobody,%s", client.run.dir, client.address);
	assert_int_equal(tfc_gateway_open(client.run.ctx, &options, &gateway), 0);
	assert_int_equal(tfc_gateway_list(gateway, 0, node_answer, &answer, NULL), 0);
	node_await_answer(&client.run, &answer);
	assert_int_equal(answer.code, 0);
	node_answer_clear(&answer);
	node_follow_end(&follower);
	tfc_gateway_close(gateway);
	end(&client);
}

static void bad_addresses_and_keys_are_refused(void **state)
{
	static const char *const addresses[] = {"", "unix:/x,,unix:/y"};
	struct client client;
	tfc_gateway *gateway;
	begin(&client);
	for (size_t i = 0; i < 2; i++) {
		tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
		options.address = addresses[i];
		assert_int_equal(tfc_gateway_open(client.run.ctx, &options, &gateway), TFC_EINVAL);
	}
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	options.address = client.address;
	options.key_file = "/nonexistent/key";
	assert_int_equal(tfc_gateway_open(client.run.ctx, &options, &gateway), TFC_ENOENT);
	options.key_file = NULL;
	options.node = client.run.node;
	assert_int_equal(tfc_gateway_open(client.run.ctx, &options, &gateway), TFC_EINVAL);
	end(&client);
}

/* ---- many readers, and slow ones */

#define SUBSCRIBERS 100

static bool have_all_ended(void *user)
{
	const struct follower *followers = user;
	for (int i = 0; i < SUBSCRIBERS; i++)
		if (!followers[i].is_ended)
			return false;
	return true;
}

static void a_hundred_subscribers_see_all_of_a_chatty_job(void **state)
{
	static struct follower followers[SUBSCRIBERS];
	struct client client;
	begin(&client);
	char *json = script_job(2, "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done");
	char *id = node_submit(&client.run, json);
	for (int i = 0; i < SUBSCRIBERS; i++) {
		followers[i] = (struct follower){.is_output_dropped = true};
		node_follow(&client.run, id, NULL, &followers[i]);
	}
	node_await(&client.run, have_all_ended, followers, "the ends");
	uint64_t bytes = 0;
	for (int i = 0; i < 500; i++)
		bytes += 2 * (uint64_t)snprintf(NULL, 0, "line %d", i);
	for (int i = 0; i < SUBSCRIBERS; i++) {
		assert_int_equal(followers[i].output, bytes);
		node_follow_end(&followers[i]);
	}
	assert_int_equal(served_count(client.served), 1);
	free(json);
	free(id);
	end(&client);
}

static long resident_kib(void)
{
	long pages = 0, all = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%ld %ld", &all, &pages), 2);
	fclose(file);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void pause_once(struct follower *follower, const tfc_event *event)
{
	if (event->kind == TFC_EVENT_OUTPUT && !follower->user) {
		follower->user = follower;
		tfc_sub_pause(follower->sub);
	}
}

/* 40 MB are written while nobody reads: neither end keeps them, and the task is not slowed. */
static void a_slow_reader_holds_bounded_memory_and_slows_no_task(void **state)
{
	struct client client;
	struct follower slow = {.on_event = pause_once, .is_output_dropped = true}, states = {0};
	tfc_subscribe_options quiet = TFC_SUBSCRIBE_OPTIONS_INIT;
	quiet.is_without_output = 1;
	begin(&client);
	char *json = script_job(1, "head -c 40000000 /dev/zero | tr \\\\\\\\000 x | fold -w 999");
	char *id = node_submit(&client.run, json);
	node_follow(&client.run, id, NULL, &slow);
	node_follow(&client.run, id, &quiet, &states);
	long before = resident_kib();
	node_await_end(&client.run, &states);
	long grown = resident_kib() - before;
	print_message("grown by %ld KiB\n", grown);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(grown < 12000);
#endif
	assert_false(slow.is_ended);
	tfc_sub_resume(slow.sub);
	node_await_end(&client.run, &slow);
	assert_int_equal(slow.output, 40000000);
	free(json);
	free(id);
	node_follow_end(&slow);
	node_follow_end(&states);
	end(&client);
}

#define ASKED 900

struct long_answers {
	struct client *client;
	int count;
	size_t len;
	long most_kib;
};

static void cut_answers(void *user)
{
	assert_int_equal(served_cut(((struct long_answers *)user)->client->served), 1);
}

static void on_long_answer(void *user, const tfc_reply *reply)
{
	struct long_answers *answers = user;
	assert_int_equal(reply->code, 0);
	assert_int_equal(reply->text[reply->len - 1], ']');
	answers->count++;
	answers->len = reply->len;
	if (answers->count == 100)
		assert_int_equal(tfc_ctx_post(answers->client->run.ctx, cut_answers, answers), 0);
	long now = resident_kib();
	if (now > answers->most_kib)
		answers->most_kib = now;
}

static bool have_all_come(void *user)
{
	return ((struct long_answers *)user)->count == ASKED;
}

/* What nobody has read yet is not answered yet: questions wait, not answers; and those that wait go
 * with their connection. */
static void long_answers_to_many_questions_take_turns(void **state)
{
	struct client client;
	struct long_answers answers = {.client = &client};
	begin(&client);
	char *json = node_json("{'framework':'none','argv':['true'],'placement':{'labels':{'a':"
			       "'nowhere'}},'roles':{'worker':{'count':1000}}}");
	free(node_submit(&client.run, json));
	long before = resident_kib();
	for (int i = 0; i < ASKED; i++)
		assert_int_equal(tfc_gateway_list(client.run.gateway, 0, on_long_answer, &answers,
						  NULL),
				 0);
	node_await(&client.run, have_all_come, &answers, "the answers");
	print_message("%d answers of %zu bytes, grown by %ld KiB\n", ASKED, answers.len,
		      answers.most_kib - before);
	assert_true(answers.len > 100000);
	assert_int_equal(served_count(client.served), 2); /* cut once: asked again */
	assert_true(TEST_IS_SANITIZED || answers.most_kib - before < 30000);
	free(json);
	end(&client);
}

static void an_answer_over_a_message_is_named_and_ends_nothing_else(void **state)
{
	struct client client;
	struct answer answer = {0};
	begin(&client);
	char *json = node_json("{'framework':'none','argv':['true'],'placement':{'labels':{'a':"
			       "'nowhere'}},'roles':{'worker':{'count':80000}}}");
	char *id = node_submit(&client.run, json);
	free(node_submit(&client.run, json));
	assert_int_equal(tfc_gateway_list(client.run.gateway, 0, node_answer, &answer, NULL), 0);
	node_await_answer(&client.run, &answer);
	assert_int_equal(answer.code, TFC_ETOOBIG);
	assert_non_null(strstr(answer.error, "the answer to list has "));
	assert_non_null(strstr(answer.error, "more than one message may have (16777216)"));
	node_answer_clear(&answer);
	free(node_describe(&client.run, id));
	assert_int_equal(served_count(client.served), 1);
	free(id);
	free(json);
	end(&client);
}

/* ---- closing, and who may what */

static void closing_at_any_event_is_legal(void **state)
{
	for (size_t at = 0, is_over = 0; !is_over && at < 60; at += 3) {
		struct client client;
		struct follower follower = {0};
		begin(&client);
		char *json = script_job(2, "echo a; echo b >&2; echo -n c");
		char *id = node_submit(&client.run, json);
		node_follow(&client.run, id, NULL, &follower);
		while (follower.count <= at && !follower.is_ended)
			assert_true(tfc_ctx_run(client.run.ctx, 10000) >= 0);
		is_over = follower.is_ended;
		if (at % 2)
			served_leave(client.served);
		node_follow_end(&follower);
		tfc_gateway_close(client.run.gateway);
		client.run.gateway = NULL;
		while (tfc_ctx_run(client.run.ctx, 0) > 0)
			;
		free(json);
		free(id);
		end(&client);
	}
}

static char asked[1024];

static int note_and_refuse(void *user, const tfc_peer_info *peer, const char *verb, const char *job)
{
	size_t len = strlen(asked);
	assert_int_equal(peer->uid, getuid());
	assert_int_equal(peer->pid, getpid());
	snprintf(asked + len, sizeof(asked) - len, "%s(%s) ", verb, job);
	return strcmp(verb, "stop") == 0 ? -1 : 0;
}

static void the_host_has_a_say(void **state)
{
	const struct tfc__gateway_service_options options = {.submit_uid = UINT32_MAX,
							     .authorize = note_and_refuse};
	struct client client;
	struct answer answer = {0};
	begin_with(&client, &options);
	asked[0] = '\0';
	char *json = script_job(1, "exec sleep 100");
	char *id = node_submit(&client.run, json);
	char expected[128];
	assert_int_equal(tfc_gateway_stop(client.run.gateway, id, NULL, node_answer, &answer, NULL),
			 0);
	node_await_answer(&client.run, &answer);
	assert_int_equal(answer.code, TFC_EACCES);
	node_answer_clear(&answer);
	snprintf(expected, sizeof(expected), "submit() stop(%s) ", id);
	assert_string_equal(asked, expected);
	free(json);
	free(id);
	end(&client);
}

/* What it is refused with, or "" and *ret_id (free it). */
static int try_submit(struct client *client, const char *json, char error[256], char **ret_id)
{
	struct answer answer = {0};
	node_submit_for(&client->run, json, NULL, &answer);
	int code = answer.code;
	snprintf(error, 256, "%s", answer.error);
	*ret_id = code == 0 ? strdup(answer.text) : NULL;
	node_answer_clear(&answer);
	return code;
}

static void expect_user(struct client *client, const char *json, const char *expected)
{
	struct follower follower = {0};
	char error[256], *id;
	if (try_submit(client, json, error, &id) < 0)
		fail_msg("%s", error);
	node_follow(&client->run, id, NULL, &follower);
	node_await_end(&client->run, &follower);
	char *output = node_output(&follower, "worker/0", TFC_STREAM_STDOUT);
	assert_string_equal(output, expected);
	free(output);
	free(id);
	node_follow_end(&follower);
}

static void expect_refusal(struct client *client, const char *json, const char *sentence)
{
	char error[256], *id;
	assert_int_equal(try_submit(client, json, error, &id), TFC_EACCES);
	if (!strstr(error, sentence))
		fail_msg("%s", error);
}

static void tasks_run_as_who_submitted(void **state)
{
	const struct tfc__peer_id user = {.role = TFC__KEY_SUBMIT, .uid = 4711, .gid = 4712};
	const struct tfc__peer_id root = {.role = TFC__KEY_NODE, .uid = 0, .gid = 0};
	const struct tfc__peer_id remote = {.role = TFC__KEY_SUBMIT, .uid = UINT32_MAX};
	struct client client;
	if (getuid() != 0)
		skip();
	begin(&client);
	char *plain = script_job(1, "echo $(id -u):$(id -g)");
	char *other = node_json("{'framework':'none','argv':['/bin/sh','-c','echo $(id -u)'],"
				"'cwd':'/','roles':{'worker':{'user':'815:815'}}}");
	char *bundle = node_json(
		"{'framework':'none','argv':['true'],'bundle':'/root/x','roles':{'worker':{}}}");
	served_claim(client.served, &user);
	expect_user(&client, plain, "4711:4712\n");
	expect_refusal(&client, other, "only root may submit tasks of another user (815:815)");
	expect_refusal(&client, bundle, "bundle");
	served_claim(client.served, &root);
	expect_user(&client, plain, "0:0\n");
	expect_user(&client, other, "815\n");
	served_claim(client.served, &remote);
	expect_refusal(&client, plain, "--submit-user");
	end(&client);
	const struct tfc__gateway_service_options mapped = {.submit_uid = 99, .submit_gid = 98};
	begin_with(&client, &mapped);
	served_claim(client.served, &remote);
	expect_user(&client, plain, "99:98\n");
	expect_refusal(&client, other, "only root");
	end(&client);
	free(plain);
	free(other);
	free(bundle);
}

static void each_key_may_what_its_role_says(void **state)
{
	const struct tfc__peer_id reader = {.role = TFC__KEY_READ, .uid = UINT32_MAX};
	const struct tfc__peer_id submitter = {.role = TFC__KEY_SUBMIT, .uid = getuid()};
	struct client client;
	struct follower follower = {0};
	begin(&client);
	char *json = script_job(1, "echo a");
	char error[256], *id = node_submit(&client.run, json), *none;
	served_claim(client.served, &reader);
	expect_refusal(&client, json, "a read key may not submit: ask with a submit key");
	node_follow(&client.run, id, NULL, &follower);
	node_await_end(&client.run, &follower);
	free(node_describe(&client.run, id));
	int (*const acts[])(tfc_gateway *, const char *, uint32_t, tfc_reply_fn, void *,
			    tfc_op **) = {tfc_gateway_forget};
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		struct answer answer = {0};
		assert_int_equal(acts[i](client.run.gateway, id, 0, node_answer, &answer, NULL), 0);
		node_await_answer(&client.run, &answer);
		assert_int_equal(answer.code, TFC_EACCES);
		node_answer_clear(&answer);
	}
	served_claim(client.served, &submitter);
	assert_int_equal(try_submit(&client, json, error, &none), 0);
	free(none);
	free(id);
	free(json);
	node_follow_end(&follower);
	end(&client);
}

static bool is_lost(void *user)
{
	return node_find(user, TFC_EVENT_LOST, NULL, 0, 0);
}

static void a_forgotten_job_is_told_to_its_readers(void **state)
{
	struct client client;
	struct follower done = {0}, slow = {.on_event = pause_once};
	struct answer answer = {0};
	begin(&client);
	char *json = script_job(1, "echo a; echo b");
	node_run_job(&client.run, json, &done);
	node_follow(&client.run, done.job, NULL, &slow);
	while (!slow.user)
		assert_true(tfc_ctx_run(client.run.ctx, 10000) >= 0);
	assert_int_equal(tfc_gateway_forget(client.run.gateway, done.job, 0, node_answer, &answer,
					    NULL),
			 0);
	node_await_answer(&client.run, &answer);
	assert_int_equal(answer.code, 0);
	node_answer_clear(&answer);
	tfc_sub_resume(slow.sub);
	while (!is_lost(&slow) && !slow.is_ended)
		assert_true(tfc_ctx_run(client.run.ctx, 10000) >= 0);
	assert_int_equal(tfc_gateway_describe(client.run.gateway, done.job, 0, node_answer, &answer,
					      NULL),
			 0);
	node_await_answer(&client.run, &answer);
	assert_int_equal(answer.code, TFC_ENOENT);
	node_answer_clear(&answer);
	free(json);
	node_follow_end(&done);
	node_follow_end(&slow);
	end(&client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_event_comes_once_however_often_the_connection_breaks),
		cmocka_unit_test(a_gateway_that_comes_back_is_found_again),
		cmocka_unit_test(nobody_there_is_said_with_what_was_tried),
		cmocka_unit_test(bad_addresses_and_keys_are_refused),
		cmocka_unit_test(a_hundred_subscribers_see_all_of_a_chatty_job),
		cmocka_unit_test(a_slow_reader_holds_bounded_memory_and_slows_no_task),
		cmocka_unit_test(long_answers_to_many_questions_take_turns),
		cmocka_unit_test(an_answer_over_a_message_is_named_and_ends_nothing_else),
		cmocka_unit_test(closing_at_any_event_is_legal),
		cmocka_unit_test(the_host_has_a_say),
		cmocka_unit_test(tasks_run_as_who_submitted),
		cmocka_unit_test(each_key_may_what_its_role_says),
		cmocka_unit_test(a_forgotten_job_is_told_to_its_readers),
	};
	return cmocka_run_group_tests_name("gateway_remote", tests, NULL, NULL);
}
