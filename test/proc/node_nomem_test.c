/* node, gateway: whichever allocation fails, a call is refused in words or does what it promises:
 * a job has its one end, every attempt has its own, no line of output is lost without a gap, and
 * the next job runs as if nothing had been. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "failing_malloc.h"
#include "folder.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"

#define PATIENCE (30 * TFC__SECOND)
#define TASKS 2
#define ATTEMPTS 3 /* the first dies, and one may be lost for want of memory */
#define LINES 3    /* that each attempt prints */

/* ---- a node without anything that allocates in its callbacks */

struct place {
	tfc_ctx *ctx;
	tfc_node *node;
	tfc_gateway *gateway;
};

static int set_variable(void *user, const tfc_task_info *task, tfc_env *env)
{
	SWEPT(tfc_env_set);
	return tfc_env_set(env, "FROM_HOOK", "a value that is longer than nothing");
}

static int open_place(struct place *place)
{
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	tfc_node_hooks hooks = TFC_NODE_HOOKS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	static const char *const env[] = {"PATH=/usr/bin:/bin", "SECRET=s", NULL};
	SWEPT(tfc_node_open);
	SWEPT(tfc_gateway_open);
	*place = (struct place){0};
	ctx.helper_dir = getenv("TFC_HELPER_DIR");
	node.temp_dir = leaks_temp_dir();
	node.env = env;
	hooks.before_launch = set_variable;
	node.hooks = &hooks;
	int code = tfc_ctx_new(&ctx, NULL, &place->ctx);
	if (code < 0)
		return code;
	code = failing_said(tfc_node_open(place->ctx, &node, &place->node),
			    tfc_ctx_error(place->ctx));
	assert_true(code == TFC_OK || !place->node);
	gateway.node = place->node;
	if (code == TFC_OK)
		code = failing_said(tfc_gateway_open(place->ctx, &gateway, &place->gateway),
				    tfc_ctx_error(place->ctx));
	assert_true(code == TFC_OK || !place->gateway);
	return code;
}

static void close_place(struct place *place)
{
	tfc_gateway_close(place->gateway);
	tfc_node_close(place->node);
	tfc_ctx_free(place->ctx);
}

static void run_until(struct place *place, const int *is_met)
{
	for (uint64_t end = tfc__now() + PATIENCE; !*is_met;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(place->ctx, 1000) >= 0);
	}
}

static int open_and_close(void)
{
	struct place place, again;
	int code = open_place(&place);
	close_place(&place);
	failing_relent();
	assert_int_equal(open_place(&again), TFC_OK);
	close_place(&again);
	return code;
}

static void note_member(void *user, uint32_t change, const tfc_member_info *member)
{
}

static int watch_members(void)
{
	struct place place;
	tfc_member_watch *watch = NULL;
	int code = open_place(&place);
	SWEPT(tfc_member_watch_open);
	if (code == TFC_OK)
		code = failing_said(tfc_member_watch_open(place.node, note_member, NULL, &watch),
				    tfc_ctx_error(place.ctx));
	assert_true(code == TFC_OK || !watch);
	tfc_member_watch_close(watch);
	close_place(&place);
	failing_relent();
	return code;
}

static void the_members_are_watched_or_not(void **state)
{
	failing_sweep(watch_members, 10);
}

static void note_left(void *user)
{
	*(int *)user = 1;
}

static int leave(void)
{
	struct place place;
	int has_left = 0, code = open_place(&place);
	SWEPT(tfc_node_leave);
	if (code == TFC_OK)
		code = failing_said(tfc_node_leave(place.node, note_left, &has_left),
				    tfc_ctx_error(place.ctx));
	failing_relent();
	if (code == TFC_OK)
		run_until(&place, &has_left);
	close_place(&place);
	return code;
}

static void a_node_leaves_in_any_case(void **state)
{
	failing_sweep(leave, 10);
}

static void a_node_opens_or_says_why_not(void **state)
{
	failing_sweep(open_and_close, 10);
}

/* ---- a job's life */

struct reported {
	int count; /* replies */
	int code;
	char text[64];
	bool says_memory;
};

static void note_reply(void *user, const tfc_reply *reply)
{
	struct reported *reported = user;
	reported->count++;
	reported->code = reply->code;
	snprintf(reported->text, sizeof(reported->text), "%s", reply->text);
	failing_said(reply->code, reply->error);
}

struct life {
	int is_ended;
	uint32_t job_state;
	char end_text[256];
	bool has_begun[TASKS][ATTEMPTS + 1];
	int ends[TASKS][ATTEMPTS + 1];
	int lines[TASKS][ATTEMPTS + 1];
	bool has_gap[TASKS];
	int ready; /* how many tasks */
};

static void note_task(struct life *life, const tfc_event *event)
{
	uint32_t task = event->task_index, attempt = event->attempt;
	assert_in_range(attempt, 0, ATTEMPTS);
	if (event->task_state == TFC_TASK_RUNNING || event->task_state == TFC_TASK_STARTING)
		life->has_begun[task][attempt] = true;
	life->ready += event->task_state == TFC_TASK_READY;
	if (event->task_state < TFC_TASK_EXITED)
		return;
	life->ends[task][attempt]++;
	assert_int_equal(life->ends[task][attempt], 1);
	/* It ran to its end, so its whole output, or the gap in it, was reported before this. */
	if (event->exit_reason == TFC_EXIT_CODE && !life->has_gap[task])
		assert_int_equal(life->lines[task][attempt], LINES);
}

static void note_event(void *user, const tfc_event *event)
{
	struct life *life = user;
	assert_false(life->is_ended);
	assert_in_range(event->task_index, 0, TASKS - 1);
	switch (event->kind) {
	case TFC_EVENT_TASK:
		note_task(life, event);
		break;
	case TFC_EVENT_OUTPUT:
		life->lines[event->task_index][event->attempt]++;
		break;
	case TFC_EVENT_GAP:
		life->has_gap[event->task_index] = true;
		break;
	case TFC_EVENT_END:
		life->is_ended = 1;
		life->job_state = event->job_state;
		snprintf(life->end_text, sizeof(life->end_text), "%s", event->text);
		break;
	default:
		break;
	}
}

static tfc_job *job;

/* Two tasks that say three lines each, die once, and end well. */
static void make_job(void)
{
	tfc_error error = TFC_ERROR_INIT;
	char *json = node_json(
		"{'name':'life','strategy':'multi_worker_mirrored',"
		"'restart':{'on':'failure'},'env':{'A':'{job}'},'secret_env':{'SECRET':null},"
		"'argv':['/bin/sh','-c','echo a; echo b >&2; echo c; "
		"[ $TFC_ATTEMPT -ge 2 ] || exit 42'],"
		"'roles':{'worker':{'count':%d,'grace_s':0.2}}}",
		TASKS);
	if (tfc_job_parse(json, strlen(json), NULL, &error, &job) < 0)
		fail_msg("%s", error.text);
	free(json);
}

/* Submits and returns the reply's code, or the call's. */
static int submit(struct place *place, struct reported *reported)
{
	SWEPT(tfc_gateway_submit);
	*reported = (struct reported){0};
	int code = tfc_gateway_submit(place->gateway, job, NULL, note_reply, reported, NULL);
	if (code < 0) {
		while (tfc_ctx_dispatch(place->ctx, 0) > 0)
			;
		assert_int_equal(reported->count, 0);
		return failing_said(code, tfc_ctx_error(place->ctx));
	}
	run_until(place, &reported->count);
	assert_int_equal(reported->count, 1);
	return reported->code;
}

static int subscribe(struct place *place, const char *id, struct life *life, tfc_sub **ret_sub)
{
	SWEPT(tfc_gateway_subscribe);
	*life = (struct life){0};
	*ret_sub = NULL;
	int code = tfc_gateway_subscribe(place->gateway, id, NULL, note_event, life, ret_sub);
	assert_true(code == TFC_OK ? *ret_sub != NULL : *ret_sub == NULL);
	return failing_said(code, tfc_ctx_error(place->ctx));
}

static void judge(const struct life *life)
{
	for (int task = 0; task < TASKS; task++)
		for (int attempt = 0; attempt <= ATTEMPTS; attempt++)
			if (life->has_begun[task][attempt])
				assert_int_equal(life->ends[task][attempt], 1);
	if (life->job_state != TFC_JOB_SUCCEEDED && !strstr(life->end_text, "memory"))
		fail_msg("the job ended with \"%s\"", life->end_text);
}

/* Both in one call. */
struct run_seen {
	struct reported reported;
	struct life life;
	bool is_lost;
};

static void note_run_reply(void *user, const tfc_reply *reply)
{
	note_reply(&((struct run_seen *)user)->reported, reply);
}

static void note_run_event(void *user, const tfc_event *event)
{
	struct run_seen *seen = user;
	assert_int_equal(seen->reported.count, 1);
	seen->is_lost = event->kind == TFC_EVENT_LOST;
	seen->life.is_ended |= seen->is_lost;
	if (seen->is_lost)
		assert_int_equal(event->error_code, TFC_ENOMEM);
	else
		note_event(&seen->life, event);
}

static bool run_once(struct place *place)
{
	struct run_seen seen = {.is_lost = false};
	tfc_sub *sub = NULL;
	SWEPT(tfc_gateway_run);
	int code = tfc_gateway_run(place->gateway, job, NULL, NULL, note_run_reply, note_run_event,
				   &seen, &sub);
	if (code < 0) {
		assert_null(sub);
		assert_int_equal(failing_said(code, tfc_ctx_error(place->ctx)), TFC_ENOMEM);
		return false;
	}
	run_until(place, &seen.reported.count);
	if (seen.reported.code == TFC_OK)
		run_until(place, &seen.life.is_ended);
	if (seen.reported.code == TFC_OK && !seen.is_lost)
		judge(&seen.life);
	tfc_sub_close(sub);
	return seen.life.job_state == TFC_JOB_SUCCEEDED;
}

/* Lives one job under failures; returns whether it succeeded. */
static bool live_once(struct place *place)
{
	struct reported reported;
	struct life life;
	tfc_sub *sub;
	if (submit(place, &reported) < 0) {
		assert_int_equal(reported.count ? reported.code : TFC_ENOMEM, TFC_ENOMEM);
		return false;
	}
	if (subscribe(place, reported.text, &life, &sub) < 0) {
		failing_relent();
		assert_int_equal(subscribe(place, reported.text, &life, &sub), TFC_OK);
	}
	run_until(place, &life.is_ended);
	judge(&life);
	tfc_sub_close(sub);
	return life.job_state == TFC_JOB_SUCCEEDED;
}

static void live_with_failure(bool (*live)(struct place *place), long n, bool is_for_good,
			      bool *ret_has_struck)
{
	struct place place;
	failing_begin(FAILING_NEVER, false);
	assert_int_equal(open_place(&place), TFC_OK);
	failing_arm(n, is_for_good);
	bool has_succeeded = live(&place);
	*ret_has_struck = failing_has_struck();
	failing_relent();
	assert_true(has_succeeded || *ret_has_struck);
	assert_true(live_once(&place));
	close_place(&place);
	failing_end();
	if (failing_live() > 0)
		fail_msg("allocation %ld failed, and %ld are left", n, failing_live());
}

/* How far it is from one allocation to the next that fails: all of them, or a part of them for
 * tests that are to be quick. */
static long stride(void)
{
	const char *text = getenv("TFC_TEST_SWEEP_STRIDE");
	return text ? atol(text) : 7;
}

static void a_job_lives_through_any_failure(void **state)
{
	bool has_struck = true;
	make_job();
	live_with_failure(live_once, FAILING_NEVER, false, &has_struck);
	assert_false(has_struck);
	for (int round = 0; round < 3; round++) {
		long n = 0;
		for (has_struck = true; has_struck; n += stride()) {
			int fds = folder_count_fds();
			live_with_failure(round == 2 ? run_once : live_once, n, round == 1,
					  &has_struck);
			assert_int_equal(folder_count_fds(), fds);
		}
		print_message("%ld allocations\n", n);
	}
	tfc_job_free(job);
}

/* ---- requests about a job that runs */

static struct place shared;
static char shared_id[64];
static int request_number;
#define ENVIRON 5
#define STOP 6 /* of nobody, and the last of the requests: they find nothing */
#define DRAIN 7
#define FORGET 8
#define UNDRAIN 9
#define SIGNAL 10
#define STACKS 11

static int ask(struct reported *reported)
{
	tfc_gateway *gateway = shared.gateway;
	SWEPT(tfc_gateway_jobs);
	SWEPT(tfc_gateway_describe);
	SWEPT(tfc_gateway_tf_config);
	SWEPT(tfc_gateway_stop);
	SWEPT(tfc_gateway_explain);
	SWEPT(tfc_gateway_members);
	SWEPT(tfc_gateway_drain);
	SWEPT(tfc_gateway_undrain);
	SWEPT(tfc_gateway_forget);
	SWEPT(tfc_gateway_environ);
	SWEPT(tfc_gateway_signal);
	SWEPT(tfc_gateway_stacks);
	switch (request_number) {
	case 0:
		return tfc_gateway_jobs(gateway, NULL, note_reply, reported, NULL);
	case 1:
		return tfc_gateway_describe(gateway, shared_id, NULL, note_reply, reported, NULL);
	case 2:
		return tfc_gateway_tf_config(gateway, shared_id, "worker/1",
					     &(tfc_request_options){sizeof(tfc_request_options),
								    1000},
					     note_reply, reported, NULL);
	case 3:
		return tfc_gateway_explain(gateway, job, NULL, note_reply, reported, NULL);
	case 4:
		return tfc_gateway_members(gateway, NULL, note_reply, reported, NULL);
	case FORGET:
		return tfc_gateway_forget(gateway, "nobody", NULL, note_reply, reported, NULL);
	case ENVIRON:
		return tfc_gateway_environ(gateway, shared_id, "worker/1", NULL, note_reply,
					   reported, NULL);
	case UNDRAIN:
		return tfc_gateway_undrain(gateway, "nobody", NULL, note_reply, reported, NULL);
	case SIGNAL:
		return tfc_gateway_signal(gateway, "nobody", "worker/0", NULL, note_reply, reported,
					  NULL);
	case STACKS:
		return tfc_gateway_stacks(gateway, shared_id, "worker/9", NULL, note_reply,
					  reported, NULL);
	case DRAIN:
		return tfc_gateway_drain(gateway, "nobody", NULL, note_reply, reported, NULL);
	default:
		return tfc_gateway_stop(gateway, "nobody", NULL, note_reply, reported, NULL);
	}
}

static int ask_once(void)
{
	struct reported reported = {0};
	int code = ask(&reported);
	if (code < 0) {
		assert_int_equal(reported.count, 0);
		return failing_said(code, tfc_ctx_error(shared.ctx));
	}
	run_until(&shared, &reported.count);
	assert_int_equal(reported.count, 1);
	if (request_number >= STOP && reported.code == TFC_ENOENT)
		return TFC_OK;
	assert_true(reported.code == TFC_OK ? request_number >= STOP || reported.text[0]
					    : !reported.text[0]);
	return reported.code;
}

static void note_watched(void *user, const tfc_event *event)
{
	int *is_live = user;
	assert_int_not_equal(event->kind, TFC_EVENT_LOST);
	*is_live |= event->kind == TFC_EVENT_LIVE;
}

/* An allocation that fails later than the call is made again: the watch goes on. */
static int watch_once(void)
{
	tfc_watch_options options = TFC_WATCH_OPTIONS_INIT;
	tfc_sub *sub = NULL;
	int is_live = 0;
	SWEPT(tfc_gateway_watch);
	options.wants_live = 1;
	int code = tfc_gateway_watch(shared.gateway, &options, note_watched, &is_live, &sub);
	if (code < 0) {
		assert_null(sub);
		return failing_said(code, tfc_ctx_error(shared.ctx));
	}
	run_until(&shared, &is_live);
	tfc_sub_close(sub);
	return TFC_OK;
}

static void note_drained(void *user)
{
	*(int *)user = 1;
}

/* Ends of all kinds need no memory. */
static void drain_without_memory(void)
{
	int is_drained = 0;
	struct life life;
	tfc_sub *sub;
	SWEPT(tfc_node_shutdown);
	assert_int_equal(subscribe(&shared, shared_id, &life, &sub), TFC_OK);
	while (life.ready < TASKS) /* nothing more happens then that could be counted */
		assert_true(tfc_ctx_run(shared.ctx, 1000) >= 0);
	failing_begin(0, true);
	assert_int_equal(tfc_node_shutdown(shared.node, note_drained, &is_drained), TFC_OK);
	run_until(&shared, &is_drained);
	run_until(&shared, &life.is_ended);
	failing_end();
	assert_int_equal(life.job_state, TFC_JOB_STOPPED);
	for (int task = 0; task < TASKS; task++)
		assert_int_equal(life.ends[task][1], 1);
	tfc_sub_close(sub);
}

static void requests_get_a_response_and_a_drain_ends_without_memory(void **state)
{
	struct reported reported;
	char *json = node_json("{'strategy':'multi_worker_mirrored','argv':['%s','listen','wait'],"
			       "'roles':{'worker':{'count':%d,'grace_s':5}}}",
			       node_task_program(), TASKS);
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), TFC_OK);
	free(json);
	assert_int_equal(open_place(&shared), TFC_OK);
	assert_int_equal(submit(&shared, &reported), TFC_OK);
	strcpy(shared_id, reported.text);
	struct life life;
	tfc_sub *sub;
	assert_int_equal(subscribe(&shared, shared_id, &life, &sub), TFC_OK);
	while (life.ready < TASKS)
		assert_true(tfc_ctx_run(shared.ctx, 1000) >= 0);
	tfc_sub_close(sub);
	for (request_number = 0; request_number <= STACKS; request_number++)
		failing_sweep(ask_once, 1);
	failing_sweep(watch_once, 1);
	tfc_job_free(job);
	drain_without_memory();
	close_place(&shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_opens_or_says_why_not),
		cmocka_unit_test(the_members_are_watched_or_not),
		cmocka_unit_test(a_node_leaves_in_any_case),
		cmocka_unit_test(a_job_lives_through_any_failure),
		cmocka_unit_test(requests_get_a_response_and_a_drain_ends_without_memory),
	};
	return cmocka_run_group_tests_name("node_nomem", tests, NULL, NULL);
}
