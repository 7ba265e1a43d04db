#include "wire/keyring.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "wire/secret_file.h"

enum { FILE_MAX = 4096 };

#define HEAD "tfcluster-identity 1 "

struct tfc__identity { /* in sodium_malloc memory */
	uint8_t secret[32];
	uint8_t public[32];
	char id[TFC__NODE_ID_SIZE];
};

void tfc__node_id(const uint8_t public_key[32], char ret_id[TFC__NODE_ID_SIZE])
{
	uint8_t hash[32];
	crypto_generichash(hash, sizeof(hash), public_key, 32, NULL, 0);
	sodium_bin2hex(ret_id, TFC__NODE_ID_SIZE, hash, (TFC__NODE_ID_SIZE - 1) / 2);
}

const char *tfc__identity_id(const struct tfc__identity *identity)
{
	return identity->id;
}

const uint8_t *tfc__identity_secret(const struct tfc__identity *identity)
{
	return identity->secret;
}

const uint8_t *tfc__identity_public(const struct tfc__identity *identity)
{
	return identity->public;
}

void tfc__identity_free(struct tfc__identity *identity)
{
	sodium_free(identity); /* wipes it */
}

/* RFC 7748, section 5: some bits of a secret key are ignored. They are stored as they are used, so
 * that any change of the file is detected. */
static void clamp_secret(uint8_t secret[32])
{
	secret[0] &= 0xF8;
	secret[31] = (uint8_t)((secret[31] & 0x7F) | 0x40);
}

static bool is_clamped(const uint8_t secret[32])
{
	return !(secret[0] & 0x07) && (secret[31] & 0xC0) == 0x40;
}

static void identity_derive(struct tfc__identity *identity)
{
	crypto_scalarmult_base(identity->public, identity->secret);
	tfc__node_id(identity->public, identity->id);
}

/* "tfcluster-identity 1 ID HEX64" */
static int identity_read(const char *path, struct tfc__identity *identity, tfc_error *error)
{
	char *text = NULL;
	size_t len = 0, id_at = strlen(HEAD), hex_at = id_at + TFC__NODE_ID_SIZE, n = 0;
	int code = tfc__secret_read(path, FILE_MAX, error, &text, &len);
	if (code < 0)
		return code;
	bool is_right = len == hex_at + 65 && memcmp(text, HEAD, id_at) == 0 &&
			text[hex_at - 1] == ' ' && text[hex_at + 64] == '\n' &&
			sodium_hex2bin(identity->secret, 32, text + hex_at, 64, NULL, &n, NULL) ==
				0 &&
			n == 32 && is_clamped(identity->secret);
	if (is_right)
		identity_derive(identity);
	if (!is_right || memcmp(text + id_at, identity->id, strlen(identity->id)) != 0)
		code = tfc__fail(error, TFC_EPARSE, "wire", 0,
				 "node identity file \"%s\" is damaged; move it away to get a new "
				 "identity and node id",
				 path);
	tfc__secret_free(text, len);
	return code;
}

static int identity_write(const char *path, const struct tfc__identity *identity, tfc_error *error)
{
	char hex[65], line[160];
	sodium_bin2hex(hex, sizeof(hex), identity->secret, sizeof(identity->secret));
	int len = snprintf(line, sizeof(line), HEAD "%s %s\n", identity->id, hex);
	int code = tfc__secret_write(path, line, (size_t)len, error);
	sodium_memzero(hex, sizeof(hex));
	sodium_memzero(line, sizeof(line));
	return code;
}

static void identity_generate(struct tfc__identity *identity)
{
	randombytes_buf(identity->secret, sizeof(identity->secret));
	clamp_secret(identity->secret);
	identity_derive(identity);
}

/* When two processes create the file at the same time, the second reads the key of the first. */
static int identity_read_or_create(const char *path, struct tfc__identity *identity,
				   tfc_error *error)
{
	int code = identity_read(path, identity, error);
	if (code != TFC_ENOENT)
		return code;
	identity_generate(identity);
	code = identity_write(path, identity, error);
	return code == TFC_EEXIST ? identity_read(path, identity, error) : code;
}

int tfc__identity_open(const char *path, tfc_error *error, struct tfc__identity **ret_identity)
{
	if (sodium_init() < 0)
		return tfc__fail(error, TFC_ESYS, "wire", 0, "cannot initialize libsodium");
	struct tfc__identity *identity = sodium_malloc(sizeof(*identity));
	int code = TFC_OK;
	if (!identity)
		return tfc__fail_nomem(error, "wire");
	if (path)
		code = identity_read_or_create(path, identity, error);
	else
		identity_generate(identity);
	if (code < 0) {
		tfc__identity_free(identity);
		return code;
	}
	sodium_mprotect_readonly(identity);
	*ret_identity = identity;
	return TFC_OK;
}
