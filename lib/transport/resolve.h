/*
 * Resolves names without blocking. A helper program, tfc-resolve, calls the system's resolver,
 * which may block for many seconds, and writes the addresses into a pipe.
 */
#ifndef TFC_TRANSPORT_RESOLVE_H
#define TFC_TRANSPORT_RESOLVE_H

#include "ctx/ctx.h"
#include "transport/address.h"

struct tfc__resolve;

/* Called once, in dispatch. `error` is NULL if the host has its addresses, else the reason
 * (TFC_ENOENT: no such name). Not called after tfc__resolve_close. */
typedef void (*tfc__resolve_fn)(void *user, const tfc_error *error);

/* Fills in host->addresses; `host` is borrowed until the callback or tfc__resolve_close. Returns
 * TFC_ENOENT (no helper program), TFC_ENOMEM, TFC_EMFILE, TFC_EAGAIN or TFC_ESYS. */
int tfc__resolve_open(tfc_ctx *ctx, struct tfc__tcp_host *host, tfc__resolve_fn fn, void *user,
		      tfc_error *error, struct tfc__resolve **ret_resolve);

/* Cancels the request and kills the helper program if it still runs. NULL is a no-op. */
void tfc__resolve_close(struct tfc__resolve *resolve);

#endif
