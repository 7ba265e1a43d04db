/*
 * Membership: the nodes of the cluster and their states. A backend (static_file.h, or one of the
 * host: tfcluster/backend.h) reports members; the table of members is the same for all backends.
 *
 * A state is only a suggestion. A suspect node's tasks are not restarted elsewhere. The tasks of a
 * node that is down are restarted only once it is fenced (doc/internals/epochs-and-leases.md).
 */
#ifndef TFC_MEMBER_MEMBER_H
#define TFC_MEMBER_MEMBER_H

#include "base/observers.h"
#include "ctx/ctx.h"
#include "member/probe.h"
#include <tfcluster/backend.h>
#include <tfcluster/member.h>

struct tfc__members;

/* A row of the table. Borrowed: valid until TFC__MEMBER_REMOVED has been reported. */
struct tfc__member {
	struct tfc__link link;
	char *name;
	/* "tcp://HOST:PORT" where the node listens; NULL: no other node can connect */
	char *address;
	char *node_id;     /* pinned, or NULL */
	uint32_t state;    /* enum tfc_member_state */
	uint64_t since_ns; /* when the state began, tfc__now */
	bool was_reached;  /* it was alive since it was added */
	/* Since it was last alive, a connection to it failed to authenticate: its key or identity
	 * is another one. */
	bool has_mismatch;
	bool is_self;
	bool is_draining; /* receives no new tasks */
	bool is_out;      /* removed; the row stays until the removal has been reported */
	/* capacity; 0 slots, 0 memory: no limit */
	uint32_t slots;
	uint64_t memory_bytes;
	uint32_t gpus;
	char **labels; /* "K=V", sorted; NULL-terminated; or NULL */
	void *owner;   /* set by the node module, which keeps the connection to the member */
};

/* Changes that observers are notified of, in a turn of dispatch of its own. Successive changes of a
 * member are reported as one event. Members that are in the table when an observer is added are not
 * reported to it, unless they were added in the same turn. `member` is valid while its removal is
 * reported and freed afterwards. */
enum tfc__member_change { TFC__MEMBER_ADDED = 1, TFC__MEMBER_CHANGED, TFC__MEMBER_REMOVED };
struct tfc__member_event {
	struct tfc__member *member;
	enum tfc__member_change change;
};

/* Embedded. `fn` is called in dispatch, once per period for each member of which nothing was
 * received lately. */
struct tfc__member_prober {
	void (*fn)(struct tfc__member_prober *prober, struct tfc__member *member);
};

/* Embedded. Of a backend that reports states: what this node's connections observe of a member.
 * `fn` is called in dispatch; received: at most ten times a second for each member. */
enum tfc__member_observation {
	TFC__MEMBER_RECEIVED = 1, /* a message */
	TFC__MEMBER_BROKEN,       /* its connection has ended */
	TFC__MEMBER_REFUSED,      /* nothing listens at its address */
	TFC__MEMBER_UNREACHED,    /* it did not respond in time */
};
struct tfc__member_evidence {
	void (*fn)(struct tfc__member_evidence *evidence, const struct tfc__member *member,
		   enum tfc__member_observation what);
};

struct tfc__members_options {
	/* This node; `name` is required. Other fields that are set override those of the
	 * backend. */
	const tfc_member_info *self;
	const tfc_membership_ops *ops; /* NULL: this node is the only one */
	void *user;                    /* of ops */
	struct tfc__probe_times times; /* zeros: the defaults */
};

/* Makes the table, with this node and the members that the backend reports while it starts. Returns
 * TFC_EINVAL, TFC_ENOMEM, or an error of the backend's `start`. */
int tfc__members_open(tfc_ctx *ctx, const struct tfc__members_options *options, tfc_error *error,
		      struct tfc__members **ret_members);
/* Closes the table; observers are not notified. NULL is a no-op. */
void tfc__members_close(struct tfc__members *members);

/* All rows, sorted by name, including removed members whose removal was not reported yet. */
const struct tfc__link *tfc__members_all(const struct tfc__members *members);
uint32_t tfc__members_count(const struct tfc__members *members);
struct tfc__member *tfc__members_find(struct tfc__members *members, const char *name);
/* Whether no other node can ever join: there is no backend. */
bool tfc__members_is_alone(const struct tfc__members *members);
/* Whether the backend still searches for the other nodes: those that are known may be few of them.
 */
bool tfc__members_are_joining(const struct tfc__members *members);
void tfc__members_set_joining(struct tfc__members *members, bool are_joining);
/* Whether the search for this node's GPUs is still running. */
bool tfc__members_is_finding(const struct tfc__members *members);
struct tfc__member *tfc__members_self(const struct tfc__members *members);
void tfc__members_watch(struct tfc__members *members, struct tfc__observer *observer);
void tfc__members_set_prober(struct tfc__members *members, struct tfc__member_prober *prober);

/* Fills in the public struct; its strings are borrowed from the member. */
void tfc__member_info(const struct tfc__member *member, tfc_member_info *ret_info);

/* ---- observations of the node's connections */

/* Something was received from the member, on any connection. */
void tfc__members_received(struct tfc__members *members, struct tfc__member *member);
/* A connection to the member has ended. is_refused: nothing listens at its address. */
void tfc__members_broken(struct tfc__members *members, struct tfc__member *member, bool is_refused);
/* The member did not respond in time: to a request, or to a new connection. A backend that reports
 * states may know from others that it is alive; for this node it is of no use. */
void tfc__members_unreached(struct tfc__members *members, struct tfc__member *member);
/* A connection to the member failed to authenticate. */
void tfc__members_mismatched(struct tfc__member *member);
/* The member has announced that it leaves. */
void tfc__members_left(struct tfc__members *members, struct tfc__member *member);
/* The member has reported its own slots, memory, gpus, labels and is_draining. From now on they
 * override the backend's. name, address and node_id of `info` are ignored. */
int tfc__members_learn(struct tfc__members *members, struct tfc__member *member,
		       const tfc_member_info *info, tfc_error *error);
/* The address at which this node listens. It has no effect if the node has a member list or an
 * address already. TFC_OK or TFC_ENOMEM. */
int tfc__members_set_own_address(struct tfc__members *members, const char *address);
/* The number of GPUs found on this node, which overrides the backend's. is_final: the search is
 * complete. */
void tfc__members_set_gpus(struct tfc__members *members, uint32_t gpus, bool is_final);
void tfc__members_set_draining(struct tfc__members *members, struct tfc__member *member,
			       bool is_draining);

/* ---- for backends */

struct tfc__members *tfc__members_of(tfc_membership *membership);
tfc_membership *tfc__members_face(struct tfc__members *members);
void tfc__members_set_evidence(struct tfc__members *members, struct tfc__member_evidence *evidence);

/* Checks a member's fields. The error text begins with the field's name ("address: must be
 * ..."). */
int tfc__member_check(const tfc_member_info *info, tfc_error *error);

#endif
