#include "cluster/maintainer.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/maintainer_state.h"

static void perform_action(struct tfc__maintainer *maintainer,
			   const struct tfc__core_action *action)
{
	switch (action->kind) {
	case TFC__DO_ORDER:
		tfc__maintainer_order(maintainer, action->node, &action->order);
		break;
	case TFC__DO_PLACE:
		tfc__maintainer_note_place(maintainer, action);
		break;
	case TFC__DO_REPORT_TASK:
		tfc__maintainer_notify(maintainer, TFC_EVENT_TASK, action);
		break;
	case TFC__DO_REPORT_JOB:
		tfc__maintainer_notify(maintainer, TFC_EVENT_JOB, action);
		break;
	case TFC__DO_END:
		tfc__maintainer_notify(maintainer, TFC_EVENT_END, action);
		maintainer->end = TFC__MAINTAINER_ENDED;
		break;
	case TFC__DO_SUSPENDED:
		maintainer->end = TFC__MAINTAINER_SUSPENDED;
		break;
	}
}

static void step_core(struct tfc__maintainer *maintainer, const struct tfc__core_event *event)
{
	const struct tfc__core_action *action;
	tfc__core_step(maintainer->core, event, tfc__now());
	while ((action = tfc__core_next(maintainer->core)))
		perform_action(maintainer, action);
	if (event->kind == TFC__CORE_REPORT && event->report->kind == TFC__AGENT_FENCED)
		maintainer->end = TFC__MAINTAINER_FENCED;
}

/* Handles an event, and responds to the PLACE actions that it causes. */
static void step_and_place(struct tfc__maintainer *maintainer, const struct tfc__core_event *event)
{
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__core_event placed;
	maintainer->is_stepping = true;
	step_core(maintainer, event);
	while (!maintainer->end && tfc__maintainer_next_placed(maintainer, &error, &placed))
		step_core(maintainer, &placed);
	tfc__maintainer_mark_launches(maintainer);
	maintainer->is_stepping = false;
}

void tfc__maintainer_accept_stop(struct tfc__maintainer *maintainer)
{
	while (maintainer->is_stop_waiting && !maintainer->end) {
		maintainer->is_stop_waiting = false;
		step_and_place(maintainer, &maintainer->stop);
	}
}

static void maintainer_finish(struct tfc__maintainer *maintainer)
{
	maintainer->is_settled = true;
	tfc__timer_cancel(&maintainer->timer);
	tfc__observer_remove(&maintainer->nodes_user);
	tfc__maintainer_launch_fini(maintainer);
	if (maintainer->end == TFC__MAINTAINER_ENDED)
		tfc__maintainer_end_links(maintainer);
	/* deferred: one of the links is calling this */
	if (maintainer->end == TFC__MAINTAINER_FENCED)
		tfc__work_schedule(&maintainer->closing);
	maintainer->end_fn(maintainer->end_user, maintainer->end);
}

void tfc__maintainer_settle(struct tfc__maintainer *maintainer)
{
	if (maintainer->busy || maintainer->is_settled)
		return;
	uint64_t at = tfc__core_wake_at(maintainer->core);
	if (maintainer->end)
		maintainer_finish(maintainer);
	else if (at == 0)
		tfc__timer_cancel(&maintainer->timer);
	else
		tfc__timer_set(&maintainer->timer, at);
}

void tfc__maintainer_step(struct tfc__maintainer *maintainer, const struct tfc__core_event *event)
{
	if (maintainer->end)
		return;
	step_and_place(maintainer, event);
	tfc__maintainer_accept_stop(maintainer);
	tfc__maintainer_settle(maintainer);
}

static void on_core_timer(struct tfc__timer *timer)
{
	struct tfc__maintainer *maintainer = tfc__container_of(timer, struct tfc__maintainer,
							       timer);
	tfc__maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_TICK});
}

static void on_first_step(struct tfc__work *work)
{
	struct tfc__maintainer *maintainer = tfc__container_of(work, struct tfc__maintainer,
							       first_step);
	maintainer->is_resumed = false;
	tfc__maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_START});
}

/* ---- opening and closing */

static int maintainer_make_core(struct tfc__maintainer *maintainer)
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
	maintainer->placed = calloc(maintainer->task_count, sizeof(*maintainer->placed));
	if (!maintainer->seen || !maintainer->placed)
		return TFC_ENOMEM;
	for (uint32_t i = 0; i < maintainer->task_count; i++) {
		tfc__list_init(&maintainer->seen[i].placing);
		tfc__list_init(&maintainer->seen[i].launch.link);
		tfc__list_init(&maintainer->seen[i].failure_link);
	}
	return tfc__journal_promise(maintainer->journal, maintainer->task_count);
}

/* If this node is the only member, a job that cannot be opened is refused at once. */
static int open_only_node(struct tfc__maintainer *maintainer, tfc_error *error)
{
	struct tfc__node_entry *node = tfc__nodes_alone(maintainer->nodes);
	if (!node)
		return TFC_OK;
	struct agent_link *link = tfc__maintainer_link(maintainer, node);
	return link ? tfc__maintainer_open_link(link, error) : tfc__fail_nomem(error, "cluster");
}

static void close_fenced_links(struct tfc__work *work)
{
	struct tfc__maintainer *maintainer = tfc__container_of(work, struct tfc__maintainer,
							       closing);
	tfc__work_cancel(&maintainer->failing);
	tfc__maintainer_launch_fini(maintainer);
	tfc__maintainer_close_links(maintainer);
}

int tfc__maintainer_open(tfc_ctx *ctx, struct tfc__nodes *nodes,
			 const struct tfc__agent_job_info *info, const struct tfc__resume *resume,
			 struct tfc__journal *journal, tfc__maintainer_end_fn fn, void *user,
			 tfc_error *error, struct tfc__maintainer **ret_maintainer)
{
	struct tfc__maintainer *maintainer = calloc(1, sizeof(*maintainer));
	if (!maintainer)
		return tfc__fail_nomem(error, "cluster");
	maintainer->ctx = ctx;
	maintainer->info = *info;
	maintainer->nodes = nodes;
	tfc__observer_init(&maintainer->nodes_user, tfc__maintainer_on_nodes);
	maintainer->journal = journal;
	maintainer->end_fn = fn;
	maintainer->end_user = user;
	tfc__timer_init(&maintainer->timer, ctx, on_core_timer);
	tfc__work_init(&maintainer->first_step, ctx, on_first_step);
	tfc__work_init(&maintainer->failing, ctx, tfc__maintainer_notify_failures);
	tfc__maintainer_launch_init(maintainer);
	tfc__list_init(&maintainer->refusals);
	tfc__list_init(&maintainer->zygotes);
	tfc__list_init(&maintainer->placings);
	tfc__list_init(&maintainer->failures);
	tfc__work_init(&maintainer->closing, ctx, close_fenced_links);
	tfc__nodes_join(nodes, &maintainer->nodes_user);
	int code = maintainer_make_core(maintainer);
	if (code < 0)
		tfc__fail_nomem(error, "cluster");
	else
		code = tfc__maintainer_follow_begin(maintainer, error);
	if (code == TFC_OK)
		code = open_only_node(maintainer, error);
	if (code < 0) {
		tfc__maintainer_close(maintainer);
		return code;
	}
	if (resume && (code = tfc__maintainer_resume(maintainer, resume, error)) < 0) {
		tfc__maintainer_close(maintainer);
		return code;
	}
	maintainer->is_resumed = resume != NULL;
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
	tfc__work_cancel(&maintainer->failing);
	tfc__maintainer_launch_fini(maintainer);
	tfc__work_cancel(&maintainer->closing);
	tfc__observer_remove(&maintainer->nodes_user);
	tfc__maintainer_follow_end(maintainer);
	tfc__maintainer_close_links(maintainer);
	for (uint32_t i = 0; i < maintainer->task_count && maintainer->seen; i++) {
		free(maintainer->seen[i].address);
		free(maintainer->seen[i].failure);
		free(maintainer->seen[i].error_line);
		free(maintainer->seen[i].output_loss);
	}
	tfc__refusals_free(&maintainer->refusals);
	tfc__maintainer_free_zygotes(maintainer);
	tfc__core_free(maintainer->core);
	tfc_spec_free(maintainer->spec);
	tfc__strv_fini(&maintainer->hosts);
	free(maintainer->placed);
	free(maintainer->seen);
	free(maintainer);
}

/* The first step of a resumed job queries the nodes of its tasks; it comes before any other
 * event. */
static void start_resumed(struct tfc__maintainer *maintainer)
{
	if (!maintainer->is_resumed)
		return;
	maintainer->is_resumed = false;
	maintainer->busy++;
	tfc__maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_START});
	maintainer->busy--;
}

void tfc__maintainer_stop(struct tfc__maintainer *maintainer, uint32_t interrupt_ms, bool is_kill)
{
	const struct tfc__core_event stop = {.kind = TFC__CORE_STOP,
					     .interrupt_ns = interrupt_ms * TFC__MS,
					     .is_kill = is_kill};
	start_resumed(maintainer);
	if (!maintainer->is_stepping) {
		tfc__maintainer_step(maintainer, &stop);
		return;
	}
	maintainer->stop = stop;
	maintainer->is_stop_waiting = true;
}

void tfc__maintainer_suspend(struct tfc__maintainer *maintainer)
{
	start_resumed(maintainer);
	tfc__maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_SUSPEND});
}

/* ---- queries */

const struct tfc__core *tfc__maintainer_core(const struct tfc__maintainer *maintainer)
{
	return maintainer->core;
}

const char *tfc__maintainer_node(const struct tfc__maintainer *maintainer, uint32_t task)
{
	const struct agent_link *link = maintainer->seen[task].link;
	return link ? link->node->name : "";
}

const char *tfc__maintainer_output_loss(const struct tfc__maintainer *maintainer, uint32_t task)
{
	const char *why = maintainer->seen[task].output_loss;
	return why ? why : "";
}

uint64_t tfc__maintainer_unreachable_ns(const struct tfc__maintainer *maintainer, uint32_t task)
{
	const struct agent_link *link = maintainer->seen[task].link;
	return link ? link->unreachable_ns : 0;
}
