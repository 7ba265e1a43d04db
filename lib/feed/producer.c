/*
 * A producer: assigns partitions to tasks, sends their rows, and remembers what was not consumed,
 * so that it is put again when a task ends.
 */
#include "feed/producer.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "gateway/gateway.h"

/* ---- the host */

bool tfc__feed_producer_report(tfc_feed_producer *producer, tfc_feed_event *event)
{
	static const tfc_error none = TFC_ERROR_INIT;
	bool is_closed = false;
	event->size = sizeof(*event);
	event->error = event->error ? event->error : &none;
	event->task = event->task ? event->task : "";
	if (!producer->fn || producer->is_end_reported)
		return true;
	producer->is_end_reported = event->kind == TFC_FEED_EVENT_END;
	producer->is_closed = &is_closed;
	producer->fn(producer->user, event);
	if (is_closed)
		return false;
	producer->is_closed = NULL;
	return true;
}

void tfc__feed_producer_wake(tfc_feed_producer *producer)
{
	if (producer->wants_ready || producer->is_over)
		tfc__work_schedule(&producer->notify);
}

void tfc__feed_producer_fail(tfc_feed_producer *producer, const tfc_error *why)
{
	if (producer->is_over)
		return;
	bool is_consumed = producer->is_ending && !producer->partitions.count;
	if (!producer->is_terminated &&
	    !is_consumed) /* otherwise nothing of it is needed any more */
		producer->failure = *why;
	producer->is_over = true;
	tfc__feed_producer_wake(producer);
}

static void producer_notify(struct tfc__work *work)
{
	tfc_feed_producer *producer = tfc__container_of(work, tfc_feed_producer, notify);
	tfc_feed_event event = {.kind = TFC_FEED_EVENT_READY};
	producer->wants_ready = false;
	if (tfc__feed_tasks_await_over(producer))
		return;
	if (producer->is_over) {
		event.kind = TFC_FEED_EVENT_END;
		event.code = producer->failure.code;
		event.error = &producer->failure;
	}
	tfc__feed_producer_report(producer, &event);
}

static uint64_t partition_number(const void *record)
{
	return ((const struct feed_partition *)record)->number;
}

/* NULL: out of memory. */
struct feed_partition *tfc__feed_partition_add(tfc_feed_producer *producer, uint64_t number)
{
	struct feed_partition *partition = calloc(1, sizeof(*partition));
	if (!partition || !tfc__feed_table_add(&producer->partitions, number, partition)) {
		free(partition);
		return NULL;
	}
	partition->number = number;
	return partition;
}

void tfc__feed_partition_free(tfc_feed_producer *producer, struct feed_partition *partition)
{
	tfc__feed_table_remove(&producer->partitions, partition->number, partition_number);
	free(partition);
}

/* Sends END to the consumers to which nothing will be sent any more: every partition has a task,
 * and was put there as a whole. */
static void send_ends(tfc_feed_producer *producer)
{
	for (uint32_t i = 0; i < producer->partitions.count; i++) {
		const struct feed_partition *partition = producer->partitions.records[i];
		if (!partition->task || !partition->is_finished)
			return;
	}
	TFC__LIST_EACH (link, &producer->tasks) {
		struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		if (task->is_welcome && !task->is_end_sent)
			task->is_end_sent = tfc__feed_stream_end(task->stream, producer->schema) ==
					    TFC_OK;
	}
}

void tfc__feed_producer_check_end(tfc_feed_producer *producer)
{
	if (!producer->is_ending || producer->is_over || !producer->is_open)
		return;
	send_ends(producer);
	if (producer->partitions.count && !producer->is_terminated)
		return;
	/* A task that opens its queue late must see the end, too. Tasks in step need the producer
	 * until the last step is granted. */
	TFC__LIST_EACH (link, &producer->tasks) {
		struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		if (!task->is_end_sent && !task->has_exited && !task->is_terminated)
			return;
		if (!tfc__feed_remote_is_flushed(task->remote) && !producer->is_terminated)
			return;
		if (task->is_in_step && task->is_welcome && !task->is_grant_final &&
		    !producer->is_terminated)
			return;
	}
	producer->is_over = true;
	tfc__feed_tasks_report_over(producer);
	tfc__feed_producer_wake(producer);
}

/* Reports partitions that were complete before they were finished: never inside the host's call. */
static void producer_complete(struct tfc__work *work)
{
	tfc_feed_producer *producer = tfc__container_of(work, tfc_feed_producer, completed);
	for (uint32_t i = 0; i < producer->partitions.count; i++) {
		struct feed_partition *partition = producer->partitions.records[i];
		/* the consumer of an empty one has yet to report it */
		bool is_pending = !partition->total && partition->done != UINT64_MAX &&
				  !partition->is_committed;
		if (!partition->is_finished || partition->done < partition->total || is_pending)
			continue;
		tfc_feed_event event = {.kind = TFC_FEED_EVENT_DONE,
					.partition = partition->number,
					.offset = partition->total};
		tfc__feed_partition_free(producer, partition);
		if (!tfc__feed_producer_report(producer, &event))
			return;
		i = UINT32_MAX; /* the records may have moved */
	}
	tfc__feed_producer_check_end(producer);
}

/* ---- open and close */

int tfc_feed_producer_options_init(tfc_feed_producer_options *options, uint32_t size)
{
	return tfc__options_init(options, size, sizeof(*options));
}

static int check_producer_options(const tfc_feed_producer_options *options, tfc_error *error)
{
	const struct {
		const char *field;
		const char *value;
	} names[] = {{"queue", options->queue}, {"producer", options->producer}};
	for (size_t i = 0; i < 2; i++)
		if (names[i].value && !tfc__feed_is_name(names[i].value))
			return tfc__fail(
				error, TFC_EINVAL, "feed", 0,
				"tfc_feed_producer_options.%s \"%.100s\" is not 1 to 63 of "
				"[A-Za-z0-9._-]",
				names[i].field, names[i].value);
	if (options->task &&
	    (!strchr(options->task, '/') || strlen(options->task) >= TFC__FEED_TASK_SIZE))
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "tfc_feed_producer_options.task \"%.100s\" is not a task such as "
				 "\"worker/0\"",
				 options->task);
	if (options->window_bytes && (options->window_bytes < TFC__FEED_WINDOW_MIN ||
				      options->window_bytes > TFC__FEED_WINDOW_MAX))
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "tfc_feed_producer_options.window_bytes is not between 4096 and "
				 "2^40");
	return TFC_OK;
}

static void producer_close_handle(struct tfc__handle *handle)
{
	tfc_feed_producer_close(tfc__container_of(handle, tfc_feed_producer, handle));
}

static void producer_set_options(tfc_feed_producer *producer,
				 const tfc_feed_producer_options *options)
{
	producer->producers = options->producers ? options->producers : 1;
	producer->wants_results = options->wants_results != 0;
	producer->is_replayable = options->is_replayable != 0;
	producer->limits.window = options->window_bytes ? options->window_bytes : TFC__FEED_WINDOW;
	producer->limits.chunk = options->chunk_bytes ? options->chunk_bytes : TFC__FEED_CHUNK;
	if (producer->limits.chunk > producer->limits.window / 4)
		producer->limits.chunk = producer->limits.window / 4;
	snprintf(producer->queue, sizeof(producer->queue), "%s",
		 options->queue ? options->queue : "train");
	snprintf(producer->name, sizeof(producer->name), "%s",
		 options->producer ? options->producer : "0");
	snprintf(producer->only_task, sizeof(producer->only_task), "%s",
		 options->task ? options->task : "");
}

int tfc_feed_producer_open(tfc_gateway *gateway, const char *job,
			   const tfc_feed_producer_options *options, tfc_feed_fn fn, void *user,
			   tfc_feed_producer **ret_producer)
{
	tfc_feed_producer_options known;
	tfc_ctx *ctx = gateway ? gateway->ctx : NULL;
	int code = tfc__ctx_enter(ctx);
	if (code < 0)
		return code;
	tfc_error *error = tfc__ctx_error(ctx);
	if (!ret_producer || !job)
		return tfc__fail(error, TFC_EINVAL, "feed", 0, "job or ret_producer is NULL");
	code = tfc__options_copy(&known, sizeof(known), options, "feed",
				 "tfc_feed_producer_options", 0, error);
	if (code < 0 || (code = check_producer_options(&known, error)) < 0)
		return code;
	tfc_feed_producer *producer = calloc(1, sizeof(*producer));
	if (!producer)
		return tfc__fail_nomem(error, "feed");
	producer->ctx = ctx;
	producer->gateway = gateway;
	producer->fn = fn;
	producer->user = user;
	tfc__list_init(&producer->tasks);
	tfc__work_init(&producer->notify, ctx, producer_notify);
	tfc__work_init(&producer->completed, ctx, producer_complete);
	producer_set_options(producer, &known);
	code = tfc__feed_tasks_open(producer, job);
	if (code < 0) {
		tfc_feed_producer_close(producer);
		return code;
	}
	tfc__handle_open(ctx, &producer->handle, TFC__HANDLE_FEED_PRODUCER, producer_close_handle);
	*ret_producer = producer;
	return TFC_OK;
}

void tfc_feed_producer_close(tfc_feed_producer *producer)
{
	if (!producer)
		return;
	if (producer->is_closed)
		*producer->is_closed = true;
	tfc__handle_closed(&producer->handle);
	tfc__work_cancel(&producer->notify);
	tfc__work_cancel(&producer->completed);
	tfc__feed_tasks_close(producer);
	while (producer->partitions.count)
		tfc__feed_partition_free(
			producer, producer->partitions.records[producer->partitions.count - 1]);
	tfc__feed_table_fini(&producer->partitions);
	tfc__feed_shared_schema_release(producer->schema);
	free(producer);
}

/* ---- putting */

/*
 * Whether a partition must wait for a task that does not read yet. A producer that begins again
 * does not know before what that task has. Rows that two tasks train are trained twice, which
 * checkpoints with positions exclude.
 */
static bool is_any_awaited(const tfc_feed_producer *producer)
{
	bool are_in_step = false, are_committing = false, is_away = false, is_new = false;
	TFC__LIST_EACH (link, &producer->tasks) {
		const struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		bool is_reading = task->is_welcome || task->is_terminated || task->has_exited;
		are_in_step |= task->is_in_step;
		are_committing |= task->is_committing;
		is_away |= !is_reading;
		is_new |= !is_reading && !task->has_read;
	}
	return (are_in_step && is_away) || (are_committing && is_new);
}

/*
 * The task for a new partition. Training: the one that was given the fewest rows, so that all take
 * about as many steps. With results, and for workers of parameter servers, which take steps as fast
 * as they can: the one with the fewest rows to do. Of those workers, one that has never read yet is
 * waited for, and one without room is not. NULL: none reads, or none of those workers has room.
 */
static struct feed_task *choose_task(const tfc_feed_producer *producer)
{
	struct feed_task *best = NULL;
	bool by_open_rows = producer->wants_results || producer->has_ps;
	if (is_any_awaited(producer))
		return NULL;
	TFC__LIST_EACH (link, &producer->tasks) {
		struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		bool waits = producer->has_ps && !task->has_read;
		if (task->is_terminated || task->is_end_sent || (!task->is_welcome && !waits))
			continue;
		if (producer->has_ps && task->is_welcome &&
		    !tfc__feed_stream_has_room(task->stream))
			continue;
		if (!best || (by_open_rows ? task->rows_open < best->rows_open
					   : task->rows_put < best->rows_put))
			best = task;
	}
	return best && best->is_welcome ? best : NULL;
}

static int partition_begin(tfc_feed_producer *producer, uint64_t number,
			   struct feed_partition **ret_partition)
{
	tfc_error *error = tfc__ctx_error(producer->ctx);
	if (producer->is_ending)
		return tfc__fail(error, TFC_ESTATE, "feed", 0,
				 "cannot put partition %llu: the feed was ended",
				 (unsigned long long)number);
	struct feed_partition *partition = tfc__feed_partition_add(producer, number);
	if (!partition)
		return tfc__fail_nomem(error, "feed");
	int code = tfc__feed_partition_commit(producer, partition, error);
	if (code < 0) {
		tfc__feed_partition_free(producer, partition);
		tfc__feed_producer_fail(producer, error);
		return code;
	}
	*ret_partition = partition;
	return TFC_OK;
}

static int partition_get(tfc_feed_producer *producer, uint64_t number,
			 struct feed_partition **ret_partition)
{
	*ret_partition = tfc__feed_table_find(&producer->partitions, number);
	return *ret_partition ? TFC_OK : partition_begin(producer, number, ret_partition);
}

/* TFC_EAGAIN: no task has room. */
static int partition_assign(tfc_feed_producer *producer, struct feed_partition *partition)
{
	struct feed_task *task = partition->task ? partition->task : choose_task(producer);
	if (!task || !task->is_welcome || !tfc__feed_stream_has_room(task->stream)) {
		producer->wants_ready = true;
		return tfc__ctx_fail(producer->ctx, TFC_EAGAIN, "feed", 0,
				     task ? "the window of %s is full"
					  : "no task reads queue \"%s\" yet",
				     task ? task->name : producer->queue);
	}
	partition->task = task;
	return TFC_OK;
}

/* Whether another worker of parameter servers may have room for the partition. */
static bool partition_unassign(const tfc_feed_producer *producer, struct feed_partition *partition)
{
	if (!producer->has_ps || !partition->task || partition->put || partition->skip)
		return false;
	partition->task = NULL;
	return true;
}

static int producer_enter(tfc_feed_producer *producer)
{
	int code = producer ? tfc__ctx_enter(producer->ctx) : TFC_EINVAL;
	if (code < 0 || !producer->is_over || producer->is_terminated)
		return code;
	if (!producer->failure.code)
		return tfc__ctx_fail(producer->ctx, TFC_ESTATE, "feed", 0, "the feed has ended");
	*tfc__ctx_error(producer->ctx) = producer->failure;
	return TFC_ESTATE;
}

static void partition_add_put(struct feed_partition *partition, uint64_t rows)
{
	partition->put += rows;
	if (partition->put > partition->most_put)
		partition->most_put = partition->put;
}

/* Rows that the consumer has already, from this producer's previous process, are not sent again. */
static uint64_t partition_skip(struct feed_partition *partition, uint64_t rows)
{
	uint64_t skipped = partition->skip > partition->put ? partition->skip - partition->put : 0;
	if (skipped > rows)
		skipped = rows;
	partition_add_put(partition, skipped);
	return skipped;
}

static int producer_put_rows(tfc_feed_producer *producer, uint64_t number, uint64_t offset,
			     const struct tfc__feed_rows *rows, uint64_t begin, uint64_t *ret_rows)
{
	tfc_error *error = tfc__ctx_error(producer->ctx);
	struct feed_partition *partition;
	int code = tfc__feed_rows_check(&producer->schema->schema, rows, begin, error);
	if (code < 0)
		return code;
	if (producer->is_terminated) {
		*ret_rows = rows->rows - begin;
		return TFC_OK;
	}
	if ((code = partition_get(producer, number, &partition)) < 0)
		return code;
	if (partition->is_finished)
		return tfc__fail(error, TFC_ESTATE, "feed", 0,
				 "cannot put rows of partition %llu: it was finished",
				 (unsigned long long)number);
	if (offset != partition->put)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "partition %llu: offset is %llu, but %llu rows were put before",
				 (unsigned long long)number, (unsigned long long)offset,
				 (unsigned long long)partition->put);
	uint64_t skipped = partition_skip(partition, rows->rows - begin), sent = 0;
	if (begin + skipped == rows->rows) {
		*ret_rows = skipped;
		return TFC_OK;
	}
	if (partition->is_known_whole && !partition->is_committed)
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "partition %llu: more rows are put than the %llu that %s has of "
				 "it; a producer that begins again must feed the same rows in the "
				 "same partitions",
				 (unsigned long long)number, (unsigned long long)partition->skip,
				 partition->task ? partition->task->name : "a task");
	do {
		code = partition_assign(producer, partition);
		if (code < 0)
			break;
		code = tfc__feed_stream_put(partition->task->stream, number, offset + skipped,
					    producer->schema, rows, begin + skipped, error, &sent);
		if (code == TFC_EAGAIN)
			tfc__fail(error, TFC_EAGAIN, "feed", 0, "the window of %s is full",
				  partition->task->name);
	} while (code == TFC_EAGAIN && partition_unassign(producer, partition));
	if (code == TFC_EAGAIN)
		producer->wants_ready = true;
	if (code < 0 && code != TFC_EAGAIN && !partition->put && !partition->skip &&
	    !partition->is_owed)
		tfc__feed_partition_free(producer, partition); /* nothing of it was put */
	if (code < 0 && !skipped)
		return code;
	if (sent) {
		partition_add_put(partition, sent);
		partition->task->rows_put += sent;
		partition->task->rows_open += sent;
	}
	*ret_rows = skipped + sent;
	return TFC_OK;
}

/* Rows that are refused do not decide the schema. */
static int producer_put(tfc_feed_producer *producer, uint64_t number, uint64_t offset,
			struct tfc__feed_schema *schema, const struct tfc__feed_rows *rows,
			uint64_t begin, uint64_t *ret_rows)
{
	bool is_first = !producer->schema;
	if (!ret_rows) {
		tfc__feed_schema_fini(schema);
		return tfc__ctx_fail(producer->ctx, TFC_EINVAL, "feed", 0, "ret_rows is NULL");
	}
	int code = tfc__feed_schema_share(&producer->schema, schema, tfc__ctx_error(producer->ctx));
	if (code < 0)
		return code;
	code = producer_put_rows(producer, number, offset, rows, begin, ret_rows);
	if (code < 0 && is_first) {
		tfc__feed_shared_schema_release(producer->schema);
		producer->schema = NULL;
	}
	return code;
}

int tfc_feed_producer_put(tfc_feed_producer *producer, uint64_t partition, uint64_t offset,
			  const struct ArrowSchema *schema, const struct ArrowArray *array,
			  uint64_t begin, uint64_t *ret_rows)
{
	struct tfc__feed_rows put;
	struct tfc__feed_schema imported;
	int code = producer_enter(producer);
	if (code == TFC_OK)
		code = tfc__feed_rows_of_array(schema, array, begin, tfc__ctx_error(producer->ctx),
					       &put, &imported);
	return code < 0 ? code
			: producer_put(producer, partition, offset, &imported, &put, begin,
				       ret_rows);
}

int tfc_feed_producer_put_columns(tfc_feed_producer *producer, uint64_t partition, uint64_t offset,
				  const tfc_feed_column *columns, uint32_t column_count,
				  uint64_t rows, uint64_t begin, uint64_t *ret_rows)
{
	struct tfc__feed_rows put;
	struct tfc__feed_schema imported;
	int code = producer_enter(producer);
	if (code == TFC_OK)
		code = tfc__feed_rows_of_columns(columns, column_count, rows, begin,
						 tfc__ctx_error(producer->ctx), &put, &imported);
	return code < 0 ? code
			: producer_put(producer, partition, offset, &imported, &put, begin,
				       ret_rows);
}

int tfc_feed_producer_finish(tfc_feed_producer *producer, uint64_t number, uint64_t rows)
{
	struct feed_partition *partition;
	int code = producer_enter(producer);
	if (code < 0 || producer->is_terminated)
		return code;
	if ((code = partition_get(producer, number, &partition)) < 0)
		return code;
	if (partition->is_finished)
		return tfc__ctx_fail(producer->ctx, TFC_ESTATE, "feed", 0,
				     "partition %llu was finished before",
				     (unsigned long long)number);
	if (rows > partition->put)
		partition_skip(partition, rows - partition->put);
	if (rows != partition->put)
		return tfc__ctx_fail(producer->ctx, TFC_EINVAL, "feed", 0,
				     "partition %llu has %llu rows, but %llu were put",
				     (unsigned long long)number, (unsigned long long)rows,
				     (unsigned long long)partition->put);
	if (partition->is_committed ? rows != partition->committed_total
				    : partition->done != UINT64_MAX && rows < partition->done)
		return tfc__ctx_fail(
			producer->ctx, TFC_EINVAL, "feed", 0,
			"partition %llu has %llu rows, but a checkpoint has %llu rows of it; feed "
			"the same rows in the same partitions, or begin without the checkpoint",
			(unsigned long long)number, (unsigned long long)rows,
			(unsigned long long)partition->done);
	if (rows < partition->skip && partition->skip != UINT64_MAX)
		return tfc__ctx_fail(
			producer->ctx, TFC_EINVAL, "feed", 0,
			"partition %llu has %llu rows, but %s has %llu of it; a producer that "
			"begins again must feed the same rows in the same partitions",
			(unsigned long long)number, (unsigned long long)rows,
			partition->task ? partition->task->name : "a task",
			(unsigned long long)partition->skip);
	if (!partition->is_known_whole) {
		if ((code = partition_assign(producer, partition)) < 0)
			return code;
		struct tfc__feed_message message = {.kind = TFC__FEED_FINISH,
						    .partition = number,
						    .rows = rows};
		if (tfc__feed_stream_send(partition->task->stream, &message) < 0)
			return tfc__fail_nomem(tfc__ctx_error(producer->ctx), "feed");
	}
	partition->is_finished = true;
	partition->is_owed = false;
	partition->total = rows;
	tfc__work_schedule(&producer->completed);
	return TFC_OK;
}

int tfc_feed_producer_end(tfc_feed_producer *producer)
{
	int code = producer ? tfc__ctx_enter(producer->ctx) : TFC_EINVAL;
	if (code < 0 || producer->is_over)
		return code;
	for (uint32_t i = 0; i < producer->partitions.count; i++) {
		const struct feed_partition *partition = producer->partitions.records[i];
		if (!partition->is_finished && partition->put && !producer->is_terminated)
			return tfc__ctx_fail(producer->ctx, TFC_ESTATE, "feed", 0,
					     "cannot end the feed: partition %llu is not finished",
					     (unsigned long long)partition->number);
	}
	/* Those of which nothing was put, and those that a consumer has from this producer's
	 * previous process, and that were not put again: no more of them follows. */
	for (uint32_t i = producer->partitions.count; i-- > 0;) {
		struct feed_partition *partition = producer->partitions.records[i];
		if (!partition->is_finished && !partition->put && !partition->is_owed)
			tfc__feed_partition_free(producer, partition);
	}
	producer->is_ending = true;
	tfc__work_schedule(&producer->completed);
	return TFC_OK;
}
