/*
 * The first call between two nodes ("node.hello"): their identities and what they offer.
 */
#ifndef TFC_NODE_HELLO_H
#define TFC_NODE_HELLO_H

#include "member/member.h"
#include "wire/fields.h"
#include "wire/keyring.h"

/* The version of the protocol between nodes. It is raised only when an older node could not take
 * part. */
#define TFC__NODE_PROTOCOL 2 /* 1: version 0.2 */

struct tfc__hello {
	uint32_t protocol;
	uint32_t version; /* tfc_version(), for the error text */
	char name[64];
	char node_id[TFC__NODE_ID_SIZE];
	char boot_id[17];          /* of this incarnation of the node */
	char to[64];               /* the dialed node; "": not specified */
	tfc_member_info offer;     /* slots, memory, gpus, labels, is_draining */
	struct tfc__reader reader; /* owns the labels after reading */
};

void tfc__hello_write(const struct tfc__hello *hello, struct tfc__buf *buf);

/* TFC_EPARSE if the name or identity is missing, TFC_ENOMEM. Call tfc__hello_fini in any case. */
int tfc__hello_read(const msgpack_object *map, tfc_error *error, struct tfc__hello *ret_hello);
void tfc__hello_fini(struct tfc__hello *hello);

/* Whether two nodes with these hellos are compatible: TFC_ENOTSUP names both versions. */
int tfc__hello_check(const struct tfc__hello *own, const struct tfc__hello *other,
		     tfc_error *error);

#endif
