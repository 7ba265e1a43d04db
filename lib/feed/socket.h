/*
 * A socket of the control protocol: SOCK_SEQPACKET, so that one read is one message.
 */
#ifndef TFC_FEED_SOCKET_H
#define TFC_FEED_SOCKET_H

#include "ctx/ctx.h"
#include "feed/message.h"

/* Called in dispatch. The socket may be closed inside. */
struct tfc__feed_socket_ops {
	/* `fd` came with the message, or is -1; the callee owns it. `message` is borrowed. */
	void (*message)(void *user, const struct tfc__feed_message *message, int fd);
	/* The other end has closed or sent what is no message. Nothing follows. */
	void (*down)(void *user, const tfc_error *why);
	/* The kernel has room again, after tfc__feed_socket_await_room. May be NULL. */
	void (*room)(void *user);
};

/* Zeroed: closed. */
struct tfc__feed_socket {
	tfc_ctx *ctx; /* NULL: closed */
	struct tfc__noted_fd fd;
	struct tfc__io io;
	struct tfc__link queue; /* messages that wait for room in the kernel */
	const struct tfc__feed_socket_ops *ops;
	void *user;
	/* The message that was read last; TFC__FEED_MESSAGE_MAX bytes. */
	uint8_t *received;
	size_t received_len;
	bool *is_closed; /* while a callback runs: set by close */
	bool awaits_room;
	bool is_paused;
	bool is_down; /* `down` was called */
};

/* Acquires `fd`, also on failure. TFC_OK, TFC_ENOMEM, TFC_ESYS. */
int tfc__feed_socket_open(struct tfc__feed_socket *sock, tfc_ctx *ctx, int fd,
			  const struct tfc__feed_socket_ops *ops, void *user, tfc_error *error);
/* Sends a message, with a copy of the descriptor `fd` unless it is -1. Messages keep their order. A
 * broken connection is reported by `down`, and so is one whose queued message the kernel refuses.
 * TFC_OK; TFC_ENOMEM, TFC_EMFILE, TFC_ETOOBIG, TFC_ESYS: not sent. */
int tfc__feed_socket_send(struct tfc__feed_socket *sock, const struct tfc__feed_message *message,
			  int fd);
/* The same with a message as it is on the wire, of at most TFC__FEED_MESSAGE_MAX bytes. */
int tfc__feed_socket_send_bytes(struct tfc__feed_socket *sock, const void *data, size_t len,
				int fd);
/* Stops reading, or continues. A paused socket does not report `down`. TFC_ENOMEM, TFC_ESYS. */
int tfc__feed_socket_pause(struct tfc__feed_socket *sock, bool is_paused);
/* `room` is called once. */
void tfc__feed_socket_await_room(struct tfc__feed_socket *sock);
void tfc__feed_socket_close(struct tfc__feed_socket *sock); /* a no-op when closed */

/* Connects to the abstract address "@NAME" of a node: TFC_EUNREACH, TFC_EACCES (its server is
 * neither this user nor root), TFC_EINVAL, TFC_EMFILE, TFC_ESYS. */
int tfc__feed_socket_dial(const char *address, tfc_error *error, int *ret_fd);
/* Listens there: TFC_EBUSY, TFC_EINVAL, TFC_EMFILE, TFC_ESYS. */
int tfc__feed_socket_listen(const char *address, tfc_error *error, int *ret_fd);

#endif
