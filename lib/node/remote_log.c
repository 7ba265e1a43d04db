#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "node/internal.h"

#define CREDIT 4               /* batches in flight or buffered here */
#define BUSY_RETRY TFC__SECOND /* while the node is at its limit of logs being read */

/* Received records, each followed by its bytes. */
struct batch {
	struct tfc__link link;
	size_t len;
	size_t at;
	char data[];
};

struct packed_record {
	tfc_log_record record; /* data: unset */
	bool has_data;
};

struct remote_log {
	struct tfc__log_source source;
	struct tfc__link link;           /* in the agent's list */
	struct tfc__remote_agent *agent; /* NULL: closed before this log */
	const struct remote_job *job;    /* the task's job; NULL: a job without a handle */
	char *id;                        /* of the job */
	char name[TFC__LOG_NAME_SIZE];   /* of the log */
	uint32_t task;
	uint64_t wanted; /* the position after all received records */
	struct tfc__rpc_call *call;
	struct tfc__link batches;
	bool is_caught_up;       /* all records that existed at the request have been received */
	tfc_error error;         /* the error that ended it */
	bool is_over;            /* nothing more will be received */
	struct tfc__timer retry; /* set: the request is repeated then */
	struct tfc__work wake;
};

/* ---- receiving */

static void batch_add_record(struct batch *batch, const tfc_log_record *record)
{
	struct packed_record packed = {.record = *record, .has_data = record->data};
	packed.record.data = NULL;
	memcpy(batch->data + batch->len, &packed, sizeof(packed));
	batch->len += sizeof(packed);
	if (!record->data)
		return;
	memcpy(batch->data + batch->len, record->data, record->len);
	batch->len += record->len;
}

/* TFC_OK, TFC_EPARSE, TFC_ENOMEM. */
static int remote_log_receive_batch(struct remote_log *log, const msgpack_object *item)
{
	size_t size = 0;
	if (item->type != MSGPACK_OBJECT_ARRAY)
		return TFC_EPARSE;
	const msgpack_object *records = item->via.array.ptr;
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	for (uint32_t i = 0; i < item->via.array.size; i++) {
		if (!tfc__log_record_read(&records[i], &record))
			return TFC_EPARSE;
		size += sizeof(struct packed_record) + (record.data ? record.len : 0);
	}
	log->is_caught_up = !size;
	struct batch *batch = size ? calloc(1, sizeof(*batch) + size) : NULL;
	if (!size) { /* an empty batch: there is no more now */
		tfc__rpc_more(log->call, 1);
		return TFC_OK;
	}
	if (!batch)
		return TFC_ENOMEM;
	for (uint32_t i = 0; i < item->via.array.size; i++) {
		tfc__log_record_read(&records[i], &record);
		batch_add_record(batch, &record);
		log->wanted = record.next;
	}
	tfc__list_append(&log->batches, &batch->link);
	return TFC_OK;
}

/* The stream is requested again, from where it was interrupted, when there is memory or a
 * connection. */
static void remote_log_stop_call(struct remote_log *log)
{
	if (log->call)
		tfc__rpc_drop(log->call);
	log->call = NULL;
}

static void remote_log_on_item(void *user, const msgpack_object *item)
{
	struct remote_log *log = user;
	int code = remote_log_receive_batch(log, item);
	if (code < 0) {
		remote_log_stop_call(log);
		log->is_over = true;
		tfc__fail(&log->error, code, "node", 0,
			  "cannot read log records of node %.128s: %s", log->agent->node,
			  tfc_err_text(code));
	}
	tfc__work_schedule(&log->wake);
}

static void remote_log_on_end(void *user, int code, const msgpack_object *result,
			      const tfc_error *error)
{
	struct remote_log *log = user;
	log->call = NULL;
	log->is_over = code != TFC_ELOST; /* TFC_ELOST: it is requested again */
	if (log->is_over && code < 0 && code != TFC_ENOENT)
		log->error = *error;
	tfc__work_schedule(&log->wake);
}

/* ---- requesting */

/* Whether the log can be requested. A job that has ended there may have left its log; so may a job
 * of a previous incarnation, which is reported lost only after its lease has certainly expired. */
static bool remote_log_is_available(const struct remote_log *log)
{
	const struct remote_job *job = log->job;
	if (!log->agent || !log->agent->rpc)
		return false;
	return !job || job->is_up || job->state == REMOTE_GONE ||
	       (job->boot && job->boot != log->agent->boot);
}

static void remote_log_request(struct remote_log *log)
{
	struct tfc__buf params = {0};
	tfc_error error = TFC_ERROR_INIT;
	if (log->call || log->is_over || !remote_log_is_available(log))
		return;
	struct tfc__agent_log_call call = {.task = log->task, .position = log->wanted};
	snprintf(call.id, sizeof(call.id), "%s", log->id);
	memcpy(call.name, log->name, sizeof(call.name));
	tfc__fields_write(&params, &tfc__agent_log_fields, &call);
	const struct tfc__rpc_options options = {.method = "agent.log",
						 .params = &params,
						 .credit = CREDIT,
						 .is_low_priority = true,
						 .item = remote_log_on_item,
						 .end = remote_log_on_end,
						 .user = log};
	int code = tfc__rpc_call(log->agent->rpc, &options, &error, &log->call);
	tfc__buf_fini(&params);
	if (code == TFC_OK)
		return;
	log->call = NULL;
	if (code == TFC_EBUSY)
		tfc__timer_set(&log->retry, tfc__now() + BUSY_RETRY);
	if (code == TFC_ELOST || code == TFC_EBUSY)
		return; /* it is requested again at the next read */
	log->is_over = true;
	log->error = error;
}

/* ---- the source */

static struct batch *remote_log_first_batch(const struct remote_log *log)
{
	return tfc__list_is_empty(&log->batches)
		       ? NULL
		       : tfc__container_of(log->batches.next, struct batch, link);
}

static void free_batch(struct batch *batch)
{
	tfc__list_remove(&batch->link);
	free(batch);
}

/* A batch that was read to its end makes room for another. */
static struct batch *remote_log_next_batch(struct remote_log *log)
{
	struct batch *first = remote_log_first_batch(log);
	while (first && first->at == first->len) {
		free_batch(first);
		if (log->call)
			tfc__rpc_more(log->call, 1);
		first = remote_log_first_batch(log);
	}
	return first;
}

/* No record is available now: new ones are requested, or in flight, or there are none. */
static int remote_log_no_record(struct remote_log *log, tfc_error *error)
{
	remote_log_request(log);
	if (log->is_over || !log->agent || (log->call && log->is_caught_up))
		return 0;
	if (log->call || log->retry.at || tfc__remote_is_connecting(log->agent))
		return TFC_EAGAIN;
	return tfc__fail(error, TFC_ELOST, "node", 0, "cannot reach node %.128s", log->agent->node);
}

static int remote_log_next(void *source, tfc_log_record *record, tfc_error *error)
{
	struct remote_log *log = tfc__container_of(source, struct remote_log, source);
	struct batch *batch = remote_log_next_batch(log);
	struct packed_record packed;
	uint32_t size = record->size;
	if (!batch && log->error.code < 0) {
		*error = log->error;
		return log->error.code;
	}
	if (!batch)
		return remote_log_no_record(log, error);
	memcpy(&packed, batch->data + batch->at, sizeof(packed));
	batch->at += sizeof(packed);
	packed.record.data = packed.has_data ? batch->data + batch->at : NULL;
	batch->at += packed.has_data ? packed.record.len : 0;
	packed.record.size = size;
	memcpy(record, &packed.record, size < sizeof(*record) ? size : sizeof(*record));
	return 1;
}

static void remote_log_close(void *source)
{
	struct remote_log *log = tfc__container_of(source, struct remote_log, source);
	remote_log_stop_call(log);
	tfc__timer_cancel(&log->retry);
	tfc__work_cancel(&log->wake);
	tfc__list_remove(&log->link);
	if (log->agent)
		tfc__remote_update_use(log->agent);
	while (remote_log_first_batch(log))
		free_batch(remote_log_first_batch(log));
	free(log->id);
	free(log);
}

static const struct tfc__log_source_ops ops = {remote_log_next, remote_log_close};

static void remote_log_on_wake(struct tfc__work *work)
{
	struct remote_log *log = tfc__container_of(work, struct remote_log, wake);
	remote_log_request(log);
	if (log->source.wake)
		log->source.wake(log->source.user);
}

static void remote_log_on_retry(struct tfc__timer *timer)
{
	remote_log_on_wake(&tfc__container_of(timer, struct remote_log, retry)->wake);
}

static struct tfc__log_source *remote_log_open(struct tfc__remote_agent *agent,
					       const struct remote_job *job, const char *id,
					       const tfc_job *definition, uint32_t task,
					       uint64_t position, tfc_error *error)
{
	uint32_t index;
	const struct tfc__role *role = tfc__job_task_role(definition, task, &index);
	struct remote_log *log = calloc(1, sizeof(*log));
	if (!log || !(log->id = strdup(id))) {
		free(log);
		tfc__fail_nomem(error, "node");
		return NULL;
	}
	log->source.ops = &ops;
	log->agent = agent;
	log->job = job;
	log->task = task;
	log->wanted = position;
	snprintf(log->name, sizeof(log->name), "%s-%u", role->name, index);
	tfc__list_init(&log->batches);
	tfc__list_append(&agent->logs, &log->link);
	tfc__work_init(&log->wake, agent->ctx, remote_log_on_wake);
	tfc__timer_init(&log->retry, agent->ctx, remote_log_on_retry);
	tfc__remote_update_use(agent);
	remote_log_request(log);
	return &log->source;
}

struct tfc__log_source *tfc__remote_log_open(void *user, uint32_t task, uint64_t position,
					     tfc_error *error)
{
	struct remote_job *job = user;
	return remote_log_open(job->agent, job, job->id, job->info.job, task, position, error);
}

struct tfc__log_source *tfc__remote_kept_log(void *agent, const char *id, const tfc_job *job,
					     uint32_t task, uint64_t position, tfc_error *error)
{
	return remote_log_open(agent, NULL, id, job, task, position, error);
}

static struct remote_log *remote_log_of(struct tfc__link *link)
{
	return tfc__container_of(link, struct remote_log, link);
}

void tfc__remote_logs_wake(struct tfc__remote_agent *agent)
{
	TFC__LIST_EACH (link, &agent->logs) {
		if (!agent->rpc)
			remote_log_stop_call(remote_log_of(link));
		tfc__work_schedule(&remote_log_of(link)->wake);
	}
}

/* The log is requested again after the attempt's end was reported, so that "no more" then means the
 * whole attempt. */
void tfc__remote_logs_retry(const struct remote_job *job, uint32_t task)
{
	TFC__LIST_EACH (link, &job->agent->logs) {
		struct remote_log *log = remote_log_of(link);
		if (log->job != job || (task != ALL_TASKS && log->task != task))
			continue;
		remote_log_stop_call(log);
		log->is_caught_up = false;
		tfc__work_schedule(&log->wake);
	}
}

void tfc__remote_logs_detach(const struct remote_job *job)
{
	TFC__LIST_EACH (link, &job->agent->logs)
		if (remote_log_of(link)->job == job)
			remote_log_of(link)->job = NULL;
}

void tfc__remote_logs_end(struct tfc__remote_agent *agent)
{
	TFC__LIST_EACH (link, &agent->logs) {
		struct remote_log *log = remote_log_of(link);
		remote_log_stop_call(log);
		tfc__timer_cancel(&log->retry);
		tfc__work_cancel(&log->wake);
		tfc__list_remove(link);
		log->agent = NULL;
		log->job = NULL;
	}
}
