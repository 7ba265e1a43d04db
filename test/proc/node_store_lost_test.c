/* node: a store of the host's own that lacks something, or whose host died between two writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "table_store.h"
#include "wire/msg.h"

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
	table_node_begin(&run, &past->table);
	char *resumed = driver("[ $TFC_ATTEMPT -gt 1 ] || exec sleep 1000", 1000);
	char *running = driver("exec sleep 1000", 1000);
	run_job(&run, "true", &past->ids[ENDED]);
	run_job(&run, "[ $TFC_ATTEMPT -ge 300 ]", &past->ids[LONG]);
	past->ids[RESUMED] = node_submit(&run, resumed);
	past->ids[RUNNING] = node_submit(&run, running);
	await_attempt(&run, past->ids[RESUMED], 1);
	await_attempt(&run, past->ids[RUNNING], 1);
	node_run_end(&run);
	table_node_begin(&run, &past->table);
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
	table_free(&past->table);
}

/* Opens a node on a table, and says how each job stands there; "": it is none of its jobs. */
static void open_again(struct table *table, char *const *ids, char states[JOBS][16])
{
	struct node_run run;
	struct answer all = {0};
	table_node_begin(&run, table);
	assert_int_equal(tfc_gateway_jobs(run.gateway, NULL, node_answer, &all, NULL), 0);
	node_await_answer(&run, &all);
	assert_int_equal(all.code, TFC_OK);
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
			table_set(&copy, table->rows[i].key, table->rows[i].data,
				  table->rows[i].len);
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
	table_free(&copy);
	for (int i = 0; i < JOBS; i++)
		assert_int_equal(is_over(whole[i]), i != RUNNING);
	assert_true(past.table.count >= 4 + 1 + 2 + 2 + 2); /* records, and their segments */
	for (uint32_t i = 0; i < past.table.count; i++) {
		const char *key = past.table.rows[i].key;
		int job = job_of_key(past.ids, key);
		copy = copy_without(&past.table, i);
		open_again(&copy, past.ids, states);
		table_free(&copy);
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
		table_set(table, key, buf.data, buf.len);
		tfc__buf_fini(&buf);
	}
}

static void drop_journal(struct table *table, const char *id)
{
	char key[128];
	snprintf(key, sizeof(key), "jobs/%s/journal/", id);
	assert_true(table_remove(table, key) > 0);
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
		table_free(&copy);
	}
	table_free(&old);
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
	return table_has(table, key);
}

static void expect_whole(const struct past *past, size_t writes)
{
	struct table table = {0};
	char states[JOBS][16];
	bool is_there[JOBS];
	for (size_t i = 0; i < writes; i++) {
		const struct change *change = &past->table.changes[i];
		if (change->data)
			table_set(&table, change->key, change->data, change->len);
		else
			table_remove(&table, change->key);
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
	table_free(&table);
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
		cmocka_unit_test(what_a_store_has_lost_is_named_and_never_run),
		cmocka_unit_test(what_0_2_has_written_goes_on_unless_its_journal_is_lost),
		cmocka_unit_test(a_store_is_whole_after_each_write),
	};
	return cmocka_run_group_tests_name("node_store_lost", tests, NULL, NULL);
}
