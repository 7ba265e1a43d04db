/* proc: processes under a lease end when it is over, whatever their host does, and only then. */
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
#include "proc/proc.h"
#include "proc_run.h"

#define GRACE_MS 200
#define PATIENT_MS 5000 /* far from that, also when the machine is busy */
#define PATIENCE (20 * TFC__SECOND)
#define LATE_MS 3000 /* what may come to a lease and its grace before all is reaped */

static void note_over(void *user)
{
	++*(int *)user;
}

static void receive(void *user, const tfc_process_event *event)
{
	struct proc_task *task = user;
	if (event->kind == TFC_PROCESS_STARTED) {
		task->is_started = true;
		task->pid = event->pid;
	} else if (event->kind == TFC_PROCESS_EXITED) {
		task->ends++;
		task->end = *event;
		snprintf(task->text, sizeof(task->text), "%s", event->text);
	}
}

static int start_with(tfc_ctx *ctx, struct proc_task *task, struct tfc__lease *lease, bool is_deaf,
		      uint32_t grace_ms)
{
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *deaf[] = {proc_task_program(), "deaf", "wait", NULL};
	const char *mild[] = {proc_task_program(), "wait", NULL};
	options.argv = is_deaf ? deaf : mild;
	memset(task, 0, sizeof(*task));
	const struct tfc__run_terms run_terms = {lease, grace_ms};
	return tfc__process_spawn(ctx, &options, &run_terms, receive, task, &task->process);
}

/* One that needs KILL, or one that goes at TERM. */
static int start(tfc_ctx *ctx, struct proc_task *task, struct tfc__lease *lease, bool is_deaf)
{
	return start_with(ctx, task, lease, is_deaf, GRACE_MS);
}

static void await_deaf(struct proc_run *run, struct proc_task *task)
{
	proc_await_start(run, task);
	proc_await_deaf(task->pid);
}

static struct tfc__lease *begin(struct proc_run *run, uint32_t ms, int *overs)
{
	struct tfc__lease *lease;
	*overs = 0;
	assert_int_equal(tfc__lease_begin(run->ctx, ms, 0, note_over, overs, &lease), 0);
	return lease;
}

static void assert_lost(const struct proc_task *task)
{
	assert_int_equal(task->end.reason, TFC_EXIT_LOST);
	assert_non_null(
		strstr(task->text, "was stopped: the job's maintainer was unreachable for 0.3 s"));
}

static void a_lease_that_is_over_ends_its_tasks(void **state)
{
	struct proc_run run;
	struct proc_task deaf, mild, other, late;
	int overs;
	proc_run_begin(&run);
	struct tfc__lease *lease = begin(&run, 300, &overs);
	assert_int_equal(start(run.ctx, &deaf, lease, true), 0);
	assert_int_equal(start(run.ctx, &mild, lease, false), 0);
	assert_int_equal(start(run.ctx, &other, NULL, false), 0);
	proc_await_end(&run, &mild);
	proc_await_end(&run, &deaf);
	assert_lost(&mild);
	assert_lost(&deaf);
	assert_int_equal(overs, 1);
	assert_true(proc_is_alive(other.pid));

	/* for good */
	assert_int_equal(tfc__lease_renew(lease, tfc__boot_time() + 60 * TFC__SECOND), TFC_ELOST);
	assert_int_equal(start(run.ctx, &late, lease, false), 0);
	proc_await_end(&run, &late);
	assert_false(late.is_started);
	assert_lost(&late);
	assert_int_equal(other.ends, 0);
	tfc__lease_end(lease);
	proc_close(&deaf);
	proc_close(&mild);
	proc_close(&late);
	proc_close(&other);
	proc_run_end(&run);
}

/* Jobs of one maintainer are under one lease, and each gives its tasks what it says. */
static void each_has_its_own_grace(void **state)
{
	struct proc_run run;
	struct proc_task brief, at_once, patient;
	int overs;
	proc_run_begin(&run);
	uint64_t began = tfc__now();
	struct tfc__lease *lease = begin(&run, 300, &overs);
	assert_int_equal(start_with(run.ctx, &patient, lease, true, PATIENT_MS), 0);
	assert_int_equal(start_with(run.ctx, &brief, lease, true, GRACE_MS), 0);
	assert_int_equal(start_with(run.ctx, &at_once, lease, true, 0), 0);
	await_deaf(&run, &patient);
	proc_await_end(&run, &at_once);
	proc_await_end(&run, &brief);
	assert_int_equal(patient.ends, 0);
	assert_true(proc_is_alive(patient.pid));
	proc_await_end(&run, &patient);
	assert_true(tfc__now() - began > (300 + PATIENT_MS) * TFC__MS);
	assert_lost(&patient);
	tfc__lease_end(lease);
	proc_close(&patient);
	proc_close(&brief);
	proc_close(&at_once);
	proc_run_end(&run);
}

static void run_for(struct proc_run *run, uint32_t ms)
{
	for (uint64_t end = tfc__now() + ms * TFC__MS; tfc__now() < end;)
		assert_true(tfc_ctx_run(run->ctx, 10) >= 0);
}

static void renewed_it_lives_and_forgotten_it_has_no_end(void **state)
{
	struct proc_run run;
	struct proc_task task;
	int overs;
	proc_run_begin(&run);
	struct tfc__lease *lease = begin(&run, 10000, &overs);
	assert_int_equal(start(run.ctx, &task, lease, false), 0);
	proc_await_start(&run, &task);
	tfc__lease_end(lease);
	lease = begin(&run, 2000, &overs); /* another, though it may have the index of the first */
	for (int i = 0; i < 3000; i++)
		assert_int_equal(tfc__lease_renew(lease, tfc__boot_time() + 2000 * TFC__MS), 0);
	run_for(&run, 100);
	tfc__lease_end(lease);
	run_for(&run, 2200);
	assert_int_equal(overs, 0);
	assert_int_equal(task.ends, 0);
	proc_close(&task);
	proc_run_end(&run);
}

static void hundreds_of_tasks_hang_on_one_lease(void **state)
{
	enum { MANY = 300 };
	static struct proc_task tasks[MANY];
	struct proc_run run;
	int overs;
	proc_run_begin(&run);
	struct tfc__lease *lease = begin(&run, 20000, &overs);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(start(run.ctx, &tasks[i], lease, false), 0);
	for (int i = 0; i < MANY; i++)
		proc_await_start(&run, &tasks[i]);
	struct tfc__lease *brief = begin(&run, 1, &overs); /* its end touches none of them */
	uint64_t end = tfc__now() + PATIENCE;
	while (!overs) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(run.ctx, 100) >= 0);
	}
	for (int i = 0; i < MANY; i++)
		assert_int_equal(tasks[i].ends, 0);
	tfc__lease_end(brief);
	tfc__lease_end(lease);
	struct proc_task over[MANY / 10];
	lease = begin(&run, 300, &overs);
	for (int i = 0; i < MANY / 10; i++)
		assert_int_equal(start(run.ctx, &over[i], lease, false), 0);
	for (int i = 0; i < MANY / 10; i++) {
		proc_await_end(&run, &over[i]);
		assert_lost(&over[i]);
		proc_close(&over[i]);
	}
	tfc__lease_end(lease);
	for (int i = 0; i < MANY; i++)
		proc_close(&tasks[i]);
	proc_run_end(&run);
}

/* The next guard knows the lease, so that what is started by it has the same end. */
static void a_lease_outlives_the_guard(void **state)
{
	struct proc_run run;
	struct proc_task first, second;
	int overs;
	proc_run_begin(&run);
	struct tfc__lease *lease = begin(&run, 1500, &overs);
	assert_int_equal(start(run.ctx, &first, lease, false), 0);
	proc_await_start(&run, &first);
	kill(proc_parent(proc_parent(first.pid)), SIGKILL);
	proc_await_end(&run, &first);
	assert_non_null(strstr(first.text, "was killed: its supervisor died"));
	assert_int_equal(tfc__lease_renew(lease, tfc__boot_time() + 1600 * TFC__MS), 0);
	assert_int_equal(start(run.ctx, &second, lease, false), 0);
	proc_await_start(&run, &second);
	proc_await_end(&run, &second);
	assert_non_null(strstr(second.text, "was unreachable for 1.5 s"));
	assert_int_equal(overs, 1);
	tfc__lease_end(lease);
	proc_close(&first);
	proc_close(&second);
	proc_run_end(&run);
}

/* A shim without a guard knows no lease: what its task is given must fit into any. */
static void without_a_guard_a_task_has_no_more_than_the_grace_of_its_lease(void **state)
{
	struct proc_run run;
	struct proc_task brief, free;
	int overs;
	proc_run_begin(&run);
	struct tfc__lease *lease = begin(&run, 60000, &overs);
	assert_int_equal(start(run.ctx, &brief, lease, true), 0);
	assert_int_equal(start(run.ctx, &free, NULL, true), 0); /* it has its own 10 s */
	await_deaf(&run, &brief);
	await_deaf(&run, &free);
	assert_int_equal(kill(proc_parent(proc_parent(brief.pid)), SIGKILL), 0);
	assert_true(proc_await_gone(brief.pid, GRACE_MS + LATE_MS));
	assert_true(proc_is_alive(free.pid));
	proc_await_end(&run, &brief);
	tfc__lease_end(lease);
	proc_close(&brief);
	proc_close(&free);
	proc_run_end(&run);
}

/* The guard was held up, and finds the renewal before it notices that the time is over. */
static void a_renewal_that_comes_too_late_has_no_effect(void **state)
{
	struct proc_run run;
	struct proc_task task;
	int overs;
	proc_run_begin(&run);
	struct tfc__lease *lease = begin(&run, 3000, &overs);
	uint64_t deadline = tfc__boot_time() + 3000 * TFC__MS;
	assert_int_equal(start(run.ctx, &task, lease, true), 0);
	proc_await_start(&run, &task);
	pid_t guard = proc_parent(proc_parent(task.pid));
	proc_stop(guard);
	assert_int_equal(tfc_process_signal(task.process, SIGCONT), 0); /* it is read first */
	while (tfc__boot_time() <= deadline)
		poll(NULL, 0, 10);
	assert_int_equal(tfc__lease_renew(lease, tfc__boot_time() + 60 * TFC__SECOND), 0);
	assert_int_equal(kill(guard, SIGCONT), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_LOST);
	assert_int_equal(overs, 1);
	tfc__lease_end(lease);
	proc_close(&task);
	proc_run_end(&run);
}

static void a_lease_may_expire_early(void **state)
{
	struct proc_run run;
	struct proc_task deaf, mild;
	int overs;
	proc_run_begin(&run);
	struct tfc__lease *lease = begin(&run, 600000, &overs);
	assert_int_equal(start(run.ctx, &deaf, lease, true), 0);
	assert_int_equal(start(run.ctx, &mild, lease, false), 0);
	await_deaf(&run, &deaf);
	proc_await_start(&run, &mild);
	tfc__lease_expire(lease);
	proc_await_end(&run, &mild);
	proc_await_end(&run, &deaf);
	assert_int_equal(mild.end.reason, TFC_EXIT_LOST);
	assert_int_equal(deaf.end.reason, TFC_EXIT_LOST);
	assert_int_equal(overs, 1);
	tfc__lease_expire(lease); /* a no-op now, as is a renewal */
	assert_int_equal(tfc__lease_renew(lease, tfc__boot_time() + 60 * TFC__SECOND), TFC_ELOST);
	tfc__lease_end(lease);
	proc_close(&deaf);
	proc_close(&mild);
	proc_run_end(&run);
}

/* A guard that is stopped: its shims know the deadline, and each renewal that it has had. */
static void a_stopped_guard_cannot_keep_its_tasks(void **state)
{
	struct proc_run run;
	struct proc_task deaf, mild, patient, free;
	int overs;
	proc_run_begin(&run);
	struct tfc__lease *lease = begin(&run, 2000, &overs);
	assert_int_equal(start(run.ctx, &deaf, lease, true), 0);
	assert_int_equal(start(run.ctx, &mild, lease, false), 0);
	assert_int_equal(start_with(run.ctx, &patient, lease, true, PATIENT_MS), 0);
	assert_int_equal(start(run.ctx, &free, NULL, false), 0);
	await_deaf(&run, &deaf);
	proc_await_start(&run, &mild);
	await_deaf(&run, &patient);
	proc_await_start(&run, &free);
	uint64_t deadline = tfc__boot_time() + 3000 * TFC__MS;
	assert_int_equal(tfc__lease_renew(lease, deadline), 0);
	run_for(&run, 200);
	pid_t guard = proc_parent(proc_parent(deaf.pid));
	proc_stop(guard);
	while (tfc__boot_time() < deadline) {
		assert_true(proc_is_alive(mild.pid));
		poll(NULL, 0, 10);
	}
	assert_true(proc_await_gone(mild.pid, LATE_MS));
	assert_true(proc_await_gone(deaf.pid, GRACE_MS + LATE_MS));
	assert_true(proc_is_alive(patient.pid));
	assert_true(proc_await_gone(patient.pid, PATIENT_MS + LATE_MS));
	assert_true(tfc__boot_time() >= deadline + PATIENT_MS * TFC__MS);
	assert_true(proc_is_alive(free.pid));
	assert_int_equal(kill(guard, SIGCONT), 0);
	proc_await_end(&run, &deaf);
	proc_await_end(&run, &mild);
	proc_await_end(&run, &patient);
	assert_int_equal(deaf.end.reason, TFC_EXIT_LOST);
	assert_int_equal(mild.end.reason, TFC_EXIT_LOST);
	assert_non_null(strstr(mild.text, "was unreachable for 2.0 s"));
	assert_int_equal(overs, 1);
	assert_int_equal(free.ends, 0);
	tfc__lease_end(lease);
	proc_close(&deaf);
	proc_close(&mild);
	proc_close(&patient);
	proc_close(&free);
	proc_run_end(&run);
}

/* The shim waits for two deadlines, and that of the stop is still to come when the lease is over.
 */
static void a_stop_keeps_its_deadline_when_the_lease_is_over(void **state)
{
	struct proc_run run;
	struct proc_task task;
	int overs;
	proc_run_begin(&run);
	uint64_t deadline = tfc__boot_time() + 1000 * TFC__MS;
	struct tfc__lease *lease = begin(&run, 1000, &overs);
	assert_int_equal(start_with(run.ctx, &task, lease, true, 4 * PATIENT_MS), 0);
	await_deaf(&run, &task);
	pid_t guard = proc_parent(proc_parent(task.pid));
	assert_int_equal(tfc_process_stop(task.process, 2000), 0);
	run_for(&run, 200);
	assert_int_equal(kill(guard, SIGSTOP), 0); /* it would kill the task itself, but later */
	assert_true(proc_await_gone(task.pid, 2000 + LATE_MS));
	assert_true(tfc__boot_time() > deadline);
	assert_int_equal(kill(guard, SIGCONT), 0);
	proc_await_end(&run, &task);
	tfc__lease_end(lease);
	proc_close(&task);
	proc_run_end(&run);
}

/* ---- a host that is stopped */

static bool await(tfc_ctx *ctx, const int *flag)
{
	for (uint64_t end = tfc__now() + PATIENCE; !*flag && tfc__now() < end;)
		tfc_ctx_run(ctx, 100);
	return *flag;
}

/* Runs in a child. After it was stopped for longer than its lease it says what it found. */
static _Noreturn void be_host(int report, int receive_fd)
{
	tfc_ctx *ctx;
	struct tfc__lease *lease;
	struct proc_task task, patient, late;
	int overs = 0;
	char go;
	if (proc_ctx_new(&ctx) < 0 ||
	    tfc__lease_begin(ctx, 300, 0, note_over, &overs, &lease) < 0 ||
	    start(ctx, &task, lease, true) < 0 ||
	    start_with(ctx, &patient, lease, true, PATIENT_MS) < 0)
		_exit(1);
	while (!task.pid || !patient.pid)
		tfc_ctx_run(ctx, 100);
	const pid_t pids[2] = {task.pid, patient.pid};
	if (write(report, pids, sizeof(pids)) != sizeof(pids))
		_exit(2);
	raise(SIGSTOP);
	if (read(receive_fd, &go, 1) != 1)
		_exit(3);
	/* the stale host believes in its lease, and goes on */
	if (tfc__lease_renew(lease, tfc__boot_time() + 60 * TFC__SECOND) < 0 ||
	    start(ctx, &late, lease, false) < 0)
		_exit(4);
	if (!await(ctx, &late.ends) || !await(ctx, &task.ends) || !await(ctx, &patient.ends) ||
	    !await(ctx, &overs))
		_exit(5);
	if (late.is_started || late.end.reason != TFC_EXIT_LOST)
		_exit(6);
	_exit(task.end.reason == TFC_EXIT_LOST ? 0 : 7);
}

static void a_stopped_host_cannot_keep_its_tasks(void **state)
{
	struct proc_run run;
	pid_t tasks[2] = {0};
	int ends[2], go[2], status;
	proc_run_begin(&run);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(pipe(go), 0);
	pid_t host = fork();
	assert_true(host >= 0);
	if (host == 0)
		be_host(ends[1], go[0]);
	close(ends[1]);
	close(go[0]);
	assert_int_equal(read(ends[0], tasks, sizeof(tasks)), sizeof(tasks));
	assert_int_equal(waitpid(host, &status, WUNTRACED), host);
	assert_true(WIFSTOPPED(status));
	assert_true(proc_await_gone(tasks[0], 300 + GRACE_MS + LATE_MS));
	assert_true(proc_is_alive(tasks[1]));
	assert_true(proc_await_gone(tasks[1], PATIENT_MS + LATE_MS));
	assert_int_equal(write(go[1], "g", 1), 1);
	assert_int_equal(kill(host, SIGCONT), 0);
	assert_int_equal(waitpid(host, &status, 0), host);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(go[1]);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lease_that_is_over_ends_its_tasks),
		cmocka_unit_test(each_has_its_own_grace),
		cmocka_unit_test(renewed_it_lives_and_forgotten_it_has_no_end),
		cmocka_unit_test(hundreds_of_tasks_hang_on_one_lease),
		cmocka_unit_test(a_lease_outlives_the_guard),
		cmocka_unit_test(without_a_guard_a_task_has_no_more_than_the_grace_of_its_lease),
		cmocka_unit_test(a_lease_may_expire_early),
		cmocka_unit_test(a_renewal_that_comes_too_late_has_no_effect),
		cmocka_unit_test(a_stopped_guard_cannot_keep_its_tasks),
		cmocka_unit_test(a_stop_keeps_its_deadline_when_the_lease_is_over),
		cmocka_unit_test(a_stopped_host_cannot_keep_its_tasks),
	};
	return cmocka_run_group_tests_name("proc_lease", tests, NULL, NULL);
}
