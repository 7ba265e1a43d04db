/*
 * A peer: one connection that carries calls. It is dialed or accepted, is authenticated before the
 * first byte of a call is read, and ends once.
 *
 *   tcp   Noise_XXpsk0 with a key of the keyring; the peer has the key's role. Without a keyring
 *         plain, which is possible on the loopback only.
 *   unix  plain; the kernel identifies the user (SO_PEERCRED)
 *   memory, and the host's own transports: Noise if there is a keyring, else plain
 *
 * Addresses: "tcp://HOST:PORT", "tcp://[::1]:PORT", "unix:/path", "memory:NAME", and "SCHEME:..."
 * for a transport that the host registered.
 */
#ifndef TFC_TRANSPORT_PEER_H
#define TFC_TRANSPORT_PEER_H

#include "transport/quota.h"
#include "wire/keyring.h"
#include "wire/rpc.h"

struct tfc__peer;
struct tfc__peer_listener;

/* The identity of the other end. */
struct tfc__peer_id {
	/* unix, plain loopback: NODE for the own uid and root, else SUBMIT */
	enum tfc__key_role role;
	char node_id[TFC__NODE_ID_SIZE]; /* hash of its static key; "" without Noise */
	char key_id[17];                 /* of the key it used; "" without Noise */
	uint32_t uid;                    /* unix, plain loopback: the user; else UINT32_MAX */
	uint32_t gid;
	uint32_t pid;      /* unix; else 0 */
	char address[128]; /* the remote address, as text */
};

struct tfc__peer_ops {
	/* A dialed peer is up and can be called from now on. Not called for an accepted peer. */
	void (*up)(struct tfc__peer *peer, void *user);
	void (*serve)(struct tfc__peer *peer, void *user, struct tfc__rpc_request *request,
		      const char *method, const msgpack_object *params);
	/* The peer has ended: it failed to come up, its connection broke, the other end closed
	 * it, or the keyring no longer has its key. Called once, in dispatch, never after
	 * tfc__peer_close. The owner must still close the peer. */
	void (*down)(struct tfc__peer *peer, void *user, const tfc_error *why);
};

struct tfc__dial_options {
	const char *address;
	struct tfc__keyring *keyring;         /* borrowed for the peer's life; NULL: none */
	enum tfc__key_role role;              /* the role of the key to use; 0: the first key */
	const struct tfc__identity *identity; /* borrowed; NULL: a new one for this connection */
	const char *pinned_node_id;           /* the only node id accepted; NULL: any */
	uint32_t timeout_ms;                  /* until the peer is up; 0: 5000 */
};

/* Begins to connect; the outcome is reported by `up` or `down`. Returns TFC_EINVAL (address, or no
 * key of that role) or TFC_ENOMEM. */
int tfc__peer_dial(tfc_ctx *ctx, const struct tfc__dial_options *options,
		   const struct tfc__peer_ops *ops, void *user, tfc_error *error,
		   struct tfc__peer **ret_peer);

/* Reports the last will of a node (proc/will.h), which anybody may have sent. Returns whether it is
 * known, and is acknowledged. */
typedef bool (*tfc__will_fn)(void *user, const uint8_t *message);

struct tfc__listen_options {
	const char *address; /* tcp port 0: any */
	struct tfc__keyring *keyring;
	const struct tfc__identity *identity;
	/* limits of clients; borrowed for the life of their peers; NULL: none */
	struct tfc__quota *quota;
	uint32_t half_open_max; /* concurrent handshakes; 0: 256 */
	uint32_t handshake_ms;  /* time limit of a handshake; 0: 5000 */
	/* unix: gids whose members may connect, besides the own uid and root */
	const uint32_t *groups;
	uint32_t group_count;
	tfc__will_fn will; /* NULL: none is known */
	void *will_user;
};

/* Reports an authenticated connection. The owner acquires it by tfc__peer_accept inside the
 * callback; otherwise it is closed. */
typedef void (*tfc__accept_fn)(void *user, struct tfc__peer *peer);

int tfc__peer_listen(tfc_ctx *ctx, const struct tfc__listen_options *options, tfc__accept_fn fn,
		     void *user, tfc_error *error, struct tfc__peer_listener **ret_listener);
void tfc__peer_accept(struct tfc__peer *peer, const struct tfc__peer_ops *ops, void *user);
/* The address with the actual port, such as "tcp://127.0.0.1:4711". Borrowed. */
const char *tfc__peer_listener_address(const struct tfc__peer_listener *listener);
void tfc__peer_listener_close(struct tfc__peer_listener *listener);

const struct tfc__peer_id *tfc__peer_id(const struct tfc__peer *peer);
struct tfc__rpc *tfc__peer_rpc(const struct tfc__peer *peer);

/* Ends the connection as if it had broken: pending calls fail with TFC_ELOST and the text of `why`;
 * then the owner's `down` is called. */
void tfc__peer_end(struct tfc__peer *peer, const tfc_error *why);

/* May be called in any callback of the peer. Its pending calls end with TFC_ELOST. NULL is a
 * no-op. */
void tfc__peer_close(struct tfc__peer *peer);

#endif
