/* membership by gossip: datagrams of others, at the socket of a member. Whoever has no key gets no
 * answer; whoever has one can invent members, which cost a bounded amount of memory and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <malloc.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "gossip_member.h"
#include "leaks.h"
#include "member/gossip_internal.h"
#include "member/gossip_message.h"
#include "sanitized.h"

static const uint8_t magic[TFC__DATAGRAM_MAGIC] = {'T', 'F', 'G', TFC__GOSSIP_VERSION};

struct world {
	tfc_ctx *ctx;
	char dir[LEAKS_PATH];
	char key[LEAKS_PATH + 8], other_key[LEAKS_PATH + 8];
	struct gossip_member a;
	struct sockaddr_storage at; /* of a */
	int fd;                     /* of whoever sends here */
};

static int new_socket(struct world *world)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&world->at, sizeof(world->at)), 0);
	return fd;
}

static void begin(struct world *world)
{
	char address[40];
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__tcp_host host;
	*world = (struct world){.fd = -1};
	assert_int_equal(tfc_ctx_new(NULL, NULL, &world->ctx), TFC_OK);
	leaks_make_dir(world->dir);
	snprintf(world->key, sizeof(world->key), "%s/key", world->dir);
	snprintf(world->other_key, sizeof(world->other_key), "%s/other", world->dir);
	assert_int_equal(tfc__keyring_generate(world->key, TFC__KEY_NODE, &error), TFC_OK);
	assert_int_equal(tfc__keyring_generate(world->other_key, TFC__KEY_NODE, &error), TFC_OK);
	snprintf(address, sizeof(address), "tcp://%s:21000", gossip_member_host());
	const tfc_member_info self = {.size = sizeof(self), .name = "a", .address = address};
	const struct gossip_member_options options = {.key_file = world->key,
						      .state_dir = world->dir,
						      .self = &self};
	gossip_member_start(&world->a, world->ctx, &options);
	assert_int_equal(tfc__tcp_parse(address, &error, &host), TFC_OK);
	world->at = host.addresses[0];
	world->fd = new_socket(world);
}

static void end(struct world *world)
{
	close(world->fd);
	gossip_member_kill(&world->a);
	tfc_ctx_free(world->ctx);
	tfc__remove_tree(world->dir);
}

static void settle(struct world *world)
{
	while (tfc_ctx_run(world->ctx, 0) > 0)
		;
}

static void send_bytes(struct world *world, int fd, const void *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, 0), len);
	settle(world);
}

/* ---- a sender of its own */

struct sender {
	struct tfc__keyring *ring;
	struct tfc__sealing *sealing;
	uint8_t frame[TFC__DATAGRAM_MAX], sealed[TFC__DATAGRAM_MAX];
	uint8_t *end;
};

/* key NULL: none, as on a loopback without a key file. */
static void sender_begin(struct sender *sender, const char *key)
{
	static const uint8_t id[TFC__SEALED_ID_SIZE] = {7};
	tfc_error error = TFC_ERROR_INIT;
	*sender = (struct sender){.end = sender->frame};
	if (key)
		assert_int_equal(tfc__keyring_load(key, &error, &sender->ring), TFC_OK);
	assert_int_equal(tfc__sealing_new(sender->ring, magic, id, 1, &error, &sender->sealing),
			 TFC_OK);
	sender->end = tfc__gossip_write_header(sender->frame, UINT64_C(1) << 32);
}

static void sender_end(struct sender *sender)
{
	tfc__sealing_free(sender->sealing);
	tfc__keyring_free(sender->ring);
}

/* The length of `sealed`; the next frame is empty. */
static size_t sender_seal(struct sender *sender)
{
	size_t len = (size_t)(sender->end - sender->frame);
	tfc__seal(sender->sealing, sender->frame, len, sender->sealed);
	sender->end = tfc__gossip_write_header(sender->frame, UINT64_C(1) << 32);
	return len + TFC__SEALED_OVERHEAD;
}

static size_t sender_ping(struct sender *sender, struct world *world)
{
	struct tfc__gossip_message ping = {.type = TFC__GOSSIP_PING, .seq = 1};
	sodium_hex2bin(ping.id.bytes, sizeof(ping.id.bytes), tfc__identity_id(world->a.identity),
		       TFC__NODE_ID_SIZE - 1, NULL, NULL, NULL);
	sender->end = tfc__gossip_write(sender->end, &ping);
	return sender_seal(sender);
}

static void assert_answered(struct world *world, int fd, bool is_answered)
{
	uint8_t bytes[2000];
	uint64_t deadline = tfc__now() + 20 * TFC__SECOND;
	ssize_t len;
	do {
		settle(world);
		len = recv(fd, bytes, sizeof(bytes), 0);
		assert_true(tfc__now() < deadline);
	} while (is_answered && len < 0);
	assert_int_equal(len > 0, is_answered);
}

/* A sender with the key is answered afterwards: by then, what came before was handled. */
static void nothing_is_answered_to_somebody_without_the_key(void **state)
{
	struct world world;
	struct sender friend, stranger, unkeyed;
	uint8_t bytes[TFC__DATAGRAM_MAX];
	begin(&world);
	sender_begin(&friend, world.key);
	sender_begin(&stranger, world.other_key);
	sender_begin(&unkeyed, NULL);
	int fd = new_socket(&world);
	randombytes_buf(bytes, sizeof(bytes));
	send_bytes(&world, fd, bytes, sizeof(bytes));
	memcpy(bytes, magic, sizeof(magic));
	send_bytes(&world, fd, bytes, sizeof(bytes));
	send_bytes(&world, fd, magic, sizeof(magic));
	send_bytes(&world, fd, "", 0);
	size_t len = sender_ping(&stranger, &world);
	send_bytes(&world, fd, stranger.sealed, len);
	len = sender_ping(&unkeyed, &world);
	send_bytes(&world, fd, unkeyed.sealed, len);
	len = sender_ping(&friend, &world);
	for (size_t cut = 1; cut < len; cut += 9)
		send_bytes(&world, fd, friend.sealed, len - cut);
	friend.sealed[len - 1] ^= 1;
	send_bytes(&world, fd, friend.sealed, len);
	friend.sealed[len - 1] ^= 1;
	send_bytes(&world, world.fd, friend.sealed, len);
	assert_answered(&world, world.fd, true);
	send_bytes(&world, fd, friend.sealed, len); /* recorded, and sent again */
	send_bytes(&world, world.fd, friend.sealed, len);
	len = sender_ping(&friend, &world);
	send_bytes(&world, world.fd, friend.sealed, len);
	assert_answered(&world, world.fd, true);
	assert_answered(&world, fd, false);
	close(fd);
	sender_end(&friend);
	sender_end(&stranger);
	sender_end(&unkeyed);
	end(&world);
}

/* ---- many members */

static void add_message(struct world *world, struct sender *sender,
			const struct tfc__gossip_message *m)
{
	size_t used = (size_t)(sender->end - sender->frame);
	if (used + tfc__gossip_message_size(m) + TFC__SEALED_OVERHEAD > TFC__DATAGRAM_MAX) {
		size_t len = sender_seal(sender);
		send_bytes(world, world->fd, sender->sealed, len);
	}
	sender->end = tfc__gossip_write(sender->end, m);
}

static void flush(struct world *world, struct sender *sender)
{
	size_t len = sender_seal(sender);
	send_bytes(world, world->fd, sender->sealed, len);
}

/* A message about each of the members `first` to `last - 1`. */
static void report_members(struct world *world, struct sender *sender, uint32_t first,
			   uint32_t last, enum tfc__gossip_type type)
{
	const tfc_member_info info = {.size = sizeof(info), .slots = 4};
	tfc_error error = TFC_ERROR_INIT;
	struct tfc__buf meta = {0};
	assert_int_equal(tfc__gossip_meta_write(&info, &error, &meta), TFC_OK);
	for (uint32_t i = first; i < last; i++) {
		char name[16];
		struct tfc__gossip_message m = {.type = type,
						.incarnation = UINT64_C(1) << 32,
						.state = TFC_MEMBER_ALIVE,
						.name = (const uint8_t *)name,
						.meta = (const uint8_t *)meta.data,
						.meta_len = meta.len};
		tfc__gossip_address_from(&world->at, &m.address);
		m.address.port = 9; /* nobody responds there */
		m.name_len = (size_t)snprintf(name, sizeof(name), "m%05u", i);
		memcpy(m.id.bytes, &(uint32_t){i + 1}, sizeof(i));
		add_message(world, sender, &m);
	}
	flush(world, sender);
	tfc__buf_fini(&meta);
}

static void invented_members_use_bounded_memory(void **state)
{
	enum { MOST = 16384 };
	struct world world;
	struct sender sender;
	begin(&world);
	sender_begin(&sender, world.key);
	size_t before = mallinfo2().uordblks;
	report_members(&world, &sender, 0, MOST + 4000, TFC__GOSSIP_RECORD);
	size_t used = mallinfo2().uordblks - before;
	print_message("%u members, %zu bytes for each\n", tfc__members_count(world.a.members),
		      used / MOST);
	assert_int_equal(tfc__members_count(world.a.members), MOST);
	if (!TEST_IS_SANITIZED)
		assert_true(used < (size_t)MOST * 2048);
	report_members(&world, &sender, MOST + 4000, MOST + 8000, TFC__GOSSIP_RECORD);
	assert_int_equal(tfc__members_count(world.a.members), MOST);
	assert_true(mallinfo2().uordblks - before < used + 100000);
	sender_end(&sender);
	end(&world);
}

static uint64_t cpu_time(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * TFC__SECOND + (uint64_t)now.tv_nsec;
}

/* The least CPU time of a batch of reports that a member is down. */
static uint64_t down_batch_ns(struct world *world, struct sender *sender, uint32_t first)
{
	enum { BATCH = 100, BATCHES = 8 };
	uint64_t least = UINT64_MAX;
	for (uint32_t i = 0; i < BATCHES; i++) {
		uint64_t begun = cpu_time();
		report_members(world, sender, first + i * BATCH, first + (i + 1) * BATCH,
			       TFC__GOSSIP_DOWN);
		uint64_t took = cpu_time() - begun;
		least = took < least ? took : least;
	}
	char name[16];
	snprintf(name, sizeof(name), "m%05u", first + BATCH * BATCHES - 1);
	assert_int_equal(tfc__members_find(world->a.members, name)->state, TFC_MEMBER_DOWN);
	return least;
}

/* Ten thousand members that go at once must not take ten thousand times ten thousand steps. */
static void a_member_that_goes_costs_the_same_among_ten_thousand(void **state)
{
	struct world world;
	struct sender sender;
	begin(&world);
	sender_begin(&sender, world.key);
	report_members(&world, &sender, 0, 1000, TFC__GOSSIP_RECORD);
	uint64_t among_few = down_batch_ns(&world, &sender, 0);
	report_members(&world, &sender, 1000, 10000, TFC__GOSSIP_RECORD);
	uint64_t among_many = down_batch_ns(&world, &sender, 2000);
	print_message("a hundred: %.3f ms among 1,000, %.3f ms among 10,000\n", among_few / 1e6,
		      among_many / 1e6);
	assert_true(among_many < 5 * among_few);
	sender_end(&sender);
	end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_answered_to_somebody_without_the_key),
		cmocka_unit_test(invented_members_use_bounded_memory),
		cmocka_unit_test(a_member_that_goes_costs_the_same_among_ten_thousand),
	};
	return cmocka_run_group_tests_name("membership_hostile", tests, NULL, NULL);
}
