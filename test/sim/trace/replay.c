/*
 * Gives the cores the events of traces, and demands the actions that are in them.
 *
 * replay [--late] TRACE...    --late: as if each action's deadline had been a nanosecond later
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace.h"

/* Not what a guard grows its tables to. */
#define SLOTS 5000
#define INDEXES 70000
#define ACTIONS_MAX 10000 /* of one event */

struct trace {
	const char *path;
	struct trace_record *records;
	size_t count;
	size_t at;
};

static bool is_late;
static uint64_t guard_events[GUARD_TIMER + 1], guard_actions[GUARD_FREE_SLOT + 1];
static uint64_t shim_events[SHIM_ENDED + 1], shim_actions[SHIM_REPORT_CONTINUED + 1];
static struct trace_record came[ACTIONS_MAX];
static size_t came_count;

static void expect(const struct trace_record *record)
{
	if (came_count == ACTIONS_MAX)
		abort();
	came[came_count++] = *record;
}

/* A file ends with a whole record, or with that of a process that was killed as it wrote it. */
static void read_trace(const char *path, struct trace *ret_trace)
{
	FILE *file = fopen(path, "re");
	if (!file || fseek(file, 0, SEEK_END) < 0)
		abort();
	size_t count = (size_t)ftell(file) / sizeof(struct trace_record);
	rewind(file);
	*ret_trace = (struct trace){.path = path,
				    .records = calloc(count + 1, sizeof(struct trace_record)),
				    .count = count};
	if (!ret_trace->records ||
	    fread(ret_trace->records, sizeof(struct trace_record), count, file) != count)
		abort();
	fclose(file);
}

static void print_record(const char *what, const struct trace_record *record)
{
	printf("  %s: trace kind %u, kind %u, slot %u, pid %d, flags %u, reason %u, %u ms, kill at "
	       "%llu, timer at %llu, silence at %llu, suspension at %llu, report %u of %llu: %u, "
	       "%d\n",
	       what, record->trace_kind, record->kind, record->slot, record->pid, record->flags,
	       record->reason, record->ms, (unsigned long long)record->kill_at,
	       (unsigned long long)record->timer_at, (unsigned long long)record->silence_at,
	       (unsigned long long)record->suspension_at, record->report.kind,
	       (unsigned long long)record->report.id, record->report.reason, record->report.status);
}

static struct trace_record recorded(const struct trace *trace, size_t at)
{
	struct trace_record record = trace->records[at];
	record.kill_at += is_late && record.kill_at;
	record.timer_at += is_late && record.timer_at;
	return record;
}

/* What came of the event before `at` is what the trace has there, as far as it goes. */
static bool compare(struct trace *trace)
{
	for (size_t i = 0; i < came_count && trace->at < trace->count; i++, trace->at++) {
		struct trace_record record = recorded(trace, trace->at);
		if (memcmp(&record, &came[i], sizeof(record)) == 0)
			continue;
		printf("%s: record %zu differs\n", trace->path, trace->at);
		print_record("recorded", &record);
		print_record("replayed", &came[i]);
		return false;
	}
	return true;
}

/* ---- a guard */

static void note_action(void *user, const struct guard_action *action)
{
	struct trace_record record = trace_guard_action(action);
	guard_actions[action->kind]++;
	expect(&record);
}

static void guard_init(struct guard_core *core)
{
	*core = (struct guard_core){.tasks = calloc(SLOTS, sizeof(*core->tasks)),
				    .task_capacity = SLOTS,
				    .slots = calloc(INDEXES, sizeof(*core->slots)),
				    .index_capacity = INDEXES,
				    .leases = calloc(TFC__LEASES_MAX, sizeof(*core->leases))};
	if (!core->tasks || !core->slots || !core->leases)
		abort();
}

static void guard_fini(struct guard_core *core)
{
	free(core->tasks);
	free(core->slots);
	free(core->leases);
}

static void step_guard(struct guard_core *core, const struct trace_record *record)
{
	const struct guard_event event = {
		.kind = (enum guard_event_kind)record->kind,
		.slot = record->slot,
		.now = record->now,
		.error = record->error,
		.command = record->has_command ? &record->command : NULL,
		.report = record->has_report ? &record->report : NULL,
	};
	guard_events[record->kind]++;
	uint32_t slot = guard_core_step(core, &event, note_action, NULL);
	struct trace_record answer = trace_guard_answer(core, slot);
	expect(&answer);
}

/* ---- a shim */

static void step_shim(struct shim_core *core, const struct trace_record *record)
{
	const struct shim_event event = {
		.kind = (enum shim_event_kind)record->kind,
		.now = record->now,
		.error = record->error,
		.silence_ms = record->ms,
		.command = record->has_command ? &record->command : NULL,
		.lease = record->has_lease ? &record->lease : NULL,
	};
	shim_events[record->kind]++;
	struct shim_result result = shim_core_step(core, &event);
	for (uint32_t action = 1; action <= SHIM_REPORT_CONTINUED; action *= 2)
		shim_actions[action] += !!(result.actions & action);
	struct trace_record answer = trace_shim_answer(core, &result);
	expect(&answer);
}

/* ---- all */

/* The next event, and what the trace has behind it. */
static bool step(struct trace *trace, struct guard_core *guard, struct shim_core *shim)
{
	const struct trace_record *record = &trace->records[trace->at++];
	came_count = 0;
	if (record->trace_kind == TRACE_GUARD_EVENT) {
		step_guard(guard, record);
	} else if (record->trace_kind == TRACE_SHIM_EVENT) {
		step_shim(shim, record);
	} else {
		printf("%s: record %zu: one action too many\n", trace->path, trace->at - 1);
		print_record("recorded", record);
		return false;
	}
	return compare(trace);
}

static bool replay(const char *path)
{
	struct trace trace;
	struct guard_core guard;
	struct shim_core shim = {.kill_at = 0};
	bool is_same = true;
	read_trace(path, &trace);
	guard_init(&guard);
	while (is_same && trace.at < trace.count)
		is_same = step(&trace, &guard, &shim);
	guard_fini(&guard);
	free(trace.records);
	return is_same;
}

static void print_counts(const char *what, const uint64_t *counts, size_t last)
{
	for (size_t i = 1; i <= last; i++)
		if (counts[i])
			printf("%s %zu: %llu\n", what, i, (unsigned long long)counts[i]);
}

int main(int argc, char **argv)
{
	int different = 0;
	is_late = argc > 1 && strcmp(argv[1], "--late") == 0;
	for (int i = 1 + is_late; i < argc; i++)
		different += !replay(argv[i]);
	print_counts("guard event", guard_events, GUARD_TIMER);
	print_counts("guard action", guard_actions, GUARD_FREE_SLOT);
	print_counts("shim event", shim_events, SHIM_ENDED);
	print_counts("shim action", shim_actions, SHIM_REPORT_CONTINUED);
	printf("%d traces, %d differ\n", argc - 1 - is_late, different);
	return different != 0;
}
