/*
 * The link between a maintainer and an agent on another machine, for one job and epoch: messages
 * in order, each delivered once, over connections that come and go. Each end keeps what it has
 * sent until the other has acknowledged it, and sends it again over the next connection; what
 * comes twice is dropped. It is pure: no connection, no clock; whoever owns it moves the messages.
 *
 * Messages are numbered from 1. An acknowledgement is the number of the last message that came in
 * order; each message carries one.
 */
#ifndef TFC_NODE_AGENT_LINK_H
#define TFC_NODE_AGENT_LINK_H

#include "base/buf.h"
#include "base/list.h"
#include <stdint.h>

/* Bytes that may wait for an acknowledgement. More than that, and the other end is not there. */
#define TFC__AGENT_LINK_MAX (64u << 20)

struct tfc__agent_link {
	struct tfc__link kept;  /* messages that are not acknowledged, in order */
	struct tfc__link *next; /* the first that this connection has not been given, or &kept */
	size_t kept_bytes;
	size_t max_bytes;
	uint64_t last;     /* number of the last that was posted */
	uint64_t cleared;  /* the other end has acknowledged up to here */
	uint64_t received; /* of the other end's: delivered up to here */
	uint64_t told;     /* and acknowledged up to here, over this connection */
};

struct tfc__agent_link_message {
	struct tfc__link link;
	uint64_t number;
	size_t len;
	char data[];
};

/* max_bytes 0: TFC__AGENT_LINK_MAX. */
void tfc__agent_link_init(struct tfc__agent_link *link, size_t max_bytes);
void tfc__agent_link_fini(struct tfc__agent_link *link);

/* Copies a message behind all others. TFC_OK, TFC_ENOMEM (also: the buffer had failed), or
 * TFC_ETOOBIG: too much is unacknowledged. After a failure the order is broken: the owner gives the
 * link up. */
int tfc__agent_link_post(struct tfc__agent_link *link, const struct tfc__buf *data);

/* The next message for this connection, and counts it as given; NULL: none. With it, or alone where
 * tfc__agent_link_owes says so, goes the acknowledgement that tfc__agent_link_ack returns. */
const struct tfc__agent_link_message *tfc__agent_link_next(struct tfc__agent_link *link);
/* The message that `next` gave, or NULL, the acknowledgement, could not be sent: it is given again.
 */
void tfc__agent_link_undo(struct tfc__agent_link *link,
			  const struct tfc__agent_link_message *message);
bool tfc__agent_link_owes(const struct tfc__agent_link *link);
uint64_t tfc__agent_link_ack(struct tfc__agent_link *link); /* counts it as told */

/* A message has come: 1 deliver it, 0 it came before, TFC_EPARSE one before it is missing. */
int tfc__agent_link_take(struct tfc__agent_link *link, uint64_t number);

/* An acknowledgement has come. TFC_OK, or TFC_EPARSE: of what was never sent. */
int tfc__agent_link_clear(struct tfc__agent_link *link, uint64_t number);

/*
 * A new connection, over which the other end has said up to which number it has received: all
 * behind it is given again. TFC_OK, or TFC_EPARSE: it lacks what it had acknowledged, or has what
 * was never sent; it is not the one that we knew.
 */
int tfc__agent_link_resume(struct tfc__agent_link *link, uint64_t received);

/* Whether all that was posted has been received there. */
bool tfc__agent_link_is_clear(const struct tfc__agent_link *link);

#endif
