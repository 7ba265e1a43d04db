/* wire: sealed datagrams open once, at holders of the key, unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>
#include <unistd.h>

#include "leaks.h"
#include "wire/sealed.h"

static const uint8_t magic[] = {'T', 'F', 'G', 1}, other_magic[] = {'T', 'F', 'H', 1};
static const uint8_t id_a[TFC__SEALED_ID_SIZE] = "aaaaaaaaaaaaaaa";
static const uint8_t id_b[TFC__SEALED_ID_SIZE] = "bbbbbbbbbbbbbbb";

static char dir[LEAKS_PATH], old_key[LEAKS_PATH + 16], new_key[LEAKS_PATH + 16];
static char path[LEAKS_PATH + 16];
static struct tfc__keyring *rings[8];
static struct tfc__sealing *sealings[16];
static size_t ring_count, sealing_count;

static int make_keys(void **state)
{
	tfc_error error = TFC_ERROR_INIT;
	leaks_make_dir(dir);
	snprintf(old_key, sizeof(old_key), "%s/old", dir);
	snprintf(new_key, sizeof(new_key), "%s/new", dir);
	snprintf(path, sizeof(path), "%s/ring", dir);
	assert_int_equal(tfc__keyring_generate(old_key, TFC__KEY_NODE, &error), TFC_OK);
	assert_int_equal(tfc__keyring_generate(new_key, TFC__KEY_NODE, &error), TFC_OK);
	return 0;
}

static int remove_keys(void **state)
{
	unlink(old_key);
	unlink(new_key);
	unlink(path);
	return rmdir(dir);
}

static int free_all(void **state)
{
	while (sealing_count)
		tfc__sealing_free(sealings[--sealing_count]);
	while (ring_count)
		tfc__keyring_free(rings[--ring_count]);
	return 0;
}

/* The keyring of a file with the keys of both files, in this order; either may be NULL. */
static struct tfc__keyring *ring_of(const char *first, const char *second)
{
	tfc_error error = TFC_ERROR_INIT;
	char command[4 * LEAKS_PATH];
	snprintf(command, sizeof(command), "cat %s %s > %s; chmod 600 %s", first,
		 second ? second : "", path, path);
	assert_int_equal(system(command), 0);
	if (tfc__keyring_load(path, &error, &rings[ring_count]) < 0)
		fail_msg("%s", error.text);
	return rings[ring_count++];
}

static struct tfc__sealing *sealing_of(const struct tfc__keyring *ring, const uint8_t *id,
				       uint32_t generation)
{
	tfc_error error = TFC_ERROR_INIT;
	assert_int_equal(tfc__sealing_new(ring, magic, id, generation, &error,
					  &sealings[sealing_count]),
			 TFC_OK);
	return sealings[sealing_count++];
}

struct datagram {
	uint8_t bytes[TFC__SEALED_OVERHEAD + 100];
	size_t len;
};

static struct datagram seal(struct tfc__sealing *sealing, const char *text)
{
	struct datagram datagram = {.len = strlen(text) + TFC__SEALED_OVERHEAD};
	tfc__seal(sealing, text, strlen(text), datagram.bytes);
	return datagram;
}

static int open_datagram(struct tfc__sealing *sealing, const struct datagram *datagram)
{
	uint8_t text[sizeof(datagram->bytes)];
	struct tfc__sealed_sender sender;
	return tfc__unseal(sealing, datagram->bytes, datagram->len, text, &sender);
}

/* draft-irtf-cfrg-xchacha-03, appendix A.3.1 */
static void primitive_has_the_vector_of_the_draft(void **state)
{
	static const char plain[] =
		"Ladies and Gentlemen of the class of '99: If I could offer you "
		"only one tip for the future, sunscreen would be it.";
	static const char expected[] =
		"bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440b"
		"f3a82f4eda7e39ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3f"
		"ac2bc369488f76b2383565d3fff921f9664c97637da9768812f615c68b13b52ec0875924c1c7987947"
		"deafd8780acf49";
	static const uint8_t data[] = {0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1,
				       0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7};
	uint8_t key[32], nonce[24], sealed[sizeof(plain) - 1 + 16];
	char hex[2 * sizeof(sealed) + 1];
	for (int i = 0; i < 32; i++)
		key[i] = (uint8_t)(0x80 + i);
	for (int i = 0; i < 24; i++)
		nonce[i] = (uint8_t)(0x40 + i);
	crypto_aead_xchacha20poly1305_ietf_encrypt(sealed, NULL, (const uint8_t *)plain,
						   sizeof(plain) - 1, data, sizeof(data), NULL,
						   nonce, key);
	sodium_bin2hex(hex, sizeof(hex), sealed, sizeof(sealed));
	assert_string_equal(hex, expected);
}

/* The layout of sealed.h, opened with libsodium alone. */
static void bytes_are_as_documented(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	const struct tfc__key *key = tfc__keyring_first(ring, TFC__KEY_NODE);
	struct datagram first = seal(sealing_of(ring, id_a, 0x01020304), "hello");
	static const char label[] = "tfcluster sealed datagram 1TFG\1";
	uint8_t secret[32], plain[64];
	unsigned long long len;
	assert_memory_equal(first.bytes, magic, 4);
	assert_memory_equal(first.bytes + 4, key->id, 8);
	crypto_generichash(secret, 32, (const uint8_t *)label, sizeof(label) - 1, key->secret, 32);
	assert_memory_not_equal(secret, key->secret, 32);
	assert_int_equal(crypto_aead_xchacha20poly1305_ietf_decrypt(plain, &len, NULL,
								    first.bytes + 36,
								    first.len - 36, first.bytes, 36,
								    first.bytes + 12, secret),
			 0);
	assert_memory_equal(first.bytes + 20, "\1\2\3\4", 4);
	assert_memory_equal(first.bytes + 28, "\0\0\0\0\0\0\0\1", 8);
	assert_int_equal(len, 16 + 5);
	assert_memory_equal(plain, id_a, 16);
	assert_memory_equal(plain + 16, "hello", 5);
}

/* What a copy of the whole process would send again. */
static void nonce_of_one_number_differs_between_copies(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *a = sealing_of(ring, id_a, 1), *b = sealing_of(ring, id_a, 1);
	struct datagram first = seal(a, "x"), second = seal(b, "x");
	assert_memory_not_equal(first.bytes + 12, second.bytes + 12, 8); /* random */
	assert_memory_equal(first.bytes + 20, second.bytes + 20, 4);     /* generation */
	assert_memory_not_equal(first.bytes + 24, second.bytes + 24, 4); /* instance */
	assert_memory_equal(first.bytes + 28, second.bytes + 28, 8);     /* number */
	struct datagram next = seal(a, "x");
	assert_memory_not_equal(first.bytes + 12, next.bytes + 12, 8);
}

static void text_and_sender_arrive(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *a = sealing_of(ring, id_a, 7), *b = sealing_of(ring, id_b, 1);
	uint8_t text[200];
	struct tfc__sealed_sender sender;
	for (uint64_t number = 1; number <= 3; number++) {
		struct datagram one = seal(a, number == 2 ? "" : "text");
		assert_int_equal(tfc__unseal(b, one.bytes, one.len, text, &sender),
				 number == 2 ? 0 : 4);
		if (number != 2)
			assert_memory_equal(text, "text", 4);
		assert_memory_equal(sender.id, id_a, 16);
		assert_int_equal(sender.generation, 7);
		assert_int_equal(sender.number, number);
	}
}

static void any_flipped_bit_is_noticed(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *a = sealing_of(ring, id_a, 1), *b = sealing_of(ring, id_b, 1);
	struct datagram whole = seal(a, "some text");
	for (size_t i = 0; i < 8 * whole.len; i++) {
		struct datagram bad = whole;
		bad.bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(open_datagram(b, &bad), i < 32   ? TFC_EPARSE
							 : i < 96 ? TFC_ENOENT
								  : TFC_EACCES);
	}
	assert_int_equal(tfc__sealing_senders(b), 0);
	assert_int_equal(open_datagram(b, &whole), 9);
}

static void any_cut_or_added_byte_is_noticed(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *a = sealing_of(ring, id_a, 1), *b = sealing_of(ring, id_b, 1);
	struct datagram whole = seal(a, "some text");
	for (size_t len = 0; len <= whole.len + 1; len++) {
		struct datagram cut = whole;
		cut.len = len;
		if (len != whole.len)
			assert_int_equal(open_datagram(b, &cut),
					 len < TFC__SEALED_OVERHEAD ? TFC_EPARSE : TFC_EACCES);
	}
	assert_int_equal(open_datagram(b, &whole), 9);
}

static void datagram_opens_once_in_any_order(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *a = sealing_of(ring, id_a, 1), *b = sealing_of(ring, id_b, 1);
	struct datagram sent[2 * TFC__SEALED_WINDOW];
	int opened[2 * TFC__SEALED_WINDOW] = {0};
	unsigned random = 1;
	for (int i = 0; i < 2 * TFC__SEALED_WINDOW; i++)
		sent[i] = seal(a, "x");
	/* each several times, displaced by less than the window */
	for (int round = 0; round < 20000; round++) {
		int base = round * (2 * TFC__SEALED_WINDOW - 100) / 20000;
		int at = base + (int)((random = random * 1103515245 + 12345) >> 16) % 100;
		int code = open_datagram(b, &sent[at]);
		assert_int_equal(code, opened[at] ? TFC_EEXIST : 1);
		opened[at] = 1;
	}
}

static void datagram_behind_the_window_is_refused(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *a = sealing_of(ring, id_a, 1), *b = sealing_of(ring, id_b, 1);
	struct datagram late = seal(a, "x"), edge = seal(a, "x"), last;
	for (int i = 0; i < TFC__SEALED_WINDOW - 1; i++)
		last = seal(a, "x");
	assert_int_equal(open_datagram(b, &last), 1);
	assert_int_equal(open_datagram(b, &late), TFC_EEXIST); /* it may have been opened before */
	assert_int_equal(open_datagram(b, &edge), 1);
	for (int i = 0; i < 3 * TFC__SEALED_WINDOW; i++)
		last = seal(a, "x");
	assert_int_equal(open_datagram(b, &last), 1); /* a gap longer than the window */
	assert_int_equal(open_datagram(b, &edge), TFC_EEXIST);
}

static void own_datagram_is_refused_and_that_of_a_copy_is_not(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *a = sealing_of(ring, id_a, 1), *copy = sealing_of(ring, id_a, 1);
	struct tfc__sealing *b = sealing_of(ring, id_b, 1);
	struct datagram own = seal(a, "x"), of_copy = seal(copy, "x");
	assert_int_equal(open_datagram(a, &own), TFC_EEXIST);
	assert_int_equal(open_datagram(a, &of_copy), 1); /* the caller must learn about it */
	assert_int_equal(open_datagram(b, &own), 1);
	assert_int_equal(open_datagram(b, &of_copy), 1);
	assert_int_equal(tfc__sealing_senders(b), 2);
}

static void higher_generation_replaces_the_window_and_lower_ones_are_refused(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *old = sealing_of(ring, id_a, 1), *next = sealing_of(ring, id_a, 2);
	struct tfc__sealing *b = sealing_of(ring, id_b, 1);
	struct datagram first = seal(old, "x"), unread = seal(old, "x"), second = seal(next, "x");
	assert_int_equal(open_datagram(b, &first), 1);
	assert_int_equal(open_datagram(b, &second), 1);
	assert_int_equal(open_datagram(b, &unread), TFC_EEXIST);
	assert_int_equal(open_datagram(b, &first), TFC_EEXIST);
	assert_int_equal(tfc__sealing_senders(b), 1);
	tfc__sealing_set_generation(old, 3);
	struct datagram third = seal(old, "x");
	assert_int_equal(open_datagram(b, &third), 1);
}

static void another_key_magic_or_role_does_not_open(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL), *wrong = ring_of(new_key, NULL);
	struct tfc__sealing *a = sealing_of(ring, id_a, 1), *b = sealing_of(wrong, id_b, 1);
	struct tfc__sealing *plain = sealing_of(NULL, id_b, 1), *other;
	tfc_error error = TFC_ERROR_INIT;
	struct datagram sealed = seal(a, "x"), open = seal(plain, "x"), moved;
	assert_int_equal(tfc__sealing_new(ring, other_magic, id_b, 1, &error, &other), TFC_OK);
	sealings[sealing_count++] = other;
	assert_int_equal(open_datagram(b, &sealed), TFC_ENOENT);
	assert_int_equal(open_datagram(plain, &sealed), TFC_ENOENT);
	assert_int_equal(open_datagram(a, &open), TFC_ENOENT);
	/* under the id of a key that the receiver has */
	moved = sealed;
	memcpy(moved.bytes + 4, tfc__keyring_first(wrong, TFC__KEY_NODE)->id, 8);
	assert_int_equal(open_datagram(b, &moved), TFC_EACCES);
	moved = sealed;
	memcpy(moved.bytes, other_magic, 4);
	assert_int_equal(open_datagram(other, &moved), TFC_EACCES);
	assert_int_equal(open_datagram(other, &sealed), TFC_EPARSE);
}

/* Each node passes the three steps in its own time; all pairs understand each other throughout. */
static void keys_are_changed_while_all_understand_each_other(void **state)
{
	const struct tfc__keyring *steps[] = {ring_of(old_key, NULL), ring_of(old_key, new_key),
					      ring_of(new_key, old_key), ring_of(new_key, NULL)};
	for (int step = 0; step + 1 < 4; step++) {
		struct tfc__sealing *before = sealing_of(steps[step], id_a, 1);
		struct tfc__sealing *after = sealing_of(steps[step + 1], id_b, 1);
		struct datagram from_before = seal(before, "x"), from_after = seal(after, "x");
		assert_int_equal(open_datagram(after, &from_before), 1);
		assert_int_equal(open_datagram(before, &from_after), 1);
	}
	/* the key in use is the first of the file */
	struct datagram last = seal(sealing_of(steps[2], id_a, 2), "x");
	assert_memory_equal(last.bytes + 4, tfc__keyring_first(steps[3], TFC__KEY_NODE)->id, 8);
}

/* Opens one datagram of each of these many senders at `b`. */
static void flood(struct tfc__sealing *b, const struct tfc__keyring *ring, uint32_t first,
		  uint32_t count)
{
	tfc_error error = TFC_ERROR_INIT;
	for (uint32_t i = first; i < first + count; i++) {
		uint8_t id[TFC__SEALED_ID_SIZE] = {(uint8_t)i, (uint8_t)(i >> 8),
						   (uint8_t)(i >> 16)};
		struct tfc__sealing *one;
		assert_int_equal(tfc__sealing_new(ring, magic, id, 1, &error, &one), TFC_OK);
		struct datagram datagram = seal(one, "x");
		assert_int_equal(open_datagram(b, &datagram), 1);
		tfc__sealing_free(one);
	}
}

static void invented_senders_use_bounded_memory(void **state)
{
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *b = sealing_of(ring, id_b, 1);
	flood(b, ring, 0, TFC__SEALED_SENDERS + 100);
	assert_int_equal(tfc__sealing_senders(b), TFC__SEALED_SENDERS);
}

/* Its recorded datagrams are refused before, during and after the flood. */
static void sender_in_use_keeps_its_window_in_a_flood_of_invented_ones(void **state)
{
	enum { ROUND = TFC__SEALED_SENDERS / 2, ROUNDS = 5 };
	const struct tfc__keyring *ring = ring_of(old_key, NULL);
	struct tfc__sealing *used = sealing_of(ring, id_a, 1), *b = sealing_of(ring, id_b, 1);
	struct datagram recorded[ROUNDS];
	for (uint32_t round = 0; round < ROUNDS; round++) {
		recorded[round] = seal(used, "x");
		assert_int_equal(open_datagram(b, &recorded[round]), 1);
		flood(b, ring, round * ROUND, ROUND);
		for (uint32_t i = 0; i <= round; i++)
			assert_int_equal(open_datagram(b, &recorded[i]), TFC_EEXIST);
	}
	assert_int_equal(tfc__sealing_senders(b), TFC__SEALED_SENDERS);
	/* without the window of a sender that was silent meanwhile, its datagrams open again */
	flood(b, ring, ROUNDS * ROUND, 2 * ROUND);
	assert_int_equal(open_datagram(b, &recorded[0]), 1);
}

#define TEST(name) cmocka_unit_test_teardown(name, free_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(primitive_has_the_vector_of_the_draft),
		TEST(bytes_are_as_documented),
		TEST(nonce_of_one_number_differs_between_copies),
		TEST(text_and_sender_arrive),
		TEST(any_flipped_bit_is_noticed),
		TEST(any_cut_or_added_byte_is_noticed),
		TEST(datagram_opens_once_in_any_order),
		TEST(datagram_behind_the_window_is_refused),
		TEST(own_datagram_is_refused_and_that_of_a_copy_is_not),
		TEST(higher_generation_replaces_the_window_and_lower_ones_are_refused),
		TEST(another_key_magic_or_role_does_not_open),
		TEST(keys_are_changed_while_all_understand_each_other),
		TEST(invented_senders_use_bounded_memory),
		TEST(sender_in_use_keeps_its_window_in_a_flood_of_invented_ones),
	};
	if (sodium_init() < 0)
		return 1;
	return cmocka_run_group_tests(tests, make_keys, remove_keys);
}
