/*
 * A consumer: registers its queue at the node, which connects it with each producer.
 *
 * Each producer is a source. Batches wait in `ready` in the order in which they are handed out.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tfcluster/feed.h>

#include "base/clock.h"
#include "base/options.h"
#include "feed/names.h"
#include "feed/positions.h"
#include "feed/stream.h"
#include "feed/table.h"

/* How long a producer that has died may take to come back. */
#define PATIENCE_NS (30 * TFC__SECOND)

struct feed_source {
	tfc_feed_consumer *consumer;
	struct tfc__link link;
	struct tfc__feed_stream *stream; /* NULL: it has died */
	char name[TFC__FEED_NAME_SIZE];  /* "" until its HELLO */
	bool is_ended;                   /* it has sent END */
	uint64_t window;                 /* of what it sends; 0: not known yet */
	uint64_t held_bytes;             /* of all its partitions */
	bool is_terminated;              /* it was sent TERMINATE */
};

struct feed_part {
	uint64_t number;
	struct feed_source *source; /* NULL: it has died */
	uint64_t received;          /* rows */
	uint64_t done;              /* rows that the host has reported as consumed */
	bool is_finished;           /* it has `received` rows in all */
	/*
	 * Its rows are handed out as they arrive. Those of a partition that is still small are held
	 * back until it is complete: if its producer dies before, it is as if it had never been
	 * fed.
	 */
	bool is_flowing;
	struct tfc__link held; /* struct tfc_feed_batch */
	uint64_t held_bytes;
};

struct tfc_feed_consumer {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	tfc_feed_fn fn;
	void *user;
	char task[TFC__FEED_TASK_SIZE];
	char queue[TFC__FEED_NAME_SIZE];
	uint64_t window;
	uint32_t multiple;
	bool is_in_step;
	struct tfc__feed_socket node; /* to the broker; closed after the end */
	struct tfc__link sources;
	uint32_t producers; /* how many must end; 0: not known yet */
	bool wants_results;
	struct tfc__link ready; /* struct tfc_feed_batch */
	struct tfc__feed_table parts;
	struct tfc__map done; /* the numbers of the partitions that are done */
	struct tfc__feed_positions committed;
	bool is_committing;                     /* partitions are done when they are committed */
	struct tfc__feed_shared_schema *schema; /* of the rows; NULL: not known before the end */
	bool has_given_columns;                 /* a batch, of rows or of none */
	struct tfc__feed_shared_schema *result_schema;
	struct tfc__timer patience; /* for sources that have died */
	struct tfc__work notify;
	bool wants_ready;
	bool is_terminated;
	tfc_error failure; /* code not 0: the END event */
	bool is_end_reported;

	/* in step */
	uint64_t steps; /* reported */
	bool is_report_end;
	bool has_report;
	uint64_t granted;
	uint64_t granted_padded;
	bool is_grant_final;
};

static uint64_t part_number(const void *record)
{
	return ((const struct feed_part *)record)->number;
}

static void drop_batches(struct tfc__link *batches)
{
	TFC__LIST_EACH (link, batches) {
		tfc__list_remove(link);
		tfc_feed_batch_release(tfc__container_of(link, tfc_feed_batch, link));
	}
}

static void part_free(tfc_feed_consumer *consumer, struct feed_part *part)
{
	drop_batches(&part->held);
	if (part->source)
		part->source->held_bytes -= part->held_bytes;
	tfc__feed_table_remove(&consumer->parts, part->number, part_number);
	free(part);
}

/* ---- notifying the host */

static void consumer_wake(tfc_feed_consumer *consumer)
{
	if (consumer->wants_ready || consumer->failure.code)
		tfc__work_schedule(&consumer->notify);
}

static void consumer_fail(tfc_feed_consumer *consumer, const tfc_error *why)
{
	if (consumer->failure.code)
		return;
	consumer->failure = *why;
	tfc__feed_socket_close(&consumer->node);
	consumer_wake(consumer);
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

/* ---- sources */

static bool has_dead_source(const tfc_feed_consumer *consumer)
{
	TFC__LIST_EACH (link, &consumer->sources) {
		struct feed_source *source = tfc__container_of(link, struct feed_source, link);
		if (!source->stream && !source->is_ended)
			return true;
	}
	return false;
}

static void feed_source_free(struct feed_source *source)
{
	tfc__list_remove(&source->link);
	tfc__feed_stream_close(source->stream);
	free(source);
}

/* The producer is gone: partitions that were not handed out are forgotten. */
static void source_lose(struct feed_source *source)
{
	tfc_feed_consumer *consumer = source->consumer;
	for (uint32_t i = consumer->parts.count; i-- > 0;) {
		struct feed_part *part = consumer->parts.records[i];
		if (part->source != source)
			continue;
		if (!part->is_finished && !part->is_flowing)
			part_free(consumer, part);
		else
			part->source = NULL;
	}
	tfc__feed_stream_close(source->stream);
	source->stream = NULL;
	source->held_bytes = 0;
	if (!source->name[0]) {
		feed_source_free(source);
		return;
	}
	if (!source->is_ended && !consumer->is_terminated)
		tfc__timer_set(&consumer->patience, tfc__now() + PATIENCE_NS);
	consumer_wake(consumer);
}

static void patience_is_over(struct tfc__timer *timer)
{
	tfc_feed_consumer *consumer = tfc__container_of(timer, tfc_feed_consumer, patience);
	TFC__LIST_EACH (link, &consumer->sources) {
		struct feed_source *source = tfc__container_of(link, struct feed_source, link);
		tfc_error error = TFC_ERROR_INIT;
		if (source->stream || source->is_ended)
			continue;
		tfc__fail(&error, TFC_ELOST, "feed", 0,
			  "producer \"%s\" of queue \"%s\" has ended before all of its partitions, "
			  "and did not come back within %u s",
			  source->name, consumer->queue, (unsigned)(PATIENCE_NS / TFC__SECOND));
		consumer_fail(consumer, &error);
		return;
	}
}

static void source_break(struct feed_source *source, const char *what)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_EPARSE, "feed", 0, "producer \"%s\" of queue \"%s\" %s", source->name,
		  source->consumer->queue, what);
	tfc__log(source->consumer->ctx, TFC_LOG_WARNING, "feed", source->consumer->task, "%s",
		 error.text);
	source_lose(source);
}

static int source_report(struct feed_source *source)
{
	const tfc_feed_consumer *consumer = source->consumer;
	struct tfc__feed_message report = {.kind = TFC__FEED_REPORT,
					   .steps = consumer->steps,
					   .is_end = consumer->is_report_end};
	return consumer->has_report ? tfc__feed_stream_send(source->stream, &report) : TFC_OK;
}

static int source_terminate(struct feed_source *source)
{
	struct tfc__feed_message message = {.kind = TFC__FEED_TERMINATE};
	if (!source->stream || source->is_terminated)
		return TFC_OK;
	int code = tfc__feed_stream_send(source->stream, &message);
	source->is_terminated = code == TFC_OK;
	return code;
}

/* Gives the source its name. A producer that comes back takes the place of its previous process. */
static void source_adopt(struct feed_source *source, const char *name)
{
	tfc_feed_consumer *consumer = source->consumer;
	TFC__LIST_EACH (link, &consumer->sources) {
		struct feed_source *other = tfc__container_of(link, struct feed_source, link);
		if (other == source || strcmp(other->name, name) != 0)
			continue;
		if (other->stream)
			source_lose(other);
		feed_source_free(other);
	}
	snprintf(source->name, sizeof(source->name), "%s", name);
	if (!has_dead_source(consumer))
		tfc__timer_cancel(&consumer->patience);
}

static void source_hello(struct feed_source *source, const struct tfc__feed_message *message)
{
	tfc_feed_consumer *consumer = source->consumer;
	if (message->version != TFC__FEED_VERSION || !message->producer ||
	    !tfc__feed_is_name(message->producer)) {
		source_break(source, "has another version of the feed");
		return;
	}
	source_adopt(source, message->producer);
	if (message->producers > consumer->producers)
		consumer->producers = message->producers;
	consumer->wants_results |= message->wants_results;
	source->window = message->window;
	if (source_report(source) < 0) {
		source_break(source, "was dropped: out of memory");
		return;
	}
	if (consumer->is_terminated && source_terminate(source) < 0) {
		source_break(source, "was dropped: out of memory");
		return;
	}
	consumer_wake(consumer);
}

/* ---- partitions */

/* Of a partition that is not known, the rows before `offset` were consumed by an earlier attempt,
 * or by another task. */
static struct feed_part *part_get(struct feed_source *source, uint64_t number, uint64_t offset)
{
	tfc_feed_consumer *consumer = source->consumer;
	struct feed_part *part = tfc__feed_table_find(&consumer->parts, number);
	if (part) {
		part->source = part->source ? part->source : source;
		return part;
	}
	part = calloc(1, sizeof(*part));
	if (!part || !tfc__feed_table_add(&consumer->parts, number, part)) {
		free(part);
		return NULL;
	}
	part->number = number;
	part->source = source;
	part->received = part->done = offset;
	tfc__list_init(&part->held);
	tfc__map_remove(&consumer->done, number);
	return part;
}

/* Hands out what was held back, and whatever follows. */
static void part_flow(tfc_feed_consumer *consumer, struct feed_part *part)
{
	part->is_flowing = true;
	part->source->held_bytes -= part->held_bytes;
	part->held_bytes = 0;
	tfc__list_move(&consumer->ready, &part->held);
	consumer_wake(consumer);
}

static void source_batch(void *user, tfc_feed_batch *batch)
{
	struct feed_source *source = user;
	tfc_feed_consumer *consumer = source->consumer;
	if (consumer->is_terminated || consumer->failure.code) {
		tfc_feed_batch_release(batch);
		return;
	}
	struct feed_part *part = source->name[0] ? part_get(source, batch->partition, batch->offset)
						 : NULL;
	if (!part || part->source != source || part->is_finished ||
	    batch->offset != part->received) {
		tfc_feed_batch_release(batch);
		source_break(source, "has sent rows out of order");
		return;
	}
	part->received += batch->layout.rows;
	tfc__list_append(&part->held, &batch->link);
	part->held_bytes += batch->bytes;
	source->held_bytes += batch->bytes;
	if (part->is_flowing || part->held_bytes > source->window / 4 ||
	    source->held_bytes > source->window / 2)
		part_flow(consumer, part);
}

static void source_finish(struct feed_source *source, const struct tfc__feed_message *message)
{
	tfc_feed_consumer *consumer = source->consumer;
	if (consumer->is_terminated)
		return;
	struct feed_part *part = source->name[0]
					 ? part_get(source, message->partition, message->rows)
					 : NULL;
	if (!part || part->source != source || part->is_finished ||
	    part->received != message->rows) {
		source_break(source, "has ended a partition with another number of rows");
		return;
	}
	tfc_feed_batch *end = tfc__feed_batch_end_of(part->number, part->received);
	if (!end) {
		source_break(source, "was dropped: out of memory");
		return;
	}
	tfc__list_append(&part->held, &end->link);
	part->is_finished = true;
	part_flow(consumer, part);
}

static void source_grant(struct feed_source *source, const struct tfc__feed_message *message)
{
	tfc_feed_consumer *consumer = source->consumer;
	if (message->steps > consumer->granted)
		consumer->granted = message->steps;
	if (message->padded_steps > consumer->granted_padded)
		consumer->granted_padded = message->padded_steps;
	consumer->is_grant_final |= message->is_end;
	consumer_wake(consumer);
}

static void source_end(struct feed_source *source)
{
	tfc_feed_consumer *consumer = source->consumer;
	source->is_ended = true;
	if (!consumer->schema)
		consumer->schema = tfc__feed_shared_schema_keep(
			tfc__feed_stream_schema(source->stream));
	consumer_wake(consumer);
}

static void source_message(void *user, const struct tfc__feed_message *message)
{
	struct feed_source *source = user;
	switch (message->kind) {
	case TFC__FEED_HELLO:
		source_hello(source, message);
		break;
	case TFC__FEED_FINISH:
		source_finish(source, message);
		break;
	case TFC__FEED_GRANT:
		source_grant(source, message);
		break;
	case TFC__FEED_END:
		source_end(source);
		break;
	default: /* of a later version */
		break;
	}
}

static void source_room(void *user)
{
	struct feed_source *source = user;
	consumer_wake(source->consumer);
}

static void source_down(void *user, const tfc_error *why)
{
	(void)why;
	source_lose(user);
}

static const struct tfc__feed_stream_ops source_ops = {source_message, source_batch, source_room,
						       source_down};

static int source_send_positions(struct feed_source *source)
{
	const tfc_feed_consumer *consumer = source->consumer;
	struct tfc__feed_message message = {.kind = TFC__FEED_POSITION};
	int code = TFC_OK;
	for (uint32_t i = 0; i < consumer->parts.count && code == TFC_OK; i++) {
		const struct feed_part *part = consumer->parts.records[i];
		if (!part->is_finished && !part->is_flowing)
			continue;
		message.partition = part->number;
		message.rows = part->received;
		message.offset = part->done;
		message.is_end = part->is_finished;
		code = tfc__feed_stream_send(source->stream, &message);
	}
	for (uint32_t i = 0; i < consumer->done.capacity && code == TFC_OK; i++) {
		const struct tfc__map_entry *entry = &consumer->done.entries[i];
		if (!entry->is_used)
			continue;
		message = (struct tfc__feed_message){.kind = TFC__FEED_POSITION,
						     .partition = entry->key,
						     .rows = UINT64_MAX,
						     .offset = UINT64_MAX,
						     .is_end = true};
		code = tfc__feed_stream_send(source->stream, &message);
	}
	return code;
}

static int source_send_committed(struct feed_source *source)
{
	const struct tfc__feed_positions *committed = &source->consumer->committed;
	struct tfc__feed_message message = {.kind = TFC__FEED_COMMITTED, .rows = committed->rows};
	if (!source->stream || !source->consumer->is_committing)
		return TFC_OK;
	int code = tfc__feed_stream_send(source->stream, &message);
	for (uint32_t i = 0; i < committed->count && code == TFC_OK; i++) {
		const tfc_feed_position *position = &committed->list[i];
		message.partition = position->partition;
		message.partitions = position->partitions;
		message.rows = position->rows;
		message.is_end = position->is_whole != 0;
		code = tfc__feed_stream_send(source->stream, &message);
	}
	return code;
}

static bool queue_is_ended(const tfc_feed_consumer *consumer)
{
	uint32_t ended = 0;
	TFC__LIST_EACH (link, &consumer->sources)
		ended += tfc__container_of(link, struct feed_source, link)->is_ended;
	return consumer->is_terminated || (consumer->producers && ended >= consumer->producers);
}

/* A connection with a producer, which the node has made. */
static void consumer_add_source(tfc_feed_consumer *consumer, int fd)
{
	/* The producers of an ended queue are complete, but for what is not committed yet. Another
	 * one comes back for the next consumer. */
	bool is_complete = queue_is_ended(consumer) && !consumer->is_terminated &&
			   !consumer->is_committing;
	struct feed_source *source = is_complete ? NULL : calloc(1, sizeof(*source));
	if (!source) {
		close(fd);
		return;
	}
	source->consumer = consumer;
	tfc__list_init(&source->link);
	if (tfc__feed_stream_open(consumer->ctx, fd, &source_ops, source, NULL, &source->stream) <
	    0) {
		free(source);
		return;
	}
	tfc__list_append(&consumer->sources, &source->link);
	struct tfc__feed_limits limits = {consumer->window ? consumer->window : TFC__FEED_WINDOW,
					  TFC__FEED_CHUNK, 1};
	tfc__feed_stream_set_limits(source->stream, &limits);
	struct tfc__feed_message welcome = {.kind = TFC__FEED_WELCOME,
					    .version = TFC__FEED_VERSION,
					    .window = consumer->window,
					    .multiple = consumer->multiple,
					    .is_in_step = consumer->is_in_step};
	if (source_send_positions(source) < 0 || source_send_committed(source) < 0 ||
	    tfc__feed_stream_send(source->stream, &welcome) < 0)
		source_lose(source);
}

/* ---- the node */

static void node_message(void *user, const struct tfc__feed_message *message, int fd)
{
	tfc_feed_consumer *consumer = user;
	tfc_error error = TFC_ERROR_INIT;
	if (message->kind == TFC__FEED_CONNECTED && fd >= 0) {
		consumer_add_source(consumer, fd);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (message->kind != TFC__FEED_REFUSED)
		return;
	tfc__fail(&error, message->code < 0 ? message->code : TFC_EPARSE, "feed", 0,
		  "cannot read queue \"%s\" of %s: %s", consumer->queue, consumer->task,
		  message->text ? message->text : "refused");
	consumer_fail(consumer, &error);
}

static void node_down(void *user, const tfc_error *why)
{
	tfc_feed_consumer *consumer = user;
	tfc_error error = TFC_ERROR_INIT;
	(void)why;
	tfc__fail(&error, TFC_ELOST, "feed", 0,
		  "the node of %s has ended; queue \"%s\" is no longer fed", consumer->task,
		  consumer->queue);
	consumer_fail(consumer, &error);
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
	tfc__timer_init(&consumer->patience, ctx, patience_is_over);
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
	drop_batches(&consumer->ready);
	while (consumer->parts.count)
		part_free(consumer, consumer->parts.records[consumer->parts.count - 1]);
	TFC__LIST_EACH (link, &consumer->sources)
		feed_source_free(tfc__container_of(link, struct feed_source, link));
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
	if (!tfc__list_is_empty(&consumer->ready)) {
		tfc_feed_batch *batch = tfc__container_of(consumer->ready.next, tfc_feed_batch,
							  link);
		tfc__list_remove(&batch->link);
		consumer->has_given_columns |= !batch->is_last;
		*ret_batch = batch;
		return 1;
	}
	if (queue_is_ended(consumer))
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
		part_free(consumer, part);
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
			part_free(consumer, part);
	}
}

int tfc_feed_consumer_commit(tfc_feed_consumer *consumer, const tfc_feed_position *positions,
			     uint32_t count)
{
	struct tfc__feed_positions committed = {0};
	int code = consumer_enter(consumer);
	if (code < 0)
		return code;
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
		if (source_send_committed(tfc__container_of(link, struct feed_source, link)) < 0)
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
	if (!part || offset + (rows->rows - begin) > part->received)
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
		if (source->stream && source->name[0] && source_report(source) < 0)
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
	drop_batches(&consumer->ready);
	while (consumer->parts.count)
		part_free(consumer, consumer->parts.records[consumer->parts.count - 1]);
	TFC__LIST_EACH (link, &consumer->sources)
		if (source_terminate(tfc__container_of(link, struct feed_source, link)) < 0)
			code = tfc__fail_nomem(tfc__ctx_error(consumer->ctx), "feed");
	return code;
}
