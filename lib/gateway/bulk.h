/*
 * Answers that may be long take turns: one is begun in a turn of dispatch, so that between two of
 * them all else is served. Connections take turns, those of nodes before those of clients. Of one
 * connection only a few requests are worked on at a time, and none while there is no room for more
 * that waits to be sent. Of all clients together it is fewer still: what they ask of another node
 * leaves room there, in the line of this one, for what this node's own user asks. The others wait
 * as requests, which are small.
 */
#ifndef TFC_GATEWAY_BULK_H
#define TFC_GATEWAY_BULK_H

#include "base/list.h"
#include "wire/rpc.h"

/* Requests of one connection that are worked on; of a client one, so that what it does not read
 * is one answer more than there is room for. */
#define TFC__BULK_MAX 4
#define TFC__BULK_CLIENT_MAX 1
#define TFC__BULK_CLIENTS_MAX 2 /* of all clients; less than TFC__BULK_MAX */

struct tfc__bulk {
	struct tfc__link lines; /* of those connections that have any; the next is the first */
	struct tfc__work next;
	uint32_t clients; /* requests of clients that are worked on */
	bool is_closed;
};

struct tfc__bulk_line;

/* A request's place in the line; zeroed: in none. */
struct tfc__bulk_turn {
	struct tfc__link link;
	struct tfc__bulk_line *line;
	bool is_begun;
	void (*go)(struct tfc__bulk_turn *turn); /* its turn has come: once, in dispatch */
};

void tfc__bulk_init(struct tfc__bulk *bulk, tfc_ctx *ctx);
/* Nobody's turn comes any more. */
void tfc__bulk_close(struct tfc__bulk *bulk);

/* TFC_OK: `go` will be called, with less than the maximum of the connection under way; TFC_ENOMEM:
 * never. The connection must live until tfc__bulk_leave. */
int tfc__bulk_enter(struct tfc__bulk *bulk, struct tfc__rpc *rpc, bool is_client,
		    struct tfc__bulk_turn *turn);

/* It is answered, or not wanted any more. Legal in `go`. In none: a no-op. */
void tfc__bulk_leave(struct tfc__bulk_turn *turn);

#endif
