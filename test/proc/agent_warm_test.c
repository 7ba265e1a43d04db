/* agent: an import that takes too long is reported once, and the attempts start cold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent_order.h"
#include "base/clock.h"
#include "base/file.h"
#include "leaks.h"
#include "proc_run.h"

#define IMPORT_MS 300
#define TASKS 2

/* Ends with 0 in an attempt that has not been forked. */
#define JOB                                                                                   \
	"{\"argv\": [\"python3\", \"-c\", \"import sys; sys.exit('late' in sys.modules)\"], " \
	"\"framework\": \"none\", \"warm\": [\"late\"], \"env\": {\"PYTHONPATH\": \"%s\"}, "  \
	"\"roles\": {\"worker\": {\"count\": 2}}}"

struct warm_run {
	char dir[LEAKS_PATH];
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	tfc_job *definition;
	struct tfc__agent_job *job;
	uint32_t held, starts, ends;
	uint32_t stopped_task; /* TASKS: none */
	uint32_t notices;
	uint32_t notice_task;
	char notice[512];
	bool was_importing;
	pid_t pid;       /* of the zygote, while it imports */
	uint32_t zygote; /* its number */
	uint32_t state;  /* as it was last reported */
	uint32_t attempts;
	char failure[512];
};

static void receive(void *user, const struct tfc__task_event *event)
{
	struct warm_run *run = user;
	const tfc_zygote *zygote = event->zygote;
	if (event->kind == TFC__AGENT_REFUSED || event->kind == TFC__AGENT_HOLD_FAILED)
		fail_msg("%s", event->text);
	run->held += event->kind == TFC__AGENT_HELD;
	run->starts += event->kind == TFC__AGENT_STARTED;
	if (event->kind == TFC__AGENT_NOTICE) {
		run->notices++;
		run->notice_task = event->task;
		snprintf(run->notice, sizeof(run->notice), "%s", event->text);
	}
	if (event->kind == TFC__AGENT_EXITED) {
		run->ends++;
		if (event->task == run->stopped_task)
			return;
		assert_int_equal(event->end.reason, TFC_EXIT_CODE);
		assert_int_equal(event->end.status, 0);
	}
	if (event->kind != TFC__AGENT_ZYGOTE)
		return;
	assert_non_null(zygote);
	assert_true(!run->zygote || run->zygote == event->number);
	assert_string_equal(zygote->modules[0], "late");
	assert_null(zygote->modules[1]);
	run->zygote = event->number;
	run->state = zygote->state;
	run->was_importing |= zygote->state == TFC_ZYGOTE_IMPORTING && zygote->pid > 0;
	run->pid = zygote->pid;
	run->attempts = zygote->attempts;
	snprintf(run->failure, sizeof(run->failure), "%s", zygote->text);
}

static void begin(struct warm_run *run)
{
	static const char module[] = "import time\ntime.sleep(600)\n";
	const struct tfc__agent_options options = {.temp_dir = leaks_temp_dir(),
						   .import_ms = IMPORT_MS};
	struct tfc__agent_job_info info = {.id = "0123456789abcdef"};
	tfc_error error = TFC_ERROR_INIT;
	char text[512];
	*run = (struct warm_run){.stopped_task = TASKS};
	leaks_make_dir(run->dir);
	snprintf(text, sizeof(text), "%s/late.py", run->dir);
	FILE *file = fopen(text, "w");
	assert_non_null(file);
	assert_int_equal(fputs(module, file) < 0, 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(proc_ctx_new(&run->ctx), TFC_OK);
	assert_int_equal(tfc__agent_open(run->ctx, &options, &run->agent), TFC_OK);
	snprintf(text, sizeof(text), JOB, run->dir);
	if (tfc_job_parse(text, strlen(text), NULL, &error, &run->definition) < 0)
		fail_msg("%s", error.text);
	info.job = run->definition;
	assert_int_equal(tfc__agent_job_open(run->agent, &info, receive, run, &error, &run->job),
			 TFC_OK);
}

static void finish(struct warm_run *run)
{
	tfc__agent_job_close(run->job);
	tfc__agent_close(run->agent);
	tfc_job_free(run->definition);
	tfc_ctx_free(run->ctx);
	assert_int_equal(tfc__remove_tree(run->dir), 0);
}

static void await_count(struct warm_run *run, const uint32_t *what, uint32_t count)
{
	for (uint64_t until = tfc__now() + 60 * TFC__SECOND; *what < count;) {
		assert_true(tfc__now() < until);
		assert_true(tfc_ctx_run(run->ctx, 100) >= 0);
	}
}

static void give_spec(struct warm_run *run)
{
	tfc_spec *spec;
	assert_int_equal(tfc_spec_new(&spec), TFC_OK);
	tfc__local_agent_ops.order(run->job, &(struct tfc__task_order){.kind = TFC__ORDER_SPEC,
								       .generation = 1,
								       .spec = spec});
	tfc_spec_free(spec);
}

static void launch(struct warm_run *run, uint32_t task, uint32_t attempt)
{
	tfc__local_agent_ops.order(run->job, &(struct tfc__task_order){.kind = TFC__ORDER_LAUNCH,
								       .task = task,
								       .attempt = attempt,
								       .generation = 1});
}

static void a_late_import_is_reported_once_and_attempts_start_cold(void **state)
{
	static const char reason[] = "the import of late took longer than 0.3 s";
	struct warm_run run;
	char notice[512];
	begin(&run);
	for (uint32_t i = 0; i < TASKS; i++)
		agent_hold(&tfc__local_agent_ops, run.job, i, 1);
	await_count(&run, &run.held, TASKS);
	give_spec(&run);
	uint64_t started = tfc__now();
	for (uint32_t i = 0; i < TASKS; i++)
		launch(&run, i, 1);
	await_count(&run, &run.ends, TASKS);
	assert_true(tfc__now() - started >= IMPORT_MS * TFC__MS); /* they waited for it */
	await_count(&run, &run.notices, 1);
	assert_true(run.was_importing);
	assert_int_equal(run.attempts, TASKS);
	assert_int_equal(run.state, TFC_ZYGOTE_FAILED);
	assert_string_equal(run.failure, reason);
	snprintf(notice, sizeof(notice), "starts cold, \"warm\" has no effect: %s", reason);
	assert_string_equal(run.notice, notice);
	/* Neither is it made again, nor does anybody wait for it. */
	launch(&run, 0, 2);
	await_count(&run, &run.ends, TASKS + 1);
	assert_int_equal(run.starts, TASKS + 1);
	assert_int_equal(run.notices, 1);
	assert_int_equal(run.attempts, TASKS);
	finish(&run);
}

/* A maintainer does not report what a node says of a task that it has moved away. */
static void a_late_import_is_reported_of_a_task_that_is_still_there(void **state)
{
	struct warm_run run;
	begin(&run);
	for (uint32_t i = 0; i < TASKS; i++)
		agent_hold(&tfc__local_agent_ops, run.job, i, 1);
	await_count(&run, &run.held, TASKS);
	give_spec(&run);
	for (uint32_t i = 0; i < TASKS; i++)
		launch(&run, i, 1);
	run.stopped_task = 0;
	agent_stop(&tfc__local_agent_ops, run.job, 0, 0);
	await_count(&run, &run.ends, 1);
	agent_release(&tfc__local_agent_ops, run.job, 0);
	assert_int_equal(run.notices, 0);
	await_count(&run, &run.notices, 1);
	assert_int_equal(run.notice_task, 1);
	await_count(&run, &run.ends, TASKS);
	finish(&run);
}

/* Without a task here, the next attempt says it. */
static void a_failed_import_is_reported_when_a_task_is_there(void **state)
{
	struct warm_run run;
	begin(&run);
	agent_hold(&tfc__local_agent_ops, run.job, 0, 1);
	await_count(&run, &run.held, 1);
	give_spec(&run);
	launch(&run, 0, 1);
	run.stopped_task = 0;
	agent_stop(&tfc__local_agent_ops, run.job, 0, 0);
	await_count(&run, &run.ends, 1);
	agent_release(&tfc__local_agent_ops, run.job, 0);
	while (!run.pid)
		assert_true(tfc_ctx_run(run.ctx, 100) >= 0);
	assert_int_equal(kill(run.pid, SIGKILL), 0);
	await_count(&run, &run.state, TFC_ZYGOTE_FAILED);
	assert_int_equal(run.notices, 0);
	agent_hold(&tfc__local_agent_ops, run.job, 1, 1);
	await_count(&run, &run.held, 2);
	launch(&run, 1, 1);
	await_count(&run, &run.ends, 2);
	assert_int_equal(run.notices, 1);
	assert_int_equal(run.notice_task, 1);
	finish(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_late_import_is_reported_once_and_attempts_start_cold),
		cmocka_unit_test(a_late_import_is_reported_of_a_task_that_is_still_there),
		cmocka_unit_test(a_failed_import_is_reported_when_a_task_is_there),
	};
	return cmocka_run_group_tests_name("agent_warm", tests, NULL, NULL);
}
