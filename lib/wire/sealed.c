#include "wire/sealed.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/list.h"

#define LABEL "tfcluster sealed datagram 1"

enum { MAGIC_SIZE = 4, NONCE_AT = 12, RANDOM_SIZE = 8, TAG = 16, SENDER_BUCKETS = 1024 };

/* The numbers received from one start of a sender. */
struct window {
	struct tfc__link bucket;
	struct tfc__link recent; /* the one used last is the last of the list */
	uint8_t id[TFC__SEALED_ID_SIZE];
	uint32_t generation, instance;
	uint64_t highest;
	uint64_t seen[TFC__SEALED_WINDOW / 64]; /* bit n % TFC__SEALED_WINDOW: n was received */
};

struct tfc__sealing {
	const struct tfc__keyring *ring;
	uint8_t magic[MAGIC_SIZE];
	struct tfc__sealed_sender self; /* number: of the last datagram */
	struct tfc__link buckets[SENDER_BUCKETS];
	struct tfc__link recent;
	uint32_t count;
};

/* ---- keys */

static void derive_key(const struct tfc__sealing *sealing, const struct tfc__key *key,
		       uint8_t ret_key[32])
{
	crypto_generichash_state state;
	crypto_generichash_init(&state, key ? key->secret : NULL, key ? TFC__KEY_SIZE : 0, 32);
	crypto_generichash_update(&state, (const uint8_t *)LABEL, strlen(LABEL));
	crypto_generichash_update(&state, sealing->magic, MAGIC_SIZE);
	crypto_generichash_final(&state, ret_key, 32);
	sodium_memzero(&state, sizeof(state));
}

/* Finds the key with that id. Returns false if there is none. */
static bool derive_key_of(const struct tfc__sealing *sealing, const uint8_t *id,
			  uint8_t ret_key[32])
{
	const struct tfc__key *key = NULL;
	if (sealing->ring) {
		key = tfc__keyring_find(sealing->ring, id);
		if (!key || key->role != TFC__KEY_NODE)
			return false;
	} else if (!sodium_is_zero(id, TFC__KEY_ID_SIZE)) {
		return false;
	}
	derive_key(sealing, key, ret_key);
	return true;
}

/* ---- the sender's fields */

static void write_number(uint8_t *at, uint64_t number, int size)
{
	for (int i = size; i-- > 0; number >>= 8)
		at[i] = (uint8_t)number;
}

static uint64_t read_number(const uint8_t *at, int size)
{
	uint64_t number = 0;
	for (int i = 0; i < size; i++)
		number = number << 8 | at[i];
	return number;
}

static void write_nonce(uint8_t *at, const struct tfc__sealed_sender *sender)
{
	randombytes_buf(at, RANDOM_SIZE);
	write_number(at + 8, sender->generation, 4);
	write_number(at + 12, sender->instance, 4);
	write_number(at + 16, sender->number, 8);
}

static struct tfc__sealed_sender read_sender(const uint8_t *nonce, const uint8_t *id)
{
	struct tfc__sealed_sender sender = {
		.generation = (uint32_t)read_number(nonce + 8, 4),
		.instance = (uint32_t)read_number(nonce + 12, 4),
		.number = read_number(nonce + 16, 8),
	};
	memcpy(sender.id, id, sizeof(sender.id));
	return sender;
}

/* ---- windows */

static struct tfc__link *window_bucket(struct tfc__sealing *sealing, const uint8_t *id)
{
	return &sealing->buckets[(id[0] << 8 | id[1]) % SENDER_BUCKETS];
}

static void window_free(struct tfc__sealing *sealing, struct window *window)
{
	tfc__list_remove(&window->bucket);
	tfc__list_remove(&window->recent);
	sealing->count--;
	free(window);
}

static struct window *window_add(struct tfc__sealing *sealing,
				 const struct tfc__sealed_sender *sender)
{
	if (sealing->count == TFC__SEALED_SENDERS)
		window_free(sealing,
			    tfc__container_of(sealing->recent.next, struct window, recent));
	struct window *window = calloc(1, sizeof(*window));
	if (!window)
		return NULL;
	memcpy(window->id, sender->id, sizeof(window->id));
	window->generation = sender->generation;
	window->instance = sender->instance;
	tfc__list_append(window_bucket(sealing, sender->id), &window->bucket);
	tfc__list_append(&sealing->recent, &window->recent);
	sealing->count++;
	return window;
}

/* Finds the window of the sender, and drops those of its earlier generations. TFC_EEXIST: a later
 * generation is known. */
static int window_find(struct tfc__sealing *sealing, const struct tfc__sealed_sender *sender,
		       struct window **ret_window)
{
	TFC__LIST_EACH (link, window_bucket(sealing, sender->id)) {
		struct window *window = tfc__container_of(link, struct window, bucket);
		if (memcmp(window->id, sender->id, sizeof(window->id)) != 0)
			continue;
		if (window->generation > sender->generation)
			return TFC_EEXIST;
		if (window->generation < sender->generation)
			window_free(sealing, window);
		else if (window->instance == sender->instance)
			*ret_window = window;
	}
	if (!*ret_window && !(*ret_window = window_add(sealing, sender)))
		return TFC_ENOMEM;
	return TFC_OK;
}

/* Marks the number as received, unless it was before or is too low to know. */
static bool window_accept(struct window *window, uint64_t number)
{
	uint64_t *word = &window->seen[number % TFC__SEALED_WINDOW / 64];
	uint64_t bit = UINT64_C(1) << number % 64;
	if (number > window->highest) {
		uint64_t ahead = number - window->highest;
		if (ahead >= TFC__SEALED_WINDOW)
			memset(window->seen, 0, sizeof(window->seen));
		else
			for (uint64_t n = window->highest + 1; n < number; n++)
				window->seen[n % TFC__SEALED_WINDOW / 64] &= ~(UINT64_C(1)
									       << n % 64);
		window->highest = number;
	} else if (number == 0 || window->highest - number >= TFC__SEALED_WINDOW || *word & bit) {
		return false;
	}
	*word |= bit;
	return true;
}

static int check_sender(struct tfc__sealing *sealing, const struct tfc__sealed_sender *sender)
{
	struct window *window = NULL;
	if (memcmp(sender->id, sealing->self.id, sizeof(sender->id)) == 0 &&
	    sender->instance == sealing->self.instance)
		return TFC_EEXIST;
	int code = window_find(sealing, sender, &window);
	if (code < 0)
		return code;
	if (!window_accept(window, sender->number))
		return TFC_EEXIST;
	tfc__list_remove(&window->recent);
	tfc__list_append(&sealing->recent, &window->recent);
	return TFC_OK;
}

/* ---- sealing and opening */

void tfc__seal(struct tfc__sealing *sealing, const void *text, size_t len, uint8_t *ret_bytes)
{
	const struct tfc__key *key = sealing->ring
					     ? tfc__keyring_first(sealing->ring, TFC__KEY_NODE)
					     : NULL;
	uint8_t secret[32], *inner = ret_bytes + TFC__SEALED_HEAD;
	derive_key(sealing, key, secret);
	memcpy(ret_bytes, sealing->magic, MAGIC_SIZE);
	memset(ret_bytes + MAGIC_SIZE, 0, TFC__KEY_ID_SIZE);
	if (key)
		memcpy(ret_bytes + MAGIC_SIZE, key->id, TFC__KEY_ID_SIZE);
	sealing->self.number++;
	write_nonce(ret_bytes + NONCE_AT, &sealing->self);
	memcpy(inner, sealing->self.id, TFC__SEALED_ID_SIZE);
	if (len)
		memcpy(inner + TFC__SEALED_ID_SIZE, text, len);
	crypto_aead_xchacha20poly1305_ietf_encrypt(inner, NULL, inner, TFC__SEALED_ID_SIZE + len,
						   ret_bytes, TFC__SEALED_HEAD, NULL,
						   ret_bytes + NONCE_AT, secret);
	sodium_memzero(secret, sizeof(secret));
}

int tfc__unseal(struct tfc__sealing *sealing, const uint8_t *bytes, size_t len, uint8_t *ret_text,
		struct tfc__sealed_sender *ret_sender)
{
	uint8_t secret[32];
	if (len < TFC__SEALED_OVERHEAD || memcmp(bytes, sealing->magic, MAGIC_SIZE) != 0)
		return TFC_EPARSE;
	if (!derive_key_of(sealing, bytes + MAGIC_SIZE, secret))
		return TFC_ENOENT;
	int result = crypto_aead_xchacha20poly1305_ietf_decrypt(ret_text, NULL, NULL,
								bytes + TFC__SEALED_HEAD,
								len - TFC__SEALED_HEAD, bytes,
								TFC__SEALED_HEAD, bytes + NONCE_AT,
								secret);
	sodium_memzero(secret, sizeof(secret));
	if (result != 0)
		return TFC_EACCES;
	struct tfc__sealed_sender sender = read_sender(bytes + NONCE_AT, ret_text);
	memmove(ret_text, ret_text + TFC__SEALED_ID_SIZE, len - TFC__SEALED_OVERHEAD);
	int code = check_sender(sealing, &sender);
	if (code == TFC_OK || code == TFC_EEXIST)
		*ret_sender = sender;
	return code < 0 ? code : (int)(len - TFC__SEALED_OVERHEAD);
}

/* ---- making one */

int tfc__sealing_new(const struct tfc__keyring *ring, const uint8_t magic[4],
		     const uint8_t id[TFC__SEALED_ID_SIZE], uint32_t generation, tfc_error *error,
		     struct tfc__sealing **ret_sealing)
{
	if (sodium_init() < 0)
		return tfc__fail(error, TFC_ESYS, "wire", 0, "cannot initialize libsodium");
	struct tfc__sealing *sealing = calloc(1, sizeof(*sealing));
	if (!sealing)
		return tfc__fail_nomem(error, "wire");
	sealing->ring = ring;
	memcpy(sealing->magic, magic, MAGIC_SIZE);
	memcpy(sealing->self.id, id, TFC__SEALED_ID_SIZE);
	sealing->self.generation = generation;
	randombytes_buf(&sealing->self.instance, sizeof(sealing->self.instance));
	for (int i = 0; i < SENDER_BUCKETS; i++)
		tfc__list_init(&sealing->buckets[i]);
	tfc__list_init(&sealing->recent);
	*ret_sealing = sealing;
	return TFC_OK;
}

void tfc__sealing_free(struct tfc__sealing *sealing)
{
	if (!sealing)
		return;
	TFC__LIST_EACH (link, &sealing->recent)
		window_free(sealing, tfc__container_of(link, struct window, recent));
	free(sealing);
}

void tfc__sealing_set_generation(struct tfc__sealing *sealing, uint32_t generation)
{
	sealing->self.generation = generation;
}

uint32_t tfc__sealing_senders(const struct tfc__sealing *sealing)
{
	return sealing->count;
}
