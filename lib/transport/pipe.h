/*
 * Pipes and listeners of any transport, and which transports a context has.
 *
 * What is built in passes through the same table as what a host brings (tfcluster/backend.h);
 * lib/builtins.c alone names it.
 */
#ifndef TFC_TRANSPORT_PIPE_H
#define TFC_TRANSPORT_PIPE_H

#include "ctx/ctx.h"
#include <tfcluster/backend.h>

/* ---- which there are */

/* A transport that is built in. */
struct tfc__builtin_transport {
	const tfc_transport_ops *ops;
	/* Makes what the table calls user; NULL: the context itself. NULL when out of memory. */
	void *(*open)(tfc_ctx *ctx);
	/* It tells as long as there is something (epoll), so a short read is the last one, and it
	 * tells in dispatch only. */
	bool is_level;
};

/* lib/builtins.c; ops NULL behind the last. */
extern const struct tfc__builtin_transport tfc__builtin_transports[];

/* ---- pipes */

/* Called in dispatch; the pipe may be closed inside. */
typedef void (*tfc__pipe_fn)(void *user, uint32_t events);

/* The caller owns *ret_pipe. `flags` of enum tfc_transport_flags. TFC_EINVAL (address, or needs a
 * key), TFC_ENOMEM, or what the transport says at once. */
int tfc__pipe_dial(tfc_ctx *ctx, const char *address, uint32_t flags, tfc__pipe_fn fn, void *user,
		   tfc_pipe **ret_pipe, tfc_error *error);

/* What a transport says of itself, by one of its addresses. TFC_EINVAL: unknown; TFC_ENOMEM. */
int tfc__transport_traits(tfc_ctx *ctx, const char *address, uint32_t *ret_traits,
			  tfc_error *error);

/* Whose an accepted pipe is from now on. */
void tfc__pipe_take(tfc_pipe *pipe, tfc__pipe_fn fn, void *user);

/* As tfc_transport_ops says. */
int tfc__pipe_describe(tfc_pipe *pipe, tfc_pipe_info *ret_info, tfc_error *error);
int64_t tfc__pipe_read(tfc_pipe *pipe, void *data, size_t len, tfc_error *error);
int64_t tfc__pipe_write(tfc_pipe *pipe, const void *data, size_t len, tfc_error *error);
void tfc__pipe_want(tfc_pipe *pipe, uint32_t events);

/* Whether nothing is left after a read of `asked` bytes gave `got`, as far as one need look now. */
bool tfc__pipe_is_drained(const tfc_pipe *pipe, size_t asked, int64_t got);
/* The reader stops although there may be more: READABLE will be told again. */
void tfc__pipe_again(tfc_pipe *pipe);

void tfc__pipe_close(tfc_pipe *pipe); /* NULL is a no-op */

/* ---- listeners */

/* A connection: TFC_OK, and it is the callee's, who calls tfc__pipe_take; or not TFC_OK. Calls
 * nobody who could close the listener or the pipe. */
typedef int (*tfc__listener_pipe_fn)(void *user, tfc_pipe *pipe);

int tfc__listener_open(tfc_ctx *ctx, const char *address, uint32_t flags, tfc__listener_pipe_fn fn,
		       void *user, tfc_listener **ret_listener, tfc_error *error);
const char *tfc__listener_address(const tfc_listener *listener);
void tfc__listener_close(tfc_listener *listener); /* NULL is a no-op */

#endif
