/* feed: frames of a producer on another machine to the node of the task, and to one that passes
 * them on. */
#include <string.h>
#include <unistd.h>

#include "../lib/feed_way.h"
#include "fuzz.h"
#include <tfcluster/feed.h>

static tfc_ctx *ctx;
static struct feed_way way;
static struct tfc__feed_broker *broker;
static tfc_feed_consumer *consumer;
static uint64_t stream, sum;
static uint32_t ends;

static void turn(void)
{
	while (tfc_ctx_dispatch(ctx, 0) > 0)
		;
}

static void open_queue(void)
{
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	char address[TFC__FEED_ADDRESS_SIZE], node[32];
	snprintf(node, sizeof(node), "fuzz-%d", (int)getpid());
	tfc__feed_address(address, WAY_JOB, node);
	options.address = address;
	options.task = "worker/0";
	CHECK(tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
	CHECK(tfc__feed_broker_open(ctx, address, NULL, 0, NULL, &broker) == TFC_OK);
	CHECK(tfc_feed_consumer_open(ctx, &options, NULL, NULL, &consumer) == TFC_OK);
	CHECK(feed_way_open(&way, ctx, node) == TFC_OK);
	turn();
}

static void call_item(void *user, const msgpack_object *item)
{
	struct tfc__rpc_call **call = user;
	struct tfc__feed_frame frame = {0};
	CHECK(tfc__feed_frame_read(item, NULL, &frame) == TFC_OK);
	stream = frame.stream ? frame.stream : stream;
	tfc__rpc_more(*call, 1);
}

static void call_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct tfc__rpc_call **call = user;
	CHECK(++ends == 1);
	fuzz_check_error(code, error);
	*call = NULL;
}

static void open_stream(struct tfc__rpc *rpc, struct tfc__rpc_call **call)
{
	const struct tfc__feed_connect connect = feed_way_connect(&way);
	struct tfc__buf params = {0};
	const struct tfc__rpc_options options = {
		.method = TFC__FEED_METHOD_CONNECT,
		.params = &params,
		.credit = TFC__FEED_ITEMS,
		.item = call_item,
		.end = call_end,
		.user = call,
	};
	stream = 0;
	ends = 0;
	tfc__fields_write(&params, &tfc__feed_connect_fields, &connect);
	CHECK(tfc__rpc_call(rpc, &options, NULL, call) == TFC_OK);
	tfc__buf_fini(&params);
	for (int i = 0; i < 100 && !stream; i++)
		turn();
	CHECK(stream);
}

/* Sends frames: each has the lengths of its message and its rows in front. */
static void send_frames(struct tfc__rpc *rpc, struct fuzz_input *input)
{
	while (input->len) {
		struct tfc__buf params = {0};
		size_t message_len = fuzz_number(input, 2), len = fuzz_number(input, 1);
		struct tfc__feed_frame frame = {.stream = stream};
		frame.message = fuzz_bytes(input, message_len, &message_len);
		frame.message_len = message_len;
		frame.data = fuzz_bytes(input, len, &len);
		frame.data_len = len;
		tfc__feed_frame_write(&params, &frame);
		CHECK(tfc__rpc_notify(rpc, TFC__FEED_METHOD_SEND, &params) == TFC_OK);
		tfc__buf_fini(&params);
		turn();
	}
}

static void read_queue(void)
{
	tfc_feed_batch *batch;
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	for (int i = 0; i < 100 && tfc_feed_consumer_next(consumer, &batch) == 1; i++) {
		for (uint32_t c = 0; c < tfc_feed_batch_column_count(batch); c++) {
			CHECK(tfc_feed_batch_column(batch, c, &column) == TFC_OK);
			if (column.offsets)
				sum += (uint64_t)column.offsets[tfc_feed_batch_rows(batch)];
		}
		tfc_feed_batch_release(batch);
		turn();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	struct tfc__rpc_call *call = NULL;
	open_queue();
	struct tfc__rpc *rpc = way.pairs[fuzz_number(&input, 1) & 1].ends[0].rpc;
	open_stream(rpc, &call);
	send_frames(rpc, &input);
	read_queue();
	if (call)
		tfc__rpc_drop(call);
	turn();
	feed_way_close(&way);
	tfc_feed_consumer_close(consumer);
	tfc__feed_broker_close(broker);
	CHECK(tfc_ctx_close(ctx) == TFC_OK);
	return 0;
}
