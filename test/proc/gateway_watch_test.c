/* gateway: tfc_gateway_watch reports the jobs of all nodes. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "gateway/sub.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"
#include "served.h"

/* ---- a host that keeps what it is told, by the rules of the header */

#define JOBS_MAX 256
#define NODES_MAX 4

struct known_job {
	char id[17];
	char node[64];
	uint64_t version;
	uint32_t state;
	uint32_t submitted; /* how often each event came */
	uint32_t ended;
	uint64_t submitted_ns;
	tfc_event end; /* its numbers */
	bool is_forgotten;
	bool is_marked; /* reported since the reset of its node */
};

struct known_node {
	char name[64];
	bool is_seen;
	bool is_in_replay;
	uint32_t resets;
	uint32_t unseen;
	uint32_t seen;
};

struct watcher {
	struct node_run *run;
	tfc_sub *sub;
	struct known_job jobs[JOBS_MAX];
	uint32_t job_count;
	struct known_node nodes[NODES_MAX];
	uint32_t lives;
	uint32_t events;
	uint32_t act_at; /* at this event `act` is called; 0: never */
	void (*act)(struct watcher *watcher);
	void *act_on;
	int32_t lost; /* code of LOST */
	char cursor[1024];
};

static struct known_job *find_job(struct watcher *watcher, const char *id)
{
	for (uint32_t i = 0; i < watcher->job_count; i++)
		if (strcmp(watcher->jobs[i].id, id) == 0)
			return &watcher->jobs[i];
	return NULL;
}

static struct known_node *find_node(struct watcher *watcher, const char *name)
{
	for (uint32_t i = 0; i < NODES_MAX; i++) {
		struct known_node *node = &watcher->nodes[i];
		if (!node->name[0])
			snprintf(node->name, sizeof(node->name), "%s", name);
		if (strcmp(node->name, name) == 0)
			return node;
	}
	fail_msg("too many nodes");
	return NULL;
}

static void note_job(struct watcher *watcher, const tfc_event *event)
{
	struct known_job *job = find_job(watcher, event->job);
	assert_int_equal(strlen(event->job), 16);
	if (!job) {
		assert_int_equal(event->kind, TFC_EVENT_SUBMITTED);
		assert_true(watcher->job_count < JOBS_MAX);
		job = &watcher->jobs[watcher->job_count++];
		snprintf(job->id, sizeof(job->id), "%s", event->job);
	}
	assert_string_equal(event->name, "watched");
	assert_true(event->version >= job->version);
	assert_true(!job->ended || event->version == job->version);
	job->version = event->version;
	job->state = event->job_state;
	job->submitted += event->kind == TFC_EVENT_SUBMITTED;
	job->ended += event->kind == TFC_EVENT_ENDED;
	job->is_marked = true;
	if (event->kind == TFC_EVENT_SUBMITTED) {
		assert_true(!job->submitted_ns || event->time_ns == job->submitted_ns);
		job->submitted_ns = event->time_ns;
	}
	if (event->kind == TFC_EVENT_ENDED) {
		assert_true(event->job_state >= TFC_JOB_SUCCEEDED);
		assert_true(!job->end.time_ns || event->time_ns == job->end.time_ns);
		assert_true(event->time_ns > job->submitted_ns);
		job->end = *event;
	} else {
		assert_true(!event->reason && !event->exit_code && !event->signal);
	}
	snprintf(job->node, sizeof(job->node), "%s", event->node);
}

static void mark_all(struct watcher *watcher, const char *node, bool is_over)
{
	for (uint32_t i = 0; i < watcher->job_count; i++) {
		struct known_job *job = &watcher->jobs[i];
		if (strcmp(job->node, node) != 0)
			continue;
		if (is_over)
			job->is_forgotten |= !job->is_marked;
		else
			job->is_marked = false;
	}
}

static void on_watched(void *user, const tfc_event *event)
{
	struct watcher *watcher = user;
	struct known_node *node = *event->node ? find_node(watcher, event->node) : NULL;
	struct known_job *job;
	char *json;
	assert_int_equal(watcher->lost, 0);
	assert_int_equal(tfc_event_json(event, &json), 0);
	print_message("%s\n", json);
	tfc_free(json);
	watcher->events++;
	snprintf(watcher->cursor, sizeof(watcher->cursor), "%s", event->cursor);
	switch (event->kind) {
	case TFC_EVENT_SUBMITTED:
	case TFC_EVENT_CHANGED:
	case TFC_EVENT_ENDED:
		note_job(watcher, event);
		break;
	case TFC_EVENT_FORGOTTEN:
		job = find_job(watcher, event->job);
		if (job)
			job->is_forgotten = true;
		break;
	case TFC_EVENT_NODE_RESET:
		node->resets++;
		node->is_in_replay = true;
		mark_all(watcher, event->node, false);
		break;
	case TFC_EVENT_NODE_SEEN:
		if (node->is_in_replay)
			mark_all(watcher, event->node, true);
		node->is_in_replay = false;
		node->is_seen = true;
		node->seen++;
		break;
	case TFC_EVENT_NODE_UNSEEN:
		assert_true(*event->text);
		node->is_seen = false;
		node->unseen++;
		break;
	case TFC_EVENT_LIVE:
		watcher->lives++;
		break;
	case TFC_EVENT_LOST:
		watcher->lost = event->error_code;
		break;
	default:
		fail_msg("event of kind %u", event->kind);
	}
	if (watcher->events == watcher->act_at)
		watcher->act(watcher);
}

static void watch(struct node_run *run, const char *cursor, struct watcher *watcher)
{
	tfc_watch_options options = TFC_WATCH_OPTIONS_INIT;
	options.wants_live = 1;
	options.cursor = cursor;
	watcher->run = run;
	watcher->lives = 0;
	uint32_t events = watcher->events;
	if (tfc_gateway_watch(run->gateway, &options, on_watched, watcher, &watcher->sub) < 0)
		fail_msg("%s", tfc_ctx_error(run->ctx)->text);
	assert_int_equal(watcher->events, events);
}

static bool is_live(void *user)
{
	return ((struct watcher *)user)->lives == 1;
}

static void await_live(struct watcher *watcher)
{
	node_await(watcher->run, is_live, watcher, "LIVE");
}

struct awaited {
	struct watcher *watcher;
	const char *what;
};

static bool has_ended(void *user)
{
	const struct awaited *awaited = user;
	const struct known_job *job = find_job(awaited->watcher, awaited->what);
	return job && job->ended;
}

static bool is_forgotten(void *user)
{
	const struct awaited *awaited = user;
	const struct known_job *job = find_job(awaited->watcher, awaited->what);
	return job && job->is_forgotten;
}

static bool is_seen(void *user)
{
	const struct awaited *awaited = user;
	return find_node(awaited->watcher, awaited->what)->is_seen;
}

static bool is_unseen(void *user)
{
	return !is_seen(user);
}

static bool is_not_in_cursor(void *user)
{
	const struct awaited *awaited = user;
	return !strstr(awaited->watcher->cursor, awaited->what);
}

static void await(struct watcher *watcher, node_condition is_met, const char *what)
{
	struct awaited awaited = {watcher, what};
	node_await(watcher->run, is_met, &awaited, what);
}

static void forget(struct node_run *run, const char *job)
{
	struct answer answer = {0};
	assert_int_equal(tfc_gateway_forget(run->gateway, job, NULL, node_answer, &answer, NULL),
			 0);
	node_await_answer(run, &answer);
	assert_int_equal(answer.code, 0);
	node_answer_clear(&answer);
}

static const char quick[] =
	"{'name':'watched','framework':'none','argv':['/bin/true'],'roles':{'worker':{}}}";
static const char lasting[] = "{'name':'watched','framework':'none','argv':['/bin/sleep','1000'],"
			      "'roles':{'worker':{}}}";

static char *submit(struct node_run *run, const char *job)
{
	char *json = node_json("%s", job);
	char *id = node_submit(run, json);
	free(json);
	return id;
}

/* ---- one node */

static void a_job_is_reported_from_its_submit_until_it_is_forgotten(void **state)
{
	struct node_run run;
	struct watcher watcher = {.lives = 0};
	node_run_begin(&run, NULL);
	watch(&run, NULL, &watcher);
	await_live(&watcher);
	assert_int_equal(watcher.job_count, 0);
	assert_int_equal(watcher.nodes[0].resets, 1);
	assert_int_equal(watcher.nodes[0].seen, 1);
	char *id = submit(&run, quick);
	await(&watcher, has_ended, id);
	const struct known_job *job = find_job(&watcher, id);
	assert_int_equal(job->submitted, 1);
	assert_int_equal(job->state, TFC_JOB_SUCCEEDED);
	forget(&run, id);
	await(&watcher, is_forgotten, id);
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
	char *first = submit(&run, quick), *second = submit(&run, lasting);
	watch(&run, NULL, &watcher);
	await_live(&watcher);
	assert_int_equal(watcher.job_count, 2);
	await(&watcher, has_ended, first);
	assert_int_equal(find_job(&watcher, first)->submitted, 1);
	assert_int_equal(find_job(&watcher, second)->submitted, 1);
	assert_int_equal(find_job(&watcher, second)->ended, 0);
	node_stop(&run, second, true);
	await(&watcher, has_ended, second);
	assert_int_equal(find_job(&watcher, second)->state, TFC_JOB_STOPPED);
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
	char *first = submit(&run, quick);
	watch(&run, NULL, &watcher);
	await(&watcher, has_ended, first);
	await_live(&watcher);
	tfc_sub_close(watcher.sub);
	char *second = submit(&run, quick);
	char cursor[sizeof(watcher.cursor)];
	memcpy(cursor, watcher.cursor, sizeof(cursor));
	watch(&run, cursor, &watcher);
	memset(cursor, 'x', sizeof(cursor)); /* it was copied */
	await(&watcher, has_ended, second);
	await_live(&watcher);
	assert_int_equal(watcher.nodes[0].resets, 1);
	assert_int_equal(find_job(&watcher, first)->submitted, 1);
	assert_int_equal(find_job(&watcher, first)->ended, 1);
	tfc_sub_close(watcher.sub);
	forget(&run, first);
	memcpy(cursor, watcher.cursor, sizeof(cursor));
	watch(&run, cursor, &watcher);
	await(&watcher, is_forgotten, first);
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
	watch(&run, "nonsense", &watcher);
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
	watch(&run, NULL, &watcher);
	await_live(&watcher);
	tfc_sub_pause(watcher.sub);
	uint32_t events = watcher.events;
	for (int i = 0; i < 40; i++)
		ids[i] = submit(&run, quick);
	for (int i = 0; i < 40; i++) {
		node_follow(&run, ids[i], NULL, &follower);
		node_await_end(&run, &follower);
		node_follow_end(&follower);
	}
	assert_int_equal(watcher.events, events);
	tfc_sub_resume(watcher.sub);
	for (int i = 0; i < 40; i++)
		await(&watcher, has_ended, ids[i]);
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
	char *exits = submit(&run, "{'name':'watched','framework':'none','argv':['/bin/sh','-c',"
				   "'exit 3'],'roles':{'worker':{}}}");
	char *missing = submit(&run, "{'name':'watched','framework':'none','argv':['/missing'],"
				     "'roles':{'worker':{}}}");
	char *stopped = submit(&run, lasting);
	watch(&run, NULL, &watcher);
	await(&watcher, has_ended, exits);
	await(&watcher, has_ended, missing);
	node_stop(&run, stopped, true);
	await(&watcher, has_ended, stopped);
	const tfc_event *end = &find_job(&watcher, exits)->end;
	assert_int_equal(end->reason, TFC_END_EXIT);
	assert_int_equal(end->exit_code, 3);
	assert_int_equal(end->signal, 0);
	assert_int_equal(end->error_code, 0);
	end = &find_job(&watcher, missing)->end;
	assert_int_equal(end->reason, TFC_END_NOT_FOUND);
	assert_int_equal(end->exit_code, 0);
	end = &find_job(&watcher, stopped)->end;
	assert_int_equal(end->error_code, 0);
	assert_int_equal(end->job_state, TFC_JOB_STOPPED);
	tfc_sub_close(watcher.sub);
	watch(&run, NULL, &watcher); /* the same once more */
	await_live(&watcher);
	assert_int_equal(find_job(&watcher, exits)->submitted, 2);
	assert_int_equal(find_job(&watcher, exits)->ended, 2);
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
	watch(&run, NULL, &watcher);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(tfc_ctx_post(run.ctx, cut, run.served), 0);
		ids[i] = submit(&run, quick);
		assert_int_equal(tfc_ctx_post(run.ctx, cut, run.served), 0);
		assert_true(tfc_ctx_run(run.ctx, 10) >= 0);
	}
	for (int i = 0; i < 20; i++) {
		await(&watcher, has_ended, ids[i]);
		if (watcher.nodes[0].resets == 1)
			assert_int_equal(find_job(&watcher, ids[i])->submitted, 1);
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
	char *first = submit(&run, quick), *second = submit(&run, quick);
	snprintf(hidden, sizeof(hidden), "%s", first);
	served_cut(run.served);
	served_claim(run.served, &reader);
	watch(&run, NULL, &watcher);
	await(&watcher, has_ended, second);
	await_live(&watcher);
	assert_null(find_job(&watcher, first));
	tfc_sub_close(watcher.sub);
	free(first);
	free(second);
	node_run_end(&run);
}

/* ---- two nodes: this process has node a, and sometimes node b; or b is a process of its own */

struct pair {
	struct node_run run;
	tfc_node *other;
	char dir[LEAKS_PATH];
	char members[LEAKS_PATH + 16];
	char state[LEAKS_PATH + 16];
	char at_a[LEAKS_PATH + 32];
	char at_b[LEAKS_PATH + 32];
};

static void set_options(struct pair *pair, tfc_node_options *options, const char *name,
			const char *const *listen)
{
	options->name = name;
	options->members_file = pair->members;
	options->listen = listen;
	options->lease_ms = 500;
	options->probe_ms = 100;
}

static int open_other(struct pair *pair, tfc_ctx *ctx, const char *temp_dir)
{
	const char *const listen[] = {pair->at_b, NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	set_options(pair, &options, "b", listen);
	options.temp_dir = temp_dir;
	options.state_dir = pair->state;
	return tfc_node_open(ctx, &options, &pair->other);
}

static void write_members(const struct pair *pair, bool has_b)
{
	char written[LEAKS_PATH + 32];
	snprintf(written, sizeof(written), "%s.new", pair->members);
	FILE *file = fopen(written, "we");
	assert_non_null(file);
	assert_true(fprintf(file, "{\"members\": [{\"name\": \"a\", \"address\": \"%s\"}",
			    pair->at_a) > 0);
	if (has_b)
		assert_true(fprintf(file, ", {\"name\": \"b\", \"address\": \"%s\"}", pair->at_b) >
			    0);
	assert_true(fprintf(file, "]}") > 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(rename(written, pair->members), 0);
}

static void make_pair(struct pair *pair)
{
	leaks_make_dir(pair->dir);
	snprintf(pair->members, sizeof(pair->members), "%s/members", pair->dir);
	snprintf(pair->state, sizeof(pair->state), "%s/state", pair->dir);
	snprintf(pair->at_a, sizeof(pair->at_a), "unix:%s/a", pair->dir);
	snprintf(pair->at_b, sizeof(pair->at_b), "unix:%s/b", pair->dir);
	write_members(pair, true);
}

static void open_a(struct pair *pair)
{
	const char *const listen[] = {pair->at_a, NULL};
	tfc_node_options options = TFC_NODE_OPTIONS_INIT;
	set_options(pair, &options, "a", listen);
	node_run_begin(&pair->run, &options);
	if (!node_run_is_remote())
		return;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	gateway.address = pair->at_a; /* the node's own service, which knows its members */
	tfc_gateway_close(pair->run.gateway);
	assert_int_equal(tfc_gateway_open(pair->run.ctx, &gateway, &pair->run.gateway), 0);
}

static void end_pair(struct pair *pair)
{
	tfc_node_close(pair->other);
	node_run_end(&pair->run);
	assert_int_equal(tfc__remove_tree(pair->dir), 0);
}

static char *submit_to_other(struct pair *pair, const char *job)
{
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	struct node_run other = pair->run;
	options.node = pair->other;
	assert_int_equal(tfc_gateway_open(other.ctx, &options, &other.gateway), 0);
	char *id = submit(&other, job);
	tfc_gateway_close(other.gateway);
	return id;
}

static void jobs_of_other_nodes_are_seen_whenever_they_can_be(void **state)
{
	struct pair pair = {.other = NULL};
	struct watcher watcher = {.lives = 0};
	make_pair(&pair);
	open_a(&pair);
	watch(&pair.run, NULL, &watcher);
	await_live(&watcher);
	assert_true(find_node(&watcher, "b")->unseen == 1 && !find_node(&watcher, "b")->seen);
	if (open_other(&pair, pair.run.ctx, pair.run.dir) < 0)
		fail_msg("%s", tfc_ctx_error(pair.run.ctx)->text);
	await(&watcher, is_seen, "b");
	char *id = submit_to_other(&pair, quick), *here = submit(&pair.run, quick);
	await(&watcher, has_ended, id);
	await(&watcher, has_ended, here);
	assert_string_equal(find_job(&watcher, id)->node, "b");
	assert_string_equal(find_job(&watcher, here)->node, "a");
	tfc_node_close(pair.other);
	pair.other = NULL;
	await(&watcher, is_unseen, "b");
	char cursor[sizeof(watcher.cursor)];
	memcpy(cursor, watcher.cursor, sizeof(cursor));
	if (open_other(&pair, pair.run.ctx, pair.run.dir) < 0)
		fail_msg("%s", tfc_ctx_error(pair.run.ctx)->text);
	await(&watcher, is_seen, "b");
	assert_int_equal(find_job(&watcher, id)->submitted, 2); /* replayed after the restart */
	assert_false(find_job(&watcher, id)->is_forgotten);
	assert_int_equal(find_job(&watcher, here)->submitted, 1);
	assert_int_equal(find_node(&watcher, "b")->resets, 2);
	assert_int_equal(find_node(&watcher, "a")->resets, 1);
	tfc_sub_close(watcher.sub);
	watch(&pair.run, cursor, &watcher); /* of before the restart of b */
	await_live(&watcher);
	assert_int_equal(find_node(&watcher, "b")->resets, 3);
	assert_int_equal(find_node(&watcher, "a")->resets, 1);
	assert_int_equal(watcher.job_count, 2);
	tfc_sub_close(watcher.sub);
	free(id);
	free(here);
	end_pair(&pair);
}

struct awaited_count {
	struct node_run *run;
	uint64_t count;
};

static void count_member(void *user, uint32_t change, const tfc_member_info *info)
{
	++*(uint64_t *)user;
}

static bool has_members(void *user)
{
	const struct awaited_count *awaited = user;
	uint64_t count = 0;
	assert_true(tfc_member_list(awaited->run->node, count_member, &count) >= 0);
	return count == awaited->count;
}

static void await_members(struct node_run *run, uint64_t count)
{
	struct awaited_count awaited = {run, count};
	node_await(run, has_members, &awaited, "members");
	for (int i = 0; i < 20; i++) /* their observers were told */
		assert_true(tfc_ctx_run(run->ctx, 1) >= 0);
}

/* Also while what is left of the first watch of it was not reported yet. */
static void a_member_removed_and_added_again_is_watched(void **state)
{
	struct pair pair = {.other = NULL};
	struct watcher watcher = {.lives = 0};
	make_pair(&pair);
	open_a(&pair);
	if (open_other(&pair, pair.run.ctx, pair.run.dir) < 0)
		fail_msg("%s", tfc_ctx_error(pair.run.ctx)->text);
	watch(&pair.run, NULL, &watcher);
	await(&watcher, is_seen, "b");
	write_members(&pair, false);
	await(&watcher, is_unseen, "b"); /* perhaps because its connection was closed first */
	await(&watcher, is_not_in_cursor, ",b:");
	write_members(&pair, true);
	await(&watcher, is_seen, "b");
	assert_true(find_node(&watcher, "b")->resets >= 2);
	/* Later than the timer for silent nodes, which adds members, too. */
	for (uint64_t until = tfc__now() + 3200 * TFC__MS; tfc__now() < until;)
		assert_true(tfc_ctx_run(pair.run.ctx, 100) >= 0);
	tfc_sub_pause(watcher.sub);
	write_members(&pair, false);
	await_members(&pair.run, 1);
	write_members(&pair, true);
	await_members(&pair.run, 2);
	tfc_sub_resume(watcher.sub);
	char *id = submit_to_other(&pair, quick);
	await(&watcher, has_ended, id);
	await(&watcher, is_seen, "b");
	tfc_sub_close(watcher.sub);
	char cursor[sizeof(watcher.cursor)];
	memcpy(cursor, watcher.cursor, sizeof(cursor));
	assert_non_null(strstr(cursor, ",b:"));
	write_members(&pair, false);
	await_members(&pair.run, 1);
	uint32_t unseen = find_node(&watcher, "b")->unseen;
	watch(&pair.run, cursor, &watcher); /* b is in the cursor only */
	await_live(&watcher);
	assert_int_equal(find_node(&watcher, "b")->unseen, unseen + 1);
	assert_null(strstr(watcher.cursor, ",b:"));
	write_members(&pair, true);
	await(&watcher, is_seen, "b");
	tfc_sub_close(watcher.sub);
	free(id);
	end_pair(&pair);
}

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

/* From the beginning, within the limit of a client. */
static void a_watch_counts_what_it_holds_of_each_member(void **state)
{
	struct pair pair = {.other = NULL};
	struct watcher watcher = {.lives = 0};
	make_pair(&pair);
	FILE *file = fopen(pair.members, "we");
	assert_non_null(file);
	assert_true(fprintf(file, "{\"members\": [{\"name\": \"a\", \"address\": \"%s\"}",
			    pair.at_a) > 0);
	for (int i = 0; i < 300; i++)
		assert_true(fprintf(file, ", {\"name\": \"b%d\", \"address\": \"unix:%s/%d\"}", i,
				    pair.dir, i) > 0);
	assert_true(fprintf(file, "]}") > 0);
	assert_int_equal(fclose(file), 0);
	open_a(&pair);
	watch(&pair.run, NULL, &watcher);
	if (!node_run_is_remote())
		assert_true(watcher.sub->held > 300 * 1024 && watcher.sub->held < 16 << 20);
	tfc_sub_close(watcher.sub);
	end_pair(&pair);
}

/* ---- what a callback may close */

static void close_watch(struct watcher *watcher)
{
	tfc_sub_close(watcher->sub);
	watcher->sub = NULL;
}

static void close_gateway(struct watcher *watcher)
{
	tfc_gateway_close(watcher->run->gateway);
	watcher->run->gateway = NULL;
}

static void close_node(struct watcher *watcher)
{
	tfc_node_close(watcher->run->node);
	watcher->run->node = NULL;
}

static void close_other(struct watcher *watcher)
{
	struct pair *pair = watcher->act_on;
	tfc_node_close(pair->other);
	pair->other = NULL;
}

static void close_everything(struct watcher *watcher)
{
	close_other(watcher);
	close_gateway(watcher);
	close_watch(watcher);
	close_node(watcher);
}

static bool has_acted(void *user)
{
	const struct watcher *watcher = user;
	return watcher->events >= watcher->act_at;
}

/* RESET, SUBMITTED and SEEN of two nodes, and LIVE. */
static void closing_at_any_event_is_legal(void **state)
{
	static void (*const acts[])(struct watcher *) = {close_watch, close_gateway, close_node,
							 close_other, close_everything};
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		struct pair pair = {.other = NULL};
		for (uint32_t at = 1; at <= 7; at++) {
			struct watcher watcher = {.act_at = at, .act = acts[i], .act_on = &pair};
			make_pair(&pair);
			open_a(&pair);
			if (open_other(&pair, pair.run.ctx, pair.run.dir) < 0)
				fail_msg("%s", tfc_ctx_error(pair.run.ctx)->text);
			char *here = submit(&pair.run, lasting);
			char *there = submit_to_other(&pair, lasting);
			watch(&pair.run, NULL, &watcher);
			node_await(&pair.run, has_acted, &watcher, "the event");
			for (int turns = 0; turns < 20; turns++)
				assert_true(tfc_ctx_run(pair.run.ctx, 1) >= 0);
			if (acts[i] != close_other &&
			    (acts[i] != close_node || !node_run_is_remote()))
				assert_int_equal(watcher.events, at);
			tfc_sub_close(watcher.sub);
			free(here);
			free(there);
			end_pair(&pair);
		}
	}
}

static void be_node_b(struct pair *pair)
{
	tfc_ctx *ctx;
	tfc_gateway *gateway;
	tfc_gateway_options options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_job *job;
	struct answer answer = {0};
	char *json = node_json("%s", lasting);
	if (proc_ctx_new(&ctx) < 0 || open_other(pair, ctx, pair->dir) < 0)
		_exit(2);
	options.node = pair->other;
	if (tfc_gateway_open(ctx, &options, &gateway) < 0 ||
	    tfc_job_parse(json, strlen(json), NULL, NULL, &job) < 0 ||
	    tfc_gateway_submit(gateway, job, NULL, node_answer, &answer, NULL) < 0)
		_exit(3);
	while (tfc_ctx_run(ctx, -1) >= 0)
		;
	_exit(4);
}

static pid_t start_b(struct pair *pair)
{
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_node_b(pair);
	}
	return child;
}

static bool are_running(void *user)
{
	const struct awaited *awaited = user;
	uint32_t running = 0;
	for (uint32_t i = 0; i < awaited->watcher->job_count; i++)
		running += awaited->watcher->jobs[i].state == TFC_JOB_RUNNING;
	return running == (uint32_t)atoi(awaited->what);
}

static void a_killed_node_is_unseen_until_it_is_back_with_its_jobs(void **state)
{
	struct pair pair = {.other = NULL};
	struct watcher watcher = {.lives = 0};
	int status;
	make_pair(&pair);
	pid_t child = start_b(&pair);
	open_a(&pair);
	pair.run.fds = -1;
	watch(&pair.run, NULL, &watcher);
	await(&watcher, are_running, "1");
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	await(&watcher, is_unseen, "b");
	assert_int_equal(watcher.job_count, 1);
	assert_false(watcher.jobs[0].is_forgotten);
	child = start_b(&pair);
	await(&watcher, are_running, "2");
	await(&watcher, is_seen, "b");
	assert_int_equal(watcher.job_count, 2); /* one more; the first is the same job */
	assert_false(watcher.jobs[0].is_forgotten);
	assert_int_equal(watcher.jobs[0].submitted, 2);
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	await(&watcher, is_unseen, "b");
	tfc_sub_close(watcher.sub);
	node_run_close(&pair.run);
	tfc_ctx_free(pair.run.ctx);
	assert_int_equal(tfc__remove_tree(pair.run.dir), 0);
	free(pair.run.dir);
	assert_int_equal(tfc__remove_tree(pair.dir), 0);
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
		cmocka_unit_test(jobs_of_other_nodes_are_seen_whenever_they_can_be),
		cmocka_unit_test(a_member_removed_and_added_again_is_watched),
		cmocka_unit_test(nodes_that_a_client_invents_are_unseen),
		cmocka_unit_test(a_watch_counts_what_it_holds_of_each_member),
		cmocka_unit_test(closing_at_any_event_is_legal),
		cmocka_unit_test(a_killed_node_is_unseen_until_it_is_back_with_its_jobs),
	};
	return cmocka_run_group_tests_name("gateway_watch", tests, NULL, NULL);
}
