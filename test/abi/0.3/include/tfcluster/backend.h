/*
 * Backends: tables of functions by which a host provides a transport, a membership or a store of
 * its own. The first argument of a table's functions is `impl`, the pointer that the host gives
 * beside the table. A conformance suite in test/conformance checks each kind of backend.
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

/* The library's side of a connection and of a listener, which a transport notifies. */
typedef struct tfc_pipe tfc_pipe;
typedef struct tfc_listener tfc_listener;

enum tfc_pipe_events {
	TFC_PIPE_EVENT_READABLE = 1,
	TFC_PIPE_EVENT_WRITABLE = 2,
};

/* What a transport guarantees. */
enum tfc_transport_traits {
	/* It knows for certain who is at the other end (tfc_pipe_info), and nobody else can read
	 * what it carries: the library uses no keys on it. Without this trait the library protects
	 * connections with Noise whenever there is a key file. */
	TFC_TRANSPORT_TRAIT_AUTHENTIC = 1,
};

/* How a transport has to dial or listen. */
enum tfc_transport_flags {
	/* No key will protect the connection: refuse (TFC_EINVAL) where anybody but users of this
	 * machine could read it or connect. */
	TFC_TRANSPORT_FLAG_PLAIN = 1,
	/* listen: users other than the node's own must be able to connect. The library decides by
	 * tfc_pipe_info which of them it accepts. */
	TFC_TRANSPORT_FLAG_OTHER_USERS = 2,
};

enum tfc_pipe_flags {
	/* uid, gid and groups are certain to be those of the other end */
	TFC_PIPE_FLAG_HAS_USER = 1,
	/* the transport guarantees that the other end is a node */
	TFC_PIPE_FLAG_IS_NODE = 2,
};

enum {
	TFC_PIPE_GROUPS_MAX = 64,
};

/* Who is at the other end of a pipe. */
typedef struct tfc_pipe_info {
	uint32_t size;
	uint32_t flags;       /* enum tfc_pipe_flags; 0: unknown, refused unless it has a key */
	uint32_t uid;         /* with TFC_PIPE_FLAG_HAS_USER */
	uint32_t gid;         /* with TFC_PIPE_FLAG_HAS_USER; UINT32_MAX: unknown */
	uint32_t pid;         /* of the other end; 0: unknown */
	uint32_t group_count; /* entries of groups */
	uint32_t groups[TFC_PIPE_GROUPS_MAX]; /* supplementary groups, as many as fit */
	char address[128];                    /* where it is, for people to read */
} tfc_pipe_info;

/*
 * A transport: ordered, reliable streams of bytes that never block. The library calls these
 * functions on the context's thread only, and the transport calls tfc_pipe_ready and
 * tfc_listener_accept on that thread only (events of another thread go through tfc_ctx_post).
 * `pipe_impl` and `listener_impl` are the transport's own objects behind one connection and one
 * listener. A function that fails returns an enum tfc_err, below 0, and sets *error, which is never
 * NULL. Only fini may be NULL.
 */
typedef struct tfc_transport_ops {
	uint32_t size;      /* sizeof(tfc_transport_ops) */
	uint32_t traits;    /* enum tfc_transport_traits */
	const char *scheme; /* of its addresses, "SCHEME:..."; copied */

	/* Begins to connect to `address`, scheme included, and sets *ret_pipe_impl. Notifies with
	 * tfc_pipe_ready once the pipe is connected or has failed; until then describe returns
	 * TFC_ESTATE. `flags` is of enum tfc_transport_flags. `pipe` is valid until close; after a
	 * failure of dial it is not valid. */
	int (*dial)(void *impl, const char *address, uint32_t flags, tfc_pipe *pipe,
		    void **ret_pipe_impl, tfc_error *error);

	/* Listens, sets *ret_listener_impl, and passes each connection to tfc_listener_accept.
	 * `flags` is of enum tfc_transport_flags. `listener` is valid until listener_close. */
	int (*listen)(void *impl, const char *address, uint32_t flags, tfc_listener *listener,
		      void **ret_listener_impl, tfc_error *error);
	/* The address to dial, with the port that was chosen. Borrowed: valid until listener_close.
	 */
	const char *(*listener_address)(void *listener_impl);
	/* Accepts no more connections, and frees listener_impl. Connections that were passed on
	 * stay open. */
	void (*listener_close)(void *listener_impl);

	/* Describes the other end. Returns TFC_OK; TFC_ESTATE until the pipe is connected; or the
	 * reason why it could not connect. On entry `info` is zero except for its size. */
	int (*describe)(void *pipe_impl, tfc_pipe_info *info, tfc_error *error);

	/* Reads up to `len` bytes and returns their number. Returns 0 when there are none now;
	 * tfc_pipe_ready notifies of the next ones. Returns below 0 on failure: TFC_ELOST when the
	 * other end has closed. */
	int64_t (*read)(void *pipe_impl, void *data, size_t len, tfc_error *error);

	/* Returns the number of bytes accepted, which are sent without a further call. Returns 0
	 * when there is no room now, below 0 on failure. Unless all bytes were accepted,
	 * tfc_pipe_ready notifies when there is room. */
	int64_t (*write)(void *pipe_impl, const void *data, size_t len, tfc_error *error);

	/* The library waits for `events`, of enum tfc_pipe_events, from now on; for both at first.
	 * A transport that polls may skip the others; notifying of them does no harm. */
	void (*want)(void *pipe_impl, uint32_t events);

	/* Ends the connection at once and frees pipe_impl. The pipe is then invalid: tfc_pipe_ready
	 * must not be called any more. Bytes that were accepted still arrive where that is
	 * possible. */
	void (*close)(void *pipe_impl);

	void (*fini)(void *impl); /* once, when the context ends; may be NULL */
} tfc_transport_ops;

#define TFC_TRANSPORT_OPS_INIT                                                \
	{                                                                     \
		sizeof(tfc_transport_ops), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_transport_ops_init(tfc_transport_ops *ops, uint32_t size);

/**
 * Makes addresses of the scheme usable on this context, until it ends. `ops` is copied. In a forked
 * child, fini is not called. Thread: the context's. Errors: TFC_EINVAL, TFC_ENOTSUP, TFC_EBUSY (the
 * scheme is registered already), TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_transport_register(tfc_ctx *ctx, const tfc_transport_ops *ops, void *impl);

/**
 * Called by transports: the pipe can be read or written, or has connected or failed. The library
 * handles it in the next dispatch, never inside this call. `events` is of enum tfc_pipe_events.
 * Thread: the context's. Errors: none.
 */
TFC_API void tfc_pipe_ready(tfc_pipe *pipe, uint32_t events);

/**
 * Called by transports: a client has connected, and `pipe_impl` is the transport's side of the
 * connection. On success *ret_pipe is the library's side, borrowed until ops.close. On failure the
 * transport still owns pipe_impl, and frees it. This call calls no function of the table. Thread:
 * the context's. Errors: TFC_EINVAL, TFC_ENOMEM, TFC_EBUSY (too many connections).
 */
TFC_API int tfc_listener_accept(tfc_listener *listener, void *pipe_impl, tfc_pipe **ret_pipe);

/* ---- membership: which nodes there are */

/* The members of one node, which a membership keeps up to date. */
typedef struct tfc_membership tfc_membership;

enum tfc_membership_flags {
	/* The membership reports the members' states, too, with tfc_membership_set_state. Without
	 * this flag the node judges by its own connections, and that call is refused. */
	TFC_MEMBERSHIP_REPORTS_STATES = 1,
};

/*
 * A source of members. The library calls `start` inside tfc_node_open and `stop` when the node is
 * closed or cannot be opened. Neither may be NULL. Every node of a cluster must be given the same
 * names and addresses; the node itself may be among them.
 */
typedef struct tfc_membership_ops {
	uint32_t size;
	uint32_t flags; /* enum tfc_membership_flags */
	/* Begins to report the members, now and at every change until `stop`, through the calls
	 * below, on the context's thread. A result below 0, with *error set, makes tfc_node_open
	 * fail; `stop` is not called then. */
	int (*start)(void *impl, tfc_ctx *ctx, tfc_membership *membership, tfc_error *error);
	/* Reports nothing more: `membership` is invalid once this has returned. */
	void (*stop)(void *impl, tfc_membership *membership);
} tfc_membership_ops;

#define TFC_MEMBERSHIP_OPS_INIT                     \
	{                                           \
		sizeof(tfc_membership_ops), 0, 0, 0 \
	}

/** As tfc_ctx_options_init. */
TFC_API int tfc_membership_ops_init(tfc_membership_ops *ops, uint32_t size);

/**
 * Adds a member, or updates the member of that name; `state`, `is_self`, `is_draining`,
 * `silent_ms`, `rtt_us` and `was_reached` are ignored. Watches of the members are notified in a
 * later dispatch. `info` is copied. Thread: the context's. Errors: TFC_EINVAL (a field, named),
 * TFC_ENOTSUP, TFC_ENOMEM, TFC_EFORK.
 */
TFC_API int tfc_membership_put(tfc_membership *membership, const tfc_member_info *info);

/** Removes a member. Thread: the context's. Errors: TFC_EINVAL, TFC_ENOENT (no such member),
 * TFC_ESTATE (it is the node itself), TFC_EFORK. */
TFC_API int tfc_membership_remove(tfc_membership *membership, const char *name);

/** Sets the state of a member (enum tfc_member_state); a new member is suspect. The state of the
 * node itself does not change. Thread: the context's. Errors: TFC_EINVAL, TFC_ENOENT (no such
 * member), TFC_ESTATE (without TFC_MEMBERSHIP_REPORTS_STATES), TFC_EFORK. */
TFC_API int tfc_membership_set_state(tfc_membership *membership, const char *name, uint32_t state);

/* ---- store: where jobs outlive the process */

/* One record. Borrowed: valid during the call. */
typedef struct tfc_store_value {
	uint32_t size;     /* sizeof(tfc_store_value) */
	uint32_t reserved; /* 0 */
	const char *key;   /* "jobs/0123456789abcdef/record" */
	const void *data;  /* NULL: the record exists, but is damaged */
	uint64_t len;      /* bytes of data */
	/* Grows with each write of the key, also after the key was removed; never 0, never reused
	 */
	uint64_t version;
} tfc_store_value;

/*
 * Completes one request: the store calls it exactly once for each, in dispatch of the context or
 * inside the request itself. A store with threads of its own calls it through tfc_ctx_post. code: 0
 * or an enum tfc_err. values, count: the records that were read; after a put, one record with the
 * key's new version; else NULL and 0. They are borrowed: the library copies what it keeps. text: a
 * message about a failure, or NULL.
 */
typedef void (*tfc_store_done)(void *request, int32_t code, const tfc_store_value *values,
			       uint32_t count, const char *text);

/*
 * A store of the host's own. The library makes one request at a time: the next one follows the
 * completion of the one before. When the node is closed, the library makes the remaining writes and
 * removals without waiting for their completion, and calls `close`. A key is made of parts of
 * [A-Za-z0-9._-] with '/' between them, at most 255 bytes; no part begins with a dot, and no key is
 * the folder of another. Values have at most 8 MiB. Pointers are borrowed: valid during the call.
 * Only one node at a time may use a store. Only close may be NULL.
 */
typedef struct tfc_store_ops {
	uint32_t size;     /* sizeof(tfc_store_ops) */
	uint32_t reserved; /* 0 */
	/* Reads one value. TFC_ENOENT: no such key. TFC_EPARSE: it is damaged. */
	void (*get)(void *impl, const char *key, tfc_store_done done, void *request);
	/* Reads all values below a prefix that ends in '/' or is "", in the order of the keys'
	 * bytes; none is a success. TFC_EPARSE: some are damaged; these come without data, the
	 * others with it. */
	void (*list)(void *impl, const char *prefix, tfc_store_done done, void *request);
	/* Writes a value, which survives any crash once `done` was called with 0. `version`: the
	 * version that the key must have; 0: the key must not exist; UINT64_MAX: any. TFC_ESTATE:
	 * it has another version. TFC_ENOSPC, TFC_EACCES, TFC_ESYS: not written, the old value is
	 * unchanged. Any other code: it may have been written; the library reads the key or writes
	 * it again. */
	void (*put)(void *impl, const char *key, const void *data, uint64_t len, uint64_t version,
		    tfc_store_done done, void *request);
	/* Removes a key (TFC_ENOENT: there is none), or all keys below a prefix that ends in '/',
	 * either all of them or none; a prefix without keys is a success. */
	void (*remove)(void *impl, const char *key, tfc_store_done done, void *request);
	/* The library has finished with the store: pending requests must not be completed any more.
	 * May be NULL. */
	void (*close)(void *impl);
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
