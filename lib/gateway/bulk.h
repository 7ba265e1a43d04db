/*
 * Scheduling of requests whose response may be long. One request is begun per turn of dispatch, so
 * that other work is served in between. Connections are served round-robin; those of nodes come
 * before those of clients. Each connection has a limited number of requests in progress, and none
 * is begun while its send buffer is full. All clients together have a lower limit than one node's
 * connection: what they request from another node leaves capacity there, within the limit of this
 * node's connection, for requests of this node's own user. The other requests wait unstarted,
 * because a waiting request is small.
 */
#ifndef TFC_GATEWAY_BULK_H
#define TFC_GATEWAY_BULK_H

#include "base/list.h"
#include "wire/rpc.h"

/* Requests in progress per connection. A client has one, so that a client that does not read causes
 * at most one response beyond the send buffer. */
#define TFC__BULK_MAX 4
#define TFC__BULK_CLIENT_MAX 1
#define TFC__BULK_CLIENTS_MAX 2 /* of all clients together; less than TFC__BULK_MAX */

struct tfc__bulk {
	struct tfc__link lines; /* connections with requests; the first is served next */
	struct tfc__work next;
	uint32_t clients; /* requests of clients in progress */
	bool is_closed;
};

struct tfc__bulk_line;

/* A request in the queue of its connection. Zeroed: not queued. */
struct tfc__bulk_turn {
	struct tfc__link link;
	struct tfc__bulk_line *line;
	bool is_begun;
	void (*go)(struct tfc__bulk_turn *turn); /* begins the request: called once, in dispatch */
};

void tfc__bulk_init(struct tfc__bulk *bulk, tfc_ctx *ctx);
/* No request is begun any more. */
void tfc__bulk_close(struct tfc__bulk *bulk);

/* TFC_OK: `go` will be called when fewer than the connection's maximum are in progress. TFC_ENOMEM:
 * `go` is never called. The connection must live until tfc__bulk_leave. */
int tfc__bulk_enter(struct tfc__bulk *bulk, struct tfc__rpc *rpc, bool is_client,
		    struct tfc__bulk_turn *turn);

/* The request was completed or cancelled. Legal in `go`. No-op if not queued. */
void tfc__bulk_leave(struct tfc__bulk_turn *turn);

#endif
