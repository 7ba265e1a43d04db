/* cluster, gateway: what changes in the jobs of a node, as its readers see it; and cursors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/changes.h"
#include "cluster/record.h"
#include "gateway/watch_position.h"

#define JOBS 50
#define STEPS 20000

struct world {
	struct tfc__changes changes;
	struct tfc__record *jobs[JOBS];
};

static struct tfc__record *make(struct world *world, int number)
{
	struct tfc__record *record = tfc__record_new();
	assert_non_null(record);
	snprintf(record->id, sizeof(record->id), "%016x", (unsigned)number);
	world->jobs[number] = record;
	tfc__changes_add(&world->changes, record, &record->appeared, &record->changed);
	return record;
}

static void change(struct world *world, int number)
{
	tfc__changes_note(&world->changes, &world->jobs[number]->changed);
}

static void forget(struct world *world, int number)
{
	struct tfc__record *record = world->jobs[number];
	tfc__changes_forget(&world->changes, &record->appeared, &record->changed, record->id);
	tfc__record_free(record);
	world->jobs[number] = NULL;
}

static void end(struct world *world)
{
	tfc__changes_fini(&world->changes);
	for (int i = 0; i < JOBS; i++)
		if (world->jobs[i])
			tfc__record_free(world->jobs[i]);
}

/* Reads everything: "+1 +2 *1 -2" for jobs that have appeared, changed, were forgotten. */
static const char *read_all(struct world *world, struct tfc__changes_reader *reader)
{
	static char text[4096];
	const struct tfc__change *next;
	bool has_appeared;
	text[0] = '\0';
	while ((next = tfc__changes_next(&world->changes, reader, &has_appeared))) {
		size_t len = strlen(text);
		unsigned number = (unsigned)strtoul(next->record ? next->record->id : next->id,
						    NULL, 16);
		assert_true(len < sizeof(text) - 16);
		snprintf(text + len, sizeof(text) - len, "%s%c%u", len ? " " : "",
			 has_appeared   ? '+'
			 : next->record ? '*'
					: '-',
			 number);
	}
	return text;
}

static const struct tfc__changes_position nowhere = {0, 0, 0};

static void each_job_appears_once_and_has_its_latest_change(void **state)
{
	struct world world = {.jobs = {NULL}};
	struct tfc__changes_reader reader;
	tfc__changes_init(&world.changes, 7);
	tfc__changes_reader_init(&reader);
	make(&world, 1);
	assert_false(tfc__changes_begin(&world.changes, &reader, &nowhere));
	assert_string_equal(read_all(&world, &reader), "+1");
	assert_string_equal(read_all(&world, &reader), "");
	make(&world, 2);
	change(&world, 1);
	change(&world, 2);
	change(&world, 1);
	assert_string_equal(read_all(&world, &reader), "+2 *2 *1");
	change(&world, 1);
	change(&world, 2);
	forget(&world, 1);
	assert_string_equal(read_all(&world, &reader), "*2 -1");
	tfc__changes_end(&reader);
	end(&world);
}

static void a_replay_has_all_jobs_and_no_old_changes(void **state)
{
	struct world world = {.jobs = {NULL}};
	struct tfc__changes_reader reader;
	tfc__changes_init(&world.changes, 7);
	tfc__changes_reader_init(&reader);
	for (int i = 0; i < 4; i++)
		make(&world, i);
	change(&world, 0);
	forget(&world, 1);
	world.jobs[2]->journal.job_state = TFC_JOB_FAILED;
	change(&world, 2);
	assert_false(tfc__changes_begin(&world.changes, &reader, &nowhere));
	bool has_appeared;
	assert_non_null(tfc__changes_next(&world.changes, &reader, &has_appeared));
	change(&world, 3); /* after the replay has begun */
	assert_string_equal(read_all(&world, &reader), "+2 +3 *2 *3");
	tfc__changes_end(&reader);
	end(&world);
}

/* 10,000 changes: a reader that stands still costs nothing and misses nothing. */
static void a_slow_reader_finds_each_job_once(void **state)
{
	struct world world = {.jobs = {NULL}};
	struct tfc__changes_reader slow, quick;
	tfc__changes_init(&world.changes, 7);
	tfc__changes_reader_init(&slow);
	tfc__changes_reader_init(&quick);
	for (int i = 0; i < JOBS; i++)
		make(&world, i);
	tfc__changes_begin(&world.changes, &slow, &nowhere);
	tfc__changes_begin(&world.changes, &quick, &nowhere);
	read_all(&world, &slow);
	read_all(&world, &quick);
	for (int i = 0; i < 10000; i++) {
		change(&world, i * 7 % JOBS);
		char expected[8];
		snprintf(expected, sizeof(expected), "*%d", i * 7 % JOBS);
		assert_string_equal(read_all(&world, &quick), expected);
	}
	uint32_t length = 0;
	TFC__LIST_EACH (link, &world.changes.changed)
		length++;
	assert_int_equal(length, JOBS + 2);
	const char *seen = read_all(&world, &slow);
	uint32_t words = 1;
	for (const char *at = seen; *at; at++)
		words += *at == ' ';
	assert_int_equal(words, JOBS);
	assert_string_equal(read_all(&world, &slow), "");
	tfc__changes_end(&slow);
	tfc__changes_end(&quick);
	end(&world);
}

/* Whatever happens, a reader that is continued anywhere knows in the end what a new one knows. */
static void a_position_continues_without_a_gap(void **state)
{
	struct world world = {.jobs = {NULL}};
	struct tfc__changes_reader reader;
	static bool known[STEPS];
	bool has_appeared;
	unsigned seed = 1, live = 0, kept = 0;
	tfc__changes_init(&world.changes, 7);
	tfc__changes_reader_init(&reader);
	tfc__changes_begin(&world.changes, &reader, &nowhere);
	read_all(&world, &reader);
	for (int step = 0; step < STEPS; step++) {
		int number = rand_r(&seed) % JOBS;
		switch (rand_r(&seed) % 4) {
		case 0:
			if (!world.jobs[number])
				snprintf(make(&world, number)->id, 17, "%016x", (unsigned)step);
			break;
		case 1:
			if (world.jobs[number])
				change(&world, number);
			break;
		case 2:
			if (world.jobs[number] && rand_r(&seed) % 4 == 0)
				forget(&world, number);
			break;
		default: {
			const struct tfc__changes_position at = reader.at;
			tfc__changes_end(&reader);
			assert_true(tfc__changes_begin(&world.changes, &reader, &at));
		}
		}
		for (int i = rand_r(&seed) % 3; i > 0; i--) {
			const struct tfc__change *next = tfc__changes_next(&world.changes, &reader,
									   &has_appeared);
			if (!next)
				break;
			number = (int)strtoul(next->record ? next->record->id : next->id, NULL, 16);
			if (has_appeared)
				known[number] = true;
			else if (!next->record)
				known[number] = false;
			else
				assert_true(known[number]);
		}
	}
	const struct tfc__change *next;
	while ((next = tfc__changes_next(&world.changes, &reader, &has_appeared)))
		known[strtoul(next->record ? next->record->id : next->id, NULL, 16)] =
			next->record != NULL;
	for (int i = 0; i < JOBS; i++) {
		live += world.jobs[i] != NULL;
		if (world.jobs[i])
			assert_true(known[strtoul(world.jobs[i]->id, NULL, 16)]);
	}
	for (int i = 0; i < STEPS; i++)
		kept += known[i];
	assert_int_equal(kept, live);
	tfc__changes_end(&reader);
	end(&world);
}

static void a_position_ends_with_its_incarnation_and_with_old_tombstones(void **state)
{
	struct world world = {.jobs = {NULL}};
	struct tfc__changes_reader reader, idle;
	tfc__changes_init(&world.changes, 7);
	tfc__changes_reader_init(&reader);
	tfc__changes_reader_init(&idle);
	make(&world, 1);
	tfc__changes_begin(&world.changes, &reader, &nowhere);
	tfc__changes_begin(&world.changes, &idle, &nowhere);
	read_all(&world, &reader);
	read_all(&world, &idle);
	struct tfc__changes_position at = reader.at, other = at;
	other.incarnation = 8;
	assert_true(tfc__changes_begin(&world.changes, &reader, &at));
	assert_false(tfc__changes_begin(&world.changes, &reader, &other));
	read_all(&world, &reader);
	for (int i = 0; i < TFC__TOMBSTONES_MAX; i++) {
		make(&world, 2);
		forget(&world, 2);
	}
	assert_true(tfc__changes_is_valid(&world.changes, &idle));
	make(&world, 2);
	forget(&world, 2);
	assert_false(tfc__changes_is_valid(&world.changes, &idle));
	assert_false(tfc__changes_begin(&world.changes, &reader, &at));
	assert_string_equal(read_all(&world, &reader), "+1");
	assert_int_equal(world.changes.tombstone_count, TFC__TOMBSTONES_MAX);
	tfc__changes_end(&reader);
	tfc__changes_end(&idle);
	end(&world);
}

/* ---- cursors */

static void a_cursor_is_read_as_it_was_written(void **state)
{
	struct tfc__watch_position position = {.slots = NULL}, again = {.slots = NULL};
	assert_string_equal(tfc__watch_position_text(&position), "");
	for (uint64_t i = 0; i < 300; i++) {
		char node[32];
		snprintf(node, sizeof(node), "node-%u", (unsigned)(i % 100));
		const struct tfc__changes_position at = {i, i + 1, UINT64_MAX - i};
		assert_int_equal(tfc__watch_position_set(&position, node, &at), TFC_OK);
	}
	tfc__watch_position_remove(&position, "node-3");
	tfc__watch_position_remove(&position, "node-99");
	tfc__watch_position_remove(&position, "nobody");
	assert_int_equal(tfc__watch_position_read(&again, tfc__watch_position_text(&position)),
			 TFC_OK);
	assert_string_equal(tfc__watch_position_text(&again), tfc__watch_position_text(&position));
	assert_int_equal(again.count, 98);
	assert_int_equal(tfc__watch_position_find(&again, "node-7")->incarnation, 207);
	assert_int_equal(tfc__watch_position_find(&again, "node-7")->changed, UINT64_MAX - 207);
	assert_null(tfc__watch_position_find(&again, "node-3"));
	tfc__watch_position_fini(&position);
	tfc__watch_position_fini(&again);
}

static void a_bad_cursor_is_refused(void **state)
{
#define N ":0000000000000001:0000000000000002:0000000000000003"
	static const char *const bad[] = {
		"a",
		"a:",
		":",
		",",
		N,
		"a:1:2:3",
		"a" N ",",
		"a" N ",a" N,
		"a" N "0",
		"a" N ",b",
		"a" N " ",
		"a:000000000000000G:0000000000000002:0000000000000003",
		"a:0000000000000001:0000000000000002",
		("0123456789012345678901234567890123456789012345678901234567890123" N),
		"a b" N,
		"-a" N,
		"a\n" N,
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tfc__watch_position position = {.slots = NULL};
		if (tfc__watch_position_read(&position, bad[i]) != TFC_EINVAL)
			fail_msg("%s", bad[i]);
		tfc__watch_position_fini(&position);
	}
}

/* A cursor comes from a client. */
static void a_cursor_has_a_limit_of_nodes(void **state)
{
	char *text = malloc(4097 * 64), *end = text;
	assert_non_null(text);
	for (int i = 0; i < 4097; i++)
		end += sprintf(end, "%sn%d" N, i ? "," : "", i);
	struct tfc__watch_position position = {.slots = NULL};
	assert_int_equal(tfc__watch_position_read(&position, text), TFC_EINVAL);
	assert_null(position.slots);
	*strrchr(text, ',') = '\0';
	assert_int_equal(tfc__watch_position_read(&position, text), TFC_OK);
	for (int i = 4095; i > 0; i -= 2) {
		char node[16];
		snprintf(node, sizeof(node), "n%d", i);
		tfc__watch_position_remove(&position, node);
		assert_null(tfc__watch_position_find(&position, node));
	}
	assert_int_equal(position.count, 2048);
	for (uint64_t i = 0; i < 4096; i += 2) {
		char node[16];
		const struct tfc__changes_position at = {i, i, i};
		snprintf(node, sizeof(node), "n%u", (unsigned)i);
		assert_int_equal(tfc__watch_position_find(&position, node)->changed, 3);
		assert_int_equal(tfc__watch_position_set(&position, node, &at), TFC_OK);
	}
	struct tfc__watch_position again = {.slots = NULL};
	assert_int_equal(tfc__watch_position_read(&again, tfc__watch_position_text(&position)),
			 TFC_OK);
	assert_int_equal(again.count, 2048);
	assert_int_equal(tfc__watch_position_find(&again, "n4094")->changed, 4094);
	while (again.count)
		tfc__watch_position_remove(&again, again.slots[0].node);
	assert_string_equal(tfc__watch_position_text(&again), "");
	tfc__watch_position_fini(&again);
	tfc__watch_position_fini(&position);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_job_appears_once_and_has_its_latest_change),
		cmocka_unit_test(a_replay_has_all_jobs_and_no_old_changes),
		cmocka_unit_test(a_slow_reader_finds_each_job_once),
		cmocka_unit_test(a_position_continues_without_a_gap),
		cmocka_unit_test(a_position_ends_with_its_incarnation_and_with_old_tombstones),
		cmocka_unit_test(a_cursor_is_read_as_it_was_written),
		cmocka_unit_test(a_bad_cursor_is_refused),
		cmocka_unit_test(a_cursor_has_a_limit_of_nodes),
	};
	return cmocka_run_group_tests_name("cluster_changes", tests, NULL, NULL);
}
