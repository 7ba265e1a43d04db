#include "cluster/maintainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/strv.h"
#include "ctx/ctx.h"
#include "proc/proc.h"

#define LOG_TAIL_LINES 10

/* What the agents told of a task's latest attempt, for the journal. */
struct seen {
	int32_t pid;
	uint32_t isolation;
	uint64_t log_end;
	uint64_t log_gap;
	uint64_t user_us;
	uint64_t system_us;
	uint64_t max_rss_kib;
};

struct tfc__maintainer {
	tfc_ctx *ctx;
	struct tfc__agent_job_info info;
	struct tfc__agent_job *agent_job;
	struct tfc__journal *journal;
	struct tfc__core *core;
	tfc_spec *spec;
	uint32_t spec_generation; /* the one that spec belongs to */
	struct seen *seen;
	struct tfc__timer timer;
	struct tfc__work first_step;
	tfc__maintainer_end_fn end_fn;
	void *end_user;
	bool is_ended;
	bool is_stepping;            /* a hook of the host runs inside */
	bool is_stop_waiting;        /* the host asked for a stop in that hook */
	struct tfc__core_event stop; /* that one */
};

static void step(struct tfc__maintainer *maintainer, const struct tfc__core_event *event);

/* ---- what agents tell becomes an event of the core */

/* A shim that was killed could not say where it left the log. */
static uint64_t find_log_end(const struct tfc__maintainer *maintainer, uint32_t task)
{
	char name[TFC__LOG_NAME_SIZE];
	tfc__agent_log_name(maintainer->agent_job, task, name);
	return tfc__log_end(tfc__agent_log_dir(maintainer->agent_job), name);
}

static void note_process(struct tfc__maintainer *maintainer, uint32_t task,
			 const tfc_process_event *process)
{
	struct seen *seen = &maintainer->seen[task];
	seen->pid = process->pid;
	seen->isolation = process->isolation;
	if (process->kind != TFC_PROCESS_EXITED)
		return;
	if (process->reason == TFC_EXIT_LOST)
		seen->log_end = find_log_end(maintainer, task);
	else if (process->log_end > seen->log_end) /* 0: it never had a log */
		seen->log_end = process->log_end;
	seen->log_gap = process->log_gap;
	seen->user_us = process->user_us;
	seen->system_us = process->system_us;
	seen->max_rss_kib = process->max_rss_kib;
}

/* The moment of a death, told on the wall clock, on the clock of the core's `now`. */
static uint64_t monotonic(uint64_t wall_ns)
{
	uint64_t ago = tfc__wall() - wall_ns;
	uint64_t now = tfc__now();
	return ago < now ? now - ago : now;
}

static struct tfc__death death_of(const struct tfc__agent_event *event)
{
	return (struct tfc__death){
		.reason = event->process->reason,
		.status = event->process->status,
		.is_oom = event->process->is_oom,
		.is_stranger = event->is_stranger,
		.is_crowded_out = event->is_crowded_out,
		.time_ns = monotonic(event->process->time_ns),
	};
}

static void take_looked(const struct tfc__agent_event *event, struct tfc__looked *looked,
			struct tfc__core_event *core_event)
{
	core_event->count = event->looked_count < TFC__LOOKED_MAX ? event->looked_count
								  : TFC__LOOKED_MAX;
	core_event->looked = looked;
	for (uint32_t i = 0; i < core_event->count; i++) {
		looked[i].task = event->looked[i].task;
		snprintf(looked[i].text, sizeof(looked[i].text), "%s", event->looked[i].text);
	}
}

static void on_agent(void *user, const struct tfc__agent_event *event)
{
	static const enum tfc__core_event_kind kinds[] = {
		[TFC__AGENT_HELD] = TFC__CORE_HELD,
		[TFC__AGENT_HOLD_FAILED] = TFC__CORE_HOLD_FAILED,
		[TFC__AGENT_STARTED] = TFC__CORE_STARTED,
		[TFC__AGENT_READY] = TFC__CORE_READY,
		[TFC__AGENT_EXITED] = TFC__CORE_EXITED,
		[TFC__AGENT_REFUSED] = TFC__CORE_REFUSED,
		[TFC__AGENT_ANSWER] = TFC__CORE_ANSWER,
		[TFC__AGENT_STALLED] = TFC__CORE_STALLED,
		[TFC__AGENT_STACKED] = TFC__CORE_STACKED,
		[TFC__AGENT_LOOKED] = TFC__CORE_LOOKED,
	};
	struct tfc__maintainer *maintainer = user;
	struct tfc__core_event core_event = {
		.kind = kinds[event->kind],
		.task = event->task,
		.attempt = event->attempt,
		.query = event->query,
		.count = event->missing,
		.states = event->states,
		.silent_ms = event->silent_ms,
		.text = event->text,
	};
	if (event->process) {
		note_process(maintainer, event->task, event->process);
		core_event.pid = event->process->pid;
	}
	struct tfc__looked looked[TFC__LOOKED_MAX];
	if (event->kind == TFC__AGENT_LOOKED)
		take_looked(event, looked, &core_event);
	if (event->kind == TFC__AGENT_EXITED)
		core_event.death = death_of(event);
	step(maintainer, &core_event);
}

/* ---- what the core decides becomes orders and journal entries */

static void launch(struct tfc__maintainer *maintainer, const struct tfc__core_action *action)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__journal_promise(maintainer->journal, tfc__core_task_count(maintainer->core)) < 0) {
		tfc__fail_nomem(&error, "cluster");
		tfc__agent_refuse(maintainer->agent_job, action->task, action->attempt, &error);
		return;
	}
	if (!maintainer->spec || maintainer->spec_generation != action->generation) {
		tfc_spec *spec;
		int code = tfc__agent_spec(maintainer->agent_job, &error, &spec);
		if (code < 0) {
			tfc__log(maintainer->ctx, TFC_LOG_ERROR, "cluster", maintainer->info.id,
				 "cluster spec: %s", error.text);
			tfc__agent_refuse(maintainer->agent_job, action->task, action->attempt,
					  &error);
			return;
		}
		tfc_spec_free(maintainer->spec);
		maintainer->spec = spec;
		maintainer->spec_generation = action->generation;
	}
	tfc__agent_launch(maintainer->agent_job, action->task, action->attempt, action->generation,
			  maintainer->spec);
}

static void tell(struct tfc__maintainer *maintainer, uint32_t kind,
		 const struct tfc__core_action *action)
{
	struct tfc__journal_entry entry = {
		.kind = kind,
		.job_state = tfc__core_job_state(maintainer->core),
		.generation = action->generation,
		.task = action->task,
		.attempt = action->attempt,
		.reason = action->reason,
		.status = action->status,
		.time_ns = tfc__wall(),
		.text = (char *)action->text,
	};
	if (kind == TFC_EVENT_TASK) {
		const struct seen *seen = &maintainer->seen[action->task];
		entry.task_state = action->state;
		entry.status = action->death.status;
		entry.exit_reason = action->death.reason;
		entry.address = (char *)tfc__agent_address(maintainer->agent_job, action->task);
		entry.pid = action->state >= TFC_TASK_RUNNING ? seen->pid : 0;
		entry.isolation = action->state >= TFC_TASK_RUNNING ? seen->isolation : 0;
		if (tfc__task_state_is_terminal(action->state)) {
			entry.log_end = seen->log_end;
			entry.log_gap = seen->log_gap;
			entry.user_us = seen->user_us;
			entry.system_us = seen->system_us;
			entry.max_rss_kib = seen->max_rss_kib;
		}
	} else {
		entry.job_state = action->state;
	}
	if (kind == TFC_EVENT_END && action->task != UINT32_MAX) {
		char name[TFC__LOG_NAME_SIZE];
		tfc__agent_log_name(maintainer->agent_job, action->task, name);
		if (tfc__log_tail(tfc__agent_log_dir(maintainer->agent_job), name, 0,
				  LOG_TAIL_LINES, &entry.log_tail) < 0)
			entry.log_tail = NULL;
	}
	if (tfc__journal_add(maintainer->journal, &entry) < 0)
		tfc__log(maintainer->ctx, TFC_LOG_ERROR, "cluster", maintainer->info.id,
			 "an event is lost to its subscribers: out of memory");
}

static uint32_t milliseconds(uint64_t ns)
{
	return (uint32_t)(ns / TFC__MS);
}

static void carry_out(struct tfc__maintainer *maintainer, const struct tfc__core_action *action)
{
	struct tfc__agent_job *job = maintainer->agent_job;
	switch (action->kind) {
	case TFC__DO_HOLD:
		tfc__agent_hold(job, action->task);
		break;
	case TFC__DO_LAUNCH:
		maintainer->seen[action->task] = (struct seen){
			.log_end = maintainer->seen[action->task].log_end};
		launch(maintainer, action);
		break;
	case TFC__DO_SIGNAL:
		tfc__agent_signal(job, action->task, (int)action->number);
		break;
	case TFC__DO_STOP:
		tfc__agent_stop(job, action->task, milliseconds(action->grace_ns));
		break;
	case TFC__DO_RELEASE:
		tfc__agent_release(job, action->task);
		break;
	case TFC__DO_QUERY:
		tfc__agent_query(job, action->number);
		break;
	case TFC__DO_STACKS:
		tfc__agent_stacks(job, action->task, action->number);
		break;
	case TFC__DO_LOOK:
		tfc__agent_look(job, action->number);
		break;
	case TFC__DO_TELL_TASK:
		tell(maintainer, TFC_EVENT_TASK, action);
		break;
	case TFC__DO_TELL_JOB:
		tell(maintainer, TFC_EVENT_JOB, action);
		break;
	case TFC__DO_END:
		tell(maintainer, TFC_EVENT_END, action);
		maintainer->is_ended = true;
		break;
	}
}

static void step(struct tfc__maintainer *maintainer, const struct tfc__core_event *event)
{
	const struct tfc__core_action *action;
	if (maintainer->is_ended)
		return;
	maintainer->is_stepping = true;
	tfc__core_step(maintainer->core, event, tfc__now());
	while ((action = tfc__core_next(maintainer->core)))
		carry_out(maintainer, action);
	maintainer->is_stepping = false;
	if (maintainer->is_stop_waiting) {
		maintainer->is_stop_waiting = false;
		step(maintainer, &maintainer->stop);
		return;
	}
	uint64_t at = tfc__core_wake_at(maintainer->core);
	if (maintainer->is_ended || at == 0)
		tfc__timer_cancel(&maintainer->timer);
	else
		tfc__timer_set(&maintainer->timer, at);
	if (maintainer->is_ended) {
		tfc__agent_job_end(maintainer->agent_job);
		maintainer->end_fn(maintainer->end_user);
	}
}

static void on_timer(struct tfc__timer *timer)
{
	struct tfc__maintainer *maintainer = tfc__container_of(timer, struct tfc__maintainer,
							       timer);
	step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_TICK});
}

static void take_first_step(struct tfc__work *work)
{
	struct tfc__maintainer *maintainer = tfc__container_of(work, struct tfc__maintainer,
							       first_step);
	step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_START});
}

/* ---- opening and closing */

static int make_core(struct tfc__maintainer *maintainer)
{
	const tfc_job *job = maintainer->info.job;
	struct tfc__core_policy policy = {0};
	struct tfc__core_role *roles = calloc(job->role_count, sizeof(*roles));
	if (!roles)
		return TFC_ENOMEM;
	tfc__core_policy_from_job(job, roles, &policy);
	policy.seed = tfc__now();
	maintainer->core = tfc__core_new(&policy);
	free(roles);
	if (!maintainer->core)
		return TFC_ENOMEM;
	maintainer->seen = calloc(tfc__core_task_count(maintainer->core),
				  sizeof(*maintainer->seen));
	if (!maintainer->seen)
		return TFC_ENOMEM;
	return tfc__journal_promise(maintainer->journal, tfc__core_task_count(maintainer->core));
}

int tfc__maintainer_open(tfc_ctx *ctx, struct tfc__agent *agent,
			 const struct tfc__agent_job_info *info, struct tfc__journal *journal,
			 tfc__maintainer_end_fn fn, void *user, tfc_error *error,
			 struct tfc__maintainer **ret_maintainer)
{
	struct tfc__maintainer *maintainer = calloc(1, sizeof(*maintainer));
	if (!maintainer)
		return tfc__fail_nomem(error, "cluster");
	maintainer->ctx = ctx;
	maintainer->info = *info;
	maintainer->journal = journal;
	maintainer->end_fn = fn;
	maintainer->end_user = user;
	tfc__timer_init(&maintainer->timer, ctx, on_timer);
	tfc__work_init(&maintainer->first_step, ctx, take_first_step);
	int code = make_core(maintainer);
	if (code < 0)
		tfc__fail_nomem(error, "cluster");
	else
		code = tfc__agent_job_open(agent, info, on_agent, maintainer,
					   &maintainer->agent_job, error);
	if (code < 0) {
		tfc__maintainer_close(maintainer);
		return code;
	}
	tfc__work_schedule(&maintainer->first_step);
	*ret_maintainer = maintainer;
	return TFC_OK;
}

void tfc__maintainer_close(struct tfc__maintainer *maintainer)
{
	if (!maintainer)
		return;
	tfc__timer_cancel(&maintainer->timer);
	tfc__work_cancel(&maintainer->first_step);
	tfc__agent_job_close(maintainer->agent_job);
	tfc__core_free(maintainer->core);
	tfc_spec_free(maintainer->spec);
	free(maintainer->seen);
	free(maintainer);
}

void tfc__maintainer_stop(struct tfc__maintainer *maintainer, uint32_t interrupt_ms, bool is_kill)
{
	const struct tfc__core_event stop = {.kind = TFC__CORE_STOP,
					     .interrupt_ns = interrupt_ms * TFC__MS,
					     .is_kill = is_kill};
	if (!maintainer->is_stepping) {
		step(maintainer, &stop);
		return;
	}
	maintainer->stop = stop;
	maintainer->is_stop_waiting = true;
}

/* ---- looking */

const struct tfc__core *tfc__maintainer_core(const struct tfc__maintainer *maintainer)
{
	return maintainer->core;
}

struct tfc__agent_job *tfc__maintainer_agent_job(const struct tfc__maintainer *maintainer)
{
	return maintainer->agent_job;
}

int32_t tfc__maintainer_pid(const struct tfc__maintainer *maintainer, uint32_t task)
{
	return maintainer->seen[task].pid;
}

uint32_t tfc__maintainer_isolation(const struct tfc__maintainer *maintainer, uint32_t task)
{
	return maintainer->seen[task].isolation;
}

const tfc_spec *tfc__maintainer_spec(const struct tfc__maintainer *maintainer)
{
	return maintainer->spec;
}
