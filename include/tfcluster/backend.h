/*
 * For those who bring a part of their own: tables of functions that a host fills in and registers.
 * Each table has a conformance suite in test/conformance that a backend must pass.
 */
#ifndef TFCLUSTER_BACKEND_H
#define TFCLUSTER_BACKEND_H

#include <stddef.h>
#include <stdint.h>
#include <tfcluster/ctx.h>
#include <tfcluster/member.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- transport: how bytes get from node to node */

typedef struct tfc_transport_ops tfc_transport_ops;

/* ---- membership: which nodes there are */

/* The table of members of one node, as a membership fills it. */
typedef struct tfc_membership tfc_membership;

/* It tells the states, too, with tfc_membership_state. Without this flag the node judges by its own
 * connections to the members, and tfc_membership_state is refused. */
#define TFC_MEMBERSHIP_TELLS_STATES 1u

/*
 * A source of members. Both functions run where the node is opened and closed, or in dispatch.
 * Every node of a cluster must be told the same names and addresses; the node itself may be among
 * them.
 */
typedef struct tfc_membership_ops {
	uint32_t size;
	uint32_t flags; /* TFC_MEMBERSHIP_... */
	/* Begins to tell, now and at every change until `stop`, through the calls below, on the
	 * context's thread. What it returns below 0, with a sentence in *error, ends the opening of
	 * the node; `stop` is not called then. */
	int (*start)(void *user, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error);
	/* Tells nothing more: `membership` is gone when this has returned. */
	void (*stop)(void *user, tfc_membership *membership);
} tfc_membership_ops;

#define TFC_MEMBERSHIP_OPS_INIT                     \
	{                                           \
		sizeof(tfc_membership_ops), 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_membership_ops_init(tfc_membership_ops *ops, uint32_t size);

/**
 * Adds a member or changes what is known of the one of that name; `state`, `is_self` and
 * `is_draining` are not read. Whoever watches the members is told in a later dispatch. All is
 * copied. Thread: the context's. Errors: TFC_EINVAL (a field, named), TFC_ENOTSUP, TFC_ENOMEM,
 * TFC_EFORK.
 */
TFC_API int tfc_membership_put(tfc_membership *membership, const tfc_member_info *info);

/** Takes a member out. Thread: the context's. Errors: TFC_EINVAL, TFC_ENOENT (no such member),
 * TFC_ESTATE (the node itself cannot be taken out), TFC_EFORK. */
TFC_API int tfc_membership_remove(tfc_membership *membership, const char *name);

/** How a member is: enum tfc_member_state. A new one is suspect. Thread: the context's.
 * Errors: TFC_EINVAL, TFC_ENOENT (no such member), TFC_ESTATE (without
 * TFC_MEMBERSHIP_TELLS_STATES), TFC_EFORK. */
TFC_API int tfc_membership_state(tfc_membership *membership, const char *name, uint32_t state);

/* ---- store: where jobs are kept over the end of a process */

typedef struct tfc_store_ops tfc_store_ops;

#ifdef __cplusplus
}
#endif
#endif
