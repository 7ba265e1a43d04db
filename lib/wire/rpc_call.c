#include "wire/internal.h"

#include <string.h>

#include "base/clock.h"

static void rpc_call_free(struct tfc__rpc_call *call)
{
	tfc__timer_cancel(&call->timer);
	tfc__work_cancel(&call->work);
	tfc__rpc_free(call->rpc, &call->entry);
}

/* Calls `end`. Any object may be closed inside; a caller may use the call afterwards only if the
 * call is no longer in the table. */
static void rpc_call_report_end(struct tfc__rpc_call *call, int code, const msgpack_object *result,
				const tfc_error *error)
{
	call->is_over = true;
	tfc__timer_cancel(&call->timer);
	tfc__work_cancel(&call->work);
	call->end(call->user, code, result, error);
}

static void rpc_call_send_cancel(struct tfc__rpc_call *call)
{
	struct tfc__buf message = {0};
	tfc__rpc_begin(&message, CANCEL, 2);
	tfc__msg_u64(&message, call->entry.id);
	tfc__rpc_must_send(call->rpc, &message);
}

static void rpc_call_on_timeout(struct tfc__timer *timer)
{
	struct tfc__rpc_call *call = tfc__container_of(timer, struct tfc__rpc_call, timer);
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ETIMEDOUT, "wire", 0, "no response within %u ms", call->timeout_ms);
	rpc_call_send_cancel(call);
	rpc_call_report_end(call, TFC_ETIMEDOUT, NULL, &error);
}

/* After a cancel, or when the connection was closed. */
static void rpc_call_end_later(struct tfc__work *work)
{
	struct tfc__rpc_call *call = tfc__container_of(work, struct tfc__rpc_call, work);
	bool is_open = !tfc__list_is_empty(&call->entry.link);
	tfc_error error = TFC_ERROR_INIT;
	if (call->is_canceled)
		tfc__fail(&error, TFC_ECANCELED, "wire", 0, "request canceled");
	else if (call->rpc->error.code == TFC_EAGAIN) /* the other end refused the connection */
		tfc__fail(&error, TFC_EAGAIN, "wire", 0, "%s", call->rpc->error.text);
	else
		tfc__fail(&error, TFC_ELOST, "wire", 0, "connection lost%s%s",
			  call->rpc->error.code ? ": " : "", call->rpc->error.text);
	rpc_call_report_end(call, error.code, NULL, &error);
	if (!is_open)
		rpc_call_free(call);
}

/* ---- functions for the caller */

static struct tfc__rpc_call *rpc_call_new(struct tfc__rpc *rpc,
					  const struct tfc__rpc_options *options)
{
	struct tfc__rpc_call *call = tfc__rpc_new(rpc, sizeof(*call));
	if (!call)
		return NULL;
	call->rpc = rpc;
	call->credit = options->credit;
	call->item = options->item;
	call->item_bytes = options->item_bytes;
	call->end = options->end;
	call->user = options->user;
	call->timeout_ms = options->timeout_ms;
	tfc__timer_init(&call->timer, rpc->ctx, rpc_call_on_timeout);
	tfc__work_init(&call->work, rpc->ctx, rpc_call_end_later);
	return call;
}

static int rpc_call_send(struct tfc__rpc *rpc, const struct tfc__rpc_options *options, uint64_t id,
			 tfc_error *error)
{
	struct tfc__buf message = {0};
	tfc__rpc_begin(&message, REQUEST, 6);
	tfc__msg_u64(&message, id);
	tfc__msg_str(&message, options->method);
	tfc__rpc_add(&message, options->params);
	tfc__msg_u64(&message, options->timeout_ms);
	tfc__msg_u64(&message, options->credit);
	return tfc__rpc_send(rpc, &message, error);
}

static int rpc_call_check(const struct tfc__rpc *rpc, const struct tfc__rpc_options *options,
			  tfc_error *error)
{
	uint32_t max = options->is_low_priority ? TFC__RPC_LOW_MAX : TFC__RPC_OPEN_MAX;
	if (rpc->is_closed || rpc->is_broken)
		return tfc__fail(error, TFC_ELOST, "wire", 0, "connection closed");
	if (strlen(options->method) > TFC__RPC_METHOD_MAX)
		return tfc__fail(error, TFC_EINVAL, "wire", 0,
				 "method name \"%s\" exceeds %d bytes", options->method,
				 TFC__RPC_METHOD_MAX);
	if (rpc->calls.count >= max)
		return tfc__fail(error, TFC_EBUSY, "wire", 0,
				 "too many pending requests on this connection (%u)",
				 rpc->calls.count);
	return TFC_OK;
}

int tfc__rpc_call(struct tfc__rpc *rpc, const struct tfc__rpc_options *options, tfc_error *error,
		  struct tfc__rpc_call **ret_call)
{
	int code = rpc_call_check(rpc, options, error);
	if (code < 0)
		return code;
	struct tfc__rpc_call *call = rpc_call_new(rpc, options);
	if (!call)
		return tfc__fail_nomem(error, "wire");
	code = rpc_call_send(rpc, options, rpc->calls.last + 1, error);
	if (code < 0) {
		tfc__rpc_free(rpc, &call->entry);
		return code;
	}
	tfc__rpc_insert(&rpc->calls, &call->entry, rpc->calls.last + 1);
	if (call->timeout_ms)
		tfc__timer_set(&call->timer, tfc__now() + call->timeout_ms * TFC__MS);
	if (ret_call)
		*ret_call = call;
	return TFC_OK;
}

void tfc__rpc_more(struct tfc__rpc_call *call, uint32_t credit)
{
	struct tfc__buf message = {0};
	if (!credit || call->is_over || call->is_canceled)
		return;
	if (credit > UINT32_MAX - call->credit)
		credit = (uint32_t)(UINT32_MAX - call->credit);
	call->credit += credit;
	tfc__rpc_begin(&message, CREDIT, 3);
	tfc__msg_u64(&message, call->entry.id);
	tfc__msg_u64(&message, credit);
	tfc__rpc_must_send(call->rpc, &message);
}

void tfc__rpc_cancel(struct tfc__rpc_call *call)
{
	if (call->is_over || call->is_canceled || call->rpc->is_closed)
		return;
	call->is_canceled = true;
	tfc__timer_cancel(&call->timer);
	tfc__work_schedule(&call->work);
	rpc_call_send_cancel(call);
}

void tfc__rpc_drop(struct tfc__rpc_call *call)
{
	if (!call || call->is_over)
		return;
	call->is_over = true;
	tfc__timer_cancel(&call->timer);
	tfc__work_cancel(&call->work);
	if (tfc__list_is_empty(&call->entry.link))
		rpc_call_free(call);
	else if (!call->is_canceled)
		rpc_call_send_cancel(call);
}

/* ---- messages from the other end */

static struct tfc__rpc_call *rpc_call_find(struct tfc__rpc *rpc, const msgpack_object *id)
{
	if (id->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
		return NULL;
	struct rpc_entry *entry = tfc__rpc_find(&rpc->calls, id->via.u64);
	return entry ? tfc__container_of(entry, struct tfc__rpc_call, entry) : NULL;
}

/* [id, error, result]. The scheduled work calls `end` of a canceled call. */
int tfc__rpc_on_response(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error)
{
	struct tfc__rpc_call *call = rpc_call_find(rpc, &items[0]);
	if (!call)
		return tfc__rpc_refuse(error, "response without a request");
	tfc__rpc_remove(&rpc->calls, &call->entry);
	if (call->is_canceled && !call->is_over)
		return TFC_OK;
	if (!call->is_over) {
		tfc_error why = TFC_ERROR_INIT;
		int code = items[1].type == MSGPACK_OBJECT_NIL ? TFC_OK
							       : tfc__msg_to_error(&items[1], &why);
		rpc_call_report_end(call, code, code < 0 ? NULL : &items[2],
				    code < 0 ? &why : NULL);
	}
	rpc_call_free(call);
	return TFC_OK;
}

static int rpc_call_use_credit(struct tfc__rpc_call *call, tfc_error *error)
{
	if (!call->credit)
		return tfc__rpc_refuse(error, "item without credit");
	call->credit--;
	return TFC_OK;
}

static int rpc_call_report_bytes(struct tfc__rpc_call *call, const msgpack_object *item,
				 tfc_error *error)
{
	struct tfc__buf bytes = {0};
	tfc__msg_object(&bytes, item);
	int code = bytes.is_failed ? tfc__fail_nomem(error, "wire") : TFC_OK;
	if (code == TFC_OK)
		call->item_bytes(call->user, bytes.data, bytes.len);
	tfc__buf_fini(&bytes);
	return code;
}

/* [id, item] */
int tfc__rpc_on_item(struct tfc__rpc *rpc, const msgpack_object *items, tfc_error *error)
{
	struct tfc__rpc_call *call = rpc_call_find(rpc, &items[0]);
	if (!call)
		return tfc__rpc_refuse(error, "item of a stream that is not open");
	int code = rpc_call_use_credit(call, error);
	if (code < 0 || call->is_over || call->is_canceled)
		return code;
	if (call->item_bytes)
		return rpc_call_report_bytes(call, &items[1], error);
	if (call->item)
		call->item(call->user, &items[1]);
	return TFC_OK;
}

int tfc__rpc_on_item_bytes(struct tfc__rpc *rpc, const uint8_t *message, size_t len,
			   tfc_error *error)
{
	const uint8_t *at = message, *end = message + len;
	uint32_t count;
	uint64_t kind, id;
	if (!rpc->is_greeted || !tfc__rpc_read_head(&at, end, &count, &kind, &id) || kind != ITEM ||
	    count != 3)
		return 0;
	struct rpc_entry *entry = tfc__rpc_find(&rpc->calls, id);
	struct tfc__rpc_call *call = entry ? tfc__container_of(entry, struct tfc__rpc_call, entry)
					   : NULL;
	if (!call || !call->item_bytes)
		return 0;
	int code = rpc_call_use_credit(call, error);
	if (code == TFC_OK && !call->is_over && !call->is_canceled)
		call->item_bytes(call->user, at, (size_t)(end - at));
	return code < 0 ? code : 1;
}

void tfc__rpc_call_lost(struct tfc__rpc_call *call)
{
	tfc__rpc_remove(&call->rpc->calls, &call->entry);
	tfc__timer_cancel(&call->timer);
	if (call->is_over)
		rpc_call_free(call);
	else
		tfc__work_schedule(&call->work);
}
