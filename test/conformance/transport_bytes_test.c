/* transport: what goes in at one end comes out at the other, in order, whole, or not at all. */
#include "transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hosted_transport.h"
#include "wire/noise.h"
#include "wire/rpc.h"

#define PIECE (TFC__NOISE_MESSAGE_MAX - TFC__NOISE_TAG)

static uint32_t mix(uint32_t x)
{
	x ^= x << 13;
	x ^= x >> 17;
	return x ^ x << 5;
}

static uint8_t byte_at(uint64_t at)
{
	return (uint8_t)(at * 2654435761u >> 13);
}

static uint8_t *pattern(uint64_t from, size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	assert_non_null(bytes);
	for (size_t i = 0; i < len; i++)
		bytes[i] = byte_at(from + i);
	return bytes;
}

/* ---- messages */

#define MESSAGES 3000

struct counting {
	uint32_t expected; /* number of the next message */
};

static size_t length_of(uint32_t number)
{
	uint32_t x = mix(number + 1);
	return sizeof(number) + (x % 50 ? x % 300 : x % 100000);
}

static void check_number(struct end *end, const void *data, size_t len)
{
	struct counting *counting = end->user;
	uint32_t number;
	assert_true(len >= sizeof(number));
	memcpy(&number, data, sizeof(number));
	assert_int_equal(number, counting->expected);
	assert_int_equal(len, length_of(number));
	assert_int_equal(((const uint8_t *)data)[len - 1],
			 len > sizeof(number) ? byte_at(number) : number >> 24);
	counting->expected++;
}

static void send_number(struct end *end, uint32_t number)
{
	size_t len = length_of(number);
	uint8_t *bytes = calloc(1, len);
	assert_non_null(bytes);
	bytes[len - 1] = byte_at(number);
	memcpy(bytes, &number, sizeof(number));
	end_send(end, bytes, len);
	free(bytes);
}

static void messages_keep_their_order(void **state)
{
	struct end_pair pair;
	struct counting there = {0}, back = {0};
	end_pair_begin(&pair, *state);
	pair.far.on_message = pair.near.on_message = check_number;
	pair.far.user = &there;
	pair.near.user = &back;
	for (uint32_t i = 0; i < MESSAGES; i++) {
		send_number(&pair.near, i);
		send_number(&pair.far, i);
		if (i % 100 == 0)
			world_turn(&pair.world);
	}
	AWAIT(&pair.world, there.expected == MESSAGES && back.expected == MESSAGES);
	assert_int_equal(tfc__channel_backlog(pair.near.channel), 0);
	end_pair_end(&pair);
}

static void messages_of_every_length_come_whole(void **state)
{
	static const size_t lengths[] = {0,         1,         2,          255,
					 65534,     65535,     65536,      PIECE - 1,
					 PIECE,     PIECE + 1, 2 * PIECE,  2 * PIECE + 1,
					 5 * PIECE, 1000000,   256u << 10, TFC__RPC_MESSAGE_MAX};
	struct end_pair pair;
	end_pair_begin(&pair, *state);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		size_t len = lengths[i];
		uint8_t *bytes = pattern(i, len);
		end_send(&pair.near, bytes, len);
		AWAIT(&pair.world, pair.far.messages == i + 1);
		assert_int_equal(pair.far.last.len, len);
		assert_memory_equal(pair.far.last.data, bytes, len);
		free(bytes);
	}
	assert_int_equal(tfc__channel_backlog(pair.near.channel), 0);
	end_pair_end(&pair);
}

static void a_message_over_the_maximum_ends_the_channel(void **state)
{
	struct end_pair pair;
	end_pair_begin(&pair, *state);
	uint8_t *bytes = pattern(0, TFC__RPC_MESSAGE_MAX + 1);
	end_send(&pair.near, bytes, TFC__RPC_MESSAGE_MAX + 1);
	free(bytes);
	assert_false(pair.near.is_down); /* not inside the call */
	AWAIT(&pair.world, pair.near.is_down && pair.far.is_down);
	assert_int_equal(pair.near.why.code, TFC_ETOOBIG);
	assert_int_equal(pair.far.messages, 0);
	end_pair_end(&pair);
}

/* ---- closing */

/* After so many turns, an end closes: the other gets one event, whatever stage both were in. */
static void close_after(const struct transport_kind *kind, int turns, bool is_near)
{
	struct world world;
	struct end_listener listener;
	struct end near = {0}, far = {0};
	world_begin(&world, kind);
	end_listen(&world, world.address, &far, 1, &listener);
	end_dial(&world, tfc__listener_address(listener.listener), &near);
	for (int i = 0; i < turns; i++) {
		if (near.is_up)
			end_send(&near, "message", 7);
		tfc_ctx_dispatch(world.ctx, 1); /* one callback */
		if (world.hosted)
			hosted_turn(world.hosted, 0);
	}
	if (is_near || !far.channel) {
		end_close(&near);
		tfc__listener_close(listener.listener);
		if (far.channel)
			AWAIT(&world, far.is_down);
	} else {
		end_close(&far);
		tfc__listener_close(listener.listener);
		AWAIT(&world, near.is_down);
	}
	end_close(&near);
	end_close(&far);
	world_end(&world);
}

static void each_end_may_close_at_each_stage(void **state)
{
	for (int turns = 0; turns < 24; turns++) {
		close_after(*state, turns, true);
		close_after(*state, turns, false);
	}
}

static void what_was_sent_before_a_close_arrives_or_the_end_does(void **state)
{
	struct end_pair pair;
	end_pair_begin(&pair, *state);
	for (uint32_t i = 0; i < 5; i++)
		end_send(&pair.near, "message", 7);
	AWAIT(&pair.world, pair.far.messages > 0);
	end_close(&pair.near);
	AWAIT(&pair.world, pair.far.is_down);
	assert_true(pair.far.messages <= 5);
	assert_int_equal(pair.far.bytes, pair.far.messages * 7);
	end_pair_end(&pair);
}

/* A dialer with a context of its own, and two connections. */
struct goodbye {
	struct world world, dialer;
	struct end near[2], far[2];
};

/* Between the dialer's reading from the second connection and its writing to it. */
static void close_the_second(struct end *first, const void *data, size_t len)
{
	struct goodbye *both = first->user;
	end_send(&both->far[1], "goodbye", 7);
	world_settle(&both->world);
	end_close(&both->far[1]);
	end_send(&both->near[1], "question", 8);
}

static void a_failed_write_does_not_hide_the_last_message(void **state)
{
	struct goodbye both = {.near[0] = {.on_message = close_the_second, .user = &both}};
	struct end_listener listener;
	world_begin(&both.world, *state);
	both.dialer = both.world;
	assert_int_equal(tfc_ctx_new(NULL, NULL, &both.dialer.ctx), TFC_OK);
	end_listen(&both.world, both.world.address, both.far, 2, &listener);
	for (int i = 0; i < 2; i++) {
		end_dial(&both.dialer, tfc__listener_address(listener.listener), &both.near[i]);
		for (uint64_t deadline = world_deadline();
		     !both.near[i].is_up || !both.far[i].is_up;) {
			world_turn(&both.world);
			world_turn(&both.dialer);
			world_check_deadline(deadline, "both are up", __FILE__, __LINE__);
		}
	}
	end_send(&both.far[0], "go", 2);
	world_settle(&both.world);
	AWAIT(&both.dialer, both.near[1].is_down);
	assert_int_equal(both.near[1].messages, 1);
	end_close(&both.near[0]);
	end_close(&both.near[1]);
	end_close(&both.far[0]);
	tfc__listener_close(listener.listener);
	tfc_ctx_free(both.dialer.ctx);
	world_end(&both.world);
}

/* ---- pipes: a reader that takes its time */

#define MUCH (UINT64_C(32) << 20)

static uint64_t fill_pipe(struct world *world, struct raw *raw, uint64_t at)
{
	static uint8_t bytes[50000];
	tfc_error error = TFC_ERROR_INIT;
	for (;;) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = byte_at(at + i);
		int64_t count = tfc__pipe_write(raw->pipe, bytes, sizeof(bytes), &error);
		assert_true(count >= 0);
		at += (uint64_t)count;
		if (count < (int64_t)sizeof(bytes))
			return at;
		assert_true(at < MUCH);
	}
}

/* The writer is stopped with little on the way, and gets an event when there is room again. */
static void a_slow_reader_stops_the_writer(void **state)
{
	struct world world;
	struct raw_listener listener;
	struct raw near, far;
	uint64_t written = 0, seen = 0;
	uint8_t bytes[7001];
	world_begin(&world, *state);
	raw_listen(&world, world.address, &listener, &far);
	raw_dial(&world, tfc__listener_address(listener.listener), &near);
	AWAIT(&world, far.pipe);
	for (int round = 0; round < 5; round++) {
		written = fill_pipe(&world, &near, written);
		assert_true(written - seen < MUCH);
		near.reported = 0;
		tfc__pipe_want(near.pipe, TFC_PIPE_EVENT_READABLE | TFC_PIPE_EVENT_WRITABLE);
		while (seen < written) {
			int64_t count = raw_read(&far, bytes, sizeof(bytes));
			assert_true(count >= 0);
			for (int64_t i = 0; i < count; i++)
				assert_int_equal(bytes[i], byte_at(seen + (uint64_t)i));
			seen += (uint64_t)count;
			if (!count)
				world_turn(&world);
		}
		AWAIT(&world, near.reported & TFC_PIPE_EVENT_WRITABLE);
	}
	raw_close(&near);
	raw_close(&far);
	tfc__listener_close(listener.listener);
	world_end(&world);
}

/* Bytes that were announced while nobody wanted them come when they are wanted again. */
static void a_reader_may_look_away(void **state)
{
	struct world world;
	struct raw_listener listener;
	struct raw near, far;
	char byte;
	world_begin(&world, *state);
	raw_listen(&world, world.address, &listener, &far);
	raw_dial(&world, tfc__listener_address(listener.listener), &near);
	AWAIT(&world, far.pipe);
	tfc__pipe_want(near.pipe, TFC_PIPE_EVENT_READABLE);
	tfc__pipe_want(far.pipe, 0);
	raw_write(&near, "x", 1);
	world_settle(&world);
	far.reported = 0;
	tfc__pipe_want(far.pipe, TFC_PIPE_EVENT_READABLE);
	if (world.kind->scheme[0] == 't' || world.kind->scheme[0] == 'u')
		AWAIT(&world, far.reported & TFC_PIPE_EVENT_READABLE);
	AWAIT(&world, raw_read(&far, &byte, 1) == 1);
	tfc__pipe_want(far.pipe, 0);
	raw_close(&near); /* a hang-up that nobody waits for costs no turns */
	world_settle(&world);
	tfc__pipe_want(far.pipe, TFC_PIPE_EVENT_READABLE);
	AWAIT(&world, raw_read(&far, &byte, 1) < 0);
	raw_close(&far);
	tfc__listener_close(listener.listener);
	world_end(&world);
}

/* A channel keeps what the other end does not read, says how much, and makes little of it ready. */
static void a_backlog_is_reported(void **state)
{
	struct world world;
	struct raw_listener listener;
	struct raw far;
	struct end near = {0};
	uint64_t seen = 0;
	static uint8_t bytes[100000];
	world_begin(&world, *state);
	raw_listen(&world, world.address, &listener, &far);
	end_dial(&world, tfc__listener_address(listener.listener), &near);
	AWAIT(&world, far.pipe);
	AWAIT(&world, raw_read(&far, bytes, 16) == 16); /* it is plain: its preamble back */
	raw_write(&far, bytes, 16);
	AWAIT(&world, near.is_up);
	uint8_t *message = pattern(0, 4u << 20);
	for (int i = 0; i < 4; i++)
		end_send(&near, message, 4u << 20);
	free(message);
	for (int i = 0; i < 20; i++)
		tfc_ctx_dispatch(world.ctx, 0);
	assert_true(tfc__channel_backlog(near.channel) > 4u << 20);
	while (seen < 4 * (4 + (4u << 20))) {
		int64_t count = raw_read(&far, bytes, sizeof(bytes));
		assert_true(count >= 0);
		seen += (uint64_t)count;
		if (!count)
			world_turn(&world);
	}
	AWAIT(&world, tfc__channel_backlog(near.channel) == 0);
	raw_close(&far);
	AWAIT(&world, near.is_down);
	end_close(&near);
	tfc__listener_close(listener.listener);
	world_end(&world);
}

/* Answers each message with a large one. */
static void answer_at_length(struct end *end, const void *data, size_t len)
{
	(void)data;
	(void)len;
	uint8_t *answer = pattern(0, 1u << 20);
	end_send(end, answer, 1u << 20);
	free(answer);
}

/* A dialer that sends requests without reading is served again when it reads; nothing is lost. */
static void a_dialer_that_does_not_read_is_not_received(void **state)
{
	enum { QUESTIONS = 100 };
	struct world world;
	struct end far = {.on_message = answer_at_length};
	struct end_listener listener;
	struct raw near;
	uint64_t seen = 0;
	static uint8_t bytes[100000];
	char question[16 + 5 * QUESTIONS] = {(char)0x89, 'T', 'F', 'C', 1};
	char *at = question + 16;
	for (int i = 0; i < QUESTIONS; i++, at += 5)
		at[3] = 1;
	world_begin(&world, *state);
	end_listen(&world, world.address, &far, 1, &listener);
	raw_dial(&world, tfc__listener_address(listener.listener), &near);
	AWAIT(&world, near.reported & TFC_PIPE_EVENT_WRITABLE);
	raw_write(&near, question, sizeof(question));
	tfc__pipe_want(near.pipe, 0);
	AWAIT(&world, far.messages > 5);
	world_settle(&world);
	assert_in_range(far.messages, 6, 20);
	tfc__pipe_want(near.pipe, TFC_PIPE_EVENT_READABLE);
	while (seen < 16 + (uint64_t)QUESTIONS * (4 + (1u << 20))) {
		int64_t count = raw_read(&near, bytes, sizeof(bytes));
		assert_true(count >= 0);
		seen += (uint64_t)count;
		if (!count)
			world_turn(&world);
	}
	assert_int_equal(far.messages, QUESTIONS);
	raw_close(&near);
	AWAIT(&world, far.is_down);
	end_close(&far);
	tfc__listener_close(listener.listener);
	world_end(&world);
}

static bool is_kernel_socket(const struct transport_kind *kind)
{
	return strcmp(kind->scheme, "tcp") == 0 || strcmp(kind->scheme, "unix") == 0;
}

static bool is_plain(const struct transport_kind *kind)
{
	return !kind->is_noise;
}

int main(void)
{
	const struct transport_test tests[] = {
		{"messages keep their order", messages_keep_their_order, NULL},
		{"messages of every length come whole", messages_of_every_length_come_whole, NULL},
		{"a message over the maximum ends the channel",
		 a_message_over_the_maximum_ends_the_channel, NULL},
		{"each end may close at each stage", each_end_may_close_at_each_stage, NULL},
		{"what was sent before a close arrives, or the end does",
		 what_was_sent_before_a_close_arrives_or_the_end_does, NULL},
		{"a failed write does not hide the last message",
		 a_failed_write_does_not_hide_the_last_message, is_kernel_socket},
		{"a slow reader stops the writer", a_slow_reader_stops_the_writer, is_plain},
		{"a reader may look away", a_reader_may_look_away, is_plain},
		{"a backlog is reported", a_backlog_is_reported, is_plain},
		{"a dialer that does not read is not received",
		 a_dialer_that_does_not_read_is_not_received, is_plain},
	};
	return transport_run("transport_bytes", tests, sizeof(tests) / sizeof(*tests));
}
