/*
 * A transport as a host would write it, "hosted:/path", with a loop of the host's own: an epoll
 * that also watches the context. It uses the public headers alone.
 */
#ifndef TEST_HOSTED_TRANSPORT_H
#define TEST_HOSTED_TRANSPORT_H

#include <tfcluster/backend.h>

struct hosted;

/* Registers it. NULL and the context's error on failure. It is freed with the context. */
struct hosted *hosted_register(tfc_ctx *ctx);

/* One turn of the host's loop; waits up to so long. Returns as tfc_ctx_dispatch. */
int hosted_turn(struct hosted *hosted, int timeout_ms);

#endif
