/*
 * The gateway's service on a node, listening as a node does, so that tests can be its clients in
 * the same context, and break their connections.
 */
#ifndef TEST_LIB_SERVED_H
#define TEST_LIB_SERVED_H

#include <tfcluster/node.h>

#include "gateway/service.h"

struct served;

/* On ADDRESS ("unix:/...", "tcp://127.0.0.1:0"); keyring may be NULL. Fails the test. */
struct served *served_begin(tfc_ctx *ctx, tfc_node *node, const char *address,
			    struct tfc__keyring *keyring,
			    const struct tfc__gateway_service_options *options);
const char *served_address(const struct served *served);
void served_end(struct served *served); /* before the node is closed; NULL is a no-op */

/* Breaks all connections there are; returns how many. */
unsigned served_cut(struct served *served);
/* Nobody is let in while it is away. */
void served_leave(struct served *served);
void served_return(struct served *served);

/* From now on clients count as somebody else; NULL: as who they are. Borrowed. */
void served_claim(struct served *served, const struct tfc__peer_id *who);

/* How many connections were made so far. */
unsigned served_count(const struct served *served);

#endif
