/*
 * A trace: what the core of a guard or a shim was given and what came of it, record after record. A
 * process that is killed leaves a trace that ends somewhere.
 */
#ifndef TEST_SIM_TRACE_H
#define TEST_SIM_TRACE_H

#include "proc/guard/core.h"
#include "proc/shim/core.h"

enum trace_kind {
	TRACE_GUARD_EVENT = 1,
	TRACE_GUARD_ACTION,
	TRACE_GUARD_ANSWER, /* the end of an event's actions */
	TRACE_SHIM_EVENT,
	TRACE_SHIM_ANSWER,
};

/* Written whole, with zeros where nothing belongs: records are compared byte for byte. */
struct trace_record {
	uint32_t trace_kind;
	uint32_t kind; /* of the event or the action */
	uint32_t slot; /* also the guard's answer */
	int32_t pid;
	int32_t error;
	uint32_t flags; /* may_be_oom; the shim's actions */
	uint32_t reason;
	uint32_t ms; /* silence_ms, silent_ms */
	uint64_t now;
	uint64_t kill_at;
	uint64_t timer_at;
	uint64_t silence_at;
	uint64_t suspension_at;
	uint32_t has_command, has_report, has_lease;
	uint32_t unused;
	struct tfc__command command;
	struct tfc__report report;
	struct tfc__lease_entry lease;
};

static inline struct trace_record trace_guard_event(const struct guard_event *event)
{
	struct trace_record record = {.trace_kind = TRACE_GUARD_EVENT,
				      .kind = event->kind,
				      .slot = event->slot,
				      .now = event->now,
				      .error = event->error};
	if (event->command) {
		record.has_command = 1;
		record.command = *event->command;
	}
	if (event->report) {
		record.has_report = 1;
		record.report = *event->report;
	}
	return record;
}

static inline struct trace_record trace_guard_action(const struct guard_action *action)
{
	struct trace_record record = {.trace_kind = TRACE_GUARD_ACTION,
				      .kind = action->kind,
				      .slot = action->slot,
				      .kill_at = action->kill_at,
				      .pid = action->pid,
				      .flags = action->may_be_oom};
	if (action->report) {
		record.has_report = 1;
		record.report = *action->report;
	}
	return record;
}

static inline struct trace_record trace_guard_answer(const struct guard_core *core, uint32_t slot)
{
	return (struct trace_record){.trace_kind = TRACE_GUARD_ANSWER,
				     .slot = slot,
				     .timer_at = core->timer_at};
}

static inline struct trace_record trace_shim_event(const struct shim_event *event)
{
	struct trace_record record = {.trace_kind = TRACE_SHIM_EVENT,
				      .kind = event->kind,
				      .now = event->now,
				      .ms = event->silence_ms,
				      .error = event->error};
	if (event->command) {
		record.has_command = 1;
		record.command = *event->command;
	}
	if (event->lease) {
		record.has_lease = 1;
		record.lease = *event->lease;
	}
	return record;
}

static inline struct trace_record trace_shim_answer(const struct shim_core *core,
						    const struct shim_result *result)
{
	return (struct trace_record){.trace_kind = TRACE_SHIM_ANSWER,
				     .flags = result->actions,
				     .reason = result->reason,
				     .ms = result->silent_ms,
				     .timer_at = core->timer_at,
				     .silence_at = core->silence_at,
				     .suspension_at = core->suspension_at};
}

/* record.c: appends to the trace of this process, "trace/PROGRAM-PID-TIME" beside its program. */
void trace_write(const struct trace_record *record);

#endif
