/*
 * Two ends of a connection, of which the far one keeps requests until the test answers them. One
 * such pair a test: open_pair sets it up, close_pair tears it down.
 */
#ifndef TEST_UNIT_RPC_KEPT_H
#define TEST_UNIT_RPC_KEPT_H

#include "rpc_pair.h"

extern tfc_ctx *ctx;
extern struct rpc_pair pair;
extern struct rpc_end *const near, *const far;

/* What the far end has open, and what it has received. */
extern struct tfc__rpc_request *requests[TFC__RPC_OPEN_MAX];
extern uint32_t request_count, cancels, credits, notes;

int open_pair(void **state);
int close_pair(void **state); /* all that was kept is answered before */

/* Serves the far end so; counts notes, credits and cancels. */
void keep(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
	  const msgpack_object *params);
void on_cancel(void *user); /* counts one */
void answer(uint32_t i, uint64_t number);

/* It ended once, and stays so. */
void ended(struct rpc_outcome *outcome, int code);
void wait_for_end(struct rpc_outcome *outcome);

#endif
