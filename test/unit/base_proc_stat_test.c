/* base: what /proc says of a process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/proc_stat.h"

static void a_name_may_hold_anything(void **state)
{
	struct tfc__proc_stat stat;
	assert_int_equal(prctl(PR_SET_NAME, "a) Z 1 (b"), 0);
	assert_int_equal(tfc__proc_stat_read(getpid(), &stat), 0);
	assert_string_equal(stat.name, "a) Z 1 (b");
	assert_int_equal(stat.state, 'R');
	assert_int_equal(stat.pid, getpid());
	assert_int_equal(stat.parent, getppid());
}

static void cpu_time_is_that_of_the_process(void **state)
{
	struct tfc__proc_stat stat;
	struct timespec used = {0};
	volatile unsigned count = 0;
	while (used.tv_sec == 0 && used.tv_nsec < 200000000) {
		count++;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	}
	assert_int_equal(tfc__proc_stat_read(getpid(), &stat), 0);
	long hertz = sysconf(_SC_CLK_TCK);
	assert_in_range(stat.ticks, hertz * 15 / 100, hertz * 100); /* counted in ticks */
}

static void a_dead_child_is_a_zombie_and_then_none(void **state)
{
	struct tfc__proc_stat stat;
	siginfo_t info;
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(tfc__proc_stat_read(pid, &stat), 0);
	assert_int_equal(stat.state, 'Z');
	assert_int_equal(stat.parent, getpid());
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(tfc__proc_stat_read(pid, &stat), -1);
	assert_int_equal(errno, ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_may_hold_anything),
		cmocka_unit_test(cpu_time_is_that_of_the_process),
		cmocka_unit_test(a_dead_child_is_a_zombie_and_then_none),
	};
	return cmocka_run_group_tests_name("base_proc_stat", tests, NULL, NULL);
}
