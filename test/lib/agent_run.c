#include "agent_run.h"
#include "agent_order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "folder.h"
#include "proc_run.h"

#define JOB                                                                            \
	"{\"argv\": [\"%s\", \"deaf\", \"begin\", \"%s\", \"wait\"], \"grace_s\": 1, " \
	"\"stall_s\": 0, \"roles\": "                                                  \
	"{\"worker\": {\"count\": 1, \"ready\": \"started\"}}}"

/* ---- one incarnation of a node */

static void receive(void *user, const struct tfc__task_event *event)
{
	struct agent_run *run = user;
	if (event->kind == TFC__AGENT_HELD) {
		run->is_held = true;
		snprintf(run->address, sizeof(run->address), "%s", event->address);
	} else if (event->kind == TFC__AGENT_STARTED) {
		run->pid = event->pid;
	} else if (event->kind == TFC__AGENT_STATES) {
		run->is_answered = true;
	}
}

int agent_run_open(struct agent_run *run, const char *state, const char *dir)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	char *logs = tfc__path_join(dir, "logs");
	struct tfc__agent_options agent = {.temp_dir = dir, .state_dir = state, .log_dir = logs};
	*run = (struct agent_run){0};
	options.helper_dir = getenv("TFC_HELPER_DIR");
	int code = tfc_ctx_new(&options, &error, &run->ctx);
	if (code == TFC_OK)
		code = tfc__agent_open(run->ctx, &agent, &run->agent);
	free(logs);
	return code;
}

int agent_run_begin(struct agent_run *run, const char *dir)
{
	char json[512];
	tfc_error error = TFC_ERROR_INIT;
	snprintf(json, sizeof(json), JOB, proc_task_program(), dir);
	int code = agent_run_open(run, dir, dir);
	if (code == TFC_OK)
		code = tfc_job_parse(json, strlen(json), "job", &error, &run->definition);
	const struct tfc__agent_job_info info = {.id = "1", .job = run->definition, .epoch = 2};
	if (code == TFC_OK)
		code = tfc__agent_job_open(run->agent, &info, receive, run, &error, &run->job);
	if (code == TFC_OK)
		agent_hold(&tfc__local_agent_ops, run->job, 0, 1);
	return code;
}

void agent_run_end(struct agent_run *run)
{
	tfc__agent_job_close(run->job);
	tfc__agent_close(run->agent);
	tfc_job_free(run->definition);
	tfc_ctx_free(run->ctx);
}

void agent_run_until(struct agent_run *run, const bool *what, int seconds)
{
	for (uint64_t limit = tfc__now() + (uint64_t)seconds * TFC__SECOND; !*what;) {
		assert_true(tfc__now() < limit);
		assert_true(tfc_ctx_run(run->ctx, 100) >= 0);
	}
}

void agent_run_for(struct agent_run *run, uint64_t ns)
{
	for (uint64_t until = tfc__now() + ns; tfc__now() < until;)
		assert_true(tfc_ctx_run(run->ctx, 10) >= 0);
}

void agent_run_await_private_dirs(struct agent_run *run, const char *dir, int count)
{
	for (uint64_t limit = tfc__now() + 30 * TFC__SECOND; folder_count(dir, "tfc-") != count;) {
		assert_true(tfc__now() < limit);
		assert_true(tfc_ctx_run(run->ctx, 10) >= 0);
	}
}

/* ---- one that is killed */

static void be_host(int report, const char *dir)
{
	struct agent_run run;
	tfc_spec *spec;
	if (agent_run_begin(&run, dir) < 0)
		_exit(1);
	while (!run.is_held)
		tfc_ctx_run(run.ctx, 100);
	if (tfc_spec_new(&spec) < 0 || tfc_spec_add(spec, "worker", 0, run.address, NULL) < 0)
		_exit(2);
	agent_launch(&tfc__local_agent_ops, run.job, 0, spec);
	while (!run.pid)
		tfc_ctx_run(run.ctx, 100);
	if (write(report, &run.pid, sizeof(run.pid)) != sizeof(run.pid))
		_exit(3);
	for (;;)
		pause(); /* until it is killed */
}

pid_t dead_host_fork(struct dead_host *dead, void (*host)(int report, const char *dir),
		     const char *dir)
{
	pid_t reported;
	int ends[2];
	assert_int_equal(pipe(ends), 0);
	dead->host = fork();
	assert_true(dead->host >= 0);
	if (dead->host == 0)
		host(ends[1], dir);
	close(ends[1]);
	assert_int_equal(read(ends[0], &reported, sizeof(reported)), sizeof(reported));
	close(ends[0]);
	return reported;
}

void dead_host_start(struct dead_host *dead, const char *dir)
{
	char attempts[LEAKS_PATH + 16];
	dead->task = dead_host_fork(dead, be_host, dir);
	snprintf(attempts, sizeof(attempts), "%s/attempts", dir);
	for (uint64_t limit = tfc__now() + 30 * TFC__SECOND; access(attempts, F_OK) < 0;) {
		assert_true(tfc__now() < limit);
		poll(NULL, 0, 2); /* it is deaf from then on */
	}
	dead->shim = proc_parent(dead->task);
	dead->guard = proc_parent(dead->shim);
}

void dead_host_kill(const struct dead_host *dead)
{
	int status;
	assert_int_equal(kill(dead->host, SIGKILL), 0);
	assert_int_equal(waitpid(dead->host, &status, 0), dead->host);
}

void dead_host_die_with_guard(struct dead_host *dead, const char *dir, bool is_shim)
{
	dead_host_start(dead, dir);
	if (is_shim)
		proc_stop(dead->shim);
	proc_stop(dead->guard);
	assert_int_equal(kill(dead->guard, SIGKILL), 0);
	if (is_shim)
		assert_int_equal(kill(dead->shim, SIGKILL), 0);
	dead_host_kill(dead);
	assert_true(proc_await_gone(dead->guard, 5000));
}

void find_private_dir(const char *dir, char ret_path[LEAKS_PATH * 2])
{
	char command[LEAKS_PATH * 4];
	snprintf(command, sizeof(command), "echo -n %s/tfc-*", dir);
	FILE *out = popen(command, "re");
	assert_non_null(out);
	assert_non_null(fgets(ret_path, LEAKS_PATH * 2, out));
	assert_int_equal(pclose(out), 0);
	assert_int_equal(access(ret_path, F_OK), 0);
}
