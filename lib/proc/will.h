/*
 * A node's last will: the secret that its guard publishes once the node's process is dead and all
 * that it ever started has ended. doc/internals/epochs-and-leases.md has the argument.
 *
 * The will is one message of fixed size, which is sent in the clear, and its commitment is the
 * SHA-256 of all of it behind the preamble. A maintainer that was given the commitment over an
 * authenticated connection recognizes the will by it.
 *
 *   bytes
 *    0-15   preamble of a connection (doc/internals/wire-format.md), with mode 3
 *   16-31   "tfcluster will" and two NULs
 *   32-39   id of the node's first key for nodes; 0 without keys
 *   40-55   node id
 *   56-71   the machine's boot id
 *   72-79   the node's incarnation: "boot" of agent.stamp
 *   80-87   which guard of the incarnation, from 1
 *   88-119  secret
 *
 * Numbers are big-endian. A receiver that knows the commitment responds with 16 bytes: the first
 * eight of the preamble, and the last eight of the secret. Over tcp or in a datagram, the bytes are
 * the same.
 */
#ifndef TFC_PROC_WILL_H
#define TFC_PROC_WILL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <tfcluster/ctx.h>

#include "proc/protocol.h"

#define TFC__WILL_MAGIC "\x89TFC" /* the first four bytes */
#define TFC__WILL_MODE 3
#define TFC__WILL_PREAMBLE 16
#define TFC__WILL_COMMITMENT 32

/* The commitment to a will, and the incarnation that the will is about. */
struct tfc__will_key {
	uint64_t incarnation; /* 0: no will is known */
	uint8_t commitment[TFC__WILL_COMMITMENT];
};

static inline bool tfc__will_key_is_equal(const struct tfc__will_key *a,
					  const struct tfc__will_key *b)
{
	return a->incarnation == b->incarnation &&
	       memcmp(a->commitment, b->commitment, sizeof(a->commitment)) == 0;
}

/* Whether the bytes of a datagram are a will, true or not. */
bool tfc__will_is_message(const uint8_t *bytes, size_t len);

/* The key of a message that was received; it may be anybody's. */
void tfc__will_key_of(const uint8_t message[TFC__WILL_MESSAGE], struct tfc__will_key *ret_key);

/* The response of a receiver that knows the commitment. */
void tfc__will_ack(const uint8_t message[TFC__WILL_MESSAGE], uint8_t ret_ack[TFC__WILL_ACK]);

struct tfc__will; /* of a context, in the process of the node */

struct tfc__will_options {
	uint8_t cluster[8];
	uint8_t node_id[16];
	uint64_t incarnation; /* not 0 */
};

/*
 * Only the first will of a context is published; later ones are never committed. Close it before
 * the context is freed. TFC_ENOMEM.
 */
int tfc__will_open(tfc_ctx *ctx, const struct tfc__will_options *options,
		   struct tfc__will **ret_will);
void tfc__will_close(struct tfc__will *will); /* the guard drops it. NULL is a no-op */

/*
 * The commitment to the will that the present guard has. A guard is given one only once no shim of
 * an earlier guard is left: a guard that publishes its will has observed the end of everything that
 * the incarnation ever started. False: there is no will now.
 */
bool tfc__will_commit(struct tfc__will *will, struct tfc__will_key *ret_key);

/* Where the guard sends the will; at most TFC__WILL_ADDRESSES. Copied. */
void tfc__will_send_to(struct tfc__will *will, const struct tfc__will_address *addresses,
		       uint32_t count);

#endif
