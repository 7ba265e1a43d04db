/* A queue of a task: a consumer, the node's broker, and producers that are driven by hand, so that
 * they can lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "feed/broker.h"
#include "feed/stream.h"

#define WINDOW 65536u
#define ROWS 512u /* 4 KiB of int64 */

static tfc_ctx *ctx;
static struct tfc__feed_broker *broker;
static char address[TFC__FEED_ADDRESS_SIZE];

/* ---- a producer by hand */

struct producer {
	struct tfc__feed_socket socket;
	struct tfc__feed_stream *stream;
	struct tfc__feed_shared_schema *schema;
	bool is_welcome, is_down, is_terminated;
	uint64_t position_rows; /* the last POSITION */
	uint32_t positions;
	uint64_t done[8]; /* by partition */
	uint64_t padded;
	bool is_final;
};

static void stream_message(void *user, const struct tfc__feed_message *message)
{
	struct producer *producer = user;
	if (message->kind == TFC__FEED_POSITION) {
		producer->positions++;
		producer->position_rows = message->rows;
	} else if (message->kind == TFC__FEED_WELCOME) {
		producer->is_welcome = true;
	} else if (message->kind == TFC__FEED_TERMINATE) {
		producer->is_terminated = true;
	} else if (message->kind == TFC__FEED_DONE) {
		producer->done[message->partition] = message->rows;
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
	struct producer *producer = user;
	producer->is_down = true;
}

static const struct tfc__feed_stream_ops stream_ops = {stream_message, stream_batch, stream_room,
						       stream_down};

static void socket_message(void *user, const struct tfc__feed_message *message, int fd)
{
	struct producer *producer = user;
	struct tfc__feed_limits limits = {WINDOW, WINDOW / 4, 1};
	assert_int_equal(message->kind, TFC__FEED_CONNECTED);
	assert_true(fd >= 0);
	assert_int_equal(tfc__feed_stream_open(ctx, fd, &stream_ops, producer, NULL,
					       &producer->stream),
			 TFC_OK);
	tfc__feed_stream_set_limits(producer->stream, &limits);
}

static void socket_down(void *user, const tfc_error *why)
{
}

static const struct tfc__feed_socket_ops socket_ops = {socket_message, socket_down, NULL};

#define RUN_UNTIL(condition)                            \
	for (int turn_ = 0; !(condition); turn_++) {    \
		assert_true(turn_ < 1000);              \
		assert_true(tfc_ctx_run(ctx, 10) >= 0); \
	}

static void send_message(struct producer *producer, struct tfc__feed_message message)
{
	assert_int_equal(tfc__feed_stream_send(producer->stream, &message), TFC_OK);
}

static void producer_open(struct producer *producer, const char *name, uint32_t producers)
{
	struct tfc__feed_message connect = {.kind = TFC__FEED_CONNECT,
					    .version = TFC__FEED_VERSION,
					    .task = "worker/0",
					    .queue = "train"};
	int fd;
	*producer = (struct producer){0};
	assert_int_equal(tfc__feed_socket_dial(address, NULL, &fd), TFC_OK);
	assert_int_equal(tfc__feed_socket_open(&producer->socket, ctx, fd, &socket_ops, producer,
					       NULL),
			 TFC_OK);
	assert_int_equal(tfc__feed_socket_send(&producer->socket, &connect, -1), TFC_OK);
	RUN_UNTIL(producer->stream && producer->is_welcome);
	send_message(producer, (struct tfc__feed_message){.kind = TFC__FEED_HELLO,
							  .version = TFC__FEED_VERSION,
							  .producer = name,
							  .producers = producers,
							  .window = WINDOW});
}

static void producer_close(struct producer *producer)
{
	tfc__feed_stream_close(producer->stream);
	tfc__feed_socket_close(&producer->socket);
	tfc__feed_shared_schema_release(producer->schema);
	*producer = (struct producer){0};
}

/* Sends `count` rows whose values are those of their offsets, in one batch. Returns the code. */
static int put_rows(struct producer *producer, uint64_t partition, uint64_t offset, uint64_t count,
		    uint64_t *ret_rows)
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

static void put(struct producer *producer, uint64_t partition, uint64_t offset, uint64_t count)
{
	uint64_t rows = 0;
	assert_int_equal(put_rows(producer, partition, offset, count, &rows), TFC_OK);
	assert_int_equal(rows, count);
}

static void finish(struct producer *producer, uint64_t partition, uint64_t rows)
{
	send_message(producer, (struct tfc__feed_message){.kind = TFC__FEED_FINISH,
							  .partition = partition,
							  .rows = rows});
}

static void end(struct producer *producer)
{
	send_message(producer, (struct tfc__feed_message){.kind = TFC__FEED_END});
}

/* ---- the consumer */

struct consumer {
	tfc_feed_consumer *feed;
	int code; /* of the END event */
};

static void consumer_event(void *user, const tfc_feed_event *event)
{
	struct consumer *consumer = user;
	if (event->kind == TFC_FEED_EVENT_END)
		consumer->code = event->code;
}

static void consumer_open(struct consumer *consumer, uint32_t attempt, uint32_t is_in_step)
{
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	*consumer = (struct consumer){0};
	options.address = address;
	options.task = "worker/0";
	options.attempt = attempt;
	options.is_in_step = is_in_step;
	assert_int_equal(tfc_feed_consumer_open(ctx, &options, consumer_event, consumer,
						&consumer->feed),
			 TFC_OK);
}

/* The next batch; NULL at the end of the queue. */
static tfc_feed_batch *next(struct consumer *consumer)
{
	tfc_feed_batch *batch = NULL;
	int code = TFC_EAGAIN;
	RUN_UNTIL((code = tfc_feed_consumer_next(consumer->feed, &batch)) != TFC_EAGAIN);
	assert_true(code >= 0);
	return batch;
}

static void expect_nothing(struct consumer *consumer)
{
	tfc_feed_batch *batch;
	for (int i = 0; i < 20; i++)
		assert_true(tfc_ctx_run(ctx, 0) >= 0);
	assert_int_equal(tfc_feed_consumer_next(consumer->feed, &batch), TFC_EAGAIN);
}

/* Takes `rows` rows of a partition, which have the values of their offsets. */
static void expect_rows(struct consumer *consumer, uint64_t partition, uint64_t offset,
			uint64_t rows)
{
	uint64_t until = offset + rows;
	while (offset < until) {
		tfc_feed_batch *batch = next(consumer);
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

static void expect_end_of(struct consumer *consumer, uint64_t partition, uint64_t rows)
{
	tfc_feed_batch *batch = next(consumer);
	assert_non_null(batch);
	assert_true(tfc_feed_batch_is_last(batch));
	assert_int_equal(tfc_feed_batch_rows(batch), 0);
	assert_int_equal(tfc_feed_batch_partition(batch), partition);
	assert_int_equal(tfc_feed_batch_offset(batch), rows);
	tfc_feed_batch_release(batch);
}

/* ---- tests */

static int setup(void **state)
{
	static unsigned number;
	snprintf(address, sizeof(address), "@tfcluster-test/%d/%u", (int)getpid(), number++);
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
	assert_int_equal(tfc__feed_broker_open(ctx, address, NULL, 0, NULL, &broker), TFC_OK);
	return 0;
}

static int teardown(void **state)
{
	tfc__feed_broker_close(broker);
	broker = NULL;
	assert_int_equal(tfc_ctx_close(ctx), TFC_OK);
	return 0;
}

static void rows_arrive_in_order_and_the_queue_ends_after_all_producers(void **state)
{
	struct consumer consumer;
	struct producer first, second;
	consumer_open(&consumer, 1, 0);
	producer_open(&first, "a", 2);
	producer_open(&second, "b", 2);
	put(&first, 1, 0, 3);
	finish(&first, 1, 3);
	expect_rows(&consumer, 1, 0, 3);
	expect_end_of(&consumer, 1, 3);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 1, 4), TFC_EINVAL);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 1, 3), TFC_OK);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 1, 3), TFC_OK);
	RUN_UNTIL(first.done[1] == 3);
	end(&first);
	expect_nothing(&consumer);
	finish(&second, 2, 0);
	expect_end_of(&consumer, 2, 0);
	end(&second);
	assert_null(next(&consumer));
	tfc_feed_consumer_close(consumer.feed);
	producer_close(&first);
	producer_close(&second);
}

static void a_small_partition_is_discarded_with_its_producer(void **state)
{
	struct consumer consumer;
	struct producer producer;
	consumer_open(&consumer, 1, 0);
	producer_open(&producer, "a", 1);
	put(&producer, 1, 0, ROWS);
	expect_nothing(&consumer);
	producer_close(&producer);
	producer_open(&producer, "a", 1);
	assert_int_equal(producer.positions, 0);
	put(&producer, 1, 0, 2);
	finish(&producer, 1, 2);
	end(&producer);
	expect_rows(&consumer, 1, 0, 2);
	expect_end_of(&consumer, 1, 2);
	assert_null(next(&consumer));
	tfc_feed_consumer_close(consumer.feed);
	producer_close(&producer);
}

static void a_large_partition_resumes_with_its_producer(void **state)
{
	struct consumer consumer;
	struct producer producer;
	consumer_open(&consumer, 1, 0);
	producer_open(&producer, "a", 1);
	put(&producer, 1, 0, 5 * ROWS); /* 20 KiB, more than a quarter of the window */
	expect_rows(&consumer, 1, 0, 5 * ROWS);
	producer_close(&producer);
	producer_open(&producer, "a", 1);
	assert_int_equal(producer.positions, 1);
	assert_int_equal(producer.position_rows, 5 * ROWS);
	put(&producer, 1, 5 * ROWS, ROWS);
	finish(&producer, 1, 6 * ROWS);
	expect_rows(&consumer, 1, 5 * ROWS, ROWS);
	expect_end_of(&consumer, 1, 6 * ROWS);
	tfc_feed_consumer_close(consumer.feed);
	producer_close(&producer);
}

static void bytes_in_flight_are_those_of_the_window(void **state)
{
	struct consumer consumer;
	struct producer producer;
	tfc_feed_batch *batches[16];
	uint64_t rows = 0;
	uint32_t count = 0;
	consumer_open(&consumer, 1, 0);
	producer_open(&producer, "a", 1);
	for (uint32_t i = 0; i < WINDOW / (ROWS * 8); i++)
		put(&producer, 1, i * ROWS, ROWS);
	assert_int_equal(put_rows(&producer, 1, WINDOW / 8, 1, &rows), TFC_EAGAIN);
	RUN_UNTIL(tfc_feed_consumer_next(consumer.feed, &batches[count]) == 1 && ++count == 16);
	assert_int_equal(tfc_feed_batch_bytes(batches[0]), ROWS * 8);
	assert_int_equal(tfc_feed_batch_window_bytes(batches[0]), WINDOW);
	expect_nothing(&consumer);
	assert_int_equal(put_rows(&producer, 1, WINDOW / 8, 1, &rows), TFC_EAGAIN);
	assert_ptr_equal(tfc_feed_batch_keep(batches[3]), batches[3]);
	tfc_feed_batch_release(batches[3]);
	expect_nothing(&consumer);
	assert_int_equal(put_rows(&producer, 1, WINDOW / 8, 1, &rows), TFC_EAGAIN);
	tfc_feed_batch_release(batches[3]); /* the last reference */
	RUN_UNTIL(put_rows(&producer, 1, WINDOW / 8, ROWS, &rows) == TFC_OK);
	assert_int_equal(rows, ROWS);
	tfc_feed_consumer_close(consumer.feed);
	for (uint32_t i = 0; i < 16; i++)
		if (i != 3)
			tfc_feed_batch_release(batches[i]);
	producer_close(&producer);
}

static void *release_batches(void *user)
{
	tfc_feed_batch **batches = user;
	for (uint32_t i = 0; i < 1000; i++)
		tfc_feed_batch_release(batches[i]);
	return NULL;
}

/* The producer does not read: the kernel has no room for a thousand messages to it. */
static void releases_of_another_thread_wait_for_room_and_arrive(void **state)
{
	static tfc_feed_batch *batches[1000];
	struct consumer consumer;
	struct producer producer;
	pthread_t thread;
	consumer_open(&consumer, 1, 0);
	producer_open(&producer, "a", 1);
	for (uint32_t i = 0; i < 1000; i++) {
		put(&producer, 1, i, 1);
		RUN_UNTIL(i < 300 || tfc_feed_consumer_next(consumer.feed, &batches[i - 300]) == 1);
	}
	for (uint32_t i = 700; i < 1000; i++)
		RUN_UNTIL(tfc_feed_consumer_next(consumer.feed, &batches[i]) == 1);
	assert_int_equal(tfc__feed_stream_blocks(producer.stream), 1000);
	assert_int_equal(pthread_create(&thread, NULL, release_batches, batches), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	RUN_UNTIL(tfc__feed_stream_blocks(producer.stream) == 0);
	tfc_feed_consumer_close(consumer.feed);
	producer_close(&producer);
}

static void a_lying_producer_is_dropped_alone(void **state)
{
	struct consumer consumer;
	struct producer honest;
	consumer_open(&consumer, 1, 0);
	producer_open(&honest, "honest", 1);
	for (int lie = 0; lie < 5; lie++) {
		struct producer liar;
		producer_open(&liar, "liar", 2);
		put(&liar, 100, 0, 5);
		if (lie == 0)
			put(&liar, 100, 9, 1);
		else if (lie == 1)
			finish(&liar, 100, 6);
		else if (lie == 2)
			send_message(&liar, (struct tfc__feed_message){.kind = TFC__FEED_RELEASE,
								       .block = 7});
		else if (lie == 3)
			send_message(&liar, (struct tfc__feed_message){.kind = TFC__FEED_BATCH,
								       .at = WINDOW,
								       .bytes = 64,
								       .partition = 100,
								       .offset = 5,
								       .layout = "\x90",
								       .layout_len = 1});
		else
			send_message(&liar, (struct tfc__feed_message){.kind = TFC__FEED_SCHEMA,
								       .schema = "x",
								       .schema_len = 1});
		RUN_UNTIL(liar.is_down);
		producer_close(&liar);
	}
	expect_nothing(&consumer);
	put(&honest, 1, 0, 4);
	finish(&honest, 1, 4);
	expect_rows(&consumer, 1, 0, 4);
	expect_end_of(&consumer, 1, 4);
	tfc_feed_consumer_close(consumer.feed);
	producer_close(&honest);
}

static void memory_that_could_shrink_is_refused(void **state)
{
	int memory = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(memory >= 0 && ftruncate(memory, WINDOW) == 0);
	for (int is_sealed = 0; is_sealed < 2; is_sealed++) {
		struct tfc__feed_mapping *mapping = NULL;
		tfc_error error = TFC_ERROR_INIT;
		if (is_sealed)
			assert_int_equal(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
		assert_int_equal(tfc__feed_mapping_open(dup(memory), 2 * WINDOW, &error, &mapping),
				 TFC_EPARSE);
		assert_int_equal(tfc__feed_mapping_open(dup(memory), WINDOW, &error, &mapping),
				 is_sealed ? TFC_OK : TFC_EPARSE);
		tfc__feed_mapping_release(mapping);
	}
	close(memory);
}

static void a_queue_has_one_consumer_that_of_the_latest_attempt(void **state)
{
	struct consumer first, second, later;
	consumer_open(&first, 1, 0);
	consumer_open(&second, 1, 0);
	RUN_UNTIL(second.code == TFC_EEXIST);
	assert_int_equal(first.code, 0);
	consumer_open(&later, 2, 0);
	RUN_UNTIL(first.code == TFC_EEXIST);
	assert_int_equal(later.code, 0);
	tfc_feed_consumer_close(first.feed);
	tfc_feed_consumer_close(second.feed);
	tfc_feed_consumer_close(later.feed);
}

static void a_terminated_consumer_tells_producers_that_come_later(void **state)
{
	struct consumer consumer;
	struct producer producer;
	tfc_feed_batch *batch;
	consumer_open(&consumer, 1, 0);
	producer_open(&producer, "a", 2);
	put(&producer, 1, 0, 4);
	finish(&producer, 1, 4);
	RUN_UNTIL(tfc_feed_consumer_next(consumer.feed, &batch) == 1);
	tfc_feed_batch_release(batch);
	assert_int_equal(tfc_feed_consumer_terminate(consumer.feed), TFC_OK);
	assert_int_equal(tfc_feed_consumer_next(consumer.feed, &batch), 0);
	RUN_UNTIL(producer.is_terminated);
	producer_close(&producer);
	producer_open(&producer, "b", 2);
	RUN_UNTIL(producer.is_terminated);
	producer_close(&producer);
	tfc_feed_consumer_close(consumer.feed);
}

static void a_consumer_without_a_node_has_an_error(void **state)
{
	struct consumer consumer;
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	tfc_feed_consumer *none = NULL;
	options.address = "@tfcluster-test/nobody";
	options.task = "worker/0";
	assert_int_equal(tfc_feed_consumer_open(ctx, &options, NULL, NULL, &none), TFC_EUNREACH);
	options.address = "/tmp/x";
	assert_int_equal(tfc_feed_consumer_open(ctx, &options, NULL, NULL, &none), TFC_EINVAL);
	options.address = address;
	options.queue = "a/b";
	assert_int_equal(tfc_feed_consumer_open(ctx, &options, NULL, NULL, &none), TFC_EINVAL);
	options.queue = NULL;
	options.window_bytes = 1;
	assert_int_equal(tfc_feed_consumer_open(ctx, &options, NULL, NULL, &none), TFC_EINVAL);
	assert_null(none);
	consumer_open(&consumer, 1, 0);
	RUN_UNTIL(true);
	tfc__feed_broker_close(broker);
	broker = NULL;
	RUN_UNTIL(consumer.code == TFC_ELOST);
	tfc_feed_consumer_close(consumer.feed);
}

static void grants_only_grow(void **state)
{
	struct consumer consumer;
	struct producer producer;
	uint64_t steps = 0, padded = 0;
	consumer_open(&consumer, 1, 1);
	producer_open(&producer, "a", 1);
	assert_int_equal(tfc_feed_consumer_report(consumer.feed, 5, 0), TFC_OK);
	assert_int_equal(tfc_feed_consumer_report(consumer.feed, 4, 0), TFC_EINVAL);
	send_message(&producer, (struct tfc__feed_message){.kind = TFC__FEED_GRANT,
							   .steps = 3,
							   .padded_steps = 4});
	RUN_UNTIL(tfc_feed_consumer_granted(consumer.feed, &steps, &padded) == 0 && steps == 3);
	send_message(&producer, (struct tfc__feed_message){.kind = TFC__FEED_GRANT,
							   .steps = 2,
							   .padded_steps = 6,
							   .is_end = true});
	RUN_UNTIL(tfc_feed_consumer_granted(consumer.feed, &steps, &padded) == 1);
	assert_int_equal(steps, 3);
	assert_int_equal(padded, 6);
	tfc_feed_consumer_close(consumer.feed);
	producer_close(&producer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rows_arrive_in_order_and_the_queue_ends_after_all_producers),
		TEST(a_small_partition_is_discarded_with_its_producer),
		TEST(a_large_partition_resumes_with_its_producer),
		TEST(bytes_in_flight_are_those_of_the_window),
		TEST(releases_of_another_thread_wait_for_room_and_arrive),
		TEST(a_lying_producer_is_dropped_alone),
		TEST(memory_that_could_shrink_is_refused),
		TEST(a_queue_has_one_consumer_that_of_the_latest_attempt),
		TEST(a_terminated_consumer_tells_producers_that_come_later),
		TEST(a_consumer_without_a_node_has_an_error),
		TEST(grants_only_grow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
