/* proc: limits are in force when the program begins, and one that is refused is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks.h"
#include "proc_run.h"

static bool is_root(void)
{
	if (geteuid() == 0)
		return true;
	print_message("skipped: only root can do that\n");
	return false;
}

static void set_program(struct proc_run *run, tfc_process_options *options, const char **argv)
{
	argv[0] = proc_task_program();
	options->argv = argv;
	options->log_dir = run->dir;
	options->log_name = "t";
}

/* What the program prints under these limits. */
static char *print_under(const tfc_process_limits *limits, const char *verb, const char *arg)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {NULL, verb, arg, NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	proc_run_begin(&run);
	set_program(&run, &options, argv);
	options.limits = limits;
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_string_equal(task.text, "");
	assert_int_equal(task.end.status, 0);
	char *output = proc_output(&run, "t", NULL);
	proc_close(&task);
	proc_run_end(&run);
	return output;
}

static void assert_refused(const tfc_process_limits *limits, const char *sentence)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {NULL, "print", "ran", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	proc_run_begin(&run);
	set_program(&run, &options, argv);
	options.limits = limits;
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_NOT_STARTED);
	assert_int_equal(task.end.status, TFC_ELIMIT);
	assert_false(task.is_started);
	if (!strstr(task.text, sentence))
		fail_msg("no \"%s\" in: %s", sentence, task.text);
	char *output = proc_output(&run, "t", NULL);
	assert_string_equal(output ? output : "", "");
	free(output);
	proc_close(&task);
	proc_run_end(&run);
}

static void rlimits_are_in_force(void **state)
{
	const tfc_rlimit rlimits[] = {
		{RLIMIT_NOFILE, 0, 100, 200},
		{RLIMIT_CORE, 0, 0, 0},
		{RLIMIT_STACK, 0, 1 << 20, TFC_UNLIMITED},
	};
	tfc_process_limits limits = TFC_PROCESS_LIMITS_INIT;
	struct rlimit own;
	char number[8];
	limits.rlimits = rlimits;
	limits.rlimit_count = 3;
	assert_int_equal(getrlimit(RLIMIT_STACK, &own), 0);
	if (own.rlim_max != RLIM_INFINITY && geteuid() != 0)
		limits.rlimit_count = 2;
	for (uint32_t i = 0; i < limits.rlimit_count; i++) {
		char wanted[64];
		snprintf(number, sizeof(number), "%u", rlimits[i].resource);
		snprintf(wanted, sizeof(wanted), "%lld:%lld\n", (long long)rlimits[i].soft,
			 (long long)rlimits[i].hard);
		char *output = print_under(&limits, "rlimit", number);
		assert_string_equal(output, wanted);
		free(output);
	}
	struct rlimit after;
	assert_int_equal(getrlimit(RLIMIT_STACK, &after), 0);
	assert_memory_equal(&own, &after, sizeof(own));
}

static void nice_is_added_and_the_oom_score_is_set(void **state)
{
	tfc_process_limits limits = TFC_PROCESS_LIMITS_INIT;
	char wanted[32];
	int own = getpriority(PRIO_PROCESS, 0);
	limits.nice = 3;
	limits.oom_score_adj = 700;
	limits.flags = TFC_LIMIT_OOM_SCORE_ADJ;
	char *output = print_under(&limits, "priority", NULL);
	snprintf(wanted, sizeof(wanted), "%d 700\n", own + 3 > 19 ? 19 : own + 3);
	assert_string_equal(output, wanted);
	free(output);
}

static void check_refusals(void)
{
	struct rlimit nofile = {64, 64};
	tfc_rlimit rlimit = {RLIMIT_NOFILE, 0, 1048576, 1048576};
	tfc_process_limits limits = TFC_PROCESS_LIMITS_INIT;
	limits.nice = -5;
	assert_refused(&limits, "cannot change nice by -5: Permission denied");
	limits.nice = 0;
	limits.flags = TFC_LIMIT_OOM_SCORE_ADJ;
	limits.oom_score_adj = -900;
	assert_refused(&limits, "cannot set oom_score_adj to -900: Permission denied");
	limits.flags = TFC_LIMIT_USER;
	limits.uid = limits.gid = 1;
	assert_refused(&limits, "cannot run as user 1: Operation not permitted; only a host");
	limits.flags = 0;
	limits.rlimits = &rlimit;
	limits.rlimit_count = 1;
	if (setrlimit(RLIMIT_NOFILE, &nofile) < 0)
		_exit(11);
	assert_refused(&limits, "cannot raise rlimit nofile to 1048576: hard limit is 64; only");
	rlimit.hard = TFC_UNLIMITED;
	assert_refused(&limits, "cannot raise rlimit nofile to unlimited: hard limit is 64");
}

static void a_refused_limit_is_named(void **state)
{
	proc_as_outsider(check_refusals);
}

static void a_process_runs_as_another_user(void **state)
{
	const uint32_t groups[] = {54323, 54322};
	tfc_process_limits limits = TFC_PROCESS_LIMITS_INIT;
	char wanted[64];
	if (!is_root())
		skip();
	limits.flags = TFC_LIMIT_USER;
	limits.uid = PROC_OUTSIDER;
	limits.gid = PROC_OUTSIDER + 1;
	limits.groups = groups;
	limits.group_count = 2;
	char *output = print_under(&limits, "ids", NULL);
	snprintf(wanted, sizeof(wanted), "all %d:%d dies of 9 groups 54322 54323\n", PROC_OUTSIDER,
		 PROC_OUTSIDER + 1);
	assert_string_equal(output, wanted);
	free(output);
	limits.group_count = 0;
	output = print_under(&limits, "ids", NULL);
	snprintf(wanted, sizeof(wanted), "all %d:%d dies of 9 groups\n", PROC_OUTSIDER,
		 PROC_OUTSIDER + 1);
	assert_string_equal(output, wanted);
	free(output);
	output = print_under(&limits, "write", "/etc/tfc-stranger");
	assert_string_equal(output, "refused\n");
	free(output);
}

static void another_users_process_is_stopped_and_swept(void **state)
{
	struct proc_run run;
	struct proc_task task;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_process_limits limits = TFC_PROCESS_LIMITS_INIT;
	if (!is_root())
		skip();
	proc_run_begin(&run);
	assert_int_equal(chmod(leaks_temp_dir(), 01777), 0);
	assert_int_equal(chmod(run.dir, 0711), 0);
	const char *mine = proc_path(&run, "mine");
	assert_int_equal(mkdir(mine, 0700), 0);
	assert_int_equal(chown(mine, PROC_OUTSIDER, PROC_OUTSIDER), 0);
	char path[4200];
	snprintf(path, sizeof(path), "%s/daemon", mine);
	const char *argv[] = {NULL, "deaf", "daemon", path, "wait", NULL};
	set_program(&run, &options, argv);
	limits.flags = TFC_LIMIT_USER;
	limits.uid = limits.gid = PROC_OUTSIDER;
	options.limits = &limits;
	options.cwd = mine;
	proc_start_with(&run, &task, &options);
	pid_t daemon;
	proc_await_start(&run, &task);
	daemon = (pid_t)proc_await_number(path);
	assert_true(proc_is_alive(daemon));
	assert_int_equal(tfc_process_stop(task.process, 100), 0);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_SIGNAL);
	assert_int_equal(task.end.status, SIGKILL);
	assert_false(proc_is_alive(daemon));
	proc_close(&task);

	/* a working directory that this user may not enter */
	assert_int_equal(chmod(run.dir, 0700), 0);
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_NOT_STARTED);
	assert_int_equal(task.end.status, TFC_ECWD);
	proc_close(&task);
	proc_run_end(&run);
}

/* What a task runs under, or why it does not; the caller frees it. */
static char *run_in_group(const tfc_process_limits *limits, uint32_t isolation)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {NULL, "eat", "64", "print", "ate", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	proc_run_begin(&run);
	set_program(&run, &options, argv);
	options.limits = limits;
	options.isolation = isolation;
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	char *text = *task.text ? strdup(task.text) : proc_output(&run, "t", NULL);
	if (task.end.reason == TFC_EXIT_NOT_STARTED)
		assert_int_equal(task.end.status, TFC_ELIMIT);
	proc_close(&task);
	proc_run_end(&run);
	return text;
}

/* What the start says of a memory limit that is applied if possible; a task without it runs. */
static void memory_that_cannot_be_limited_stops_no_task_that_permits_it(void **state)
{
	struct proc_run run;
	struct proc_task task;
	const char *argv[] = {NULL, "eat", "64", "print", "ate", NULL};
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_process_limits limits = TFC_PROCESS_LIMITS_INIT;
	proc_run_begin(&run);
	set_program(&run, &options, argv);
	limits.flags = TFC_LIMIT_MEMORY_IF_POSSIBLE;
	limits.memory_bytes = 16 << 20;
	options.limits = &limits;
	options.isolation = TFC_ISOLATION_PLAIN;
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_string_equal(task.started_text,
			    "memory is not limited to 16777216 bytes: the task has no cgroup v2 of "
			    "its own; isolation \"cgroup\" requires one that is delegated to the "
			    "host");
	assert_string_equal(task.text, "");
	assert_int_equal(task.end.reason, TFC_EXIT_CODE);
	char *output = proc_output(&run, "t", NULL);
	assert_string_equal(output, "ate");
	free(output);
	proc_close(&task);

	/* where it can be limited, nothing is said, and it is */
	options.isolation = TFC_ISOLATION_AUTO;
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_true(task.is_started);
	assert_int_equal(task.end.is_oom, !*task.started_text);
	assert_int_equal(task.end.memory_limit, *task.started_text ? 0 : 16 << 20);
	assert_int_equal(task.started_memory_limit, task.end.memory_limit);
	proc_close(&task);

	/* without a limit there is nothing to say */
	limits.memory_bytes = 0;
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_string_equal(task.started_text, "");
	assert_int_equal(task.end.status, 0);
	proc_close(&task);
	proc_run_end(&run);
}

static void assert_in(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("no \"%s\" in: %s", words, text);
}

static void memory_and_cpus_need_a_cgroup_and_are_never_left_out(void **state)
{
	tfc_process_limits limits = TFC_PROCESS_LIMITS_INIT;
	limits.memory_bytes = 16 << 20;
	char *text = run_in_group(&limits, TFC_ISOLATION_PLAIN);
	assert_in(text, "cannot limit memory to 16777216 bytes: the task has no cgroup v2");
	free(text);
	limits.memory_bytes = 0;
	limits.cpu_milli = 1500;
	text = run_in_group(&limits, TFC_ISOLATION_PLAIN);
	assert_in(text, "cannot limit CPUs to 1.5: the task has no cgroup v2 of its own");
	free(text);

	limits.cpu_milli = 0;
	limits.memory_bytes = 16 << 20;
	text = run_in_group(&limits, TFC_ISOLATION_AUTO);
	bool is_limited = strstr(text, "out of memory");
	assert_in(text, is_limited ? "was killed by the kernel: out of memory: it used more than "
				     "its memory limit of 16 MiB"
				   : "cannot limit memory to 16777216 bytes: the ");
	free(text);
	if (!is_limited) {
		print_message("skipped: the memory controller of cgroup v2 is not ours here; that "
			      "it is refused was tested\n");
		skip();
	}
}

static void limits_that_cannot_be_meant_are_refused_by_the_call(void **state)
{
	const tfc_rlimit unknown = {1000, 0, 1, 1}, reversed = {RLIMIT_NOFILE, 0, 2, 1};
	const struct {
		tfc_process_limits limits;
		const char *word;
	} cases[] = {
		{{.flags = 8}, "limits.flags"},
		{{.nice = 41}, "limits.nice"},
		{{.oom_score_adj = 1001}, "limits.oom_score_adj"},
		{{.flags = TFC_LIMIT_USER, .uid = UINT32_MAX}, "limits.uid"},
		{{.group_count = 1}, "limits.groups"},
		{{.cpu_milli = 9}, "limits.cpu_milli"},
		{{.memory_bytes = UINT64_MAX}, "limits.memory_bytes"},
		{{.rlimit_count = 1}, "limits.rlimits is NULL"},
		{{.rlimit_count = 1, .rlimits = &unknown}, "resource is 1000"},
		{{.rlimit_count = 1, .rlimits = &reversed}, "soft limit of nofile exceeds"},
		{{.rlimit_count = 99, .rlimits = &unknown}, "limits.rlimit_count"},
	};
	const char *argv[] = {"/bin/true", NULL};
	struct proc_run run;
	tfc_process *process;
	proc_run_begin(&run);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tfc_process_limits limits = cases[i].limits;
		tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
		limits.size = sizeof(limits);
		options.argv = argv;
		options.limits = &limits;
		tfc_process_fn fn = (tfc_process_fn)abort; /* never called */
		assert_int_equal(tfc_process_spawn(run.ctx, &options, fn, NULL, &process),
				 TFC_EINVAL);
		const char *text = tfc_ctx_error(run.ctx)->text;
		if (!strstr(text, cases[i].word))
			fail_msg("no \"%s\" in: %s", cases[i].word, text);
	}
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rlimits_are_in_force),
		cmocka_unit_test(nice_is_added_and_the_oom_score_is_set),
		cmocka_unit_test(a_refused_limit_is_named),
		cmocka_unit_test(a_process_runs_as_another_user),
		cmocka_unit_test(another_users_process_is_stopped_and_swept),
		cmocka_unit_test(memory_that_cannot_be_limited_stops_no_task_that_permits_it),
		cmocka_unit_test(memory_and_cpus_need_a_cgroup_and_are_never_left_out),
		cmocka_unit_test(limits_that_cannot_be_meant_are_refused_by_the_call),
	};
	return cmocka_run_group_tests_name("proc_limits", tests, NULL, NULL);
}
