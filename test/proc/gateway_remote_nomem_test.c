/* gateway: a client of a node's service, in one process with it, while one allocation after the
 * other fails at either end: every request is answered once, every subscription ends once and tells
 * nothing twice, and nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include "leaks.h"
#include "node_run.h"
#include "served.h"

#define LINES 20

static struct node_run run;
static struct served *served;
static char address[256];
static char *job;

struct seen {
	int replies;
	int ends; /* END or LOST */
	bool is_lost;
	int next; /* line */
};

static void on_reply(void *user, const tfc_reply *reply)
{
	((struct seen *)user)->replies++;
}

static void on_event(void *user, const tfc_event *event)
{
	struct seen *seen = user;
	char line[32];
	if (event->kind == TFC_EVENT_END || event->kind == TFC_EVENT_LOST)
		seen->ends++;
	seen->is_lost = event->kind == TFC_EVENT_LOST;
	if (event->kind != TFC_EVENT_OUTPUT)
		return;
	snprintf(line, sizeof(line), "%d", seen->next++);
	if (event->data_len != strlen(line) || memcmp(event->data, line, event->data_len) != 0)
		abort();
}

static bool is_over(const struct seen *seen, bool has_request, bool has_sub)
{
	return seen->replies == has_request && seen->ends == has_sub;
}

/* Whether an allocation failed. */
static bool try_with(long number)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_gateway *gateway = NULL;
	tfc_sub *sub = NULL;
	struct seen seen = {0};
	options.address = address;
	options.reconnect_ms = 3000;
	failing_begin(number, false);
	int opened = tfc_gateway_open(run.ctx, &options, &gateway);
	bool has_request = opened == 0 &&
			   tfc_gateway_jobs(gateway, NULL, on_reply, &seen, NULL) == 0;
	bool has_sub = opened == 0 &&
		       tfc_gateway_subscribe(gateway, job, NULL, on_event, &seen, &sub) == 0;
	for (int turn = 0; !is_over(&seen, has_request, has_sub); turn++) {
		assert_true(turn < 100000);
		assert_true(tfc_ctx_run(run.ctx, 1000) >= 0);
	}
	bool has_struck = failing_has_struck();
	failing_end();
	tfc_sub_close(sub);
	tfc_gateway_close(gateway);
	while (tfc_ctx_run(run.ctx, 0) > 0)
		;
	assert_true(is_over(&seen, has_request, has_sub));
	assert_true(!has_sub || seen.is_lost || seen.next == LINES);
	assert_true(has_struck || (has_sub && !seen.is_lost));
	return has_struck;
}

static void set_up(void)
{
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	char *json = node_json("{'framework':'none','argv':['/bin/sh','-c','i=0; while [ $i -lt %d "
			       "]; do echo $i; i=$((i+1)); done'],'roles':{'worker':{}}}",
			       LINES);
	node_run_job(&run, json, &follower);
	job = strdup(follower.job);
	snprintf(address, sizeof(address), "unix:%s/s", run.dir);
	served = served_begin(run.ctx, run.node, address, NULL, NULL);
	node_follow_end(&follower);
	free(json);
}

static void all_is_reported_once_or_it_is_said_why_not(void **state)
{
	long number = 0;
	set_up();
	while (try_with(number))
		number++;
	print_message("%ld allocations\n", number);
	assert_true(number > 20);
	free(job);
	served_end(served);
	node_run_end(&run);
}

/* ---- a bundle on its way */

struct brought {
	int replies;
	int code;
};

static void on_brought(void *user, const tfc_reply *reply)
{
	struct brought *brought = user;
	brought->replies++;
	brought->code = reply->code;
}

/* Another one each time, so that it is sent. Whether an allocation failed. */
static bool bring_with(long number)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_gateway *gateway = NULL;
	struct brought brought = {0};
	char path[256];
	tfc_job *definition;
	snprintf(path, sizeof(path), "%s/main.sh", run.dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "# %ld\n", number);
	fclose(file);
	char *json = node_json("{'framework':'none','bundle':'%s','argv':['/bin/sh','main.sh'],"
			       "'roles':{'worker':{}}}",
			       path);
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &definition), 0);
	options.address = address;
	options.temp_dir = run.dir;
	failing_begin(number, false);
	int opened = tfc_gateway_open(run.ctx, &options, &gateway);
	bool is_asked = opened == 0 && tfc_gateway_submit(gateway, definition, NULL, on_brought,
							  &brought, NULL) == 0;
	for (int turn = 0; brought.replies < is_asked; turn++) {
		assert_true(turn < 100000);
		assert_true(tfc_ctx_run(run.ctx, 1000) >= 0);
	}
	bool has_struck = failing_has_struck();
	failing_end();
	tfc_gateway_close(gateway);
	assert_int_equal(brought.replies, is_asked);
	if (!has_struck && brought.code < 0)
		fail_msg("%s", tfc_err_text(brought.code));
	tfc_job_free(definition);
	free(json);
	return has_struck;
}

/* Each takes two processes: every third, and another third in each run. */
static void a_bundle_comes_or_it_is_said_why_not(void **state)
{
	long number = getpid() % 3;
	set_up();
	while (bring_with(number))
		number += 3;
	print_message("%ld allocations\n", number);
	assert_true(number > 50);
	free(job);
	served_end(served);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_reported_once_or_it_is_said_why_not),
		cmocka_unit_test(a_bundle_comes_or_it_is_said_why_not),
	};
	return cmocka_run_group_tests_name("gateway_remote_nomem", tests, NULL, NULL);
}
