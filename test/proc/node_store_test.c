/* node: jobs are there again after their node has come back, and until they are forgotten. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "cluster/journal_msg.h"
#include "leaks.h"
#include "node_run.h"
#include "store/store.h"
#include <tfcluster/log.h>

struct place {
	char dir[LEAKS_PATH];
	char state[LEAKS_PATH + 8];
	tfc_node_options options;
};

static void begin(struct place *place)
{
	*place = (struct place){.options = TFC_NODE_OPTIONS_INIT};
	leaks_make_dir(place->dir);
	snprintf(place->state, sizeof(place->state), "%s/state", place->dir);
	place->options.state_dir = place->state;
}

static void end(struct place *place)
{
	assert_int_equal(tfc__remove_tree(place->dir), 0);
}

static char *job_of(const char *line)
{
	return node_json("{'name': 'kept', 'env': {'A': 'b'}, 'secret_env': {'TOKEN': "
			 "'open sesame'}, 'roles': {'driver': {'argv': ['/bin/sh', '-c', '%s'], "
			 "'restart': {'on': 'retryable', 'backoff_s': [0, 0]}}}}",
			 line);
}

static char *run_to_end(struct node_run *run, const char *line)
{
	struct follower follower = {0};
	char *json = job_of(line);
	char *id = node_submit(run, json);
	node_follow(run, id, NULL, &follower);
	node_await_end(run, &follower);
	node_follow_end(&follower);
	free(json);
	return id;
}

/* ---- ended jobs */

/* Every field of an event that is reported again; lines among them have the state that was last
 * reported of the job. */
static void assert_same_event(const struct seen_event *one, const struct seen_event *other)
{
	const tfc_event *event = &one->event, *again = &other->event;
	assert_int_equal(again->kind, event->kind);
	assert_int_equal(again->time_ns, event->time_ns);
	assert_int_equal(again->host_tag_len, event->host_tag_len);
	if (event->kind != TFC_EVENT_OUTPUT)
		assert_int_equal(again->job_state, event->job_state);
	assert_int_equal(again->generation, event->generation);
	assert_int_equal(again->epoch, event->epoch);
	assert_int_equal(again->attempt, event->attempt);
	assert_int_equal(again->task_state, event->task_state);
	assert_int_equal(again->pid, event->pid);
	assert_int_equal(again->reason, event->reason);
	assert_int_equal(again->exit_code, event->exit_code);
	assert_int_equal(again->signal, event->signal);
	assert_int_equal(again->error_code, event->error_code);
	assert_int_equal(again->stream, event->stream);
	assert_int_equal(again->is_partial, event->is_partial);
	assert_int_equal(again->data_len, event->data_len);
	assert_int_equal(again->user_us, event->user_us);
	assert_int_equal(again->system_us, event->system_us);
	assert_int_equal(again->max_rss_kib, event->max_rss_kib);
	assert_int_equal(again->exit_reason, event->exit_reason);
	assert_int_equal(again->isolation, event->isolation);
	assert_string_equal(other->text, one->text);
	assert_string_equal(other->task, one->task);
	assert_string_equal(other->tail, one->tail);
	assert_string_equal(other->node, one->node);
	assert_string_equal(other->name, one->name);
	assert_string_equal(other->address, one->address);
	assert_string_equal(other->host_tag, one->host_tag);
	if (event->kind == TFC_EVENT_OUTPUT)
		assert_memory_equal(other->data, one->data, event->data_len);
}

/* The next event from *place on that is of the journal, or output of a stream; NULL: none. */
static const struct seen_event *next_event(const struct follower *follower, size_t *place,
					   uint32_t stream)
{
	while (*place < follower->count) {
		const struct seen_event *seen = &follower->events[(*place)++];
		bool is_output = seen->event.kind == TFC_EVENT_OUTPUT;
		if (stream ? is_output && seen->event.stream == stream : !is_output)
			return seen;
	}
	return NULL;
}

static void assert_lines_have_the_state_reported_last(const struct follower *follower)
{
	uint32_t last = TFC_JOB_PENDING;
	for (size_t i = 0; i < follower->count; i++) {
		const tfc_event *event = &follower->events[i].event;
		if (event->kind == TFC_EVENT_JOB)
			last = event->job_state;
		if (event->kind == TFC_EVENT_OUTPUT)
			assert_int_equal(event->job_state, last);
	}
}

/* Whole events, of each sequence that is in order. */
static void assert_same(const struct follower *one, const struct follower *other)
{
	static const uint32_t streams[] = {0, TFC_STREAM_STDOUT, TFC_STREAM_STDERR};
	for (size_t i = 0; i < 3; i++) {
		size_t at = 0, place = 0;
		const struct seen_event *event;
		while ((event = next_event(one, &at, streams[i]))) {
			const struct seen_event *same = next_event(other, &place, streams[i]);
			assert_non_null(same);
			assert_same_event(event, same);
		}
		assert_null(next_event(other, &place, streams[i]));
	}
	assert_lines_have_the_state_reported_last(one);
	assert_lines_have_the_state_reported_last(other);
}

static void an_ended_job_is_reported_as_before_when_its_node_comes_back(void **state)
{
	struct place place;
	struct node_run run;
	struct follower before = {0}, after = {0};
	begin(&place);
	char *json = job_of("echo one; echo two >&2; exit 7");
	node_run_begin(&run, &place.options);
	node_run_job(&run, json, &before);
	char *id = strdup(before.job);
	char *described = node_describe(&run, id);
	assert_non_null(strstr(described, "\"state\":\"failed\""));
	tfc_sub_close(before.sub);
	before.sub = NULL;
	node_run_end(&run);

	node_run_begin(&run, &place.options);
	node_follow(&run, id, NULL, &after);
	const struct seen_event *over = node_await_end(&run, &after);
	assert_int_equal(over->event.exit_code, 7);
	assert_int_equal(over->event.epoch, 1);
	assert_same(&before, &after);
	char *again = node_describe(&run, id);
	assert_non_null(strstr(again, "\"state\":\"failed\""));
	node_follow_end(&before);
	node_follow_end(&after);
	node_run_end(&run);
	free(again);
	free(described);
	free(json);
	free(id);
	end(&place);
}

static void ended_jobs_are_in_the_list_in_the_order_they_came(void **state)
{
	struct place place;
	struct node_run run;
	struct answer answer = {0};
	char *ids[3], *at;
	begin(&place);
	node_run_begin(&run, &place.options);
	for (int i = 0; i < 3; i++)
		ids[i] = run_to_end(&run, "true");
	node_run_end(&run);
	node_run_begin(&run, &place.options);
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &answer, NULL), 0);
	node_await_answer(&run, &answer);
	at = answer.text;
	for (int i = 0; i < 3; i++) {
		at = strstr(at, ids[i]);
		assert_non_null(at);
		free(ids[i]);
	}
	node_answer_clear(&answer);
	node_run_end(&run);
	end(&place);
}

/* ---- going on */

static bool has_event(void *user)
{
	const struct follower *follower = user;
	for (size_t i = 0; i < follower->count; i++)
		if (follower->events[i].event.kind == TFC_EVENT_OUTPUT &&
		    strcmp(follower->events[i].data, "up") == 0)
			return true;
	return false;
}

/* Submits a job, and closes the node when a task has printed "up". Returns the job's id. */
static char *run_until_up(struct place *place, const char *json)
{
	struct node_run run;
	struct follower follower = {0};
	node_run_begin(&run, &place->options);
	char *id = node_submit(&run, json);
	node_follow(&run, id, NULL, &follower);
	node_await(&run, has_event, &follower, "the first attempt");
	node_follow_end(&follower);
	node_run_end(&run);
	return id;
}

/* The first attempt waits for ever, the next one ends well. */
static void a_job_goes_on_with_a_higher_epoch_and_the_same_id(void **state)
{
	struct place place;
	struct node_run run;
	struct follower after = {0};
	begin(&place);
	char *json = job_of("echo up; [ $TFC_ATTEMPT -gt 1 ] || exec sleep 1000; echo epoch "
			    "$TFC_EPOCH");
	char *id = run_until_up(&place, json);

	node_run_begin(&run, &place.options);
	node_follow(&run, id, NULL, &after);
	const struct seen_event *over = node_await_end(&run, &after);
	assert_int_equal(over->event.job_state, TFC_JOB_SUCCEEDED);
	assert_int_equal(over->event.epoch, 2);
	assert_string_equal(after.job, id);
	assert_non_null(node_find(&after, TFC_EVENT_TASK, "driver/0", TFC_TASK_LOST, 1));
	assert_non_null(node_find(&after, TFC_EVENT_TASK, "driver/0", TFC_TASK_EXITED, 2));
	char *output = node_output(&after, "driver/0", 0);
	assert_string_equal(output, "up\nup\nepoch 2\n");
	free(output);
	node_follow_end(&after);
	node_run_end(&run);
	free(json);
	free(id);
	end(&place);
}

static bool is_attempt_of_epoch_reported(void *user)
{
	const struct follower *follower = user;
	uint64_t last = 0;
	for (size_t i = 0; i < follower->count; i++)
		if (follower->events[i].event.kind == TFC_EVENT_OUTPUT)
			last = follower->events[i].event.epoch;
	return last == *(const uint64_t *)follower->user;
}

/* Follows on behind what was reported before the node was closed. */
static void follow_on(struct node_run *run, const char *id, struct follower *live)
{
	tfc_subscribe_options options = TFC_SUBSCRIBE_OPTIONS_INIT;
	char cursor[192];
	snprintf(cursor, sizeof(cursor), "%s", live->events[live->count - 1].cursor);
	options.cursor = cursor;
	node_follow(run, id, &options, live);
}

static void assert_replayed(struct node_run *run, const char *id, const struct follower *live)
{
	struct follower again = {0};
	node_follow(run, id, NULL, &again);
	node_await_end(run, &again);
	assert_same(live, &again);
	node_follow_end(&again);
}

/* Three terms: what each of them reported live is replayed unchanged, in the same term and in later
 * ones. */
static void history_is_reported_again_as_it_was(void **state)
{
	struct place place;
	struct node_run run;
	uint64_t epoch = 1;
	struct follower live = {.user = &epoch};
	begin(&place);
	char *json = job_of("echo up; echo up >&2; [ $TFC_ATTEMPT -gt 2 ] || exec sleep 1000; "
			    "echo done; exit 7");
	node_run_begin(&run, &place.options);
	node_start(&run, json, &live);
	char *id = strdup(live.job);
	for (; epoch < 3; epoch++) {
		node_await(&run, is_attempt_of_epoch_reported, &live, "lines of an attempt");
		tfc_sub_close(live.sub);
		live.sub = NULL;
		node_run_end(&run);
		node_run_begin(&run, &place.options);
		follow_on(&run, id, &live);
	}
	const struct seen_event *over = node_await_end(&run, &live);
	assert_int_equal(over->event.epoch, 3);
	assert_int_equal(over->event.exit_code, 7);
	tfc_sub_close(live.sub);
	live.sub = NULL;
	for (int i = 0; i < 3; i++) {
		assert_replayed(&run, id, &live);
		node_run_end(&run);
		node_run_begin(&run, &place.options);
	}
	node_run_end(&run);
	for (uint32_t attempt = 1; attempt <= 3; attempt++)
		assert_int_equal(node_find(&live, TFC_EVENT_TASK, "driver/0", TFC_TASK_STARTING,
					   attempt)
					 ->event.epoch,
				 attempt);
	node_follow_end(&live);
	free(json);
	free(id);
	end(&place);
}

static void forget_epochs(void *user, int code, const tfc_store_value *values, uint32_t count,
			  const tfc_error *error)
{
	assert_int_equal(code, TFC_OK);
	for (uint32_t i = 0; i < count; i++) {
		struct tfc__journal journal;
		struct tfc__buf buf = {0};
		if (!strstr(values[i].key, "/journal/"))
			continue;
		assert_int_equal(tfc__journal_init(&journal), TFC_OK);
		assert_int_equal(tfc__journal_read(&journal, values[i].data, values[i].len, 1,
						   NULL),
				 TFC_OK);
		for (uint32_t k = 0; k < journal.count; k++)
			journal.entries[k].epoch = 0;
		tfc__journal_write(&journal, 0, journal.count, &buf);
		assert_non_null(tfc__store_put(user, values[i].key, buf.data, buf.len, UINT64_MAX,
					       NULL, NULL));
		tfc__buf_fini(&buf);
		tfc__journal_fini(&journal);
	}
}

/* Of the entries in the store none says its epoch any more. */
static void make_journals_of_0_2(const struct place *place)
{
	struct node_run run;
	struct tfc__store *store;
	char path[LEAKS_PATH + 16];
	node_run_begin(&run, NULL);
	snprintf(path, sizeof(path), "%s/store", place->state);
	assert_int_equal(tfc__store_open_local(run.ctx, path, NULL, &store), TFC_OK);
	assert_non_null(tfc__store_list(store, "jobs/", forget_epochs, store));
	assert_int_equal(tfc__store_wait(store, 10000), TFC_OK);
	tfc__store_close(store);
	node_run_end(&run);
}

static void history_without_epochs_is_of_the_last_one_that_it_can_be_of(void **state)
{
	struct place place;
	struct node_run run;
	uint64_t epoch = 1;
	struct follower live = {.user = &epoch}, later = {0};
	begin(&place);
	char *json = job_of("echo up; [ $TFC_ATTEMPT -gt 1 ] || exec sleep 1000");
	node_run_begin(&run, &place.options);
	node_start(&run, json, &live);
	char *id = strdup(live.job);
	node_await(&run, is_attempt_of_epoch_reported, &live, "the first attempt");
	node_follow_end(&live);
	node_run_end(&run);
	make_journals_of_0_2(&place);
	for (int i = 0; i < 2; i++) {
		node_run_begin(&run, &place.options);
		node_follow(&run, id, NULL, &later);
		assert_int_equal(node_await_end(&run, &later)->event.epoch, 2);
		assert_int_equal(node_find(&later, TFC_EVENT_OUTPUT, "driver/0", 0, 1)->event.epoch,
				 1);
		assert_int_equal(later.events[0].event.epoch, 1);
		node_follow_end(&later);
		node_run_end(&run);
	}
	make_journals_of_0_2(&place);
	node_run_begin(&run, &place.options);
	node_follow(&run, id, NULL, &later);
	assert_int_equal(node_await_end(&run, &later)->event.epoch, 2);
	assert_int_equal(later.events[0].event.epoch, 2);
	node_follow_end(&later);
	node_run_end(&run);
	free(json);
	free(id);
	end(&place);
}

static void a_job_that_must_not_restart_has_failed(void **state)
{
	struct place place;
	struct node_run run;
	struct follower after = {0};
	begin(&place);
	char *json = node_json(
		"{'roles': {'driver': {'argv': ['/bin/sh', '-c', 'echo up; exec sleep "
		"1000'], 'restart': {'on': 'never'}}}}");
	char *id = run_until_up(&place, json);
	node_run_begin(&run, &place.options);
	node_follow(&run, id, NULL, &after);
	const struct seen_event *over = node_await_end(&run, &after);
	assert_int_equal(over->event.job_state, TFC_JOB_FAILED);
	assert_int_equal(over->event.reason, TFC_END_LOST);
	node_follow_end(&after);
	node_run_end(&run);
	free(json);
	free(id);
	end(&place);
}

static void on_left(void *user)
{
	*(bool *)user = true;
}

static bool is_set(void *user)
{
	return *(bool *)user;
}

/* The first attempt is asked to end, and says so; even "never" does not make that a failure. */
static void a_node_that_leaves_stops_its_tasks_and_ends_no_job(void **state)
{
	struct place place;
	struct node_run run;
	struct follower before = {0}, after = {0};
	bool has_left = false;
	begin(&place);
	char *json = node_json(
		"{'roles': {'driver': {'argv': ['/bin/sh', '-c', 'trap \\\"echo "
		"saved; exit 0\\\" TERM; echo up; [ $TFC_ATTEMPT -gt 1 ] || while :; "
		"do sleep 0.01; done'], 'restart': {'on': 'never'}}}}");
	node_run_begin(&run, &place.options);
	char *id = node_submit(&run, json);
	node_follow(&run, id, NULL, &before);
	node_await(&run, has_event, &before, "the first attempt");
	assert_int_equal(tfc_node_leave(run.node, on_left, &has_left), TFC_OK);
	node_await(&run, is_set, &has_left, "the node to leave");
	assert_false(before.is_ended);
	node_follow_end(&before);
	node_run_end(&run);
	node_run_begin(&run, &place.options);
	node_follow(&run, id, NULL, &after);
	const struct seen_event *over = node_await_end(&run, &after);
	assert_int_equal(over->event.job_state, TFC_JOB_SUCCEEDED);
	char *output = node_output(&after, "driver/0", TFC_STREAM_STDOUT);
	assert_string_equal(output, "up\nsaved\nup\n");
	free(output);
	node_follow_end(&after);
	node_run_end(&run);
	free(json);
	free(id);
	end(&place);
}

/* ---- the client's key */

static char *submit_with_key(struct node_run *run, const char *json, const char *key, int *ret_code)
{
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	struct answer answer = {0};
	options.client_key = key;
	node_submit_for(run, json, &options, &answer);
	*ret_code = answer.code;
	return answer.text;
}

static void a_client_key_is_for_one_job(void **state)
{
	struct place place;
	struct node_run run;
	int code;
	begin(&place);
	char *json = job_of("exec sleep 1000"), *other = job_of("exec sleep 1001");
	node_run_begin(&run, &place.options);
	char *id = submit_with_key(&run, json, "nightly", &code);
	assert_int_equal(code, TFC_OK);
	char *again = submit_with_key(&run, json, "nightly", &code);
	assert_string_equal(again, id);
	free(again);
	free(submit_with_key(&run, other, "nightly", &code));
	assert_int_equal(code, TFC_EEXIST);
	again = submit_with_key(&run, json, "daily", &code);
	assert_string_not_equal(again, id);
	free(again);
	node_run_end(&run);
	node_run_begin(&run, &place.options);
	again = submit_with_key(&run, json, "nightly", &code);
	assert_string_equal(again, id);
	free(again);
	node_run_end(&run);
	free(id);
	free(json);
	free(other);
	end(&place);
}

/* The second comes before the first is stored. */
static void two_with_one_key_at_a_time_are_one_job(void **state)
{
	struct place place;
	struct node_run run;
	struct answer answers[2] = {0};
	tfc_submit_options options = TFC_SUBMIT_OPTIONS_INIT;
	tfc_job *job;
	begin(&place);
	char *json = job_of("exec sleep 1000");
	node_run_begin(&run, &place.options);
	assert_int_equal(tfc_job_parse(json, strlen(json), NULL, NULL, &job), 0);
	options.client_key = "once";
	for (int i = 0; i < 2; i++)
		assert_int_equal(tfc_gateway_submit(run.gateway, job, &options, node_answer,
						    &answers[i], NULL),
				 0);
	for (int i = 0; i < 2; i++)
		node_await_answer(&run, &answers[i]);
	assert_string_equal(answers[0].text, answers[1].text);
	for (int i = 0; i < 2; i++)
		node_answer_clear(&answers[i]);
	tfc_job_free(job);
	node_run_end(&run);
	free(json);
	end(&place);
}

/* ---- what is kept, and what is not */

static bool is_there(const char *format, const struct place *place, const char *id)
{
	char path[256];
	snprintf(path, sizeof(path), format, place->state, id);
	return access(path, F_OK) == 0;
}

struct wait_for_logs {
	const struct place *place;
	const char *id;
};

static bool are_logs_gone(void *user)
{
	const struct wait_for_logs *wait = user;
	return !is_there("%s/logs/%s", wait->place, wait->id);
}

static void the_oldest_go_when_there_are_too_many(void **state)
{
	struct place place;
	struct node_run run;
	struct answer answer = {0};
	begin(&place);
	place.options.retain_jobs = 2;
	node_run_begin(&run, &place.options);
	char *oldest = run_to_end(&run, "echo x"), *kept = run_to_end(&run, "echo y");
	assert_true(is_there("%s/logs/%s", &place, oldest));
	free(run_to_end(&run, "echo z"));
	struct wait_for_logs wait = {&place, oldest};
	node_await(&run, are_logs_gone, &wait, "the oldest job's logs to go");
	assert_int_equal(tfc_gateway_describe(run.gateway, oldest, NULL, node_answer, &answer,
					      NULL),
			 0);
	node_await_answer(&run, &answer);
	assert_int_equal(answer.code, TFC_ENOENT);
	node_answer_clear(&answer);
	free(node_describe(&run, kept));
	node_run_end(&run);
	assert_false(is_there("%s/store/records/jobs/%s", &place, oldest));
	assert_true(is_there("%s/store/records/jobs/%s/record", &place, kept));
	free(oldest);
	free(kept);
	end(&place);
}

static void search(const char *dir, const char *words, int *ret_hits)
{
	char command[256];
	snprintf(command, sizeof(command), "grep -raq '%s' '%s'", words, dir);
	*ret_hits = system(command) == 0;
}

static void secrets_are_not_kept_in_the_clear(void **state)
{
	struct place place;
	struct node_run run;
	struct follower after = {0};
	int hits;
	begin(&place);
	char *json = job_of("echo up; [ $TFC_ATTEMPT -gt 1 ] || exec sleep 1000; echo $TOKEN");
	char *id = run_until_up(&place, json);
	search(place.state, "sleep 1000", &hits);
	assert_int_equal(hits, 1);
	search(place.state, "open sesame", &hits);
	assert_int_equal(hits, 0);
	/* And yet they are there for the next term. */
	node_run_begin(&run, &place.options);
	node_follow(&run, id, NULL, &after);
	node_await_end(&run, &after);
	char *output = node_output(&after, "driver/0", 0);
	assert_string_equal(output, "up\nup\nopen sesame\n");
	free(output);
	node_follow_end(&after);
	node_run_end(&run);
	free(json);
	free(id);
	end(&place);
}

/* ---- forgetting */

static void a_forgotten_job_is_gone_with_its_logs(void **state)
{
	struct place place;
	struct node_run run;
	begin(&place);
	char *json = job_of("exec sleep 1000");
	node_run_begin(&run, &place.options);
	char *running = node_submit(&run, json), *ended = run_to_end(&run, "echo x");
	assert_int_equal(node_forget(&run, running), TFC_ESTATE);
	assert_int_equal(node_forget(&run, ended), TFC_OK);
	assert_int_equal(node_forget(&run, ended), TFC_ENOENT);
	assert_false(is_there("%s/store/records/jobs/%s", &place, ended));
	struct wait_for_logs wait = {&place, ended};
	node_await(&run, are_logs_gone, &wait, "the job's logs to go");
	node_run_end(&run);
	node_run_begin(&run, &place.options);
	assert_int_equal(node_forget(&run, ended), TFC_ENOENT);
	free(node_describe(&run, running));
	node_run_end(&run);
	free(running);
	free(ended);
	free(json);
	end(&place);
}

/* ---- what is wrong */

static void damage(const struct place *place, const char *id, const char *name)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/store/records/jobs/%s/%s", place->state, id, name);
	assert_int_equal(truncate(path, 70), 0);
}

static void a_damaged_job_is_left_alone_and_the_others_are_there(void **state)
{
	struct place place;
	struct node_run run;
	struct answer answer = {0};
	begin(&place);
	node_run_begin(&run, &place.options);
	char *lost = run_to_end(&run, "true"), *torn = run_to_end(&run, "true");
	char *whole = run_to_end(&run, "true");
	node_run_end(&run);
	damage(&place, lost, "record");
	damage(&place, torn, "journal/0000000000");
	for (int i = 0; i < 2; i++) {
		node_run_begin(&run, &place.options);
		free(node_describe(&run, whole));
		char *text = node_describe(&run, torn);
		assert_non_null(strstr(text, "\"state\":\"failed\""));
		free(text);
		assert_int_equal(tfc_gateway_describe(run.gateway, lost, NULL, node_answer, &answer,
						      NULL),
				 0);
		node_await_answer(&run, &answer);
		assert_int_equal(answer.code, TFC_EPARSE);
		assert_non_null(strstr(answer.error, "is damaged"));
		node_answer_clear(&answer);
		node_run_end(&run);
	}
	assert_true(is_there("%s/store/records/jobs/%s/record", &place, lost));
	free(lost);
	free(torn);
	free(whole);
	end(&place);
}

/* Whatever is kept of ended ones: who looks finds why. */
static void a_damaged_job_is_not_forgotten_until_somebody_asks_for_that(void **state)
{
	struct place place;
	struct node_run run;
	begin(&place);
	node_run_begin(&run, &place.options);
	char *torn = run_to_end(&run, "true");
	node_run_end(&run);
	damage(&place, torn, "journal/0000000000");
	place.options.retain_jobs = 1;
	node_run_begin(&run, &place.options);
	char *first = run_to_end(&run, "true"), *second = run_to_end(&run, "true");
	struct wait_for_logs wait = {&place, first};
	node_await(&run, are_logs_gone, &wait, "an ended job to go");
	char *text = node_describe(&run, torn);
	assert_non_null(strstr(text, "is damaged"));
	assert_true(is_there("%s/store/records/jobs/%s/record", &place, torn));
	assert_int_equal(node_forget(&run, torn), TFC_OK);
	assert_false(is_there("%s/store/records/jobs/%s/record", &place, torn));
	node_run_end(&run);
	free(text);
	free(torn);
	free(first);
	free(second);
	end(&place);
}

static void remove_file(const struct place *place, const char *id, const char *name)
{
	char path[256];
	snprintf(path, sizeof(path), "%s/store/records/jobs/%s/%s", place->state, id, name);
	assert_int_equal(unlink(path), 0);
}

/* Its record, its journal and its logs, whatever of them is left. */
static void a_damaged_job_can_be_forgotten(void **state)
{
	static const char *const names[] = {"record", "journal/0000000000"};
	struct place place;
	struct node_run run;
	char *jobs[4];
	begin(&place);
	node_run_begin(&run, &place.options);
	char *whole = run_to_end(&run, "echo x");
	for (int i = 0; i < 4; i++)
		jobs[i] = run_to_end(&run, "echo x");
	node_run_end(&run);
	for (int i = 0; i < 4; i++)
		(i < 2 ? damage : remove_file)(&place, jobs[i], names[i % 2]);
	node_run_begin(&run, &place.options);
	for (int i = 0; i < 4; i++) {
		struct wait_for_logs wait = {&place, jobs[i]};
		assert_true(is_there("%s/logs/%s", &place, jobs[i]));
		assert_int_equal(node_forget(&run, jobs[i]), TFC_OK);
		assert_int_equal(node_forget(&run, jobs[i]), TFC_ENOENT);
		assert_false(is_there("%s/store/records/jobs/%s", &place, jobs[i]));
		node_await(&run, are_logs_gone, &wait, "the job's logs to go");
		free(jobs[i]);
	}
	assert_true(is_there("%s/logs/%s", &place, whole));
	free(node_describe(&run, whole));
	free(whole);
	node_run_end(&run);
	end(&place);
}

static void count_entries(void *user, const tfc_log_entry *entry)
{
	++*(int *)user;
}

/* The second fails with that before anything else, also while tasks of the first run. */
static void two_nodes_cannot_have_one_state(void **state)
{
	struct place place;
	struct node_run run;
	struct follower follower = {0};
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx *ctx;
	tfc_node *second = NULL;
	char pid[32];
	int entries = 0;
	begin(&place);
	node_run_begin(&run, &place.options);
	char *json = job_of("echo up; exec sleep 60");
	node_start(&run, json, &follower);
	node_await_task(&run, &follower, "driver/0", TFC_TASK_READY, 1);
	options.helper_dir = getenv("TFC_HELPER_DIR");
	options.log = count_entries;
	options.log_user = &entries;
	options.log_level = TFC_LOG_WARNING;
	assert_int_equal(tfc_ctx_new(&options, &error, &ctx), 0);
	assert_int_equal(tfc_node_open(ctx, &place.options, &second), TFC_EBUSY);
	snprintf(pid, sizeof(pid), "process %d", (int)getpid());
	assert_non_null(strstr(tfc_ctx_error(ctx)->text, pid));
	assert_int_equal(entries, 0);
	assert_null(second);
	tfc_ctx_free(ctx);
	node_follow_end(&follower);
	free(json);
	node_run_end(&run);
	end(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_ended_job_is_reported_as_before_when_its_node_comes_back),
		cmocka_unit_test(ended_jobs_are_in_the_list_in_the_order_they_came),
		cmocka_unit_test(a_job_goes_on_with_a_higher_epoch_and_the_same_id),
		cmocka_unit_test(history_is_reported_again_as_it_was),
		cmocka_unit_test(history_without_epochs_is_of_the_last_one_that_it_can_be_of),
		cmocka_unit_test(a_job_that_must_not_restart_has_failed),
		cmocka_unit_test(a_node_that_leaves_stops_its_tasks_and_ends_no_job),
		cmocka_unit_test(a_client_key_is_for_one_job),
		cmocka_unit_test(two_with_one_key_at_a_time_are_one_job),
		cmocka_unit_test(the_oldest_go_when_there_are_too_many),
		cmocka_unit_test(secrets_are_not_kept_in_the_clear),
		cmocka_unit_test(a_forgotten_job_is_gone_with_its_logs),
		cmocka_unit_test(a_damaged_job_is_left_alone_and_the_others_are_there),
		cmocka_unit_test(a_damaged_job_is_not_forgotten_until_somebody_asks_for_that),
		cmocka_unit_test(a_damaged_job_can_be_forgotten),
		cmocka_unit_test(two_nodes_cannot_have_one_state),
	};
	return cmocka_run_group_tests_name("node_store", tests, NULL, NULL);
}
