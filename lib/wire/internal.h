/*
 * What the files of rpc share: rpc.c (the connection), rpc_call.c (calls that this end made),
 * rpc_request.c (those of the other end).
 *
 * A request is open from its message until its response's, at both ends: an id is in the caller's
 * table even when nobody waits for the answer any more, so that each message can be told from one
 * that must not come.
 */
#ifndef TFC_WIRE_INTERNAL_H
#define TFC_WIRE_INTERNAL_H

#include "wire/rpc.h"

enum {
	BUCKETS = 16,
	OBJECTS_MAX = 262144, /* values in one message */
	PEER_MAX_LEAST = 65536,
};

/* The numbers are on the wire. */
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

/* Open ids. They only grow, so they spread well. */
struct table {
	struct tfc__link buckets[BUCKETS];
	uint32_t count;
	uint64_t last; /* the highest id so far */
};

/* The beginning of a call or request. */
struct entry {
	struct tfc__link link; /* of a bucket, or of none */
	struct tfc__link all;  /* of all that the connection must not outlive */
	uint64_t id;
};

struct tfc__rpc {
	tfc_ctx *ctx;
	const struct tfc__rpc_ops *ops;
	void *user;
	uint32_t holds; /* the owner, each call, each request, a feed */
	bool is_closed;
	bool is_broken;
	bool is_greeted;      /* the other end's hello is here */
	uint64_t message_max; /* of both ends */
	struct table calls;
	struct table requests;
	struct tfc__link all;
	struct tfc__link waiters; /* struct tfc__rpc_waiter: for room */
	struct tfc__work room_work;
	size_t feeding; /* bytes of the message at hand */
	struct tfc__work break_work;
	tfc_error error; /* why it is broken or closed */
	tfc_op life;     /* frees it with the context */
};

struct tfc__rpc_call {
	struct entry entry;
	struct tfc__rpc *rpc; /* held */
	uint64_t credit;
	bool is_canceled; /* `end` is owed, with TFC_ECANCELED */
	bool is_over;     /* `end` was called, or the owner has gone */
	tfc__rpc_item_fn item;
	tfc__rpc_end_fn end;
	void *user;
	uint32_t timeout_ms;
	struct tfc__timer timer;
	struct tfc__work work;
};

struct tfc__rpc_request {
	struct entry entry;
	struct tfc__rpc *rpc; /* held */
	uint32_t credit;
	size_t len; /* of its message and what it has reserved, as counted by the owner */
	size_t reserved;
	bool is_canceled;
	struct tfc__rpc_waiter waiter;
	void (*on_credit)(void *user);
	void (*on_cancel)(void *user);
	void *user;
	struct tfc__timer timer;
	struct tfc__work work; /* on_cancel, later */
};

/* ---- rpc.c */

void tfc__rpc_enter(struct table *table, struct entry *entry, uint64_t id);
struct entry *tfc__rpc_find(const struct table *table, uint64_t id);
void tfc__rpc_remove(struct table *table, struct entry *entry); /* twice is harmless */

/* Makes and frees an entry of `size` bytes, which holds the connection. NULL: out of memory. */
void *tfc__rpc_new(struct tfc__rpc *rpc, size_t size);
void tfc__rpc_free(struct tfc__rpc *rpc, struct entry *entry);

/* Begins a message: its list and its kind. */
void tfc__rpc_begin(struct tfc__buf *message, enum kind kind, uint32_t items);
/* One value as it is; NULL: nil. */
void tfc__rpc_add(struct tfc__buf *message, const struct tfc__buf *value);
/* Hands it over, or frees it: TFC_ENOMEM, TFC_ELOST, TFC_ETOOBIG. */
int tfc__rpc_send(struct tfc__rpc *rpc, struct tfc__buf *message, tfc_error *error);
/* The same of one that cannot be left out: when memory is short, the connection breaks. */
void tfc__rpc_must_send(struct tfc__rpc *rpc, struct tfc__buf *message);

/* The other end broke the protocol. `room` of the sentence is wire. */
int tfc__rpc_refuse(tfc_error *error, const char *what);

/* ---- what comes in. `items` are behind the kind, as many as it needs. TFC_EPARSE: broken */

int tfc__rpc_on_response(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_item(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_request(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_notify(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_cancel(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);
int tfc__rpc_on_credit(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error);

/* ---- the connection is closed */

void tfc__rpc_lose_call(struct tfc__rpc_call *call);
void tfc__rpc_lose_request(struct tfc__rpc_request *request);

#endif
