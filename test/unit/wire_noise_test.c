/* wire: Noise_XXpsk0 as its public vectors have it, and nothing else gets through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <sodium.h>

#include "wire/noise.h"

/* ---- public vectors */

static size_t unhex(const json_t *object, const char *key, uint8_t *bytes, size_t size)
{
	size_t len = 0;
	const char *hex = json_string_value(json_object_get(object, key));
	assert_non_null(hex);
	assert_int_equal(sodium_hex2bin(bytes, size, hex, strlen(hex), NULL, &len, NULL), 0);
	return len;
}

static struct tfc__noise *vector_end(const json_t *vector, bool is_initiator)
{
	uint8_t psk[32], s[32], e[32], prologue[64];
	struct tfc__noise *noise = NULL;
	assert_int_equal(unhex(vector, "psk", psk, 32), 32);
	unhex(vector, is_initiator ? "init_static" : "resp_static", s, 32);
	unhex(vector, is_initiator ? "init_ephemeral" : "resp_ephemeral", e, 32);
	const struct tfc__noise_options options = {
		.is_initiator = is_initiator,
		.static_secret = s,
		.psk = psk,
		.prologue = prologue,
		.prologue_len = unhex(vector, "prologue", prologue, sizeof(prologue)),
		.ephemeral_secret = e,
	};
	assert_int_equal(tfc__noise_new(&options, NULL, &noise), TFC_OK);
	return noise;
}

/* One handshake message, written as the vector has it and read. */
static void pass(struct tfc__noise *from, struct tfc__noise *to, const json_t *message)
{
	uint8_t payload[64], sealed[256];
	size_t len = unhex(message, "payload", payload, sizeof(payload));
	size_t sealed_len = unhex(message, "ciphertext", sealed, sizeof(sealed));
	struct tfc__buf out = {0}, back = {0};
	assert_true(tfc__noise_is_writing(from));
	assert_false(tfc__noise_is_writing(to));
	assert_int_equal(tfc__noise_write(from, payload, len, &out), TFC_OK);
	assert_int_equal(out.len, sealed_len);
	assert_memory_equal(out.data, sealed, sealed_len);
	assert_int_equal(tfc__noise_read(to, out.data, out.len, &back), TFC_OK);
	assert_int_equal(back.len, len);
	if (len)
		assert_memory_equal(back.data, payload, len);
	tfc__buf_fini(&out);
	tfc__buf_fini(&back);
}

static void pass_sealed(struct tfc__noise_cipher *from, struct tfc__noise_cipher *to,
			const json_t *message)
{
	uint8_t payload[64], sealed[64], buffer[64];
	size_t len = unhex(message, "payload", payload, sizeof(payload));
	size_t sealed_len = unhex(message, "ciphertext", sealed, sizeof(sealed));
	assert_int_equal(sealed_len, len + TFC__NOISE_TAG);
	memcpy(buffer, payload, len);
	assert_int_equal(tfc__noise_seal(from, buffer, len, buffer), TFC_OK);
	assert_memory_equal(buffer, sealed, sealed_len);
	assert_int_equal(tfc__noise_open(to, buffer, sealed_len, buffer), TFC_OK);
	assert_memory_equal(buffer, payload, len);
}

static void replay_vector(const json_t *vector)
{
	struct tfc__noise *i = vector_end(vector, true), *r = vector_end(vector, false);
	struct tfc__noise_cipher i_send, i_receive, r_send, r_receive;
	uint8_t s[32], public[32];
	const json_t *messages = json_object_get(vector, "messages");
	for (size_t n = 0; n < 3; n++)
		pass(n == 1 ? r : i, n == 1 ? i : r, json_array_get(messages, n));
	assert_true(tfc__noise_is_done(i) && tfc__noise_is_done(r));
	assert_memory_equal(tfc__noise_hash(i), tfc__noise_hash(r), 32);
	unhex(vector, "init_static", s, 32);
	crypto_scalarmult_base(public, s);
	assert_memory_equal(tfc__noise_remote(r), public, 32);
	assert_int_equal(tfc__noise_split(i, &i_send, &i_receive), TFC_OK);
	assert_int_equal(tfc__noise_split(r, &r_send, &r_receive), TFC_OK);
	pass_sealed(&i_send, &r_receive, json_array_get(messages, 3));
	pass_sealed(&r_send, &i_receive, json_array_get(messages, 4));
	tfc__noise_free(i);
	tfc__noise_free(r);
}

static void the_public_vectors_come_out(void **state)
{
	char path[1024];
	snprintf(path, sizeof(path), "%s/test/unit/noise_vectors.json", getenv("TFC_SOURCE_ROOT"));
	json_t *file = json_load_file(path, 0, NULL);
	const json_t *vectors = json_object_get(file, "vectors"), *vector;
	size_t i;
	assert_int_equal(json_array_size(vectors), 4);
	json_array_foreach(vectors, i, vector) replay_vector(vector);
	json_decref(file);
}

/* ---- two ends with keys of the test's choice */

struct session {
	struct tfc__noise *ends[2]; /* initiator, responder */
	uint8_t psk[2][32];
	const char *prologue[2];
};

static void open_session(struct session *session)
{
	for (int i = 0; i < 2; i++) {
		uint8_t secret[32];
		memset(secret, 'a' + i, sizeof(secret));
		const struct tfc__noise_options options = {
			.is_initiator = i == 0,
			.static_secret = secret,
			.psk = session->psk[i],
			.prologue = session->prologue[i],
			.prologue_len = session->prologue[i] ? strlen(session->prologue[i]) : 0,
		};
		assert_int_equal(tfc__noise_new(&options, NULL, &session->ends[i]), TFC_OK);
	}
}

static void close_session(struct session *session)
{
	tfc__noise_free(session->ends[0]);
	tfc__noise_free(session->ends[1]);
}

static struct tfc__noise *writer(struct session *session, int message)
{
	return session->ends[message % 2];
}

static struct tfc__noise *reader(struct session *session, int message)
{
	return session->ends[!(message % 2)];
}

/* Writes messages up to `last`, and has all before it read. The caller frees the bytes. */
static struct tfc__buf written(struct session *session, int last)
{
	struct tfc__buf out = {0}, payload = {0};
	for (int i = 0; i <= last; i++) {
		tfc__buf_clear(&out);
		assert_int_equal(tfc__noise_write(writer(session, i), "hi", 2, &out), TFC_OK);
		if (i < last)
			assert_int_equal(tfc__noise_read(reader(session, i), out.data, out.len,
							 &payload),
					 TFC_OK);
	}
	tfc__buf_fini(&payload);
	return out;
}

/* The message is refused, leaves no payload and no key, and ends the handshake. */
static void refused(struct session *session, int message, const void *data, size_t len, int code)
{
	struct tfc__noise *end = reader(session, message);
	struct tfc__buf payload = {0};
	uint8_t *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, data, len);
	assert_int_equal(tfc__noise_read(end, copy, len, &payload), code);
	assert_int_equal(payload.len, 0);
	assert_int_equal(tfc__noise_read(end, copy, len, &payload), TFC_ESTATE);
	assert_int_equal(tfc__noise_write(end, NULL, 0, &payload), TFC_ESTATE);
	assert_false(tfc__noise_is_done(end));
	assert_null(tfc__noise_hash(end));
	if (message != 2) /* the initiator's was right */
		assert_null(tfc__noise_remote(end));
	tfc__buf_fini(&payload);
	free(copy);
}

static void a_flipped_bit_anywhere_is_refused(void **state)
{
	for (int message = 0; message < 3; message++) {
		size_t len = 1;
		for (size_t at = 0; at < len; at++) {
			struct session session = {0};
			open_session(&session);
			struct tfc__buf out = written(&session, message);
			len = out.len;
			out.data[at] ^= (char)(1 << at % 8);
			refused(&session, message, out.data, out.len, TFC_EACCES);
			tfc__buf_fini(&out);
			close_session(&session);
		}
		assert_true(len > 48);
	}
}

static void every_other_length_is_refused(void **state)
{
	static const size_t shortest[] = {TFC__NOISE_FIRST, TFC__NOISE_SECOND, TFC__NOISE_THIRD};
	for (int message = 0; message < 3; message++) {
		size_t len = 1;
		for (size_t cut = 0; cut < len; cut++) {
			struct session session = {0};
			open_session(&session);
			struct tfc__buf out = written(&session, message);
			len = out.len;
			refused(&session, message, out.data, cut,
				cut < shortest[message] ? TFC_EPARSE : TFC_EACCES);
			tfc__buf_fini(&out);
			close_session(&session);
		}
		assert_int_equal(len, shortest[message] + 2);
	}
}

static void another_key_or_prologue_is_refused(void **state)
{
	struct session keys = {.psk = {{1}, {2}}};
	struct session prologues = {.prologue = {"tfcluster 1", "tfcluster 2"}};
	struct session *const sessions[] = {&keys, &prologues};
	for (int i = 0; i < 2; i++) {
		open_session(sessions[i]);
		struct tfc__buf out = written(sessions[i], 0);
		refused(sessions[i], 0, out.data, out.len, TFC_EACCES);
		tfc__buf_fini(&out);
		close_session(sessions[i]);
	}
}

/* Each message is of its own session and step alone. */
static void what_is_replayed_or_reflected_is_refused(void **state)
{
	struct session old = {0}, reflected = {0}, replayed = {0}, first = {0};
	open_session(&old);
	struct tfc__buf answer = written(&old, 1);
	open_session(&replayed);
	struct tfc__buf own = written(&replayed, 0);
	refused(&replayed, 1, answer.data, answer.len, TFC_EACCES);
	open_session(&reflected);
	struct tfc__buf out = written(&reflected, 0);
	refused(&reflected, 1, out.data, out.len, TFC_EPARSE); /* back to its sender */
	open_session(&first);
	struct tfc__buf third = written(&first, 2);
	refused(&first, 2, answer.data, answer.len, TFC_EACCES);
	tfc__buf_fini(&answer);
	tfc__buf_fini(&own);
	tfc__buf_fini(&out);
	tfc__buf_fini(&third);
	close_session(&old);
	close_session(&replayed);
	close_session(&reflected);
	close_session(&first);
}

/* A key of low order would make the shared secret known: zero, and the order-8 point. */
static void keys_of_low_order_are_refused(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct session session = {0};
		struct tfc__buf payload = {0};
		uint8_t message[TFC__NOISE_SECOND] = {0};
		message[0] = (uint8_t)i;
		open_session(&session);
		struct tfc__buf out = written(&session, 0);
		assert_int_equal(tfc__noise_read(session.ends[1], out.data, out.len, &payload),
				 TFC_OK);
		refused(&session, 1, message, sizeof(message), TFC_EACCES);
		tfc__buf_fini(&out);
		tfc__buf_fini(&payload);
		close_session(&session);
	}
}

static void messages_come_in_turn(void **state)
{
	struct session session = {0};
	struct tfc__buf out = {0};
	struct tfc__noise_cipher a, b;
	open_session(&session);
	assert_int_equal(tfc__noise_write(session.ends[1], NULL, 0, &out), TFC_ESTATE);
	assert_int_equal(tfc__noise_read(session.ends[0], "x", 1, &out), TFC_ESTATE);
	assert_int_equal(tfc__noise_split(session.ends[0], &a, &b), TFC_ESTATE);
	assert_null(tfc__noise_remote(session.ends[0]));
	assert_int_equal(out.len, 0);
	tfc__buf_fini(&out);
	close_session(&session);
}

/* The two largest messages that there may be, and one more. */
static void the_size_has_a_top(void **state)
{
	static uint8_t large[TFC__NOISE_MESSAGE_MAX + 1];
	struct tfc__noise_cipher cipher = {0}, other = {0};
	struct session session = {0};
	struct tfc__buf out = {0}, payload = {0};
	open_session(&session);
	assert_int_equal(tfc__noise_write(session.ends[0], large, 65535 - 47, &out), TFC_ETOOBIG);
	assert_int_equal(tfc__noise_write(session.ends[0], large, 65535 - 48, &out), TFC_OK);
	assert_int_equal(out.len, 65535);
	assert_int_equal(tfc__noise_read(session.ends[1], out.data, out.len, &payload), TFC_OK);
	assert_int_equal(payload.len, 65535 - 48);
	assert_int_equal(tfc__noise_seal(&cipher, large, 65535 - 15, large), TFC_ETOOBIG);
	assert_int_equal(tfc__noise_seal(&cipher, large, 65535 - 16, large), TFC_OK);
	assert_int_equal(tfc__noise_open(&other, large, 65535, large), TFC_OK);
	assert_int_equal(tfc__noise_open(&other, large, 65536, large), TFC_EACCES);
	tfc__buf_fini(&out);
	tfc__buf_fini(&payload);
	close_session(&session);
}

/* ---- the ciphers */

static void sealed_messages_open_once_and_in_order(void **state)
{
	struct tfc__noise_cipher send = {.key = {1}}, receive = {.key = {1}};
	uint8_t one[18], two[18], plain[2];
	assert_int_equal(tfc__noise_seal(&send, "ab", 2, one), TFC_OK);
	assert_int_equal(tfc__noise_seal(&send, "cd", 2, two), TFC_OK);
	assert_int_equal(tfc__noise_open(&receive, one, 18, plain), TFC_OK);
	assert_memory_equal(plain, "ab", 2);
	assert_int_equal(tfc__noise_open(&receive, one, 18, plain), TFC_EACCES); /* again */
	assert_int_equal(tfc__noise_open(&receive, two, 18, plain), TFC_ESTATE); /* too late */
	struct tfc__noise_cipher skipping = {.key = {1}};
	assert_int_equal(tfc__noise_open(&skipping, two, 18, plain), TFC_EACCES);
	struct tfc__noise_cipher cut = {.key = {1}};
	assert_int_equal(tfc__noise_open(&cut, one, 15, plain), TFC_EACCES);
}

static void used_up_nonces_are_refused(void **state)
{
	struct tfc__noise_cipher send = {.nonce = UINT64_MAX - 1}, receive = send;
	uint8_t sealed[18], plain[2];
	assert_int_equal(tfc__noise_seal(&send, "ab", 2, sealed), TFC_OK);
	assert_int_equal(tfc__noise_seal(&send, "ab", 2, sealed), TFC_ESTATE);
	assert_int_equal(tfc__noise_open(&receive, sealed, 18, plain), TFC_OK);
	assert_int_equal(tfc__noise_open(&receive, sealed, 18, plain), TFC_ESTATE);
	tfc__noise_cipher_fini(&send);
	assert_int_equal(send.nonce, 0);
}

static void two_sessions_share_nothing(void **state)
{
	struct session one = {0}, two = {0};
	open_session(&one);
	open_session(&two);
	struct tfc__buf a = written(&one, 0), b = written(&two, 0);
	assert_memory_not_equal(a.data, b.data, 32); /* fresh ephemeral keys */
	tfc__buf_fini(&a);
	tfc__buf_fini(&b);
	close_session(&one);
	close_session(&two);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_public_vectors_come_out),
		cmocka_unit_test(a_flipped_bit_anywhere_is_refused),
		cmocka_unit_test(every_other_length_is_refused),
		cmocka_unit_test(another_key_or_prologue_is_refused),
		cmocka_unit_test(what_is_replayed_or_reflected_is_refused),
		cmocka_unit_test(keys_of_low_order_are_refused),
		cmocka_unit_test(messages_come_in_turn),
		cmocka_unit_test(the_size_has_a_top),
		cmocka_unit_test(sealed_messages_open_once_and_in_order),
		cmocka_unit_test(used_up_nonces_are_refused),
		cmocka_unit_test(two_sessions_share_nothing),
	};
	return cmocka_run_group_tests_name("wire noise", tests, NULL, NULL);
}
