/* node: jobs in a store of the host's own, which answers later, and sometimes badly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "folder.h"
#include "leaks.h"
#include "node_run.h"
#include "proc_run.h"
#include "wire/msg.h"
#include <tfcluster/backend.h>

#define ROWS 64

struct row {
	char key[128];
	void *data;
	uint64_t len;
	uint64_t version;
};

/* One write or removal. */
struct change {
	char key[128];
	void *data; /* NULL: removed */
	uint64_t len;
};

/* It outlives nodes and contexts. */
struct table {
	tfc_ctx *ctx;
	struct row rows[ROWS]; /* in the order of keys: `count` of them */
	uint32_t count;
	uint64_t version;
	int failure; /* of every put: an enum tfc_err, or 0 */
	uint32_t refusals;
	uint32_t puts; /* that are done before it becomes TFC_ENOSPC; 0: it stays what it is */
	uint32_t lies; /* puts of a record that are done and answered with TFC_ESYS */
	uint32_t failed_drops; /* removals that fail */
	bool is_recorded;
	struct change *changes; /* in the order they came, when is_recorded */
	size_t change_count;
	/* The request under way. */
	tfc_store_done done;
	void *request;
	int32_t code;
	uint32_t first, answers;
};

static void answer(void *user)
{
	struct table *table = user;
	tfc_store_value values[ROWS];
	tfc_store_done done = table->done;
	table->done = NULL;
	for (uint32_t i = 0; i < table->answers; i++) {
		const struct row *row = &table->rows[table->first + i];
		values[i] = (tfc_store_value){.size = sizeof(*values),
					      .key = row->key,
					      .data = row->data,
					      .len = row->len,
					      .version = row->version};
	}
	if (done)
		done(table->request, table->code, values, table->answers,
		     table->code == TFC_ENOSPC ? "the grid is full" : NULL);
}

static void answer_later(struct table *table, tfc_store_done done, void *request, int32_t code,
			 uint32_t first, uint32_t answers)
{
	table->done = done;
	table->request = request;
	table->code = code;
	table->first = first;
	table->answers = answers;
	assert_int_equal(tfc_ctx_post(table->ctx, answer, table), TFC_OK);
}

static uint32_t place_of(const struct table *table, const char *key)
{
	uint32_t place = 0;
	while (place < table->count && strcmp(table->rows[place].key, key) < 0)
		place++;
	return place;
}

static bool is_at(const struct table *table, uint32_t place, const char *key)
{
	return place < table->count && strcmp(table->rows[place].key, key) == 0;
}

static uint32_t count_below(const struct table *table, uint32_t place, const char *prefix)
{
	uint32_t count = 0;
	while (place + count < table->count &&
	       strncmp(table->rows[place + count].key, prefix, strlen(prefix)) == 0)
		count++;
	return count;
}

static void get(void *store, const char *key, tfc_store_done done, void *request)
{
	uint32_t place = place_of(store, key);
	bool is_there = is_at(store, place, key);
	answer_later(store, done, request, is_there ? TFC_OK : TFC_ENOENT, place, is_there);
}

static void list(void *store, const char *prefix, tfc_store_done done, void *request)
{
	uint32_t place = place_of(store, prefix);
	answer_later(store, done, request, TFC_OK, place, count_below(store, place, prefix));
}

static void drop(struct table *table, uint32_t place, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		free(table->rows[place + i].data);
	memmove(&table->rows[place], &table->rows[place + count],
		(table->count - place - count) * sizeof(*table->rows));
	table->count -= count;
}

static void record(struct table *table, const char *key, const void *data, uint64_t len)
{
	size_t count = table->change_count++;
	if (!table->is_recorded)
		return;
	if ((count & (count - 1)) == 0)
		table->changes = realloc(table->changes,
					 (count ? 2 * count : 1) * sizeof(*table->changes));
	struct change *change = &table->changes[count];
	*change = (struct change){.len = len, .data = data ? malloc(len + 1) : NULL};
	snprintf(change->key, sizeof(change->key), "%s", key);
	if (data)
		memcpy(change->data, data, len);
}

static struct row *set_row(struct table *table, const char *key, const void *data, uint64_t len)
{
	uint32_t place = place_of(table, key);
	if (is_at(table, place, key))
		drop(table, place, 1);
	assert_true(table->count < ROWS);
	memmove(&table->rows[place + 1], &table->rows[place],
		(table->count++ - place) * sizeof(*table->rows));
	struct row *row = &table->rows[place];
	*row = (struct row){.data = malloc(len + 1), .len = len, .version = ++table->version};
	snprintf(row->key, sizeof(row->key), "%s", key);
	memcpy(row->data, data, len);
	record(table, key, data, len);
	return row;
}

static void put(void *store, const char *key, const void *data, uint64_t len, uint64_t version,
		tfc_store_done done, void *request)
{
	struct table *table = store;
	uint32_t place = place_of(table, key);
	bool is_there = is_at(table, place, key);
	if (table->failure) {
		table->refusals++;
		answer_later(table, done, request, table->failure, 0, 0);
		return;
	}
	if (version != UINT64_MAX && version != (is_there ? table->rows[place].version : 0)) {
		answer_later(table, done, request, TFC_ESTATE, 0, 0);
		return;
	}
	set_row(table, key, data, len);
	if (table->lies && strstr(key, "/record")) {
		table->lies--;
		answer_later(table, done, request, TFC_ESYS, 0, 0);
		return;
	}
	answer_later(table, done, request, TFC_OK, place, 1);
	if (table->puts && --table->puts == 0)
		table->failure = TFC_ENOSPC;
}

static uint32_t drop_key(struct table *table, const char *key)
{
	uint32_t place = place_of(table, key);
	bool is_folder = key[strlen(key) - 1] == '/';
	uint32_t count = is_folder ? count_below(table, place, key) : is_at(table, place, key);
	drop(table, place, count);
	record(table, key, NULL, 0);
	return count;
}

static void remove_rows(void *store, const char *key, tfc_store_done done, void *request)
{
	struct table *table = store;
	bool is_folder = key[strlen(key) - 1] == '/';
	if (table->failed_drops) {
		table->failed_drops--;
		answer_later(table, done, request, TFC_ESYS, 0, 0);
		return;
	}
	uint32_t count = drop_key(table, key);
	answer_later(table, done, request, is_folder || count ? TFC_OK : TFC_ENOENT, 0, 0);
}

static void close_store(void *store)
{
	((struct table *)store)->done = NULL;
}

static tfc_store_ops make_ops(void)
{
	tfc_store_ops ops = TFC_STORE_OPS_INIT;
	ops.get = get;
	ops.list = list;
	ops.put = put;
	ops.remove = remove_rows;
	ops.close = close_store;
	return ops;
}

/* As node_run_begin, with the context told to the table. */
static void begin(struct node_run *run, struct table *table)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_ctx_options ctx = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway = TFC_GATEWAY_OPTIONS_INIT;
	const tfc_store_ops ops = make_ops();
	*run = (struct node_run){.fds = folder_count_fds()};
	ctx.helper_dir = getenv("TFC_HELPER_DIR");
	assert_int_equal(tfc_ctx_new(&ctx, &error, &run->ctx), 0);
	assert_int_equal(tfc__make_private_dir(leaks_temp_dir(), "tfc-node-", "test", &error,
					       &run->dir),
			 0);
	table->ctx = run->ctx;
	node.temp_dir = run->dir;
	node.store = &ops;
	node.store_user = table;
	if (tfc_node_open(run->ctx, &node, &run->node) < 0)
		fail_msg("%s", tfc_ctx_error(run->ctx)->text);
	gateway.node = run->node;
	assert_int_equal(tfc_gateway_open(run->ctx, &gateway, &run->gateway), 0);
}

static void free_table(struct table *table)
{
	drop(table, 0, table->count);
	for (size_t i = 0; table->is_recorded && i < table->change_count; i++)
		free(table->changes[i].data);
	free(table->changes);
}

static bool has_listed(void *user)
{
	return ((struct table *)user)->done == NULL;
}

static int ask(struct node_run *run, const char *job, char text[256])
{
	struct answer reply = {0};
	assert_int_equal(tfc_gateway_describe(run->gateway, job, 0, node_answer, &reply, NULL), 0);
	node_await_answer(run, &reply);
	snprintf(text, 256, "%s", reply.error);
	int code = reply.code;
	node_answer_clear(&reply);
	return code;
}

static void a_job_is_there_as_soon_as_the_store_has_answered(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	struct answer early = {0};
	char text[256];
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	char *json = node_json("{'roles': {'driver': {'argv': ['/bin/sh', '-c', 'exit 3']}}}");
	node_run_job(&run, json, &follower);
	char *id = strdup(follower.job);
	node_follow_end(&follower);
	node_run_end(&run);
	begin(&run, &table);
	/* Put before the store has answered. */
	assert_int_equal(tfc_gateway_describe(run.gateway, id, 0, node_answer, &early, NULL), 0);
	node_await_answer(&run, &early);
	assert_int_equal(early.code, TFC_EAGAIN);
	node_answer_clear(&early);
	node_await(&run, has_listed, &table, "the list");
	assert_int_equal(ask(&run, id, text), TFC_OK);
	node_run_end(&run);
	free(id);
	free(json);
	free_table(&table);
}

static void a_job_that_cannot_be_stored_is_refused(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct answer reply = {0}, all = {0};
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	table.failure = TFC_ENOSPC;
	char *json = node_json("{'roles': {'driver': {'argv': ['true']}}}");
	node_submit_for(&run, json, NULL, &reply);
	assert_int_equal(reply.code, TFC_ENOSPC);
	assert_string_equal(reply.error, "the grid is full");
	assert_int_equal(tfc_gateway_list(run.gateway, 0, node_answer, &all, NULL), 0);
	node_await_answer(&run, &all);
	assert_string_equal(all.text, "[]");
	node_answer_clear(&all);
	node_answer_clear(&reply);
	node_run_end(&run);
	free(json);
	free_table(&table);
}

/* ---- writes that are done although they fail, as of a disk that fails the last sync */

static void a_refused_job_is_not_there_later(void **state)
{
	struct table table = {.lies = 1, .failed_drops = 1};
	struct node_run run;
	struct answer reply = {0};
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	char *json = node_json("{'roles': {'driver': {'argv': ['true']}}}");
	node_submit_for(&run, json, NULL, &reply);
	assert_int_equal(reply.code, TFC_ESYS);
	assert_int_equal(table.failed_drops, 0);
	assert_int_equal(table.count, 0);
	node_answer_clear(&reply);
	node_run_end(&run);
	free(json);
	free_table(&table);
}

static void a_job_goes_on_after_a_write_that_was_done(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	char *json = node_json("{'roles': {'driver': {'argv': ['sleep', '1000'], 'restart': "
			       "{'on': 'failure', 'max': 9, 'backoff_s': [0, 0]}}}}");
	char *id = node_submit(&run, json);
	node_follow(&run, id, NULL, &follower);
	node_await_task(&run, &follower, "driver/0", TFC_TASK_READY, 1);
	node_follow_end(&follower);
	node_run_end(&run);
	table.lies = 1;
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	node_follow(&run, id, NULL, &follower);
	node_await_task(&run, &follower, "driver/0", TFC_TASK_READY, 2);
	assert_int_equal(table.lies, 0);
	node_follow_end(&follower);
	node_run_end(&run);
	free(id);
	free(json);
	free_table(&table);
}

/* ---- an end that is not stored */

static void note_drained(void *user)
{
	*(bool *)user = true;
}

static bool is_set(void *user)
{
	return *(bool *)user;
}

#define END_WAITS "its events are not stored, and not shown until then: the grid is full"

static bool is_running(void *user)
{
	return node_find(user, TFC_EVENT_TASK, "driver/0", TFC_TASK_READY, 0);
}

/* Events that wait are in no subscription; the job's description says so. */
static void await_events_that_wait(struct node_run *run, const char *id)
{
	uint64_t until = tfc__now() + 20 * TFC__SECOND;
	for (bool waits = false; !waits;) {
		char *job = node_describe(run, id);
		waits = strstr(job, END_WAITS) != NULL;
		free(job);
		assert_true(tfc__now() < until);
	}
}

/* A job whose task has ended while nothing could be stored; its id. */
static char *run_to_unstored_end(struct node_run *run, struct table *table,
				 struct follower *follower)
{
	char gate[4200];
	begin(run, table);
	node_await(run, has_listed, table, "the list");
	snprintf(gate, sizeof(gate), "%s/gate", run->dir);
	assert_int_equal(mkfifo(gate, 0600), 0);
	char *json = node_json("{'framework': 'none', 'roles': {'driver': {'argv': ['/bin/sh', "
			       "'-c', 'read line <%s']}}}",
			       gate);
	char *id = node_submit(run, json);
	node_follow(run, id, NULL, follower);
	node_await(run, is_running, follower, "a task that runs");
	table->failure = TFC_ENOSPC;
	int fd = open(gate, O_RDWR | O_CLOEXEC);
	assert_int_equal(write(fd, "\n", 1), 1);
	await_events_that_wait(run, id);
	assert_null(node_find(follower, TFC_EVENT_TASK, "driver/0", TFC_TASK_EXITED, 0));
	assert_false(follower->is_ended);
	close(fd);
	unlink(gate);
	free(json);
	return id;
}

static bool has_refused(void *user)
{
	return ((struct table *)user)->refusals > 1;
}

/* Else a later term, which does not know of it, would use its number again. */
static void a_task_is_launched_once_that_is_stored(void **state)
{
	struct table table = {.puts = 2}; /* of the submit: the first segment, the record */
	struct node_run run;
	struct follower follower = {0};
	char ran[4200];
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	snprintf(ran, sizeof(ran), "%s/ran", run.dir);
	char *json = node_json("{'framework': 'none', 'roles': {'driver': {'argv': ['/bin/sh', "
			       "'-c', 'echo >%s']}}}",
			       ran);
	char *id = node_submit(&run, json);
	node_await(&run, has_refused, &table, "a second try");
	assert_int_equal(access(ran, F_OK), -1);
	table.failure = 0;
	node_follow(&run, id, NULL, &follower);
	assert_int_equal(node_await_end(&run, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	assert_int_equal(unlink(ran), 0);
	node_follow_end(&follower);
	node_run_end(&run);
	free(id);
	free(json);
	free_table(&table);
}

static void events_are_shown_once_they_are_stored(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0}, after = {0};
	char *id = run_to_unstored_end(&run, &table, &follower);
	node_stop(&run, id, false); /* it has not ended, as far as anybody knows */
	table.failure = 0;
	assert_int_equal(node_await_end(&run, &follower)->event.job_state, TFC_JOB_SUCCEEDED);
	node_follow_end(&follower);
	node_run_end(&run);
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	node_follow(&run, id, NULL, &after);
	assert_int_equal(node_await_end(&run, &after)->event.epoch, 1);
	node_follow_end(&after);
	node_run_end(&run);
	free(id);
	free_table(&table);
}

/* Nobody was told of the end: it may run again. */
static void an_end_that_was_never_stored_was_never_told(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0}, after = {0};
	char *id = run_to_unstored_end(&run, &table, &follower);
	tfc_node_close(run.node);
	run.node = NULL;
	assert_true(tfc_ctx_run(run.ctx, 0) >= 0);
	assert_false(follower.is_ended);
	node_follow_end(&follower);
	node_run_end(&run);
	table.failure = 0;
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	node_follow(&run, id, NULL, &after);
	assert_int_equal(node_await_end(&run, &after)->event.epoch, 2);
	node_follow_end(&after);
	node_run_end(&run);
	free(id);
	free_table(&table);
}

/* That makes room, and a job that is not there never runs. */
static void a_job_whose_end_waits_can_be_forgotten(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	struct answer reply = {0};
	char *id = run_to_unstored_end(&run, &table, &follower);
	assert_int_equal(tfc_gateway_forget(run.gateway, id, 0, node_answer, &reply, NULL), 0);
	node_await_answer(&run, &reply);
	assert_int_equal(reply.code, TFC_OK);
	assert_false(follower.is_ended);
	assert_int_equal(table.count, 0);
	node_answer_clear(&reply);
	node_follow_end(&follower);
	node_run_end(&run);
	free(id);
	free_table(&table);
}

static void a_node_leaves_although_an_end_waits(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct follower follower = {0};
	bool is_drained = false;
	char *id = run_to_unstored_end(&run, &table, &follower);
	assert_int_equal(tfc_node_leave(run.node, note_drained, &is_drained), TFC_OK);
	node_await(&run, is_set, &is_drained, "an end of the leave");
	assert_false(follower.is_ended);
	node_follow_end(&follower);
	node_run_end(&run);
	free(id);
	free_table(&table);
}

static void secrets_need_a_place_that_keeps_them(void **state)
{
	struct table table = {0};
	struct node_run run;
	struct answer reply = {0};
	begin(&run, &table);
	node_await(&run, has_listed, &table, "the list");
	char *json = node_json(
		"{'secret_env': {'A': 'b'}, 'roles': {'driver': {'argv': ['true']}}}");
	node_submit_for(&run, json, NULL, &reply);
	assert_int_equal(reply.code, TFC_ENOTSUP);
	node_answer_clear(&reply);
	node_run_end(&run);
	free(json);
	free_table(&table);
}

/* ---- stores that lack something, and stores whose host died in the middle */

enum { ENDED, LONG, RESUMED, RUNNING, JOBS };

struct past {
	struct table table;
	char *ids[JOBS];
};

static char *driver(const char *script, uint32_t restarts)
{
	return node_json("{'roles': {'driver': {'argv': ['/bin/sh', '-c', '%s'], 'restart': "
			 "{'on': 'failure', 'max': %u, 'backoff_s': [0, 0]}}}}",
			 script, restarts);
}

static void run_job(struct node_run *run, const char *script, char **ret_id)
{
	struct follower follower = {0};
	char *json = driver(script, 1000);
	const struct seen_event *over = node_run_job(run, json, &follower);
	assert_int_equal(over->event.job_state, TFC_JOB_SUCCEEDED);
	*ret_id = strdup(follower.job);
	node_follow_end(&follower);
	free(json);
}

static void await_attempt(struct node_run *run, const char *id, uint32_t attempt)
{
	struct follower follower = {0};
	node_follow(run, id, NULL, &follower);
	node_await_task(run, &follower, "driver/0", TFC_TASK_READY, attempt);
	node_follow_end(&follower);
}

/* Two terms of four jobs. One has ended in the first, so did one whose journal takes more than a
 * segment; one has ended in the second; one runs on when that is killed. */
static void make_past(struct past *past)
{
	struct node_run run;
	struct follower follower = {0};
	*past = (struct past){.table.is_recorded = true};
	begin(&run, &past->table);
	node_await(&run, has_listed, &past->table, "the list");
	char *resumed = driver("[ $TFC_ATTEMPT -gt 1 ] || exec sleep 1000", 1000);
	char *running = driver("exec sleep 1000", 1000);
	run_job(&run, "true", &past->ids[ENDED]);
	run_job(&run, "[ $TFC_ATTEMPT -ge 300 ]", &past->ids[LONG]);
	past->ids[RESUMED] = node_submit(&run, resumed);
	past->ids[RUNNING] = node_submit(&run, running);
	await_attempt(&run, past->ids[RESUMED], 1);
	await_attempt(&run, past->ids[RUNNING], 1);
	node_run_end(&run);
	begin(&run, &past->table);
	node_await(&run, has_listed, &past->table, "the list");
	node_follow(&run, past->ids[RESUMED], NULL, &follower);
	node_await_end(&run, &follower);
	node_follow_end(&follower);
	await_attempt(&run, past->ids[RUNNING], 2);
	node_run_end(&run);
	free(resumed);
	free(running);
}

static void free_past(struct past *past)
{
	for (int i = 0; i < JOBS; i++)
		free(past->ids[i]);
	free_table(&past->table);
}

/* Opens a node on a table, and says how each job stands there; "": it is none of its jobs. */
static void open_again(struct table *table, char *const *ids, char states[JOBS][16])
{
	struct node_run run;
	struct answer all = {0};
	begin(&run, table);
	node_await(&run, has_listed, table, "the list");
	assert_int_equal(tfc_gateway_list(run.gateway, 0, node_answer, &all, NULL), 0);
	node_await_answer(&run, &all);
	for (int i = 0; i < JOBS; i++) {
		const char *at = strstr(all.text, ids[i]);
		states[i][0] = '\0';
		if (at)
			assert_int_equal(sscanf(strstr(at, "\"state\":"), "\"state\":\"%15[a-z]",
						states[i]),
					 1);
	}
	node_answer_clear(&all);
	node_run_end(&run);
}

static bool is_over(const char *state)
{
	return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ||
	       strcmp(state, "damaged") == 0;
}

static int job_of_key(char *const *ids, const char *key)
{
	int job = 0;
	while (job < JOBS && !strstr(key, ids[job]))
		job++;
	assert_true(job < JOBS);
	return job;
}

static struct table copy_without(const struct table *table, uint32_t skip)
{
	struct table copy = {0};
	for (uint32_t i = 0; i < table->count; i++)
		if (i != skip)
			set_row(&copy, table->rows[i].key, table->rows[i].data, table->rows[i].len);
	return copy;
}

/* Whichever it is: its job is named, and runs no more; the others are as they were. */
static void what_a_store_has_lost_is_named_and_never_run(void **state)
{
	struct past past;
	char whole[JOBS][16], states[JOBS][16];
	make_past(&past);
	struct table copy = copy_without(&past.table, UINT32_MAX);
	open_again(&copy, past.ids, whole);
	free_table(&copy);
	for (int i = 0; i < JOBS; i++)
		assert_int_equal(is_over(whole[i]), i != RUNNING);
	assert_true(past.table.count >= 4 + 1 + 2 + 2 + 2); /* records, and their segments */
	for (uint32_t i = 0; i < past.table.count; i++) {
		const char *key = past.table.rows[i].key;
		int job = job_of_key(past.ids, key);
		copy = copy_without(&past.table, i);
		open_again(&copy, past.ids, states);
		free_table(&copy);
		if (strcmp(states[job], "failed") != 0 && strcmp(states[job], "damaged") != 0)
			fail_msg("without %s its job is %s", key, states[job]);
		for (int k = 0; k < JOBS; k++)
			if (k == RUNNING)
				assert_true(k == job || (states[k][0] && !is_over(states[k])));
			else if (k != job)
				assert_string_equal(states[k], whole[k]);
	}
	free_past(&past);
}

/* 0.2 did not say in a record where the journal of its term begins. */
static void make_records_of_0_2(struct table *table)
{
	for (uint32_t i = 0; i < table->count; i++) {
		struct tfc__msg msg;
		struct tfc__buf buf = {0};
		char key[128];
		snprintf(key, sizeof(key), "%s", table->rows[i].key);
		if (!strstr(key, "/record"))
			continue;
		assert_int_equal(tfc__msg_parse(&msg, table->rows[i].data, table->rows[i].len, NULL,
						NULL),
				 TFC_OK);
		assert_non_null(tfc__msg_get(&msg.root, "journal"));
		tfc__msg_map(&buf, msg.root.via.map.size - 1);
		for (uint32_t k = 0; k < msg.root.via.map.size; k++) {
			const msgpack_object_kv *pair = &msg.root.via.map.ptr[k];
			if (strncmp(pair->key.via.str.ptr, "journal", pair->key.via.str.size) == 0)
				continue;
			tfc__msg_object(&buf, &pair->key);
			tfc__msg_object(&buf, &pair->val);
		}
		tfc__msg_fini(&msg);
		set_row(table, key, buf.data, buf.len);
		tfc__buf_fini(&buf);
	}
}

static void drop_journal(struct table *table, const char *id)
{
	char key[128];
	snprintf(key, sizeof(key), "jobs/%s/journal/", id);
	assert_true(drop_key(table, key) > 0);
}

static void what_0_2_has_written_goes_on_unless_its_journal_is_lost(void **state)
{
	struct past past;
	char states[JOBS][16];
	make_past(&past);
	struct table old = copy_without(&past.table, UINT32_MAX);
	make_records_of_0_2(&old);
	for (int lost = 0; lost <= JOBS; lost++) {
		struct table copy = copy_without(&old, UINT32_MAX);
		if (lost < JOBS)
			drop_journal(&copy, past.ids[lost]);
		open_again(&copy, past.ids, states);
		for (int k = 0; k < JOBS; k++)
			if (k == lost)
				assert_string_equal(states[k], "damaged");
			else if (k == RUNNING)
				assert_false(is_over(states[k]));
			else
				assert_string_equal(states[k], "succeeded");
		free_table(&copy);
	}
	free_table(&old);
	free_past(&past);
}

static bool has_rows(const struct table *table, const char *id)
{
	for (uint32_t i = 0; i < table->count; i++)
		if (strstr(table->rows[i].key, id))
			return true;
	return false;
}

static bool has_row(const struct table *table, const char *id, const char *name)
{
	char key[128];
	snprintf(key, sizeof(key), "jobs/%s/%s", id, name);
	return is_at(table, place_of(table, key), key);
}

static void expect_whole(const struct past *past, size_t writes)
{
	struct table table = {0};
	char states[JOBS][16];
	bool is_there[JOBS];
	for (size_t i = 0; i < writes; i++) {
		const struct change *change = &past->table.changes[i];
		if (change->data)
			set_row(&table, change->key, change->data, change->len);
		else
			drop_key(&table, change->key);
	}
	for (int i = 0; i < JOBS; i++)
		is_there[i] = has_row(&table, past->ids[i], "record");
	open_again(&table, past->ids, states);
	for (int i = 0; i < JOBS; i++) {
		bool is_wrong = strcmp(states[i], "failed") == 0 ||
				strcmp(states[i], "damaged") == 0;
		if (is_wrong || is_there[i] != (states[i][0] != '\0'))
			fail_msg("after %zu writes job %d is \"%s\"", writes, i, states[i]);
		assert_int_equal(has_rows(&table, past->ids[i]), is_there[i]);
	}
	free_table(&table);
}

/* Most are the same segment, longer each time. */
static bool is_of_interest(const struct past *past, size_t write)
{
	size_t last = past->table.change_count, near = 0;
	for (size_t i = write < 3 ? 0 : write - 3; i < write + 3 && i < last; i++) {
		bool is_new = true;
		for (size_t k = 0; k < i; k++)
			is_new &= strcmp(past->table.changes[k].key, past->table.changes[i].key) !=
				  0;
		near += is_new || strstr(past->table.changes[i].key, "/record");
	}
	return near || write + 10 > last || write % 97 == 0;
}

/* A host may die between any two writes: what is there then is no damage, and no job is lost. */
static void a_store_is_whole_after_each_write(void **state)
{
	struct past past;
	size_t tried = 0;
	make_past(&past);
	for (size_t i = 0; i <= past.table.change_count; i++)
		if (is_of_interest(&past, i)) {
			expect_whole(&past, i);
			tried++;
		}
	print_message("%zu of %zu writes\n", tried, past.table.change_count);
	assert_true(tried > 20);
	free_past(&past);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_is_there_as_soon_as_the_store_has_answered),
		cmocka_unit_test(a_job_that_cannot_be_stored_is_refused),
		cmocka_unit_test(a_refused_job_is_not_there_later),
		cmocka_unit_test(a_job_goes_on_after_a_write_that_was_done),
		cmocka_unit_test(a_task_is_launched_once_that_is_stored),
		cmocka_unit_test(events_are_shown_once_they_are_stored),
		cmocka_unit_test(an_end_that_was_never_stored_was_never_told),
		cmocka_unit_test(a_job_whose_end_waits_can_be_forgotten),
		cmocka_unit_test(a_node_leaves_although_an_end_waits),
		cmocka_unit_test(secrets_need_a_place_that_keeps_them),
		cmocka_unit_test(what_a_store_has_lost_is_named_and_never_run),
		cmocka_unit_test(what_0_2_has_written_goes_on_unless_its_journal_is_lost),
		cmocka_unit_test(a_store_is_whole_after_each_write),
	};
	return cmocka_run_group_tests_name("node_host_store", tests, NULL, NULL);
}
