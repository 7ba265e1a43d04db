/*
 * A peer: one connection that carries calls. It is dialed or accepted, is authenticated before
 * the first byte of a call is read, and ends once.
 *
 *   tcp   Noise_XXpsk0 with a key of the keyring, whose role is the peer's; off the loopback never
 *         without one; on the loopback plain when there is none
 *   unix  the kernel tells who is there (SO_PEERCRED); no Noise
 *   memory, and a host's own: plain or with Noise, as asked for
 *
 * Addresses: "tcp://HOST:PORT", "tcp://[::1]:PORT", "unix:/path", "memory:NAME", "SCHEME:..." of a
 * transport that the host registered.
 */
#ifndef TFC_TRANSPORT_PEER_H
#define TFC_TRANSPORT_PEER_H

#include "transport/quota.h"
#include "wire/keyring.h"
#include "wire/rpc.h"

struct tfc__peer;
struct tfc__peer_listener;

/* Who is at the other end. */
struct tfc__peer_id {
	enum tfc__key_role
		role; /* unix, plain loopback: NODE for the own uid and root, else SUBMIT */
	char node_id[TFC__NODE_ID_SIZE]; /* hash of its static key; "" without Noise */
	char key_id[17];                 /* of the key it showed; "" without Noise */
	uint32_t uid;                    /* unix: who; else UINT32_MAX */
	uint32_t gid;
	uint32_t pid;      /* unix; else 0 */
	char address[128]; /* where from, in words */
};

struct tfc__peer_ops {
	/* A dialed one is up: from now on it may be called. Not called for an accepted one. */
	void (*up)(struct tfc__peer *peer, void *user);
	void (*serve)(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		      const char *method, const msgpack_object *params);
	/* The end, once, in dispatch: never came up, or broke, or the other end closed. Not after
	 * tfc__peer_close. The peer is still the owner's to close. */
	void (*down)(struct tfc__peer *peer, void *user, const tfc_error *why);
};

struct tfc__dial_options {
	const char *address;
	const struct tfc__keyring *keyring;   /* borrowed for the peer's life; NULL: none */
	enum tfc__key_role role;              /* which key to use; 0: the first */
	const struct tfc__identity *identity; /* borrowed; NULL: a fresh one for this connection */
	const char *pinned_node_id;           /* refuse anybody else; NULL: any */
	uint32_t timeout_ms;                  /* until up; 0: 5000 */
};

/* Begins to connect; the outcome comes by `up` or `down`. TFC_EINVAL (address), TFC_ENOMEM. */
int tfc__peer_dial(tfc_ctx *ctx, const struct tfc__dial_options *options,
		   const struct tfc__peer_ops *ops, void *user, struct tfc__peer **ret_peer,
		   tfc_error *error);

struct tfc__listen_options {
	const char *address; /* tcp port 0: any */
	const struct tfc__keyring *keyring;
	const struct tfc__identity *identity;
	struct tfc__quota *quota; /* of clients; borrowed for the life of their peers; NULL: none */
	uint32_t half_open_max;   /* handshakes at one time; 0: 256 */
	uint32_t handshake_ms;    /* then it is closed; 0: 5000 */
	const uint32_t
		*groups; /* unix: gids whose members may connect, besides the own uid, root */
	uint32_t group_count;
};

/* An authenticated connection: the owner takes it with tfc__peer_accept inside, or it is closed. */
typedef void (*tfc__accept_fn)(void *user, struct tfc__peer *peer);

int tfc__peer_listen(tfc_ctx *ctx, const struct tfc__listen_options *options, tfc__accept_fn fn,
		     void *user, struct tfc__peer_listener **ret_listener, tfc_error *error);
void tfc__peer_accept(struct tfc__peer *peer, const struct tfc__peer_ops *ops, void *user);
/* "tcp://127.0.0.1:4711": with the port that it has. Borrowed. */
const char *tfc__peer_listener_address(const struct tfc__peer_listener *listener);
void tfc__peer_listener_close(struct tfc__peer_listener *listener);

const struct tfc__peer_id *tfc__peer_id(const struct tfc__peer *peer);
struct tfc__rpc *tfc__peer_rpc(const struct tfc__peer *peer);

/* Legal in any callback of it. What was called ends with TFC_ELOST. NULL is a no-op. */
void tfc__peer_close(struct tfc__peer *peer);

#endif
