/*
 * What consumers report to a producer: what they have, what a checkpoint has, steps, results, and
 * that they are gone.
 */
#include "feed/producer.h"

#include <stdlib.h>
#include <string.h>

/* ---- steps that all tasks take together */

struct grant {
	uint64_t steps;
	uint64_t padded;
	bool is_final;
};

/* Each task has reported how many steps it has rows for, and perhaps that there are no more. */
static struct grant compute_grant(const tfc_feed_producer *producer)
{
	struct grant grant = {UINT64_MAX, UINT64_MAX, true};
	uint64_t most = 0;
	TFC__LIST_EACH (link, &producer->tasks) {
		const struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		if (task->steps < grant.steps)
			grant.steps = task->steps;
		if (!task->is_step_end && task->steps < grant.padded)
			grant.padded = task->steps;
		if (task->steps > most)
			most = task->steps;
		grant.is_final &= task->is_step_end;
	}
	if (grant.padded > most)
		grant.padded = most;
	return grant;
}

static void send_grants(tfc_feed_producer *producer)
{
	struct grant grant = compute_grant(producer);
	TFC__LIST_EACH (link, &producer->tasks) {
		struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		if (!task->is_welcome || !task->is_in_step ||
		    (grant.steps <= task->granted && grant.padded <= task->granted_padded &&
		     grant.is_final <= task->is_grant_final))
			continue;
		task->granted = grant.steps;
		task->granted_padded = grant.padded;
		task->is_grant_final = grant.is_final;
		struct tfc__feed_message message = {.kind = TFC__FEED_GRANT,
						    .steps = grant.steps,
						    .padded_steps = grant.padded,
						    .is_end = grant.is_final};
		tfc__feed_stream_send(task->stream, &message);
	}
}

static void task_report(struct feed_task *task, const struct tfc__feed_message *message)
{
	if (message->steps >= task->steps)
		task->steps = message->steps;
	task->is_step_end |= message->is_end;
	send_grants(task->producer);
	tfc__feed_producer_check_end(task->producer);
}

/* ---- messages from consumers */

/* The consumer has rows of a partition, from this producer's previous process or from before the
 * connection broke. They are not sent again, unless the partition has another task by now. */
static void task_position(struct feed_task *task, const struct tfc__feed_message *message)
{
	tfc_feed_producer *producer = task->producer;
	struct feed_partition *partition = tfc__feed_table_find(&producer->partitions,
								message->partition);
	if (partition ? partition->task || partition->put > message->rows : producer->is_ending)
		return;
	if (!partition && !(partition = tfc__feed_partition_add(producer, message->partition)))
		return;
	partition->task = task;
	partition->skip = message->rows;
	if (message->offset > partition->done)
		partition->done = message->offset;
	partition->is_known_whole = message->is_end;
}

static void task_welcome(struct feed_task *task, const struct tfc__feed_message *message)
{
	tfc_feed_producer *producer = task->producer;
	struct tfc__feed_limits limits = producer->limits;
	tfc_error error = TFC_ERROR_INIT;
	if (message->version != TFC__FEED_VERSION) {
		tfc__fail(&error, TFC_ENOTSUP, "feed", 0, "%s has version %u of the feed, not %u",
			  task->name, message->version, TFC__FEED_VERSION);
		tfc__feed_producer_fail(producer, &error);
		return;
	}
	if (message->window >= TFC__FEED_WINDOW_MIN && message->window < limits.window)
		limits.window = message->window;
	limits.multiple = message->multiple;
	tfc__feed_stream_set_limits(task->stream, &limits);
	struct tfc__feed_message hello = {.kind = TFC__FEED_HELLO,
					  .version = TFC__FEED_VERSION,
					  .producer = producer->name,
					  .producers = producer->producers,
					  .wants_results = producer->wants_results,
					  .window = limits.window};
	if (tfc__feed_stream_send(task->stream, &hello) < 0)
		return;
	task->is_welcome = task->has_read = true;
	task->is_in_step = message->is_in_step;
	send_grants(producer);
	tfc__feed_producer_wake(producer);
	tfc__feed_producer_check_end(producer);
}

/* Results that are missing or wrong end the feed: the rows would be attributed to others. */
static bool check_results(struct feed_task *task, const struct feed_partition *partition,
			  uint64_t expected)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!task->producer->wants_results || partition->results >= expected)
		return true;
	tfc__fail(
		&error, TFC_EINVAL, "feed", 0,
		"partition %llu: %s has consumed %llu rows, but returned %llu results; return one "
		"result for each row",
		(unsigned long long)partition->number, task->name, (unsigned long long)expected,
		(unsigned long long)partition->results);
	tfc__feed_producer_fail(task->producer, &error);
	return false;
}

static void partition_check_done(tfc_feed_producer *producer, struct feed_partition *partition)
{
	struct feed_task *task = partition->task;
	if (!partition->is_finished || partition->done < partition->total)
		return;
	tfc_feed_event event = {.kind = TFC_FEED_EVENT_DONE,
				.partition = partition->number,
				.offset = partition->total,
				.task = task ? task->name : ""};
	tfc__feed_partition_free(producer, partition);
	if (tfc__feed_producer_report(producer, &event))
		tfc__feed_producer_check_end(producer);
}

static void task_done(struct feed_task *task, const struct tfc__feed_message *message)
{
	struct feed_partition *partition = tfc__feed_table_find(&task->producer->partitions,
								message->partition);
	uint64_t known;
	if (!partition || partition->task != task || message->rows < partition->done)
		return;
	known = partition->put > partition->skip ? partition->put : partition->skip;
	if (message->rows > known || !check_results(task, partition, message->rows))
		return;
	task->rows_open -= message->rows - partition->done < task->rows_open
				   ? message->rows - partition->done
				   : task->rows_open;
	partition->done = message->rows;
	tfc__feed_producer_wake(task->producer); /* choose_task may choose this one now */
	partition_check_done(task->producer, partition);
}

/* ---- rows of which a checkpoint has the effect */

/* Those that this producer has not put itself were put by its previous process: the checkpoint is
 * of an earlier run. */
static int partition_commit(tfc_feed_producer *producer, struct feed_partition *partition,
			    const struct feed_task *task, const tfc_feed_position *position,
			    tfc_error *error)
{
	if (position->rows > partition->most_put && !producer->is_replayable)
		return tfc__fail(
			error, TFC_ESTATE, "feed", 0,
			"partition %llu: the checkpoint of %s has %llu rows of it, but this "
			"producer has put %llu; a producer that begins again must feed the same "
			"rows and be replayable, or the job must begin without the checkpoint",
			(unsigned long long)partition->number, task->name,
			(unsigned long long)position->rows,
			(unsigned long long)partition->most_put);
	if (position->rows > partition->done)
		partition->done = position->rows;
	if (position->rows > partition->put && position->rows > partition->skip)
		partition->skip = position->rows;
	if (position->is_whole) {
		partition->is_committed = partition->is_known_whole = true;
		partition->committed_total = position->rows;
	}
	return TFC_OK;
}

/* A checkpoint that has less than the one before it was restored from an earlier one: what was
 * committed is not fed again. */
static int task_begin_committed(struct feed_task *task, uint64_t rows, tfc_error *error)
{
	if (rows < task->committed_rows)
		return tfc__fail(error, TFC_ESTATE, "feed", 0,
				 "%s was restored from a checkpoint that has %llu rows of queue "
				 "\"%s\", but an earlier one had %llu, which are not fed again; "
				 "restore the newest checkpoint, or feed the job from the start",
				 task->name, (unsigned long long)rows, task->producer->queue,
				 (unsigned long long)task->committed_rows);
	task->is_committing = true;
	task->committed_rows = rows;
	tfc__feed_positions_clear(&task->committed);
	return TFC_OK;
}

static int task_add_committed(struct feed_task *task, const tfc_feed_position *position,
			      tfc_error *error)
{
	tfc_feed_producer *producer = task->producer;
	int code = tfc__feed_positions_add(&task->committed, position);
	if (code < 0)
		return tfc__fail(error, code == TFC_EINVAL ? TFC_EPARSE : code, "feed", 0,
				 "%s: cannot take the positions of its checkpoint: %s", task->name,
				 tfc_err_text(code));
	for (uint32_t i = 0; i < producer->partitions.count && code == TFC_OK; i++) {
		struct feed_partition *partition = producer->partitions.records[i];
		if (tfc__feed_position_has(position, partition->number))
			code = partition_commit(producer, partition, task, position, error);
	}
	return code;
}

static void task_committed(struct feed_task *task, const struct tfc__feed_message *message)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc_feed_position position = {.partition = message->partition,
				      .partitions = message->partitions,
				      .rows = message->rows,
				      .is_whole = message->is_end};
	int code = message->partitions ? task_add_committed(task, &position, &error)
				       : task_begin_committed(task, message->rows, &error);
	if (code < 0)
		tfc__feed_producer_fail(task->producer, &error);
	else
		tfc__work_schedule(&task->producer->completed);
}

/* A partition that is new to this producer: a checkpoint may have it. */
int tfc__feed_partition_commit(tfc_feed_producer *producer, struct feed_partition *partition,
			       tfc_error *error)
{
	TFC__LIST_EACH (link, &producer->tasks) {
		const struct feed_task *task = tfc__container_of(link, struct feed_task, link);
		const tfc_feed_position *position = tfc__feed_positions_find(&task->committed,
									     partition->number);
		int code = position ? partition_commit(producer, partition, task, position, error)
				    : TFC_OK;
		if (code < 0)
			return code;
	}
	return TFC_OK;
}

/* Its task needs no more of it: what the host still puts is skipped, up to its end. */
static void partition_drop(struct feed_partition *partition)
{
	partition->skip = partition->done = UINT64_MAX;
	partition->is_known_whole = true;
}

static void task_terminate(struct feed_task *task)
{
	tfc_feed_producer *producer = task->producer;
	bool are_all = true;
	tfc_feed_event event = {.kind = TFC_FEED_EVENT_TERMINATED};
	task->is_terminated = true;
	TFC__LIST_EACH (link, &producer->tasks)
		are_all &= tfc__container_of(link, struct feed_task, link)->is_terminated;
	for (uint32_t i = producer->partitions.count; i-- > 0;) {
		struct feed_partition *partition = producer->partitions.records[i];
		if (are_all)
			tfc__feed_partition_free(producer, partition);
		else if (partition->task == task)
			partition_drop(partition);
	}
	tfc__work_schedule(&producer->completed);
	producer->is_terminated |= are_all;
	if (!are_all || tfc__feed_producer_report(producer, &event)) {
		tfc__feed_producer_wake(producer);
		tfc__feed_producer_check_end(producer);
	}
}

static void task_replaced(const struct feed_task *task)
{
	tfc_feed_producer *producer = task->producer;
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ESTATE, "feed", 0,
		  "another producer \"%s\" feeds queue \"%s\" of %s now; give each producer a name "
		  "of its own, and state their number",
		  producer->name, producer->queue, task->name);
	tfc__feed_producer_fail(producer, &error);
}

void tfc__feed_task_receive(struct feed_task *task, const struct tfc__feed_message *message)
{
	switch (message->kind) {
	case TFC__FEED_POSITION:
		task_position(task, message);
		break;
	case TFC__FEED_WELCOME:
		task_welcome(task, message);
		break;
	case TFC__FEED_DONE:
		task_done(task, message);
		break;
	case TFC__FEED_REPORT:
		task_report(task, message);
		break;
	case TFC__FEED_COMMITTED:
		task_committed(task, message);
		break;
	case TFC__FEED_TERMINATE:
		task_terminate(task);
		break;
	case TFC__FEED_REPLACED:
		task_replaced(task);
		break;
	default: /* of a later version */
		break;
	}
}

void tfc__feed_task_receive_result(struct feed_task *task, tfc_feed_batch *batch)
{
	tfc_feed_producer *producer = task->producer;
	struct feed_partition *partition = tfc__feed_table_find(&producer->partitions,
								batch->partition);
	tfc_error error = TFC_ERROR_INIT;
	tfc_feed_event event = {.kind = TFC_FEED_EVENT_RESULT,
				.partition = batch->partition,
				.offset = batch->offset,
				.batch = batch,
				.task = task->name};
	if (producer->is_over || !partition || partition->task != task) {
		tfc_feed_batch_release(batch);
		return;
	}
	if (batch->offset != partition->results ||
	    batch->offset + batch->layout.rows > partition->put) {
		tfc__fail(
			&error, TFC_EINVAL, "feed", 0,
			"partition %llu: %s has returned results for rows %llu to %llu, but those "
			"of row %llu are next, of %llu rows",
			(unsigned long long)batch->partition, task->name,
			(unsigned long long)batch->offset,
			(unsigned long long)(batch->offset + batch->layout.rows),
			(unsigned long long)partition->results, (unsigned long long)partition->put);
		tfc_feed_batch_release(batch);
		tfc__feed_producer_fail(producer, &error);
		return;
	}
	partition->results += batch->layout.rows;
	tfc__feed_producer_report(producer, &event);
	tfc_feed_batch_release(batch);
}

static bool has_partitions(const struct feed_task *task)
{
	const tfc_feed_producer *producer = task->producer;
	for (uint32_t i = 0; i < producer->partitions.count; i++)
		if (((const struct feed_partition *)producer->partitions.records[i])->task == task)
			return true;
	return false;
}

/* The partitions that the task had must be put again, from where it had consumed them. One that has
 * consumed all of its own has closed the queue, which it may open again for the next feed. */
bool tfc__feed_task_is_down(struct feed_task *task)
{
	tfc_feed_producer *producer = task->producer;
	struct feed_partition **records = (struct feed_partition **)producer->partitions.records;
	task->rows_put = task->rows_open = task->steps = 0;
	task->granted = task->granted_padded = 0;
	task->is_step_end = task->is_grant_final = task->is_in_step = false;
	task->is_end_sent = task->is_end_sent && !has_partitions(task);
	for (uint32_t i = producer->partitions.count; i-- > 0;) {
		if (records[i]->task != task)
			continue;
		if (!records[i]->put && records[i]->skip &&
		    !records[i]->is_owed) { /* nothing was put here */
			tfc__feed_partition_free(producer, records[i]);
			continue;
		}
		records[i]->task = NULL;
		if (records[i]->done == UINT64_MAX) /* by the previous process: all is consumed */
			continue;
		records[i]->is_replaying = records[i]->put > 0 || records[i]->is_finished ||
					   records[i]->is_owed;
		records[i]->is_finished = false;
		records[i]->skip = 0;
		records[i]->is_known_whole = records[i]->is_committed;
		records[i]->put = records[i]->results = records[i]->done;
	}
	if (producer->is_over)
		return true;
	/* The host's function may put, finish and close. What it removes is replaced by the last
	 * record, which may be one that was not reported yet. */
	bool is_any;
	do {
		is_any = false;
		for (uint32_t i = 0; i < producer->partitions.count; i++) {
			struct feed_partition *partition = producer->partitions.records[i];
			if (!partition->is_replaying)
				continue;
			tfc_feed_event event = {.kind = TFC_FEED_EVENT_REPLAY,
						.partition = partition->number,
						.offset = partition->done,
						.task = task->name};
			is_any = true;
			partition->is_replaying = false;
			partition->is_owed = true;
			if (!tfc__feed_producer_report(producer, &event))
				return false;
		}
	} while (is_any);
	return true;
}
