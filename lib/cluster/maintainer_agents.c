#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/maintainer_state.h"

/* ---- what agents tell becomes an event of the core */

static void note_process(struct seen *seen, const struct tfc__agent_event *event)
{
	const tfc_process_event *process = event->process;
	seen->pid = process->pid;
	seen->isolation = process->isolation;
	if (process->kind != TFC_PROCESS_EXITED)
		return;
	if (process->reason == TFC_EXIT_LOST || event->log_end > seen->log_end) /* 0: no log */
		seen->log_end = event->log_end;
	seen->log_gap = process->log_gap;
	seen->user_us = process->user_us;
	seen->system_us = process->system_us;
	seen->max_rss_kib = process->max_rss_kib;
}

/* A port without a known address is as good as none. */
static void note_held(struct seen *seen, const struct tfc__agent_event *event,
		      struct tfc__core_event *core_event)
{
	bool has_address = event->address && *event->address;
	free(seen->address);
	seen->address = has_address ? strdup(event->address) : NULL;
	if (has_address == (seen->address != NULL))
		return;
	core_event->kind = TFC__CORE_HOLD_FAILED;
	core_event->text = "out of memory";
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
	struct agent_link *link = user;
	struct tfc__maintainer *maintainer = link->maintainer;
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
	struct tfc__looked looked[TFC__LOOKED_MAX];
	if (event->process) {
		note_process(&maintainer->seen[event->task], event);
		core_event.pid = event->process->pid;
	}
	if (event->kind == TFC__AGENT_HELD)
		note_held(&maintainer->seen[event->task], event, &core_event);
	if (event->kind == TFC__AGENT_LOOKED)
		take_looked(event, looked, &core_event);
	if (event->kind == TFC__AGENT_EXITED)
		core_event.death = death_of(event);
	maintainer_step(maintainer, &core_event);
}

/* ---- orders */

/* A launch that could not even be ordered: its REFUSED comes later, as any answer does. */
static void refuse(struct tfc__maintainer *maintainer, const struct tfc__core_action *action,
		   const tfc_error *error)
{
	struct seen *seen = &maintainer->seen[action->task];
	seen->is_refused = true;
	seen->refused_attempt = action->attempt;
	maintainer->refused = *error;
	tfc__work_schedule(&maintainer->refusal);
}

void maintainer_refuse(struct tfc__work *work)
{
	struct tfc__maintainer *maintainer = tfc__container_of(work, struct tfc__maintainer,
							       refusal);
	for (uint32_t i = 0; i < maintainer->task_count && !maintainer->is_ended; i++) {
		struct seen *seen = &maintainer->seen[i];
		if (!seen->is_refused)
			continue;
		seen->is_refused = false;
		maintainer_step(maintainer,
				&(struct tfc__core_event){.kind = TFC__CORE_REFUSED,
							  .task = i,
							  .attempt = seen->refused_attempt,
							  .text = maintainer->refused.text});
	}
}

static void launch(struct tfc__maintainer *maintainer, const struct tfc__core_action *action)
{
	struct seen *seen = &maintainer->seen[action->task];
	tfc_error error = TFC_ERROR_INIT;
	*seen = (struct seen){.link = seen->link,
			      .address = seen->address,
			      .log_end = seen->log_end};
	int code = tfc__journal_promise(maintainer->journal, maintainer->task_count);
	if (code < 0)
		tfc__fail_nomem(&error, "cluster");
	else if ((code = maintainer_make_spec(maintainer, action->generation, &error)) < 0)
		tfc__log(maintainer->ctx, TFC_LOG_ERROR, "cluster", maintainer->info.id,
			 "cluster spec: %s", error.text);
	if (code < 0)
		refuse(maintainer, action, &error);
	else
		seen->link->ops->launch(seen->link->job, action->task, action->attempt,
					action->generation, maintainer->spec);
}

void maintainer_order(struct tfc__maintainer *maintainer, const struct tfc__core_action *action)
{
	struct agent_link *link = &maintainer->link;
	const struct tfc__agent_ops *ops = link->ops;
	switch (action->kind) {
	case TFC__DO_HOLD:
		maintainer->seen[action->task].link = link;
		ops->hold(link->job, action->task, action->number);
		break;
	case TFC__DO_LAUNCH:
		launch(maintainer, action);
		break;
	case TFC__DO_SIGNAL:
		ops->signal(link->job, action->task, (int)action->number);
		break;
	case TFC__DO_STOP:
		ops->stop(link->job, action->task, (uint32_t)(action->grace_ns / TFC__MS));
		break;
	case TFC__DO_RELEASE:
		ops->release(link->job, action->task);
		break;
	case TFC__DO_QUERY:
		ops->query(link->job, action->number);
		break;
	case TFC__DO_STACKS:
		ops->stacks(link->job, action->task, action->number);
		break;
	case TFC__DO_LOOK:
		ops->look(link->job, action->number);
		break;
	default:
		break;
	}
}

/* ---- opening and closing */

int maintainer_open_link(struct tfc__maintainer *maintainer, struct tfc__agent_handle agent,
			 const char *node, tfc_error *error)
{
	struct agent_link *link = &maintainer->link;
	link->maintainer = maintainer;
	link->ops = agent.ops;
	link->node = strdup(node);
	if (!link->node)
		return tfc__fail_nomem(error, "cluster");
	return agent.ops->job_open(agent.agent, &maintainer->info, on_agent, link, &link->job,
				   error);
}

void maintainer_close_links(struct tfc__maintainer *maintainer)
{
	struct agent_link *link = &maintainer->link;
	if (link->job)
		link->ops->job_close(link->job);
	free(link->node);
}
