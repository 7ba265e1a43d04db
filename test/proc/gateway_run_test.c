/* gateway: tfc_gateway_run submits a job and follows it, in one call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node_run.h"
#include "served.h"

struct call {
	struct node_run run;
	tfc_sub *sub;
	int replies;
	int code;
	char job[17];
	char home[33];
	uint32_t kinds[4096]; /* of the events, in order */
	int32_t error_code;   /* of LOST */
	size_t count;
	uint32_t last_state;
	char cursor[192]; /* of event number `cursor_at` */
	size_t cursor_at;
	size_t close_at; /* the subscription is closed inside this event; 0: never */
	bool closes_in_reply;
	bool is_over;
};

static void close_sub(struct call *call)
{
	tfc_sub_close(call->sub);
	call->sub = NULL;
}

static void on_reply(void *user, const tfc_reply *reply)
{
	struct call *call = user;
	assert_int_equal(call->count, 0);
	call->replies++;
	call->code = reply->code;
	snprintf(call->job, sizeof(call->job), "%s", reply->text);
	snprintf(call->home, sizeof(call->home), "%s", reply->home);
	call->is_over = call->code < 0 || call->closes_in_reply;
	if (call->closes_in_reply)
		close_sub(call);
}

static void on_event(void *user, const tfc_event *event)
{
	struct call *call = user;
	assert_int_equal(call->replies, 1);
	assert_int_equal(call->code, 0);
	assert_string_equal(event->job, call->job);
	assert_true(call->count < sizeof(call->kinds) / sizeof(call->kinds[0]));
	call->kinds[call->count++] = event->kind;
	if (call->count == call->cursor_at)
		snprintf(call->cursor, sizeof(call->cursor), "%s", event->cursor);
	call->last_state = event->job_state;
	call->error_code = event->error_code;
	call->is_over = event->kind == TFC_EVENT_END || event->kind == TFC_EVENT_LOST;
	if (call->count == call->close_at) {
		close_sub(call);
		call->is_over = true;
	}
}

static bool is_over(void *user)
{
	return ((struct call *)user)->is_over;
}

static bool is_replied(void *user)
{
	return ((struct call *)user)->replies > 0;
}

/* A job of `count` workers that run a line of sh. */
static int try_run(struct call *call, uint32_t count, const char *script,
		   const tfc_submit_options *submit, const tfc_subscribe_options *subscribe)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_job *job;
	char *json = node_script(count, script);
	if (tfc_job_parse(json, strlen(json), NULL, &error, &job) < 0)
		fail_msg("%s", error.text);
	int code = tfc_gateway_run(call->run.gateway, job, submit, subscribe, on_reply, on_event,
				   call, &call->sub);
	tfc_job_free(job);
	free(json);
	assert_int_equal(call->replies, 0);
	return code;
}

static void begin(struct call *call, uint32_t count, const char *script)
{
	node_run_begin(&call->run, NULL);
	if (try_run(call, count, script, NULL, NULL) < 0)
		fail_msg("%s", tfc_ctx_error(call->run.ctx)->text);
}

static void end(struct call *call)
{
	close_sub(call);
	node_run_end(&call->run);
}

static void turn(struct call *call, int turns)
{
	while (turns--)
		assert_true(tfc_ctx_run(call->run.ctx, 10) >= 0);
}

static void a_job_is_submitted_and_followed_from_its_beginning(void **state)
{
	struct call call = {0};
	struct follower follower = {0};
	begin(&call, 2, "echo one; echo two");
	node_await(&call.run, is_over, &call, "the end");
	assert_int_equal(call.replies, 1);
	assert_int_equal(call.last_state, TFC_JOB_SUCCEEDED);
	assert_int_equal(strlen(call.home), 32);
	node_follow(&call.run, call.job, NULL, &follower);
	node_await_end(&call.run, &follower);
	assert_int_equal(call.count, follower.count);
	assert_int_equal(call.kinds[0], follower.events[0].event.kind);
	node_follow_end(&follower);
	end(&call);
}

static void expect_no_lost(const struct call *call)
{
	for (size_t i = 0; i < call->count; i++)
		assert_int_not_equal(call->kinds[i], TFC_EVENT_LOST);
	assert_int_equal(call->kinds[call->count - 1], TFC_EVENT_END);
}

static void a_resume_before_the_reply_reports_nothing(void **state)
{
	struct call call = {0};
	begin(&call, 1, "echo one");
	tfc_sub_pause(call.sub);
	tfc_sub_resume(call.sub);
	node_await(&call.run, is_over, &call, "the end");
	expect_no_lost(&call);
	end(&call);
}

static void a_pause_holds_before_and_after_the_reply(void **state)
{
	struct call call = {0};
	begin(&call, 1, "echo one");
	tfc_sub_pause(call.sub);
	node_await(&call.run, is_replied, &call, "the reply");
	turn(&call, 20);
	assert_int_equal(call.count, 0);
	tfc_sub_resume(call.sub);
	while (!call.count)
		turn(&call, 1);
	tfc_sub_pause(call.sub);
	size_t count = call.count;
	turn(&call, 20);
	assert_int_equal(call.count, count);
	tfc_sub_resume(call.sub);
	node_await(&call.run, is_over, &call, "the end");
	expect_no_lost(&call);
	end(&call);
}

static void a_failed_submit_is_reported_once_by_the_reply(void **state)
{
	struct call call = {0};
	tfc_submit_options submit = TFC_SUBMIT_OPTIONS_INIT;
	submit.home = "0123456789abcdef0123456789abcdef";
	submit.client_key = "";
	node_run_begin(&call.run, NULL);
	assert_int_equal(try_run(&call, 1, "true", &submit, NULL), 0);
	node_await(&call.run, is_over, &call, "the reply");
	assert_int_equal(call.code, TFC_EINVAL);
	turn(&call, 10);
	tfc_sub_pause(call.sub);
	tfc_sub_resume(call.sub);
	turn(&call, 10);
	assert_int_equal(call.replies, 1);
	assert_int_equal(call.count, 0);
	end(&call);
}

static void closing_before_the_reply_cancels_the_submit_and_drops_the_reply(void **state)
{
	struct call call = {0};
	begin(&call, 1, "true");
	tfc_sub_close(call.sub);
	turn(&call, 20);
	assert_int_equal(call.replies, 0);
	assert_int_equal(call.count, 0);
	node_run_end(&call.run);
}

static void closing_inside_the_reply_and_inside_any_event_is_legal(void **state)
{
	for (size_t at = 0; at < 9; at++) {
		struct call call = {.close_at = at, .closes_in_reply = at == 0};
		begin(&call, 1, "echo one; echo two");
		node_await(&call.run, is_over, &call, "the event");
		size_t count = call.count;
		turn(&call, 5);
		assert_int_equal(call.count, count);
		assert_int_equal(count, at);
		node_run_end(&call.run);
	}
}

static void a_gateway_closed_before_the_reply_completes_the_submit(void **state)
{
	for (int turns = 0; turns < 4; turns++) {
		struct call call = {0};
		begin(&call, 1, "true");
		for (int i = 0; i < turns && !call.replies; i++)
			assert_true(tfc_ctx_run(call.run.ctx, 100) >= 0);
		bool was_replied = call.replies > 0;
		size_t count = call.count;
		tfc_gateway_close(call.run.gateway);
		call.run.gateway = NULL;
		turn(&call, 5);
		assert_int_equal(call.replies, 1);
		assert_int_equal(call.code, was_replied ? TFC_OK : TFC_ECANCELED);
		assert_int_equal(call.count, count);
		end(&call);
	}
}

static void a_freed_context_closes_it_at_any_moment(void **state)
{
	for (int turns = 0; turns < 6; turns++) {
		struct call call = {0};
		begin(&call, 1, "echo one");
		turn(&call, turns);
		tfc_gateway_close(call.run.gateway);
		call.run.gateway = NULL;
		node_run_end(&call.run);
	}
}

static void a_repeated_submit_goes_on_behind_a_cursor(void **state)
{
	static const char script[] = "for i in 1 2 3 4 5 6 7 8; do echo $i; done";
	struct call first = {.cursor_at = 5}, second = {0};
	tfc_submit_options submit = TFC_SUBMIT_OPTIONS_INIT;
	tfc_subscribe_options subscribe = TFC_SUBSCRIBE_OPTIONS_INIT;
	submit.client_key = "eight";
	node_run_begin(&first.run, NULL);
	assert_int_equal(try_run(&first, 1, script, &submit, NULL), 0);
	node_await(&first.run, is_over, &first, "the end");
	second.run = first.run;
	subscribe.cursor = first.cursor;
	assert_int_equal(try_run(&second, 1, script, &submit, &subscribe), 0);
	memset(first.cursor, 'x', sizeof(first.cursor) - 1); /* it was copied */
	node_await(&second.run, is_over, &second, "the end");
	assert_string_equal(second.job, first.job);
	assert_int_equal(second.count, first.count - 5);
	tfc_sub_close(first.sub);
	tfc_sub_close(second.sub);
	node_run_end(&first.run);
}

static void a_cursor_of_nothing_is_reported_by_lost(void **state)
{
	struct call call = {0};
	tfc_subscribe_options subscribe = TFC_SUBSCRIBE_OPTIONS_INIT;
	subscribe.cursor = "nonsense";
	node_run_begin(&call.run, NULL);
	assert_int_equal(try_run(&call, 1, "true", NULL, &subscribe), 0);
	node_await(&call.run, is_over, &call, "LOST");
	assert_int_equal(call.code, 0);
	assert_int_equal(call.count, 1);
	assert_int_equal(call.kinds[0], TFC_EVENT_LOST);
	assert_int_equal(call.error_code, TFC_EINVAL);
	end(&call);
}

static void bad_use_is_refused(void **state)
{
	struct call call = {0};
	tfc_sub *sub = NULL;
	tfc_job *job;
	node_run_begin(&call.run, NULL);
	assert_int_equal(tfc_job_new(&job), 0);
	tfc_gateway *gateway = call.run.gateway;
	assert_int_equal(tfc_gateway_run(gateway, job, NULL, NULL, NULL, on_event, NULL, &sub),
			 TFC_EINVAL);
	assert_int_equal(tfc_gateway_run(gateway, job, NULL, NULL, on_reply, NULL, NULL, &sub),
			 TFC_EINVAL);
	assert_int_equal(tfc_gateway_run(gateway, job, NULL, NULL, on_reply, on_event, NULL, NULL),
			 TFC_EINVAL);
	tfc_subscribe_options bad = TFC_SUBSCRIBE_OPTIONS_INIT;
	bad.size = 1;
	assert_int_equal(tfc_gateway_run(gateway, job, NULL, &bad, on_reply, on_event, NULL, &sub),
			 TFC_EINVAL);
	assert_null(sub);
	tfc_job_free(job);
	node_run_end(&call.run);
}

/* ---- a connection that is lost */

static void cut(void *user)
{
	struct call *call = user;
	served_cut(call->run.served);
}

static void a_lost_connection_makes_one_job_and_loses_no_event(void **state)
{
	static const char script[] = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.02; done";
	for (int turns = 0; turns < 12; turns++) {
		struct call call = {0};
		struct follower follower = {0};
		struct answer answer = {0};
		node_run_begin_served(&call.run, NULL);
		assert_int_equal(try_run(&call, 1, script, NULL, NULL), 0);
		turn(&call, turns);
		assert_int_equal(tfc_ctx_post(call.run.ctx, cut, &call), 0);
		node_await(&call.run, is_over, &call, "the end");
		assert_int_equal(call.replies, 1);
		assert_int_equal(call.last_state, TFC_JOB_SUCCEEDED);
		node_follow(&call.run, call.job, NULL, &follower);
		node_await_end(&call.run, &follower);
		assert_int_equal(call.count, follower.count);
		node_follow_end(&follower);
		assert_int_equal(tfc_gateway_jobs(call.run.gateway, NULL, node_answer, &answer,
						  NULL),
				 0);
		node_await_answer(&call.run, &answer);
		char *first = strstr(answer.text, "\"job\":");
		assert_non_null(first);
		assert_null(strstr(first + 1, "\"job\":"));
		node_answer_clear(&answer);
		end(&call);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_is_submitted_and_followed_from_its_beginning),
		cmocka_unit_test(a_resume_before_the_reply_reports_nothing),
		cmocka_unit_test(a_pause_holds_before_and_after_the_reply),
		cmocka_unit_test(a_failed_submit_is_reported_once_by_the_reply),
		cmocka_unit_test(closing_before_the_reply_cancels_the_submit_and_drops_the_reply),
		cmocka_unit_test(closing_inside_the_reply_and_inside_any_event_is_legal),
		cmocka_unit_test(a_gateway_closed_before_the_reply_completes_the_submit),
		cmocka_unit_test(a_freed_context_closes_it_at_any_moment),
		cmocka_unit_test(a_repeated_submit_goes_on_behind_a_cursor),
		cmocka_unit_test(a_cursor_of_nothing_is_reported_by_lost),
		cmocka_unit_test(bad_use_is_refused),
		cmocka_unit_test(a_lost_connection_makes_one_job_and_loses_no_event),
	};
	return cmocka_run_group_tests_name("gateway_run", tests, NULL, NULL);
}
