/*
 * Keys, which authenticate the members of the cluster. A key is 32 random bytes with a role and an
 * id; the id is the first 16 hex digits of BLAKE2b-256 over the role's name and the bytes. A key
 * file contains one or more keys, one per line:
 *
 *     tfcluster-key 1 node ID HEX64
 *
 * `#` begins a comment. The file must belong to its reader and be inaccessible to all other users
 * (0600). Keys are kept in sodium_malloc memory and never printed.
 */
#ifndef TFC_WIRE_KEYRING_H
#define TFC_WIRE_KEYRING_H

#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/error.h>

#include "base/list.h"

enum tfc__key_role { TFC__KEY_NODE = 1, TFC__KEY_SUBMIT = 2, TFC__KEY_READ = 3 };

#define TFC__KEY_SIZE 32
#define TFC__KEY_ID_SIZE 8 /* bytes on the wire */

struct tfc__key {
	uint8_t id[TFC__KEY_ID_SIZE];
	enum tfc__key_role role;
	const uint8_t *secret; /* TFC__KEY_SIZE bytes */
};

struct tfc__keyring;

/* Reads a key file. Errors: TFC_ENOENT; TFC_EACCES, also for a file that other users can access,
 * with the hint chmod 600; TFC_EPARSE with the line number. The caller owns *ret_ring. */
int tfc__keyring_load(const char *path, tfc_error *error, struct tfc__keyring **ret_ring);
void tfc__keyring_free(struct tfc__keyring *ring);

/* Checks the text of a key file; `path` is its name in messages. Errors: TFC_EPARSE, TFC_ENOMEM. */
int tfc__keyring_check(const char *text, const char *path, tfc_error *error);

/* Reads and checks a key file. The caller erases and frees *ret_text. Errors: as
 * tfc__keyring_load. */
int tfc__keyring_read(const char *path, tfc_error *error, char **ret_text);

/* The keys become those of `with`, which is freed. Pointers to the earlier keys are invalid
 * afterwards. Returns whether the keys or their order differ. */
bool tfc__keyring_replace(struct tfc__keyring *ring, struct tfc__keyring *with);

/* The use of a key, by a connection. Embedded; its link is initialized. */
struct tfc__key_use {
	struct tfc__link link;
	uint8_t id[TFC__KEY_ID_SIZE];
	/* Called once, inside tfc__keyring_replace, when the keyring no longer has the key. It
	 * must not end any use. */
	void (*removed)(struct tfc__key_use *use);
};

/* Begins a use whose `id` and `removed` are set. Returns false if there is no such key. */
bool tfc__key_use_begin(struct tfc__key_use *use, struct tfc__keyring *ring);
void tfc__key_use_end(struct tfc__key_use *use); /* a no-op if it is not in use */

/* The key that a connecting end uses: the first with the role, or, for role 0, the first in the
 * file. NULL if there is none. */
const struct tfc__key *tfc__keyring_first(const struct tfc__keyring *ring, enum tfc__key_role role);
/* The key with the id in the preamble; NULL if there is none. */
const struct tfc__key *tfc__keyring_find(const struct tfc__keyring *ring,
					 const uint8_t id[TFC__KEY_ID_SIZE]);

/* Makes a new key: a line of a key file, with its end. Erase it. */
#define TFC__KEY_LINE_SIZE 160
int tfc__key_make_line(enum tfc__key_role role, tfc_error *error,
		       char ret_line[TFC__KEY_LINE_SIZE]);
/* Writes a new key to a new file, mode 0600, synced. TFC_EEXIST if the file exists. */
int tfc__keyring_generate(const char *path, enum tfc__key_role role, tfc_error *error);

uint32_t tfc__keyring_count(const struct tfc__keyring *ring);
/* The key's id as hexadecimal digits. */
void tfc__key_id_text(const struct tfc__key *key, char ret_text[2 * TFC__KEY_ID_SIZE + 1]);

const char *tfc__key_role_name(enum tfc__key_role role);
bool tfc__key_role_parse(const char *name, enum tfc__key_role *ret_role);

/* ---- the static key pair of a node (X25519); its id is the hash of the public key */

#define TFC__NODE_ID_SIZE 33 /* 32 hex digits and a NUL */

struct tfc__identity; /* a key pair */

/*
 * Reads the key pair from a file in the state directory, which is created if it does not exist;
 * with path NULL, generates a new pair. Errors: TFC_EPARSE, TFC_EACCES (as for a key file), and the
 * errors of writing the file. The caller owns *ret_identity.
 */
int tfc__identity_open(const char *path, tfc_error *error, struct tfc__identity **ret_identity);
void tfc__identity_free(struct tfc__identity *identity);
const char *tfc__identity_id(const struct tfc__identity *identity);
/* The secret and public key, 32 bytes each, borrowed. */
const uint8_t *tfc__identity_secret(const struct tfc__identity *identity);
const uint8_t *tfc__identity_public(const struct tfc__identity *identity);
void tfc__node_id(const uint8_t public_key[32], char ret_id[TFC__NODE_ID_SIZE]);

#endif
