/*
 * Datagrams between nodes: UDP sockets at the node's tcp addresses, with the same port numbers. The
 * first four bytes of a datagram are its magic; each receiver is registered for one. All other
 * datagrams are dropped. Nothing here is protected: receivers must verify what they receive.
 */
#ifndef TFC_TRANSPORT_DATAGRAM_H
#define TFC_TRANSPORT_DATAGRAM_H

#include "ctx/ctx.h"
#include <sys/socket.h>

/* Bytes of the longest datagram: with the headers of IPv6 and UDP it fits any link of 1,448 bytes.
 */
#define TFC__DATAGRAM_MAX 1400
#define TFC__DATAGRAM_MAGIC 4 /* bytes */

struct tfc__datagrams; /* the sockets of one node */

/* Embedded. `fn` is called in dispatch with one datagram, at least TFC__DATAGRAM_MAGIC bytes.
 * `from` and `bytes` are borrowed. An IPv4 sender is AF_INET, at every socket. */
struct tfc__datagram_receiver {
	struct tfc__link link;
	uint8_t magic[TFC__DATAGRAM_MAGIC];
	void (*fn)(struct tfc__datagram_receiver *receiver, const struct sockaddr_storage *from,
		   const uint8_t *bytes, size_t len);
};

/* Without a socket yet. The caller owns *ret_datagrams. TFC_ENOMEM. */
int tfc__datagrams_open(tfc_ctx *ctx, tfc_error *error, struct tfc__datagrams **ret_datagrams);
/* Legal in any callback. NULL is a no-op. */
void tfc__datagrams_close(struct tfc__datagrams *datagrams);

/* Opens a socket at "tcp://ADDRESS:PORT", a numeric address with the actual port; "[::]" receives
 * on both families. TFC_EINVAL, TFC_EBUSY (another process has the port), TFC_ENOMEM, TFC_EMFILE,
 * TFC_ESYS. */
int tfc__datagrams_bind(struct tfc__datagrams *datagrams, const char *address, tfc_error *error);
/* The number of sockets. */
uint32_t tfc__datagrams_count(const struct tfc__datagrams *datagrams);

/* The caller has set `magic` and `fn`. */
void tfc__datagrams_add(struct tfc__datagrams *datagrams, struct tfc__datagram_receiver *receiver);
void tfc__datagrams_remove(struct tfc__datagram_receiver *receiver); /* a no-op when not added */

/* Sends from the socket that is nearest to the destination. A datagram that was sent may be lost.
 * Sets no text. TFC_ETOOBIG (over TFC__DATAGRAM_MAX; nothing was sent), TFC_EUNREACH (no socket
 * reaches that address, or the kernel refused it), TFC_EAGAIN (the socket's buffer is full). */
int tfc__datagrams_send(struct tfc__datagrams *datagrams, const struct sockaddr_storage *to,
			const void *bytes, size_t len);

#endif
