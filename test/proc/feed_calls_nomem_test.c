/* feed: whichever allocation fails, a call is refused in words or does what it promises. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include "feed_queue.h"
#include "leaks.h"
#include <tfcluster/node.h>

static const int64_t numbers[] = {1, 2, 3, 4};

static tfc_feed_column column_of_numbers(void)
{
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	column.type = TFC_FEED_TYPE_INT64;
	column.name = "x";
	column.values = numbers;
	return column;
}

/* What a call leaves is for the handle: nothing is counted. */
static int said(tfc_ctx *ctx, int code)
{
	return code < 0 ? failing_said(code, tfc_ctx_error(ctx)) : TFC_OK;
}

/* ---- the consumer */

static struct queue_consumer consumer;
static struct queue_producer producer;
static struct ArrowSchema schema;
static struct ArrowArray array;

static int open_consumer(void)
{
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	tfc_feed_consumer *opened = NULL;
	options.address = queue_address;
	options.task = "worker/1";
	SWEPT(tfc_feed_consumer_open);
	int code = tfc_feed_consumer_open(queue_ctx, &options, NULL, NULL, &opened);
	assert_true(code == TFC_OK ? opened != NULL : opened == NULL);
	SWEPT(tfc_feed_consumer_terminate); /* without a producer */
	assert_true(code < 0 || tfc_feed_consumer_terminate(opened) == TFC_OK);
	tfc_feed_consumer_close(opened);
	return said(queue_ctx, code);
}

static int put_result_columns(void)
{
	tfc_feed_column column = column_of_numbers();
	uint64_t rows = 0;
	SWEPT(tfc_feed_consumer_put_result_columns);
	return said(queue_ctx, tfc_feed_consumer_put_result_columns(consumer.feed, 1, 0, &column, 1,
								    4, 0, &rows));
}

static int put_results(void)
{
	uint64_t rows = 0;
	SWEPT(tfc_feed_consumer_put_results);
	return said(queue_ctx,
		    tfc_feed_consumer_put_results(consumer.feed, 1, 0, &schema, &array, 0, &rows));
}

static int report_steps(void)
{
	SWEPT(tfc_feed_consumer_report);
	return said(queue_ctx, tfc_feed_consumer_report(consumer.feed, 1, 0));
}

static int report_done(void)
{
	SWEPT(tfc_feed_consumer_done);
	return said(queue_ctx, tfc_feed_consumer_done(consumer.feed, 1, 2));
}

static int report_committed(void)
{
	const tfc_feed_position position = {1, 1, 2, 0, 0};
	SWEPT(tfc_feed_consumer_commit);
	return said(queue_ctx, tfc_feed_consumer_commit(consumer.feed, &position, 1));
}

static int export_batch(void)
{
	tfc_feed_batch *batch = NULL;
	struct ArrowSchema exported_schema;
	struct ArrowArray exported;
	SWEPT(tfc_feed_batch_export);
	if (!array.release)
		return TFC_OK;
	batch = consumer.user;
	int code = tfc_feed_batch_export(batch, &exported_schema, &exported);
	if (code < 0)
		return code;
	exported_schema.release(&exported_schema);
	exported.release(&exported);
	return TFC_OK;
}

static void a_consumer_keeps_its_promises(void **state)
{
	tfc_feed_batch *batch;
	queue_consumer_open(&consumer, 1, 1);
	queue_producer_open(&producer, "a", 1);
	queue_put(&producer, 1, 0, 4);
	queue_finish(&producer, 1, 4);
	batch = queue_next(&consumer);
	consumer.user = batch;
	assert_int_equal(tfc_feed_batch_export(batch, &schema, &array), TFC_OK);
	failing_sweep(open_consumer, 3);
	failing_sweep(export_batch, 6);
	failing_sweep_leaky(put_result_columns, 2);
	failing_sweep_leaky(put_results, 2);
	failing_sweep_leaky(report_steps, 1);
	failing_sweep_leaky(report_done, 1);
	failing_sweep_leaky(report_committed, 2);
	array.release(&array);
	schema.release(&schema);
	tfc_feed_batch_release(batch);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
}

/* ---- the producer of a job that does not exist: nothing is dispatched */

static tfc_ctx *ctx;
static tfc_gateway *gateway;
static tfc_feed_producer *feed;

static int open_producer(void)
{
	tfc_feed_producer *opened = NULL;
	SWEPT(tfc_feed_producer_open);
	int code = tfc_feed_producer_open(gateway, "none", NULL, NULL, NULL, &opened);
	assert_true(code == TFC_OK ? opened != NULL : opened == NULL);
	SWEPT(tfc_feed_producer_end);
	assert_true(code < 0 || tfc_feed_producer_end(opened) == TFC_OK);
	tfc_feed_producer_close(opened);
	return said(ctx, code);
}

/* No task reads: what is not out of memory is told to come again. */
static int again(int code)
{
	return code == TFC_EAGAIN ? TFC_OK : said(ctx, code);
}

static int put_columns(void)
{
	tfc_feed_column column = column_of_numbers();
	uint64_t rows = 0;
	SWEPT(tfc_feed_producer_put_columns);
	return again(tfc_feed_producer_put_columns(feed, 1, 0, &column, 1, 4, 0, &rows));
}

static int put_array(void)
{
	uint64_t rows = 0;
	SWEPT(tfc_feed_producer_put);
	return again(tfc_feed_producer_put(feed, 2, 0, &schema, &array, 0, &rows));
}

static int finish_partition(void)
{
	static uint64_t number = 3;
	SWEPT(tfc_feed_producer_finish);
	return again(tfc_feed_producer_finish(feed, number++, 0));
}

static void a_producer_keeps_its_promises(void **state)
{
	tfc_ctx_options options = TFC_CTX_OPTIONS_INIT;
	tfc_node_options node_options = TFC_NODE_OPTIONS_INIT;
	tfc_gateway_options gateway_options = TFC_GATEWAY_OPTIONS_INIT;
	tfc_node *node;
	tfc_feed_batch *batch;
	options.helper_dir = getenv("TFC_HELPER_DIR");
	node_options.temp_dir = leaks_temp_dir();
	assert_int_equal(tfc_ctx_new(&options, NULL, &ctx), TFC_OK);
	assert_int_equal(tfc_node_open(ctx, &node_options, &node), TFC_OK);
	gateway_options.node = node;
	assert_int_equal(tfc_gateway_open(ctx, &gateway_options, &gateway), TFC_OK);
	queue_consumer_open(&consumer, 1, 0);
	queue_producer_open(&producer, "a", 1);
	queue_put(&producer, 1, 0, 4);
	queue_finish(&producer, 1, 4);
	batch = queue_next(&consumer);
	assert_int_equal(tfc_feed_batch_export(batch, &schema, &array), TFC_OK);

	failing_sweep_leaky(open_producer, 2);
	assert_int_equal(tfc_feed_producer_open(gateway, "none", NULL, NULL, NULL, &feed), TFC_OK);
	failing_sweep_leaky(put_columns, 2);
	failing_sweep_leaky(put_array, 2);
	failing_sweep_leaky(finish_partition, 1);

	tfc_feed_producer_close(feed);
	array.release(&array);
	schema.release(&schema);
	tfc_feed_batch_release(batch);
	tfc_feed_consumer_close(consumer.feed);
	queue_producer_close(&producer);
	tfc_gateway_close(gateway);
	tfc_node_close(node);
	tfc_ctx_free(ctx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_consumer_keeps_its_promises, queue_setup,
						queue_teardown),
		cmocka_unit_test_setup_teardown(a_producer_keeps_its_promises, queue_setup,
						queue_teardown),
	};
	return cmocka_run_group_tests_name("feed_calls_nomem", tests, NULL, NULL);
}
