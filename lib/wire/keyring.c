#include "wire/keyring.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "wire/secret_file.h"
#include <tfcluster/key.h>

enum { FILE_MAX = 65536 };

struct tfc__keyring {
	size_t count;
	struct tfc__key *keys;
	uint8_t *secrets; /* sodium_malloc memory, read-only once filled */
	struct tfc__link uses;
};

static const char *const role_names[] = {
	[TFC__KEY_NODE] = "node", [TFC__KEY_SUBMIT] = "submit", [TFC__KEY_READ] = "read"};

const char *tfc__key_role_name(enum tfc__key_role role)
{
	return role >= TFC__KEY_NODE && role <= TFC__KEY_READ ? role_names[role] : "?";
}

bool tfc__key_role_parse(const char *name, enum tfc__key_role *ret_role)
{
	for (int role = TFC__KEY_NODE; role <= TFC__KEY_READ; role++)
		if (strcmp(name, role_names[role]) == 0) {
			*ret_role = (enum tfc__key_role)role;
			return true;
		}
	return false;
}

/* The role is part of the hash: the same bytes with two roles are two keys. */
static void hash_key_id(enum tfc__key_role role, const uint8_t secret[TFC__KEY_SIZE],
			uint8_t ret_id[TFC__KEY_ID_SIZE])
{
	const char *name = tfc__key_role_name(role);
	uint8_t hash[32];
	crypto_generichash_state state;
	crypto_generichash_init(&state, NULL, 0, sizeof(hash));
	crypto_generichash_update(&state, (const uint8_t *)name, strlen(name));
	crypto_generichash_update(&state, secret, TFC__KEY_SIZE);
	crypto_generichash_final(&state, hash, sizeof(hash));
	memcpy(ret_id, hash, TFC__KEY_ID_SIZE);
}

/* ---- reading a file; no message quotes a line's content, which may be a secret */

/* Parses exactly 2 * size hex digits and nothing else. */
static bool read_hex(const char *hex, uint8_t *bytes, size_t size)
{
	size_t len = 0;
	return hex && strlen(hex) == 2 * size &&
	       sodium_hex2bin(bytes, size, hex, 2 * size, NULL, &len, NULL) == 0 && len == size;
}

static const char *parse_key_line(char *line, struct tfc__key *key, uint8_t *secret)
{
	char *rest = NULL;
	uint8_t id[TFC__KEY_ID_SIZE];
	const char *word = strtok_r(line, " \t\r", &rest);
	const char *version = strtok_r(NULL, " \t\r", &rest);
	const char *role = strtok_r(NULL, " \t\r", &rest);
	const char *id_hex = strtok_r(NULL, " \t\r", &rest);
	const char *hex = strtok_r(NULL, " \t\r", &rest);
	if (strcmp(word, "tfcluster-key") != 0)
		return "not a key; a line of a key file, which \"tfc_run keygen\" makes, has the "
		       "form \"tfcluster-key 1 ROLE ID KEY\"";
	if (!version || strcmp(version, "1") != 0)
		return "unknown key format version";
	if (!role || !tfc__key_role_parse(role, &key->role))
		return "role is not node, submit or read";
	if (!read_hex(id_hex, id, sizeof(id)))
		return "key id is not 16 hexadecimal digits";
	if (!read_hex(hex, secret, TFC__KEY_SIZE))
		return "key is not 64 hexadecimal digits";
	if (strtok_r(NULL, " \t\r", &rest))
		return "unexpected text after the key";
	hash_key_id(key->role, secret, key->id);
	if (memcmp(id, key->id, sizeof(id)) != 0)
		return "key id does not match the key and its role; the line was altered";
	return NULL;
}

static int keyring_add_line(struct tfc__keyring *ring, char *line, const char *path,
			    unsigned number, tfc_error *error)
{
	struct tfc__key *key = &ring->keys[ring->count];
	uint8_t *secret = ring->secrets + ring->count * TFC__KEY_SIZE;
	line += strspn(line, " \t\r");
	if (!*line || *line == '#')
		return TFC_OK;
	const char *wrong = parse_key_line(line, key, secret);
	if (wrong)
		return tfc__fail(error, TFC_EPARSE, "wire", 0, "%s:%u: %s", path, number, wrong);
	key->secret = secret;
	if (!tfc__keyring_find(ring, key->id)) /* skips a duplicate key */
		ring->count++;
	return TFC_OK;
}

static int keyring_add_lines(struct tfc__keyring *ring, char *text, const char *path,
			     tfc_error *error)
{
	unsigned number = 0;
	for (char *line; (line = strsep(&text, "\n"));) {
		int code = keyring_add_line(ring, line, path, ++number, error);
		if (code < 0)
			return code;
	}
	if (!ring->count)
		return tfc__fail(error, TFC_EPARSE, "wire", 0, "key file \"%s\" holds no key",
				 path);
	return TFC_OK;
}

static struct tfc__keyring *keyring_new(size_t max)
{
	struct tfc__keyring *ring = calloc(1, sizeof(*ring));
	if (!ring)
		return NULL;
	tfc__list_init(&ring->uses);
	ring->keys = calloc(max, sizeof(*ring->keys));
	ring->secrets = sodium_malloc(max * TFC__KEY_SIZE);
	if (ring->keys && ring->secrets)
		return ring;
	tfc__keyring_free(ring);
	return NULL;
}

/* `text` is changed. */
static int keyring_parse(char *text, size_t len, const char *path, tfc_error *error,
			 struct tfc__keyring **ret_ring)
{
	size_t lines = 1;
	if (sodium_init() < 0)
		return tfc__fail(error, TFC_ESYS, "wire", 0, "cannot initialize libsodium");
	if (memchr(text, '\0', len))
		return tfc__fail(error, TFC_EPARSE, "wire", 0, "\"%s\" is not a key file", path);
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	struct tfc__keyring *ring = keyring_new(lines);
	if (!ring)
		return tfc__fail_nomem(error, "wire");
	int code = keyring_add_lines(ring, text, path, error);
	if (code < 0) {
		tfc__keyring_free(ring);
		return code;
	}
	sodium_mprotect_readonly(ring->secrets);
	*ret_ring = ring;
	return TFC_OK;
}

static int keyring_read(const char *path, tfc_error *error, char **ret_text, size_t *ret_len)
{
	int code = tfc__secret_read(path, FILE_MAX, error, ret_text, ret_len);
	return code != TFC_ENOENT
		       ? code
		       : tfc__fail(
				 error, code, "wire", ENOENT,
				 "key file \"%s\" does not exist; make one with \"tfc_run keygen\"",
				 path);
}

int tfc__keyring_load(const char *path, tfc_error *error, struct tfc__keyring **ret_ring)
{
	char *text = NULL;
	size_t len = 0;
	int code = keyring_read(path, error, &text, &len);
	if (code < 0)
		return code;
	code = keyring_parse(text, len, path, error, ret_ring);
	tfc__secret_free(text, len);
	return code;
}

static int keyring_check(const char *text, size_t len, const char *path, tfc_error *error)
{
	struct tfc__keyring *ring = NULL;
	char *copy = malloc(len + 1);
	if (!copy)
		return tfc__fail_nomem(error, "wire");
	memcpy(copy, text, len + 1);
	int code = keyring_parse(copy, len, path, error, &ring);
	tfc__secret_free(copy, len);
	tfc__keyring_free(ring);
	return code;
}

int tfc__keyring_check(const char *text, const char *path, tfc_error *error)
{
	return keyring_check(text, strlen(text), path, error);
}

int tfc__keyring_read(const char *path, tfc_error *error, char **ret_text)
{
	char *text = NULL;
	size_t len = 0;
	int code = keyring_read(path, error, &text, &len);
	if (code < 0)
		return code;
	code = keyring_check(text, len, path, error);
	if (code < 0)
		tfc__secret_free(text, len);
	else
		*ret_text = text;
	return code;
}

void tfc__keyring_free(struct tfc__keyring *ring)
{
	if (!ring)
		return;
	sodium_free(ring->secrets); /* wipes them */
	free(ring->keys);
	free(ring);
}

/* ---- replacing the keys */

static bool keyring_is_same(const struct tfc__keyring *ring, const struct tfc__keyring *other)
{
	if (ring->count != other->count)
		return false;
	for (size_t i = 0; i < ring->count; i++)
		if (memcmp(ring->keys[i].id, other->keys[i].id, TFC__KEY_ID_SIZE) != 0)
			return false;
	return true;
}

bool tfc__keyring_replace(struct tfc__keyring *ring, struct tfc__keyring *with)
{
	bool is_same = keyring_is_same(ring, with);
	struct tfc__keyring earlier = *ring;
	ring->count = with->count;
	ring->keys = with->keys;
	ring->secrets = with->secrets;
	with->keys = earlier.keys;
	with->secrets = earlier.secrets;
	tfc__keyring_free(with);
	TFC__LIST_EACH (link, &ring->uses) {
		struct tfc__key_use *use = tfc__container_of(link, struct tfc__key_use, link);
		if (!tfc__keyring_find(ring, use->id))
			use->removed(use);
	}
	return !is_same;
}

bool tfc__key_use_begin(struct tfc__key_use *use, struct tfc__keyring *ring)
{
	if (!tfc__keyring_find(ring, use->id))
		return false;
	tfc__list_append(&ring->uses, &use->link);
	return true;
}

void tfc__key_use_end(struct tfc__key_use *use)
{
	tfc__list_remove(&use->link);
}

/* ---- finding a key */

const struct tfc__key *tfc__keyring_first(const struct tfc__keyring *ring, enum tfc__key_role role)
{
	for (size_t i = 0; i < ring->count; i++)
		if (!role || ring->keys[i].role == role)
			return &ring->keys[i];
	return NULL;
}

const struct tfc__key *tfc__keyring_find(const struct tfc__keyring *ring,
					 const uint8_t id[TFC__KEY_ID_SIZE])
{
	for (size_t i = 0; i < ring->count; i++)
		if (memcmp(ring->keys[i].id, id, TFC__KEY_ID_SIZE) == 0)
			return &ring->keys[i];
	return NULL;
}

uint32_t tfc__keyring_count(const struct tfc__keyring *ring)
{
	return (uint32_t)ring->count;
}

void tfc__key_id_text(const struct tfc__key *key, char ret_text[2 * TFC__KEY_ID_SIZE + 1])
{
	sodium_bin2hex(ret_text, 2 * TFC__KEY_ID_SIZE + 1, key->id, TFC__KEY_ID_SIZE);
}

/* ---- generating a key */

int tfc__key_make_line(enum tfc__key_role role, tfc_error *error, char ret_line[TFC__KEY_LINE_SIZE])
{
	uint8_t secret[TFC__KEY_SIZE], id[TFC__KEY_ID_SIZE];
	char id_hex[2 * TFC__KEY_ID_SIZE + 1], hex[2 * TFC__KEY_SIZE + 1];
	if (sodium_init() < 0)
		return tfc__fail(error, TFC_ESYS, "wire", 0, "cannot initialize libsodium");
	randombytes_buf(secret, sizeof(secret));
	hash_key_id(role, secret, id);
	sodium_bin2hex(id_hex, sizeof(id_hex), id, sizeof(id));
	sodium_bin2hex(hex, sizeof(hex), secret, sizeof(secret));
	snprintf(ret_line, TFC__KEY_LINE_SIZE, "tfcluster-key 1 %s %s %s\n",
		 tfc__key_role_name(role), id_hex, hex);
	sodium_memzero(secret, sizeof(secret));
	sodium_memzero(hex, sizeof(hex));
	return TFC_OK;
}

int tfc__keyring_generate(const char *path, enum tfc__key_role role, tfc_error *error)
{
	char line[TFC__KEY_LINE_SIZE];
	int code = tfc__key_make_line(role, error, line);
	if (code == TFC_OK)
		code = tfc__secret_write(path, line, strlen(line), error);
	sodium_memzero(line, sizeof(line));
	return code;
}

int tfc_key_generate(const char *path, const char *role, tfc_error *error)
{
	enum tfc__key_role known;
	if (!path || !*path)
		return tfc__fail(error, TFC_EINVAL, "wire", 0, "path of the key file is missing");
	if (!role || !tfc__key_role_parse(role, &known))
		return tfc__fail(error, TFC_EINVAL, "wire", 0,
				 "role \"%s\" is not valid; use node, submit or read",
				 role ? role : "");
	return tfc__keyring_generate(path, known, error);
}
