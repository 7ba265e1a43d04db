/*
 * A consumer: registers its queue at the node, which connects it with each producer.
 */
#include "feed/consumer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/options.h"

/* ---- notifying the host */

void tfc__feed_consumer_wake(tfc_feed_consumer *consumer)
{
	if (consumer->wants_ready || consumer->failure.code)
		tfc__work_schedule(&consumer->notify);
}

void tfc__feed_consumer_fail(tfc_feed_consumer *consumer, const tfc_error *why)
{
	if (consumer->failure.code)
		return;
	consumer->failure = *why;
	tfc__feed_socket_close(&consumer->node);
	tfc__feed_consumer_wake(consumer);
}

static void consumer_notify(struct tfc__work *work)
{
	tfc_feed_consumer *consumer = tfc__container_of(work, tfc_feed_consumer, notify);
	tfc_error none = TFC_ERROR_INIT;
	tfc_feed_event event = {.size = sizeof(event),
				.kind = TFC_FEED_EVENT_READY,
				.error = &none,
				.task = ""};
	consumer->wants_ready = false;
	if (consumer->failure.code && !consumer->is_end_reported) {
		consumer->is_end_reported = true;
		event.kind = TFC_FEED_EVENT_END;
		event.code = consumer->failure.code;
		event.error = &consumer->failure;
	}
	if (consumer->fn)
		consumer->fn(consumer->user, &event);
}

/* ---- the node */

static void node_message(void *user, const struct tfc__feed_message *message, int fd)
{
	tfc_feed_consumer *consumer = user;
	tfc_error error = TFC_ERROR_INIT;
	if (message->kind == TFC__FEED_CONNECTED && fd >= 0) {
		tfc__feed_consumer_add_source(consumer, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (message->kind == TFC__FEED_OVER && message->producer) {
		tfc__feed_consumer_add_end(consumer, message->producer, message->producers);
		return;
	}
	if (message->kind == TFC__FEED_CONNECTED) {
		tfc__fail(&error, TFC_EMFILE, "feed", 0,
			  "cannot read queue \"%s\" of %s: this process has too many open files",
			  consumer->queue, consumer->task);
		tfc__feed_consumer_fail(consumer, &error);
		return;
	}
	if (message->kind != TFC__FEED_REFUSED)
		return;
	tfc__fail(&error, message->code < 0 ? message->code : TFC_EPARSE, "feed", 0,
		  "cannot read queue \"%s\" of %s: %s", consumer->queue, consumer->task,
		  message->text ? message->text : "refused");
	tfc__feed_consumer_fail(consumer, &error);
}

static void node_down(void *user, const tfc_error *why)
{
	tfc_feed_consumer *consumer = user;
	tfc_error error = TFC_ERROR_INIT;
	(void)why;
	tfc__fail(&error, TFC_ELOST, "feed", 0,
		  "the node of %s has ended; queue \"%s\" is no longer fed", consumer->task,
		  consumer->queue);
	tfc__feed_consumer_fail(consumer, &error);
}

static const struct tfc__feed_socket_ops node_ops = {node_message, node_down, NULL};

static int consumer_register(tfc_feed_consumer *consumer, const char *address, uint32_t attempt)
{
	int fd;
	tfc_error *error = tfc__ctx_error(consumer->ctx);
	int code = tfc__feed_socket_dial(address, error, &fd);
	if (code == TFC_OK)
		code = tfc__feed_socket_open(&consumer->node, consumer->ctx, fd, &node_ops,
					     consumer, error);
	struct tfc__feed_message message = {.kind = TFC__FEED_REGISTER,
					    .version = TFC__FEED_VERSION,
					    .task = consumer->task,
					    .attempt = attempt,
					    .queue = consumer->queue};
	if (code == TFC_OK && (code = tfc__feed_socket_send(&consumer->node, &message, -1)) < 0)
		tfc__fail(error, code, "feed", 0, "cannot register at the node: %s",
			  tfc_err_text(code));
	return code;
}

/* ---- open and close */

int tfc_feed_consumer_options_init(tfc_feed_consumer_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

static void consumer_close_handle(struct tfc__handle *handle)
{
	tfc_feed_consumer_close(tfc__container_of(handle, tfc_feed_consumer, handle));
}

static int check_consumer_options(const tfc_feed_consumer_options *options, tfc_error *error)
{
	if (!options->address)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "tfc_feed_consumer_options.address is NULL; it is TFC_FEED of the "
				 "environment of a task that a node has started");
	if (!options->task || !strchr(options->task, '/') ||
	    strlen(options->task) >= TFC__FEED_TASK_SIZE)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "tfc_feed_consumer_options.task is not a task such as "
				 "\"worker/0\"");
	if (options->queue && !tfc__feed_is_name(options->queue))
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "tfc_feed_consumer_options.queue \"%.100s\" is not 1 to 63 of "
				 "[A-Za-z0-9._-]",
				 options->queue);
	if (options->window_bytes && (options->window_bytes < TFC__FEED_WINDOW_MIN ||
				      options->window_bytes > TFC__FEED_WINDOW_MAX))
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "tfc_feed_consumer_options.window_bytes is not between 4096 and "
				 "2^40");
	return TFC_OK;
}

int tfc_feed_consumer_open(tfc_ctx *ctx, const tfc_feed_consumer_options *options, tfc_feed_fn fn,
			   void *user, tfc_feed_consumer **ret_consumer)
{
	tfc_feed_consumer_options known;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(ctx);
	if (!ret_consumer)
		return tfc__fail(error, TFC_EINVAL, "feed", 0, "ret_consumer is NULL");
	code = tfc__options_copy(&known, sizeof(known), options, "feed",
				 "tfc_feed_consumer_options", 0, error);
	if (code < 0 || (code = check_consumer_options(&known, error)) < 0)
		return code;
	tfc_feed_consumer *consumer = calloc(1, sizeof(*consumer));
	if (!consumer)
		return tfc__fail_nomem(error, "feed");
	consumer->ctx = ctx;
	consumer->fn = fn;
	consumer->user = user;
	consumer->window = known.window_bytes;
	consumer->multiple = known.rows_multiple ? known.rows_multiple : 1;
	consumer->is_in_step = known.is_in_step != 0;
	snprintf(consumer->task, sizeof(consumer->task), "%s", known.task);
	snprintf(consumer->queue, sizeof(consumer->queue), "%s",
		 known.queue ? known.queue : "train");
	tfc__list_init(&consumer->sources);
	tfc__list_init(&consumer->ready);
	tfc__work_init(&consumer->notify, ctx, consumer_notify);
	tfc__timer_init(&consumer->patience, ctx, tfc__feed_patience_is_over);
	code = consumer_register(consumer, known.address, known.attempt);
	if (code < 0) {
		tfc_feed_consumer_close(consumer);
		return code;
	}
	tfc__handle_open(ctx, &consumer->handle, TFC__HANDLE_FEED_CONSUMER, consumer_close_handle);
	*ret_consumer = consumer;
	return TFC_OK;
}

void tfc_feed_consumer_close(tfc_feed_consumer *consumer)
{
	if (!consumer)
		return;
	tfc__handle_closed(&consumer->handle);
	tfc__work_cancel(&consumer->notify);
	tfc__timer_cancel(&consumer->patience);
	tfc__feed_socket_close(&consumer->node);
	tfc__feed_drop_batches(&consumer->ready);
	while (consumer->parts.count)
		tfc__feed_part_free(consumer, consumer->parts.records[consumer->parts.count - 1]);
	TFC__LIST_EACH (link, &consumer->sources)
		tfc__feed_source_free(tfc__container_of(link, struct feed_source, link));
	tfc__feed_table_fini(&consumer->parts);
	tfc__map_fini(&consumer->done);
	tfc__feed_positions_fini(&consumer->committed);
	tfc__feed_shared_schema_release(consumer->schema);
	tfc__feed_shared_schema_release(consumer->result_schema);
	free(consumer);
}

/* ---- reading */

static int consumer_enter(tfc_feed_consumer *consumer)
{
	return consumer ? tfc__ctx_enter(consumer->ctx) : TFC_EINVAL;
}

/* Of a queue that has ended without rows. As tfc_feed_consumer_next. */
static int consumer_give_columns(tfc_feed_consumer *consumer, tfc_feed_batch **ret_batch)
{
	if (consumer->has_given_columns || consumer->is_terminated || !consumer->schema)
		return 0;
	*ret_batch = tfc__feed_batch_without_rows(consumer->schema);
	if (!*ret_batch)
		return tfc__fail_nomem(tfc__ctx_error(consumer->ctx), "feed");
	consumer->has_given_columns = true;
	return 1;
}

int tfc_feed_consumer_next(tfc_feed_consumer *consumer, tfc_feed_batch **ret_batch)
{
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
	if (!ret_batch)
		return tfc__ctx_fail(consumer->ctx, TFC_EINVAL, "feed", 0, "ret_batch is NULL");
	if (tfc__list_is_empty(&consumer->ready))
		tfc__feed_consumer_flow_stalled(consumer);
	if (!tfc__list_is_empty(&consumer->ready)) {
		tfc_feed_batch *batch = tfc__container_of(consumer->ready.next, tfc_feed_batch,
							  link);
		tfc__list_remove(&batch->link);
		consumer->has_given_columns |= !batch->is_last;
		*ret_batch = batch;
		return 1;
	}
	if (tfc__feed_queue_is_ended(consumer))
		return consumer_give_columns(consumer, ret_batch);
	if (consumer->failure.code) {
		*tfc__ctx_error(consumer->ctx) = consumer->failure;
		return consumer->failure.code;
	}
	consumer->wants_ready = true;
	return tfc__ctx_fail(consumer->ctx, TFC_EAGAIN, "feed", 0, "no batch has arrived yet");
}

int tfc_feed_consumer_wants_results(tfc_feed_consumer *consumer)
{
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
	if (!consumer->producers) {
		consumer->wants_ready = true;
		return tfc__ctx_fail(consumer->ctx, TFC_EAGAIN, "feed", 0,
				     "no producer has connected yet");
	}
	return consumer->wants_results;
}

/* A producer that has come back, and that has sent no row of the partition, may be any of them: the
 * others ignore it. */
static int part_send_done(const tfc_feed_consumer *consumer, const struct feed_part *part,
			  const struct tfc__feed_message *message)
{
	int code = TFC_OK;
	if (part->source)
		return tfc__feed_stream_send(part->source->stream, message);
	TFC__LIST_EACH (link, &consumer->sources) {
		struct feed_source *source = tfc__container_of(link, struct feed_source, link);
		if (source->stream && code == TFC_OK)
			code = tfc__feed_stream_send(source->stream, message);
	}
	return code;
}

int tfc_feed_consumer_done(tfc_feed_consumer *consumer, uint64_t partition, uint64_t rows)
{
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
	struct feed_part *part = tfc__feed_table_find(&consumer->parts, partition);
	bool is_done = !part && tfc__map_get(&consumer->done, partition, 1) == 0;
	if (consumer->is_terminated || is_done)
		return TFC_OK;
	if (!part || rows > part->received || rows < part->done)
		return tfc__ctx_fail(consumer->ctx, TFC_EINVAL, "feed", 0,
				     "partition %llu: cannot report %llu rows as consumed; %llu "
				     "have arrived",
				     (unsigned long long)partition, (unsigned long long)rows,
				     (unsigned long long)(part ? part->received : 0));
	part->done = rows;
	bool is_all = part->is_finished && rows == part->received;
	struct tfc__feed_message message = {.kind = TFC__FEED_DONE,
					    .partition = partition,
					    .rows = rows};
	code = part_send_done(consumer, part, &message);
	if (code == TFC_OK && is_all) {
		if (!tfc__map_set(&consumer->done, partition, 0))
			return tfc__fail_nomem(tfc__ctx_error(consumer->ctx), "feed");
		tfc__feed_part_free(consumer, part);
	}
	return code < 0 ? tfc__fail_nomem(tfc__ctx_error(consumer->ctx), "feed") : TFC_OK;
}

/* Forgets the partitions of which all is committed. */
static void consumer_free_committed(tfc_feed_consumer *consumer)
{
	for (uint32_t i = consumer->parts.count; i-- > 0;) {
		struct feed_part *part = consumer->parts.records[i];
		const tfc_feed_position *position = tfc__feed_positions_find(&consumer->committed,
									     part->number);
		if (!position || position->rows > part->received || position->rows < part->done)
			continue;
		part->done = position->rows;
		if (part->is_finished && part->done == part->received)
			tfc__feed_part_free(consumer, part);
	}
}

int tfc_feed_consumer_commit(tfc_feed_consumer *consumer, const tfc_feed_position *positions,
			     uint32_t count)
{
	struct tfc__feed_positions committed = {0};
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
	if (count && !positions)
		return tfc__ctx_fail(consumer->ctx, TFC_EINVAL, "feed", 0, "positions is NULL");
	for (uint32_t i = 0; i < count && code == TFC_OK; i++)
		code = tfc__feed_positions_add(&committed, &positions[i]);
	if (code < 0) {
		tfc__feed_positions_fini(&committed);
		return tfc__ctx_fail(consumer->ctx, code, "feed", 0,
				     code == TFC_EINVAL
					     ? "positions are wrong, or not in ascending order"
					     : "out of memory");
	}
	tfc__feed_positions_fini(&consumer->committed);
	consumer->committed = committed;
	consumer->is_committing = true;
	TFC__LIST_EACH (link, &consumer->sources)
		if (tfc__feed_source_send_committed(
			    tfc__container_of(link, struct feed_source, link)) < 0)
			code = tfc__fail_nomem(tfc__ctx_error(consumer->ctx), "feed");
	consumer_free_committed(consumer);
	return code;
}

/* ---- results */

static int consumer_put(tfc_feed_consumer *consumer, uint64_t partition, uint64_t offset,
			struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			uint64_t begin, uint64_t *ret_rows)
{
	tfc_error *error = tfc__ctx_error(consumer->ctx);
	struct feed_part *part = tfc__feed_table_find(&consumer->parts, partition);
	if (!ret_rows) {
		tfc__feed_schema_fini(schema);
		return tfc__fail(error, TFC_EINVAL, "feed", 0, "ret_rows is NULL");
	}
	int code = tfc__feed_schema_share(&consumer->result_schema, schema, error);
	if (code < 0 ||
	    (code = tfc__feed_rows_check(&consumer->result_schema->schema, rows, begin, error)) < 0)
		return code;
	if (!part || offset > part->received || rows->rows - begin > part->received - offset)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "partition %llu has no rows %llu to %llu to return results for",
				 (unsigned long long)partition, (unsigned long long)offset,
				 (unsigned long long)(offset + (rows->rows - begin)));
	if (!part->source) { /* it comes back and feeds the rows again, or the consumer fails */
		*ret_rows = rows->rows - begin;
		return TFC_OK;
	}
	code = tfc__feed_stream_put(part->source->stream, partition, offset,
				    consumer->result_schema, rows, begin, error, ret_rows);
	consumer->wants_ready |= code == TFC_EAGAIN;
	return code;
}

int tfc_feed_consumer_put_results(tfc_feed_consumer *consumer, uint64_t partition, uint64_t offset,
				  const struct ArrowSchema *schema, const struct ArrowArray *array,
				  uint64_t begin, uint64_t *ret_rows)
{
	struct tfc__feed_rows put;
	struct tfc__feed_schema imported;
	int code = consumer_enter(consumer);
	if (code == TFC_OK)
		code = tfc__feed_rows_of_array(schema, array, begin, tfc__ctx_error(consumer->ctx),
					       &put, &imported);
	return code < 0 ? code
			: consumer_put(consumer, partition, offset, &imported, &put, begin,
				       ret_rows);
}

int tfc_feed_consumer_put_result_columns(tfc_feed_consumer *consumer, uint64_t partition,
					 uint64_t offset, const tfc_feed_column *columns,
					 uint32_t column_count, uint64_t rows, uint64_t begin,
					 uint64_t *ret_rows)
{
	struct tfc__feed_rows put;
	struct tfc__feed_schema imported;
	int code = consumer_enter(consumer);
	if (code == TFC_OK)
		code = tfc__feed_rows_of_columns(columns, column_count, rows, begin,
						 tfc__ctx_error(consumer->ctx), &put, &imported);
	return code < 0 ? code
			: consumer_put(consumer, partition, offset, &imported, &put, begin,
				       ret_rows);
}

/* ---- in step */

int tfc_feed_consumer_report(tfc_feed_consumer *consumer, uint64_t steps, uint32_t is_end)
{
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
	if (steps < consumer->steps)
		return tfc__ctx_fail(consumer->ctx, TFC_EINVAL, "feed", 0,
				     "steps is %llu, fewer than the %llu that were reported before",
				     (unsigned long long)steps,
				     (unsigned long long)consumer->steps);
	consumer->steps = steps;
	consumer->is_report_end |= is_end != 0;
	consumer->has_report = true;
	TFC__LIST_EACH (link, &consumer->sources) {
		struct feed_source *source = tfc__container_of(link, struct feed_source, link);
		if (source->stream && source->name[0] && tfc__feed_source_report(source) < 0)
			return tfc__fail_nomem(tfc__ctx_error(consumer->ctx), "feed");
	}
	return TFC_OK;
}

int tfc_feed_consumer_granted(tfc_feed_consumer *consumer, uint64_t *ret_steps,
			      uint64_t *ret_padded_steps)
{
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
	if (!ret_steps || !ret_padded_steps)
		return tfc__ctx_fail(consumer->ctx, TFC_EINVAL, "feed", 0,
				     "ret_steps or ret_padded_steps is NULL");
	*ret_steps = consumer->granted;
	*ret_padded_steps = consumer->granted_padded;
	consumer->wants_ready = true;
	return consumer->is_grant_final;
}

int tfc_feed_consumer_terminate(tfc_feed_consumer *consumer)
{
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
	consumer->is_terminated = true;
	tfc__feed_drop_batches(&consumer->ready);
	while (consumer->parts.count)
		tfc__feed_part_free(consumer, consumer->parts.records[consumer->parts.count - 1]);
	TFC__LIST_EACH (link, &consumer->sources)
		if (tfc__feed_source_terminate(tfc__container_of(link, struct feed_source, link)) <
		    0)
			code = tfc__fail_nomem(tfc__ctx_error(consumer->ctx), "feed");
	return code;
}

int tfc_feed_consumer_is_flushed(tfc_feed_consumer *consumer)
{
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
	TFC__LIST_EACH (link, &consumer->sources) {
		const struct feed_source *source = tfc__container_of(link, struct feed_source,
								     link);
		if (source->stream && !tfc__feed_stream_is_flushed(source->stream))
			return 0;
	}
	return 1;
}
