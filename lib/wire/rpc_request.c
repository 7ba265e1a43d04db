#include "wire/internal.h"

#include <string.h>

#include "base/clock.h"

#define HEAD_MAX 16     /* bytes of a response or an item before its value */
#define TEXT_HEAD_MAX 5 /* bytes of a text's head */

/* Removes a request whose response was sent or whose connection was closed. A no-op if it was
 * removed already. */
static void rpc_request_remove(struct tfc__rpc_request *request)
{
	struct tfc__rpc *rpc = request->rpc;
	tfc__rpc_stop_waiting(&request->waiter);
	if (tfc__list_is_empty(&request->entry.link))
		return;
	tfc__rpc_remove(&rpc->requests, &request->entry);
	if (rpc->ops->end_request)
		rpc->ops->end_request(rpc->user, request->len);
}

static void rpc_request_free(struct tfc__rpc_request *request)
{
	rpc_request_remove(request);
	tfc__timer_cancel(&request->timer);
	tfc__work_cancel(&request->work);
	tfc__rpc_free(request->rpc, &request->entry);
}

/* Any object may be closed inside; the request must not be used afterwards. */
static void rpc_request_cancel(struct tfc__rpc_request *request)
{
	if (request->is_canceled)
		return;
	request->is_canceled = true;
	request->credit = 0;
	tfc__timer_cancel(&request->timer);
	if (request->on_cancel)
		request->on_cancel(request->user);
}

static void rpc_request_on_timeout(struct tfc__timer *timer)
{
	rpc_request_cancel(tfc__container_of(timer, struct tfc__rpc_request, timer));
}

static void rpc_request_report_cancel(struct tfc__work *work)
{
	struct tfc__rpc_request *request = tfc__container_of(work, struct tfc__rpc_request, work);
	if (request->on_cancel)
		request->on_cancel(request->user);
}

/* ---- functions for the server */

int tfc__rpc_reserve(struct tfc__rpc_request *request, size_t bytes, tfc_error *error)
{
	const struct tfc__rpc *rpc = request->rpc;
	size_t len = request->len - request->reserved + bytes;
	bool is_counted = !tfc__list_is_empty(&request->entry.link) && rpc->ops->resize_request;
	int code = is_counted ? rpc->ops->resize_request(rpc->user, request->len, len, error)
			      : TFC_OK;
	if (code < 0)
		return code;
	request->len = len;
	request->reserved = bytes;
	return TFC_OK;
}

static void write_failure(struct tfc__buf *message, uint64_t id, const tfc_error *error)
{
	tfc__rpc_begin(message, RESPONSE, 4);
	tfc__msg_u64(message, id);
	tfc__msg_error(message, error);
	tfc__msg_nil(message);
}

static void send_failure(struct tfc__rpc_request *request, const tfc_error *error)
{
	struct tfc__buf message = {0};
	write_failure(&message, request->entry.id, error);
	tfc__rpc_must_send(request->rpc, &message);
}

void tfc__rpc_fail(struct tfc__rpc_request *request, const tfc_error *error)
{
	send_failure(request, error);
	rpc_request_free(request);
}

/* Begins a response with a value of `len` bytes. Returns false when there is no room for it; the
 * error is then the response. */
static bool begin_response(struct tfc__rpc_request *request, size_t len, struct tfc__buf *message)
{
	const struct tfc__rpc *rpc = request->rpc;
	tfc_error error = TFC_ERROR_INIT;
	tfc__rpc_reserve(request, 0, NULL);
	if (rpc->ops->check_response && !rpc->is_closed &&
	    rpc->ops->check_response(rpc->user, HEAD_MAX + len, &error) < 0) {
		tfc__rpc_fail(request, &error);
		return false;
	}
	tfc__buf_reserve(message, HEAD_MAX + len);
	tfc__rpc_begin(message, RESPONSE, 4);
	tfc__msg_u64(message, request->entry.id);
	tfc__msg_nil(message);
	return true;
}

static void end_response(struct tfc__rpc_request *request, struct tfc__buf *message)
{
	struct tfc__rpc *rpc = request->rpc;
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__rpc_send(rpc, message, &error) < 0 && !rpc->is_closed)
		send_failure(request, &error);
	rpc_request_free(request);
}

void tfc__rpc_reply(struct tfc__rpc_request *request, const struct tfc__buf *result)
{
	struct tfc__buf message = {0};
	if (!begin_response(request, result ? result->len : 1, &message))
		return;
	tfc__rpc_add(&message, result);
	end_response(request, &message);
}

void tfc__rpc_reply_message(struct tfc__rpc_request *request, const struct tfc__fields *table,
			    const void *message)
{
	struct tfc__buf result = {0};
	tfc__fields_write(&result, table, message);
	tfc__rpc_reply(request, &result);
	tfc__buf_fini(&result);
}

void tfc__rpc_reply_text(struct tfc__rpc_request *request, const char *text, size_t len)
{
	struct tfc__buf message = {0};
	if (!begin_response(request, TEXT_HEAD_MAX + len, &message))
		return;
	tfc__msg_text(&message, text, len);
	end_response(request, &message);
}

static void rpc_request_on_room(struct tfc__rpc_waiter *waiter)
{
	struct tfc__rpc_request *request = tfc__container_of(waiter, struct tfc__rpc_request,
							     waiter);
	if (request->credit && request->on_credit)
		request->on_credit(request->user);
}

int tfc__rpc_item(struct tfc__rpc_request *request, const struct tfc__buf *item)
{
	struct tfc__buf message = {0};
	if (!tfc__rpc_credit(request))
		return TFC_ESTATE;
	tfc__buf_reserve(&message, HEAD_MAX + (item ? item->len : 1));
	tfc__rpc_begin(&message, ITEM, 3);
	tfc__msg_u64(&message, request->entry.id);
	tfc__rpc_add(&message, item);
	int code = tfc__rpc_send(request->rpc, &message, NULL);
	if (code == TFC_OK)
		request->credit--;
	return code;
}

uint32_t tfc__rpc_credit(struct tfc__rpc_request *request)
{
	if (!request->credit || tfc__rpc_has_room(request->rpc))
		return request->credit;
	tfc__rpc_await_room(request->rpc, &request->waiter);
	return 0;
}

void tfc__rpc_watch(struct tfc__rpc_request *request, void (*on_credit)(void *user),
		    void (*on_cancel)(void *user), void *user)
{
	request->on_credit = on_credit;
	request->on_cancel = on_cancel;
	request->user = user;
	if (request->is_canceled && on_cancel)
		tfc__work_schedule(&request->work);
}

struct tfc__rpc *tfc__rpc_of(const struct tfc__rpc_request *request)
{
	return request->rpc;
}

/* ---- messages from the other end */

static bool read_method(const msgpack_object *object, char method[TFC__RPC_METHOD_MAX + 1])
{
	size_t len = 0;
	const char *text = tfc__msg_bytes(object, &len);
	if (object->type != MSGPACK_OBJECT_STR || !len || len > TFC__RPC_METHOD_MAX ||
	    memchr(text, '\0', len))
		return false;
	memcpy(method, text, len);
	method[len] = '\0';
	return true;
}

static bool read_u32(const msgpack_object *object, uint32_t *ret_number)
{
	if (object->type != MSGPACK_OBJECT_POSITIVE_INTEGER || object->via.u64 > UINT32_MAX)
		return false;
	*ret_number = (uint32_t)object->via.u64;
	return true;
}

/* Whether an id is one that the other end has used. */
static bool is_used_id(const struct tfc__rpc *rpc, const msgpack_object *id)
{
	return id->type == MSGPACK_OBJECT_POSITIVE_INTEGER && id->via.u64 <= rpc->requests.last;
}

static struct tfc__rpc_request *rpc_request_find(struct tfc__rpc *rpc, const msgpack_object *id)
{
	struct rpc_entry *entry = tfc__rpc_find(&rpc->requests, id->via.u64);
	return entry ? tfc__container_of(entry, struct tfc__rpc_request, entry) : NULL;
}

/* Returns whether the owner accepts the request; otherwise responds with the reason. A refused
 * request was not counted, so end_request is not called for it. */
static bool rpc_request_begin(struct tfc__rpc_request *request)
{
	struct tfc__rpc *rpc = request->rpc;
	tfc_error error = TFC_ERROR_INIT;
	if (!rpc->ops->begin_request ||
	    rpc->ops->begin_request(rpc->user, request->len, &error) == TFC_OK)
		return true;
	tfc__rpc_remove(&rpc->requests, &request->entry);
	tfc__rpc_fail(request, &error);
	return false;
}

/* [id, method, params, timeout_ms, credit] */
int tfc__rpc_on_request(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error)
{
	char method[TFC__RPC_METHOD_MAX + 1];
	uint32_t timeout_ms, credit;
	if (items[0].type != MSGPACK_OBJECT_POSITIVE_INTEGER || is_used_id(rpc, &items[0]))
		return tfc__rpc_refuse(error, "repeated request id");
	if (!read_method(&items[1], method) || !read_u32(&items[3], &timeout_ms) ||
	    !read_u32(&items[4], &credit))
		return tfc__rpc_refuse(error, "malformed request");
	if (rpc->requests.count == TFC__RPC_OPEN_MAX)
		return tfc__rpc_refuse(error, "too many concurrent requests");
	struct tfc__rpc_request *request = tfc__rpc_new(rpc, sizeof(*request));
	if (!request)
		return tfc__fail_nomem(error, "wire");
	request->rpc = rpc;
	request->credit = credit;
	request->len = rpc->feeding;
	request->waiter.fn = rpc_request_on_room;
	tfc__timer_init(&request->timer, rpc->ctx, rpc_request_on_timeout);
	tfc__work_init(&request->work, rpc->ctx, rpc_request_report_cancel);
	tfc__rpc_insert(&rpc->requests, &request->entry, items[0].via.u64);
	if (!rpc_request_begin(request))
		return TFC_OK;
	if (timeout_ms)
		tfc__timer_set(&request->timer, tfc__now() + timeout_ms * TFC__MS);
	rpc->ops->serve(rpc->user, request, method, &items[2]);
	return TFC_OK;
}

/* Reads a number that is not negative, in any of its encodings. Returns false if there is none or
 * it is incomplete. */
static bool read_raw_number(const uint8_t **at, const uint8_t *end, uint64_t *ret_number)
{
	if (*at == end)
		return false;
	uint8_t first = *(*at)++;
	size_t len = first >= 0xcc && first <= 0xcf ? (size_t)1 << (first - 0xcc) : 0;
	if ((!len && first > 0x7f) || (size_t)(end - *at) < len)
		return false;
	*ret_number = len ? 0 : first;
	while (len--)
		*ret_number = *ret_number << 8 | *(*at)++;
	return true;
}

bool tfc__rpc_read_head(const uint8_t **at, const uint8_t *end, uint32_t *ret_count,
			uint64_t *ret_kind, uint64_t *ret_id)
{
	size_t len = (size_t)(end - *at);
	size_t head = len && (**at & 0xf0) == 0x90 ? 1 : len && **at == 0xdc ? 3 : 5;
	if (len < head || (head == 5 && **at != 0xdd))
		return false;
	uint32_t count = head == 1 ? **at & 0x0f : 0;
	for (size_t i = 1; i < head; i++)
		count = count << 8 | (*at)[i];
	*ret_count = count;
	*at += head;
	return read_raw_number(at, end, ret_kind) && read_raw_number(at, end, ret_id);
}

void tfc__rpc_refuse_large(struct tfc__rpc *rpc, const void *begin, size_t begin_len,
			   const tfc_error *error)
{
	struct tfc__buf message = {0};
	const uint8_t *at = begin;
	uint32_t count;
	uint64_t kind, id;
	if (rpc->is_closed || !rpc->is_greeted ||
	    !tfc__rpc_read_head(&at, at + begin_len, &count, &kind, &id) || kind != REQUEST ||
	    id <= rpc->requests.last)
		return;
	rpc->requests.last = id;
	write_failure(&message, id, error);
	tfc__rpc_must_send(rpc, &message);
}

/* [method, params] */
int tfc__rpc_on_notify(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error)
{
	char method[TFC__RPC_METHOD_MAX + 1];
	if (!read_method(&items[0], method))
		return tfc__rpc_refuse(error, "notification without a method");
	rpc->ops->serve(rpc->user, NULL, method, &items[1]);
	return TFC_OK;
}

/* [id]. A cancel may arrive after the response was sent. */
int tfc__rpc_on_cancel(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error)
{
	if (!is_used_id(rpc, &items[0]))
		return tfc__rpc_refuse(error, "cancellation without a request");
	struct tfc__rpc_request *request = rpc_request_find(rpc, &items[0]);
	if (request)
		rpc_request_cancel(request);
	return TFC_OK;
}

/* [id, credit] */
int tfc__rpc_on_credit(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error)
{
	uint32_t credit;
	if (!is_used_id(rpc, &items[0]) || !read_u32(&items[1], &credit))
		return tfc__rpc_refuse(error, "credit without a request");
	struct tfc__rpc_request *request = rpc_request_find(rpc, &items[0]);
	if (!request || request->is_canceled)
		return TFC_OK;
	if (credit > UINT32_MAX - request->credit)
		return tfc__rpc_refuse(error, "credit overflow");
	request->credit += credit;
	if (credit && request->on_credit)
		request->on_credit(request->user);
	return TFC_OK;
}

void tfc__rpc_request_lost(struct tfc__rpc_request *request)
{
	rpc_request_remove(request);
	tfc__timer_cancel(&request->timer);
	if (request->is_canceled)
		return;
	request->is_canceled = true;
	request->credit = 0;
	tfc__work_schedule(&request->work);
}
