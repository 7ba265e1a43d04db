/*
 * Handshake and sealed messages, changed on the way by the input: which of the four, how many bytes
 * are cut off, then what is added to the bytes one by one. Only what was not changed is accepted.
 */
#include <string.h>

#include "fuzz.h"
#include "wire/noise.h"

enum { MESSAGES = 4 };

/* All keys are fixed, so that an input always does the same. */
static struct tfc__noise *new_end(bool is_initiator)
{
	static const uint8_t psk[32] = {1}, secrets[2][32] = {{2}, {3}},
			     ephemerals[2][32] = {{4}, {5}};
	struct tfc__noise *noise = NULL;
	const struct tfc__noise_options options = {
		.is_initiator = is_initiator,
		.static_secret = secrets[is_initiator],
		.psk = psk,
		.ephemeral_secret = ephemerals[is_initiator],
	};
	CHECK(tfc__noise_new(&options, NULL, &noise) == TFC_OK);
	return noise;
}

/* Whether anything was changed. */
static bool change(struct fuzz_input *input, struct tfc__buf *message)
{
	size_t cut = (size_t)fuzz_number(input, 1);
	bool is_changed = cut > 0;
	message->len -= cut < message->len ? cut : message->len;
	for (size_t i = 0; i < message->len && input->len; i++) {
		char delta = (char)fuzz_number(input, 1);
		is_changed |= delta != 0;
		message->data[i] ^= delta;
	}
	if (input->len) {
		tfc__buf_add(message, input->at, input->len);
		return true;
	}
	return is_changed;
}

static void pass(struct tfc__noise *from, struct tfc__noise *to, struct fuzz_input *input)
{
	struct tfc__buf message = {0}, payload = {0};
	CHECK(tfc__noise_write(from, "hello", 5, &message) == TFC_OK);
	bool is_changed = input && change(input, &message);
	int code = tfc__noise_read(to, message.data, message.len, &payload);
	if (is_changed) {
		CHECK(code == TFC_EACCES || code == TFC_EPARSE);
		CHECK(!payload.len && !tfc__noise_is_done(to) && !tfc__noise_is_writing(to));
	} else {
		CHECK(code == TFC_OK && payload.len == 5 && !memcmp(payload.data, "hello", 5));
	}
	tfc__buf_fini(&message);
	tfc__buf_fini(&payload);
}

static void pass_sealed(struct tfc__noise *from, struct tfc__noise *to, struct fuzz_input *input)
{
	struct tfc__noise_cipher sending, receiving, unused;
	struct tfc__buf message = {0};
	CHECK(tfc__noise_split(from, &sending, &unused) == TFC_OK);
	CHECK(tfc__noise_split(to, &unused, &receiving) == TFC_OK);
	char *sealed = tfc__buf_reserve(&message, 5 + TFC__NOISE_TAG);
	CHECK(sealed && tfc__noise_seal(&sending, "hello", 5, sealed) == TFC_OK);
	tfc__buf_grow(&message, 5 + TFC__NOISE_TAG);
	bool is_changed = change(input, &message);
	int code = tfc__noise_open(&receiving, message.data, message.len, message.data);
	CHECK(code == (is_changed ? TFC_EACCES : TFC_OK));
	CHECK(receiving.is_failed == is_changed);
	tfc__buf_fini(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = {data, size};
	unsigned which = (unsigned)fuzz_number(&input, 1) % MESSAGES;
	struct tfc__noise *ends[2] = {new_end(true), new_end(false)};
	for (unsigned i = 0; i <= which && i < MESSAGES - 1; i++)
		pass(ends[i % 2], ends[!(i % 2)], i == which ? &input : NULL);
	if (which == MESSAGES - 1)
		pass_sealed(ends[1], ends[0], &input);
	tfc__noise_free(ends[0]);
	tfc__noise_free(ends[1]);
	return 0;
}
