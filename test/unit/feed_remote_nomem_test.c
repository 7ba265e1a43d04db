/* feed: whichever allocation fails between a producer on another machine and a task, the stream
 * ends or carries its rows, and nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include "feed/stream.h"
#include "feed_way.h"

#define TURNS 60
#define ROWS 1024u

static struct {
	tfc_ctx *ctx;
	struct tfc__feed_broker *broker;
	tfc_feed_consumer *consumer;
	struct feed_way way;
	bool has_way;
	struct tfc__feed_remote *remote;
	struct tfc__feed_stream *stream;
	struct tfc__feed_shared_schema *schema;
	bool is_welcome, is_down;
	uint64_t rows; /* received */
} feed;

static uint32_t carried; /* runs in which all rows arrived */

static void on_message(void *user, const struct tfc__feed_message *message)
{
	feed.is_welcome |= message->kind == TFC__FEED_WELCOME;
}

static void on_batch(void *user, tfc_feed_batch *batch)
{
	tfc_feed_batch_release(batch);
}

static void on_room(void *user)
{
}

static void on_down(void *user, const tfc_error *why)
{
	feed.is_down = true;
}

static const struct tfc__feed_stream_ops stream_ops = {on_message, on_batch, on_room, on_down};

static void on_connected(void *user, int fd)
{
	feed.is_down = tfc__feed_stream_open(feed.ctx, fd, &stream_ops, NULL, NULL, &feed.stream) <
		       0;
}

static void on_failed(void *user, const tfc_error *why)
{
	assert_true(why->code < 0);
	feed.is_down = true;
}

static void on_flushed(void *user)
{
}

static const struct tfc__feed_remote_ops remote_ops = {on_connected, on_failed, on_flushed};

static void run(void)
{
	for (int i = 0; i < TURNS; i++)
		tfc_ctx_dispatch(feed.ctx, 0);
}

static int begin(void)
{
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	char address[TFC__FEED_ADDRESS_SIZE], node[32];
	snprintf(node, sizeof(node), "nomem-%d", (int)getpid());
	tfc__feed_address(address, WAY_JOB, node);
	options.address = address;
	options.task = "worker/0";
	int code = tfc_ctx_new(NULL, NULL, &feed.ctx);
	if (code == TFC_OK)
		code = tfc__feed_broker_open(feed.ctx, address, NULL, 0, NULL, &feed.broker);
	if (code == TFC_OK)
		code = tfc_feed_consumer_open(feed.ctx, &options, NULL, NULL, &feed.consumer);
	if (code == TFC_OK)
		code = feed_way_open(&feed.way, feed.ctx, node);
	if (code < 0)
		return code;
	feed.has_way = true;
	const struct tfc__feed_connect connect = feed_way_connect(&feed.way);
	return tfc__feed_remote_open(&feed.way.gateway, &connect, &remote_ops, NULL, NULL,
				     &feed.remote);
}

static int put(void)
{
	static int64_t values[ROWS];
	struct tfc__feed_limits limits = {65536, 4096, 1};
	struct tfc__feed_message hello = {.kind = TFC__FEED_HELLO,
					  .version = TFC__FEED_VERSION,
					  .producer = "a",
					  .producers = 1,
					  .window = 65536};
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	struct tfc__feed_rows rows = {.columns = &column, .rows = ROWS};
	struct tfc__feed_schema schema;
	struct tfc__feed_message finish = {.kind = TFC__FEED_FINISH, .partition = 1, .rows = ROWS};
	uint64_t done = 0;
	column.type = TFC_FEED_TYPE_INT64;
	column.name = "x";
	column.values = values;
	tfc__feed_stream_set_limits(feed.stream, &limits);
	int code = tfc__feed_stream_send(feed.stream, &hello);
	if (code == TFC_OK)
		code = tfc__feed_schema_from_columns(&column, 1, NULL, &schema);
	if (code == TFC_OK)
		code = tfc__feed_schema_share(&feed.schema, &schema, NULL);
	if (code == TFC_OK)
		code = tfc__feed_stream_put(feed.stream, 1, 0, feed.schema, &rows, 0, NULL, &done);
	return code == TFC_OK ? tfc__feed_stream_send(feed.stream, &finish) : code;
}

static void receive(void)
{
	tfc_feed_batch *batch;
	while (tfc_feed_consumer_next(feed.consumer, &batch) == 1) {
		feed.rows += tfc_feed_batch_rows(batch);
		tfc_feed_batch_release(batch);
	}
}

static void end(void)
{
	tfc__feed_stream_close(feed.stream);
	tfc__feed_remote_close(feed.remote);
	tfc__feed_shared_schema_release(feed.schema);
	if (feed.has_way)
		feed_way_close(&feed.way);
	tfc_feed_consumer_close(feed.consumer);
	tfc__feed_broker_close(feed.broker);
	if (feed.ctx)
		assert_int_equal(tfc_ctx_close(feed.ctx), TFC_OK);
	memset(&feed, 0, sizeof(feed));
}

static int carry(void)
{
	int code = begin();
	if (code == TFC_OK)
		run();
	if (code == TFC_OK && feed.stream && feed.is_welcome && !feed.is_down)
		code = put();
	if (code == TFC_OK) {
		run();
		receive();
		run();
	}
	assert_true(feed.rows == 0 || feed.rows <= ROWS);
	carried += feed.rows == ROWS;
	end();
	assert_true(code == TFC_OK || code == TFC_ENOMEM);
	return code;
}

static void rows_arrive_or_the_stream_ends(void **state)
{
	failing_sweep(carry, 60);
	assert_true(carried > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rows_arrive_or_the_stream_ends)};
	return cmocka_run_group_tests_name("feed_remote_nomem", tests, NULL, NULL);
}
