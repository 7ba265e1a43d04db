/*
 * Remote calls over an ordered, reliable stream of messages: request and response, notifications,
 * cancellation, deadlines, and streams with credit. The module has no sockets: received messages
 * are passed to tfc__rpc_feed, and messages to send are passed to `send`. Both ends may call.
 *
 * A message is a msgpack array (doc/internals/wire-format.md):
 *   [0, id, method, params, timeout_ms, credit]   request; credit: stream items that it allows
 *   [1, id, error or nil, result]                 response, the last message of its id
 *   [2, method, params]                           notification
 *   [3, id]                                       cancel; a response follows all the same
 *   [4, id, item]                                 stream item, from the callee, costs one credit
 *   [5, id, credit]                               more credit, from the caller
 *   [6, version, {capabilities}]                  hello, the first message of each end
 */
#ifndef TFC_WIRE_RPC_H
#define TFC_WIRE_RPC_H

#include "ctx/ctx.h"
#include "wire/fields.h"

#define TFC__RPC_VERSION 1
#define TFC__RPC_VERSION_OLDEST 1        /* the oldest version that this end supports */
#define TFC__RPC_MESSAGE_MAX (16u << 20) /* maximum bytes of a message */
#define TFC__RPC_METHOD_MAX 63           /* maximum bytes of a method's name */
#define TFC__RPC_OPEN_MAX 1024           /* maximum open requests of one end */
#define TFC__RPC_LOW_MAX (TFC__RPC_OPEN_MAX / 2)
#define TFC__RPC_CALL_BYTES 512 /* maximum bytes of memory per call */

struct tfc__rpc;
struct tfc__rpc_call;    /* a call from this end */
struct tfc__rpc_request; /* a request from the other end */

struct tfc__rpc_ops {
	/*
	 * Sends a message. The owner of the connection takes ownership of message->data; the struct
	 * itself is invalid after the return. A failure closes the connection later: tfc__rpc_close
	 * and tfc__rpc_feed must not be called inside.
	 */
	void (*send)(void *user, struct tfc__buf *message);
	/*
	 * Handles a received request, or, if request is NULL, a notification. Each request must get
	 * exactly one response, during the call or later. params is borrowed and valid during the
	 * call.
	 */
	void (*serve)(void *user, struct tfc__rpc_request *request, const char *method,
		      const msgpack_object *params);
	/* Reports a protocol violation by the other end, or lack of memory; error is the reason.
	 * Called at most once, in dispatch; the owner then closes the connection. */
	void (*broken)(void *user, const tfc_error *error);
	/* Whether third parties can read the traffic. NULL: they cannot. */
	bool (*is_exposed)(void *user);
	/*
	 * The next five limit the resources that the other end can occupy; each may be NULL: no
	 * limit. has_room: whether a stream may send another item; if not, the owner calls
	 * tfc__rpc_room later.
	 */
	bool (*has_room)(void *user);
	/* Checks the size of a response: TFC_OK, or the error that is sent instead. */
	int (*check_response)(void *user, size_t len, tfc_error *error);
	/* begin_request checks the size of a received request: TFC_OK, or the error that is
	 * its response. end_request reports that the response was sent or the connection closed. */
	int (*begin_request)(void *user, size_t len, tfc_error *error);
	void (*end_request)(void *user, size_t len);
	/* Changes the number of bytes that a request counts for: TFC_OK, or the reason for
	 * refusal. */
	int (*resize_request)(void *user, size_t from, size_t to, tfc_error *error);
};

/* Opens a connection and sends the hello at once. The caller owns *ret_rpc; `ops` must live as
 * long. TFC_ENOMEM. */
int tfc__rpc_open(tfc_ctx *ctx, const struct tfc__rpc_ops *ops, void *user,
		  struct tfc__rpc **ret_rpc);

/*
 * Closes the connection. Open calls end with TFC_ELOST in later dispatch turns. Requests of the
 * other end get on_cancel and still need a response. `why` may be NULL. The memory is freed when
 * the last reference is dropped, or with the context. Legal in every callback except `send`. NULL
 * is a no-op.
 */
void tfc__rpc_close(struct tfc__rpc *rpc, const tfc_error *why);

/* Reports that there is room again after has_room returned false: the waiters are called one after
 * the other. */
void tfc__rpc_room(struct tfc__rpc *rpc);

/* Handles a message that was too large to receive and of which only the beginning was kept. If it
 * is a request, the error is its response. */
void tfc__rpc_refuse_large(struct tfc__rpc *rpc, const void *begin, size_t begin_len,
			   const tfc_error *error);

/* Writes a hello that refuses the connection and contains the reason. */
void tfc__rpc_write_refusal(struct tfc__buf *message, const tfc_error *error);

/* Handles one message from the other end, in dispatch. `data` must stay valid until the return,
 * even if the connection is closed inside. */
void tfc__rpc_feed(struct tfc__rpc *rpc, const void *data, size_t len);

/* ---- calling */

/* The completion of a call, called once, in dispatch: code 0 and the result, or an error. All
 * pointers are borrowed. */
typedef void (*tfc__rpc_end_fn)(void *user, int code, const msgpack_object *result,
				const tfc_error *error);
/* Handles a stream item; each costs one credit. */
typedef void (*tfc__rpc_item_fn)(void *user, const msgpack_object *item);
/* The same with the item's bytes, which were not checked: the receiver parses them. */
typedef void (*tfc__rpc_item_bytes_fn)(void *user, const void *item, size_t len);

struct tfc__rpc_options {
	const char *method;
	const struct tfc__buf *params; /* one msgpack value; NULL: nil */
	uint32_t timeout_ms;           /* 0: none; applies at both ends */
	uint32_t credit;               /* stream items allowed before tfc__rpc_more */
	bool is_low_priority;          /* TFC_EBUSY from TFC__RPC_LOW_MAX open calls on */
	tfc__rpc_item_fn item;
	tfc__rpc_item_bytes_fn item_bytes; /* called in place of `item` */
	tfc__rpc_end_fn end;
	void *user;
};

/*
 * Sends a request. The call lives until `end` was called. Errors: TFC_ENOMEM; TFC_ELOST when the
 * connection is closed; TFC_ETOOBIG over the other end's message limit; TFC_EINVAL for a method
 * name over TFC__RPC_METHOD_MAX; TFC_EBUSY when TFC__RPC_OPEN_MAX requests are open, including
 * those that were canceled or timed out but have no response yet.
 */
int tfc__rpc_call(struct tfc__rpc *rpc, const struct tfc__rpc_options *options, tfc_error *error,
		  struct tfc__rpc_call **ret_call);
void tfc__rpc_more(struct tfc__rpc_call *call, uint32_t credit);
/* Cancels the call and notifies the other end. `end` is called with TFC_ECANCELED in a later turn,
 * whatever the response is. */
void tfc__rpc_cancel(struct tfc__rpc_call *call);
/* Cancels the call without any further callback, for an owner that closes. */
void tfc__rpc_drop(struct tfc__rpc_call *call);

/* Sends a notification. Errors: TFC_ENOMEM, TFC_ELOST, TFC_ETOOBIG, TFC_EINVAL. */
int tfc__rpc_notify(struct tfc__rpc *rpc, const char *method, const struct tfc__buf *params);

/* ---- serving */

void tfc__rpc_reply(struct tfc__rpc_request *request,
		    const struct tfc__buf *result); /* NULL: nil */
/* Like tfc__rpc_reply, with a message that a table of fields describes (wire/fields.h). */
void tfc__rpc_reply_message(struct tfc__rpc_request *request, const struct tfc__fields *table,
			    const void *message);
/* Like tfc__rpc_reply, with a text as the result; a long text is copied only once. */
void tfc__rpc_reply_text(struct tfc__rpc_request *request, const char *text, size_t len);
void tfc__rpc_fail(struct tfc__rpc_request *request, const tfc_error *error);

/*
 * Sets the number of bytes that the request occupies in addition to its message, until its
 * response is sent or this function is called again. TFC_EAGAIN when there is no room for more than
 * was reserved before; the earlier reservation then stays. The reservation is released before the
 * size of the response is checked.
 */
int tfc__rpc_reserve(struct tfc__rpc_request *request, size_t bytes, tfc_error *error);

/* Sends one item. Errors: TFC_ESTATE when there is no credit (always after a cancel) or no room;
 * TFC_ENOMEM; TFC_ETOOBIG; TFC_ELOST. */
int tfc__rpc_item(struct tfc__rpc_request *request, const struct tfc__buf *item);
/* The remaining credit; 0 also when there is no room, in which case on_credit is called when there
 * is room again. */
uint32_t tfc__rpc_credit(struct tfc__rpc_request *request);

/*
 * Sets the callbacks of a request, both called in dispatch; each may be NULL. on_credit: credit was
 * received, or there is room again. on_cancel: the caller has canceled, the timeout has expired, or
 * the connection is closed; the request still needs a response, which frees it, although the
 * response is discarded.
 */
void tfc__rpc_watch(struct tfc__rpc_request *request, void (*on_credit)(void *user),
		    void (*on_cancel)(void *user), void *user);

struct tfc__rpc *tfc__rpc_of(const struct tfc__rpc_request *request);
/* The version of the other end's library, as tfc_version; 0: it did not name one. */
uint32_t tfc__rpc_peer_version(const struct tfc__rpc *rpc);

/* The number of messages that were received: if it grows, the other end is alive. */
uint64_t tfc__rpc_received(const struct tfc__rpc *rpc);

/* The number of messages that were sent: if it does not grow, the connection is not used. */
uint64_t tfc__rpc_sent(const struct tfc__rpc *rpc);

/* In a callback of a call or request: whether the connection is closed. An error with which a call
 * ends is then not a response. */
bool tfc__rpc_is_closed(const struct tfc__rpc *rpc);

/* The number of calls from this end that have no response yet. */
uint32_t tfc__rpc_open_calls(const struct tfc__rpc *rpc);

/* Whether third parties can read the traffic: secrets must then not be sent. */
bool tfc__rpc_is_exposed(const struct tfc__rpc *rpc);

/* Whether there is room to send. A sender of long responses waits for room. A closed connection has
 * none. */
bool tfc__rpc_has_room(const struct tfc__rpc *rpc);

/* A waiter for room, embedded in its owner and zeroed before the first use. */
struct tfc__rpc_waiter {
	struct tfc__link link;
	void (*fn)(struct tfc__rpc_waiter *waiter); /* called once, in dispatch */
};
void tfc__rpc_await_room(struct tfc__rpc *rpc, struct tfc__rpc_waiter *waiter);
void tfc__rpc_stop_waiting(struct tfc__rpc_waiter *waiter); /* a no-op when not waiting */

#endif
