/*
 * The link between a maintainer and an agent on another machine, for one job and epoch. Messages
 * are delivered in order and exactly once, over a sequence of connections. Each end keeps its sent
 * messages until they are acknowledged, and sends them again over the next connection; duplicates
 * are dropped. The link is pure: no connection, no clock; its owner moves the messages.
 *
 * Messages are numbered from 1. An acknowledgement is the number of the last message that was
 * received in order; each message carries one.
 */
#ifndef TFC_NODE_AGENT_LINK_H
#define TFC_NODE_AGENT_LINK_H

#include "base/buf.h"
#include "base/list.h"
#include <stdint.h>

/* Limit of unacknowledged bytes. When it is exceeded, the other end is considered lost. */
#define TFC__AGENT_LINK_MAX (64u << 20)

struct tfc__agent_link {
	struct tfc__link kept;  /* unacknowledged messages, in order */
	struct tfc__link *next; /* the first not yet sent over this connection, or &kept */
	size_t kept_bytes;
	size_t max_bytes;
	uint64_t last;     /* number of the last posted message */
	uint64_t cleared;  /* acknowledged by the other end up to here */
	uint64_t received; /* messages of the other end delivered up to here */
	uint64_t reported; /* acknowledged by us over this connection up to here */
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

/* Appends a copy of a message. TFC_OK, TFC_ENOMEM (also if the buffer had failed), or TFC_ETOOBIG:
 * too much is unacknowledged. After a failure the sequence has a gap: the owner must give the link
 * up. */
int tfc__agent_link_post(struct tfc__agent_link *link, const struct tfc__buf *data);

/* The next message to send over this connection, and marks it as sent; NULL: none. Send it together
 * with the acknowledgement that tfc__agent_link_ack returns. Without a message, send the
 * acknowledgement alone if tfc__agent_link_needs_ack. */
const struct tfc__agent_link_message *tfc__agent_link_next(struct tfc__agent_link *link);
/* Sending failed: of the message that `next` returned, which is sent again; or, if NULL, of the
 * acknowledgement. */
void tfc__agent_link_undo(struct tfc__agent_link *link,
			  const struct tfc__agent_link_message *message);
bool tfc__agent_link_needs_ack(const struct tfc__agent_link *link);
uint64_t tfc__agent_link_ack(struct tfc__agent_link *link); /* and marks it as sent */

/* A message was received: 1 deliver it, 0 duplicate, TFC_EPARSE an earlier message is missing. */
int tfc__agent_link_receive(struct tfc__agent_link *link, uint64_t number);

/* An acknowledgement was received. TFC_OK, or TFC_EPARSE: of a message that was never sent. */
int tfc__agent_link_clear(struct tfc__agent_link *link, uint64_t number);

/*
 * A new connection, over which the other end has reported the last number it received: all later
 * messages are sent again. TFC_OK, or TFC_EPARSE: the other end lacks a message that it had
 * acknowledged, or has one that was never sent; it is not the same end as before.
 */
int tfc__agent_link_resume(struct tfc__agent_link *link, uint64_t received);

#endif
