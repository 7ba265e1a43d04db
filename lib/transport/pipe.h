/*
 * Pipes and listeners of any transport, and the transports of a context.
 *
 * A built-in transport is a table of functions like one of the host's (tfcluster/backend.h). Only
 * lib/builtins.c refers to the built-in ones by name.
 */
#ifndef TFC_TRANSPORT_PIPE_H
#define TFC_TRANSPORT_PIPE_H

#include "ctx/ctx.h"
#include <tfcluster/backend.h>

/* ---- transports */

/* A built-in transport. */
struct tfc__builtin_transport {
	const tfc_transport_ops *ops;
	/* Returns the `impl` argument of the table's functions, or NULL when out of memory. If
	 * `open` is NULL, `impl` is the context. */
	void *(*open)(tfc_ctx *ctx);
	/* Events are level-triggered (epoll) and reported in dispatch only. A short read therefore
	 * means that nothing is left. */
	bool is_level;
};

/* Defined in lib/builtins.c; an entry whose ops is NULL ends the list. */
extern const struct tfc__builtin_transport tfc__builtin_transports[];

/* ---- pipes */

/* Called in dispatch. The pipe may be closed inside. */
typedef void (*tfc__pipe_fn)(void *user, uint32_t events);

/* The caller owns *ret_pipe. `flags` is of enum tfc_transport_flags. Returns TFC_EINVAL (address,
 * or a key is required), TFC_ENOMEM, or an immediate failure of the transport. */
int tfc__pipe_dial(tfc_ctx *ctx, const char *address, uint32_t flags, tfc__pipe_fn fn, void *user,
		   tfc_error *error, tfc_pipe **ret_pipe);

/* The traits of the transport that `address` belongs to. Returns TFC_EINVAL (unknown transport) or
 * TFC_ENOMEM. */
int tfc__transport_traits(tfc_ctx *ctx, const char *address, tfc_error *error,
			  uint32_t *ret_traits);

/* Sets the callback of an accepted pipe and the owner's `user`. */
void tfc__pipe_set_owner(tfc_pipe *pipe, tfc__pipe_fn fn, void *user);

/* As tfc_transport_ops documents them. */
int tfc__pipe_describe(tfc_pipe *pipe, tfc_error *error, tfc_pipe_info *ret_info);
int64_t tfc__pipe_read(tfc_pipe *pipe, void *data, size_t len, tfc_error *error);
int64_t tfc__pipe_write(tfc_pipe *pipe, const void *data, size_t len, tfc_error *error);
void tfc__pipe_want(tfc_pipe *pipe, uint32_t events);

/* Whether nothing is left to read for now, after a read of `requested` bytes returned `got`. */
bool tfc__pipe_is_drained(const tfc_pipe *pipe, size_t requested, int64_t got);
/* The reader stops although there may be more to read: READABLE is reported again. */
void tfc__pipe_again(tfc_pipe *pipe);

void tfc__pipe_close(tfc_pipe *pipe); /* NULL is a no-op */

/* ---- listeners */

/* Reports a connection. On TFC_OK the callee owns the pipe and calls tfc__pipe_set_owner; otherwise
 * the transport closes the connection. The callee must not close the listener or the pipe inside.
 */
typedef int (*tfc__listener_pipe_fn)(void *user, tfc_pipe *pipe);

int tfc__listener_open(tfc_ctx *ctx, const char *address, uint32_t flags, tfc__listener_pipe_fn fn,
		       void *user, tfc_error *error, tfc_listener **ret_listener);
const char *tfc__listener_address(const tfc_listener *listener);
void tfc__listener_close(tfc_listener *listener); /* NULL is a no-op */

#endif
