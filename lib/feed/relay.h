/*
 * Carries a stream to another machine and back: one end of a local connection, whose other end is a
 * producer or a consumer, and frames. There is one on each machine. To its local end it is the
 * other end of the stream: memory that the other machine has is copied to memory here, of the same
 * size, each batch to the same address and block. So credits stay exact, and the relay decides
 * nothing. What comes from either side is checked.
 */
#ifndef TFC_FEED_RELAY_H
#define TFC_FEED_RELAY_H

#include "feed/frame.h"
#include "feed/socket.h"

struct tfc__feed_relay;

struct tfc__feed_relay_ops {
	/* Sends a frame, which is borrowed. TFC_EAGAIN: not now; tfc__feed_relay_resume follows. An
	 * error ends the relay. The relay must not be closed inside. */
	int (*send)(void *user, struct tfc__feed_frame *frame);
	/* Frames that were received, of this cost, are held here no longer. The relay must not be
	 * closed inside. */
	void (*handled)(void *user, uint64_t cost);
	/* The local end has closed, or one of the two breaks the protocol. Nothing follows. The
	 * relay may be closed inside. */
	void (*down)(void *user, const tfc_error *why);
};

/* Acquires `fd`, also on failure. TFC_ENOMEM, TFC_ESYS. */
int tfc__feed_relay_open(tfc_ctx *ctx, int fd, const struct tfc__feed_relay_ops *ops, void *user,
			 tfc_error *error, struct tfc__feed_relay **ret_relay);
void tfc__feed_relay_close(struct tfc__feed_relay *relay); /* NULL is a no-op */

/* Handles a frame from the other machine. */
void tfc__feed_relay_receive(struct tfc__feed_relay *relay, const struct tfc__feed_frame *frame);
/* Frames can be sent again. */
void tfc__feed_relay_resume(struct tfc__feed_relay *relay);
/* No frame comes any more: `down` is called when the local end has all that was received. */
void tfc__feed_relay_finish(struct tfc__feed_relay *relay);
/* Whether all that the local end has sent was sent on. */
bool tfc__feed_relay_is_empty(const struct tfc__feed_relay *relay);

#endif
