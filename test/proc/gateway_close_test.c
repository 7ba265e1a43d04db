/* gateway, node: whatever is closed, in whatever order and at whatever moment, every request is
 * answered once, nothing is reported afterwards and nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks.h"
#include "node_run.h"

#define REQUESTS 5

/* ---- one job, all its handles, closed in an order such as "sgn" */

struct scene {
	struct node_run run;
	struct follower follower;
	struct follower paused;
	struct answer answers[REQUESTS];
	const char *order; /* s subscriptions, g gateway, n node */
	size_t at;         /* inside the event of this number */
	bool is_closed;
};

static void ask_everything(struct scene *scene)
{
	tfc_gateway *gateway = scene->run.gateway;
	struct answer *answers = scene->answers;
	const char *job = scene->follower.job;
	assert_int_equal(tfc_gateway_jobs(gateway, NULL, node_answer, &answers[0], NULL), 0);
	assert_int_equal(tfc_gateway_describe(gateway, job, NULL, node_answer, &answers[1], NULL),
			 0);
	assert_int_equal(tfc_gateway_tf_config(gateway, job, "worker/0", NULL, node_answer,
					       &answers[2], NULL),
			 0);
	assert_int_equal(tfc_gateway_stop(gateway, "nobody", NULL, node_answer, &answers[3], NULL),
			 0);
	assert_int_equal(tfc_gateway_jobs(gateway,
					  &(tfc_request_options){sizeof(tfc_request_options), 1000},
					  node_answer, &answers[4], NULL),
			 0);
}

static void close_all(struct scene *scene)
{
	scene->is_closed = true;
	ask_everything(scene);
	for (const char *what = scene->order; *what; what++) {
		if (*what == 's') {
			tfc_sub_close(scene->follower.sub);
			tfc_sub_close(scene->paused.sub);
			scene->follower.sub = scene->paused.sub = NULL;
		} else if (*what == 'g') {
			tfc_gateway_close(scene->run.gateway);
			scene->run.gateway = NULL;
		} else {
			tfc_node_close(scene->run.node);
			scene->run.node = NULL;
		}
	}
}

static void close_at(struct follower *follower, const tfc_event *event)
{
	struct scene *scene = follower->user;
	assert_false(scene->is_closed);
	if (follower->count == scene->at)
		close_all(scene);
}

static void pause_at_second(struct follower *follower, const tfc_event *event)
{
	if (follower->count == 2)
		tfc_sub_pause(follower->sub);
}

static void open_scene(struct scene *scene, const char *order, const char *json)
{
	*scene = (struct scene){.order = order, .at = SIZE_MAX};
	scene->follower.on_event = close_at;
	scene->follower.user = scene;
	scene->paused.on_event = pause_at_second;
	node_run_begin(&scene->run, NULL);
	node_start(&scene->run, json, &scene->follower);
	node_follow(&scene->run, scene->follower.job, NULL, &scene->paused);
}

static void end_scene(struct scene *scene)
{
	size_t reported = scene->follower.count;
	for (int i = 0; i < REQUESTS; i++)
		node_await_answer(&scene->run, &scene->answers[i]);
	while (tfc_ctx_dispatch(scene->run.ctx, 0) > 0)
		;
	assert_int_equal(scene->follower.count, reported);
	for (int i = 0; i < REQUESTS; i++) {
		assert_int_equal(scene->answers[i].count, 1);
		assert_int_equal(scene->answers[i].code, TFC_ECANCELED);
		node_answer_clear(&scene->answers[i]);
	}
	node_follow_end(&scene->follower);
	node_follow_end(&scene->paused);
	node_run_end(&scene->run);
}

static const char *const orders[] = {"sgn", "gsn", "gns", "sng", "nsg", "ngs"};
#define ORDERS (sizeof(orders) / sizeof(orders[0]))

/* A gang with a listener, output, one death and a restart: a job that passes through every state.
 */
static char *busy_job(void)
{
	return node_json("{'strategy':'multi_worker_mirrored','restart':{'on':'failure'},"
			 "'argv':['/bin/sh','-c','echo out; echo err >&2; "
			 "[ $TFC_ATTEMPT = 2 ] || exit 42'],"
			 "'roles':{'worker':{'count':2,'grace_s':0.2}}}");
}

static void closing_in_any_order_after_any_turn_is_legal(void **state)
{
	char *json = busy_job();
	bool is_over = false;
	for (size_t turns = 0; !is_over; turns++) {
		struct scene scene;
		open_scene(&scene, orders[turns % ORDERS], json);
		for (size_t i = 0; i < turns && !scene.follower.is_ended; i++) {
			tfc_ctx_run(scene.run.ctx, 10000);
			is_over = scene.follower.is_ended;
		}
		close_all(&scene);
		end_scene(&scene);
	}
	free(json);
}

static void closing_in_any_order_inside_any_event_is_legal(void **state)
{
	char *json = busy_job();
	bool is_over = false;
	for (size_t at = 1; !is_over; at++) {
		struct scene scene;
		open_scene(&scene, orders[at % ORDERS], json);
		scene.at = at;
		while (!scene.is_closed && !scene.follower.is_ended)
			assert_true(tfc_ctx_run(scene.run.ctx, 10000) >= 0);
		is_over = scene.follower.is_ended;
		if (!scene.is_closed)
			close_all(&scene);
		end_scene(&scene);
	}
	free(json);
}

/* ---- a node is closed while its job is at a named stage */

enum until { SUBMITTED, TASK_STATE, JOB_STATE, STOPPED_TASK };

static bool has_reached(struct follower *follower, enum until until, uint32_t state)
{
	for (size_t i = 0; i < follower->count; i++) {
		const tfc_event *event = &follower->events[i].event;
		if (until == TASK_STATE && event->kind == TFC_EVENT_TASK &&
		    event->task_state == state)
			return true;
		if (until == JOB_STATE && event->kind == TFC_EVENT_JOB && event->job_state == state)
			return true;
	}
	return until == SUBMITTED;
}

static void a_node_may_be_closed_at_every_stage_of_its_job(void **state)
{
	static const struct {
		const char *stage;
		const char *job;
		enum until until;
		uint32_t state;
		bool is_stopped; /* once it is there */
	} cases[] = {
		{"holding", "'argv':['%s','wait']", SUBMITTED, 0, false},
		{"packing", "'bundle':'/usr/share/doc','argv':['%s','wait']", JOB_STATE,
		 TFC_JOB_STARTING, false},
		{"launching", "'argv':['%s','wait']", JOB_STATE, TFC_JOB_STARTING, false},
		{"starting", "'argv':['%s','wait']", TASK_STATE, TFC_TASK_STARTING, false},
		{"running", "'argv':['%s','wait']", TASK_STATE, TFC_TASK_RUNNING, false},
		{"ready", "'argv':['%s','listen','wait']", TASK_STATE, TFC_TASK_READY, false},
		{"restarting",
		 "'restart':{'on':'failure','backoff_s':[60,60]},'argv':['%s','exit','42']",
		 JOB_STATE, TFC_JOB_RESTARTING, false},
		{"stopping", "'argv':['%s','deaf','listen','wait']", TASK_STATE, TFC_TASK_READY,
		 true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct node_run run;
		struct follower follower = {0};
		char argv[256];
		print_message("%s\n", cases[i].stage);
		snprintf(argv, sizeof(argv), cases[i].job, node_task_program());
		char *json = node_json("{'strategy':'multi_worker_mirrored',%s,"
				       "'roles':{'worker':{'count':2,'grace_s':60}}}",
				       argv);
		node_run_begin(&run, NULL);
		node_start(&run, json, &follower);
		while (!has_reached(&follower, cases[i].until, cases[i].state)) {
			assert_false(follower.is_ended);
			assert_true(tfc_ctx_run(run.ctx, 10000) >= 0);
		}
		if (cases[i].is_stopped)
			node_stop(&run, follower.job, false);
		assert_false(follower.is_ended);
		tfc_node_close(run.node);
		run.node = NULL;
		size_t reported = follower.count;
		for (int turn = 0; turn < 3; turn++)
			tfc_ctx_run(run.ctx, 0);
		assert_int_equal(follower.count, reported);
		free(json);
		node_follow_end(&follower);
		node_run_end(&run);
	}
}

static void a_gateway_whose_node_is_closed_says_so(void **state)
{
	struct node_run run;
	struct answer answer = {0};
	tfc_sub *sub = NULL;
	tfc_op *op = NULL;
	node_run_begin(&run, NULL);
	tfc_node_close(run.node);
	run.node = NULL;
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &answer, &op),
			 TFC_ESTATE);
	assert_non_null(strstr(tfc_ctx_error(run.ctx)->text, "node of this gateway is closed"));
	assert_int_equal(tfc_gateway_subscribe(run.gateway, "x", NULL, (tfc_event_fn)abort, NULL,
					       &sub),
			 TFC_ESTATE);
	assert_null(op);
	assert_null(sub);
	while (tfc_ctx_dispatch(run.ctx, 0) > 0)
		;
	assert_int_equal(answer.count, 0);
	node_run_end(&run);
}

/* ---- requests: canceled, dropped, abandoned */

typedef int (*request_fn)(struct node_run *run, const char *job, struct answer *answer,
			  tfc_op **ret_op);

static int submit(struct node_run *run, const char *id, struct answer *answer, tfc_op **ret_op)
{
	char *json = node_json("{'framework':'none','argv':['%s','wait'],'roles':{'worker':{}}}",
			       node_task_program());
	tfc_job *job;
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), 0);
	int code = tfc_gateway_submit(run->gateway, job, NULL, node_answer, answer, ret_op);
	tfc_job_free(job);
	free(json);
	return code;
}

static int stop(struct node_run *run, const char *id, struct answer *answer, tfc_op **ret_op)
{
	return tfc_gateway_stop(run->gateway, id, NULL, node_answer, answer, ret_op);
}

static int list(struct node_run *run, const char *id, struct answer *answer, tfc_op **ret_op)
{
	return tfc_gateway_jobs(run->gateway, NULL, node_answer, answer, ret_op);
}

static int describe(struct node_run *run, const char *id, struct answer *answer, tfc_op **ret_op)
{
	return tfc_gateway_describe(run->gateway, id, NULL, node_answer, answer, ret_op);
}

static int spec(struct node_run *run, const char *id, struct answer *answer, tfc_op **ret_op)
{
	return tfc_gateway_tf_config(run->gateway, id, "worker/0", NULL, node_answer, answer,
				     ret_op);
}

static const request_fn requests[REQUESTS] = {submit, stop, list, describe, spec};

enum fate {
	CANCELED_AT_ONCE,
	CANCELED_TWICE,
	CANCELED_AND_GATEWAY_CLOSED,
	GATEWAY_CLOSED_AND_CANCELED,
	NODE_CLOSED,
	NODE_AND_GATEWAY_CLOSED,
	CONTEXT_FREED,
	ABANDONED_IN_A_CHILD,
	OUTCOMES
};

static void close_gateway(struct node_run *run)
{
	tfc_gateway_close(run->gateway);
	run->gateway = NULL;
}

static void close_node(struct node_run *run)
{
	tfc_node_close(run->node);
	run->node = NULL;
}

/* The child gives its copy up; the parent's request is answered as if nothing had happened. */
static void abandon_in_a_child(struct node_run *run)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		bool is_refused = tfc_ctx_dispatch(run->ctx, 0) == TFC_EFORK;
		tfc_ctx_abandon(run->ctx);
		_exit(is_refused ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Returns how many answers are to come. */
static int suffer(struct node_run *run, enum fate fate, tfc_op *op)
{
	switch (fate) {
	case CANCELED_TWICE:
		tfc_op_cancel(op);
		/* fall through */
	case CANCELED_AT_ONCE:
		tfc_op_cancel(op);
		return 1;
	case CANCELED_AND_GATEWAY_CLOSED:
		tfc_op_cancel(op);
		close_gateway(run);
		return 1;
	case GATEWAY_CLOSED_AND_CANCELED:
		close_gateway(run);
		tfc_op_cancel(op);
		return 1;
	case NODE_CLOSED:
		close_node(run);
		return 1;
	case NODE_AND_GATEWAY_CLOSED:
		close_node(run);
		close_gateway(run);
		return 1;
	case ABANDONED_IN_A_CHILD:
		abandon_in_a_child(run);
		return 1;
	case CONTEXT_FREED:
	case OUTCOMES:
		break;
	}
	return 0;
}

static void a_request_gets_one_response_whatever_becomes_of_it(void **state)
{
	for (int kind = 0; kind < REQUESTS; kind++) {
		for (enum fate fate = 0; fate < OUTCOMES; fate++) {
			struct node_run run;
			struct answer answer = {0};
			tfc_op *op = NULL;
			node_run_begin(&run, NULL);
			assert_int_equal(submit(&run, NULL, &answer, NULL), 0);
			node_await_answer(&run, &answer);
			char *id = answer.text;
			answer = (struct answer){0};
			assert_int_equal(requests[kind](&run, id, &answer, &op), 0);
			assert_non_null(op);
			assert_int_equal(answer.count, 0);
			int expected = suffer(&run, fate, op);
			if (expected)
				node_await_answer(&run, &answer);
			free(id);
			node_run_end(&run);
			assert_int_equal(answer.count, expected);
			node_answer_clear(&answer);
		}
	}
}

/* ---- draining */

static void on_drained(void *user)
{
	struct node_run *run = user;
	assert_non_null(run->node);
	close_node(run);
}

static bool is_node_gone(void *user)
{
	return ((struct node_run *)user)->node == NULL;
}

static void a_drained_node_may_be_closed_where_it_says_so(void **state)
{
	for (int is_busy = 0; is_busy < 2; is_busy++) {
		struct node_run run;
		struct answer answer = {0};
		node_run_begin(&run, NULL);
		if (is_busy) {
			assert_int_equal(submit(&run, NULL, &answer, NULL), 0);
			node_await_answer(&run, &answer);
			node_answer_clear(&answer);
		}
		assert_int_equal(tfc_node_shutdown(run.node, on_drained, &run), 0);
		node_await(&run, is_node_gone, &run, "the drain");
		node_run_end(&run);
	}
}

static void a_draining_node_may_be_closed(void **state)
{
	struct node_run run;
	struct answer answer = {0};
	node_run_begin(&run, NULL);
	assert_int_equal(submit(&run, NULL, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	node_answer_clear(&answer);
	assert_int_equal(tfc_node_shutdown(run.node, (tfc_node_ended_fn)abort, NULL), 0);
	close_node(&run);
	while (tfc_ctx_dispatch(run.ctx, 0) > 0)
		;
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(closing_in_any_order_after_any_turn_is_legal),
		cmocka_unit_test(closing_in_any_order_inside_any_event_is_legal),
		cmocka_unit_test(a_node_may_be_closed_at_every_stage_of_its_job),
		cmocka_unit_test(a_gateway_whose_node_is_closed_says_so),
		cmocka_unit_test(a_request_gets_one_response_whatever_becomes_of_it),
		cmocka_unit_test(a_drained_node_may_be_closed_where_it_says_so),
		cmocka_unit_test(a_draining_node_may_be_closed),
	};
	return cmocka_run_group_tests_name("gateway_close", tests, NULL, NULL);
}
