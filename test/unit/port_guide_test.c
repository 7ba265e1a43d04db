/* port: the example of doc/guide/ports.md compiles and does what it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sockets.h"
#include <tfcluster/port.h>

/* Holds a port while a task runs; `launch` starts it, waits until it listens, and gives its pid. */
static int run_on_held_port(tfc_ctx *ctx, pid_t (*launch)(uint16_t port), void (*reap)(pid_t task))
{
	tfc_port_pool_options options = TFC_PORT_POOL_OPTIONS_INIT;
	options.first = 20000;
	options.last = 29999;
	tfc_port_pool *pool = NULL;
	tfc_port_hold *hold = NULL;
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	int code = tfc_port_pool_open(ctx, &options, &pool);
	if (code)
		return code;
	code = tfc_port_acquire(pool, 0, &hold); /* or a number: exactly that port */
	if (!code)
		code = tfc_port_hold_set_open(hold, 1); /* open the bind window */
	if (!code) {
		pid_t task = launch(tfc_port_hold_number(hold));
		code = tfc_port_hold_listener(hold, task, &listener);
		tfc_port_hold_set_open(hold, 0); /* close it: nobody else can bind */
		if (!code && !listener.is_ours)
			code = TFC_EBUSY; /* listener.uid, .pid and .program tell who it is */
		reap(task);
	}
	tfc_port_hold_release(hold); /* after the task is reaped, never before */
	tfc_port_pool_close(pool);
	return code;
}

static int task_fd;
static int intruders;
static uint16_t task_port;

static pid_t listen_here(uint16_t port)
{
	task_port = port;
	task_fd = test_listen("::", port, TEST_REUSEADDR);
	return getpid();
}

static pid_t listen_elsewhere(uint16_t port)
{
	listen_here(port);
	return 1 << 22; /* no such process: whoever listens is a stranger to it */
}

static void close_task(pid_t task)
{
	intruders = test_count_intruders(task_port);
	close(task_fd);
}

static void example_of_the_guide_works(void **state)
{
	tfc_ctx *ctx = NULL;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
	assert_int_equal(run_on_held_port(ctx, listen_here, close_task), TFC_OK);
	assert_int_equal(intruders, 0);
	assert_int_equal(run_on_held_port(ctx, listen_elsewhere, close_task), TFC_EBUSY);
	tfc_ctx_free(ctx);
}

static char *read_source(const char *path)
{
	char full[512];
	char *text = calloc(1, 1 << 16);
	snprintf(full, sizeof(full), "%s/%s", getenv("TFC_SOURCE_ROOT"), path);
	FILE *file = fopen(full, "re");
	assert_non_null(file);
	assert_non_null(text);
	assert_in_range(fread(text, 1, (1 << 16) - 1, file), 100, (1 << 16) - 2);
	fclose(file);
	return text;
}

static void guide_shows_the_code_that_is_tested(void **state)
{
	char *guide = read_source("doc/guide/ports.md");
	char *test = read_source("test/unit/port_guide_test.c");
	char *begin = strstr(guide, "```c\n");
	assert_non_null(begin);
	begin += strlen("```c\n");
	*strstr(begin, "```") = 0;
	assert_non_null(strstr(test, begin));
	free(guide);
	free(test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(example_of_the_guide_works),
		cmocka_unit_test(guide_shows_the_code_that_is_tested),
	};
	return cmocka_run_group_tests_name("port_guide", tests, NULL, NULL);
}
