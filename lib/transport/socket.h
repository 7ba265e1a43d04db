/* Common to tcp and unix: pipes that are a connected socket, and listeners that are a socket. */
#ifndef TFC_TRANSPORT_SOCKET_H
#define TFC_TRANSPORT_SOCKET_H

#include "ctx/ctx.h"
#include "transport/registry.h"
#include <sys/socket.h>
#include <tfcluster/backend.h>

/* ---- connections; the first member of the pipe's state in tcp and in unix */

struct tfc__socket {
	tfc_ctx *ctx;
	tfc_pipe *pipe;
	struct tfc__io io;
	struct tfc__noted_fd fd; /* -1: no descriptor */
	uint32_t wanted;
	bool is_connected;
	tfc_error failure; /* code not 0: the connection has failed */
	char address[128]; /* of the other end, as text */
};

void tfc__socket_init(struct tfc__socket *socket, tfc_ctx *ctx, tfc_pipe *pipe);
/* Watches a connected descriptor. The socket acquires it, also on failure. */
int tfc__socket_start(struct tfc__socket *socket, int fd, tfc_error *error);
void tfc__socket_fini(struct tfc__socket *socket);

/* Functions for a tfc_transport_ops. */
int64_t tfc__socket_read(void *pipe_impl, void *data, size_t len, tfc_error *error);
int64_t tfc__socket_write(void *pipe_impl, const void *data, size_t len, tfc_error *error);
void tfc__socket_want(void *pipe_impl, uint32_t events);

/* ---- a listener */

struct tfc__socket_listener;

struct tfc__socket_listener_ops {
	/* Allocates the state of a connection that is not started yet. NULL: out of memory. */
	struct tfc__socket *(*new_socket)(struct tfc__socket_listener *listener, int fd,
					  const struct sockaddr_storage *from);
	void (*free_socket)(struct tfc__socket *socket);
};

struct tfc__socket_listener {
	tfc_ctx *ctx;
	tfc_listener *listener;
	const struct tfc__socket_listener_ops *ops;
	struct tfc__io io;
	struct tfc__timer pause; /* until accept is retried after a failure (no free descriptor) */
	struct tfc__noted_fd fd;
};

/* `fd` must be listening. The listener acquires it, also on failure. */
int tfc__socket_listener_open(struct tfc__socket_listener *listener, tfc_ctx *ctx, tfc_listener *of,
			      int fd, const struct tfc__socket_listener_ops *ops, tfc_error *error);
void tfc__socket_listener_fini(struct tfc__socket_listener *listener);

#endif
