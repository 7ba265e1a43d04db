/* proc: the exit status is exact whatever the host does with its children, and nothing is lost
 * while it is stopped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc_run.h"

static void run_many(struct proc_run *run)
{
	struct proc_task tasks[32];
	char code[16];
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 32; i++) {
			snprintf(code, sizeof(code), "%d", i * 7);
			proc_start(run, &tasks[i], NULL, i % 2 ? "exit" : "die", i % 2 ? code : "9",
				   "wait", NULL);
		}
		for (int i = 0; i < 32; i++) {
			proc_await_end(run, &tasks[i]);
			assert_int_equal(tasks[i].end.reason,
					 i % 2 ? TFC_EXIT_CODE : TFC_EXIT_SIGNAL);
			assert_int_equal(tasks[i].end.status, i % 2 ? i * 7 : SIGKILL);
			proc_close(&tasks[i]);
		}
	}
}

static atomic_bool is_over;

static void *reap_all(void *user)
{
	while (!is_over)
		if (waitpid(-1, NULL, WNOHANG | __WALL) <= 0)
			poll(NULL, 0, 1);
	return NULL;
}

static void a_host_that_reaps_everything_gets_exact_ends(void **state)
{
	struct proc_run run;
	pthread_t thread;
	proc_run_begin(&run);
	is_over = false;
	assert_int_equal(pthread_create(&thread, NULL, reap_all, NULL), 0);
	run_many(&run);
	is_over = true;
	pthread_join(thread, NULL);
	proc_run_end(&run);
}

static void with_sigchld(void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;
	struct proc_run run;
	assert_int_equal(sigaction(SIGCHLD, &action, &old), 0);
	proc_run_begin(&run);
	run_many(&run);
	proc_run_end(&run);
	assert_int_equal(sigaction(SIGCHLD, &old, NULL), 0);
}

static void a_host_that_ignores_sigchld_gets_exact_ends(void **state)
{
	with_sigchld(SIG_IGN, 0);
}

static void a_host_without_zombies_gets_exact_ends(void **state)
{
	with_sigchld(SIG_DFL, SA_NOCLDWAIT);
}

static void on_child(int number)
{
	int error = errno;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	errno = error;
}

static void a_host_with_a_reaping_handler_gets_exact_ends(void **state)
{
	with_sigchld(on_child, 0);
}

static void children_of_the_host_stay_its_own(void **state)
{
	struct proc_run run;
	int status;
	pid_t child = fork();
	if (child == 0)
		_exit(77);
	struct proc_task task;
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	/* proc_run_end wants no child to be left: it comes after ours is taken */
	proc_run_begin(&run);
	proc_start(&run, &task, NULL, "exit", "1", NULL);
	proc_await_end(&run, &task);
	proc_close(&task);
	assert_int_equal(waitpid(child, &status, WNOHANG), child);
	assert_int_equal(WEXITSTATUS(status), 77);
	proc_run_end(&run);
}

/* In a child that gets stopped: more ends than any socket holds come meanwhile. */
static _Noreturn void be_stopped_host(int report, const char *dir)
{
	enum { COUNT = 600 };
	static struct proc_task tasks[COUNT];
	struct proc_run run = {.dir = strdup(dir)};
	if (proc_ctx_new(&run.ctx) < 0)
		_exit(1);
	for (int i = 0; i < COUNT; i++)
		proc_start(&run, &tasks[i], NULL, "exit", i % 2 ? "1" : "2", NULL);
	proc_await_start(&run, &tasks[0]);
	if (write(report, "x", 1) != 1 || raise(SIGSTOP) != 0)
		_exit(2);
	for (int i = 0; i < COUNT; i++) {
		proc_await_end(&run, &tasks[i]);
		if (!tasks[i].is_started || tasks[i].end.status != (i % 2 ? 1 : 2))
			_exit(3);
		proc_close(&tasks[i]);
	}
	tfc_ctx_free(run.ctx);
	_exit(0);
}

static void a_stopped_host_misses_nothing(void **state)
{
	struct proc_run run;
	int ends[2], status;
	char byte;
	proc_run_begin(&run);
	assert_int_equal(pipe(ends), 0);
	pid_t host = fork();
	if (host == 0)
		be_stopped_host(ends[1], run.dir);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	assert_int_equal(waitpid(host, &status, WUNTRACED), host);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(waitpid(host, &status, WNOHANG), 0);
	poll(NULL, 0, 500); /* time in which ends pile up: there is no event to wait for */
	assert_int_equal(kill(host, SIGCONT), 0);
	assert_int_equal(waitpid(host, &status, 0), host);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close(ends[0]);
	close(ends[1]);
	proc_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_that_reaps_everything_gets_exact_ends),
		cmocka_unit_test(a_host_that_ignores_sigchld_gets_exact_ends),
		cmocka_unit_test(a_host_without_zombies_gets_exact_ends),
		cmocka_unit_test(a_host_with_a_reaping_handler_gets_exact_ends),
		cmocka_unit_test(children_of_the_host_stay_its_own),
		cmocka_unit_test(a_stopped_host_misses_nothing),
	};
	return cmocka_run_group_tests_name("proc_reap", tests, NULL, NULL);
}
