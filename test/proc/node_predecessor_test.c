/* node: one that is started again holds nothing before the tasks of its earlier run have ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/file.h"
#include "leaks.h"
#include "proc_run.h"

#define JOB                                                                                 \
	"{\"argv\": [\"%s\", \"deaf\", \"wait\"], \"grace_s\": 1, \"roles\": {\"worker\": " \
	"{\"count\": 1, "                                                                   \
	"\"ready\": \"started\"}}}"

struct run {
	tfc_ctx *ctx;
	struct tfc__agent *agent;
	struct tfc__agent_job *job;
	tfc_job *definition;
	char address[64];
	bool is_held;
	pid_t pid;
};

static void hear(void *user, const struct tfc__agent_event *event)
{
	struct run *run = user;
	if (event->kind == TFC__AGENT_HELD) {
		run->is_held = true;
		snprintf(run->address, sizeof(run->address), "%s", event->address);
	} else if (event->kind == TFC__AGENT_STARTED) {
		run->pid = event->process->pid;
	}
}

static int begin(struct run *run, const char *dir)
{
	char json[512];
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	char *file = tfc__path_join(dir, "run");
	struct tfc__agent_options agent = {.temp_dir = dir, .run_file = file};
	*run = (struct run){0};
	options.helper_dir = getenv("TFC_HELPER_DIR");
	snprintf(json, sizeof(json), JOB, proc_task_program());
	int code = tfc_ctx_new(&options, &error, &run->ctx);
	if (code == TFC_OK)
		code = tfc__agent_open(run->ctx, &agent, &run->agent);
	if (code == TFC_OK)
		code = tfc_job_parse(json, strlen(json), "job", &error, &run->definition);
	const struct tfc__agent_job_info info = {.id = "1", .job = run->definition, .epoch = 2};
	if (code == TFC_OK)
		code = tfc__agent_job_open(run->agent, &info, hear, run, &run->job, &error);
	free(file);
	if (code == TFC_OK)
		tfc__agent_hold(run->job, 0, 1);
	return code;
}

static void end(struct run *run)
{
	tfc__agent_job_close(run->job);
	tfc__agent_close(run->agent);
	tfc_job_free(run->definition);
	tfc_ctx_free(run->ctx);
}

static _Noreturn void be_host(int tell, const char *dir)
{
	struct run run;
	tfc_spec *spec;
	if (begin(&run, dir) < 0)
		_exit(1);
	while (!run.is_held)
		tfc_ctx_run(run.ctx, 100);
	if (tfc_spec_new(&spec) < 0 || tfc_spec_add(spec, "worker", 0, run.address, NULL) < 0)
		_exit(2);
	tfc__agent_launch(run.job, 0, 1, 1, spec);
	while (!run.pid)
		tfc_ctx_run(run.ctx, 100);
	if (write(tell, &run.pid, sizeof(run.pid)) != sizeof(run.pid))
		_exit(3);
	for (;;)
		pause(); /* until it is killed */
}

/* Its guard does not come to stop the task: it is stopped itself. */
static pid_t run_and_die(const char *dir, pid_t *ret_guard)
{
	int ends[2], status;
	pid_t task = 0;
	assert_int_equal(pipe(ends), 0);
	pid_t host = fork();
	assert_true(host >= 0);
	if (host == 0)
		be_host(ends[1], dir);
	close(ends[1]);
	assert_int_equal(read(ends[0], &task, sizeof(task)), sizeof(task));
	close(ends[0]);
	*ret_guard = proc_parent(proc_parent(task));
	assert_int_equal(kill(*ret_guard, SIGSTOP), 0);
	assert_int_equal(kill(host, SIGKILL), 0);
	assert_int_equal(waitpid(host, &status, 0), host);
	return task;
}

static void await_hold(struct run *run)
{
	for (uint64_t limit = tfc__now() + 30 * TFC__SECOND; !run->is_held;) {
		assert_true(tfc__now() < limit);
		assert_true(tfc_ctx_run(run->ctx, 100) >= 0);
	}
}

static void nothing_is_held_beside_tasks_of_the_run_before(void **state)
{
	char dir[LEAKS_PATH];
	struct run run;
	leaks_make_dir(dir);
	pid_t guard, task = run_and_die(dir, &guard);
	assert_int_equal(begin(&run, dir), 0);
	for (uint64_t until = tfc__now() + 200 * TFC__MS; tfc__now() < until;)
		assert_true(tfc_ctx_run(run.ctx, 10) >= 0);
	assert_true(proc_is_alive(task));
	assert_false(run.is_held);
	assert_false(tfc__agent_is_alone(run.agent));
	assert_int_equal(kill(guard, SIGCONT), 0);
	await_hold(&run);
	assert_false(proc_is_alive(task));
	assert_true(tfc__agent_is_alone(run.agent));
	end(&run);
	assert_int_equal(begin(&run, dir), 0); /* after an orderly end nothing is waited for */
	assert_true(tfc__agent_is_alone(run.agent));
	await_hold(&run);
	end(&run);
	assert_int_equal(tfc__remove_tree(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_held_beside_tasks_of_the_run_before),
	};
	return cmocka_run_group_tests_name("node_predecessor", tests, NULL, NULL);
}
