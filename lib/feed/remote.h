/*
 * A producer's way to the consumer of a task on another machine: a call of the task's node, through
 * the gateway. The producer gets the descriptor of a stream, as from the node of this machine.
 */
#ifndef TFC_FEED_REMOTE_H
#define TFC_FEED_REMOTE_H

#include "feed/frame.h"
#include "gateway/gateway.h"

struct tfc__feed_remote;

/* Called in dispatch; the last function that is called may close the remote inside. */
struct tfc__feed_remote_ops {
	/* There is a stream; the callee owns `fd`. Its end is seen there. */
	void (*connected)(void *user, int fd);
	/* There is none. Nothing follows. TFC_ENOTSUP: a node on the way has an older version;
	 * TFC_ENOENT: the job has no feed on the node, or the node is not a member. */
	void (*failed)(void *user, const tfc_error *why);
	/* All that was sent has arrived at the consumer's socket. */
	void (*flushed)(void *user);
};

/* The strings of `connect` are copied. TFC_ENOMEM. */
int tfc__feed_remote_open(tfc_gateway *gateway, const struct tfc__feed_connect *connect,
			  const struct tfc__feed_remote_ops *ops, void *user, tfc_error *error,
			  struct tfc__feed_remote **ret_remote);
/* Whether all that was sent has arrived at the consumer's socket, or cannot arrive any more. NULL:
 * it has. */
bool tfc__feed_remote_is_flushed(const struct tfc__feed_remote *remote);
/* Whether a message was sent of which nobody knows that it has arrived: the call has ended before.
 * NULL: there is none. */
bool tfc__feed_remote_has_lost(const struct tfc__feed_remote *remote);
/* What was not sent yet is lost. NULL is a no-op. */
void tfc__feed_remote_close(struct tfc__feed_remote *remote);

#endif
