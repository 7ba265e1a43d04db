#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/strv.h"
#include "node/internal.h"

/* ---- end */

static void remote_job_drop_call(struct remote_job *job)
{
	if (job->call)
		tfc__rpc_drop(job->call);
	job->call = NULL;
}

void tfc__remote_disconnect(struct remote_job *job)
{
	remote_job_drop_call(job);
	tfc__bundle_sender_close(job->sender);
	job->sender = NULL;
	tfc__timer_cancel(&job->retry);
	job->is_up = false;
}

static void remote_job_release_bundle(struct remote_job *job)
{
	if (!job->bundle)
		return;
	tfc__observer_remove(&job->bundle_waiter);
	tfc__bundle_leave(job->bundle);
	job->bundle = NULL;
	if (!job->sender)
		return;
	tfc__bundle_sender_close(job->sender);
	job->sender = NULL;
	TFC__LIST_EACH (link, &job->agent->jobs) /* another job may have to offer the bundle now */
		tfc__remote_offer_bundle(tfc__container_of(link, struct remote_job, link));
}

void tfc__remote_free(struct remote_job *job)
{
	if (!job)
		return;
	remote_job_drop_call(job);
	tfc__remote_logs_detach(job);
	tfc__work_cancel(&job->flush);
	tfc__work_cancel(&job->report);
	tfc__timer_cancel(&job->retry);
	tfc__agent_link_fini(&job->stream);
	remote_job_release_bundle(job);
	tfc__list_remove(&job->link);
	job->agent->job_count -= job->state != REMOTE_GONE;
	tfc__remote_update_use(job->agent);
	for (uint32_t i = 0; job->log_tails && i < job->task_count; i++)
		if (job->log_tails[i])
			tfc_strv_free(job->log_tails[i]);
	free(job->log_tails);
	free(job->id);
	free(job);
}

static void remote_job_free_closed(struct remote_job *job)
{
	if (!job->fn && !job->is_reporting && job->state == REMOTE_GONE)
		tfc__remote_free(job);
}

void tfc__remote_lose(struct remote_job *job, enum tfc__task_event_kind word, const char *why)
{
	if (job->state == REMOTE_GONE)
		return;
	job->state = REMOTE_GONE;
	job->agent->job_count--;
	job->is_up = false;
	job->last_event = job->has_ended ? 0 : word;
	if (!*job->why.text)
		tfc__fail(&job->why, TFC_ELOST, "node", 0, "%s", why);
	remote_job_drop_call(job);
	tfc__timer_cancel(&job->retry);
	tfc__work_cancel(&job->flush);
	tfc__agent_link_fini(&job->stream);
	tfc__remote_logs_retry(job, ALL_TASKS);
	if (job->fn && job->last_event)
		tfc__work_schedule(&job->report);
	tfc__remote_update_use(job->agent);
	remote_job_free_closed(job);
}

void tfc__remote_give_up(struct remote_job *job, const char *why)
{
	if (job->state != REMOTE_OPEN)
		return;
	tfc__fail(&job->why, TFC_ELOST, "node", 0, "gave up the job's tasks on node %.128s: %s",
		  job->agent->node, why);
	tfc__log(job->agent->ctx, TFC_LOG_ERROR, "node", job->id, "%s", job->why.text);
	job->state = REMOTE_DROPPING;
	job->is_up = false;
	remote_job_drop_call(job);
	tfc__timer_set(&job->retry, tfc__now()); /* not inside an order */
}

/* ---- the node's last will */

/*
 * The will of an incarnation says nothing about tasks that another one has started. If there may
 * be such, left by an earlier epoch, only the will that the journal has for them counts, until the
 * node has responded to the query about them.
 */
void tfc__remote_update_will(struct remote_job *job)
{
	const struct tfc__remote_agent *agent = job->agent;
	bool is_of_others = job->has_inherited && job->info.will.incarnation != agent->boot;
	if (job->boot == agent->boot && !is_of_others && !job->is_will_known)
		job->will = agent->will;
}

static struct tfc__will_key remote_job_will(const void *user)
{
	const struct remote_job *job = user;
	return job->will;
}

/* ---- events about the whole job */

static void remote_job_notify(struct remote_job *job, const struct tfc__task_event *event)
{
	job->is_reporting = true;
	if (job->fn)
		job->fn(job->user, event);
	job->is_reporting = false;
}

static void remote_job_report(struct remote_job *job)
{
	struct tfc__task_event event = {0};
	if (job->last_event) {
		event.kind = job->last_event;
		event.text = job->why.text;
		job->last_event = 0;
		remote_job_notify(job, &event);
	} else if (job->is_unreachable != job->is_reported_unreachable &&
		   job->state == REMOTE_OPEN) {
		job->is_reported_unreachable = job->is_unreachable;
		event.kind = job->is_unreachable ? TFC__AGENT_UNREACHABLE : TFC__AGENT_REACHABLE;
		if (job->is_unreachable)
			tfc__remote_silence(job, &event);
		remote_job_notify(job, &event);
	}
}

static void remote_job_on_report(struct tfc__work *work)
{
	struct remote_job *job = tfc__container_of(work, struct remote_job, report);
	remote_job_report(job);
	remote_job_free_closed(job);
}

void tfc__remote_set_unreachable(struct remote_job *job, bool is_unreachable)
{
	job->is_unreachable = is_unreachable;
	if (job->fn && job->state == REMOTE_OPEN && is_unreachable != job->is_reported_unreachable)
		tfc__work_schedule(&job->report);
}

/* ---- sending orders */

static int send_order(void *user, const struct tfc__buf *params)
{
	return tfc__rpc_notify(user, "agent.msg", params);
}

void tfc__remote_flush(struct remote_job *job)
{
	if (!job->is_up || !job->agent->rpc)
		return;
	int code = tfc__link_flush(&job->stream, job->agent->instance, job->handle, send_order,
				   job->agent->rpc);
	if (code == TFC_ENOMEM)
		tfc__timer_set(&job->retry, tfc__now() + REMOTE_RETRY);
	else if (code < 0 && code != TFC_ELOST) /* it would fail over each connection */
		tfc__remote_give_up(job, code == TFC_ETOOBIG ? "an order is too large"
							     : tfc_err_text(code));
}

static void remote_job_on_flush(struct tfc__work *work)
{
	tfc__remote_flush(tfc__container_of(work, struct remote_job, flush));
}

static void remote_job_on_retry(struct tfc__timer *timer)
{
	struct remote_job *job = tfc__container_of(timer, struct remote_job, retry);
	if (job->is_up) {
		tfc__remote_offer_bundle(job);
		tfc__remote_flush(job);
	} else {
		tfc__remote_connect(job);
	}
}

static void remote_job_order(void *user, const struct tfc__task_order *order)
{
	struct remote_job *job = user;
	struct tfc__buf body = {0};
	if (job->state != REMOTE_OPEN)
		return;
	job->has_ended |= order->kind == TFC__ORDER_END;
	tfc__order_write(&body, order);
	int code = tfc__agent_link_post(&job->stream, &body);
	tfc__buf_fini(&body);
	if (code < 0)
		tfc__remote_give_up(job, code == TFC_ENOMEM ? "out of memory"
							    : "too many pending orders");
	else
		tfc__work_schedule(&job->flush);
}

/* ---- receiving events */

/* The last lines of a log come with the end of the attempt, because the remote agent cannot be
 * queried for them synchronously. */
static int remote_job_keep_log_tail(struct remote_job *job, const struct tfc__task_event *event,
				    tfc_error *error)
{
	char ***kept = &job->log_tails[event->task];
	struct tfc__strv lines = {0};
	tfc__strv_add_all(&lines, event->log_tail);
	if (lines.is_failed) {
		tfc__strv_fini(&lines);
		return tfc__fail_nomem(error, "node");
	}
	tfc_strv_free(*kept);
	*kept = lines.items;
	return TFC_OK;
}

static void remote_job_deliver(struct remote_job *job, const msgpack_object *body)
{
	struct tfc__reader reader = {.ahead_ns = job->agent->ahead_ns};
	struct tfc__task_event event;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__event_read(&reader, body, job->task_count, &error, &event);
	if (code < 0)
		tfc__fail_prefix(&error, code, "an event of the job cannot be read: ");
	bool is_end = event.kind == TFC__AGENT_EXITED;
	if (code == TFC_OK && is_end)
		code = remote_job_keep_log_tail(job, &event, &error);
	if (code == TFC_OK && is_end)
		tfc__remote_logs_retry(job, event.task);
	if (code < 0)
		tfc__remote_give_up(job, error.text);
	if (code == TFC_OK && event.kind == TFC__AGENT_STATES && job->has_inherited) {
		job->has_inherited = false;
		tfc__remote_update_will(job);
	}
	if (code == TFC_OK && event.kind)
		remote_job_notify(job, &event);
	tfc__reader_fini(&reader);
}

void tfc__remote_receive(struct remote_job *job, const struct tfc__agent_message *message)
{
	if (job->state != REMOTE_OPEN || !job->is_up)
		return;
	int code = tfc__link_receive(&job->stream, message);
	if (code < 0) {
		tfc__remote_give_up(job, "message sequence broken");
		return;
	}
	tfc__work_schedule(&job->flush);
	remote_job_report(job); /* REACHABLE is reported before other events */
	if (code == 1 && job->state == REMOTE_OPEN)
		remote_job_deliver(job, message->body);
	remote_job_free_closed(job);
}

/* ---- operations of the agent */

static void remote_job_on_bundle(struct tfc__observer *waiter, const void *event)
{
	tfc__remote_connect(tfc__container_of(waiter, struct remote_job, bundle_waiter));
}

static int remote_job_open_bundle(struct remote_job *job, tfc_error *error)
{
	const char *path = job->info.job->bundle;
	int code = path ? tfc__bundle_pack(job->agent->bundles, job->id, path, error, &job->bundle)
			: TFC_OK;
	job->bundle_waiter.fn = remote_job_on_bundle;
	if (job->bundle)
		tfc__bundle_await(job->bundle, &job->bundle_waiter);
	return code;
}

static int remote_job_open(void *user, const struct tfc__agent_job_info *info, tfc__agent_fn fn,
			   void *fn_user, void **ret_job, tfc_error *error)
{
	struct tfc__remote_agent *agent = user;
	struct remote_job *job = calloc(1, sizeof(*job));
	if (!job)
		return tfc__fail_nomem(error, "node");
	job->agent = agent;
	job->handle = ++agent->last_handle;
	job->info = *info;
	job->epoch = info->epoch;
	job->fn = fn;
	job->user = fn_user;
	job->since_ns = tfc__boot_time();
	job->task_count = tfc__job_task_count(info->job);
	job->grace_ms = tfc__job_abort_grace_ms(info->job);
	job->has_inherited = info->has_inherited;
	job->will = info->will;
	tfc__agent_link_init(&job->stream, 0);
	tfc__observer_init(&job->bundle_waiter, NULL);
	tfc__work_init(&job->flush, agent->ctx, remote_job_on_flush);
	tfc__work_init(&job->report, agent->ctx, remote_job_on_report);
	tfc__timer_init(&job->retry, agent->ctx, remote_job_on_retry);
	tfc__list_append(&agent->jobs, &job->link);
	agent->job_count++;
	job->id = strdup(info->id);
	job->log_tails = calloc(job->task_count ? job->task_count : 1, sizeof(*job->log_tails));
	int code = job->id && job->log_tails ? remote_job_open_bundle(job, error)
					     : tfc__fail_nomem(error, "node");
	if (code < 0) {
		tfc__remote_free(job);
		return code;
	}
	tfc__remote_update_use(agent);
	tfc__remote_set_unreachable(job, (!agent->rpc && !agent->use) || agent->is_unreachable);
	tfc__remote_begin(agent);
	tfc__timer_set(&job->retry, tfc__now()); /* not inside this call */
	*ret_job = job;
	return TFC_OK;
}

static void remote_job_close(void *user)
{
	struct remote_job *job = user;
	if (!job)
		return;
	job->fn = NULL;
	tfc__remote_logs_detach(job);
	tfc__work_cancel(&job->report);
	remote_job_release_bundle(job);
	if (job->state == REMOTE_OPEN) {
		remote_job_drop_call(job);
		tfc__agent_link_fini(&job->stream);
		job->state = REMOTE_DROPPING;
		job->is_up = false;
		tfc__remote_connect(job);
	} else {
		remote_job_free_closed(job);
	}
}

static int remote_job_log_tail(void *user, uint32_t task, char ***ret_lines)
{
	const struct remote_job *job = user;
	struct tfc__strv lines = {0};
	tfc__strv_add_all(&lines, (const char *const *)job->log_tails[task]);
	char **copy = tfc__strv_steal(&lines);
	if (!copy)
		return TFC_ENOMEM;
	*ret_lines = copy;
	return TFC_OK;
}

const struct tfc__agent_ops tfc__remote_agent_ops = {
	.job_open = remote_job_open,
	.job_close = remote_job_close,
	.order = remote_job_order,
	.will = remote_job_will,
	.log_open = tfc__remote_log_open,
	.log_tail = remote_job_log_tail,
	.kept_log = tfc__remote_kept_log,
	.forget = tfc__remote_forget,
};
