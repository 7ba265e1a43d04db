#include "cluster/maintainer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/maintainer_state.h"

static void carry_out(struct tfc__maintainer *maintainer, const struct tfc__core_action *action)
{
	switch (action->kind) {
	case TFC__DO_TELL_TASK:
		maintainer_tell(maintainer, TFC_EVENT_TASK, action);
		break;
	case TFC__DO_TELL_JOB:
		maintainer_tell(maintainer, TFC_EVENT_JOB, action);
		break;
	case TFC__DO_END:
		maintainer_tell(maintainer, TFC_EVENT_END, action);
		maintainer->is_ended = true;
		break;
	default:
		maintainer_order(maintainer, action);
		break;
	}
}

void maintainer_step(struct tfc__maintainer *maintainer, const struct tfc__core_event *event)
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
		maintainer_step(maintainer, &maintainer->stop);
		return;
	}
	uint64_t at = tfc__core_wake_at(maintainer->core);
	if (maintainer->is_ended || at == 0)
		tfc__timer_cancel(&maintainer->timer);
	else
		tfc__timer_set(&maintainer->timer, at);
	if (maintainer->is_ended) {
		maintainer->link.ops->job_end(maintainer->link.job);
		maintainer->end_fn(maintainer->end_user);
	}
}

static void on_timer(struct tfc__timer *timer)
{
	struct tfc__maintainer *maintainer = tfc__container_of(timer, struct tfc__maintainer,
							       timer);
	maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_TICK});
}

static void take_first_step(struct tfc__work *work)
{
	struct tfc__maintainer *maintainer = tfc__container_of(work, struct tfc__maintainer,
							       first_step);
	maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_START});
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
	maintainer->task_count = tfc__core_task_count(maintainer->core);
	maintainer->seen = calloc(maintainer->task_count, sizeof(*maintainer->seen));
	if (!maintainer->seen)
		return TFC_ENOMEM;
	return tfc__journal_promise(maintainer->journal, maintainer->task_count);
}

int tfc__maintainer_open(tfc_ctx *ctx, struct tfc__agent_handle agent, const char *node,
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
	tfc__work_init(&maintainer->refusal, ctx, maintainer_refuse);
	int code = make_core(maintainer);
	if (code < 0)
		tfc__fail_nomem(error, "cluster");
	else
		code = maintainer_open_link(maintainer, agent, node, error);
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
	tfc__work_cancel(&maintainer->refusal);
	maintainer_close_links(maintainer);
	tfc__core_free(maintainer->core);
	tfc_spec_free(maintainer->spec);
	for (uint32_t i = 0; i < maintainer->task_count && maintainer->seen; i++)
		free(maintainer->seen[i].address);
	free(maintainer->seen);
	free(maintainer);
}

void tfc__maintainer_stop(struct tfc__maintainer *maintainer, uint32_t interrupt_ms, bool is_kill)
{
	const struct tfc__core_event stop = {.kind = TFC__CORE_STOP,
					     .interrupt_ns = interrupt_ms * TFC__MS,
					     .is_kill = is_kill};
	if (!maintainer->is_stepping) {
		maintainer_step(maintainer, &stop);
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
	return maintainer->link.job;
}

const char *tfc__maintainer_node(const struct tfc__maintainer *maintainer, uint32_t task)
{
	const struct agent_link *link = maintainer->seen[task].link;
	return link ? link->node : "";
}

const char *tfc__maintainer_address(const struct tfc__maintainer *maintainer, uint32_t task)
{
	const char *address = maintainer->seen[task].address;
	return address ? address : "";
}

struct tfc__log_source *tfc__maintainer_log_open(struct tfc__maintainer *maintainer,
						 const char *node, uint32_t task, uint64_t position,
						 tfc_error *error)
{
	const struct agent_link *link = &maintainer->link;
	if (strcmp(link->node, node) == 0)
		return link->ops->log_open(link->job, task, position, error);
	tfc__fail(error, TFC_ELOST, "cluster", 0, "node %s cannot be asked for logs", node);
	return NULL;
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
