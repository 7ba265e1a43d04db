/* transport: datagrams at a node's tcp addresses, passed to the receiver of their magic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/address.h"
#include "transport/datagram.h"

static tfc_ctx *ctx;
static struct tfc__datagrams *a, *b;
static tfc_error error;

struct record {
	struct tfc__datagram_receiver receiver;
	unsigned count;
	size_t len;
	uint8_t bytes[TFC__DATAGRAM_MAX];
	struct sockaddr_storage from;
	struct tfc__datagrams *closed; /* closed by the first datagram */
};

static void keep(struct tfc__datagram_receiver *receiver, const struct sockaddr_storage *from,
		 const uint8_t *bytes, size_t len)
{
	struct record *record = tfc__container_of(receiver, struct record, receiver);
	record->count++;
	record->len = len;
	memcpy(record->bytes, bytes, len);
	record->from = *from;
	tfc__datagrams_close(record->closed);
}

static struct record gossip, will;

static int set_up(void **state)
{
	gossip = (struct record){.receiver = {.magic = "TFG\1", .fn = keep}};
	will = (struct record){.receiver = {.magic = "TFW\1", .fn = keep}};
	error = (tfc_error)TFC_ERROR_INIT;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &ctx), 0);
	assert_int_equal(tfc__datagrams_open(ctx, &error, &a), TFC_OK);
	assert_int_equal(tfc__datagrams_open(ctx, &error, &b), TFC_OK);
	return 0;
}

static int tear_down(void **state)
{
	tfc__datagrams_close(a);
	tfc__datagrams_close(b);
	tfc_ctx_free(ctx);
	return 0;
}

/* A free port of all addresses, which is released; no other program learns the number. */
static uint16_t free_port(void)
{
	struct sockaddr_in6 any = {.sin6_family = AF_INET6};
	socklen_t len = sizeof(any);
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &len), 0);
	close(fd);
	return ntohs(any.sin6_port);
}

static struct sockaddr_storage address_of(const char *host, uint16_t port)
{
	struct tfc__tcp_host parsed;
	char text[80];
	snprintf(text, sizeof(text), "tcp://%s:%u", host, port);
	assert_int_equal(tfc__tcp_parse(text, &error, &parsed), TFC_OK);
	return parsed.addresses[0];
}

static uint16_t bind_at(struct tfc__datagrams *datagrams, const char *host)
{
	char text[80];
	uint16_t port = free_port();
	snprintf(text, sizeof(text), "tcp://%s:%u", host, port);
	if (tfc__datagrams_bind(datagrams, text, &error) < 0)
		fail_msg("%s", error.text);
	return port;
}

static void run_until(const unsigned *count, unsigned wanted)
{
	uint64_t end = tfc__now() + 10 * TFC__SECOND;
	while (*count < wanted && tfc__now() < end)
		assert_true(tfc_ctx_run(ctx, 1000) >= 0);
	assert_true(*count >= wanted);
}

static void each_receiver_gets_its_magic_and_nothing_else(void **state)
{
	uint16_t port = bind_at(a, "127.0.0.1");
	bind_at(b, "127.0.0.1");
	struct sockaddr_storage to = address_of("127.0.0.1", port);
	tfc__datagrams_add(a, &gossip.receiver);
	tfc__datagrams_add(a, &will.receiver);
	static const char *const sent[] = {"TFX\1unknown", "TF", "TFG\1gossip", "TFW\1will"};
	for (int i = 0; i < 4; i++)
		assert_int_equal(tfc__datagrams_send(b, &to, sent[i], strlen(sent[i])), TFC_OK);
	run_until(&will.count, 1);
	assert_int_equal(gossip.count, 1);
	assert_int_equal(gossip.len, 10);
	assert_memory_equal(gossip.bytes, "TFG\1gossip", 10);
	assert_memory_equal(will.bytes, "TFW\1will", 8);
	tfc__datagrams_remove(&gossip.receiver);
	assert_int_equal(tfc__datagrams_send(b, &to, sent[2], 10), TFC_OK);
	assert_int_equal(tfc__datagrams_send(b, &to, sent[3], 8), TFC_OK);
	run_until(&will.count, 2);
	assert_int_equal(gossip.count, 1);
}

static void longest_datagram_passes_and_a_longer_one_does_not(void **state)
{
	uint8_t bytes[TFC__DATAGRAM_MAX + 10] = "TFG\1";
	uint16_t port = bind_at(a, "127.0.0.1");
	struct sockaddr_storage to = address_of("127.0.0.1", port);
	tfc__datagrams_add(a, &gossip.receiver);
	assert_int_equal(tfc__datagrams_send(a, &to, bytes, TFC__DATAGRAM_MAX + 1), TFC_ETOOBIG);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	for (int more = 10; more > 0; more--) /* from a sender that does not refuse */
		assert_true(sendto(fd, bytes, TFC__DATAGRAM_MAX + (size_t)more, 0,
				   (struct sockaddr *)&to, tfc__tcp_len(&to)) > 0);
	close(fd);
	assert_int_equal(tfc__datagrams_send(a, &to, bytes, TFC__DATAGRAM_MAX), TFC_OK);
	run_until(&gossip.count, 1);
	assert_int_equal(gossip.count, 1);
	assert_int_equal(gossip.len, TFC__DATAGRAM_MAX);
}

static void one_socket_serves_both_families(void **state)
{
	uint16_t port = bind_at(a, "[::]"), v4 = bind_at(b, "127.0.0.1"), v6 = bind_at(b, "[::1]");
	struct sockaddr_storage to4 = address_of("127.0.0.1", port),
				to6 = address_of("[::1]", port);
	char text[80], expected[80];
	tfc__datagrams_add(a, &gossip.receiver);
	tfc__datagrams_add(b, &will.receiver);
	assert_int_equal(tfc__datagrams_count(b), 2);
	assert_int_equal(tfc__datagrams_send(b, &to4, "TFG\1", 4), TFC_OK);
	run_until(&gossip.count, 1);
	snprintf(expected, sizeof(expected), "tcp://127.0.0.1:%u", v4);
	tfc__tcp_write(&gossip.from, text, sizeof(text));
	assert_string_equal(text, expected);
	assert_int_equal(gossip.from.ss_family, AF_INET);
	assert_int_equal(tfc__datagrams_send(a, &gossip.from, "TFW\1", 4), TFC_OK); /* an answer */
	run_until(&will.count, 1);
	assert_int_equal(tfc__datagrams_send(b, &to6, "TFG\1", 4), TFC_OK);
	run_until(&gossip.count, 2);
	snprintf(expected, sizeof(expected), "tcp://[::1]:%u", v6);
	tfc__tcp_write(&gossip.from, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void loopback_socket_sends_nothing_off_the_machine(void **state)
{
	struct sockaddr_storage elsewhere = address_of("192.0.2.1", 9),
				v6 = address_of("[2001:db8::1]", 9);
	bind_at(a, "127.0.0.1");
	assert_int_equal(tfc__datagrams_send(a, &elsewhere, "TFG\1", 4), TFC_EUNREACH);
	assert_int_equal(tfc__datagrams_send(a, &v6, "TFG\1", 4), TFC_EUNREACH);
	assert_int_equal(tfc__datagrams_send(b, &elsewhere, "TFG\1", 4), TFC_EUNREACH);
}

static void a_flood_leaves_room_for_others_in_each_turn(void **state)
{
	uint16_t port = bind_at(a, "127.0.0.1");
	struct sockaddr_storage to = address_of("127.0.0.1", port);
	tfc__datagrams_add(a, &gossip.receiver);
	for (int i = 0; i < 100; i++)
		assert_int_equal(tfc__datagrams_send(a, &to, "TFG\1", 4), TFC_OK);
	for (unsigned before = 0; gossip.count < 100; before = gossip.count) {
		assert_true(tfc_ctx_dispatch(ctx, 1) >= 0);
		assert_true(gossip.count - before <= 32);
	}
}

static void a_receiver_may_close_the_sockets(void **state)
{
	uint16_t port = bind_at(a, "127.0.0.1");
	struct sockaddr_storage to = address_of("127.0.0.1", port);
	tfc__datagrams_add(a, &gossip.receiver);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tfc__datagrams_send(a, &to, "TFG\1", 4), TFC_OK);
	gossip.closed = a;
	run_until(&gossip.count, 1);
	a = NULL;
	while (tfc_ctx_run(ctx, 0) > 0)
		;
	assert_int_equal(gossip.count, 1);
}

static void used_port_and_name_are_refused(void **state)
{
	char text[80];
	uint16_t port = bind_at(a, "127.0.0.1");
	snprintf(text, sizeof(text), "tcp://127.0.0.1:%u", port);
	assert_int_equal(tfc__datagrams_bind(b, text, &error), TFC_EBUSY);
	assert_non_null(strstr(error.text, "another process has this UDP port"));
	assert_int_equal(tfc__datagrams_bind(b, "tcp://somewhere.example:1", &error), TFC_EINVAL);
	assert_non_null(strstr(error.text, "a numeric address is required"));
	assert_int_equal(tfc__datagrams_count(b), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_receiver_gets_its_magic_and_nothing_else),
		TEST(longest_datagram_passes_and_a_longer_one_does_not),
		TEST(one_socket_serves_both_families),
		TEST(loopback_socket_sends_nothing_off_the_machine),
		TEST(a_flood_leaves_room_for_others_in_each_turn),
		TEST(a_receiver_may_close_the_sockets),
		TEST(used_port_and_name_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
