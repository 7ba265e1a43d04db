/*
 * A channel: messages over a pipe, with Noise or plain. Wire format to the byte:
 * doc/internals/wire-format.md.
 *
 * Before the other end has shown its key, no more than the handshake's few bytes are read, into the
 * channel itself; afterwards a message may have TFC__RPC_MESSAGE_MAX bytes, and memory grows with
 * what came, not with what was announced.
 */
#ifndef TFC_TRANSPORT_CHANNEL_H
#define TFC_TRANSPORT_CHANNEL_H

#include "transport/pipe.h"
#include "transport/quota.h"
#include "wire/keyring.h"
#include "wire/msg.h"

struct tfc__channel;

/* All in dispatch; the channel may be closed inside each. */
struct tfc__channel_ops {
	/* Both ends have shown what they must: messages may go. */
	void (*up)(void *user);
	/* Borrowed during the call. */
	void (*message)(void *user, const void *data, size_t len);
	/* A message for which there is no room, of which only the beginning was kept; borrowed. */
	void (*refused)(void *user, const void *begin, size_t len, const tfc_error *error);
	/* There is room again, which tfc__channel_has_room had denied. */
	void (*room)(void *user);
	/* The end, once: TFC_ELOST closed or broken, TFC_EACCES not authenticated, TFC_EPARSE not
	 * our protocol, TFC_ENOTSUP another version of it, TFC_ETOOBIG, TFC_ENOMEM, or what the
	 * transport says. The pipe is closed already. */
	void (*down)(void *user, const tfc_error *why);
};

struct tfc__channel_options {
	bool is_dialer;
	bool is_noise;
	const struct tfc__key *key;           /* dialer with Noise */
	const struct tfc__keyring *keyring;   /* acceptor with Noise */
	const struct tfc__identity *identity; /* with Noise */
	const char *pinned_node_id;           /* anybody else is refused; NULL: any */
};

/* Takes over an accepted pipe. All options are borrowed for the channel's life. TFC_ENOMEM: the
 * pipe is the caller's as before. */
int tfc__channel_accept(tfc_ctx *ctx, tfc_pipe *pipe, const struct tfc__channel_options *options,
			const struct tfc__channel_ops *ops, void *user,
			struct tfc__channel **ret_channel);

/* TFC_EINVAL, TFC_ENOMEM; any other failure comes by `down`. */
int tfc__channel_dial(tfc_ctx *ctx, const char *address, uint32_t flags,
		      const struct tfc__channel_options *options,
		      const struct tfc__channel_ops *ops, void *user, tfc_error *error,
		      struct tfc__channel **ret_channel);

/* Takes over the bytes, up to TFC__RPC_MESSAGE_MAX. Once up; later it goes nowhere. */
void tfc__channel_send(struct tfc__channel *channel, struct tfc__buf *message);

/* From now on its bytes count against a share, which is borrowed until the channel is closed. */
void tfc__channel_limit(struct tfc__channel *channel, struct tfc__quota_share *share);

/* Bytes that wait to be sent. */
size_t tfc__channel_backlog(const struct tfc__channel *channel);
/* Whether more of a stream may be sent; if not, `room` is called later. */
bool tfc__channel_has_room(struct tfc__channel *channel);

/* Once up, with Noise: the key of the other end, and its static public key. NULL without. */
const struct tfc__key *tfc__channel_key(const struct tfc__channel *channel);
const uint8_t *tfc__channel_remote(const struct tfc__channel *channel);

tfc_pipe *tfc__channel_pipe(const struct tfc__channel *channel); /* NULL: down */

void tfc__channel_close(struct tfc__channel *channel); /* NULL is a no-op */

#endif
