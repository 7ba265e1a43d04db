/* feed: the memory of a sender, block by block, and what its receiver accepts and returns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "feed/layout.h"
#include "feed/message.h"
#include "feed/segment.h"
#include "feed/socket.h"

#define SIZE 65536u
#define BLOCKS_MAX (SIZE / TFC__FEED_ALIGN)

static struct tfc__feed_segment segment;

static int open_segment(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	return tfc__feed_segment_open(&segment, SIZE, &error);
}

static int close_segment(void **state)
{
	tfc__feed_segment_close(&segment);
	return 0;
}

static uint32_t acquire(uint64_t bytes)
{
	uint32_t block = UINT32_MAX;
	assert_true(tfc__feed_segment_acquire(&segment, bytes, &block));
	assert_true(block < TFC__FEED_BLOCKS_MAX);
	return block;
}

/* ---- the sender's side */

static void blocks_are_aligned_and_as_long_as_asked_for(void **state)
{
	static const uint64_t asked[] = {0, 1, 63, 64, 65, 1000, 4096};
	uint64_t at = 0;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		uint64_t bytes = asked[i] ? (asked[i] + 63) / 64 * 64 : 64;
		uint32_t block = acquire(asked[i]);
		assert_int_equal(segment.blocks[block].at, at);
		assert_int_equal(segment.blocks[block].bytes, bytes);
		at += bytes;
	}
	assert_int_equal((uintptr_t)segment.base % TFC__FEED_ALIGN, 0);
	assert_int_equal(segment.used_count, 7);
}

/* What is in flight is the window, to the byte. */
static void credits_are_exact(void **state)
{
	uint32_t block = UINT32_MAX, first = acquire(SIZE - 128);
	acquire(64);
	assert_false(tfc__feed_segment_acquire(&segment, 65, &block));
	acquire(64);
	assert_false(tfc__feed_segment_acquire(&segment, 0, &block));
	assert_int_equal(block, UINT32_MAX);
	assert_int_equal(segment.used_count, 3);
	assert_true(tfc__feed_segment_release(&segment, first));
	assert_false(tfc__feed_segment_acquire(&segment, SIZE - 127, &block));
	acquire(SIZE - 128);
	assert_false(tfc__feed_segment_acquire(&segment, 1, &block));
	assert_false(tfc__feed_segment_acquire(&segment, UINT64_MAX - 63, &block));
}

static void no_number_of_bytes_wraps_around(void **state)
{
	uint32_t block;
	for (uint64_t below = 0; below < 130; below++)
		assert_false(tfc__feed_segment_acquire(&segment, UINT64_MAX - below, &block));
	assert_int_equal(segment.used_count, 0);
}

static void the_lowest_free_address_is_used_first(void **state)
{
	uint32_t blocks[4];
	for (int i = 0; i < 4; i++)
		blocks[i] = acquire(256);
	assert_true(tfc__feed_segment_release(&segment, blocks[2]));
	assert_true(tfc__feed_segment_release(&segment, blocks[0]));
	assert_int_equal(segment.blocks[acquire(64)].at, 0);
	assert_int_equal(segment.blocks[acquire(256)].at, 512);
	assert_int_equal(segment.blocks[acquire(192)].at, 64);
	assert_int_equal(segment.blocks[acquire(64)].at, 1024);
}

static void a_block_is_released_once(void **state)
{
	uint32_t block = acquire(64);
	assert_true(tfc__feed_segment_release(&segment, block));
	assert_false(tfc__feed_segment_release(&segment, block));
	assert_false(tfc__feed_segment_release(&segment, TFC__FEED_BLOCKS_MAX));
	assert_false(tfc__feed_segment_release(&segment, UINT32_MAX));
	assert_int_equal(segment.used_count, 0);
	tfc__feed_segment_close(&segment);
	assert_false(tfc__feed_segment_release(&segment, 0));
}

/* Blocks of all sizes, released in any order: none overlaps another, and at the end all memory is
 * one piece again. */
static void blocks_are_released_in_any_order(void **state)
{
	static uint8_t owner[BLOCKS_MAX]; /* of each 64 bytes: whether a block has them */
	uint32_t held[BLOCKS_MAX], count = 0, block;
	uint32_t seed = 20260101;
	memset(owner, 0, sizeof(owner));
	for (int turn = 0; turn < 20000; turn++) {
		uint64_t used = 0;
		seed = seed * 1664525 + 1013904223;
		uint32_t choice = seed >> 8;
		bool fits = choice % 2 &&
			    tfc__feed_segment_acquire(&segment, choice / 2 % 3000, &block);
		if (fits)
			held[count++] = block;
		else if (count)
			block = held[choice % count];
		else
			continue;
		const struct tfc__feed_block one = segment.blocks[block];
		assert_true(one.at + one.bytes <= SIZE);
		for (uint64_t i = one.at / 64; i < (one.at + one.bytes) / 64; i++) {
			assert_int_equal(owner[i], !fits);
			owner[i] = fits;
		}
		if (!fits) {
			assert_true(tfc__feed_segment_release(&segment, block));
			held[choice % count] = held[count - 1];
			count--;
		}
		assert_int_equal(segment.used_count, count);
		for (uint32_t i = 0; i < segment.extent_count; i++)
			used += segment.extents[i].bytes;
		for (uint32_t i = 0; i < count; i++)
			used += segment.blocks[held[i]].bytes;
		assert_int_equal(used, SIZE);
	}
	while (count)
		assert_true(tfc__feed_segment_release(&segment, held[--count]));
	assert_int_equal(segment.extent_count, 1);
	assert_int_equal(segment.extents[0].bytes, SIZE);
}

/* As many blocks as there are numbers, though there is memory for more. */
static void blocks_in_flight_have_a_limit(void **state)
{
	uint32_t block;
	tfc_error error = TFC_ERROR_INIT;
	tfc__feed_segment_close(&segment);
	assert_int_equal(tfc__feed_segment_open(&segment, (TFC__FEED_BLOCKS_MAX + 1) * 64u, &error),
			 TFC_OK);
	for (uint32_t i = 0; i < TFC__FEED_BLOCKS_MAX; i++)
		acquire(64);
	assert_false(tfc__feed_segment_acquire(&segment, 64, &block));
	/* each second one: the most extents that there can be */
	for (uint32_t i = 0; i < TFC__FEED_BLOCKS_MAX; i += 2)
		assert_true(tfc__feed_segment_release(&segment, i));
	assert_int_equal(segment.extent_count, TFC__FEED_BLOCKS_MAX / 2 + 1);
	for (uint32_t i = 1; i < TFC__FEED_BLOCKS_MAX; i += 2)
		assert_true(tfc__feed_segment_release(&segment, i));
	assert_int_equal(segment.extent_count, 1);
	acquire((TFC__FEED_BLOCKS_MAX + 1) * 64u);
}

static void memory_that_there_is_not_is_an_error(void **state)
{
	struct tfc__feed_segment none;
	tfc_error error = TFC_ERROR_INIT;
	assert_true(tfc__feed_segment_open(&none, UINT64_C(1) << 62, &error) < 0);
	assert_non_null(strstr(error.text, "4611686018427387904 bytes of shared memory: "));
	assert_null(none.base);
	tfc__feed_segment_close(&none);
}

static void the_memory_of_a_sender_keeps_its_size(void **state)
{
	int seals = fcntl(segment.fd, F_GET_SEALS);
	assert_int_equal(seals, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_int_equal(ftruncate(segment.fd, SIZE / 2), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(segment.fd, 2 * SIZE), -1);
	assert_int_equal(fcntl(segment.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* ---- the receiver's side */

static void a_receiver_maps_what_the_sender_writes(void **state)
{
	struct tfc__feed_mapping *mapping;
	tfc_error error = TFC_ERROR_INIT;
	memcpy(segment.base + 4096, "rows", 5);
	assert_int_equal(tfc__feed_mapping_open(dup(segment.fd), SIZE, &error, &mapping), TFC_OK);
	const uint8_t *base = tfc__feed_mapping_base(mapping);
	assert_int_equal(tfc__feed_mapping_size(mapping), SIZE);
	assert_string_equal((const char *)base + 4096, "rows");
	assert_false(tfc__feed_mapping_is_forked(mapping));
	int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC), status;
	assert_int_equal(read(zeros, (void *)(uintptr_t)base, 1), -1);
	assert_int_equal(errno, EFAULT);
	close(zeros);
	pid_t pid = fork();
	if (!pid)
		_exit(tfc__feed_mapping_is_forked(mapping));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	/* It outlives the sender. */
	tfc__feed_segment_close(&segment);
	assert_string_equal((const char *)base + 4096, "rows");
	tfc__feed_mapping_release(mapping);
}

static int memory_of(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* A refused descriptor is closed, too. */
static void what_a_sender_could_take_away_is_refused(void **state)
{
	int pipes[2], sealed = F_SEAL_SHRINK;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	const struct {
		int fd;
		uint64_t size;
		int code;
	} cases[] = {
		{memory_of(4096, sealed), 4096, TFC_OK},
		{memory_of(4096, sealed | F_SEAL_GROW), 4096, TFC_OK},
		{memory_of(4096, 0), 4096, TFC_EPARSE},
		{memory_of(4096, F_SEAL_GROW), 4096, TFC_EPARSE},
		{memory_of(4096, F_SEAL_WRITE), 4096, TFC_EPARSE},
		{memory_of(4096, sealed), 8192, TFC_EPARSE},
		{memory_of(4096, sealed), 2048, TFC_EPARSE},
		{memory_of(0, sealed), 0, TFC_EPARSE},
		{memory_of(4096, sealed), UINT64_MAX, TFC_EPARSE},
		{pipes[0], 4096, TFC_EPARSE},
		{open("/dev/zero", O_RDWR | O_CLOEXEC), 4096, TFC_EPARSE},
		{open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 4096, TFC_EPARSE},
		{-1, 4096, TFC_EPARSE},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tfc__feed_mapping *mapping = NULL;
		tfc_error error = TFC_ERROR_INIT;
		int code = tfc__feed_mapping_open(cases[i].fd, cases[i].size, &error, &mapping);
		if (code != cases[i].code)
			fail_msg("case %zu: %d %s", i, code, error.text);
		if (code < 0) {
			assert_null(mapping);
			assert_string_equal(error.text,
					    "the other end of the feed has sent memory that it "
					    "could shrink, or of another size than it says");
		}
		assert_int_equal(fcntl(cases[i].fd, F_GETFD), -1);
		tfc__feed_mapping_release(mapping);
	}
	close(pipes[1]);
}

/* ---- credits that return */

struct held {
	struct tfc__feed_held held;
	bool is_free;
};

static void held_free(struct tfc__feed_held *held)
{
	struct held *one = tfc__container_of(held, struct held, held);
	assert_false(one->is_free);
	one->is_free = true;
}

static void receive_release(int socket)
{
	struct tfc__feed_parsed parsed;
	uint8_t data[256];
	ssize_t len = recv(socket, data, sizeof(data), MSG_DONTWAIT);
	assert_true(len > 0);
	assert_int_equal(tfc__feed_message_parse(&parsed, data, (size_t)len, NULL), TFC_OK);
	assert_int_equal(parsed.message.kind, TFC__FEED_RELEASE);
	assert_true(tfc__feed_segment_release(&segment, parsed.message.block));
	tfc__feed_parsed_fini(&parsed);
}

static bool is_readable(int fd)
{
	eventfd_t count;
	return eventfd_read(fd, &count) == 0;
}

struct receiver {
	struct tfc__feed_mapping *mapping;
	int sockets[2]; /* that of the receiver, that of the sender */
	int wake;
};

static void receiver_open(struct receiver *receiver)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, receiver->sockets),
			 0);
	receiver->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(receiver->wake >= 0);
	assert_int_equal(tfc__feed_mapping_open(dup(segment.fd), SIZE, &error, &receiver->mapping),
			 TFC_OK);
	tfc__feed_mapping_set_socket(receiver->mapping, receiver->sockets[0], receiver->wake);
}

static void receiver_close(struct receiver *receiver)
{
	tfc__feed_mapping_release(receiver->mapping);
	close(receiver->sockets[0]);
	close(receiver->sockets[1]);
	close(receiver->wake);
}

struct returning {
	pthread_t thread;
	struct tfc__feed_mapping *mapping;
	struct held *held;
	uint32_t count;
};

static void *return_blocks(void *user)
{
	const struct returning *returning = user;
	for (uint32_t i = 0; i < returning->count; i++)
		tfc__feed_mapping_return(returning->mapping, &returning->held[i].held);
	return NULL;
}

/* The sender does not read: the kernel soon has no room for the messages of the threads. */
static void blocks_return_from_any_thread(void **state)
{
	enum { THREADS = 4, EACH = BLOCKS_MAX / THREADS };
	static struct held held[THREADS][EACH];
	struct returning returning[THREADS];
	struct receiver receiver;
	uint32_t block, received = 0;
	receiver_open(&receiver);
	memset(held, 0, sizeof(held));
	for (uint32_t i = 0; i < BLOCKS_MAX; i++)
		held[i % THREADS][i / THREADS].held = (struct tfc__feed_held){.block = acquire(64),
									      .free = held_free};
	assert_false(tfc__feed_segment_acquire(&segment, 64, &block));
	for (int i = 0; i < THREADS; i++) {
		returning[i] = (struct returning){.mapping = receiver.mapping,
						  .held = held[i],
						  .count = EACH};
		assert_int_equal(pthread_create(&returning[i].thread, NULL, return_blocks,
						&returning[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(returning[i].thread, NULL), 0);
	assert_true(is_readable(receiver.wake));
	assert_false(tfc__feed_mapping_flush(receiver.mapping));
	while (received < BLOCKS_MAX) {
		receive_release(receiver.sockets[1]);
		received++;
		if (received % 10 == 0)
			tfc__feed_mapping_flush(receiver.mapping);
	}
	assert_true(tfc__feed_mapping_flush(receiver.mapping));
	assert_int_equal(segment.used_count, 0);
	for (uint32_t i = 0; i < BLOCKS_MAX; i++)
		assert_true(held[i % THREADS][i / THREADS].is_free);
	receiver_close(&receiver);
}

static void a_block_returns_at_once_when_there_is_room(void **state)
{
	struct held held = {.held = {.block = acquire(100), .free = held_free}};
	struct receiver receiver;
	receiver_open(&receiver);
	tfc__feed_mapping_return(receiver.mapping, &held.held);
	assert_true(held.is_free);
	assert_false(is_readable(receiver.wake));
	receive_release(receiver.sockets[1]);
	assert_int_equal(segment.used_count, 0);
	receiver_close(&receiver);
}

/* A batch may outlive the connection: nobody waits for its block. */
static void blocks_of_a_closed_connection_are_freed(void **state)
{
	struct held early = {.held = {.block = acquire(64), .free = held_free}}, late = early;
	struct receiver receiver;
	receiver_open(&receiver);
	tfc__feed_mapping_keep(receiver.mapping); /* that of a batch */
	close(receiver.sockets[1]);
	receiver.sockets[1] = dup(receiver.sockets[0]);
	tfc__feed_mapping_return(receiver.mapping, &early.held);
	assert_true(early.is_free);
	tfc__feed_mapping_set_socket(receiver.mapping, -1, -1);
	tfc__feed_mapping_release(receiver.mapping); /* that of the connection */
	assert_int_equal(tfc__feed_mapping_base(receiver.mapping)[0], 0);
	tfc__feed_mapping_return(receiver.mapping, &late.held);
	assert_true(late.is_free);
	receiver_close(&receiver);
}

/* ---- what the kernel does not take */

static void socket_message(void *user, const struct tfc__feed_message *message, int fd)
{
}

static void socket_down(void *user, const tfc_error *why)
{
	*(bool *)user = true;
}

/* It would be missed: whoever waits for it would wait for ever. */
static void a_message_that_the_kernel_refuses_is_not_lost_silently(void **state)
{
	static const struct tfc__feed_socket_ops ops = {socket_message, socket_down, NULL};
	static const uint8_t data[64 << 10];
	for (int is_queued = 0; is_queued < 2; is_queued++) {
		struct tfc__feed_socket sock;
		int ends[2], bytes = 1;
		bool is_down = false;
		tfc_ctx *ctx;
		assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), TFC_OK);
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
		assert_int_equal(tfc__feed_socket_open(&sock, ctx, ends[0], &ops, &is_down, NULL),
				 TFC_OK);
		while (is_queued && tfc__list_is_empty(&sock.queue))
			assert_int_equal(tfc__feed_socket_send_bytes(&sock, data, sizeof(data), -1),
					 TFC_OK);
		assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)),
				 0);
		if (!is_queued)
			assert_int_equal(tfc__feed_socket_send_bytes(&sock, data, sizeof(data), -1),
					 TFC_ETOOBIG);
		for (int i = 0; is_queued && !is_down && i < 1000; i++) {
			uint8_t read[1];
			recv(ends[1], read, sizeof(read), MSG_DONTWAIT);
			assert_true(tfc_ctx_run(ctx, 1) >= 0);
		}
		assert_int_equal(is_down, is_queued);
		tfc__feed_socket_close(&sock);
		close(ends[1]);
		assert_int_equal(tfc_ctx_close(ctx), TFC_OK);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_segment, close_segment)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_are_aligned_and_as_long_as_asked_for),
		TEST(credits_are_exact),
		TEST(no_number_of_bytes_wraps_around),
		TEST(the_lowest_free_address_is_used_first),
		TEST(a_block_is_released_once),
		TEST(blocks_are_released_in_any_order),
		TEST(blocks_in_flight_have_a_limit),
		TEST(memory_that_there_is_not_is_an_error),
		TEST(the_memory_of_a_sender_keeps_its_size),
		TEST(a_receiver_maps_what_the_sender_writes),
		TEST(what_a_sender_could_take_away_is_refused),
		TEST(blocks_return_from_any_thread),
		TEST(a_block_returns_at_once_when_there_is_room),
		TEST(blocks_of_a_closed_connection_are_freed),
		TEST(a_message_that_the_kernel_refuses_is_not_lost_silently),
	};
	return cmocka_run_group_tests_name("feed_segment", tests, NULL, NULL);
}
