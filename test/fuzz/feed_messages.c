/* feed: packets to a node's broker, and packets of a producer to a consumer, in any order. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pass.h"
#include "feed/broker.h"
#include "feed/socket.h"
#include "fuzz.h"
#include <tfcluster/feed.h>

#define WINDOW 4096
#define ADDRESS "@tfcluster-fuzz"

static tfc_ctx *ctx;
static struct tfc__feed_broker *broker;
static tfc_feed_consumer *consumer;
static uint32_t ends;
static uint64_t sum;

static void note_event(void *user, const tfc_feed_event *event)
{
	CHECK(event->kind == TFC_FEED_EVENT_READY || event->kind == TFC_FEED_EVENT_END);
	CHECK(event->kind != TFC_FEED_EVENT_END || (event->code < 0 && ++ends == 1));
}

static void turn(void)
{
	while (tfc_ctx_dispatch(ctx, 0) > 0)
		;
}

static void open_queue(void)
{
	tfc_feed_consumer_options options = TFC_FEED_CONSUMER_OPTIONS_INIT;
	char address[64];
	snprintf(address, sizeof(address), ADDRESS "/%d", (int)getpid());
	options.address = address;
	options.task = "worker/0";
	ends = 0;
	CHECK(tfc_ctx_new(NULL, NULL, &ctx) == TFC_OK);
	CHECK(tfc__feed_broker_open(ctx, address, NULL, 0, NULL, &broker) == TFC_OK);
	CHECK(tfc_feed_consumer_open(ctx, &options, note_event, NULL, &consumer) == TFC_OK);
	turn();
}

static int dial(void)
{
	char address[64];
	int fd;
	snprintf(address, sizeof(address), ADDRESS "/%d", (int)getpid());
	CHECK(tfc__feed_socket_dial(address, NULL, &fd) == TFC_OK);
	return fd;
}

static void ignore_message(void *user, const struct tfc__feed_message *message, int fd)
{
	if (message->kind == TFC__FEED_CONNECTED)
		*(int *)user = fd;
	else if (fd >= 0)
		close(fd);
}

static void ignore_down(void *user, const tfc_error *why)
{
}

/* The producer's end of a stream. */
static int connect_producer(void)
{
	static const struct tfc__feed_socket_ops ops = {ignore_message, ignore_down, NULL};
	struct tfc__feed_message connect = {.kind = TFC__FEED_CONNECT,
					    .version = TFC__FEED_VERSION,
					    .task = "worker/0",
					    .queue = "train"};
	struct tfc__feed_socket sock = {0};
	int stream = -1;
	CHECK(tfc__feed_socket_open(&sock, ctx, dial(), &ops, &stream, NULL) == TFC_OK);
	CHECK(tfc__feed_socket_send(&sock, &connect, -1) == TFC_OK);
	for (int i = 0; i < 10 && stream < 0; i++)
		turn();
	tfc__feed_socket_close(&sock);
	CHECK(stream >= 0);
	return stream;
}

static int sealed_memory(void)
{
	static const uint8_t zeros[WINDOW];
	int memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(memory >= 0 && write(memory, zeros, WINDOW) == WINDOW);
	CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	return memory;
}

/* Sends packets, each behind its length and a byte that says whether it has a descriptor. */
static void send_packets(int fd, struct fuzz_input *input)
{
	while (input->len) {
		size_t len = fuzz_number(input, 2);
		int memory = fuzz_number(input, 1) & 1 ? sealed_memory() : -1;
		const uint8_t *bytes = fuzz_bytes(input, len, &len);
		struct iovec part = {(void *)(uintptr_t)bytes, len};
		if (len)
			tfc__pass_send(fd, &part, 1, &memory, memory >= 0,
				       MSG_DONTWAIT | MSG_NOSIGNAL);
		if (memory >= 0)
			close(memory);
		turn();
	}
}

static void read_queue(void)
{
	tfc_feed_batch *batch;
	tfc_feed_column column = TFC_FEED_COLUMN_INIT;
	for (int i = 0; i < 100 && tfc_feed_consumer_next(consumer, &batch) == 1; i++) {
		CHECK(!tfc_feed_batch_is_last(batch) || !tfc_feed_batch_rows(batch));
		for (uint32_t c = 0; c < tfc_feed_batch_column_count(batch); c++) {
			CHECK(tfc_feed_batch_column(batch, c, &column) == TFC_OK);
			if (column.offsets)
				sum += (uint64_t)column.offsets[tfc_feed_batch_rows(batch)];
		}
		tfc_feed_consumer_done(consumer, tfc_feed_batch_partition(batch),
				       tfc_feed_batch_offset(batch) + tfc_feed_batch_rows(batch));
		tfc_feed_batch_release(batch);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	open_queue();
	int fd = fuzz_number(&input, 1) & 1 ? dial() : connect_producer();
	send_packets(fd, &input);
	read_queue();
	close(fd);
	turn();
	tfc_feed_consumer_close(consumer);
	tfc__feed_broker_close(broker);
	CHECK(tfc_ctx_close(ctx) == TFC_OK);
	return 0;
}
