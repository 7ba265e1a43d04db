/*
 * transport: somebody between the two ends who changes, cuts, repeats and turns around what goes
 * over. Whatever he does, nothing is delivered that was not sent, and nobody is up who has not seen
 * the whole handshake of the other.
 */
#include "transports.h"

#include <stdio.h>
#include <string.h>

#define FRONT "memory:front"
#define BACK "memory:back"

/* What a session takes (doc/internals/wire-format.md). */
enum {
	FIRST = 16 + 4 + 48,  /* dialer: preamble, first message */
	THIRD = 4 + 64,       /* dialer: third message */
	SECOND = 4 + 96,      /* acceptor: second message */
	WELCOME = 4 + 16,     /* acceptor */
	RECORD = 4 + 16 + 11, /* a record with "a message, " in it */
	FROM_DIALER = FIRST + THIRD + RECORD,
	FROM_ACCEPTOR = SECOND + WELCOME + RECORD,
};

#define TEXT "a message, "
#define TEXT_LEN 11

/* A direction: what went through so far, and what is to be done to it. */
struct way {
	uint8_t bytes[2048];
	size_t len;
	size_t flip_at; /* of the byte to be changed; SIZE_MAX: none */
	uint8_t flip;
	size_t cut_at; /* no byte from here on; SIZE_MAX: all */
	bool is_cut;
};

struct middle {
	struct world world;
	struct raw_listener front_listener;
	struct raw front, back; /* to the dialer, to the acceptor */
	struct end_listener back_listener;
	struct end near, far; /* dialer, acceptor */
	struct way there, back_again;
};

static const struct way open_way = {.flip_at = SIZE_MAX, .cut_at = SIZE_MAX};

static void begin(struct middle *middle, const struct transport_kind *kind)
{
	memset(middle, 0, sizeof(*middle));
	middle->there = middle->back_again = open_way;
	world_begin(&middle->world, kind);
	raw_listen(&middle->world, FRONT, &middle->front_listener, &middle->front);
	end_listen(&middle->world, BACK, &middle->far, 1, &middle->back_listener);
}

/* The next session in the same world. */
static void begin_session(struct middle *middle)
{
	middle->near = middle->far = (struct end){0};
	middle->back_listener.next = 0;
	middle->there = middle->back_again = open_way;
	end_dial(&middle->world, FRONT, &middle->near);
	AWAIT(&middle->world, middle->front.pipe);
	raw_dial(&middle->world, BACK, &middle->back);
}

static void end_session(struct middle *middle)
{
	end_close(&middle->near);
	end_close(&middle->far);
	raw_close(&middle->front);
	raw_close(&middle->back);
	world_settle(&middle->world);
}

static void end(struct middle *middle)
{
	tfc__listener_close(middle->front_listener.listener);
	tfc__listener_close(middle->back_listener.listener);
	world_end(&middle->world);
}

/* Changes and cuts what has just come; returns how much of it goes on. */
static size_t treat(struct way *way, size_t from)
{
	if (way->flip_at >= from && way->flip_at < way->len)
		way->bytes[way->flip_at] ^= way->flip;
	if (way->len < way->cut_at)
		return way->len - from;
	way->is_cut = true;
	return way->cut_at > from ? way->cut_at - from : 0;
}

/* Returns whether something moved. */
static bool relay(struct way *way, struct raw *from, struct raw *to)
{
	if (!from->pipe || !to->pipe || way->is_cut)
		return false;
	size_t at = way->len;
	int64_t count = raw_read(from, way->bytes + at, sizeof(way->bytes) - at);
	if (count < 0) {
		raw_close(from);
		raw_close(to);
		return true;
	}
	way->len += (size_t)count;
	size_t len = treat(way, at);
	tfc_error error = TFC_ERROR_INIT;
	if (len && tfc__pipe_write(to->pipe, way->bytes + at, len, &error) < 0)
		raw_close(to);
	if (way->is_cut) {
		raw_close(from);
		raw_close(to);
	}
	return count > 0;
}

/* Until nothing moves any more. Both ends send a message once they are up. */
static void run(struct middle *middle)
{
	bool has_sent[2] = {false, false};
	for (bool has_moved = true; has_moved;) {
		world_settle(&middle->world);
		has_moved = relay(&middle->there, &middle->front, &middle->back);
		has_moved = relay(&middle->back_again, &middle->back, &middle->front) || has_moved;
		struct end *ends[] = {&middle->near, &middle->far};
		for (int i = 0; i < 2; i++) {
			if (!ends[i]->is_up || ends[i]->is_down || has_sent[i])
				continue;
			has_sent[i] = has_moved = true;
			end_send(ends[i], TEXT, TEXT_LEN);
		}
	}
}

static void check_message(const struct end *end, uint32_t most)
{
	assert_true(end->messages <= most);
	if (!end->messages)
		return;
	assert_int_equal(end->last.len, TEXT_LEN);
	assert_memory_equal(end->last.data, TEXT, TEXT_LEN);
}

static void a_session_through_the_middle_works(void **state)
{
	struct middle middle;
	begin(&middle, *state);
	begin_session(&middle);
	run(&middle);
	assert_true(middle.near.is_up && middle.far.is_up);
	assert_int_equal(middle.near.messages, 1);
	assert_int_equal(middle.far.messages, 1);
	check_message(&middle.near, 1);
	check_message(&middle.far, 1);
	assert_int_equal(middle.there.len, FROM_DIALER);
	assert_int_equal(middle.back_again.len, FROM_ACCEPTOR);
	assert_null(memmem(middle.there.bytes, middle.there.len, TEXT, TEXT_LEN));
	end_session(&middle);
	end(&middle);
}

/* ---- one bit */

static void flip_from_dialer(struct middle *middle, size_t at, uint8_t bit)
{
	begin_session(middle);
	middle->there.flip_at = at;
	middle->there.flip = bit;
	run(middle);
	assert_int_equal(middle->far.messages, 0);
	if (at < FIRST + THIRD)
		assert_false(middle->far.is_up);
	if (at < FIRST && middle->far.is_down &&
	    middle->back_again.len) { /* no more than a refusal */
		assert_int_equal(middle->back_again.len, 16);
		assert_memory_equal(middle->back_again.bytes, "\x89TFC\x01", 5);
		assert_int_equal(middle->back_again.bytes[5], at == 4 ? 0 : 2);
	}
	check_message(&middle->near, 1);
	end_session(middle);
}

static void flip_from_acceptor(struct middle *middle, size_t at, uint8_t bit)
{
	begin_session(middle);
	middle->back_again.flip_at = at;
	middle->back_again.flip = bit;
	run(middle);
	assert_int_equal(middle->near.messages, 0);
	if (at < SECOND + WELCOME)
		assert_false(middle->near.is_up);
	if (at < SECOND)
		assert_false(middle->far.is_up);
	check_message(&middle->far, 1);
	end_session(middle);
}

static void a_changed_bit_anywhere_is_refused(void **state)
{
	struct middle middle;
	begin(&middle, *state);
	for (int bit = 0; bit < 8; bit++) {
		for (size_t at = 0; at < FROM_DIALER; at++)
			flip_from_dialer(&middle, at, (uint8_t)(1 << bit));
		for (size_t at = 0; at < FROM_ACCEPTOR; at++)
			flip_from_acceptor(&middle, at, (uint8_t)(1 << bit));
	}
	end(&middle);
}

/* ---- an end too early */

static void a_cut_at_any_length_delivers_nothing(void **state)
{
	struct middle middle;
	begin(&middle, *state);
	for (size_t at = 0; at < FROM_DIALER; at++) {
		begin_session(&middle);
		middle.there.cut_at = at;
		run(&middle);
		assert_int_equal(middle.far.messages, 0);
		assert_true(at >= FIRST + THIRD || !middle.far.is_up);
		assert_true(middle.far.is_down && middle.near.is_down);
		end_session(&middle);
	}
	for (size_t at = 0; at < FROM_ACCEPTOR; at++) {
		begin_session(&middle);
		middle.back_again.cut_at = at;
		run(&middle);
		assert_int_equal(middle.near.messages, 0);
		assert_true(at >= SECOND + WELCOME || !middle.near.is_up);
		assert_true(middle.far.is_down && middle.near.is_down);
		end_session(&middle);
	}
	end(&middle);
}

/* ---- what was recorded before */

/* Sends the first bytes of a dialer with one bit changed; returns what the acceptor sends. */
static size_t first_message_answer(struct middle *middle, size_t flip_at, uint8_t answer[64])
{
	uint8_t bytes[FIRST];
	tfc_error error = TFC_ERROR_INIT;
	struct raw dialer = {0};
	memcpy(bytes, middle->there.bytes, FIRST);
	bytes[flip_at] ^= 1;
	middle->far = (struct end){0};
	middle->back_listener.next = 0;
	raw_dial(&middle->world, BACK, &dialer);
	assert_int_equal(tfc__pipe_write(dialer.pipe, bytes, FIRST - 1, &error), FIRST - 1);
	world_settle(&middle->world);
	assert_int_equal(raw_read(&dialer, answer, 64), 0);
	assert_int_equal(tfc__pipe_write(dialer.pipe, bytes + FIRST - 1, 1, &error), 1);
	world_settle(&middle->world);
	int64_t len = raw_read(&dialer, answer, 64);
	assert_true(len > 0);
	assert_false(middle->far.is_up);
	raw_close(&dialer);
	end_close(&middle->far);
	world_settle(&middle->world);
	return (size_t)len;
}

/* Otherwise a dialer without a key learns which key ids the acceptor has. */
static void an_unknown_key_id_is_refused_as_a_wrong_key_is(void **state)
{
	enum { KEY_ID = 8, MESSAGE = 16 + 4 };
	struct middle middle;
	uint8_t unknown[64], wrong[64];
	begin(&middle, *state);
	begin_session(&middle);
	run(&middle);
	end_session(&middle);
	size_t len = first_message_answer(&middle, KEY_ID, unknown);
	assert_int_equal(first_message_answer(&middle, MESSAGE, wrong), len);
	assert_memory_equal(unknown, wrong, len);
	end(&middle);
}

static void a_session_received_before_is_refused(void **state)
{
	struct middle middle;
	struct raw again;
	begin(&middle, *state);
	begin_session(&middle);
	run(&middle);
	assert_int_equal(middle.far.messages, 1);
	struct way received = middle.there;
	end_session(&middle);

	middle.back_listener.next = 0;
	middle.far = (struct end){0};
	raw_dial(&middle.world, BACK, &again);
	raw_write(&again, received.bytes, received.len);
	world_settle(&middle.world);
	assert_true(middle.far.is_down);
	assert_false(middle.far.is_up);
	assert_int_equal(middle.far.messages, 0);
	assert_int_equal(middle.far.why.code, TFC_EACCES);
	raw_close(&again);
	end_close(&middle.far);
	end(&middle);
}

/* In the same session: the last record again, or two of them in the wrong order. */
static void a_message_received_before_is_refused(void **state)
{
	struct middle middle;
	begin(&middle, *state);
	begin_session(&middle);
	run(&middle);
	assert_int_equal(middle.far.messages, 1);
	raw_write(&middle.back, middle.there.bytes + FIRST + THIRD, RECORD);
	world_settle(&middle.world);
	assert_true(middle.far.is_down);
	assert_int_equal(middle.far.messages, 1);
	end_session(&middle);
	end(&middle);
}

static void messages_in_another_order_are_refused(void **state)
{
	struct middle middle;
	uint8_t records[2 * RECORD];
	begin(&middle, *state);
	begin_session(&middle);
	run(&middle);
	end_send(&middle.near, "first, one ", TEXT_LEN);
	end_send(&middle.near, "second one ", TEXT_LEN);
	world_settle(&middle.world);
	assert_int_equal(raw_read(&middle.front, records, sizeof(records)), sizeof(records));
	raw_write(&middle.back, records + RECORD, RECORD);
	raw_write(&middle.back, records, RECORD);
	world_settle(&middle.world);
	assert_true(middle.far.is_down);
	assert_int_equal(middle.far.messages, 1);
	check_message(&middle.far, 1);
	end_session(&middle);
	end(&middle);
}

/* ---- turned around */

static void what_a_dialer_sent_is_no_response_to_it(void **state)
{
	struct middle middle;
	begin(&middle, *state);
	end_dial(&middle.world, FRONT, &middle.near);
	AWAIT(&middle.world, middle.front.pipe);
	for (int i = 0; i < 4 && middle.front.pipe; i++) {
		uint8_t bytes[512];
		tfc_error error = TFC_ERROR_INIT;
		world_settle(&middle.world);
		int64_t count = raw_read(&middle.front, bytes, sizeof(bytes));
		if (count > 0)
			tfc__pipe_write(middle.front.pipe, bytes, (size_t)count, &error);
	}
	world_settle(&middle.world);
	assert_false(middle.near.is_up);
	assert_true(middle.near.is_down);
	end_close(&middle.near);
	raw_close(&middle.front);
	end(&middle);
}

static void what_an_acceptor_sent_is_no_response_to_it(void **state)
{
	struct middle middle;
	begin(&middle, *state);
	begin_session(&middle);
	middle.back_again.cut_at = SIZE_MAX;
	world_settle(&middle.world);
	relay(&middle.there, &middle.front, &middle.back);
	world_settle(&middle.world);
	uint8_t bytes[512];
	assert_int_equal(raw_read(&middle.back, bytes, sizeof(bytes)), SECOND);
	raw_write(&middle.back, bytes, SECOND);
	world_settle(&middle.world);
	assert_false(middle.far.is_up);
	assert_true(middle.far.is_down);
	end_session(&middle);
	end(&middle);
}

/* Two dialers that are put through to each other. */
static void two_dialers_do_not_meet(void **state)
{
	struct world world;
	struct raw_listener listener;
	struct raw accepted[2];
	struct end ends[2] = {0};
	world_begin(&world, *state);
	raw_listen(&world, FRONT, &listener, &accepted[0]);
	end_dial(&world, FRONT, &ends[0]);
	AWAIT(&world, accepted[0].pipe);
	accepted[1] = (struct raw){0};
	listener.raw = &accepted[1];
	end_dial(&world, FRONT, &ends[1]);
	AWAIT(&world, accepted[1].pipe);
	struct way ways[2] = {open_way, open_way};
	for (int i = 0; i < 8; i++) {
		world_settle(&world);
		relay(&ways[0], &accepted[0], &accepted[1]);
		relay(&ways[1], &accepted[1], &accepted[0]);
	}
	for (int i = 0; i < 2; i++) {
		assert_false(ends[i].is_up);
		assert_true(ends[i].is_down);
		end_close(&ends[i]);
		raw_close(&accepted[i]);
	}
	tfc__listener_close(listener.listener);
	world_end(&world);
}

/* ---- noise that is none */

static void nonsense_gets_no_response(void **state)
{
	struct middle middle;
	struct raw stranger;
	uint32_t seed = 4711;
	begin(&middle, *state);
	for (int i = 0; i < 300; i++) {
		uint8_t bytes[300], answer[64];
		size_t len = (size_t)i % sizeof(bytes);
		for (size_t at = 0; at < len; at++)
			bytes[at] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
		if (i % 2 && len >= 16) { /* up to the key it looks right */
			memcpy(bytes, "\x89TFC\x01\x01\0\0", 8);
			memcpy(bytes + 8, tfc__keyring_first(middle.world.keyring, 0)->id, 8);
		}
		middle.far = (struct end){0};
		middle.back_listener.next = 0;
		raw_dial(&middle.world, BACK, &stranger);
		raw_write(&stranger, bytes, len);
		world_settle(&middle.world);
		int64_t count = raw_read(&stranger, answer, sizeof(answer));
		assert_true(count <= 0);
		assert_false(middle.far.is_up);
		raw_close(&stranger);
		world_settle(&middle.world);
		assert_true(middle.far.is_down);
		end_close(&middle.far);
	}
	end(&middle);
}

/* An end that is not authenticated is not read from beyond what the handshake needs. */
static void a_flood_before_the_key_is_not_read(void **state)
{
	struct middle middle;
	struct raw stranger;
	static uint8_t flood[200000];
	tfc_error error = TFC_ERROR_INIT;
	begin(&middle, *state);
	memcpy(flood, "\x89TFC\x01\x01\0\0", 8);
	memcpy(flood + 8, tfc__keyring_first(middle.world.keyring, 0)->id, 8);
	flood[16 + 3] = 129; /* a record longer than any of the handshake */
	raw_dial(&middle.world, BACK, &stranger);
	assert_true(tfc__pipe_write(stranger.pipe, flood, sizeof(flood), &error) > 100000);
	world_settle(&middle.world);
	assert_true(middle.far.is_down);
	assert_int_equal(middle.far.why.code, TFC_EPARSE);
	raw_close(&stranger);
	end_close(&middle.far);
	end(&middle);
}

static void another_version_is_named(void **state)
{
	struct middle middle;
	struct raw stranger;
	uint8_t preamble[16] = "\x89TFC\x02\x01\0\0", answer[64];
	begin(&middle, *state);
	raw_dial(&middle.world, BACK, &stranger);
	raw_write(&stranger, preamble, sizeof(preamble));
	world_settle(&middle.world);
	assert_int_equal(middle.far.why.code, TFC_ENOTSUP);
	assert_int_equal(raw_read(&stranger, answer, sizeof(answer)), 16);
	assert_memory_equal(answer, "\x89TFC\x01", 5);
	raw_close(&stranger);
	end_close(&middle.far);

	end_dial(&middle.world, FRONT, &middle.near);
	AWAIT(&middle.world, middle.front.pipe);
	raw_write(&middle.front, preamble, sizeof(preamble));
	world_settle(&middle.world);
	assert_true(middle.near.is_down);
	assert_int_equal(middle.near.why.code, TFC_ENOTSUP);
	assert_non_null(strstr(middle.near.why.text, "version 2"));
	end_close(&middle.near);
	raw_close(&middle.front);
	end(&middle);
}

/* The handshake is the same over every transport: here, where each turn is known. */
static bool is_memory_with_noise(const struct transport_kind *kind)
{
	return kind->is_noise && strcmp(kind->scheme, "memory") == 0;
}

int main(void)
{
#define IN_THE_MIDDLE(name)                       \
	{                                         \
#name, name, is_memory_with_noise \
	}
	const struct transport_test tests[] = {
		IN_THE_MIDDLE(a_session_through_the_middle_works),
		IN_THE_MIDDLE(a_changed_bit_anywhere_is_refused),
		IN_THE_MIDDLE(a_cut_at_any_length_delivers_nothing),
		IN_THE_MIDDLE(an_unknown_key_id_is_refused_as_a_wrong_key_is),
		IN_THE_MIDDLE(a_session_received_before_is_refused),
		IN_THE_MIDDLE(a_message_received_before_is_refused),
		IN_THE_MIDDLE(messages_in_another_order_are_refused),
		IN_THE_MIDDLE(what_a_dialer_sent_is_no_response_to_it),
		IN_THE_MIDDLE(what_an_acceptor_sent_is_no_response_to_it),
		IN_THE_MIDDLE(two_dialers_do_not_meet),
		IN_THE_MIDDLE(nonsense_gets_no_response),
		IN_THE_MIDDLE(a_flood_before_the_key_is_not_read),
		IN_THE_MIDDLE(another_version_is_named),
	};
	return transport_run("transport_hostile", tests, sizeof(tests) / sizeof(*tests));
}
