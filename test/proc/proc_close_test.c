/* proc: closed, stopped, freed or abandoned at any moment of its life, under each isolation (the
 * first argument names it): at most one end is reported, nothing after the close, and nothing is
 * left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/proc.h"
#include "proc_run.h"

#define PATIENCE (30 * TFC__SECOND)

enum moment { AT_ONCE, RUNNING, STOPPING, IN_STARTED, IN_STALLED, IN_EXITED, ENDED, MOMENTS };
enum act { CLOSE, STOP, FREE, ABANDON, ACTS };

static const char *const moments[] = {"at once",    "running",   "stopping", "in STARTED",
				      "in STALLED", "in EXITED", "ended"};
static const char *const acts[] = {"close", "stop", "free", "abandon"};

static uint32_t isolation;

struct life {
	struct proc_run run;
	tfc_process *process; /* NULL once closed */
	enum moment moment;
	enum act act;
	bool is_done;
	pid_t pid;
	int starts;
	int ends;
};

/* A child that the host forks lets go of everything; the parent's process does not notice. */
static void abandon(const struct life *life)
{
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		tfc_ctx_abandon(life->run.ctx);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void do_act(struct life *life)
{
	life->is_done = true;
	switch (life->act) {
	case CLOSE:
		tfc_process_close(life->process);
		life->process = NULL;
		break;
	case STOP:
		assert_int_equal(tfc_process_stop(life->process, 0), TFC_OK);
		break;
	case FREE:
		tfc_ctx_free(life->run.ctx); /* closes the process, too */
		life->run.ctx = NULL;
		life->process = NULL;
		break;
	default:
		abandon(life);
		break;
	}
}

static void receive(void *user, const tfc_process_event *event)
{
	static const enum moment inside[] = {[TFC_PROCESS_STARTED] = IN_STARTED,
					     [TFC_PROCESS_EXITED] = IN_EXITED,
					     [TFC_PROCESS_STALLED] = IN_STALLED};
	struct life *life = user;
	assert_non_null(life->process);
	assert_non_null(life->run.ctx);
	assert_int_equal(life->ends, 0);
	life->starts += event->kind == TFC_PROCESS_STARTED;
	life->ends += event->kind == TFC_PROCESS_EXITED;
	life->pid = event->pid;
	assert_int_equal(life->starts, 1);
	if (life->moment == inside[event->kind] && !life->is_done)
		do_act(life);
}

static void spawn(struct life *life)
{
	bool is_short = life->moment == IN_EXITED || life->moment == ENDED;
	const char *const argv[] = {proc_task_program(), is_short ? "print" : "deaf",
				    is_short ? "out" : "wait", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	options.argv = argv;
	options.log_dir = life->run.dir;
	options.log_name = "t";
	options.isolation = isolation;
	options.stall_ms = life->moment == IN_STALLED ? 20 : 0;
	assert_int_equal(tfc_process_spawn(life->run.ctx, &options, receive, life, &life->process),
			 TFC_OK);
}

static void await(struct life *life, const int *count)
{
	for (uint64_t end = tfc__now() + PATIENCE; !*count;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(life->run.ctx, 1000) >= 0);
	}
}

static void live_until_done(struct life *life)
{
	if (life->moment == RUNNING || life->moment == STOPPING)
		await(life, &life->starts);
	if (life->moment == ENDED)
		await(life, &life->ends);
	if (life->moment == STOPPING)
		assert_int_equal(tfc_process_stop(life->process, 60000), TFC_OK);
	if (life->moment < IN_STARTED || life->moment == ENDED)
		do_act(life);
	for (uint64_t end = tfc__now() + PATIENCE; !life->is_done;) {
		assert_true(tfc__now() < end);
		assert_true(tfc_ctx_run(life->run.ctx, 1000) >= 0);
	}
}

/* What its handle is still good for, and then the context. */
static void die(struct life *life)
{
	if (life->act == ABANDON)
		assert_int_equal(tfc_process_stop(life->process, 0), TFC_OK);
	if (life->act == STOP || life->act == ABANDON)
		await(life, &life->ends);
	for (uint64_t end = tfc__now() + PATIENCE; life->pid && proc_is_alive(life->pid);) {
		assert_true(tfc__now() < end);
		if (life->run.ctx)
			assert_true(tfc_ctx_run(life->run.ctx, 5) >= 0);
	}
	proc_close((struct proc_task[]){{.process = life->process}});
	life->process = NULL;
}

static bool is_legal(enum moment moment, enum act act)
{
	return act != FREE || moment < IN_STARTED || moment == ENDED; /* see tfc_ctx_free */
}

static void any_act_at_any_moment_leaves_nothing(void **state)
{
	for (int moment = 0; moment < MOMENTS; moment++)
		for (int act = 0; act < ACTS; act++) {
			struct life life = {.moment = (enum moment)moment, .act = (enum act)act};
			if (!is_legal(life.moment, life.act))
				continue;
			print_message("%s %s\n", acts[act], moments[moment]);
			proc_run_begin(&life.run);
			spawn(&life);
			live_until_done(&life);
			int ends = life.ends;
			die(&life);
			bool has_told = act == STOP || act == ABANDON;
			assert_int_equal(life.ends, has_told ? 1 : ends);
			proc_run_end(&life.run);
		}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_act_at_any_moment_leaves_nothing),
	};
	int status = proc_isolation_of(argc, argv, &isolation);
	return status ? status : cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
}
