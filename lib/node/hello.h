/*
 * What two nodes say to each other first ("node.hello"): who they are, and what they offer.
 */
#ifndef TFC_NODE_HELLO_H
#define TFC_NODE_HELLO_H

#include "member/member.h"
#include "wire/fields.h"
#include "wire/keyring.h"

/* Of what nodes say to each other. It grows only when an older node could not take part. */
#define TFC__NODE_PROTOCOL 2 /* 1: 0.2 */

struct tfc__hello {
	uint32_t protocol;
	uint32_t version; /* tfc_version(), for the sentence */
	char name[64];
	char node_id[TFC__NODE_ID_SIZE];
	char boot_id[17];          /* of this run of the node */
	char to[64];               /* the node that is dialed; "": it does not say */
	tfc_member_info offer;     /* slots, memory, gpus, labels, is_draining */
	struct tfc__reader reader; /* has the labels after reading */
};

void tfc__hello_write(const struct tfc__hello *hello, struct tfc__buf *buf);

/* TFC_EPARSE when it says no name or identity, TFC_ENOMEM. To be ended in every case. */
int tfc__hello_read(const msgpack_object *map, struct tfc__hello *ret_hello, tfc_error *error);
void tfc__hello_fini(struct tfc__hello *hello);

/* Whether two nodes that said this can work together: TFC_ENOTSUP names both versions. */
int tfc__hello_check(const struct tfc__hello *own, const struct tfc__hello *other,
		     tfc_error *error);

#endif
