/*
 * Remote calls over any ordered, reliable stream of messages: request and response, notifications,
 * cancel, deadlines, and streams with credit. It knows no socket: messages that come are fed in,
 * those that go are handed to `send`. Both ends may call.
 *
 * One message is one msgpack array (doc/internals/wire-format.md):
 *   [0, id, method, params, timeout_ms, credit]   request; credit > 0: of stream items
 *   [1, id, error or nil, result]                 response, the last of its id
 *   [2, method, params]                           notification
 *   [3, id]                                       cancel; a response comes all the same
 *   [4, id, item]                                 stream item, from the callee, costs one credit
 *   [5, id, credit]                               more credit, from the caller
 *   [6, version, {capabilities}]                  hello, the first message of each end
 */
#ifndef TFC_WIRE_RPC_H
#define TFC_WIRE_RPC_H

#include "ctx/ctx.h"
#include "wire/msg.h"

#define TFC__RPC_VERSION 1
#define TFC__RPC_VERSION_OLDEST 1        /* that this version can speak, too */
#define TFC__RPC_MESSAGE_MAX (16u << 20) /* bytes of one message */
#define TFC__RPC_METHOD_MAX 63           /* bytes of its name */
#define TFC__RPC_OPEN_MAX 1024           /* requests of one end that are not answered */
#define TFC__RPC_LOW_MAX (TFC__RPC_OPEN_MAX / 2)
#define TFC__RPC_CALL_BYTES 512 /* of memory for one, at most */

struct tfc__rpc;
struct tfc__rpc_call;    /* one that this end made */
struct tfc__rpc_request; /* one that the other end made */

struct tfc__rpc_ops {
	/* Takes over the message's bytes: message->data is now the owner's, the struct is gone on
	 * return. A failure closes the connection later: neither tfc__rpc_close nor tfc__rpc_feed
	 * may be called inside. */
	void (*send)(void *user, struct tfc__buf *message);
	/* A request or (request NULL) a notification has come. Each request is answered exactly
	 * once, now or later. params is borrowed: valid during the call. */
	void (*serve)(void *user, struct tfc__rpc_request *request, const char *method,
		      const msgpack_object *params);
	/* The other end broke the protocol, or memory ran out: error says how. Once, in dispatch;
	 * the owner closes the connection. */
	void (*broken)(void *user, const tfc_error *error);
	/* Whether others can read what is sent. NULL: they cannot. */
	bool (*is_exposed)(void *user);
	/* What the other end may make this one hold; these five NULL: anything.
	 * Whether a stream may send another item; if not, tfc__rpc_room is called later. */
	bool (*has_room)(void *user);
	/* A response of so many bytes: TFC_OK, or the error that goes in its place. */
	int (*check_response)(void *user, size_t len, tfc_error *error);
	/* A request of so many bytes has come: TFC_OK, or the error that answers it; and one that
	 * had come is answered, or its connection closed. */
	int (*begin_request)(void *user, size_t len, tfc_error *error);
	void (*end_request)(void *user, size_t len);
	/* It counts as so many bytes instead: TFC_OK, or the error that says why not. */
	int (*resize_request)(void *user, size_t from, size_t to, tfc_error *error);
};

/* The caller owns it; TFC_ENOMEM. Sends its hello at once. `ops` must live as long. */
int tfc__rpc_open(tfc_ctx *ctx, const struct tfc__rpc_ops *ops, void *user,
		  struct tfc__rpc **ret_rpc);

/* Ends what is under way with TFC_ELOST, in later dispatch turns; requests of the other end get
 * their on_cancel, and are still to be answered. `why` may be NULL. Memory goes when nothing holds
 * it, or with the context. Legal in every callback but `send`. NULL is a no-op. */
void tfc__rpc_close(struct tfc__rpc *rpc, const tfc_error *why);

/* There is room again, which has_room had denied: those that wait go on, one after the other. */
void tfc__rpc_room(struct tfc__rpc *rpc);

/* A message has come that there is no room for, of which only the beginning was kept. If it is a
 * request, the error answers it. */
void tfc__rpc_refuse_large(struct tfc__rpc *rpc, const void *begin, size_t begin_len,
			   const tfc_error *error);

/* A hello that says why the connection is closed at once. */
void tfc__rpc_write_refusal(struct tfc__buf *message, const tfc_error *error);

/* One message from the other end, in dispatch. `data` must stay until it returns, even when the
 * connection is closed inside. */
void tfc__rpc_feed(struct tfc__rpc *rpc, const void *data, size_t len);

/* ---- calling */

/* The end of a call, once, in dispatch: code 0 and the result, or an error. All is borrowed. */
typedef void (*tfc__rpc_end_fn)(void *user, int code, const msgpack_object *result,
				const tfc_error *error);
/* A stream item; each has cost one credit. */
typedef void (*tfc__rpc_item_fn)(void *user, const msgpack_object *item);

struct tfc__rpc_options {
	const char *method;
	const struct tfc__buf *params; /* one msgpack value; NULL: nil */
	uint32_t timeout_ms;           /* 0: none; here and at the other end */
	uint32_t credit;               /* stream items that may come before tfc__rpc_more */
	bool is_low_priority;          /* TFC_EBUSY already from TFC__RPC_LOW_MAX on */
	tfc__rpc_item_fn item;
	tfc__rpc_end_fn end;
	void *user;
};

/*
 * TFC_ENOMEM, TFC_ELOST (closed), TFC_ETOOBIG (over what the other end takes), TFC_EINVAL (a method
 * over TFC__RPC_METHOD_MAX), TFC_EBUSY (TFC__RPC_OPEN_MAX are open, those counted that were given
 * up but are not answered yet). The call lives until `end` was called.
 */
int tfc__rpc_call(struct tfc__rpc *rpc, const struct tfc__rpc_options *options,
		  struct tfc__rpc_call **ret_call, tfc_error *error);
void tfc__rpc_more(struct tfc__rpc_call *call, uint32_t credit);
/* The other end is told; `end` comes with TFC_ECANCELED in a later turn, whatever it answers. */
void tfc__rpc_cancel(struct tfc__rpc_call *call);
/* Its owner goes away: canceled, and nothing is called any more. */
void tfc__rpc_drop(struct tfc__rpc_call *call);

/* TFC_ENOMEM, TFC_ELOST, TFC_ETOOBIG, TFC_EINVAL. */
int tfc__rpc_notify(struct tfc__rpc *rpc, const char *method, const struct tfc__buf *params);

/* ---- serving */

void tfc__rpc_reply(struct tfc__rpc_request *request,
		    const struct tfc__buf *result); /* NULL: nil */
/* The same with a text that may be long: it is copied once. */
void tfc__rpc_reply_text(struct tfc__rpc_request *request, const char *text, size_t len);
void tfc__rpc_fail(struct tfc__rpc_request *request, const tfc_error *error);

/* What the request makes this end hold besides its message, until it is answered or this is called
 * again: TFC_OK; TFC_EAGAIN (no room for more than was reserved before, which stays reserved). It
 * is released before the size of the response is checked. */
int tfc__rpc_reserve(struct tfc__rpc_request *request, size_t bytes, tfc_error *error);

/* One item, while there is credit and room: TFC_OK; TFC_ESTATE (no credit; always so once it is
 * canceled; or no room), TFC_ENOMEM, TFC_ETOOBIG, TFC_ELOST. */
int tfc__rpc_item(struct tfc__rpc_request *request, const struct tfc__buf *item);
/* 0 also without room: then on_credit is called when there is some. */
uint32_t tfc__rpc_credit(struct tfc__rpc_request *request);

/* on_credit: more has come, or there is room again. on_cancel: the caller has canceled, its time is
 * over, or the connection is gone; the request is still answered (into nowhere) to be freed. Both
 * in dispatch; may be NULL.
 */
void tfc__rpc_watch(struct tfc__rpc_request *request, void (*on_credit)(void *user),
		    void (*on_cancel)(void *user), void *user);

struct tfc__rpc *tfc__rpc_of(const struct tfc__rpc_request *request);
void *tfc__rpc_user(const struct tfc__rpc *rpc); /* as given to tfc__rpc_open */

/* Whether others can read what is sent: no secret goes over it. */
bool tfc__rpc_is_exposed(const struct tfc__rpc *rpc);

/* Who answers at length waits for room. One that is closed never has any. */
bool tfc__rpc_has_room(const struct tfc__rpc *rpc);

/* Waits for room; embedded, and zeroed at first. */
struct tfc__rpc_waiter {
	struct tfc__link link;
	void (*fn)(struct tfc__rpc_waiter *waiter); /* once, in dispatch */
};
void tfc__rpc_await_room(struct tfc__rpc *rpc, struct tfc__rpc_waiter *waiter);
void tfc__rpc_stop_waiting(struct tfc__rpc_waiter *waiter); /* not waiting: a no-op */

#endif
