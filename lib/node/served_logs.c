#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "node/internal.h"

/*
 * Log records are sent in batches, each an item of the request's stream, and only as many as the
 * reader has given credit for. So a slow reader uses bounded memory on both nodes.
 */
#define BATCH_BYTES (64 * 1024)
#define BATCH_RECORDS 1024
#define BATCHES_A_TURN 8

struct log_stream {
	struct tfc__link link; /* in its job's list */
	struct tfc__log_source *source;
	struct tfc__rpc_request *request;
	struct tfc__work pump;
	bool is_end_reported; /* the reader knows that there is no more now */
};

/* A stream ends only by a failure. */
static void log_stream_fail(struct log_stream *stream, const tfc_error *error)
{
	tfc__rpc_watch(stream->request, NULL, NULL, NULL);
	tfc__rpc_fail(stream->request, error);
	tfc__work_cancel(&stream->pump);
	tfc__list_remove(&stream->link);
	if (stream->source)
		stream->source->ops->close(stream->source);
	free(stream);
}

/* Returns the number of records in the batch; *ret_code may be an error that occurred after them.
 */
static uint32_t log_stream_read_batch(struct log_stream *stream, struct tfc__buf *records,
				      int *ret_code, tfc_error *error)
{
	tfc_log_record record = TFC_LOG_RECORD_INIT;
	uint32_t count = 0;
	*ret_code = 1;
	while (*ret_code == 1 && records->len < BATCH_BYTES && count < BATCH_RECORDS) {
		*ret_code = stream->source->ops->next(stream->source, &record, error);
		if (*ret_code == 1) {
			tfc__log_record_write(records, &record);
			count++;
		}
	}
	return count;
}

/* TFC_OK, or the error that ends the stream; *ret_has_more: another batch is pending. */
static int log_stream_send_batch(struct log_stream *stream, bool *ret_has_more, tfc_error *error)
{
	struct tfc__buf records = {0}, item = {0};
	int read;
	uint32_t count = log_stream_read_batch(stream, &records, &read, error);
	int code = read < 0 ? read : TFC_OK;
	*ret_has_more = read == 1 || count; /* the last batch is followed by an empty one */
	tfc__msg_array(&item, count);
	tfc__buf_add(&item, records.data, records.len);
	item.is_failed |= records.is_failed;
	if (count || !stream->is_end_reported) {
		stream->is_end_reported = !count;
		int sent = tfc__rpc_item(stream->request, &item);
		if (sent < 0)
			code = tfc__fail(error, sent, "node", 0, "cannot send log records");
	}
	tfc__buf_fini(&records);
	tfc__buf_fini(&item);
	return code;
}

static void log_stream_pump(struct tfc__work *work)
{
	struct log_stream *stream = tfc__container_of(work, struct log_stream, pump);
	tfc_error error = TFC_ERROR_INIT;
	bool has_more = true;
	for (int i = 0; has_more && i < BATCHES_A_TURN; i++) {
		if (!tfc__rpc_credit(stream->request))
			return;
		if (log_stream_send_batch(stream, &has_more, &error) < 0) {
			log_stream_fail(stream, &error);
			return;
		}
	}
	if (has_more)
		tfc__work_schedule(&stream->pump);
}

static void log_stream_wake(void *user)
{
	struct log_stream *stream = user;
	tfc__work_schedule(&stream->pump);
}

static void log_stream_on_cancel(void *user)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ECANCELED, "node", 0, "canceled");
	log_stream_fail(user, &error);
}

/* Opens the log of a job that has nothing else left here. */
static struct tfc__log_source *open_kept_log(struct tfc__agent_service *service,
					     const struct tfc__agent_log_call *call,
					     tfc_error *error)
{
	if (!tfc__is_job_id(call->id) || !tfc__is_log_name(call->name)) {
		tfc__fail(error, TFC_EINVAL, "node", 0, "the request names no log");
		return NULL;
	}
	return tfc__agent_kept_log_named(service->agent.agent, call->id, call->name, call->position,
					 error);
}

static int log_stream_open_source(struct tfc__agent_service *service, struct log_stream *stream,
				  const msgpack_object *params, tfc_error *error)
{
	struct tfc__agent_log_call call;
	int code = tfc__params_read(NULL, &tfc__agent_log_fields, params, error, &call);
	if (code < 0)
		return code;
	struct served_job *job = tfc__served_job_find_id(service, call.id);
	if (!job || !job->local) {
		stream->source = open_kept_log(service, &call, error);
		return stream->source ? TFC_OK : error->code;
	}
	if (call.task >= job->task_count)
		return tfc__fail(error, TFC_ENOENT, "node", 0, "no such log");
	const struct tfc__agent_ops *ops = job->session->service->agent.ops;
	stream->source = ops->log_open(job->local, call.task, call.position, error);
	if (!stream->source)
		return error->code < 0 ? error->code : TFC_ENOMEM;
	stream->source->wake = log_stream_wake;
	stream->source->user = stream;
	tfc__list_append(&job->logs, &stream->link);
	return TFC_OK;
}

void tfc__served_logs_serve(struct tfc__agent_service *service, struct tfc__rpc_request *request,
			    const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	struct log_stream *stream = calloc(1, sizeof(*stream));
	if (!stream) {
		tfc__fail_nomem(&error, "node");
		tfc__rpc_fail(request, &error);
		return;
	}
	stream->request = request;
	tfc__list_init(&stream->link);
	tfc__work_init(&stream->pump, service->ctx, log_stream_pump);
	if (log_stream_open_source(service, stream, params, &error) < 0) {
		log_stream_fail(stream, &error);
		return;
	}
	tfc__rpc_watch(request, log_stream_wake, log_stream_on_cancel, stream);
	tfc__work_schedule(&stream->pump);
}

void tfc__served_logs_end(struct served_job *job)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ELOST, "node", 0,
		  "the job is no longer on this node"); /* its log may still be */
	TFC__LIST_EACH (link, &job->logs)
		log_stream_fail(tfc__container_of(link, struct log_stream, link), &error);
}

/* A job that is still here writes to its log, so that log is removed later, with the job. */
void tfc__agent_service_forget(struct tfc__agent_service *service, const msgpack_object *params)
{
	struct tfc__reader reader = {.ahead_ns = 0};
	struct tfc__ids ids;
	tfc__params_read(&reader, &tfc__ids_fields, params, NULL, &ids);
	for (const char *const *id = ids.ids; id && *id; id++) {
		struct served_job *job = tfc__served_job_find_id(service, *id);
		if (job)
			job->is_forgotten = true;
		else if (tfc__is_job_id(*id))
			tfc__agent_forget_logs(service->agent.agent, *id);
	}
	tfc__reader_fini(&reader);
}
