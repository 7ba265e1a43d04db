/* gateway: tfc_gateway_watch reports the jobs of a node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/sub.h"
#include "served.h"
#include "watcher.h"

static void a_job_is_reported_from_its_submit_until_it_is_forgotten(void **state)
{
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	node_run_begin(&run, NULL);
	watcher_open(&watcher, &run, NULL);
	watcher_await_live(&watcher);
	assert_int_equal(watcher.job_count, 0);
	assert_int_equal(watcher.nodes[0].resets, 1);
	assert_int_equal(watcher.nodes[0].seen, 1);
	char *id = watched_submit(&run, WATCHED_QUICK);
	watcher_await(&watcher, watcher_has_ended, id);
	const struct watched_job *job = watcher_job(&watcher, id);
	assert_int_equal(job->submitted, 1);
	assert_int_equal(job->state, TFC_JOB_SUCCEEDED);
	assert_int_equal(node_forget(&run, id), TFC_OK);
	watcher_await(&watcher, watcher_has_forgotten, id);
	assert_int_equal(job->submitted, 1);
	assert_int_equal(job->ended, 1);
	assert_int_equal(watcher.nodes[0].resets, 1);
	assert_int_equal(watcher.lives, 1);
	tfc_sub_close(watcher.sub);
	free(id);
	node_run_end(&run);
}

static void a_watch_begins_with_the_jobs_that_are_there(void **state)
{
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	node_run_begin(&run, NULL);
	char *first = watched_submit(&run, WATCHED_QUICK),
	     *second = watched_submit(&run, WATCHED_LASTING);
	watcher_open(&watcher, &run, NULL);
	watcher_await_live(&watcher);
	assert_int_equal(watcher.job_count, 2);
	watcher_await(&watcher, watcher_has_ended, first);
	assert_int_equal(watcher_job(&watcher, first)->submitted, 1);
	assert_int_equal(watcher_job(&watcher, second)->submitted, 1);
	assert_int_equal(watcher_job(&watcher, second)->ended, 0);
	node_stop(&run, second, true);
	watcher_await(&watcher, watcher_has_ended, second);
	assert_int_equal(watcher_job(&watcher, second)->state, TFC_JOB_STOPPED);
	tfc_sub_close(watcher.sub);
	free(first);
	free(second);
	node_run_end(&run);
}

static void a_cursor_continues_where_it_was(void **state)
{
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	node_run_begin(&run, NULL);
	char *first = watched_submit(&run, WATCHED_QUICK);
	watcher_open(&watcher, &run, NULL);
	watcher_await(&watcher, watcher_has_ended, first);
	watcher_await_live(&watcher);
	tfc_sub_close(watcher.sub);
	char *second = watched_submit(&run, WATCHED_QUICK);
	char cursor[sizeof(watcher.cursor)];
	memcpy(cursor, watcher.cursor, sizeof(cursor));
	watcher_open(&watcher, &run, cursor);
	memset(cursor, 'x', sizeof(cursor)); /* it was copied */
	watcher_await(&watcher, watcher_has_ended, second);
	watcher_await_live(&watcher);
	assert_int_equal(watcher.nodes[0].resets, 1);
	assert_int_equal(watcher_job(&watcher, first)->submitted, 1);
	assert_int_equal(watcher_job(&watcher, first)->ended, 1);
	tfc_sub_close(watcher.sub);
	assert_int_equal(node_forget(&run, first), TFC_OK);
	memcpy(cursor, watcher.cursor, sizeof(cursor));
	watcher_open(&watcher, &run, cursor);
	watcher_await(&watcher, watcher_has_forgotten, first);
	tfc_sub_close(watcher.sub);
	free(first);
	free(second);
	node_run_end(&run);
}

static void a_bad_cursor_is_reported_by_lost(void **state)
{
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	node_run_begin(&run, NULL);
	watcher_open(&watcher, &run, "nonsense");
	while (!watcher.lost)
		assert_true(tfc_ctx_run(run.ctx, 1000) >= 0);
	assert_int_equal(watcher.lost, TFC_EINVAL);
	assert_int_equal(watcher.events, 1);
	tfc_sub_close(watcher.sub);
	node_run_end(&run);
}

/* A paused watch gets each job once, at its latest state. */
static void a_paused_watch_gets_the_latest_state_of_each_job(void **state)
{
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	char *ids[40];
	struct follower follower = {0};
	node_run_begin(&run, NULL);
	watcher_open(&watcher, &run, NULL);
	watcher_await_live(&watcher);
	tfc_sub_pause(watcher.sub);
	uint32_t events = watcher.events;
	for (int i = 0; i < 40; i++)
		ids[i] = watched_submit(&run, WATCHED_QUICK);
	for (int i = 0; i < 40; i++) {
		node_follow(&run, ids[i], NULL, &follower);
		node_await_end(&run, &follower);
		node_follow_end(&follower);
	}
	assert_int_equal(watcher.events, events);
	tfc_sub_resume(watcher.sub);
	for (int i = 0; i < 40; i++)
		watcher_await(&watcher, watcher_has_ended, ids[i]);
	if (!node_run_is_remote()) /* SUBMITTED and ENDED; else some were on the way */
		assert_int_equal(watcher.events, events + 80);
	for (int i = 0; i < 40; i++)
		free(ids[i]);
	tfc_sub_close(watcher.sub);
	node_run_end(&run);
}

static void how_a_job_has_ended_is_reported(void **state)
{
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	node_run_begin(&run, NULL);
	char *exits = watched_submit(&run,
				     "{'name':'watched','framework':'none','argv':['/bin/sh','-c',"
				     "'exit 3'],'roles':{'worker':{}}}");
	char *missing = watched_submit(&run,
				       "{'name':'watched','framework':'none','argv':['/missing'],"
				       "'roles':{'worker':{}}}");
	char *stopped = watched_submit(&run, WATCHED_LASTING);
	watcher_open(&watcher, &run, NULL);
	watcher_await(&watcher, watcher_has_ended, exits);
	watcher_await(&watcher, watcher_has_ended, missing);
	node_stop(&run, stopped, true);
	watcher_await(&watcher, watcher_has_ended, stopped);
	const tfc_event *end = &watcher_job(&watcher, exits)->end;
	assert_int_equal(end->reason, TFC_END_EXIT);
	assert_int_equal(end->exit_code, 3);
	assert_int_equal(end->signal, 0);
	assert_int_equal(end->error_code, 0);
	end = &watcher_job(&watcher, missing)->end;
	assert_int_equal(end->reason, TFC_END_NOT_FOUND);
	assert_int_equal(end->exit_code, 0);
	end = &watcher_job(&watcher, stopped)->end;
	assert_int_equal(end->error_code, 0);
	assert_int_equal(end->job_state, TFC_JOB_STOPPED);
	tfc_sub_close(watcher.sub);
	watcher_open(&watcher, &run, NULL); /* the same once more */
	watcher_await_live(&watcher);
	assert_int_equal(watcher_job(&watcher, exits)->submitted, 2);
	assert_int_equal(watcher_job(&watcher, exits)->ended, 2);
	tfc_sub_close(watcher.sub);
	free(exits);
	free(missing);
	free(stopped);
	node_run_end(&run);
}

/* ---- connections that break, and what a host hides */

static void cut(void *user)
{
	served_cut(user);
}

static void a_lost_connection_loses_no_change(void **state)
{
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	char *ids[20];
	node_run_begin_served(&run, NULL);
	watcher_open(&watcher, &run, NULL);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(tfc_ctx_post(run.ctx, cut, run.served), 0);
		ids[i] = watched_submit(&run, WATCHED_QUICK);
		assert_int_equal(tfc_ctx_post(run.ctx, cut, run.served), 0);
		assert_true(tfc_ctx_run(run.ctx, 10) >= 0);
	}
	for (int i = 0; i < 20; i++) {
		watcher_await(&watcher, watcher_has_ended, ids[i]);
		if (watcher.nodes[0].resets == 1)
			assert_int_equal(watcher_job(&watcher, ids[i])->submitted, 1);
		free(ids[i]);
	}
	assert_int_equal(watcher.job_count, 20);
	tfc_sub_close(watcher.sub);
	node_run_end(&run);
}

static char hidden[17];

static int hide(void *user, const tfc_peer_info *peer, enum tfc_verb verb, const char *job)
{
	return verb == TFC_VERB_WATCH && *job && strcmp(job, hidden) == 0 ? -1 : 0;
}

static void a_host_hides_jobs_and_a_reader_may_watch(void **state)
{
	const struct tfc__gateway_service_options options = {.submit_uid = UINT32_MAX,
							     .hooks.authorize = hide};
	const struct tfc__peer_id reader = {.role = TFC__KEY_READ, .uid = UINT32_MAX};
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	node_run_begin_served(&run, &options);
	char *first = watched_submit(&run, WATCHED_QUICK),
	     *second = watched_submit(&run, WATCHED_QUICK);
	snprintf(hidden, sizeof(hidden), "%s", first);
	served_cut(run.served);
	served_claim(run.served, &reader);
	watcher_open(&watcher, &run, NULL);
	watcher_await(&watcher, watcher_has_ended, second);
	watcher_await_live(&watcher);
	assert_null(watcher_job(&watcher, first));
	tfc_sub_close(watcher.sub);
	free(first);
	free(second);
	node_run_end(&run);
}

/* ---- a client that invents nodes */

struct count {
	uint32_t unseen;
	uint32_t lives;
	size_t cursor_len;
};

static void count_unseen(void *user, const tfc_event *event)
{
	struct count *count = user;
	assert_int_not_equal(event->kind, TFC_EVENT_LOST);
	count->unseen += event->kind == TFC_EVENT_NODE_UNSEEN;
	count->lives += event->kind == TFC_EVENT_LIVE;
	count->cursor_len = strlen(event->cursor);
}

static bool is_count_live(void *user)
{
	return ((struct count *)user)->lives;
}

static void nodes_that_a_client_invents_are_unseen(void **state)
{
	struct node_run run;
	struct count count = {0};
	tfc_watch_options options = TFC_WATCH_OPTIONS_INIT;
	node_run_begin(&run, NULL);
	char *cursor = malloc(4000 * 64), *end = cursor;
	assert_non_null(cursor);
	for (unsigned i = 0; i < 4000; i++)
		end += sprintf(end, "%sn%u:%016x:%016x:%016x", i ? "," : "", i, i, i, i);
	options.cursor = cursor;
	options.wants_live = 1;
	tfc_sub *sub;
	assert_int_equal(tfc_gateway_watch(run.gateway, &options, count_unseen, &count, &sub), 0);
	if (!node_run_is_remote()) /* and no memory of a source for each */
		assert_true(sub->held > 4000 * 64 && sub->held < 4000 * 300);
	node_await(&run, is_count_live, &count, "LIVE");
	assert_int_equal(count.unseen, 4000);
	assert_true(count.cursor_len < 128);
	tfc_sub_close(sub);
	free(cursor);
	node_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_is_reported_from_its_submit_until_it_is_forgotten),
		cmocka_unit_test(a_watch_begins_with_the_jobs_that_are_there),
		cmocka_unit_test(a_cursor_continues_where_it_was),
		cmocka_unit_test(a_bad_cursor_is_reported_by_lost),
		cmocka_unit_test(a_paused_watch_gets_the_latest_state_of_each_job),
		cmocka_unit_test(how_a_job_has_ended_is_reported),
		cmocka_unit_test(a_lost_connection_loses_no_change),
		cmocka_unit_test(a_host_hides_jobs_and_a_reader_may_watch),
		cmocka_unit_test(nodes_that_a_client_invents_are_unseen),
	};
	return cmocka_run_group_tests_name("gateway_watch", tests, NULL, NULL);
}
