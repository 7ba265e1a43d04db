/* gateway: a client of a node's service, whose connections break, whose readers are slow, and who
 * are many. */
#include <fcntl.h>
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
#include "node_run.h"
#include "sanitized.h"
#include "served.h"

/* ---- connections that break */

#define LINES 3000
/* Long lines: many items, between which the connection may break. */
#define WRITING                                                                 \
	"p=$(printf %0200d 0); i=0; "                                           \
	"while [ $i -lt 3000 ]; do echo $TFC_ATTEMPT-$i $p; i=$((i+1)); done; " \
	"[ $TFC_ATTEMPT = 2 ] || kill -9 $$"

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
	struct node_run run;
	struct follower whole = {0};
	node_run_begin_served(&run, NULL);
	char *json = node_script(3, WRITING);
	for (unsigned seed = 1; seed <= 3; seed++) {
		struct node_cutter cutter = {.run = &run, .most = 700, .seed = seed};
		struct follower follower = {.on_event = node_cut, .user = &cutter};
		node_start(&run, json, &follower);
		node_await_end(&run, &follower);
		assert_true(cutter.cuts >= 10);
		expect_every_line_once(&follower, 3);
		node_follow(&run, follower.job, NULL, &whole);
		node_await_end(&run, &whole);
		assert_int_equal(count_kind(&follower, TFC_EVENT_TASK),
				 count_kind(&whole, TFC_EVENT_TASK));
		assert_int_equal(count_kind(&follower, TFC_EVENT_JOB),
				 count_kind(&whole, TFC_EVENT_JOB));
		node_follow_end(&whole);
		node_follow_end(&follower);
	}
	free(json);
	node_run_end(&run);
}

/* Two tasks fall silent after 500 lines, until the third has written all of its own: the second
 * half once it may go on. */
#define QUIET_LINES 500
#define LOUD_LINES 30000 /* many items */
#define FALLING_SILENT                                                                          \
	"cd %s; count() { while [ $i -lt $1 ]; do echo $i; i=$((i+1)); done; }; "               \
	"await() { until [ -e $1 ]; do sleep 0.01; done; }; i=0; count 500; "                   \
	"if [ $TFC_TASK_INDEX = 2 ]; then count 1500; await go; count 30000; touch over; else " \
	"await over; count 501; fi"

/* Lines of each task behind the cursor: none is missing, none comes again. */
struct counted {
	uint32_t next[3];
	char cursor[192]; /* of the last line */
};

static void count_lines(struct follower *follower, const tfc_event *event)
{
	struct counted *counted = follower->user;
	if (event->kind != TFC_EVENT_OUTPUT)
		return;
	assert_int_equal(strtoul(event->data, NULL, 10), counted->next[event->task_index]++);
	snprintf(counted->cursor, sizeof(counted->cursor), "%s", event->cursor);
}

static bool is_first_half_reported(void *user)
{
	const struct counted *counted = user;
	return counted->next[0] + counted->next[1] + counted->next[2] ==
	       2 * QUIET_LINES + LINES / 2;
}

struct counting_cutter {
	struct counted counted; /* first: count_lines takes it */
	struct node_cutter cutter;
};

static void count_and_cut(struct follower *follower, const tfc_event *event)
{
	struct counting_cutter *both = follower->user;
	count_lines(follower, event);
	node_cutter_on_event(&both->cutter, follower);
}

static void silent_tasks_keep_their_place_however_often_the_connection_breaks(void **state)
{
	struct node_run run;
	struct counted first = {.next = {0}};
	struct follower live = {.on_event = count_lines, .user = &first};
	node_run_begin_served(&run, NULL);
	char script[512], path[256];
	snprintf(script, sizeof(script), FALLING_SILENT, run.dir);
	char *json = node_script(3, script);
	node_start(&run, json, &live);
	node_await(&run, is_first_half_reported, &first, "two silent tasks");
	const struct counted half = first;
	snprintf(path, sizeof(path), "%s/go", run.dir);
	struct counting_cutter later[3];
	struct follower followers[3] = {{0}};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.cursor = half.cursor;
	for (unsigned i = 0; i < 3; i++) {
		later[i] = (struct counting_cutter){half,
						    {.run = &run, .most = 100, .seed = i + 1}};
		followers[i] = (struct follower){.on_event = count_and_cut, .user = &later[i]};
		node_follow(&run, live.job, &options, &followers[i]);
	}
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	unsigned cuts = 0; /* they share their connection */
	for (unsigned i = 0; i < 3; i++) {
		node_await_end(&run, &followers[i]);
		cuts += later[i].cutter.cuts;
		for (uint32_t task = 0; task < 3; task++)
			assert_int_equal(later[i].counted.next[task],
					 task == 2 ? LOUD_LINES : QUIET_LINES + 1);
		node_follow_end(&followers[i]);
	}
	assert_true(cuts >= 10);
	free(json);
	node_follow_end(&live);
	node_run_end(&run);
}

/* Pauses at a line in the middle of a batch; then the connection breaks. */
static void pause_at_times(struct follower *follower, const tfc_event *event)
{
	struct counted *counted = follower->user;
	count_lines(follower, event);
	if (event->kind == TFC_EVENT_OUTPUT && counted->next[0] % 701 == 0)
		tfc_sub_pause(follower->sub);
}

static void a_pause_within_a_batch_outlasts_the_connection(void **state)
{
	struct node_run run;
	struct counted counted = {.next = {0}};
	struct follower live = {.on_event = NULL};
	struct follower late = {.on_event = pause_at_times, .user = &counted};
	unsigned pauses = 0, cuts = 0;
	node_run_begin_served(&run, NULL);
	/* more than there is credit for: the connection is still needed */
	char *json = node_script(1, "p=$(printf %0400d 0); i=0; "
				    "while [ $i -lt 3000 ]; do echo $i $p; i=$((i+1)); done");
	node_run_job(&run, json, &live);
	node_follow(&run, live.job, NULL, &late);
	while (!late.is_ended) {
		while (tfc_ctx_run(run.ctx, 0) > 0)
			;
		if (counted.next[0] != 701 * (pauses + 1)) {
			assert_true(tfc_ctx_run(run.ctx, 10000) >= 0);
			continue;
		}
		pauses++;
		cuts += pauses % 2 && served_cut(run.served) > 0;
		tfc_sub_resume(late.sub);
	}
	assert_int_equal(counted.next[0], LINES);
	assert_int_equal(pauses, 4);
	assert_int_equal(cuts, 2);
	free(json);
	node_follow_end(&live);
	node_follow_end(&late);
	node_run_end(&run);
}

struct returner {
	struct node_run *run;
	struct tfc__timer timer;
};

static void come_back(struct tfc__timer *timer)
{
	struct returner *returner = tfc__container_of(timer, struct returner, timer);
	served_return(returner->run->served);
}

/* The node is away for a while: what was asked meanwhile is answered then. */
static void a_gateway_that_comes_back_is_found_again(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct answer answer = {0};
	node_run_begin_served(&run, NULL);
	char *json = node_script(1, "echo a; exec sleep 100");
	node_start(&run, json, &follower);
	node_await_task(&run, &follower, "worker/0", TFC_TASK_READY, 1);
	struct returner returner = {.run = &run};
	tfc__timer_init(&returner.timer, run.ctx, come_back);
	tfc__timer_set(&returner.timer, tfc__now() + 300 * TFC__MS);
	served_leave(run.served);
	while (tfc_ctx_run(run.ctx, 0) > 0)
		;
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, 0);
	assert_non_null(strstr(answer.text, follower.job));
	node_answer_clear(&answer);
	node_stop(&run, follower.job, true);
	node_await_end(&run, &follower);
	assert_int_equal(follower.output, 1);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void nobody_there_is_said_with_what_was_tried(void **state)
{
	struct node_run run;
	struct answer answer = {0};
	struct follower follower = {0};
	tfc_gateway *gateway;
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	char addresses[600];
	node_run_begin_served(&run, NULL);
	snprintf(addresses, sizeof(addresses), "unix:%s/nobody,tcp://127.0.0.1:1", run.dir);
	options.address = addresses;
	assert_int_equal(tfc_gateway_open(run.ctx, &options, &gateway), 0);
	assert_int_equal(tfc_gateway_jobs(gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_EUNREACH);
	assert_non_null(strstr(answer.error, "/nobody"));
	assert_non_null(strstr(answer.error, "tcp://127.0.0.1:1"));
	node_answer_clear(&answer);
	tfc_gateway_close(gateway);
	/* One that answers among them is enough. */
	snprintf(addresses, sizeof(addresses), "unix:%s/nobody,%s", run.dir,
		 served_address(run.served));
	assert_int_equal(tfc_gateway_open(run.ctx, &options, &gateway), 0);
	assert_int_equal(tfc_gateway_jobs(gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, 0);
	node_answer_clear(&answer);
	node_follow_end(&follower);
	tfc_gateway_close(gateway);
	node_run_end(&run);
}

static void bad_addresses_and_keys_are_refused(void **state)
{
	static const char *const addresses[] = {"", "unix:/x,,unix:/y"};
	struct node_run run;
	tfc_gateway *gateway;
	node_run_begin_served(&run, NULL);
	for (size_t i = 0; i < 2; i++) {
		tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
		options.address = addresses[i];
		assert_int_equal(tfc_gateway_open(run.ctx, &options, &gateway), TFC_EINVAL);
	}
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	options.address = served_address(run.served);
	options.key_file = "/nonexistent/key";
	assert_int_equal(tfc_gateway_open(run.ctx, &options, &gateway), TFC_ENOENT);
	options.key_file = NULL;
	options.node = run.node;
	assert_int_equal(tfc_gateway_open(run.ctx, &options, &gateway), TFC_EINVAL);
	node_run_end(&run);
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
	struct node_run run;
	node_run_begin_served(&run, NULL);
	char *json = node_script(2, "i=0; while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done");
	char *id = node_submit(&run, json);
	for (int i = 0; i < SUBSCRIBERS; i++) {
		followers[i] = (struct follower){.is_output_dropped = true};
		node_follow(&run, id, NULL, &followers[i]);
	}
	node_await(&run, have_all_ended, followers, "the ends");
	uint64_t bytes = 0;
	for (int i = 0; i < 500; i++)
		bytes += 2 * (uint64_t)snprintf(NULL, 0, "line %d", i);
	for (int i = 0; i < SUBSCRIBERS; i++) {
		assert_int_equal(followers[i].output, bytes);
		node_follow_end(&followers[i]);
	}
	assert_int_equal(served_count(run.served), 1);
	free(json);
	free(id);
	node_run_end(&run);
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
	struct node_run run;
	struct follower slow = {.on_event = pause_once, .is_output_dropped = true}, states = {0};
	tfc_subscribe_options quiet = TFC_SUBSCRIBE_OPTIONS_INIT;
	quiet.skip_output = 1;
	node_run_begin_served(&run, NULL);
	char *json = node_script(1, "head -c 40000000 /dev/zero | tr \\\\\\\\000 x | fold -w 999");
	node_start(&run, json, &slow);
	node_follow(&run, slow.job, &quiet, &states);
	long before = resident_kib();
	node_await_end(&run, &states);
	long grown = resident_kib() - before;
	print_message("grown by %ld KiB\n", grown);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(grown < 12000);
#endif
	assert_false(slow.is_ended);
	tfc_sub_resume(slow.sub);
	node_await_end(&run, &slow);
	assert_int_equal(slow.output, 40000000);
	free(json);
	node_follow_end(&slow);
	node_follow_end(&states);
	node_run_end(&run);
}

#define ASKED 900

struct long_answers {
	struct node_run *run;
	int count;
	size_t len;
	long most_kib;
};

static void cut_responses(void *user)
{
	assert_int_equal(served_cut(((struct long_answers *)user)->run->served), 1);
}

static void on_long_response(void *user, const tfc_reply *reply)
{
	struct long_answers *answers = user;
	assert_int_equal(reply->code, 0);
	assert_int_equal(reply->text[reply->len - 1], '}');
	answers->count++;
	answers->len = reply->len;
	if (answers->count == 100)
		assert_int_equal(tfc_ctx_post(answers->run->ctx, cut_responses, answers), 0);
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
static void long_responses_to_many_requests_alternate(void **state)
{
	struct node_run run;
	struct long_answers answers = {.run = &run};
	node_run_begin_served(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['true'],'placement':{'labels':{'a':"
			       "'nowhere'}},'roles':{'worker':{'count':1000}}}");
	char *id = node_submit(&run, json);
	long before = resident_kib();
	for (int i = 0; i < ASKED; i++)
		assert_int_equal(tfc_gateway_describe(run.gateway, id, NULL, on_long_response,
						      &answers, NULL),
				 0);
	node_await(&run, have_all_come, &answers, "the answers");
	print_message("%d answers of %zu bytes, grown by %ld KiB\n", ASKED, answers.len,
		      answers.most_kib - before);
	assert_true(answers.len > 100000);
	assert_int_equal(served_count(run.served), 2); /* cut once: asked again */
	assert_true(TEST_IS_SANITIZED || answers.most_kib - before < 30000);
	free(id);
	free(json);
	node_run_end(&run);
}

static void a_response_over_a_message_is_named_and_ends_nothing_else(void **state)
{
	struct node_run run;
	struct answer answer = {0};
	char argument[8192];
	tfc_job *job;
	node_run_begin_served(&run, NULL);
	memset(argument, 'x', sizeof(argument) - 1);
	argument[sizeof(argument) - 1] = '\0';
	char *json = node_json("{'framework':'none','argv':['true','%s'],'cwd':'/',"
			       "'roles':{'worker':{'count':3000}}}",
			       argument);
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), 0);
	assert_int_equal(tfc_gateway_explain(run.gateway, job, NULL, node_answer, &answer, NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_ETOOBIG);
	assert_non_null(strstr(answer.error, "response to explain has at least "));
	assert_non_null(strstr(answer.error, "more than a message may have (16777216)"));
	node_answer_clear(&answer);
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, 0);
	node_answer_clear(&answer);
	assert_int_equal(served_count(run.served), 1);
	tfc_job_free(job);
	free(json);
	node_run_end(&run);
}

/* ---- closing, and who may what */

static void closing_at_any_event_is_legal(void **state)
{
	for (size_t at = 0, is_over = 0; !is_over && at < 60; at += 3) {
		struct node_run run;
		struct follower follower = {0};
		node_run_begin_served(&run, NULL);
		char *json = node_script(2, "echo a; echo b >&2; echo -n c");
		node_start(&run, json, &follower);
		while (follower.count <= at && !follower.is_ended)
			assert_true(tfc_ctx_run(run.ctx, 10000) >= 0);
		is_over = follower.is_ended;
		if (at % 2)
			served_leave(run.served);
		node_follow_end(&follower);
		tfc_gateway_close(run.gateway);
		run.gateway = NULL;
		while (tfc_ctx_run(run.ctx, 0) > 0)
			;
		free(json);
		node_run_end(&run);
	}
}

static bool is_lost(void *user)
{
	return node_find(user, TFC_EVENT_LOST, NULL, 0, 0);
}

static void a_forgotten_job_is_reported_to_its_readers(void **state)
{
	struct node_run run;
	struct follower done = {0}, slow = {.on_event = pause_once};
	struct answer answer = {0};
	node_run_begin_served(&run, NULL);
	char *json = node_script(1, "echo a; echo b");
	node_run_job(&run, json, &done);
	node_follow(&run, done.job, NULL, &slow);
	while (!slow.user)
		assert_true(tfc_ctx_run(run.ctx, 10000) >= 0);
	assert_int_equal(node_forget(&run, done.job), TFC_OK);
	tfc_sub_resume(slow.sub);
	while (!is_lost(&slow) && !slow.is_ended)
		assert_true(tfc_ctx_run(run.ctx, 10000) >= 0);
	assert_int_equal(tfc_gateway_describe(run.gateway, done.job, NULL, node_answer, &answer,
					      NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_ENOENT);
	node_answer_clear(&answer);
	free(json);
	node_follow_end(&done);
	node_follow_end(&slow);
	node_run_end(&run);
}

/* Begins to ask, breaks the connection after so many turns, and awaits the answer. */
static int cut_after(struct node_run *run, int turns, struct answer *answer)
{
	for (int i = 0; i < turns && !answer->count; i++)
		assert_true(tfc_ctx_run(run->ctx, 100) >= 0);
	bool is_cut = !answer->count && served_cut(run->served);
	node_await_answer(run, answer);
	assert_int_equal(answer->code, 0);
	node_answer_clear(answer);
	return is_cut;
}

/* Wherever the connection breaks: in front of the question, or of the answer. */
static void what_was_done_is_not_refused_when_its_response_was_lost(void **state)
{
	struct node_run run;
	bool was_cut = true;
	node_run_begin_served(&run, NULL);
	char *json = node_script(1, "exec sleep 1000");
	for (int turns = 0; was_cut; turns++) {
		struct follower follower = {0};
		struct answer answer = {0};
		char *id = node_submit(&run, json);
		assert_int_equal(tfc_gateway_stop(run.gateway, id, NULL, node_answer, &answer,
						  NULL),
				 0);
		was_cut = cut_after(&run, turns, &answer);
		node_follow(&run, id, NULL, &follower);
		node_await_end(&run, &follower);
		node_follow_end(&follower);
		assert_int_equal(tfc_gateway_stop(run.gateway, id, NULL, node_answer, &answer,
						  NULL),
				 0);
		node_await_answer(&run, &answer);
		assert_int_equal(answer.code, 0); /* it was stopped, as wanted */
		node_answer_clear(&answer);
		assert_int_equal(tfc_gateway_forget(run.gateway, id, NULL, node_answer, &answer,
						    NULL),
				 0);
		was_cut |= cut_after(&run, turns, &answer);
		free(id);
	}
	free(json);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_event_comes_once_however_often_the_connection_breaks),
		cmocka_unit_test(silent_tasks_keep_their_place_however_often_the_connection_breaks),
		cmocka_unit_test(a_pause_within_a_batch_outlasts_the_connection),
		cmocka_unit_test(a_gateway_that_comes_back_is_found_again),
		cmocka_unit_test(nobody_there_is_said_with_what_was_tried),
		cmocka_unit_test(bad_addresses_and_keys_are_refused),
		cmocka_unit_test(a_hundred_subscribers_see_all_of_a_chatty_job),
		cmocka_unit_test(a_slow_reader_holds_bounded_memory_and_slows_no_task),
		cmocka_unit_test(long_responses_to_many_requests_alternate),
		cmocka_unit_test(a_response_over_a_message_is_named_and_ends_nothing_else),
		cmocka_unit_test(closing_at_any_event_is_legal),
		cmocka_unit_test(a_forgotten_job_is_reported_to_its_readers),
		cmocka_unit_test(what_was_done_is_not_refused_when_its_response_was_lost),
	};
	return cmocka_run_group_tests_name("gateway_remote", tests, NULL, NULL);
}
