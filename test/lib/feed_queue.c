#include "feed_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <unistd.h>

tfc_ctx *queue_ctx;
struct tfc__feed_broker *queue_broker;
char queue_address[TFC__FEED_ADDRESS_SIZE];
struct feed_way queue_way;
bool queue_is_remote;

/* ---- a producer by hand */

static void stream_message(void *user, const struct tfc__feed_message *message)
{
	struct queue_producer *producer = user;
	if (message->kind == TFC__FEED_POSITION) {
		producer->positions++;
		producer->position_rows = message->rows;
	} else if (message->kind == TFC__FEED_WELCOME) {
		producer->is_welcome = true;
	} else if (message->kind == TFC__FEED_TERMINATE) {
		producer->is_terminated = true;
	} else if (message->kind == TFC__FEED_REPLACED) {
		producer->is_replaced = true;
	} else if (message->kind == TFC__FEED_DONE) {
		producer->done[message->partition] = message->rows;
	} else if (message->kind == TFC__FEED_COMMITTED && !message->partitions) {
		producer->commits++;
		producer->committed_rows = message->rows;
		producer->is_committed_first = !producer->is_welcome;
	} else if (message->kind == TFC__FEED_COMMITTED) {
		for (uint64_t i = 0; i < message->partitions; i++)
			producer->committed[message->partition + i] = message->rows;
	}
}

static void stream_batch(void *user, tfc_feed_batch *batch)
{
	tfc_feed_batch_release(batch);
}

static void stream_room(void *user)
{
}

static void stream_down(void *user, const tfc_error *why)
{
	struct queue_producer *producer = user;
	producer->is_down = true;
}

static const struct tfc__feed_stream_ops stream_ops = {stream_message, stream_batch, stream_room,
						       stream_down};

static void adopt_stream(void *user, int fd)
{
	struct queue_producer *producer = user;
	struct tfc__feed_limits limits = {WINDOW, WINDOW / 4, 1};
	assert_int_equal(tfc__feed_stream_open(queue_ctx, fd, &stream_ops, producer, NULL,
					       &producer->stream),
			 TFC_OK);
	tfc__feed_stream_set_limits(producer->stream, &limits);
}

static void socket_message(void *user, const struct tfc__feed_message *message, int fd)
{
	assert_int_equal(message->kind, TFC__FEED_CONNECTED);
	assert_true(fd >= 0);
	adopt_stream(user, fd);
}

static void remote_failed(void *user, const tfc_error *why)
{
	fail_msg("%s", why->text);
}

static void remote_flushed(void *user)
{
}

static const struct tfc__feed_remote_ops remote_ops = {adopt_stream, remote_failed, remote_flushed};

static void socket_down(void *user, const tfc_error *why)
{
}

static const struct tfc__feed_socket_ops socket_ops = {socket_message, socket_down, NULL};

void queue_send(struct queue_producer *producer, struct tfc__feed_message message)
{
	assert_int_equal(tfc__feed_stream_send(producer->stream, &message), TFC_OK);
}

void queue_producer_connect(struct queue_producer *producer)
{
	struct tfc__feed_message connect = {.kind = TFC__FEED_CONNECT,
					    .version = TFC__FEED_VERSION,
					    .task = "worker/0",
					    .queue = "train"};
	int fd;
	*producer = (struct queue_producer){0};
	if (queue_is_remote) {
		const struct tfc__feed_connect remote = feed_way_connect(&queue_way);
		assert_int_equal(tfc__feed_remote_open(&queue_way.gateway, &remote, &remote_ops,
						       producer, NULL, &producer->remote),
				 TFC_OK);
	} else {
		assert_int_equal(tfc__feed_socket_dial(queue_address, NULL, &fd), TFC_OK);
		assert_int_equal(tfc__feed_socket_open(&producer->socket, queue_ctx, fd,
						       &socket_ops, producer, NULL),
				 TFC_OK);
		assert_int_equal(tfc__feed_socket_send(&producer->socket, &connect, -1), TFC_OK);
	}
	RUN_UNTIL(producer->stream && producer->is_welcome);
}

void queue_hello(struct queue_producer *producer, const char *name, uint32_t producers)
{
	queue_send(producer, (struct tfc__feed_message){.kind = TFC__FEED_HELLO,
							.version = TFC__FEED_VERSION,
							.producer = name,
							.producers = producers,
							.window = WINDOW});
}

void queue_producer_open(struct queue_producer *producer, const char *name, uint32_t producers)
{
	queue_producer_connect(producer);
	queue_hello(producer, name, producers);
}

void queue_producer_close(struct queue_producer *producer)
{
	RUN_UNTIL(tfc__feed_remote_is_flushed(producer->remote));
	tfc__feed_stream_close(producer->stream);
	tfc__feed_remote_close(producer->remote);
	tfc__feed_socket_close(&producer->socket);
	tfc__feed_shared_schema_release(producer->schema);
	*producer = (struct queue_producer){0};
}

int queue_put_rows(struct queue_producer *producer, uint64_t partition, uint64_t offset,
		   uint64_t count, uint64_t *ret_rows)
{
	int64_t values[8192];
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	struct tfc__feed_rows rows = {.columns = &column, .rows = count};
	struct tfc__feed_schema schema;
	tfc_error error = TFC_ERROR_INIT;
	assert_true(count <= 8192);
	for (uint64_t i = 0; i < count; i++)
		values[i] = (int64_t)(offset + i);
	column.type = TFC_FEED_TYPE_INT64;
	column.name = "x";
	column.values = values;
	assert_int_equal(tfc__feed_schema_from_columns(&column, 1, &error, &schema), TFC_OK);
	assert_int_equal(tfc__feed_schema_share(&producer->schema, &schema, &error), TFC_OK);
	return tfc__feed_stream_put(producer->stream, partition, offset, producer->schema, &rows, 0,
				    &error, ret_rows);
}

void queue_put(struct queue_producer *producer, uint64_t partition, uint64_t offset, uint64_t count)
{
	uint64_t rows = 0;
	assert_int_equal(queue_put_rows(producer, partition, offset, count, &rows), TFC_OK);
	assert_int_equal(rows, count);
}

void queue_finish(struct queue_producer *producer, uint64_t partition, uint64_t rows)
{
	queue_send(producer, (struct tfc__feed_message){.kind = TFC__FEED_FINISH,
							.partition = partition,
							.rows = rows});
}

void queue_end(struct queue_producer *producer)
{
	queue_send(producer, (struct tfc__feed_message){.kind = TFC__FEED_END});
}

/* ---- the consumer */

static void consumer_event(void *user, const tfc_feed_event *event)
{
	struct queue_consumer *consumer = user;
	if (event->kind == TFC_FEED_EVENT_END)
		consumer->code = event->code;
}

void queue_consumer_open(struct queue_consumer *consumer, uint32_t attempt, uint32_t is_in_step)
{
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	*consumer = (struct queue_consumer){0};
	options.address = queue_address;
	options.task = "worker/0";
	options.attempt = attempt;
	options.is_in_step = is_in_step;
	assert_int_equal(tfc_feed_consumer_open(queue_ctx, &options, consumer_event, consumer,
						&consumer->feed),
			 TFC_OK);
}

tfc_feed_batch *queue_next(struct queue_consumer *consumer)
{
	tfc_feed_batch *batch = NULL;
	int code = TFC_EAGAIN;
	RUN_UNTIL((code = tfc_feed_consumer_next(consumer->feed, &batch)) != TFC_EAGAIN);
	assert_true(code >= 0);
	return batch;
}

void queue_expect_nothing(struct queue_consumer *consumer)
{
	tfc_feed_batch *batch;
	for (int i = 0; i < 20; i++)
		assert_true(tfc_ctx_run(queue_ctx, 0) >= 0);
	assert_int_equal(tfc_feed_consumer_next(consumer->feed, &batch), TFC_EAGAIN);
}

void queue_expect_rows(struct queue_consumer *consumer, uint64_t partition, uint64_t offset,
		       uint64_t rows)
{
	uint64_t until = offset + rows;
	while (offset < until) {
		tfc_feed_batch *batch = queue_next(consumer);
		tfc_feed_column column = TFC_FEED_COLUMN_INIT;
		assert_non_null(batch);
		assert_int_equal(tfc_feed_batch_partition(batch), partition);
		assert_int_equal(tfc_feed_batch_offset(batch), offset);
		assert_false(tfc_feed_batch_is_last(batch));
		assert_int_equal(tfc_feed_batch_column_count(batch), 1);
		assert_int_equal(tfc_feed_batch_column(batch, 1, &column), TFC_ENOENT);
		assert_int_equal(tfc_feed_batch_column(batch, 0, &column), TFC_OK);
		assert_string_equal(column.name, "x");
		assert_int_equal(column.type, TFC_FEED_TYPE_INT64);
		assert_int_equal((uintptr_t)column.values % 64, 0);
		for (uint64_t i = 0; i < tfc_feed_batch_rows(batch); i++)
			assert_int_equal(((const int64_t *)column.values)[i], offset + i);
		offset += tfc_feed_batch_rows(batch);
		tfc_feed_batch_release(batch);
	}
	assert_int_equal(offset, until);
}

void queue_expect_end_of(struct queue_consumer *consumer, uint64_t partition, uint64_t rows)
{
	tfc_feed_batch *batch = queue_next(consumer);
	assert_non_null(batch);
	assert_true(tfc_feed_batch_is_last(batch));
	assert_int_equal(tfc_feed_batch_rows(batch), 0);
	assert_int_equal(tfc_feed_batch_partition(batch), partition);
	assert_int_equal(tfc_feed_batch_offset(batch), rows);
	tfc_feed_batch_release(batch);
}

int queue_setup(void **state)
{
	static unsigned number;
	char node[64];
	snprintf(node, sizeof(node), "t%d-%u", (int)getpid(), number++);
	tfc__feed_address(queue_address, WAY_JOB, node);
	assert_int_equal(tfc_ctx_new(NULL, NULL, &queue_ctx), TFC_OK);
	assert_int_equal(tfc__feed_broker_open(queue_ctx, queue_address, NULL, 0, NULL,
					       &queue_broker),
			 TFC_OK);
	if (queue_is_remote)
		assert_int_equal(feed_way_open(&queue_way, queue_ctx, node), TFC_OK);
	return 0;
}

int queue_teardown(void **state)
{
	if (queue_is_remote)
		feed_way_close(&queue_way);
	tfc__feed_broker_close(queue_broker);
	queue_broker = NULL;
	assert_int_equal(tfc_ctx_close(queue_ctx), TFC_OK);
	return 0;
}
