/*
 * Shared by rpc.c (the connection), rpc_call.c (calls from this end) and rpc_request.c (requests
 * from the other end).
 *
 * At both ends a request is open from its message until its response. An id stays in the caller's
 * table even when the caller no longer waits for the response, so that a late message can be
 * distinguished from a protocol error.
 */
#ifndef TFC_WIRE_INTERNAL_H
#define TFC_WIRE_INTERNAL_H

#include "wire/rpc.h"

enum {
	BUCKETS = 16,
	OBJECTS_MAX = 262144, /* the most values in one message */
	PEER_MAX_LEAST = 65536,
};

/* The numbers are part of the wire format. */
enum kind {
	REQUEST = 0,
	RESPONSE = 1,
	NOTIFY = 2,
	CANCEL = 3,
	ITEM = 4,
	CREDIT = 5,
	HELLO = 6,
	KIND_COUNT = 7,
};

/* Open ids. Ids increase, so they spread evenly over the buckets. */
struct table {
	struct tfc__link buckets[BUCKETS];
	uint32_t count;
	uint64_t last; /* the highest id used so far */
};

/* The first member of a call or request. */
struct rpc_entry {
	struct tfc__link link; /* in a bucket, or in no list */
	struct tfc__link all;  /* in `all` of the connection, which frees it */
	uint64_t id;
};

struct tfc__rpc {
	tfc_ctx *ctx;
	const struct tfc__rpc_ops *ops;
	void *user;
	uint32_t holds; /* reference count: the owner, each call, each request, a running feed */
	bool is_closed;
	bool is_broken;
	bool is_greeted;       /* the other end's hello was received */
	uint32_t peer_version; /* of the other end's library; 0: unknown */
	uint64_t message_max;  /* the smaller limit of both ends */
	struct table calls;
	struct table requests;
	struct tfc__link all;
	struct tfc__link waiters; /* struct tfc__rpc_waiter */
	struct tfc__work room_work;
	size_t feeding;    /* bytes of the message being handled */
	uint64_t received; /* number of messages */
	uint64_t sent;     /* likewise */
	struct tfc__work break_work;
	tfc_error error; /* the reason for is_broken or is_closed */
	tfc_op life;     /* frees the connection with the context */
};

struct tfc__rpc_call {
	struct rpc_entry entry;
	struct tfc__rpc *rpc; /* held */
	uint64_t credit;
	bool is_canceled; /* canceled; `end` is still to be called, with TFC_ECANCELED */
	bool is_over;     /* `end` was called, or the owner has dropped the call */
	tfc__rpc_item_fn item;
	tfc__rpc_item_bytes_fn item_bytes;
	tfc__rpc_end_fn end;
	void *user;
	uint32_t timeout_ms;
	struct tfc__timer timer;
	struct tfc__work work;
};

struct tfc__rpc_request {
	struct rpc_entry entry;
	struct tfc__rpc *rpc; /* held */
	uint32_t credit;
	size_t len; /* bytes of its message plus `reserved`, as counted by the owner */
	size_t reserved;
	bool is_canceled;
	struct tfc__rpc_waiter waiter;
	void (*on_credit)(void *user);
	void (*on_cancel)(void *user);
	void *user;
	struct tfc__timer timer;
	struct tfc__work work; /* calls on_cancel */
};

/* ---- rpc.c */

void tfc__rpc_insert(struct table *table, struct rpc_entry *entry, uint64_t id);
struct rpc_entry *tfc__rpc_find(const struct table *table, uint64_t id);
void tfc__rpc_remove(struct table *table, struct rpc_entry *entry); /* a no-op if removed already */

/* Allocate and free an entry of `size` bytes, which holds a reference to the connection. NULL: out
 * of memory. */
void *tfc__rpc_new(struct tfc__rpc *rpc, size_t size);
void tfc__rpc_free(struct tfc__rpc *rpc, struct rpc_entry *entry);

/* Begins a message: writes the array's head and the kind. */
void tfc__rpc_begin(struct tfc__buf *message, enum kind kind, uint32_t items);
/* Adds one encoded value; NULL: nil. */
void tfc__rpc_add(struct tfc__buf *message, const struct tfc__buf *value);
/* Sends a message, or frees it after an error: TFC_ENOMEM, TFC_ELOST, TFC_ETOOBIG. */
int tfc__rpc_send(struct tfc__rpc *rpc, struct tfc__buf *message, tfc_error *error);
/* Sends a message that must not be dropped: the connection breaks when out of memory. */
void tfc__rpc_must_send(struct tfc__rpc *rpc, struct tfc__buf *message);

/* Reports that the other end violated the protocol. The error's component is "wire". */
int tfc__rpc_refuse(tfc_error *error, const char *what);

/* ---- received messages. `items` are the elements after the kind, at least as many as the kind
 * requires. TFC_EPARSE breaks the connection */

int tfc__rpc_on_response(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_item(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
/* Handles a message that is an item of a call with item_bytes and has no more than the item: 1; 0:
 * it is another message, which has to be parsed; or an error. */
int tfc__rpc_on_item_bytes(struct tfc__rpc *rpc, const uint8_t *message, size_t len,
			   tfc_error *error);
/* Reads the beginning of a message, "[kind, id, ...", which may be truncated, and advances *at.
 * *ret_count: the elements of the message, with kind and id. Returns false if it has no such
 * beginning. */
bool tfc__rpc_read_head(const uint8_t **at, const uint8_t *end, uint32_t *ret_count,
			uint64_t *ret_kind, uint64_t *ret_id);
int tfc__rpc_on_request(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_notify(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_cancel(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_credit(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);

/* ---- when the connection is closed */

void tfc__rpc_call_lost(struct tfc__rpc_call *call);
void tfc__rpc_request_lost(struct tfc__rpc_request *request);

#endif
