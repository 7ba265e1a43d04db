/*
 * Detects that the node at the other end of a connection does not respond, although the connection
 * is open: the node was stopped (SIGSTOP), its machine hangs or its network is cut. If nothing was
 * received for 2 s, the node is sent a request, which a node that lives answers at once; after
 * another second without any message it counts as silent. Nothing is sent, and no timer runs, while
 * the owner needs no heartbeat.
 */
#ifndef TFC_GATEWAY_HEARTBEAT_H
#define TFC_GATEWAY_HEARTBEAT_H

#include "ctx/ctx.h"
#include "wire/rpc.h"

#define TFC__SILENT_S 3 /* seconds without a message, when a node counts as silent */

struct tfc__heartbeat {
	/* Set by the owner: */
	/* Something waits for messages over the connection, which is then open. */
	bool (*is_needed)(struct tfc__heartbeat *heartbeat);
	/* The node has become silent, or responds again (is_silent). */
	void (*changed)(struct tfc__heartbeat *heartbeat);
	/* For the owner to read: */
	bool is_silent;
	char node[64]; /* the node's name; "": not known yet */
	/* Private to heartbeat.c: */
	struct tfc__timer timer;
	struct tfc__rpc *rpc;       /* NULL: no connection; valid while it is needed */
	struct tfc__rpc_call *call; /* a heartbeat that has no response yet */
	uint64_t received;          /* tfc__rpc_received at the last check */
	uint64_t due;               /* when the timer was to fire */
};

void tfc__heartbeat_init(struct tfc__heartbeat *heartbeat, tfc_ctx *ctx);

/* Begins to check the connection, if this has not begun. */
void tfc__heartbeat_begin(struct tfc__heartbeat *heartbeat, struct tfc__rpc *rpc);

/* The connection is closed. */
void tfc__heartbeat_end(struct tfc__heartbeat *heartbeat);

#endif
