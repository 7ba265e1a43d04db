/*
 * What is built in, for lib/builtins.c.
 *
 *   tcp     "tcp://HOST:PORT": plain on the loopback only, where the kernel is asked who connects
 *   unix    "unix:/path": the kernel tells who connects (SO_PEERCRED)
 *   memory  "memory:NAME": two ends in one context, for tests and simulation
 */
#ifndef TFC_TRANSPORT_BUILTIN_H
#define TFC_TRANSPORT_BUILTIN_H

#include <tfcluster/backend.h>

extern const tfc_transport_ops tfc__tcp_ops;    /* user: the context */
extern const tfc_transport_ops tfc__unix_ops;   /* user: the context */
extern const tfc_transport_ops tfc__memory_ops; /* user: tfc__memory_open */

void *tfc__memory_open(tfc_ctx *ctx);

#endif
