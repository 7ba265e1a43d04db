/*
 * The producers of a consumer, and the partitions that they feed.
 */
#include "feed/consumer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* How long a producer that has died may take to come back. */
#define PATIENCE_NS (30 * TFC__SECOND)

static uint64_t part_number(const void *record)
{
	return ((const struct feed_part *)record)->number;
}

void tfc__feed_drop_batches(struct tfc__link *batches)
{
	TFC__LIST_EACH (link, batches) {
		tfc__list_remove(link);
		tfc_feed_batch_release(tfc__container_of(link, tfc_feed_batch, link));
	}
}

void tfc__feed_part_free(tfc_feed_consumer *consumer, struct feed_part *part)
{
	tfc__feed_drop_batches(&part->held);
	if (part->source)
		part->source->held_bytes -= part->held_bytes;
	tfc__feed_table_remove(&consumer->parts, part->number, part_number);
	free(part);
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

void tfc__feed_source_free(struct feed_source *source)
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
			tfc__feed_part_free(consumer, part);
		else
			part->source = NULL;
	}
	tfc__feed_stream_close(source->stream);
	source->stream = NULL;
	source->held_bytes = 0;
	if (!source->name[0]) {
		tfc__feed_source_free(source);
		return;
	}
	if (!source->is_ended && !consumer->is_terminated)
		tfc__timer_set(&consumer->patience, tfc__now() + PATIENCE_NS);
	tfc__feed_consumer_wake(consumer);
}

void tfc__feed_patience_is_over(struct tfc__timer *timer)
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
		tfc__feed_consumer_fail(consumer, &error);
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

int tfc__feed_source_report(struct feed_source *source)
{
	const tfc_feed_consumer *consumer = source->consumer;
	struct tfc__feed_message report = {.kind = TFC__FEED_REPORT,
					   .steps = consumer->steps,
					   .is_end = consumer->is_report_end};
	return consumer->has_report ? tfc__feed_stream_send(source->stream, &report) : TFC_OK;
}

int tfc__feed_source_terminate(struct feed_source *source)
{
	struct tfc__feed_message message = {.kind = TFC__FEED_TERMINATE};
	if (!source->stream || source->is_terminated)
		return TFC_OK;
	int code = tfc__feed_stream_send(source->stream, &message);
	source->is_terminated = code == TFC_OK;
	return code;
}

/* If the process is alive, it does not take the place back, but learns why it has lost it. */
static void source_replace(struct feed_source *source)
{
	const struct tfc__feed_message replaced = {.kind = TFC__FEED_REPLACED};
	tfc__feed_stream_send(source->stream, &replaced);
	source_lose(source);
}

/*
 * Gives the source its name. A producer that comes back takes the place of its previous process.
 * Returns false if rows of that process have arrived after the positions were sent to this one:
 * the source is freed, and the producer connects again.
 */
static bool source_adopt(struct feed_source *source, const char *name)
{
	tfc_feed_consumer *consumer = source->consumer;
	bool is_late = false;
	TFC__LIST_EACH (link, &consumer->sources) {
		struct feed_source *other = tfc__container_of(link, struct feed_source, link);
		if (other == source || strcmp(other->name, name) != 0)
			continue;
		if (other->stream)
			source_replace(other);
		is_late |= other->changed_at > source->positions_at;
		if (!is_late)
			tfc__feed_source_free(other);
	}
	if (is_late) {
		source_lose(source);
		return false;
	}
	snprintf(source->name, sizeof(source->name), "%s", name);
	if (!has_dead_source(consumer))
		tfc__timer_cancel(&consumer->patience);
	return true;
}

static void source_hello(struct feed_source *source, const struct tfc__feed_message *message)
{
	tfc_feed_consumer *consumer = source->consumer;
	if (message->version != TFC__FEED_VERSION || !message->producer ||
	    !tfc__feed_is_name(message->producer)) {
		source_break(source, "has another version of the feed");
		return;
	}
	if (!source_adopt(source, message->producer))
		return;
	if (message->producers > consumer->producers)
		consumer->producers = message->producers;
	consumer->wants_results |= message->wants_results;
	source->window = message->window;
	if (tfc__feed_source_report(source) < 0) {
		source_break(source, "was dropped: out of memory");
		return;
	}
	if (consumer->is_terminated && tfc__feed_source_terminate(source) < 0) {
		source_break(source, "was dropped: out of memory");
		return;
	}
	tfc__feed_consumer_wake(consumer);
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
	tfc__feed_consumer_wake(consumer);
}

void tfc__feed_consumer_flow_stalled(tfc_feed_consumer *consumer)
{
	bool are_stalled = false;
	TFC__LIST_EACH (link, &consumer->sources)
		are_stalled |= tfc__container_of(link, struct feed_source, link)->is_stalled;
	if (!are_stalled)
		return;
	for (uint32_t i = 0; i < consumer->parts.count; i++) {
		struct feed_part *part = consumer->parts.records[i];
		if (!part->is_flowing && part->source && part->source->is_stalled)
			part_flow(consumer, part);
	}
	TFC__LIST_EACH (link, &consumer->sources)
		tfc__container_of(link, struct feed_source, link)->is_stalled = false;
}

static void source_stalled(struct feed_source *source)
{
	tfc_feed_consumer *consumer = source->consumer;
	source->is_stalled = true;
	if (consumer->wants_ready && tfc__list_is_empty(&consumer->ready))
		tfc__feed_consumer_flow_stalled(consumer);
}

static void source_batch(void *user, tfc_feed_batch *batch)
{
	struct feed_source *source = user;
	tfc_feed_consumer *consumer = source->consumer;
	source->is_stalled = false;
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
	source->changed_at = ++consumer->changes;
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
	source->changed_at = ++consumer->changes;
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
	tfc__feed_consumer_wake(consumer);
}

static void source_end(struct feed_source *source)
{
	tfc_feed_consumer *consumer = source->consumer;
	source->is_ended = true;
	if (!consumer->schema)
		consumer->schema = tfc__feed_shared_schema_keep(
			tfc__feed_stream_schema(source->stream));
	tfc__feed_consumer_wake(consumer);
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
	case TFC__FEED_STALLED:
		source_stalled(source);
		break;
	default: /* of a later version */
		break;
	}
}

static void source_room(void *user)
{
	struct feed_source *source = user;
	tfc__feed_consumer_wake(source->consumer);
}

/* A failure of this process would meet the producer again whenever it comes back. */
static void source_down(void *user, const tfc_error *why)
{
	struct feed_source *source = user;
	tfc_feed_consumer *consumer = source->consumer;
	tfc_error error = TFC_ERROR_INIT;
	source_lose(source);
	if (why->code == TFC_ELOST || why->code == TFC_EPARSE)
		return;
	tfc__fail(&error, why->code, "feed", why->sys_errno, "cannot read queue \"%s\" of %s: %s",
		  consumer->queue, consumer->task, why->text);
	tfc__feed_consumer_fail(consumer, &error);
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

int tfc__feed_source_send_committed(struct feed_source *source)
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

bool tfc__feed_queue_is_ended(const tfc_feed_consumer *consumer)
{
	uint32_t ended = 0;
	TFC__LIST_EACH (link, &consumer->sources)
		ended += tfc__container_of(link, struct feed_source, link)->is_ended;
	return consumer->is_terminated || (consumer->producers && ended >= consumer->producers);
}

/* A connection with a producer, which the node has made. */
void tfc__feed_consumer_add_source(tfc_feed_consumer *consumer, int fd)
{
	/* The producers of an ended queue are complete, but for what is not committed yet. Another
	 * one comes back for the next consumer. */
	bool is_complete = tfc__feed_queue_is_ended(consumer) && !consumer->is_terminated &&
			   !consumer->is_committing;
	struct feed_source *source = is_complete ? NULL : calloc(1, sizeof(*source));
	if (!source) {
		close(fd);
		return;
	}
	source->consumer = consumer;
	source->positions_at = consumer->changes;
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
	if (source_send_positions(source) < 0 || tfc__feed_source_send_committed(source) < 0 ||
	    tfc__feed_stream_send(source->stream, &welcome) < 0)
		source_lose(source);
}

static struct feed_source *consumer_find_source(const tfc_feed_consumer *consumer, const char *name)
{
	TFC__LIST_EACH (link, &consumer->sources) {
		struct feed_source *source = tfc__container_of(link, struct feed_source, link);
		if (!strcmp(source->name, name))
			return source;
	}
	return NULL;
}

void tfc__feed_consumer_add_end(tfc_feed_consumer *consumer, const char *name, uint32_t producers)
{
	struct feed_source *source = consumer_find_source(consumer, name);
	bool is_grant_final = true;
	if (source && source->stream)
		return;
	if (!source) {
		source = calloc(1, sizeof(*source));
		if (!source)
			return;
		source->consumer = consumer;
		snprintf(source->name, sizeof(source->name), "%s", name);
		tfc__list_append(&consumer->sources, &source->link);
	}
	source->is_ended = true;
	if (producers > consumer->producers)
		consumer->producers = producers;
	/* Nobody is left who would grant steps. */
	TFC__LIST_EACH (link, &consumer->sources)
		is_grant_final &= !tfc__container_of(link, struct feed_source, link)->stream;
	consumer->is_grant_final |= is_grant_final && tfc__feed_queue_is_ended(consumer);
	tfc__feed_consumer_wake(consumer);
}
