/* gateway: a subscription reports all of a job, in order, once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <time.h>

#include "base/clock.h"
#include "node_run.h"

static void run_script(struct node_run *run, struct follower *follower, const char *script)
{
	char *json = node_script(1, script);
	const struct seen_event *end = node_run_job(run, json, follower);
	assert_int_equal(end->event.job_state, TFC_JOB_SUCCEEDED);
	free(json);
}

/* What two subscribers must agree on: all but the interleaving of tasks, which one task has not. */
static void assert_same_events(const struct follower *a, const struct follower *b)
{
	assert_int_equal(a->count, b->count);
	size_t i = 0, k = 0;
	for (;;) {
		while (i < a->count && a->events[i].event.kind == TFC_EVENT_OUTPUT)
			i++;
		while (k < b->count && b->events[k].event.kind == TFC_EVENT_OUTPUT)
			k++;
		if (i == a->count || k == b->count)
			break;
		const struct seen_event *one = &a->events[i++], *other = &b->events[k++];
		assert_int_equal(one->event.kind, other->event.kind);
		assert_int_equal(one->event.job_state, other->event.job_state);
		assert_int_equal(one->event.task_state, other->event.task_state);
		assert_int_equal(one->event.attempt, other->event.attempt);
		assert_int_equal(one->event.time_ns, other->event.time_ns);
		assert_int_equal(one->event.pid, other->event.pid);
		assert_string_equal(one->text, other->text);
		assert_string_equal(one->tail, other->tail);
		assert_string_equal(one->task, other->task);
	}
	assert_true(i == a->count && k == b->count);
	char *one = node_output(a, NULL, 0), *other = node_output(b, NULL, 0);
	assert_string_equal(one, other);
	free(one);
	free(other);
}

/* Three attempts; each leaves a line without its end. */
#define RESTARTING                                                                       \
	"i=0; while [ $i -lt 300 ]; do echo $TFC_ATTEMPT-$i; i=$((i+1)); done; echo -n " \
	"unfinished; "                                                                   \
	"[ $TFC_ATTEMPT = 3 ] || kill -9 $$"

/* The outputs of each attempt lie before its end, and behind the end of the one before. */
static void assert_outputs_lie_within_attempts(const struct follower *follower)
{
	uint32_t attempt = 1;
	for (size_t i = 0; i < follower->count; i++) {
		const struct seen_event *seen = &follower->events[i];
		if (seen->event.kind == TFC_EVENT_OUTPUT)
			assert_int_equal(seen->event.attempt, attempt);
		if (seen->event.kind == TFC_EVENT_TASK &&
		    (seen->event.task_state == TFC_TASK_FAILED ||
		     seen->event.task_state == TFC_TASK_EXITED)) {
			assert_int_equal(seen->event.attempt, attempt);
			attempt++;
		}
	}
	assert_int_equal(attempt, 4);
}

static void replay_of_an_ended_job_is_what_was_reported_live(void **state)
{
	struct node_run run;
	struct follower live = {0}, late = {0}, other = {0};
	node_run_begin(&run, NULL);
	run_script(&run, &live, RESTARTING);
	assert_outputs_lie_within_attempts(&live);
	assert_non_null(strstr(node_find(&live, TFC_EVENT_END, NULL, 0, 0)->tail, "unfinished\n"));
	node_follow(&run, live.job, NULL, &late);
	node_follow(&run, live.job, NULL, &other);
	node_await_end(&run, &late);
	node_await_end(&run, &other);
	assert_outputs_lie_within_attempts(&late);
	assert_same_events(&live, &late);
	assert_same_events(&live, &other);
	node_follow_end(&live);
	node_follow_end(&late);
	node_follow_end(&other);
	node_run_end(&run);
}

static void note_loss(void *user, const tfc_event *event)
{
	assert_int_equal(event->kind, TFC_EVENT_LOST);
	*(int *)user = event->error_code;
}

static bool is_lost(void *user)
{
	return *(int *)user < 0;
}

/* The code of the one event of a subscription that is refused. */
static int refusal(struct node_run *run, const char *job, const char *cursor)
{
	tfc_sub *sub = NULL;
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	int lost = 0;
	options.cursor = cursor;
	int code = tfc_gateway_subscribe(run->gateway, job, &options, note_loss, &lost, &sub);
	assert_int_equal(code, 0);
	node_await(run, is_lost, &lost, "a refusal");
	tfc_sub_close(sub);
	return lost;
}

static void a_cursor_continues_behind_every_line(void **state)
{
	struct node_run run;
	struct follower whole = {0};
	node_run_begin(&run, NULL);
	run_script(&run, &whole,
		   "echo -n a; echo b >&2; echo c; echo; echo -n d >&2; echo e; echo f >&2; "
		   "[ $TFC_ATTEMPT = 2 ] || kill -9 $$");
	size_t reported = 0;
	for (size_t i = 0; i < whole.count; i++) {
		struct follower rest = {0};
		tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
		if (whole.events[i].event.kind != TFC_EVENT_OUTPUT)
			continue;
		reported++;
		options.cursor = whole.events[i].cursor;
		node_follow(&run, whole.job, &options, &rest);
		node_await_end(&run, &rest);
		char *all = node_output(&whole, "worker/0", 0);
		char *behind = node_output(&rest, "worker/0", 0);
		size_t skip = 0;
		for (size_t k = 0; k <= i; k++)
			if (whole.events[k].event.kind == TFC_EVENT_OUTPUT)
				skip += whole.events[k].event.data_len + 1;
		assert_string_equal(all + skip, behind);
		free(all);
		free(behind);
		node_follow_end(&rest);
	}
	assert_int_equal(reported, 10);
	static const char *const wrong[] = {"", "worker/0", "0_1.0", "ffffff", "0_0.0+0", "0 "};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(refusal(&run, whole.job, wrong[i]), TFC_EINVAL);
	}
	assert_int_equal(refusal(&run, "nobody", NULL), TFC_ENOENT);
	node_follow_end(&whole);
	node_run_end(&run);
}

/* How many events there are behind the first `skip`, of a task and kind. */
static size_t count_events(const struct follower *follower, size_t skip, uint32_t kind,
			   const char *task)
{
	size_t count = 0;
	for (size_t i = skip; i < follower->count; i++)
		count += follower->events[i].event.kind == kind &&
			 strcmp(follower->events[i].task, task) == 0;
	return count;
}

/* Nothing is lost or doubled, of no task, whichever event the cursor is of. */
static void one_cursor_continues_the_whole_job(void **state)
{
	static const char *const tasks[] = {"worker/0", "worker/1", "worker/2", ""};
	struct node_run run;
	struct follower whole = {0};
	node_run_begin(&run, NULL);
	char *json = node_script(3, "echo a; echo b >&2; echo -n c; sleep 0.0$TFC_ATTEMPT; echo d; "
				    "[ $TFC_ATTEMPT = 2 ] || kill -9 $$");
	node_run_job(&run, json, &whole);
	for (size_t i = 0; i < whole.count; i++) {
		struct follower rest = {0};
		tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
		if (whole.events[i].event.kind == TFC_EVENT_END)
			break;
		options.cursor = whole.events[i].cursor;
		node_follow(&run, whole.job, &options, &rest);
		node_await_end(&run, &rest);
		for (size_t t = 0; t < 4; t++)
			for (uint32_t kind = TFC_EVENT_JOB; kind <= TFC_EVENT_GAP; kind++)
				assert_int_equal(count_events(&rest, 0, kind, tasks[t]),
						 count_events(&whole, i + 1, kind, tasks[t]));
		assert_int_equal(rest.count, whole.count - i - 1);
		node_follow_end(&rest);
	}
	free(json);
	node_follow_end(&whole);
	node_run_end(&run);
}

static bool is_live(void *user)
{
	return node_find(user, TFC_EVENT_LIVE, NULL, 0, 0);
}

/* Its output may be there before "running" is reported. */
static bool is_running(void *user)
{
	const struct follower *follower = user;
	return follower->output >= 10 &&
	       follower->events[follower->count - 1].event.job_state == TFC_JOB_RUNNING;
}

static void live_is_reported_behind_all_that_was_there(void **state)
{
	struct node_run run;
	struct follower first = {0}, second = {0};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.wants_live = 1;
	node_run_begin(&run, NULL);
	char *json = node_script(2, "for i in 1 2 3 4 5; do echo $i; done; exec sleep 100");
	node_start(&run, json, &first);
	node_await(&run, is_running, &first, "all output of a running job");
	assert_false(is_live(&first));
	node_follow(&run, first.job, &options, &second);
	node_await(&run, is_live, &second, "being live");
	assert_int_equal(second.output, 10);
	assert_int_equal(second.events[second.count - 1].event.kind, TFC_EVENT_LIVE);
	node_stop(&run, first.job, true);
	node_await_end(&run, &second);
	assert_int_equal(count_events(&second, 0, TFC_EVENT_LIVE, ""), 1);
	free(json);
	node_follow_end(&first);
	node_follow_end(&second);
	node_run_end(&run);
}

static void chatty_tasks_say_all_before_their_ends(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	bool is_over[64] = {false};
	uint32_t next[64] = {0};
	node_run_begin(&run, NULL);
	char *json = node_script(64, "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); done");
	node_run_job(&run, json, &follower);
	for (size_t i = 0; i < follower.count; i++) {
		const struct seen_event *seen = &follower.events[i];
		uint32_t index = seen->event.task_index;
		if (seen->event.kind == TFC_EVENT_OUTPUT) {
			assert_false(is_over[index]);
			assert_int_equal(atoi(seen->data), next[index]++);
		}
		if (seen->event.kind == TFC_EVENT_TASK && seen->event.task_state == TFC_TASK_EXITED)
			is_over[index] = true;
	}
	for (int i = 0; i < 64; i++) {
		assert_int_equal(next[i], 200);
		assert_true(is_over[i]);
	}
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void long_lines_and_odd_bytes_come_as_they_are(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	size_t parts = 0, bytes = 0;
	node_run_begin(&run, NULL);
	run_script(&run, &follower,
		   "head -c 200000 /dev/zero | tr \\\\\\\\000 x; echo; printf "
		   "\\\\\\\\000\\\\\\\\377\\\\\\\\n; "
		   "printf end");
	for (size_t i = 0; i < follower.count; i++) {
		const struct seen_event *seen = &follower.events[i];
		if (seen->event.kind != TFC_EVENT_OUTPUT)
			continue;
		parts++;
		assert_true(seen->event.data_len <= 65536);
		if (parts <= 4) {
			assert_int_equal(seen->event.is_partial, parts < 4);
			bytes += seen->event.data_len;
		} else if (parts == 5) {
			assert_int_equal(seen->event.data_len, 2);
			assert_memory_equal(seen->data, "\0\377", 2);
		} else {
			assert_string_equal(seen->data, "end");
		}
	}
	assert_int_equal(parts, 6);
	assert_int_equal(bytes, 200000);
	node_follow_end(&follower);
	node_run_end(&run);
}

/* ---- pausing and closing */

static void pause_at_once(struct follower *follower, const tfc_event *event)
{
	tfc_sub_pause(follower->sub);
}

static void pause_and_resume_lose_and_double_nothing(void **state)
{
	struct node_run run;
	struct follower live = {0}, paused = {.on_event = pause_at_once};
	node_run_begin(&run, NULL);
	run_script(&run, &live, RESTARTING);
	node_follow(&run, live.job, NULL, &paused);
	while (!paused.is_ended) {
		size_t before = paused.count;
		while (tfc_ctx_run(run.ctx, 0) > 0)
			;
		assert_int_equal(paused.count, before + 1);
		tfc_sub_resume(paused.sub);
	}
	assert_same_events(&live, &paused);
	node_follow_end(&live);
	node_follow_end(&paused);
	node_run_end(&run);
}

struct closing {
	struct node_run *run;
	size_t at; /* close at this event */
	bool is_gateway;
	bool is_closed;
};

static void close_at(struct follower *follower, const tfc_event *event)
{
	struct closing *closing = follower->user;
	assert_false(closing->is_closed);
	if (follower->count <= closing->at)
		return;
	closing->is_closed = true;
	if (closing->is_gateway) {
		tfc_gateway_close(closing->run->gateway);
		closing->run->gateway = NULL;
		return;
	}
	tfc_sub_close(follower->sub);
	follower->sub = NULL;
}

/* At each event of a job's life; the gateway's close as well as the subscription's own. */
static void closing_inside_the_callback_is_legal(void **state)
{
	for (int is_gateway = 0; is_gateway < 2; is_gateway++) {
		for (size_t at = 0, is_over = 0; !is_over; at++) {
			struct node_run run;
			struct closing closing = {&run, at, is_gateway, false};
			struct follower follower = {.on_event = close_at, .user = &closing};
			node_run_begin(&run, NULL);
			char *json = node_script(1, "echo a; echo b >&2; echo -n c");
			node_start(&run, json, &follower);
			while (!closing.is_closed && !follower.is_ended)
				assert_true(tfc_ctx_run(run.ctx, 10000) >= 0);
			is_over = follower.is_ended;
			for (int i = 0; i < 3; i++)
				tfc_ctx_run(run.ctx, 0);
			free(json);
			node_follow_end(&follower);
			node_run_end(&run);
		}
	}
}

/* A handle whose gateway and node are gone is still the host's to close. */
static void a_subscription_outlives_gateway_and_node(void **state)
{
	struct node_run run;
	struct follower follower = {0}, paused = {.on_event = pause_at_once};
	node_run_begin(&run, NULL);
	char *json = node_script(3, "echo here; sleep 100");
	node_start(&run, json, &follower);
	node_follow(&run, follower.job, NULL, &paused);
	node_await_task(&run, &follower, "worker/2", TFC_TASK_READY, 0);
	node_run_close(&run);
	size_t count = follower.count;
	tfc_sub_resume(paused.sub);
	for (int i = 0; i < 5; i++)
		tfc_ctx_run(run.ctx, 1);
	assert_int_equal(follower.count, count);
	free(json);
	node_follow_end(&follower);
	node_follow_end(&paused);
	node_run_end(&run);
}

static void without_output_only_states_are_reported(void **state)
{
	struct node_run run;
	struct follower whole = {0}, quiet = {0};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.skip_output = 1;
	node_run_begin(&run, NULL);
	run_script(&run, &whole, "echo much; echo more >&2");
	node_follow(&run, whole.job, &options, &quiet);
	node_await_end(&run, &quiet);
	assert_int_equal(whole.count, quiet.count + 2);
	assert_null(node_find(&quiet, TFC_EVENT_OUTPUT, NULL, 0, 0));
	node_follow_end(&whole);
	node_follow_end(&quiet);
	node_run_end(&run);
}

static uint64_t cpu_time(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * TFC__SECOND + (uint64_t)now.tv_nsec;
}

/* Processor time: what else the machine does is not the library's. */
static void dispatch_timed(struct node_run *run, uint64_t *worst)
{
	uint64_t begin = cpu_time();
	assert_true(tfc_ctx_run(run->ctx, 10000) >= 0);
	uint64_t took = cpu_time() - begin;
	*worst = took > *worst ? took : *worst;
}

/* 200 MB: more than the log keeps, so that a late reader also meets the gap. */
static void a_large_log_makes_no_dispatch_long(void **state)
{
	struct node_run run;
	struct follower follower = {.is_output_dropped = true};
	uint64_t worst = 0;
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['%s','print','first\\n','flood','%d'],"
			       "'roles':{'worker':{}}}",
			       node_task_program(), 200000000);
	node_start(&run, json, &follower);
	tfc_sub_pause(follower.sub);
	struct follower states = {0};
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	options.skip_output = 1;
	node_follow(&run, follower.job, &options, &states);
	while (!states.is_ended)
		dispatch_timed(&run, &worst);
	print_message("longest dispatch until the end: %llu us\n",
		      (unsigned long long)worst / 1000);
	assert_in_range(worst, 0, 20 * TFC__MS);
	tfc_sub_resume(follower.sub);
	while (!follower.is_ended)
		dispatch_timed(&run, &worst);
	print_message("longest dispatch: %llu us\n", (unsigned long long)worst / 1000);
	assert_in_range(worst, 0, 20 * TFC__MS);
	assert_true(follower.output > 100000000);
	free(json);
	node_follow_end(&states);
	node_follow_end(&follower);
	node_run_end(&run);
}

static void host_tag_comes_back_in_every_event(void **state)
{
	struct node_run run;
	struct follower follower = {0};
	struct answer answer = {0};
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	options.host_tag = "ta\0g";
	options.host_tag_len = 4;
	node_run_begin(&run, NULL);
	char *json = node_script(2, "echo a");
	node_submit_for(&run, json, &options, &answer);
	node_follow(&run, answer.text, NULL, &follower);
	node_await_end(&run, &follower);
	for (size_t i = 0; i < follower.count; i++) {
		assert_int_equal(follower.events[i].event.host_tag_len, 4);
		assert_string_equal(follower.events[i].host_tag, "ta");
		assert_int_equal(follower.events[i].event.epoch, 1);
	}
	node_answer_clear(&answer);
	free(json);
	node_follow_end(&follower);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replay_of_an_ended_job_is_what_was_reported_live),
		cmocka_unit_test(a_cursor_continues_behind_every_line),
		cmocka_unit_test(one_cursor_continues_the_whole_job),
		cmocka_unit_test(live_is_reported_behind_all_that_was_there),
		cmocka_unit_test(chatty_tasks_say_all_before_their_ends),
		cmocka_unit_test(long_lines_and_odd_bytes_come_as_they_are),
		cmocka_unit_test(pause_and_resume_lose_and_double_nothing),
		cmocka_unit_test(closing_inside_the_callback_is_legal),
		cmocka_unit_test(a_subscription_outlives_gateway_and_node),
		cmocka_unit_test(without_output_only_states_are_reported),
		cmocka_unit_test(a_large_log_makes_no_dispatch_long),
		cmocka_unit_test(host_tag_comes_back_in_every_event),
	};
	return cmocka_run_group_tests_name("gateway_subscribe", tests, NULL, NULL);
}
