/*
 * Scheduling of requests whose response may be long. One request is begun per turn of dispatch, so
 * that other work is served in between. Connections are served round-robin; those of nodes come
 * before those of clients. Each connection has a limited number of requests in progress, and none
 * is begun while its send buffer is full. All clients together have a lower limit than one node's
 * connection: what they request from another node leaves capacity there, within the limit of this
 * node's connection, for requests of this node's own user. The other requests wait unstarted,
 * because a waiting request is small.
 */
#ifndef TFC_GATEWAY_LOW_PRIORITY_H
#define TFC_GATEWAY_LOW_PRIORITY_H

#include "base/list.h"
#include "wire/rpc.h"

/* Requests in progress per connection. A client has one, so that a client that does not read causes
 * at most one response beyond the send buffer. */
#define TFC__LOW_PRIORITY_MAX 4
#define TFC__LOW_PRIORITY_CLIENT_MAX 1
#define TFC__LOW_PRIORITY_CLIENTS_MAX \
	2 /* of all clients together; less than TFC__LOW_PRIORITY_MAX */

struct tfc__low_priority {
	struct tfc__link connections; /* those with requests; the first is served next */
	struct tfc__work next;
	uint32_t clients; /* requests of clients in progress */
	bool is_closed;
};

struct tfc__low_priority_connection;

/* A request in the queue of its connection. Zeroed: not queued. */
struct tfc__low_priority_request {
	struct tfc__link link;
	struct tfc__low_priority_connection *connection;
	bool is_begun;
	/* Begins the request: called once, in dispatch. */
	void (*begin)(struct tfc__low_priority_request *request);
};

void tfc__low_priority_init(struct tfc__low_priority *low_priority, tfc_ctx *ctx);
/* No request is begun any more. */
void tfc__low_priority_close(struct tfc__low_priority *low_priority);

/* TFC_OK: `begin` will be called when fewer than the connection's maximum are in progress.
 * TFC_ENOMEM: `begin` is never called. The connection must live until tfc__low_priority_leave. */
int tfc__low_priority_enqueue(struct tfc__low_priority *low_priority, struct tfc__rpc *rpc,
			      bool is_client, struct tfc__low_priority_request *request);

/* The request was completed or canceled. Legal in `begin`. No-op if not queued. */
void tfc__low_priority_leave(struct tfc__low_priority_request *request);

#endif
