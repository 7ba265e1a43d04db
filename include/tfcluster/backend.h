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

/* The library's side of a connection and of a listener: what a transport tells its news to. */
typedef struct tfc_pipe tfc_pipe;
typedef struct tfc_listener tfc_listener;

enum tfc_pipe_events {
	TFC_PIPE_EVENT_READABLE = 1,
	TFC_PIPE_EVENT_WRITABLE = 2,
};

/* What a transport says of itself. */
enum tfc_transport_traits {
	/* It knows for certain who is at the other end (tfc_pipe_info) and nobody reads along: keys
	 * are not used on it. Without, Noise protects it whenever there is a key file. */
	TFC_TRANSPORT_TRAIT_AUTHENTIC = 1,
};

/* How it is to dial or listen. */
enum tfc_transport_flags {
	/* No key will protect what goes over it: refuse (TFC_EINVAL) where anybody but users of
	 * this machine could read along or connect. */
	TFC_TRANSPORT_FLAG_PLAIN = 1,
	/* listen: users other than the own one are to reach it, too; who of them is let in is
	 * decided by tfc_pipe_info. */
	TFC_TRANSPORT_FLAG_OTHER_USERS = 2,
};

enum tfc_pipe_flags {
	TFC_PIPE_FLAG_HAS_USER = 1, /* uid, gid and groups are the other end's, and certain */
	TFC_PIPE_FLAG_IS_NODE = 2, /* the transport vouches: the other end may do what a node may */
};

#define TFC_PIPE_GROUPS_MAX 64

/* Who is at the other end of a pipe. */
typedef struct tfc_pipe_info {
	uint32_t size;
	uint32_t flags;       /* enum tfc_pipe_flags; 0: unknown, and without a key refused */
	uint32_t uid;         /* with TFC_PIPE_FLAG_HAS_USER */
	uint32_t gid;         /* with TFC_PIPE_FLAG_HAS_USER; UINT32_MAX: unknown */
	uint32_t pid;         /* or 0 */
	uint32_t group_count; /* entries of groups */
	uint32_t groups[TFC_PIPE_GROUPS_MAX]; /* supplementary ones, as far as they fit */
	char address[128];                    /* where it is, in words */
} tfc_pipe_info;

/*
 * A transport: ordered, reliable streams of bytes that never block. All its functions are called on
 * the context's thread, and it calls tfc_pipe_ready and tfc_listener_accept on that thread only
 * (news from another one go through tfc_ctx_post). `state` is the transport's own, one a pipe or
 * listener. Failures are an enum tfc_err and a sentence in *error, which is never NULL.
 */
typedef struct tfc_transport_ops {
	uint32_t size;      /* sizeof(tfc_transport_ops) */
	uint32_t traits;    /* enum tfc_transport_traits */
	const char *scheme; /* of its addresses, "SCHEME:..."; copied */

	/* Begins to connect to `address`, the scheme included, and fills *ret_state. Once it is
	 * connected or has failed, tfc_pipe_ready is called; until then describe gives
	 * TFC_ESTATE. `flags` is of enum tfc_transport_flags. */
	int (*dial)(void *user, const char *address, uint32_t flags, tfc_pipe *pipe,
		    void **ret_state, tfc_error *error);

	/* Listens, and hands each connection to tfc_listener_accept. */
	int (*listen)(void *user, const char *address, uint32_t flags, tfc_listener *listener,
		      void **ret_state, tfc_error *error);
	/* The address to be dialed, with what was chosen (a port); borrowed. */
	const char *(*listener_address)(void *listener_state);
	/* No more connections; those that were handed on stay. */
	void (*listener_close)(void *listener_state);

	/* TFC_OK, TFC_ESTATE while it is not connected, or why it could not be connected. `info` is
	 * all zero but for its size. */
	int (*describe)(void *state, tfc_pipe_info *info, tfc_error *error);

	/* How many bytes were read, 0 when there are none now, or the failure: TFC_ELOST when the
	 * other end has closed. After 0, tfc_pipe_ready tells of the next ones. */
	int64_t (*read)(void *state, void *data, size_t len, tfc_error *error);

	/* How many of the bytes were taken, 0 when there is no room now, or the failure. When not
	 * all were taken, tfc_pipe_ready tells of the room. What was taken is on its way without
	 * another call. */
	int64_t (*write)(void *state, const void *data, size_t len, tfc_error *error);

	/* Which of enum tfc_pipe_events it should tell of from now on, for those who poll: whatever
	 * else is told does no harm. Both at the beginning. */
	void (*want)(void *state, uint32_t events);

	/* Ends the connection at once and frees the state: tfc_pipe_ready must not be called any
	 * more. What was written before still arrives where it can. */
	void (*close)(void *state);

	void (*fini)(void *user); /* with the context, once; may be NULL */
} tfc_transport_ops;

#define TFC_TRANSPORT_OPS_INIT                                                \
	{                                                                     \
		sizeof(tfc_transport_ops), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_transport_ops_init(tfc_transport_ops *ops, uint32_t size);

/**
 * Makes addresses of the scheme usable on this context. A scheme that is there already is
 * TFC_EBUSY. `ops` is copied. In a forked child, fini is not called. Thread: the context's. Errors:
 * TFC_EINVAL, TFC_ENOTSUP, TFC_EBUSY, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_transport_register(tfc_ctx *ctx, const tfc_transport_ops *ops, void *user);

/**
 * For transports: something can be read, written, or has changed (connected, failed). The library
 * looks into it in the next dispatch, never inside this call. `events` is of enum tfc_pipe_events.
 * Thread: the context's. Errors: none.
 */
TFC_API void tfc_pipe_ready(tfc_pipe *pipe, uint32_t events);

/**
 * For transports: a connection has come, and `state` is its state. TFC_OK: *ret_pipe is the
 * library's side, borrowed until ops.close. Else it is not taken, and the transport owns `state` as
 * before and frees it. Calls nothing of the table. Thread: the context's. Errors: TFC_EINVAL,
 * TFC_ENOMEM, TFC_EBUSY (too many at once).
 */
TFC_API int tfc_listener_accept(tfc_listener *listener, void *state, tfc_pipe **ret_pipe);

/* ---- membership: which nodes there are */

/* The table of members of one node, as a membership fills it. */
typedef struct tfc_membership tfc_membership;

/* It tells the states, too, with tfc_membership_set_state. Without this flag the node judges by its
 * own connections to the members, and tfc_membership_set_state is refused. */
#define TFC_MEMBERSHIP_REPORTS_STATES 1u

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
 * TFC_MEMBERSHIP_REPORTS_STATES), TFC_EFORK. */
TFC_API int tfc_membership_set_state(tfc_membership *membership, const char *name, uint32_t state);

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

#define TFC_STORE_OPS_INIT                              \
	{                                               \
		sizeof(tfc_store_ops), 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_store_ops_init(tfc_store_ops *ops, uint32_t size);

#ifdef __cplusplus
}
#endif
#endif
