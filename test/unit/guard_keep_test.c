/* proc: the ports that a guard keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "failing_malloc.h"
#include "proc/guard/guard.h"

static struct tfc__report reported;
static uint32_t reports;

void host_report(struct guard *guard, const struct tfc__report *report)
{
	reported = *report;
	reports++;
}

static int make_port(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void end(struct guard *guard)
{
	tfc__map_fini(&guard->keeps_by_id);
	free(guard->keeps);
}

static void a_port_stays_until_it_is_released_and_its_tasks_are_reaped(void **state)
{
	struct guard guard = {0};
	int ports[100];
	for (uint32_t i = 0; i < 100; i++) {
		ports[i] = make_port();
		keep_port(&guard, 1000 + i, ports[i]);
		keep_join(&guard, 1000 + i);
	}
	for (uint32_t i = 0; i < 100; i++) {
		keep_release(&guard, 1000 + i);
		assert_true(is_open(ports[i]));
		keep_leave(&guard, 1000 + i);
		assert_false(is_open(ports[i]));
	}
	assert_int_equal(guard.keeps_by_id.count, 0);
	assert_int_equal(reports, 0);
	end(&guard);
}

static void a_port_that_there_is_no_memory_for_is_reported(void **state)
{
	for (long n = 0; n < 2; n++) {
		struct guard guard = {0};
		int port = make_port();
		reports = 0;
		failing_begin(n, true);
		keep_port(&guard, 7, port);
		failing_end();
		assert_int_equal(reports, 1);
		assert_int_equal(reported.kind, TFC__MSG_NOT_KEPT);
		assert_int_equal(reported.id, 7);
		assert_false(is_open(port));
		keep_join(&guard, 7); /* a task may be started there nevertheless */
		keep_leave(&guard, 7);
		port = make_port();
		keep_port(&guard, 8, port);
		keep_release(&guard, 8);
		assert_false(is_open(port));
		assert_int_equal(reports, 1);
		end(&guard);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_stays_until_it_is_released_and_its_tasks_are_reaped),
		cmocka_unit_test(a_port_that_there_is_no_memory_for_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
