/*
 * Names to addresses without waiting: a helper program, tfc-resolve, asks the system's resolver,
 * which may block for many seconds, and writes what it finds into a pipe.
 */
#ifndef TFC_TRANSPORT_RESOLVE_H
#define TFC_TRANSPORT_RESOLVE_H

#include "ctx/ctx.h"
#include "transport/address.h"

struct tfc__resolve;

/* In dispatch, once: `error` NULL, and the host has its addresses; or why not (TFC_ENOENT: there is
 * no such name). Not after tfc__resolve_close. */
typedef void (*tfc__resolve_fn)(void *user, const tfc_error *error);

/* Fills in host->addresses; `host` is borrowed until the end. TFC_ENOENT (no helper program),
 * TFC_ENOMEM, TFC_EMFILE, TFC_EAGAIN, TFC_ESYS. */
int tfc__resolve_open(tfc_ctx *ctx, struct tfc__tcp_host *host, tfc__resolve_fn fn, void *user,
		      struct tfc__resolve **ret_resolve, tfc_error *error);

/* Ends it, and the program if it still runs. NULL is a no-op. */
void tfc__resolve_close(struct tfc__resolve *resolve);

#endif
