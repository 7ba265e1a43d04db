/*
 * A channel: messages over a pipe, with Noise or plain. doc/internals/wire-format.md defines every
 * byte of the wire format.
 *
 * Until the other end has authenticated, the channel reads only the few bytes of the handshake,
 * into a buffer of its own. After that a message may have TFC__RPC_MESSAGE_MAX bytes. Memory grows
 * with the bytes received, not with the length announced.
 */
#ifndef TFC_TRANSPORT_CHANNEL_H
#define TFC_TRANSPORT_CHANNEL_H

#include "transport/pipe.h"
#include "transport/quota.h"
#include "wire/keyring.h"
#include "wire/msg.h"

struct tfc__channel;

/* All are called in dispatch. The channel may be closed inside each of them. */
struct tfc__channel_ops {
	/* The handshake is complete: messages can be sent. */
	void (*up)(void *user);
	/* A message was received. `data` is borrowed during the call. */
	void (*message)(void *user, const void *data, size_t len);
	/* A message was dropped because it exceeds the quota. Only its beginning was kept, which is
	 * borrowed during the call. */
	void (*refused)(void *user, const void *begin, size_t len, const tfc_error *error);
	/* There is room again after tfc__channel_has_room returned false. */
	void (*room)(void *user);
	/* The channel has ended. Called once, after the pipe was closed. Codes: TFC_ELOST
	 * (closed or broken), TFC_EACCES (not authenticated), TFC_EPARSE (another protocol),
	 * TFC_ENOTSUP (another version of this protocol), TFC_ETOOBIG, TFC_ENOMEM, or a code of
	 * the transport. */
	void (*down)(void *user, const tfc_error *why);
	/* An acceptor has received a node's last will (proc/will.h) instead of a handshake. Returns
	 * whether it is acknowledged. `down` follows. */
	bool (*will)(void *user, const uint8_t *message);
};

struct tfc__channel_options {
	bool is_dialer;
	bool is_noise;
	const struct tfc__keyring *keyring;   /* with Noise */
	enum tfc__key_role role;              /* dialer: of the key to use; 0: the first key */
	const struct tfc__identity *identity; /* with Noise */
	const char *pinned_node_id;           /* the only node id accepted; NULL: any */
};

/* Acquires an accepted pipe. What the options point to is borrowed for the channel's life. Returns
 * TFC_ENOMEM on failure; the caller then keeps the pipe. */
int tfc__channel_accept(tfc_ctx *ctx, tfc_pipe *pipe, const struct tfc__channel_options *options,
			const struct tfc__channel_ops *ops, void *user,
			struct tfc__channel **ret_channel);

/* Returns TFC_EINVAL or TFC_ENOMEM; any other failure is reported by `down`. */
int tfc__channel_dial(tfc_ctx *ctx, const char *address, uint32_t flags,
		      const struct tfc__channel_options *options,
		      const struct tfc__channel_ops *ops, void *user, tfc_error *error,
		      struct tfc__channel **ret_channel);

/* Sends a message of up to TFC__RPC_MESSAGE_MAX bytes and acquires its buffer. A message sent
 * before `up` or after the channel has failed is dropped. */
void tfc__channel_send(struct tfc__channel *channel, struct tfc__buf *message);

/* From now on the channel's bytes count against `share`, which is borrowed until the channel is
 * closed. */
void tfc__channel_limit(struct tfc__channel *channel, struct tfc__quota_share *share);

/* The number of bytes that are queued and not written yet. */
size_t tfc__channel_backlog(const struct tfc__channel *channel);
/* Whether a stream may send another item. If not, `room` is called later. */
bool tfc__channel_has_room(struct tfc__channel *channel);

/* The key, without its secret, and the static public key of the other end. With Noise they are
 * known once the channel is up; NULL without Noise. */
const struct tfc__key *tfc__channel_key(const struct tfc__channel *channel);
const uint8_t *tfc__channel_remote(const struct tfc__channel *channel);

/* Reports to the dialer of an accepted channel, which is not up yet, that it is refused. Close the
 * channel afterwards. */
void tfc__channel_refuse(struct tfc__channel *channel);

tfc_pipe *tfc__channel_pipe(const struct tfc__channel *channel); /* NULL when down */

void tfc__channel_close(struct tfc__channel *channel); /* NULL is a no-op */

#endif
