/* node: its host is killed at any point of a job; nothing is lost and nothing doubled. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"
#include "sanitized.h"

#define TASKS 3
#define NEVER UINT32_MAX

/* Two of them end at once; what they did is not to be done again. */
#define JOB                                                                                        \
	"{'name': 'killed', 'restart': {'on': 'retryable', 'backoff_s': [0, 0], 'scope': 'task'}," \
	" 'framework': 'none', 'roles': {'worker': {'count': 3, 'argv': ['/bin/sh', '-c',"         \
	" 'echo begin; [ $TFC_TASK_INDEX != 0 ] || sleep 0.05; echo end'], 'ready': 'started'}}}"

struct place {
	char dir[LEAKS_PATH];
	char state[LEAKS_PATH + 8];
	char temp[LEAKS_PATH + 8];
};

static void begin(struct place *place)
{
	leaks_make_dir(place->dir);
	snprintf(place->state, sizeof(place->state), "%s/state", place->dir);
	snprintf(place->temp, sizeof(place->temp), "%s/temp", place->dir);
	assert_int_equal(mkdir(place->temp, 0700), 0);
}

/* ---- the host, a process of its own */

struct host_process {
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	uint32_t events_left; /* then it kills itself */
	bool is_over;
	tfc_sub *sub;
};

static void on_event(void *user, const tfc_event *event)
{
	struct host_process *host = user;
	if (host->events_left-- == 0)
		raise(SIGKILL);
	host->is_over = event->kind == TFC_EVENT_END;
}

static void on_reply(void *user, const tfc_reply *reply)
{
	struct host_process *host = user;
	if (host->events_left-- == 0)
		raise(SIGKILL);
	if (reply->code < 0 ||
	    tfc_gateway_subscribe(host->gateway, reply->text, NULL, on_event, host, &host->sub) < 0)
		_exit(3);
}

static void live(const struct place *place, uint32_t events)
{
	struct host_process host = {.events_left = events};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway_options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_submit_options submit = TFC_SUBMIT_OPTIONS_INIT;
	tfc_job *job;
	tfc_node *node;
	char *json = node_json("%s", JOB);
	options.state_dir = place->state;
	options.temp_dir = place->temp;
	submit.client_key = "the same";
	if (proc_ctx_new(&host.ctx) < 0 || tfc_node_open(host.ctx, &options, &node) < 0) {
		print_error("%s\n", tfc_ctx_error(host.ctx)->text);
		_exit(2);
	}
	gateway_options.node = node;
	if (tfc_gateway_open(host.ctx, &gateway_options, &host.gateway) < 0 ||
	    tfc_job_parse(json, strlen(json), NULL, NULL, &job) < 0 ||
	    tfc_gateway_submit(host.gateway, job, &submit, on_reply, &host, NULL) < 0)
		_exit(2);
	while (!host.is_over && tfc_ctx_run(host.ctx, -1) >= 0)
		;
	raise(SIGKILL); /* the end was reported, so it is in the store, too */
}

static pid_t start(const struct place *place, uint32_t events)
{
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		live(place, events);
		_exit(1);
	}
	return child;
}

static void await_killed(pid_t child)
{
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- afterwards */

static bool is_start(const struct seen_event *seen)
{
	return seen->event.kind == TFC_EVENT_TASK && seen->event.task_state == TFC_TASK_STARTING;
}

static bool is_good_end(const struct seen_event *seen)
{
	return seen->event.kind == TFC_EVENT_TASK && seen->event.task_state == TFC_TASK_EXITED;
}

/* Each task: attempts that count up, one good end, and nothing after that. */
static void check_task(const struct follower *follower, const char *task)
{
	uint32_t attempt = 0, ends = 0;
	for (size_t i = 0; i < follower->count; i++) {
		const struct seen_event *seen = &follower->events[i];
		if (strcmp(seen->task, task) != 0)
			continue;
		if (is_start(seen)) {
			assert_int_equal(seen->event.attempt, attempt + 1);
			assert_int_equal(ends, 0);
			attempt++;
		}
		ends += is_good_end(seen);
	}
	assert_int_equal(ends, 1);
}

static void check_end(const struct place *place)
{
	struct node_run run;
	struct follower follower = {0};
	struct answer answer = {0};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	tfc_submit_options submit = TFC_SUBMIT_OPTIONS_INIT;
	char *json = node_json("%s", JOB);
	options.state_dir = place->state;
	submit.client_key = "the same";
	node_run_begin(&run, &options);
	node_submit_for(&run, json, &submit, &answer);
	assert_int_equal(answer.code, TFC_OK);
	node_follow(&run, answer.text, NULL, &follower);
	const struct seen_event *over = node_await_end(&run, &follower);
	assert_int_equal(over->event.job_state, TFC_JOB_SUCCEEDED);
	for (int i = 0; i < TASKS; i++) {
		char task[16];
		snprintf(task, sizeof(task), "worker/%d", i);
		check_task(&follower, task);
	}
	struct answer list = {0};
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &list, NULL), 0);
	node_await_answer(&run, &list);
	assert_non_null(strstr(list.text, answer.text));
	assert_null(strstr(strstr(list.text, "{\"job\"") + 1, "{\"job\""));
	node_answer_clear(&list);
	node_answer_clear(&answer);
	node_follow_end(&follower);
	node_run_end(&run);
	free(json);
}

/* The guards of killed hosts may still be removing what is theirs; they are nobody's children, and
 * who wins does not matter. */
static void end(struct place *place)
{
	uint64_t until = tfc__now() + 20 * TFC__SECOND;
	while (tfc__remove_tree(place->dir) < 0 && tfc__now() < until)
		usleep(2000);
	assert_int_not_equal(access(place->dir, F_OK), 0);
}

/* ---- killed at each event */

static void a_host_that_dies_at_any_event_loses_nothing(void **state)
{
	for (uint32_t events = 0; events < 22; events += TEST_IS_SANITIZED ? 4 : 1) {
		struct place place;
		begin(&place);
		await_killed(start(&place, events));
		check_end(&place);
		end(&place);
	}
}

static void a_host_that_dies_after_the_end_was_reported_reports_it_again(void **state)
{
	struct place place;
	begin(&place);
	await_killed(start(&place, NEVER));
	check_end(&place);
	end(&place);
}

/* ---- killed at any time, again and again */

static void a_host_that_dies_over_and_over_comes_to_the_end(void **state)
{
	struct place place;
	unsigned seed = (unsigned)tfc__now();
	print_message("seed %u\n", seed);
	srand(seed);
	begin(&place);
	for (int i = 0; i < 12; i++) {
		pid_t child = start(&place, NEVER);
		usleep((useconds_t)(rand() % 120000)); /* the moment is what is tested */
		kill(child, SIGKILL);
		await_killed(child);
	}
	check_end(&place);
	end(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_that_dies_at_any_event_loses_nothing),
		cmocka_unit_test(a_host_that_dies_after_the_end_was_reported_reports_it_again),
		cmocka_unit_test(a_host_that_dies_over_and_over_comes_to_the_end),
	};
	return cmocka_run_group_tests_name("node_killed", tests, NULL, NULL);
}
