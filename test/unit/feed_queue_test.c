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

#include "feed_queue.h"

/* ---- tests */

static void rows_arrive_in_order_and_the_queue_ends_after_all_producers(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer first, second;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&first, "a", 2);
	queue_producer_open(&second, "b", 2);
	queue_put(&first, 1, 0, 3);
	queue_finish(&first, 1, 3);
	queue_expect_rows(&consumer, 1, 0, 3);
	queue_expect_end_of(&consumer, 1, 3);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 1, 4), TFC_EINVAL);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 1, 3), TFC_OK);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 1, 3), TFC_OK);
	RUN_UNTIL(first.done[1] == 3);
	queue_end(&first);
	queue_expect_nothing(&consumer);
	queue_finish(&second, 2, 0);
	queue_expect_end_of(&consumer, 2, 0);
	queue_end(&second);
	assert_null(queue_next(&consumer));
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&first);
	queue_producer_close(&second);
}

static void a_small_partition_is_discarded_with_its_producer(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	queue_put(&producer, 1, 0, ROWS);
	queue_expect_nothing(&consumer);
	queue_producer_close(&producer);
	queue_producer_open(&producer, "a", 1);
	assert_int_equal(producer.positions, 0);
	queue_put(&producer, 1, 0, 2);
	queue_finish(&producer, 1, 2);
	queue_end(&producer);
	queue_expect_rows(&consumer, 1, 0, 2);
	queue_expect_end_of(&consumer, 1, 2);
	assert_null(queue_next(&consumer));
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
}

static void a_large_partition_resumes_with_its_producer(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	queue_put(&producer, 1, 0, 5 * ROWS); /* 20 KiB, more than a quarter of the window */
	queue_expect_rows(&consumer, 1, 0, 5 * ROWS);
	queue_producer_close(&producer);
	queue_producer_open(&producer, "a", 1);
	assert_int_equal(producer.positions, 1);
	assert_int_equal(producer.position_rows, 5 * ROWS);
	queue_put(&producer, 1, 5 * ROWS, ROWS);
	queue_finish(&producer, 1, 6 * ROWS);
	queue_expect_rows(&consumer, 1, 5 * ROWS, ROWS);
	queue_expect_end_of(&consumer, 1, 6 * ROWS);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
}

static void a_producer_that_comes_back_too_soon_hears_all_positions(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer before, after;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&before, "a", 1);
	queue_producer_connect(&after);
	assert_int_equal(after.positions, 0);
	queue_put(&before, 1, 0, 4); /* was in the kernel when it died */
	queue_finish(&before, 1, 4);
	queue_producer_close(&before);
	queue_expect_rows(&consumer, 1, 0, 4);
	queue_expect_end_of(&consumer, 1, 4);
	queue_hello(&after, "a", 1);
	RUN_UNTIL(after.is_down);
	queue_producer_close(&after);
	queue_producer_open(&after, "a", 1);
	assert_int_equal(after.positions, 1);
	assert_int_equal(after.position_rows, 4);
	queue_end(&after);
	assert_null(queue_next(&consumer));
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&after);
}

static void a_later_attempt_goes_on_where_the_earlier_one_was(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 2, 0);
	queue_producer_open(&producer, "a", 1);
	queue_put(&producer, 1, ROWS, 2);
	queue_finish(&producer, 1, ROWS + 2);
	queue_finish(&producer, 2, ROWS); /* all of its rows were consumed, but not its end */
	queue_expect_rows(&consumer, 1, ROWS, 2);
	queue_expect_end_of(&consumer, 1, ROWS + 2);
	queue_expect_end_of(&consumer, 2, ROWS);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 1, ROWS + 2), TFC_OK);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 2, ROWS), TFC_OK);
	RUN_UNTIL(producer.done[2] == ROWS);
	assert_int_equal(producer.done[1], ROWS + 2);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
}

static void a_producer_hears_what_a_checkpoint_has(void **state)
{
	const tfc_feed_position restored[] = {{1, 2, 8, 1, 0}, {4, 1, 3, 0, 0}};
	const tfc_feed_position saved[] = {{1, 3, 8, 1, 0}, {4, 1, 5, 0, 0}};
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 1, 0);
	assert_int_equal(tfc_feed_consumer_commit(consumer.feed, restored, 2), TFC_OK);
	queue_producer_open(&producer, "a", 1);
	assert_true(producer.is_committed_first);
	assert_int_equal(producer.committed_rows, 19);
	assert_int_equal(producer.committed[2], 8);
	assert_int_equal(producer.committed[4], 3);
	queue_put(&producer, 3, 0, 8);
	queue_finish(&producer, 3, 8);
	queue_put(&producer, 4, 3, 2);
	queue_finish(&producer, 4, 5);
	queue_end(&producer);
	queue_expect_rows(&consumer, 3, 0, 8);
	queue_expect_end_of(&consumer, 3, 8);
	queue_expect_rows(&consumer, 4, 3, 2);
	queue_expect_end_of(&consumer, 4, 5);
	assert_null(queue_next(&consumer));
	assert_int_equal(tfc_feed_consumer_commit(consumer.feed, saved, 2), TFC_OK);
	RUN_UNTIL(producer.commits == 2 && producer.committed[4] == 5);
	assert_int_equal(producer.committed_rows, 29);
	queue_producer_close(&producer);
	/* one that comes back after the end of the queue gets it, too */
	queue_producer_open(&producer, "a", 1);
	assert_int_equal(producer.committed_rows, 29);
	assert_int_equal(producer.positions, 0);
	queue_producer_close(&producer);
	tfc_feed_consumer_close(consumer.feed);
}

static void wrong_arguments_are_refused(void **state)
{
	const tfc_feed_position wrong[][2] = {
		{{2, 1, 8, 1, 0}, {1, 1, 8, 1, 0}},          /* not in order */
		{{1, 2, 8, 1, 0}, {2, 1, 8, 1, 0}},          /* twice */
		{{1, 0, 8, 1, 0}, {2, 1, 8, 1, 0}},          /* no partition */
		{{1, 2, 8, 0, 0}, {3, 1, 8, 1, 0}},          /* two that are not whole */
		{{1, 1, 8, 1, 1}, {3, 1, 8, 1, 0}},          /* reserved */
		{{UINT64_MAX, 1, 8, 1, 0}, {3, 1, 8, 1, 0}}, /* beyond the last number */
		{{1, 2, UINT64_MAX, 1, 0}, {3, 1, 8, 1, 0}}, /* more rows than can be counted */
	};
	struct queue_consumer consumer;
	uint64_t steps;
	queue_consumer_open(&consumer, 1, 0);
	assert_int_equal(tfc_feed_consumer_commit(consumer.feed, NULL, 1), TFC_EINVAL);
	assert_int_equal(tfc_feed_consumer_next(consumer.feed, NULL), TFC_EINVAL);
	assert_int_equal(tfc_feed_consumer_granted(consumer.feed, &steps, NULL), TFC_EINVAL);
	assert_int_equal(tfc_feed_consumer_granted(consumer.feed, NULL, &steps), TFC_EINVAL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(tfc_feed_consumer_commit(consumer.feed, wrong[i], 2), TFC_EINVAL);
	tfc_feed_consumer_close(consumer.feed);
}

static void results_belong_to_rows_that_have_arrived(void **state)
{
	static const struct {
		uint64_t partition, offset, rows;
	} wrong[] = {{2, 0, 1}, {1, 0, 4}, {1, 3, 1}, {1, UINT64_MAX, 1}, {1, UINT64_MAX, 2}};
	static const int64_t values[4];
	struct queue_consumer consumer;
	struct queue_producer producer;
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	uint64_t rows;
	column.type = TFC_FEED_TYPE_INT64;
	column.name = "y";
	column.values = values;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	queue_put(&producer, 1, 0, 3);
	queue_finish(&producer, 1, 3);
	queue_expect_rows(&consumer, 1, 0, 3);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(tfc_feed_consumer_put_result_columns(consumer.feed,
								      wrong[i].partition,
								      wrong[i].offset, &column, 1,
								      wrong[i].rows, 0, &rows),
				 TFC_EINVAL);
	assert_int_equal(tfc_feed_consumer_put_result_columns(consumer.feed, 1, 1, &column, 1, 2, 0,
							      &rows),
			 TFC_OK);
	assert_int_equal(rows, 2);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
}

static void bytes_in_flight_are_those_of_the_window(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	tfc_feed_batch *batches[16];
	uint64_t rows = 0;
	uint32_t count = 0;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	for (uint32_t i = 0; i < WINDOW / (ROWS * 8); i++)
		queue_put(&producer, 1, i * ROWS, ROWS);
	assert_int_equal(queue_put_rows(&producer, 1, WINDOW / 8, 1, &rows), TFC_EAGAIN);
	RUN_UNTIL(tfc_feed_consumer_next(consumer.feed, &batches[count]) == 1 && ++count == 16);
	assert_int_equal(tfc_feed_batch_bytes(batches[0]), ROWS * 8);
	assert_int_equal(tfc_feed_batch_window_bytes(batches[0]), WINDOW);
	queue_expect_nothing(&consumer);
	assert_int_equal(queue_put_rows(&producer, 1, WINDOW / 8, 1, &rows), TFC_EAGAIN);
	assert_ptr_equal(tfc_feed_batch_keep(batches[3]), batches[3]);
	tfc_feed_batch_release(batches[3]);
	queue_expect_nothing(&consumer);
	assert_int_equal(queue_put_rows(&producer, 1, WINDOW / 8, 1, &rows), TFC_EAGAIN);
	tfc_feed_batch_release(batches[3]); /* the last reference */
	RUN_UNTIL(queue_put_rows(&producer, 1, WINDOW / 8, ROWS, &rows) == TFC_OK);
	assert_int_equal(rows, ROWS);
	tfc_feed_consumer_close(consumer.feed);
	for (uint32_t i = 0; i < 16; i++)
		if (i != 3)
			tfc_feed_batch_release(batches[i]);
	queue_producer_close(&producer);
}

/* Each part can hold half of the rows. */
static void rows_use_memory_that_is_free_in_parts(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	tfc_feed_batch *batches[16];
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	for (uint32_t i = 0; i < 16; i++)
		queue_put(&producer, 1, i * ROWS, ROWS);
	for (uint32_t i = 0; i < 16; i++)
		batches[i] = queue_next(&consumer);
	for (uint32_t i = 1; i < 16; i += 2)
		tfc_feed_batch_release(batches[i]);
	RUN_UNTIL(tfc__feed_stream_blocks(producer.stream) == 8);
	queue_put(&producer, 1, 16 * ROWS, 2 * ROWS);
	queue_expect_rows(&consumer, 1, 16 * ROWS, 2 * ROWS);
	tfc_feed_consumer_close(consumer.feed);
	for (uint32_t i = 0; i < 16; i += 2)
		tfc_feed_batch_release(batches[i]);
	queue_producer_close(&producer);
}

/* Puts a row of so many bytes. As tfc__feed_stream_put. */
static int put_bytes(struct queue_producer *producer, uint64_t partition, uint64_t offset,
		     int64_t bytes)
{
	static const uint8_t values[WINDOW];
	const int64_t offsets[] = {0, bytes};
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	struct tfc__feed_rows rows = {.columns = &column, .rows = 1};
	struct tfc__feed_schema schema;
	uint64_t sent = 0;
	column.type = TFC_FEED_TYPE_BINARY;
	column.name = "x";
	column.values = values;
	column.offsets = offsets;
	assert_int_equal(tfc__feed_schema_from_columns(&column, 1, NULL, &schema), TFC_OK);
	assert_int_equal(tfc__feed_schema_share(&producer->schema, &schema, NULL), TFC_OK);
	return tfc__feed_stream_put(producer->stream, partition, offset, producer->schema, &rows, 0,
				    NULL, &sent);
}

/* The first row is too small to be handed out, and leaves too little room for the second one. */
static void a_row_that_needs_the_room_of_held_ones_gets_it(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	assert_int_equal(put_bytes(&producer, 1, 0, WINDOW / 5), TFC_OK);
	queue_expect_nothing(&consumer);
	for (uint64_t row = 1; row < 3; row++) {
		assert_int_equal(put_bytes(&producer, 1, row, WINDOW / 8 * 7), TFC_EAGAIN);
		tfc_feed_batch *batch = queue_next(&consumer);
		assert_int_equal(tfc_feed_batch_offset(batch), row - 1);
		tfc_feed_batch_release(batch);
		RUN_UNTIL(put_bytes(&producer, 1, row, WINDOW / 8 * 7) == TFC_OK);
	}
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
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
	struct queue_consumer consumer;
	struct queue_producer producer;
	pthread_t thread;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	for (uint32_t i = 0; i < 1000; i++) {
		queue_put(&producer, 1, i, 1);
		RUN_UNTIL(i < 300 || tfc_feed_consumer_next(consumer.feed, &batches[i - 300]) == 1);
	}
	for (uint32_t i = 700; i < 1000; i++)
		RUN_UNTIL(tfc_feed_consumer_next(consumer.feed, &batches[i]) == 1);
	assert_int_equal(tfc__feed_stream_blocks(producer.stream), 1000);
	assert_int_equal(pthread_create(&thread, NULL, release_batches, batches), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	RUN_UNTIL(tfc__feed_stream_blocks(producer.stream) == 0);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
}

static void a_lying_producer_is_dropped_alone(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer honest;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&honest, "honest", 1);
	for (int lie = 0; lie < 5; lie++) {
		struct queue_producer liar;
		queue_producer_open(&liar, "liar", 2);
		queue_put(&liar, 100, 0, 5);
		if (lie == 0)
			queue_put(&liar, 100, 9, 1);
		else if (lie == 1)
			queue_finish(&liar, 100, 6);
		else if (lie == 2)
			queue_send(&liar, (struct tfc__feed_message){.kind = TFC__FEED_RELEASE,
								     .block = 7});
		else if (lie == 3)
			queue_send(&liar, (struct tfc__feed_message){
						  .kind = TFC__FEED_BATCH,
						  .at = WINDOW,
						  .bytes = 64,
						  .partition = 100,
						  .offset = 5,
						  .layout = "\x9a\x02\x40\x02\0\0\0\0\0\0\x10",
						  .layout_len = 11});
		else
			queue_send(&liar, (struct tfc__feed_message){.kind = TFC__FEED_SCHEMA,
								     .schema = "x",
								     .schema_len = 1});
		RUN_UNTIL(liar.is_down);
		queue_producer_close(&liar);
	}
	queue_expect_nothing(&consumer);
	queue_put(&honest, 1, 0, 4);
	queue_finish(&honest, 1, 4);
	queue_expect_rows(&consumer, 1, 0, 4);
	queue_expect_end_of(&consumer, 1, 4);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&honest);
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

/* If that was alive: it learns why it has lost its place, and does not come back. */
static void a_producer_whose_name_another_has_is_told(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer first, second;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&first, "a", 1);
	RUN_UNTIL(first.is_welcome);
	queue_producer_open(&second, "a", 1);
	RUN_UNTIL(first.is_down && second.is_welcome);
	assert_true(first.is_replaced);
	assert_false(second.is_down || second.is_replaced);
	queue_put(&second, 1, 0, 3);
	queue_finish(&second, 1, 3);
	queue_expect_rows(&consumer, 1, 0, 3);
	queue_expect_end_of(&consumer, 1, 3);
	queue_producer_close(&first);
	queue_producer_close(&second);
	tfc_feed_consumer_close(consumer.feed);
}

/* What the producer did not read makes the kernel report ECONNRESET before what it has sent. */
static void the_end_arrives_though_the_producer_has_left(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	queue_put(&producer, 1, 0, 3);
	queue_finish(&producer, 1, 3);
	queue_expect_rows(&consumer, 1, 0, 3);
	queue_expect_end_of(&consumer, 1, 3);
	assert_int_equal(tfc_feed_consumer_done(consumer.feed, 1, 3), TFC_OK);
	queue_end(&producer);
	queue_producer_close(&producer);
	assert_null(queue_next(&consumer));
	assert_int_equal(consumer.code, 0);
	tfc_feed_consumer_close(consumer.feed);
}

static void report_over(const char *name, uint32_t attempt, uint32_t producers)
{
	struct tfc__feed_message message = {.kind = TFC__FEED_OVER,
					    .version = TFC__FEED_VERSION,
					    .task = "worker/0",
					    .queue = "train",
					    .attempt = attempt,
					    .producer = name,
					    .producers = producers};
	struct tfc__buf data = {0};
	int fd;
	assert_int_equal(tfc__feed_socket_dial(queue_address, NULL, &fd), TFC_OK);
	tfc__feed_message_write(&data, &message);
	assert_int_equal(send(fd, data.data, data.len, 0), (ssize_t)data.len);
	tfc__buf_fini(&data);
	close(fd);
	for (int i = 0; i < 20; i++)
		assert_true(tfc_ctx_run(queue_ctx, 0) >= 0);
}

static void a_later_attempt_learns_of_producers_that_have_left(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 1, 0);
	report_over("a", 1, 2);
	queue_expect_nothing(&consumer); /* it knows */
	tfc_feed_consumer_close(consumer.feed);
	queue_consumer_open(&consumer, 2, 0);
	queue_expect_nothing(&consumer); /* of two */
	queue_producer_open(&producer, "b", 2);
	queue_put(&producer, 1, 0, 3);
	queue_finish(&producer, 1, 3);
	queue_end(&producer);
	queue_expect_rows(&consumer, 1, 0, 3);
	queue_expect_end_of(&consumer, 1, 3);
	assert_null(queue_next(&consumer));
	queue_producer_close(&producer);
	report_over("b", 2, 2);
	tfc_feed_consumer_close(consumer.feed);
	queue_consumer_open(&consumer, 3, 1);
	assert_null(queue_next(&consumer));
	uint64_t steps, padded;
	assert_int_equal(tfc_feed_consumer_granted(consumer.feed, &steps, &padded), 1);
	tfc_feed_consumer_close(consumer.feed);
	queue_consumer_open(&consumer, 3, 0); /* the next feed */
	queue_expect_nothing(&consumer);
	tfc_feed_consumer_close(consumer.feed);
}

/* The producer did not know yet that there is one. */
static void a_later_attempt_that_reads_already_learns_it_too(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 2, 0);
	queue_producer_open(&producer, "a", 2);
	queue_end(&producer);
	report_over("a", 1, 2);
	queue_expect_nothing(&consumer); /* of two */
	queue_producer_close(&producer);
	report_over("a", 1, 2);
	queue_expect_nothing(&consumer);
	report_over("b", 1, 2);
	assert_null(queue_next(&consumer));
	tfc_feed_consumer_close(consumer.feed);
}

static void a_queue_has_one_consumer_that_of_the_latest_attempt(void **state)
{
	struct queue_consumer first, second, later;
	queue_consumer_open(&first, 1, 0);
	queue_consumer_open(&second, 1, 0);
	RUN_UNTIL(second.code == TFC_EEXIST);
	assert_int_equal(first.code, 0);
	queue_consumer_open(&later, 2, 0);
	RUN_UNTIL(first.code == TFC_EEXIST);
	assert_int_equal(later.code, 0);
	tfc_feed_consumer_close(first.feed);
	tfc_feed_consumer_close(second.feed);
	tfc_feed_consumer_close(later.feed);
}

static void a_terminated_consumer_tells_producers_that_come_later(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	tfc_feed_batch *batch;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 2);
	queue_put(&producer, 1, 0, 4);
	queue_finish(&producer, 1, 4);
	RUN_UNTIL(tfc_feed_consumer_next(consumer.feed, &batch) == 1);
	tfc_feed_batch_release(batch);
	assert_int_equal(tfc_feed_consumer_terminate(consumer.feed), TFC_OK);
	assert_int_equal(tfc_feed_consumer_next(consumer.feed, &batch), 0);
	RUN_UNTIL(producer.is_terminated);
	queue_producer_close(&producer);
	queue_producer_open(&producer, "b", 2);
	RUN_UNTIL(producer.is_terminated);
	queue_producer_close(&producer);
	tfc_feed_consumer_close(consumer.feed);
}

static void a_consumer_without_a_node_has_an_error(void **state)
{
	struct queue_consumer consumer;
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	tfc_feed_consumer *none = NULL;
	options.address = "@tfcluster-test/nobody";
	options.task = "worker/0";
	assert_int_equal(tfc_feed_consumer_open(queue_ctx, &options, NULL, NULL, &none),
			 TFC_EUNREACH);
	options.address = "/tmp/x";
	assert_int_equal(tfc_feed_consumer_open(queue_ctx, &options, NULL, NULL, &none),
			 TFC_EINVAL);
	options.address = queue_address;
	options.queue = "a/b";
	assert_int_equal(tfc_feed_consumer_open(queue_ctx, &options, NULL, NULL, &none),
			 TFC_EINVAL);
	options.queue = NULL;
	options.window_bytes = 1;
	assert_int_equal(tfc_feed_consumer_open(queue_ctx, &options, NULL, NULL, &none),
			 TFC_EINVAL);
	assert_null(none);
	queue_consumer_open(&consumer, 1, 0);
	RUN_UNTIL(true);
	tfc__feed_broker_close(queue_broker);
	queue_broker = NULL;
	RUN_UNTIL(consumer.code == TFC_ELOST);
	tfc_feed_consumer_close(consumer.feed);
}

static void grants_only_grow(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	uint64_t steps = 0, padded = 0;
	queue_consumer_open(&consumer, 1, 1);
	queue_producer_open(&producer, "a", 1);
	assert_int_equal(tfc_feed_consumer_report(consumer.feed, 5, 0), TFC_OK);
	assert_int_equal(tfc_feed_consumer_report(consumer.feed, 4, 0), TFC_EINVAL);
	queue_send(&producer, (struct tfc__feed_message){.kind = TFC__FEED_GRANT,
							 .steps = 3,
							 .padded_steps = 4});
	RUN_UNTIL(tfc_feed_consumer_granted(consumer.feed, &steps, &padded) == 0 && steps == 3);
	queue_send(&producer, (struct tfc__feed_message){.kind = TFC__FEED_GRANT,
							 .steps = 2,
							 .padded_steps = 6,
							 .is_end = true});
	RUN_UNTIL(tfc_feed_consumer_granted(consumer.feed, &steps, &padded) == 1);
	assert_int_equal(steps, 3);
	assert_int_equal(padded, 6);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, queue_setup, queue_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rows_arrive_in_order_and_the_queue_ends_after_all_producers),
		TEST(a_small_partition_is_discarded_with_its_producer),
		TEST(a_large_partition_resumes_with_its_producer),
		TEST(a_producer_that_comes_back_too_soon_hears_all_positions),
		TEST(a_later_attempt_goes_on_where_the_earlier_one_was),
		TEST(a_producer_hears_what_a_checkpoint_has),
		TEST(wrong_arguments_are_refused),
		TEST(results_belong_to_rows_that_have_arrived),
		TEST(bytes_in_flight_are_those_of_the_window),
		TEST(rows_use_memory_that_is_free_in_parts),
		TEST(a_row_that_needs_the_room_of_held_ones_gets_it),
		TEST(releases_of_another_thread_wait_for_room_and_arrive),
		TEST(a_lying_producer_is_dropped_alone),
		TEST(memory_that_could_shrink_is_refused),
		TEST(a_producer_whose_name_another_has_is_told),
		TEST(the_end_arrives_though_the_producer_has_left),
		TEST(a_later_attempt_learns_of_producers_that_have_left),
		TEST(a_later_attempt_that_reads_already_learns_it_too),
		TEST(a_queue_has_one_consumer_that_of_the_latest_attempt),
		TEST(a_terminated_consumer_tells_producers_that_come_later),
		TEST(a_consumer_without_a_node_has_an_error),
		TEST(grants_only_grow),
	};
	/* What holds for a producer of this machine holds for one of another. */
	const struct CMUnitTest remote_tests[] = {
		TEST(rows_arrive_in_order_and_the_queue_ends_after_all_producers),
		TEST(a_small_partition_is_discarded_with_its_producer),
		TEST(a_large_partition_resumes_with_its_producer),
		TEST(a_later_attempt_goes_on_where_the_earlier_one_was),
		TEST(a_producer_hears_what_a_checkpoint_has),
		TEST(bytes_in_flight_are_those_of_the_window),
		TEST(releases_of_another_thread_wait_for_room_and_arrive),
		TEST(a_lying_producer_is_dropped_alone),
		TEST(a_producer_whose_name_another_has_is_told),
		TEST(a_queue_has_one_consumer_that_of_the_latest_attempt),
		TEST(a_terminated_consumer_tells_producers_that_come_later),
		TEST(grants_only_grow),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	queue_is_remote = true;
	return failed + cmocka_run_group_tests_name("feed_queue_remote", remote_tests, NULL, NULL);
}
