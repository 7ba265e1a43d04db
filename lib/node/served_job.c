#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "node/internal.h"

static const struct tfc__agent_ops *served_job_ops(const struct served_job *job)
{
	return job->session->service->agent.ops;
}

struct served_job *tfc__served_job_find(struct session *session, uint64_t handle)
{
	TFC__LIST_EACH (link, &session->buckets[handle % JOB_BUCKETS]) {
		struct served_job *job = tfc__container_of(link, struct served_job, link);
		if (job->handle == handle)
			return job;
	}
	return NULL;
}

/* ---- end */

void tfc__served_job_free(struct served_job *job)
{
	tfc__served_logs_end(job);
	tfc__work_cancel(&job->flush);
	tfc__work_cancel(&job->freeing);
	tfc__work_cancel(&job->response);
	tfc__timer_cancel(&job->retry);
	if (job->local)
		served_job_ops(job)->job_close(job->local);
	tfc__bundle_leave(job->bundle);
	if (job->is_forgotten)
		tfc__agent_forget_logs(job->session->service->agent.agent, job->id);
	tfc__agent_link_fini(&job->stream);
	tfc__list_remove(&job->link);
	tfc__list_remove(&job->all);
	tfc__name_remove(&job->named);
	tfc__session_job_freed(job->session);
	tfc_job_free(job->job);
	free(job->is_launched);
	free(job->tag);
	free(job->id);
	free(job);
}

static void served_job_on_ended(struct tfc__work *work)
{
	tfc__served_job_free(tfc__container_of(work, struct served_job, freeing));
}

static void served_job_free_when_ended(struct served_job *job)
{
	if (job->is_ending && !job->launched)
		tfc__work_schedule(&job->freeing);
}

static void served_job_end(struct served_job *job, uint32_t grace_ms)
{
	job->is_ending = true;
	job->is_up = false;
	for (uint32_t i = 0; i < job->task_count && job->launched; i++)
		if (job->is_launched[i])
			served_job_ops(job)->order(
				job->local, &(struct tfc__task_order){.kind = TFC__ORDER_STOP,
								      .task = i,
								      .number = grace_ms});
	served_job_free_when_ended(job);
}

void tfc__served_job_abort(struct served_job *job)
{
	served_job_end(job, tfc__job_abort_grace_ms(job->job));
}

static void served_job_report_end(struct served_job *job, const char *word)
{
	struct tfc__agent_message message = {.handle = job->handle};
	struct tfc__buf item = {0};
	strcpy(message.gone, word);
	tfc__agent_message_write(&item, &message);
	int code = tfc__session_notify(job->session, &item);
	tfc__buf_fini(&item);
	if (code < 0)
		tfc__session_disconnect(job->session); /* the maintainer then resumes the job */
}

/* The stream has a gap: the state of earlier orders is unknown. */
static void served_job_give_up(struct served_job *job, const char *why)
{
	tfc__log(job->session->service->ctx, TFC_LOG_ERROR, "node", job->id,
		 "gave up the job's tasks, which the maintainer on node %s had started: %s",
		 job->session->name, why);
	served_job_report_end(job, "lost");
	tfc__served_job_abort(job);
}

/* ---- sending events */

static int send_event(void *user, const struct tfc__buf *item)
{
	return tfc__session_notify(user, item);
}

void tfc__served_job_flush(struct served_job *job)
{
	if (!job->is_up)
		return;
	int code = tfc__link_flush(&job->stream, job->session->instance, job->handle, send_event,
				   job->session);
	if (code == TFC_ENOMEM)
		tfc__served_job_later(job, SERVED_RETRY);
	else if (code < 0 && code != TFC_ELOST && code != TFC_ESTATE) /* ESTATE: when it has room */
		served_job_give_up(job, code == TFC_ETOOBIG ? "an event is too large"
							    : tfc_err_text(code));
}

void tfc__served_job_later(struct served_job *job, uint64_t ns)
{
	uint64_t at = tfc__now() + ns;
	if (!job->retry.at || at < job->retry.at)
		tfc__timer_set(&job->retry, at);
}

static void served_job_on_flush(struct tfc__work *work)
{
	tfc__served_job_flush(tfc__container_of(work, struct served_job, flush));
}

static void served_job_on_retry(struct tfc__timer *timer)
{
	tfc__served_job_flush(tfc__container_of(timer, struct served_job, retry));
}

static void served_job_post(struct served_job *job, const struct tfc__task_event *event)
{
	struct tfc__buf body = {0};
	if (job->is_ending)
		return;
	tfc__event_write(&body, event);
	int code = tfc__agent_link_post(&job->stream, &body);
	tfc__buf_fini(&body);
	if (code < 0)
		served_job_give_up(job, code == TFC_ENOMEM ? "out of memory"
							   : "too many pending events");
	else
		tfc__work_schedule(&job->flush);
}

static void served_job_on_event(void *user, const struct tfc__task_event *event)
{
	struct served_job *job = user;
	struct tfc__task_event sent = *event;
	char **log_tail = NULL;
	if (event->kind == TFC__AGENT_EXITED &&
	    served_job_ops(job)->log_tail(job->local, event->task, &log_tail) == TFC_OK)
		sent.log_tail = (const char *const *)log_tail;
	served_job_post(job, &sent);
	tfc_strv_free(log_tail);
	if (event->kind == TFC__AGENT_EXITED || event->kind == TFC__AGENT_REFUSED) {
		job->launched -= job->is_launched[event->task];
		job->is_launched[event->task] = false;
		served_job_free_when_ended(job);
	}
}

/* ---- receiving orders */

static void served_job_report_states(struct tfc__work *work)
{
	struct served_job *job = tfc__container_of(work, struct served_job, response);
	uint8_t *states = calloc(job->task_count ? job->task_count : 1, sizeof(*states));
	const struct tfc__task_event event = {.kind = TFC__AGENT_STATES,
					      .number = job->query,
					      .states = states,
					      .state_count = job->task_count};
	job->query = 0;
	if (states)
		served_job_post(job, &event); /* TFC__PROC_NONE, for each task */
	else
		served_job_give_up(job, "out of memory");
	free(states);
}

/*
 * A job that the agent could not open holds and runs nothing, so none of its tasks is alive once
 * the tasks of this node's previous incarnation have ended.
 */
static void served_job_refuse_order(struct served_job *job, const struct tfc__task_order *order)
{
	if (order->kind == TFC__ORDER_QUERY) {
		job->query = order->number;
		tfc__agent_after_previous(job->session->service->agent.agent, &job->response);
	}
	struct tfc__task_event event = {.task = order->task,
					.attempt = order->attempt,
					.number = order->number,
					.text = job->error.text};
	event.kind = order->kind == TFC__ORDER_HOLD ? TFC__AGENT_HOLD_FAILED : TFC__AGENT_REFUSED;
	if (order->kind == TFC__ORDER_HOLD || order->kind == TFC__ORDER_LAUNCH)
		served_job_post(job, &event);
}

static void served_job_order(struct served_job *job, const struct tfc__task_order *order)
{
	if (order->task >= job->task_count)
		return;
	if (order->kind == TFC__ORDER_SPEC)
		job->is_unreadable = false;
	if (!job->local || (order->kind == TFC__ORDER_LAUNCH && job->is_unreadable)) {
		served_job_refuse_order(job, order);
		return;
	}
	if (order->kind == TFC__ORDER_LAUNCH) {
		job->launched += !job->is_launched[order->task];
		job->is_launched[order->task] = true;
	}
	served_job_ops(job)->order(job->local, order);
	/* Its log is read without it, unless the log is removed with it. */
	if (order->kind == TFC__ORDER_END && !job->launched &&
	    tfc__agent_keeps_logs(job->session->service->agent.agent)) {
		served_job_report_end(job, "ended");
		tfc__served_job_abort(job);
	}
}

/* If the spec or the variables cannot be read, the launches that follow are refused with that
 * error. */
static void served_job_receive_order(struct served_job *job, const msgpack_object *body)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__task_order order;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__order_read(&reader, body, &error, &order);
	if (code < 0)
		tfc__fail_prefix(&error, code, "an order cannot be read: ");
	if (code == TFC_OK) {
		served_job_order(job, &order);
	} else if (order.kind == TFC__ORDER_SPEC || order.kind == TFC__ORDER_ENV) {
		if (job->local) {
			job->error = error;
			job->is_unreadable = true;
		}
		tfc__log(job->session->service->ctx, TFC_LOG_ERROR, "node", job->id, "%s",
			 error.text);
	} else {
		served_job_give_up(job, error.text);
	}
	tfc_spec_free(order.spec);
	tfc__reader_fini(&reader);
}

void tfc__served_job_receive(struct served_job *job, const msgpack_object *params)
{
	if (job->is_ending || !job->is_up)
		return;
	struct tfc__agent_message message;
	int code = tfc__agent_message_read(params, NULL, &message);
	if (code == TFC_OK)
		code = tfc__link_receive(&job->stream, &message);
	if (code < 0) {
		served_job_give_up(job, "message sequence broken");
		return;
	}
	tfc__work_schedule(&job->flush);
	if (code == 1)
		served_job_receive_order(job, message.body);
}

void tfc__served_job_lost(struct served_job *job)
{
	job->is_up = false;
}

/* ---- open, drop */

static void served_job_reply(struct tfc__rpc_request *request, const char *state, uint64_t received)
{
	struct tfc__call_opened result = {.received = received};
	strcpy(result.state, state);
	tfc__rpc_reply_message(request, &tfc__agent_opened_fields, &result);
}

struct served_job *tfc__served_job_find_id(struct tfc__agent_service *service, const char *id)
{
	struct tfc__named *named = tfc__name_find(&service->job_ids, id);
	return named ? tfc__container_of(named, struct served_job, named) : NULL;
}

static int served_job_read(struct served_job *job, const struct tfc__call_open *open,
			   tfc_error *error)
{
	int code = tfc__job_parse_stored(open->job_json, (size_t)open->job_json_len, "job", error,
					 &job->job);
	if (code < 0)
		return code;
	job->epoch = open->epoch;
	job->has_minimal_env = open->has_minimal_env;
	job->task_count = tfc__job_task_count(job->job);
	job->id = strdup(open->target.id);
	job->is_launched = calloc(job->task_count ? job->task_count : 1, sizeof(bool));
	job->tag = malloc(open->host_tag_len ? (size_t)open->host_tag_len : 1);
	if (!job->id || !job->is_launched || !job->tag)
		return tfc__fail_nomem(error, "node");
	tfc__name_add(&job->session->service->job_ids, &job->named, job->id);
	if (open->host_tag_len)
		memcpy(job->tag, open->host_tag, (size_t)open->host_tag_len);
	return TFC_OK;
}

/* Its maintainer offers the bundle to this node (bundle/transfer.h), before or after this call. */
static int served_job_acquire_bundle(struct served_job *job, const struct tfc__call_open *open,
				     tfc_error *error)
{
	struct tfc__bundles *bundles = job->session->service->bundles;
	if (!job->job->bundle)
		return TFC_OK;
	if (open->bundle_error)
		return tfc__bundle_failed(bundles, open->bundle_error, error, &job->bundle);
	if (open->bundle)
		return tfc__bundle_acquire(bundles, open->bundle->hash, open->bundle->size, error,
					   &job->bundle);
	return tfc__fail(error, TFC_EINVAL, "node", 0,
			 "the request does not name the job's bundle");
}

static void served_job_open_local(struct served_job *job, uint64_t tag_len)
{
	struct tfc__agent_handle agent = job->session->service->agent;
	const struct tfc__agent_job_info info = {.id = job->id,
						 .job = job->job,
						 .host_tag = tag_len ? job->tag : NULL,
						 .host_tag_len = (size_t)tag_len,
						 .epoch = job->epoch,
						 .has_minimal_env = job->has_minimal_env,
						 .bundle = job->bundle,
						 .lease = job->session->lease};
	int code = agent.ops->job_open(agent.agent, &info, served_job_on_event, job, &job->local,
				       &job->error);
	if (code == TFC_OK)
		tfc__agent_remote_job_logs_received(agent.agent, job->id, job->session->name);
	else
		tfc__log(job->session->service->ctx, TFC_LOG_ERROR, "node", job->id, "%s",
			 job->error.text);
}

static struct served_job *served_job_new(struct session *session, const struct tfc__call_open *open,
					 tfc_error *error)
{
	struct tfc__agent_service *service = session->service;
	struct served_job *job = calloc(1, sizeof(*job));
	if (!job) {
		tfc__fail_nomem(error, "node");
		return NULL;
	}
	job->session = session;
	job->handle = open->target.handle;
	tfc__agent_link_init(&job->stream, 0);
	tfc__list_init(&job->logs);
	tfc__list_init(&job->named.link);
	tfc__work_init(&job->flush, service->ctx, served_job_on_flush);
	tfc__work_init(&job->freeing, service->ctx, served_job_on_ended);
	tfc__work_init(&job->response, service->ctx, served_job_report_states);
	tfc__timer_init(&job->retry, service->ctx, served_job_on_retry);
	tfc__list_append(&session->buckets[job->handle % JOB_BUCKETS], &job->link);
	tfc__list_append(&service->jobs, &job->all);
	session->job_count++;
	service->job_count++;
	if (served_job_read(job, open, error) < 0 ||
	    served_job_acquire_bundle(job, open, error) < 0) {
		tfc__served_job_free(job);
		return NULL;
	}
	if (open->refused)
		tfc__fail(&job->error, TFC_EACCES, "node", 0, "%s", open->refused);
	else
		served_job_open_local(job, open->host_tag_len);
	return job;
}

/* A repeated open: over another connection, or because the response was lost. */
static void served_job_resume(struct served_job *job, struct tfc__rpc_request *request,
			      uint64_t received)
{
	if (job->is_ending) {
		served_job_reply(request, "busy", 0);
	} else if (tfc__agent_link_resume(&job->stream, received) < 0) {
		served_job_give_up(job, "the maintainer has lost the node's events");
		served_job_reply(request, "busy", 0);
	} else {
		served_job_reply(request, "open", job->stream.received);
		job->is_up = true;
		tfc__served_job_flush(job);
	}
}

static void served_job_open_new(struct session *session, struct tfc__rpc_request *request,
				const struct tfc__call_open *open)
{
	tfc_error error = TFC_ERROR_INIT;
	struct served_job *job = served_job_new(session, open, &error);
	if (!job) {
		tfc__rpc_fail(request, &error);
		return;
	}
	job->is_up = true;
	served_job_reply(request, "open", 0);
}

/*
 * Tasks of a lower epoch are ended before a higher epoch gets anything. So are tasks of the same
 * maintainer: it opens the job again when it considers them lost, while by this node's clock, which
 * a hypervisor may have paused, their lease is still valid.
 */
static void served_job_open_after(struct served_job *older, const struct session *session,
				  struct tfc__rpc_request *request, uint64_t epoch)
{
	bool is_own = older->session->instance == session->instance && epoch == older->epoch;
	if (!older->is_ending && epoch <= older->epoch && !is_own) {
		served_job_reply(request, "fenced", 0);
		return;
	}
	if (!older->is_ending) {
		served_job_report_end(older, is_own ? "lost" : "fenced");
		tfc__served_job_abort(older);
	}
	served_job_reply(request, "busy", 0);
}

/* Whether the job belongs to an earlier session of the same process, whose lease expired. */
static bool served_job_is_leaving(const struct served_job *job, const struct session *session)
{
	return job && job->is_ending && job->session->instance == session->instance;
}

static int check_job_id(const char *id, tfc_error *error)
{
	if (tfc__is_job_id(id))
		return TFC_OK;
	return tfc__fail(error, TFC_EINVAL, "node", 0,
			 "invalid job id; it has 16 hexadecimal digits");
}

void tfc__served_job_open(struct session *session, struct tfc__rpc_request *request,
			  const msgpack_object *params)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__call_open open;
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__params_read(&reader, &tfc__agent_open_fields, params, &error, &open);
	struct served_job *job = tfc__served_job_find(session, open.target.handle);
	struct served_job *older = tfc__served_job_find_id(session->service, open.target.id);
	if (code == TFC_OK && !job)
		code = check_job_id(open.target.id, &error);
	if (code < 0)
		tfc__rpc_fail(request, &error);
	else if (job)
		served_job_resume(job, request, open.received);
	else if (!open.job_json)
		served_job_reply(request,
				 served_job_is_leaving(older, session) ? "busy" : "unknown", 0);
	else if (older)
		served_job_open_after(older, session, request, open.epoch);
	else
		served_job_open_new(session, request, &open);
	tfc__reader_fini(&reader);
}

void tfc__served_job_drop(struct session *session, struct tfc__rpc_request *request,
			  const struct tfc__agent_target *target)
{
	struct served_job *job = tfc__served_job_find(session, target->handle);
	tfc_error error = TFC_ERROR_INIT;
	if (!job && check_job_id(target->id, &error) < 0) {
		tfc__rpc_fail(request, &error);
		return;
	}
	if (!job) {
		job = tfc__served_job_find_id(session->service, target->id);
		job = served_job_is_leaving(job, session) ? job : NULL;
	}
	if (job)
		served_job_end(job, 0);
	served_job_reply(request, job ? "busy" : "unknown", 0);
}
