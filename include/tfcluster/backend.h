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

/* One record. Borrowed: valid during the call it comes with. */
typedef struct tfc_store_value {
	uint32_t size;     /* sizeof(tfc_store_value) */
	uint32_t reserved; /* 0 */
	const char *key;   /* "jobs/0123456789abcdef/record" */
	const void *data;  /* NULL: the record is there, but damaged */
	uint64_t len;      /* bytes of data */
	uint64_t version;  /* grows with each write of the key; never 0, never used again */
} tfc_store_value;

/*
 * The answer to one request of the library, called by the store exactly once for each, inside
 * dispatch of the context (also inside the call that asks; from another thread, through
 * tfc_ctx_post). code: 0 or an enum tfc_err. values: what was asked for; of a put, the new version.
 * text: a sentence about a failure, or NULL.
 */
typedef void (*tfc_store_done)(void *request, int32_t code, const tfc_store_value *values,
			       uint32_t count, const char *text);

/*
 * A store of the host's own. `store` is what the host gave beside the table. The library asks for
 * one thing at a time: the next request comes after the answer to the one before. Keys are parts of
 * [A-Za-z0-9._-] with '/' between them, at most 255 bytes; no part begins with a dot, and no key is
 * the folder of another. Values are at most 8 MiB. Pointers are borrowed for the call.
 */
typedef struct tfc_store_ops {
	uint32_t size;     /* sizeof(tfc_store_ops) */
	uint32_t reserved; /* 0 */
	/* One value. TFC_ENOENT: no such key. TFC_EPARSE: it is damaged. */
	void (*get)(void *store, const char *key, tfc_store_done done, void *request);
	/* All values below a prefix that ends in '/', in the order of the keys' bytes. TFC_EPARSE:
	 * some are damaged: they come without data, the others with. */
	void (*list)(void *store, const char *prefix, tfc_store_done done, void *request);
	/* Writes a value; it outlives any crash once `done` was called with 0. `version`: the
	 * version that must be there; 0: none may be; UINT64_MAX: whatever is. TFC_ESTATE: another
	 * version is there. TFC_ENOSPC, TFC_EACCES, TFC_ESYS: not written, the old value stays. */
	void (*put)(void *store, const char *key, const void *data, uint64_t len, uint64_t version,
		    tfc_store_done done, void *request);
	/* Removes a key (TFC_ENOENT: there is none), or all below a prefix that ends in '/', which
	 * is done whole or not at all. */
	void (*remove)(void *store, const char *key, tfc_store_done done, void *request);
	/* The library is done with the store; requests under way are not answered any more. May be
	 * NULL. */
	void (*close)(void *store);
} tfc_store_ops;

#ifdef __cplusplus
}
#endif
#endif
