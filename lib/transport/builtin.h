/*
 * The built-in transports, for lib/builtins.c.
 *
 *   tcp     "tcp://HOST:PORT": without a key on the loopback only, where the kernel identifies the
 *           dialer's user
 *   unix    "unix:/path": the kernel identifies the dialer's user (SO_PEERCRED)
 *   memory  "memory:NAME": both ends are in one context, for tests and simulation
 */
#ifndef TFC_TRANSPORT_BUILTIN_H
#define TFC_TRANSPORT_BUILTIN_H

#include <tfcluster/backend.h>

extern const tfc_transport_ops tfc__tcp_ops;    /* impl: the context */
extern const tfc_transport_ops tfc__unix_ops;   /* impl: the context */
extern const tfc_transport_ops tfc__memory_ops; /* impl: from tfc__memory_open */

void *tfc__memory_open(tfc_ctx *ctx);

#endif
