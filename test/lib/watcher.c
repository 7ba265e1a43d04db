#include "watcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watched_job *watcher_job(struct watcher *watcher, const char *id)
{
	for (uint32_t i = 0; i < watcher->job_count; i++)
		if (strcmp(watcher->jobs[i].id, id) == 0)
			return &watcher->jobs[i];
	return NULL;
}

struct watched_node *watcher_node(struct watcher *watcher, const char *name)
{
	for (uint32_t i = 0; i < WATCHED_NODES_MAX; i++) {
		struct watched_node *node = &watcher->nodes[i];
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
	struct watched_job *job = watcher_job(watcher, event->job);
	assert_int_equal(strlen(event->job), 16);
	if (!job) {
		assert_int_equal(event->kind, TFC_EVENT_SUBMITTED);
		assert_true(watcher->job_count < WATCHED_JOBS_MAX);
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
		struct watched_job *job = &watcher->jobs[i];
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
	struct watched_node *node = *event->node ? watcher_node(watcher, event->node) : NULL;
	struct watched_job *job;
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
		job = watcher_job(watcher, event->job);
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

void watcher_open(struct watcher *watcher, struct node_run *run, const char *cursor)
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

void watcher_await_live(struct watcher *watcher)
{
	node_await(watcher->run, is_live, watcher, "LIVE");
}

struct awaited {
	struct watcher *watcher;
	watcher_condition is_met;
	const char *what;
};

static bool is_met(void *user)
{
	const struct awaited *awaited = user;
	return awaited->is_met(awaited->watcher, awaited->what);
}

void watcher_await(struct watcher *watcher, watcher_condition condition, const char *what)
{
	struct awaited awaited = {watcher, condition, what};
	node_await(watcher->run, is_met, &awaited, what);
}

bool watcher_has_ended(struct watcher *watcher, const char *id)
{
	const struct watched_job *job = watcher_job(watcher, id);
	return job && job->ended;
}

bool watcher_has_forgotten(struct watcher *watcher, const char *id)
{
	const struct watched_job *job = watcher_job(watcher, id);
	return job && job->is_forgotten;
}

bool watcher_sees(struct watcher *watcher, const char *node)
{
	return watcher_node(watcher, node)->is_seen;
}

bool watcher_does_not_see(struct watcher *watcher, const char *node)
{
	return !watcher_sees(watcher, node);
}

char *watched_submit(struct node_run *run, const char *job)
{
	char *json = node_json("%s", job);
	char *id = node_submit(run, json);
	free(json);
	return id;
}
