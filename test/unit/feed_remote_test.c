/* A producer on another machine: what the nodes on the way refuse, and how a stream ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "feed_queue.h"

/* ---- a caller that lies */

struct caller {
	struct tfc__rpc_call *call;
	uint64_t stream, credit;
	int code; /* of the end */
	char text[256];
};

static void caller_item(void *user, const msgpack_object *item)
{
	struct caller *caller = user;
	struct tfc__feed_frame frame = {0};
	assert_int_equal(tfc__feed_frame_read(item, NULL, &frame), TFC_OK);
	caller->stream = frame.stream ? frame.stream : caller->stream;
	caller->credit += frame.credit;
	tfc__rpc_more(caller->call, 1);
}

static void caller_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct caller *caller = user;
	caller->call = NULL;
	caller->code = code;
	if (error)
		snprintf(caller->text, sizeof(caller->text), "%.255s", error->text);
}

/* Calls the node of the task, or its gateway. */
static void caller_open(struct caller *caller, bool is_forwarded,
			const struct tfc__feed_connect *connect)
{
	struct tfc__buf params = {0};
	const struct tfc__rpc_options options = {
		.method = TFC__FEED_METHOD_CONNECT,
		.params = &params,
		.credit = TFC__FEED_ITEMS,
		.item = caller_item,
		.end = caller_end,
		.user = caller,
	};
	*caller = (struct caller){0};
	tfc__fields_write(&params, &tfc__feed_connect_fields, connect);
	assert_int_equal(tfc__rpc_call(queue_way.pairs[!is_forwarded].ends[0].rpc, &options, NULL,
				       &caller->call),
			 TFC_OK);
	tfc__buf_fini(&params);
	RUN_UNTIL(caller->stream || !caller->call);
}

static void caller_send_frame(struct caller *caller, bool is_forwarded,
			      const struct tfc__feed_frame *frame)
{
	struct tfc__buf params = {0};
	tfc__feed_frame_write(&params, frame);
	assert_int_equal(tfc__rpc_notify(queue_way.pairs[!is_forwarded].ends[0].rpc,
					 TFC__FEED_METHOD_SEND, &params),
			 TFC_OK);
	tfc__buf_fini(&params);
}

static uint8_t rows[256];

#define NO_MESSAGE UINT32_MAX

struct lie {
	struct tfc__feed_message messages[3]; /* kind 0: none */
	uint32_t rows[3];                     /* bytes, with each message */
};

#define MEMORY                                             \
	{                                                  \
		.kind = TFC__FEED_SEGMENT, .window = 65536 \
	}
#define BATCH(...)                                   \
	{                                            \
		.kind = TFC__FEED_BATCH, __VA_ARGS__ \
	}

static void tell(struct caller *caller, bool is_forwarded, const struct lie *lie)
{
	for (uint32_t i = 0; i < 3; i++) {
		struct tfc__buf data = {0};
		struct tfc__feed_frame frame = {.stream = caller->stream,
						.data = rows,
						.data_len = lie->rows[i]};
		if (!lie->messages[i].kind && !lie->rows[i])
			continue;
		if (lie->messages[i].kind && lie->messages[i].kind != NO_MESSAGE) {
			tfc__feed_message_write(&data, &lie->messages[i]);
			frame.message = data.data;
			frame.message_len = data.len;
		}
		caller_send_frame(caller, is_forwarded, &frame);
		tfc__buf_fini(&data);
	}
}

static void a_caller_that_lies_is_dropped_alone(void **state)
{
	static const struct lie lies[] = {
		{{BATCH(.bytes = 64)}},          /* no memory */
		{{{.kind = TFC__FEED_SEGMENT}}}, /* of no size */
		{{{.kind = TFC__FEED_SEGMENT, .window = UINT64_C(1) << 50}}},
		{{MEMORY, MEMORY}},
		{{MEMORY, BATCH(.at = 32, .bytes = 64)}},
		{{MEMORY, BATCH(.at = 65536 + 64, .bytes = 0)}},
		{{MEMORY, BATCH(.at = 65536 - 64, .bytes = 65)}},
		{{MEMORY, BATCH(.at = 64, .bytes = UINT64_MAX)}},
		{{MEMORY, BATCH(.block = 4096, .bytes = 64)}},
		{{MEMORY, BATCH(.bytes = 64), BATCH(.block = 1, .at = 64, .bytes = 64)}, {0, 60}},
		{{MEMORY, BATCH(.bytes = 64)}, {0, 65}},
		{{MEMORY, {.kind = NO_MESSAGE}}, {0, 1}},
		{{{.kind = TFC__FEED_REGISTER}}},
		{{{.kind = TFC__FEED_CONNECTED}}},
	};
	struct queue_consumer consumer;
	struct queue_producer honest;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&honest, "honest", 1);
	for (uint32_t i = 0; i < 2 * sizeof(lies) / sizeof(lies[0]); i++) {
		const struct tfc__feed_connect connect = feed_way_connect(&queue_way);
		struct caller liar;
		caller_open(&liar, i % 2, &connect);
		tell(&liar, i % 2, &lies[i / 2]);
		RUN_UNTIL(!liar.call);
		assert_int_equal(liar.code, TFC_EPARSE);
		assert_non_null(strstr(liar.text, "the other end of the feed has sent"));
	}
	queue_put(&honest, 1, 0, 4);
	queue_finish(&honest, 1, 4);
	queue_expect_rows(&consumer, 1, 0, 4);
	queue_expect_end_of(&consumer, 1, 4);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&honest);
}

static void a_block_is_used_once_until_it_is_released(void **state)
{
	static const struct lie lie = {{MEMORY, BATCH(.bytes = 64), BATCH(.bytes = 64)},
				       {0, 64, 64}};
	const struct tfc__feed_connect connect = feed_way_connect(&queue_way);
	struct queue_consumer consumer;
	struct caller liar;
	queue_consumer_open(&consumer, 1, 0);
	caller_open(&liar, false, &connect);
	tell(&liar, false, &lie);
	RUN_UNTIL(!liar.call);
	assert_int_equal(liar.code, TFC_EPARSE);
	tfc_feed_consumer_close(consumer.feed);
}

static void what_is_no_message_or_without_credit_ends_the_stream(void **state)
{
	static const char garbage[] = "\xc1\xff";
	static uint8_t much[TFC__FEED_CREDIT];
	const struct tfc__feed_connect connect = feed_way_connect(&queue_way);
	struct queue_consumer consumer;
	queue_consumer_open(&consumer, 1, 0);
	for (int i = 0; i < 4; i++) {
		struct caller liar;
		caller_open(&liar, i % 2, &connect);
		assert_int_equal(liar.credit, TFC__FEED_CREDIT);
		struct tfc__feed_frame frame = {.stream = liar.stream,
						.message = garbage,
						.message_len = sizeof(garbage) - 1};
		if (i / 2) {
			frame.message = much;
			frame.message_len = sizeof(much);
		}
		caller_send_frame(&liar, i % 2, &frame);
		RUN_UNTIL(!liar.call);
		assert_int_equal(liar.code, TFC_EPARSE);
		frame.message_len = 1;
		caller_send_frame(&liar, i % 2, &frame); /* ignored */
		RUN_UNTIL(true);
	}
	tfc_feed_consumer_close(consumer.feed);
}

static void a_stream_of_another_connection_is_not_found(void **state)
{
	const struct tfc__feed_connect connect = feed_way_connect(&queue_way);
	const struct lie lie = {{{.kind = TFC__FEED_REGISTER}}};
	struct queue_consumer consumer;
	struct caller caller, other;
	queue_consumer_open(&consumer, 1, 0);
	caller_open(&caller, false, &connect);
	caller_open(&other, true, &connect);
	for (uint64_t stream = 0; stream < 10; stream++) {
		struct caller guess = {.stream = stream};
		if (stream != other.stream)
			tell(&guess, true, &lie);
	}
	queue_expect_nothing(&consumer);
	assert_non_null(caller.call);
	assert_non_null(other.call);
	tfc__rpc_drop(caller.call);
	tfc__rpc_drop(other.call);
	tfc_feed_consumer_close(consumer.feed);
}

/* Until it begins again. */
static void a_later_attempt_learns_of_a_producer_that_has_left(void **state)
{
	struct tfc__feed_connect connect = feed_way_connect(&queue_way), over = connect;
	struct queue_consumer consumer;
	struct caller caller;
	strcpy(connect.producer, "a");
	strcpy(over.producer, "a");
	over.is_over = true;
	over.producers = 1;
	for (int i = 0; i < 2; i++) {
		over.attempt = 1 + 2 * (uint32_t)i;
		caller_open(&caller, i, &over);
		assert_int_equal(caller.stream, 0);
		assert_int_equal(caller.code,
				 i ? TFC_ELOST : TFC_OK); /* the gateway ends streams */
		queue_consumer_open(&consumer, over.attempt + 1, 0);
		assert_null(queue_next(&consumer));
		tfc_feed_consumer_close(consumer.feed);
	}
	caller_open(&caller, false, &over);
	queue_consumer_open(&consumer, 1, 0);
	caller_open(&caller, false, &connect);
	assert_non_null(caller.call);
	tfc_feed_consumer_close(consumer.feed);
	RUN_UNTIL(!caller.call);
	queue_consumer_open(&consumer, 9, 0);
	queue_expect_nothing(&consumer);
	tfc_feed_consumer_close(consumer.feed);
}

static void a_request_that_cannot_be_served_has_an_error(void **state)
{
	struct tfc__feed_connect good = feed_way_connect(&queue_way), bad[7];
	const int codes[] = {TFC_EINVAL, TFC_EINVAL, TFC_EINVAL, TFC_EINVAL,
			     TFC_ENOENT, TFC_ENOENT, TFC_EINVAL};
	for (int i = 0; i < 7; i++)
		bad[i] = good;
	strcpy(bad[0].job, "../x");
	strcpy(bad[1].queue, "a/b");
	bad[2].task[0] = '\0';
	bad[3].node[0] = '\0';
	strcpy(bad[4].node, "elsewhere");
	strcpy(bad[5].job, "fedcba9876543210");
	bad[6].is_over = true; /* which producer? */
	for (int i = 0; i < 14; i++) {
		struct caller caller;
		caller_open(&caller, i % 2, &bad[i / 2]);
		assert_int_equal(caller.code, codes[i / 2]);
	}
	queue_way.refusal = TFC_EACCES;
	struct caller caller;
	caller_open(&caller, true, &good);
	assert_int_equal(caller.code, TFC_EACCES);
}

/* ---- how a stream ends */

static void connection_breaks(int which)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	queue_put(&producer, 1, 0, 3);
	RUN_UNTIL(tfc__feed_remote_is_flushed(producer.remote));
	rpc_end_close(&queue_way.pairs[which].ends[0], NULL);
	rpc_end_close(&queue_way.pairs[which].ends[1], NULL);
	RUN_UNTIL(producer.is_down);
	queue_producer_close(&producer);
	/* the small partition is discarded with its producer: the same name may begin it again */
	queue_is_remote = false;
	queue_producer_open(&producer, "a", 1);
	queue_is_remote = true;
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

static void the_end_of_the_producers_connection_is_seen_at_both_ends(void **state)
{
	connection_breaks(0);
}

static void the_end_of_a_connection_between_nodes_is_seen_at_both_ends(void **state)
{
	connection_breaks(1);
}

static void the_end_of_a_node_is_seen_at_both_ends(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct queue_consumer consumer;
		struct queue_producer producer;
		queue_consumer_open(&consumer, 1 + (uint32_t)i, 0);
		queue_producer_open(&producer, "a", 1);
		queue_put(&producer, 1, 0, 3);
		tfc__feed_service_close(queue_way.services[!i]);
		queue_way.services[!i] = NULL;
		RUN_UNTIL(producer.is_down);
		queue_producer_close(&producer);
		tfc_feed_consumer_close(consumer.feed);
		if (!i)
			queue_teardown(NULL), queue_setup(NULL);
	}
}

/* A connection that takes nothing: the producer waits, and nothing is lost. */
static void what_waits_on_the_way_arrives(void **state)
{
	enum { BATCHES = 16 };
	for (int which = 0; which < 2; which++) {
		struct queue_consumer consumer;
		struct queue_producer producer;
		uint64_t none;
		queue_consumer_open(&consumer, 1, 0);
		queue_producer_open(&producer, "a", 1);
		rpc_end_hold(&queue_way.pairs[which].ends[0]);
		rpc_end_hold(&queue_way.pairs[which].ends[1]);
		for (uint32_t i = 0; i < BATCHES; i++)
			queue_put(&producer, 1, i * ROWS, ROWS);
		assert_int_equal(queue_put_rows(&producer, 1, BATCHES * ROWS, 1, &none),
				 TFC_EAGAIN);
		queue_expect_nothing(&consumer);
		assert_false(tfc__feed_remote_is_flushed(producer.remote));
		rpc_end_release(&queue_way.pairs[which].ends[0]);
		queue_expect_rows(&consumer, 1, 0, BATCHES * ROWS);
		assert_false(tfc__feed_remote_is_flushed(producer.remote));
		rpc_end_release(&queue_way.pairs[which].ends[1]);
		RUN_UNTIL(tfc__feed_stream_blocks(producer.stream) == 0);
		queue_finish(&producer, 1, BATCHES * ROWS);
		queue_expect_end_of(&consumer, 1, BATCHES * ROWS);
		tfc_feed_consumer_close(consumer.feed);
		queue_producer_close(&producer);
	}
}

/* A message counts as lost unless it has certainly arrived. */
static void what_is_lost_is_known(void **state)
{
	struct queue_consumer consumer;
	struct queue_producer producer;
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	queue_end(&producer);
	assert_null(queue_next(&consumer));
	tfc_feed_consumer_close(consumer.feed);
	RUN_UNTIL(producer.is_down);
	assert_false(tfc__feed_remote_has_lost(producer.remote));
	queue_producer_close(&producer);
	queue_consumer_open(&consumer, 2, 0);
	queue_producer_open(&producer, "a", 1);
	RUN_UNTIL(tfc__feed_remote_is_flushed(producer.remote));
	rpc_end_hold(&queue_way.pairs[1].ends[0]);
	queue_end(&producer);
	RUN_UNTIL(queue_way.pairs[1].ends[0].queue.next != &queue_way.pairs[1].ends[0].queue);
	rpc_end_close(&queue_way.pairs[1].ends[0], NULL);
	rpc_end_close(&queue_way.pairs[1].ends[1], NULL);
	RUN_UNTIL(producer.is_down);
	assert_true(tfc__feed_remote_has_lost(producer.remote));
	queue_producer_close(&producer);
	tfc_feed_consumer_close(consumer.feed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, queue_setup, queue_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_caller_that_lies_is_dropped_alone),
		TEST(a_block_is_used_once_until_it_is_released),
		TEST(what_is_no_message_or_without_credit_ends_the_stream),
		TEST(a_stream_of_another_connection_is_not_found),
		TEST(a_later_attempt_learns_of_a_producer_that_has_left),
		TEST(a_request_that_cannot_be_served_has_an_error),
		TEST(the_end_of_the_producers_connection_is_seen_at_both_ends),
		TEST(the_end_of_a_connection_between_nodes_is_seen_at_both_ends),
		TEST(the_end_of_a_node_is_seen_at_both_ends),
		TEST(what_waits_on_the_way_arrives),
		TEST(what_is_lost_is_known),
	};
	queue_is_remote = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
