/*
 * Keys: what a member of the cluster must have. A key is 32 random bytes with a role and an id, the
 * first 16 hex digits of BLAKE2b-256 over the role's name and the bytes. A key file holds one or
 * more, a line each:
 *
 *     tfcluster-key 1 node ID HEX64
 *
 * `#` begins a comment. The file must belong to its reader and be closed to all others (0600). Keys
 * are kept in sodium_malloc memory and never printed.
 */
#ifndef TFC_WIRE_KEYRING_H
#define TFC_WIRE_KEYRING_H

#include <stdbool.h>
#include <stdint.h>
#include <tfcluster/error.h>

enum tfc__key_role { TFC__KEY_NODE = 1, TFC__KEY_SUBMIT = 2, TFC__KEY_READ = 3 };

#define TFC__KEY_SIZE 32
#define TFC__KEY_ID_SIZE 8 /* bytes on the wire */

struct tfc__key {
	uint8_t id[TFC__KEY_ID_SIZE];
	enum tfc__key_role role;
	const uint8_t *secret; /* TFC__KEY_SIZE bytes */
};

struct tfc__keyring;

/* Reads a key file. TFC_ENOENT, TFC_EACCES (also: open to others, says chmod 600), TFC_EPARSE with
 * the line. The caller owns *ret_ring. */
int tfc__keyring_load(const char *path, tfc_error *error, struct tfc__keyring **ret_ring);
void tfc__keyring_free(struct tfc__keyring *ring);

/* Which key a dialer uses: the first that has the role or, 0, the first at all. NULL when none. */
const struct tfc__key *tfc__keyring_first(const struct tfc__keyring *ring, enum tfc__key_role role);
/* Exactly one key, by the id of the preamble; NULL: none has it. */
const struct tfc__key *tfc__keyring_find(const struct tfc__keyring *ring,
					 const uint8_t id[TFC__KEY_ID_SIZE]);

/* Makes a new key in a file that must not be there yet, mode 0600, synced. TFC_EEXIST. */
int tfc__keyring_generate(const char *path, enum tfc__key_role role, tfc_error *error);

const char *tfc__key_role_name(enum tfc__key_role role);
bool tfc__key_role_parse(const char *name, enum tfc__key_role *ret_role);

/* ---- the static key pair of a node (X25519); its id is the hash of the public key */

#define TFC__NODE_ID_SIZE 33 /* 32 hex digits and a NUL */

struct tfc__identity; /* key pair */

/* From a file in the state directory, made there when it is missing; path NULL: a fresh one.
 * TFC_EPARSE, TFC_EACCES (as a key file), and what writing it gives. The caller owns it. */
int tfc__identity_open(const char *path, tfc_error *error, struct tfc__identity **ret_identity);
void tfc__identity_free(struct tfc__identity *identity);
const char *tfc__identity_id(const struct tfc__identity *identity);
/* The secret and public key, 32 bytes each, borrowed. */
const uint8_t *tfc__identity_secret(const struct tfc__identity *identity);
const uint8_t *tfc__identity_public(const struct tfc__identity *identity);
void tfc__node_id(const uint8_t public_key[32], char ret_id[TFC__NODE_ID_SIZE]);

#endif
