/* proc: what a process is given at its start, and why one did not start. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "proc/proc.h"
#include "proc/protocol.h"
#include "proc_run.h"

static void make_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void assert_not_started(struct proc_run *run, const tfc_process_options *options, int code,
			       const char *word)
{
	struct proc_task task;
	proc_start_with(run, &task, options);
	proc_await_end(run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_NOT_STARTED);
	assert_int_equal(task.end.status, code);
	assert_false(task.is_started);
	assert_int_equal(task.end.pid, 0);
	if (!strstr(task.text, word))
		fail_msg("no \"%s\" in: %s", word, task.text);
	proc_close(&task);
}

static void failures_to_start_are_distinguished(void **state)
{
	struct proc_run run;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	proc_run_begin(&run);
	const char *script = proc_path(&run, "script"), *plain = proc_path(&run, "plain"),
		   *lost = proc_path(&run, "lost");
	make_file(script, "echo no interpreter line\n", 0755);
	make_file(plain, "#!/bin/sh\n", 0644);
	make_file(lost, "#!/does/not/exist\n", 0755);
	char *path = malloc(5000);
	snprintf(path, 5000, "PATH=/nowhere:%s:/bin", run.dir);
	const char *env[] = {path, NULL};
	const struct {
		const char *program, *cwd;
		int code;
		const char *word;
	} cases[] = {
		{"/does/not/exist", NULL, TFC_ENOENT, "/does/not/exist"},
		{"no-such-program", NULL, TFC_ENOENT, "directory in PATH; give its path"},
		{"", NULL, TFC_ENOENT, "No such file"},
		{plain, NULL, TFC_EACCES, "Permission denied; it must be an executable file"},
		{"plain", NULL, TFC_EACCES, "Permission denied"},
		{run.dir, NULL, TFC_EACCES, "Is a directory; it must be an executable file"},
		{"python3 train.py", NULL, TFC_ENOENT,
		 "directory; it contains a space: give the program"},
		{"/bin/echo hello", NULL, TFC_ENOENT,
		 "directory; it contains a space: give the program"},
		{script, NULL, TFC_ENOEXEC, "format error; a script must begin with"},
		{"script", NULL, TFC_ENOEXEC, "format"},
		{lost, NULL, TFC_ENOENT, "interpreter in its first line"},
		{"/bin/true", "/does/not/exist", TFC_ECWD,
		 "working directory \"/does/not/exist\": No"},
		{"/bin/true", plain, TFC_ECWD, "working directory"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *argv[] = {cases[i].program, NULL};
		options.argv = argv;
		options.env = env;
		options.cwd = cases[i].cwd;
		assert_not_started(&run, &options, cases[i].code, cases[i].word);
	}
	free(path);
	proc_run_end(&run);
}

static void a_log_that_cannot_be_opened_is_reported(void **state)
{
	struct proc_run run;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *argv[] = {"/bin/true", NULL};
	proc_run_begin(&run);
	options.argv = argv;
	options.log_dir = "/does/not/exist";
	options.log_name = "t";
	assert_not_started(&run, &options, TFC_ENOENT, "log");
	proc_run_end(&run);
}

static void too_much_environment_is_reported(void **state)
{
	struct proc_run run;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *argv[] = {"/bin/true", NULL};
	size_t size = (size_t)3 << 20;
	char *value = malloc(size);
	memset(value, 'x', size);
	memcpy(value, "A=", 2);
	value[size - 1] = 0;
	const char *env[] = {value, NULL};
	proc_run_begin(&run);
	options.argv = argv;
	options.env = env;
	assert_not_started(&run, &options, TFC_ETOOBIG, "too long");
	proc_run_end(&run);
	free(value);
}

static void a_large_environment_arrives(void **state)
{
	struct proc_run run;
	struct proc_task task;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *argv[] = {proc_task_program(), "env", NULL};
	static char values[15][100000];
	const char *env[16] = {NULL};
	for (int i = 0; i < 15; i++) {
		memset(values[i], 'a' + i, sizeof(values[i]));
		memcpy(values[i], "V=", 2);
		values[i][sizeof(values[i]) - 1] = 0;
		env[i] = values[i];
	}
	proc_run_begin(&run);
	options.argv = argv;
	options.env = env;
	options.log_dir = run.dir;
	options.log_name = "t";
	proc_start_with(&run, &task, &options);
	proc_await_end(&run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_CODE);
	size_t len;
	char *output = proc_output(&run, "t", &len);
	assert_int_equal(len, 15 * sizeof(values[0]));
	assert_memory_equal(output + 14 * sizeof(values[0]), values[14], sizeof(values[0]) - 1);
	free(output);
	proc_close(&task);
	proc_run_end(&run);
}

/* A host that runs as `uid` (0: as we do) with few of what `resource` counts gets `code`. */
static void assert_limited(int resource, rlim_t limit, uid_t uid, const char *log_dir, int code)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct rlimit few;
		tfc_ctx *ctx;
		struct proc_task task = {0};
		struct proc_run run = {0};
		tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
		const char *argv[] = {proc_task_program(), "wait", NULL};
		close_range(3, ~0u, 0);
		if ((uid && setuid(uid) < 0) || getrlimit(resource, &few) < 0)
			_exit(10);
		few.rlim_cur = limit;
		if (proc_ctx_new(&ctx) < 0 || setrlimit(resource, &few) < 0)
			_exit(11);
		run.ctx = ctx;
		options.argv = argv;
		options.log_dir = log_dir;
		options.log_name = "t";
		proc_start_with(&run, &task, &options);
		proc_await_end(&run, &task);
		tfc_process_close(task.process);
		tfc_ctx_free(ctx);
		_exit(task.end.reason == TFC_EXIT_NOT_STARTED && task.end.status == code
			      ? 0
			      : 20 - task.end.status);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void too_few_descriptors_are_reported(void **state)
{
	/* enough for the host, whose guard helps itself to more, not for the shim's log and pipes
	 */
	struct proc_run run;
	proc_run_begin(&run);
	assert_limited(RLIMIT_NOFILE, 12, 0, run.dir, TFC_EMFILE);
	proc_run_end(&run);
}

static void too_few_processes_are_reported(void **state)
{
	if (geteuid() != 0) {
		print_message("skipped: needs root to run as a user without processes\n");
		skip();
	}
	/* host, guard and shim; the task is one too many */
	assert_limited(RLIMIT_NPROC, 3, 54321, NULL, TFC_EAGAIN);
}

/* The kernel's answer to a file that is too large is a signal that ends the host. */
static void too_small_a_file_size_limit_is_reported_and_ends_nobody(void **state)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		const char *argv[] = {proc_task_program(), "exit", "0", NULL};
		struct rlimit small;
		struct proc_run run;
		tfc_process *process = NULL;
		tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
		options.argv = argv;
		proc_run_begin(&run);
		getrlimit(RLIMIT_FSIZE, &small);
		small.rlim_cur = 16;
		if (setrlimit(RLIMIT_FSIZE, &small) < 0)
			_exit(10);
		tfc_process_fn fn = (tfc_process_fn)abort; /* never called */
		int code = tfc_process_spawn(run.ctx, &options, fn, NULL, &process);
		bool is_named = strstr(tfc_ctx_error(run.ctx)->text, "RLIMIT_FSIZE");
		proc_run_end(&run);
		_exit(code < 0 && !process && is_named ? 0 : 11);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static char *output_of(struct proc_run *run, const tfc_process_options *options)
{
	struct proc_task task;
	proc_start_with(run, &task, options);
	proc_await_end(run, &task);
	assert_int_equal(task.end.reason, TFC_EXIT_CODE);
	assert_int_equal(task.end.status, 0);
	proc_close(&task);
	return proc_output(run, options->log_name, NULL);
}

static void a_process_is_given_what_is_said_and_nothing_else(void **state)
{
	struct proc_run run;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	int strays[100];
	sigset_t mask, old;
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_BLOCK, &mask, &old);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 100; i++)
		strays[i] = dup(2); /* not close-on-exec */
	proc_run_begin(&run);
	const char *argv[] = {proc_task_program(), "fds", "stdin", "signals", "cwd", "env", NULL};
	const char *env[] = {"B=two words", "A=", "B=again", "odd", NULL};
	options.argv = argv;
	options.env = env;
	options.cwd = "/usr";
	options.log_dir = run.dir;
	options.log_name = "t";
	char *output = output_of(&run, &options);
	assert_string_equal(output, "0 1 2\nnull\nignored 0 blocked 0\n/usr\n"
				    "B=two words\nA=\nB=again\nodd\n");
	free(output);
	options.env = NULL;
	options.cwd = NULL;
	options.log_name = "u";
	output = output_of(&run, &options);
	assert_string_equal(output, "0 1 2\nnull\nignored 0 blocked 0\n/\n");
	free(output);
	proc_run_end(&run);
	for (int i = 0; i < 100; i++)
		close(strays[i]);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGPIPE, SIG_DFL);
}

static bool is_link_to(pid_t pid, int fd, const char *target)
{
	char path[64], link[128];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	ssize_t len = readlink(path, link, sizeof(link) - 1);
	link[len > 0 ? len : 0] = '\0';
	return strcmp(link, target) == 0;
}

static void a_shim_has_its_lifeline_once(void **state)
{
	struct proc_run run;
	struct proc_task task;
	char path[64], lifeline[128] = "";
	int count = 0;
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "wait", NULL);
	proc_await_start(&run, &task);
	pid_t shim = tfc__process_shim(task.process);
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)shim, TFC__SHIM_LIFELINE);
	assert_true(readlink(path, lifeline, sizeof(lifeline) - 1) > 0);
	for (int fd = 0; fd < 64; fd++)
		count += is_link_to(shim, fd, lifeline);
	assert_int_equal(count, 1);
	tfc_process_stop(task.process, 1000);
	proc_await_end(&run, &task);
	proc_close(&task);
	proc_run_end(&run);
}

static void the_program_is_found_through_its_own_path(void **state)
{
	struct proc_run run;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	proc_run_begin(&run);
	assert_int_equal(symlink(proc_task_program(), proc_path(&run, "only-here")), 0);
	char path[4200];
	snprintf(path, sizeof(path), "PATH=/nowhere::%s", run.dir);
	const char *argv[] = {"only-here", "print", "found", NULL};
	const char *env[] = {path, NULL};
	options.argv = argv;
	options.env = env;
	options.log_dir = run.dir;
	options.log_name = "t";
	char *output = output_of(&run, &options);
	assert_string_equal(output, "found");
	free(output);
	proc_run_end(&run);
}

static void a_missing_guard_is_an_error_of_the_call(void **state)
{
	tfc_ctx *ctx;
	tfc_process *process;
	tfc_ctx_options ctx_options = TFC_CTX_OPTIONS_INIT;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	const char *argv[] = {"/bin/true", NULL};
	int fds = folder_count_fds();
	ctx_options.helper_dir = "/does/not/exist";
	options.argv = argv;
	assert_int_equal(tfc_ctx_new(&ctx_options, NULL, &ctx), 0);
	tfc_process_fn fn = (tfc_process_fn)abort; /* never called */
	assert_int_equal(tfc_process_spawn(ctx, &options, fn, NULL, &process), TFC_ENOENT);
	assert_non_null(strstr(tfc_ctx_error(ctx)->text, "/does/not/exist/tfc-guard\": No such"));
	assert_non_null(strstr(tfc_ctx_error(ctx)->text, "helper_dir"));
	options.argv = NULL;
	assert_int_equal(tfc_process_spawn(ctx, &options, fn, NULL, &process), TFC_EINVAL);
	assert_non_null(strstr(tfc_ctx_error(ctx)->text, "argv"));
	options.argv = argv;
	options.log_dir = "/tmp";
	options.log_name = "a/b";
	assert_int_equal(tfc_process_spawn(ctx, &options, fn, NULL, &process), TFC_EINVAL);
	assert_non_null(strstr(tfc_ctx_error(ctx)->text, "log_name"));
	tfc_ctx_free(ctx);
	assert_int_equal(folder_count_fds(), fds);
}

/* As a kernel before Linux 5.3, or a tool that emulates one. */
static bool hide_pidfd_open(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#define NO_FILTER 77

static void on_no_event(void *user, const tfc_process_event *event)
{
}

/* In a process of its own, because a filter stays. Returns its exit status. */
static int spawn_without_pidfd_open(void)
{
	const char *argv[] = {"/bin/true", NULL};
	tfc_ctx_options ctx_options = TFC_CTX_OPTIONS_INIT;
	tfc_process_options options = TFC_PROCESS_OPTIONS_INIT;
	tfc_process *process;
	tfc_ctx *ctx;
	ctx_options.helper_dir = getenv("TFC_HELPER_DIR");
	if (!hide_pidfd_open() || tfc_ctx_new(&ctx_options, NULL, &ctx) < 0)
		return NO_FILTER;
	options.argv = argv;
	int code = tfc_process_spawn(ctx, &options, on_no_event, NULL, &process);
	const char *text = tfc_ctx_error(ctx)->text;
	bool is_reported = code == TFC_ESYS && strncmp(text, "cannot start \"", 14) == 0 &&
			   strstr(text,
				  "tfc-guard\": the system call pidfd_open is missing; Linux 5.10 "
				  "or newer is needed, and a sandbox or valgrind must support it");
	if (!is_reported)
		print_error("%d: %s\n", code, text);
	tfc_ctx_free(ctx);
	return is_reported ? 0 : 1;
}

static void a_kernel_that_is_too_old_is_an_error_of_the_call(void **state)
{
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(spawn_without_pidfd_open());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_FILTER)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_to_start_are_distinguished),
		cmocka_unit_test(a_log_that_cannot_be_opened_is_reported),
		cmocka_unit_test(too_much_environment_is_reported),
		cmocka_unit_test(a_large_environment_arrives),
		cmocka_unit_test(too_few_descriptors_are_reported),
		cmocka_unit_test(too_few_processes_are_reported),
		cmocka_unit_test(too_small_a_file_size_limit_is_reported_and_ends_nobody),
		cmocka_unit_test(a_process_is_given_what_is_said_and_nothing_else),
		cmocka_unit_test(a_shim_has_its_lifeline_once),
		cmocka_unit_test(the_program_is_found_through_its_own_path),
		cmocka_unit_test(a_missing_guard_is_an_error_of_the_call),
		cmocka_unit_test(a_kernel_that_is_too_old_is_an_error_of_the_call),
	};
	return cmocka_run_group_tests_name("proc_start", tests, NULL, NULL);
}
