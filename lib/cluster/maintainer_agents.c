#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fail.h"
#include "cluster/maintainer_state.h"

#define GOOD_LIFE (600 * 1000 * TFC__MS) /* the node worked if an attempt lived this long */

/* ---- events of agents: the core gets them with what the maintainer knows besides */

/* A held port whose address could not be copied counts as a failed HOLD. */
static void note_held(struct tfc__maintainer *maintainer, struct seen *seen,
		      struct tfc__task_event *event)
{
	const char *address = event->address ? event->address : "";
	bool has_address = *address;
	if (strcmp(seen->address ? seen->address : "", address) != 0)
		tfc__maintainer_drop_spec(maintainer);
	free(seen->address);
	seen->address = has_address ? strdup(address) : NULL;
	if (has_address == (seen->address != NULL))
		return;
	event->kind = TFC__AGENT_HOLD_FAILED;
	event->text = "out of memory";
}

/* Converts the wall-clock time of a death to the clock of the core's `now`. */
static uint64_t wall_to_monotonic(uint64_t wall_ns)
{
	uint64_t ago = tfc__wall() - wall_ns;
	uint64_t now = tfc__now();
	return ago < now ? now - ago : now;
}

/* The log explains why the node gets tasks only if they fit nowhere else. */
static void log_cooldown(const struct agent_link *link)
{
	const struct tfc__maintainer *maintainer = link->maintainer;
	uint64_t until, now = tfc__now();
	if (tfc__cooldown_is_on(&link->node->cooldown, now, &until))
		tfc__log(maintainer->ctx, TFC_LOG_WARNING, "cluster", maintainer->info.id,
			 "node %s cools down for %llu s after several failed attempts",
			 link->node->name, (unsigned long long)((until - now) / TFC__SECOND));
}

/* Counts the attempt as a success or failure of its node; the failure of an attempt that was
 * stopped does not count. Returns whether the task should move to another node. */
static bool judge_node(struct agent_link *link, const struct seen *seen,
		       const struct tfc__attempt_end *end)
{
	uint64_t lived = seen->started_ns ? tfc__now() - seen->started_ns : 0;
	bool is_good = end->reason == TFC_EXIT_CODE && end->status == 0;
	if (is_good || lived >= GOOD_LIFE)
		tfc__nodes_worked(link->node);
	else if (!seen->is_stopped && tfc__nodes_failed(link->node) &&
		 !tfc__nodes_alone(link->maintainer->nodes)) {
		log_cooldown(link);
		return true;
	}
	return false;
}

static void note_end(struct agent_link *link, struct seen *seen, struct tfc__attempt_end *end)
{
	/* 0: it had no log, and that of an earlier attempt ends where it did */
	if (end->reason == TFC_EXIT_LOST || end->log_end > seen->log_end)
		seen->log_end = end->log_end;
	end->time_ns = wall_to_monotonic(end->time_ns);
	end->is_node_bad = judge_node(link, seen, end);
}

/* If this node is the only member, the task fails. Otherwise another node may have room. */
static void note_refusal(struct agent_link *link, struct tfc__task_event *event)
{
	struct tfc__maintainer *maintainer = link->maintainer;
	const tfc_job *job = maintainer->info.job;
	if (!event->is_full && tfc__nodes_alone(maintainer->nodes))
		return;
	tfc__log(maintainer->ctx, TFC_LOG_INFO, "cluster", maintainer->info.id,
		 "node %s refused a task: %s", link->node->name, event->text ? event->text : "");
	if (event->is_full || tfc__refusals_note(&maintainer->refusals, link->node, job, event) < 0)
		tfc__nodes_refused(link->node);
	event->is_full = true;
}

static void note_lost(struct agent_link *link, const char *why)
{
	struct tfc__maintainer *maintainer = link->maintainer;
	uint32_t lost = 0;
	link->is_lost = true;
	link->unreachable_ns = 0;
	tfc__maintainer_drop_zygotes(link);
	for (uint32_t i = 0; i < maintainer->task_count; i++)
		if (maintainer->seen[i].link == link) {
			tfc__maintainer_drop_launch(maintainer, i);
			tfc__maintainer_release(maintainer, i);
			lost++;
		}
	if (lost)
		tfc__log(maintainer->ctx, TFC_LOG_INFO, "cluster", maintainer->info.id,
			 "lost %u task%s: %s", lost, lost == 1 ? "" : "s", why);
}

/* "12:00:00" */
static void clock_text(uint64_t wall_ns, char text[16])
{
	time_t seconds = (time_t)(wall_ns / TFC__SECOND);
	struct tm utc = {0};
	gmtime_r(&seconds, &utc);
	strftime(text, 16, "%H:%M:%S", &utc);
}

/*
 * A slow node may be unreachable every few seconds. The journal keeps every entry, so it gets one
 * such pair in this time; the log has all of them.
 */
#define NOTE_PAUSE (60 * TFC__SECOND)

static bool note_is_due(struct agent_link *link)
{
	link->is_noted = !link->noted_at || tfc__now() >= link->noted_at + NOTE_PAUSE;
	if (link->is_noted)
		link->noted_at = tfc__now();
	return link->is_noted;
}

static void note_unreachable(struct agent_link *link, const struct tfc__task_event *event,
			     char *text, size_t size)
{
	text[0] = '\0';
	if (!event->number) /* this node or the job has just begun, and connects */
		return;
	uint64_t until_lost = ((uint64_t)event->number + 999) / 1000;
	char since[16];
	link->unreachable_ns = tfc__wall() - event->silent_ms * TFC__MS;
	clock_text(link->unreachable_ns, since);
	snprintf(text, size,
		 "node %s has been unreachable since %s UTC; its tasks are lost unless it responds "
		 "within %llu s",
		 link->node->name, since, (unsigned long long)until_lost);
	tfc__log(link->maintainer->ctx, TFC_LOG_INFO, "cluster", link->maintainer->info.id, "%s",
		 text);
	if (!note_is_due(link))
		text[0] = '\0';
}

static void note_reachable(struct agent_link *link, char *text, size_t size)
{
	char since[16], until[16];
	text[0] = '\0';
	if (!link->unreachable_ns)
		return;
	clock_text(link->unreachable_ns, since);
	clock_text(tfc__wall(), until);
	link->unreachable_ns = 0;
	snprintf(text, size, "node %s responds again; it was unreachable from %s to %s UTC",
		 link->node->name, since, until);
	tfc__log(link->maintainer->ctx, TFC_LOG_INFO, "cluster", link->maintainer->info.id, "%s",
		 text);
	if (!link->is_noted)
		text[0] = '\0';
}

/* Whether the event is about a task that is not on this node any more. */
static bool is_event_stale(const struct agent_link *link, const struct tfc__task_event *event)
{
	bool is_of_task = event->kind <= TFC__AGENT_STACKED || event->kind == TFC__AGENT_NOTICE;
	return is_of_task && link->maintainer->seen[event->task].link != link;
}

static void note_output_loss(struct seen *seen, const struct tfc__task_event *event)
{
	bool is_lost = event->kind == TFC__AGENT_NOTICE && event->number == TFC__NOTICE_OUTPUT_LOST;
	if (event->kind == TFC__AGENT_NOTICE && event->number == TFC__NOTICE_OTHER)
		return;
	free(seen->output_loss);
	seen->output_loss = is_lost && event->text ? strdup(event->text) : NULL;
}

void tfc__maintainer_on_agent(void *user, const struct tfc__task_event *reported)
{
	struct agent_link *link = user;
	struct tfc__maintainer *maintainer = link->maintainer;
	struct tfc__task_event event = *reported;
	struct seen *seen = &maintainer->seen[event.task];
	char why[1024];
	if (link->is_lost || is_event_stale(link, &event))
		return;
	if (event.kind == TFC__AGENT_ZYGOTE) { /* no concern of the core's */
		tfc__maintainer_note_zygote(link, &event);
		return;
	}
	if (event.process) {
		seen->pid = event.pid;
		seen->isolation = event.isolation;
	}
	switch (event.kind) {
	case TFC__AGENT_HELD:
		note_held(maintainer, seen, &event);
		break;
	case TFC__AGENT_HOLD_FAILED:
		note_refusal(link, &event);
		break;
	case TFC__AGENT_STARTED:
		seen->started_ns = tfc__now();
		seen->memory_limit = event.memory_limit;
		free(seen->error_line);
		seen->error_line = NULL;
		break;
	case TFC__AGENT_NOTICE:
		note_output_loss(seen, &event);
		break;
	case TFC__AGENT_EXITED:
		note_output_loss(seen, &event);
		note_end(link, seen, &event.end);
		free(seen->error_line);
		seen->error_line = event.error_line ? strdup(event.error_line) : NULL;
		break;
	case TFC__AGENT_REFUSED: /* it may be the spec that the node could not use */
		link->spec_generation = 0;
		break;
	case TFC__AGENT_LOST:
		snprintf(why, sizeof(why), "node %s: %s", link->node->name,
			 event.text && *event.text ? event.text : "its tasks of the job are lost");
		event.text = why;
		note_lost(link, why);
		break;
	case TFC__AGENT_FENCED:
		tfc__log(maintainer->ctx, TFC_LOG_WARNING, "cluster", maintainer->info.id,
			 "node %s accepts no more orders for the job from this node (a later epoch "
			 "has begun): %s",
			 link->node->name, event.text ? event.text : "");
		link->is_lost = true;
		tfc__maintainer_drop_zygotes(link);
		break;
	case TFC__AGENT_UNREACHABLE:
		note_unreachable(link, &event, why, sizeof(why));
		event.text = why;
		break;
	case TFC__AGENT_REACHABLE:
		note_reachable(link, why, sizeof(why));
		event.text = why;
		break;
	default:
		break;
	}
	if (!maintainer->end && event.task == maintainer->first_rank &&
	    (event.kind == TFC__AGENT_READY || event.kind == TFC__AGENT_EXITED ||
	     event.kind == TFC__AGENT_REFUSED))
		tfc__maintainer_end_head_start(maintainer);
	tfc__maintainer_step(maintainer, &(struct tfc__core_event){.kind = TFC__CORE_REPORT,
								   .node = link->number,
								   .report = &event});
}

/* ---- requests to agents */

/* Keeps the reason of a failure that is reported in a turn of its own. */
static void failure_set_text(char **failure, const tfc_error *error)
{
	free(*failure);
	*failure = strdup(error->text);
}

/* A request that could not be made gets its response later, like any other. */
void tfc__maintainer_fail(struct tfc__maintainer *maintainer, uint32_t task,
			  enum tfc__task_event_kind response, uint32_t number,
			  const tfc_error *error)
{
	struct seen *seen = &maintainer->seen[task];
	seen->failed = response;
	seen->failed_number = number;
	failure_set_text(&seen->failure, error);
	tfc__list_remove(&seen->failure_link);
	tfc__list_append(&maintainer->failures, &seen->failure_link);
	tfc__work_schedule(&maintainer->failing);
}

static const char *failure_text(const char *failure)
{
	return failure ? failure : "out of memory";
}

void tfc__maintainer_notify_failures(struct tfc__work *work)
{
	struct tfc__maintainer *maintainer = tfc__container_of(work, struct tfc__maintainer,
							       failing);
	struct tfc__link due;
	maintainer->busy++;
	tfc__list_init(&due);
	tfc__list_move(&due, &maintainer->failures);
	for (uint32_t i = 0; i < maintainer->link_count; i++)
		if (maintainer->links[i]->is_unopened && !maintainer->links[i]->is_lost)
			tfc__maintainer_on_agent(
				maintainer->links[i],
				&(struct tfc__task_event){.kind = TFC__AGENT_LOST,
							  .text = failure_text(
								  maintainer->links[i]->failure)});
	while (!tfc__list_is_empty(&due)) {
		struct seen *seen = tfc__container_of(due.next, struct seen, failure_link);
		char *failure = seen->failure;
		seen->failure = NULL;
		tfc__list_remove(&seen->failure_link);
		const struct tfc__task_event event = {.kind = seen->failed,
						      .task = (uint32_t)(seen - maintainer->seen),
						      .attempt = seen->failed_number,
						      .number = seen->failed_number,
						      .text = failure_text(failure)};
		tfc__maintainer_step(maintainer,
				     &(struct tfc__core_event){.kind = TFC__CORE_REPORT,
							       .node = seen->link->number,
							       .report = &event});
		free(failure);
	}
	maintainer->busy--;
	tfc__maintainer_settle(maintainer);
}

/* Opens the node's job for a HOLD. */
static bool open_for_hold(struct tfc__maintainer *maintainer, struct agent_link *link,
			  const struct tfc__task_order *order)
{
	struct seen *seen = &maintainer->seen[order->task];
	tfc_error error = TFC_ERROR_INIT;
	if (seen->link != link)
		seen->log_end = 0; /* the position was in another log */
	seen->link = link;
	tfc__maintainer_acquire(maintainer, order->task, link);
	if (tfc__maintainer_open_link(link, &error) == TFC_OK)
		return true;
	tfc__maintainer_fail(maintainer, order->task, TFC__AGENT_HOLD_FAILED, order->number,
			     &error);
	return false;
}

/* On a node of an earlier epoch this is the first request. */
static bool open_for_query(struct tfc__maintainer *maintainer, struct agent_link *link)
{
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__maintainer_open_link(link, &error) == TFC_OK)
		return true;
	failure_set_text(&link->failure, &error);
	struct tfc__agent_handle agent = tfc__nodes_agent(link->node);
	link->is_unopened = true;
	/* attempts of the previous incarnation may still run there */
	if (agent.ops && agent.ops->after_previous)
		agent.ops->after_previous(agent.agent, &maintainer->failing);
	else
		tfc__work_schedule(&maintainer->failing);
	return false;
}

/* An order about an attempt whose launch is still pending gets its response here. */
static bool respond_for_pending_launch(struct tfc__maintainer *maintainer,
				       const struct tfc__task_order *order)
{
	const struct launch *launch = &maintainer->seen[order->task].launch;
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__list_is_empty(&launch->link))
		return false;
	if (order->kind == TFC__ORDER_STACKS) {
		tfc__maintainer_fail(maintainer, order->task, TFC__AGENT_STACKED, launch->attempt,
				     &error);
		return true;
	}
	tfc__maintainer_drop_launch(maintainer, order->task);
	tfc__fail(&error, TFC_ECANCELED, "cluster", 0, "stopped before it started");
	tfc__maintainer_fail(maintainer, order->task, TFC__AGENT_REFUSED, launch->attempt, &error);
	return true;
}

void tfc__maintainer_order(struct tfc__maintainer *maintainer, uint32_t node,
			   const struct tfc__task_order *order)
{
	if (node >= maintainer->link_count)
		return;
	struct agent_link *link = maintainer->links[node];
	struct seen *seen = &maintainer->seen[order->task];
	switch (order->kind) {
	case TFC__ORDER_HOLD:
		if (!open_for_hold(maintainer, link, order))
			return;
		break;
	case TFC__ORDER_LAUNCH:
		tfc__maintainer_note_launch(maintainer, order); /* ordered once it is stored */
		return;
	case TFC__ORDER_STOP:
	case TFC__ORDER_STACKS:
		if (respond_for_pending_launch(maintainer, order))
			return;
		seen->is_stopped |= order->kind == TFC__ORDER_STOP;
		break;
	case TFC__ORDER_SIGNAL:
		seen->is_stopped = true;
		break;
	case TFC__ORDER_RELEASE:
		tfc__list_remove(&seen->failure_link); /* a HOLD that could not be requested */
		tfc__maintainer_release(maintainer, order->task);
		break;
	case TFC__ORDER_QUERY:
		if (!open_for_query(maintainer, link))
			return;
		break;
	default:
		break;
	}
	if (link->job)
		link->ops->order(link->job, order);
}

int tfc__maintainer_order_task(struct tfc__maintainer *maintainer, uint32_t task,
			       enum tfc__order_kind kind, uint32_t number, tfc_error *error)
{
	const struct agent_link *link = maintainer->seen[task].link;
	const struct tfc__journal_task *known = tfc__journal_task(maintainer->journal, task);
	if (!link || !link->job || link->is_lost || link->unreachable_ns)
		return tfc__fail(error, TFC_ELOST, "cluster", 0, "node %s cannot be reached now",
				 known->node);
	tfc__maintainer_order(maintainer, link->number,
			      &(struct tfc__task_order){.kind = kind,
							.task = task,
							.attempt = known->attempt,
							.generation = known->generation,
							.number = number});
	return TFC_OK;
}
