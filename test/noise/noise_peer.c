/*
 * One end of a Noise session over its standard input and output, for noise_test.py.
 *
 *     noise_peer initiator|responder PSK STATIC PROLOGUE      (hex; a prologue may be empty)
 *
 * Every message has two bytes of length, the higher first. After the handshake, whose payloads are
 * "hello", it sends the handshake hash and the other end's public key, sealed, then answers each
 * message with its bytes in reverse, until its input ends. A failure is printed, status 3.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/noise.h"

static void fail(int code)
{
	fprintf(stderr, "%s\n", tfc_err_name(code));
	exit(3);
}

static void check(int code)
{
	if (code < 0)
		fail(code);
}

/* Ends the program at the end of the input. */
static size_t get(uint8_t message[TFC__NOISE_MESSAGE_MAX])
{
	uint8_t head[2];
	size_t n = fread(head, 1, sizeof(head), stdin);
	if (n == 0)
		exit(0);
	size_t len = (size_t)(head[0] << 8 | head[1]);
	if (n != sizeof(head) || fread(message, 1, len, stdin) != len)
		fail(TFC_ELOST);
	return len;
}

static void put(const void *message, size_t len)
{
	const uint8_t head[2] = {(uint8_t)(len >> 8), (uint8_t)len};
	fwrite(head, 1, sizeof(head), stdout);
	fwrite(message, 1, len, stdout);
	if (fflush(stdout) != 0)
		fail(TFC_ELOST);
}

static size_t unhex(const char *hex, uint8_t *bytes, size_t size)
{
	size_t len = 0;
	if (sodium_hex2bin(bytes, size, hex, strlen(hex), NULL, &len, NULL) != 0)
		fail(TFC_EINVAL);
	return len;
}

static struct tfc__noise *open_end(char **argv)
{
	static uint8_t psk[32], secret[32], prologue[256];
	struct tfc__noise *noise = NULL;
	unhex(argv[2], psk, sizeof(psk));
	unhex(argv[3], secret, sizeof(secret));
	const struct tfc__noise_options options = {
		.is_initiator = strcmp(argv[1], "initiator") == 0,
		.static_secret = secret,
		.psk = psk,
		.prologue = prologue,
		.prologue_len = unhex(argv[4], prologue, sizeof(prologue)),
	};
	check(tfc__noise_new(&options, NULL, &noise));
	return noise;
}

static void shake_hands(struct tfc__noise *noise)
{
	static uint8_t message[TFC__NOISE_MESSAGE_MAX];
	while (!tfc__noise_is_done(noise)) {
		struct tfc__buf buf = {0};
		if (tfc__noise_is_writing(noise)) {
			check(tfc__noise_write(noise, "hello", 5, &buf));
			put(buf.data, buf.len);
		} else {
			check(tfc__noise_read(noise, message, get(message), &buf));
			if (buf.len != 5 || memcmp(buf.data, "hello", 5) != 0)
				fail(TFC_EPARSE);
		}
		tfc__buf_fini(&buf);
	}
}

static void put_sealed(struct tfc__noise_cipher *cipher, uint8_t *message, size_t len)
{
	check(tfc__noise_seal(cipher, message, len, message));
	put(message, len + TFC__NOISE_TAG);
}

static void answer(struct tfc__noise_cipher *sending, struct tfc__noise_cipher *receiving)
{
	static uint8_t message[TFC__NOISE_MESSAGE_MAX];
	size_t len = get(message);
	check(tfc__noise_open(receiving, message, len, message));
	len -= TFC__NOISE_TAG;
	for (size_t i = 0; i < len / 2; i++) {
		uint8_t byte = message[i];
		message[i] = message[len - 1 - i];
		message[len - 1 - i] = byte;
	}
	put_sealed(sending, message, len);
}

int main(int argc, char **argv)
{
	struct tfc__noise_cipher sending, receiving;
	uint8_t proof[64 + TFC__NOISE_TAG];
	if (argc != 5)
		fail(TFC_EINVAL);
	struct tfc__noise *noise = open_end(argv);
	shake_hands(noise);
	check(tfc__noise_split(noise, &sending, &receiving));
	memcpy(proof, tfc__noise_hash(noise), 32);
	memcpy(proof + 32, tfc__noise_remote(noise), 32);
	put_sealed(&sending, proof, 64);
	for (;;)
		answer(&sending, &receiving);
}
