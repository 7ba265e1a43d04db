/*
 * Holds one port and obeys commands, line by line, for tests that are written in Python:
 * acquire PORT | admit 0|1 | listener PID | intruders | release. Answers each with one line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sockets.h"
#include <tfcluster/port.h>

static tfc_ctx *ctx;
static tfc_port_pool *pool;
static tfc_port_hold *hold;

static void answer(int code)
{
	if (code)
		printf("%s %s\n", tfc_err_name(code), tfc_ctx_error(ctx)->text);
	else
		printf("ok %u\n", tfc_port_hold_number(hold));
}

static void answer_listener(int root)
{
	tfc_port_listener listener = TFC_PORT_LISTENER_INIT;
	int code = tfc_port_hold_listener(hold, root, &listener);
	if (code)
		answer(code);
	else
		printf("ok %u %u %d %u %s\n", listener.count, listener.uid, listener.pid,
		       listener.is_ours, listener.program);
}

static void obey(const char *verb, int number)
{
	if (!strcmp(verb, "acquire"))
		answer(tfc_port_acquire(pool, (uint16_t)number, &hold));
	else if (!strcmp(verb, "admit"))
		answer(tfc_port_hold_set_open(hold, number));
	else if (!strcmp(verb, "listener"))
		answer_listener(number);
	else if (!strcmp(verb, "intruders"))
		printf("ok %d\n", test_count_intruders(tfc_port_hold_number(hold)));
	else {
		tfc_port_hold_release(hold);
		hold = NULL;
		answer(0);
	}
	fflush(stdout);
}

int main(void)
{
	char line[128], verb[32];
	if (tfc_ctx_new(NULL, NULL, &ctx) || tfc_port_pool_open(ctx, NULL, &pool))
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		int number = 0;
		if (sscanf(line, "%31s %d", verb, &number) >= 1)
			obey(verb, number);
	}
	tfc_port_hold_release(hold);
	tfc_port_pool_close(pool);
	tfc_ctx_free(ctx);
	return 0;
}
