/*
 * A member of gossip in tests, without a node around it: the table, the shipped backend, a UDP
 * socket and a TCP listener at one loopback address. Several members share a context.
 */
#ifndef TEST_GOSSIP_MEMBER_H
#define TEST_GOSSIP_MEMBER_H

#include "member/gossip.h"
#include "transport/peer.h"

struct gossip_member {
	tfc_ctx *ctx; /* NULL: not started */
	struct tfc__members *members;
	struct tfc__gossip_membership *gossip;
	struct tfc__datagrams *datagrams;
	struct tfc__peer_listener *listener;
	struct tfc__link callers; /* connections that it has accepted */
	struct tfc__keyring *keyring;
	struct tfc__identity *identity;
	tfc_error refusal; /* it may not take part; code 0: it may */
	bool has_left;
	char name[64];
	char address[64];   /* "tcp://HOST:PORT" */
	char state_dir[96]; /* keeps identity and generation from one start to the next */
};

struct gossip_member_options {
	const char *key_file;        /* NULL: without a key */
	const char *state_dir;       /* exists */
	const tfc_member_info *self; /* name and address are required */
	const char *seed;            /* "tcp://HOST:PORT", or NULL */
	uint64_t interval_ns;        /* 0: the default */
};

/* A host of the loopback network that no other process uses: "127.A.B.C", from the process id. */
const char *gossip_member_host(void);

/* Starts; fails the test when it cannot. */
void gossip_member_start(struct gossip_member *member, tfc_ctx *ctx,
			 const struct gossip_member_options *options);
/* Begins to leave; `has_left` is set once that is announced. */
void gossip_member_leave(struct gossip_member *member);
/* Ends at once, as a killed process does; its state directory stays. */
void gossip_member_kill(struct gossip_member *member);

#endif
