#include "rpc_pair.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static void drop_message(struct rpc_message *message)
{
	tfc__list_remove(&message->link);
	free(message->data);
	free(message);
}

static void drop_queue(struct rpc_end *end)
{
	TFC__LIST_EACH (link, &end->queue)
		drop_message(tfc__container_of(link, struct rpc_message, link));
}

static void queue(void *user, struct tfc__buf *message)
{
	struct rpc_end *end = user;
	struct rpc_message *queued = end->broken.code ? NULL : malloc(sizeof(*queued));
	if (end->on_send)
		end->on_send(end, message->data, message->len);
	if (!queued) { /* as a transport that ran out of memory: nothing follows */
		if (!end->broken.code)
			tfc__fail_nomem(&end->broken, "transport");
		tfc__buf_fini(message);
		return;
	}
	queued->len = message->len;
	queued->data = message->data;
	tfc__list_append(&end->queue, &queued->link);
	end->sent++;
	if (!end->is_held)
		tfc__work_schedule(&end->work);
}

static void deliver(struct tfc__work *work)
{
	struct rpc_end *end = tfc__container_of(work, struct rpc_end, work);
	while (!tfc__list_is_empty(&end->queue) && !end->is_held) {
		struct rpc_message *message = tfc__container_of(end->queue.next, struct rpc_message,
								link);
		tfc__list_remove(&message->link);
		rpc_end_feed(end->other, message->data, message->len);
		drop_message(message);
	}
}

/* In memory of just that size, so that a sanitizer sees a read behind it. */
void rpc_end_feed(struct rpc_end *end, const void *data, size_t len)
{
	if (end->broken.code)
		return;
	char *copy = end->rpc ? malloc(len ? len : 1) : NULL;
	if (end->rpc && !copy)
		tfc__fail_nomem(&end->broken, "transport");
	if (!copy)
		return;
	memcpy(copy, data, len);
	tfc__rpc_feed(end->rpc, copy, len);
	free(copy);
}

static void serve(void *user, struct tfc__rpc_request *request, const char *method,
		  const msgpack_object *params)
{
	struct rpc_end *end = user;
	if (end->serve) {
		end->serve(end, request, method, params);
	} else if (request) {
		struct tfc__buf result = rpc_number(
			params->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? params->via.u64 : 0);
		tfc__rpc_reply(request, &result);
		tfc__buf_fini(&result);
	}
}

static void broken(void *user, const tfc_error *error)
{
	struct rpc_end *end = user;
	end->broken = *error;
}

static const struct tfc__rpc_ops ops = {.send = queue, .serve = serve, .broken = broken};

int rpc_pair_open(struct rpc_pair *pair, tfc_ctx *ctx)
{
	int code = TFC_OK;
	*pair = (struct rpc_pair){.ctx = ctx};
	for (int i = 0; i < 2; i++) {
		struct rpc_end *end = &pair->ends[i];
		end->pair = pair;
		end->other = &pair->ends[!i];
		tfc__list_init(&end->queue);
		tfc__work_init(&end->work, ctx, deliver);
	}
	for (int i = 0; i < 2 && code == TFC_OK; i++)
		code = tfc__rpc_open(ctx, &ops, &pair->ends[i], &pair->ends[i].rpc);
	if (code < 0)
		rpc_pair_close(pair);
	return code;
}

void rpc_end_close(struct rpc_end *end, const tfc_error *why)
{
	struct tfc__rpc *rpc = end->rpc;
	end->rpc = NULL;
	tfc__rpc_close(rpc, why);
}

void rpc_pair_close(struct rpc_pair *pair)
{
	for (int i = 0; i < 2; i++) {
		rpc_end_close(&pair->ends[i], NULL);
		tfc__work_cancel(&pair->ends[i].work);
		drop_queue(&pair->ends[i]);
	}
}

void rpc_end_hold(struct rpc_end *end)
{
	end->is_held = true;
}

void rpc_end_release(struct rpc_end *end)
{
	end->is_held = false;
	tfc__work_schedule(&end->work);
}

void rpc_run(tfc_ctx *ctx)
{
	while (tfc_ctx_run(ctx, 0) > 0)
		;
}

struct tfc__buf rpc_number(uint64_t number)
{
	struct tfc__buf buf = {0};
	tfc__msg_u64(&buf, number);
	return buf;
}

static void on_end(void *user, int code, const msgpack_object *result, const tfc_error *error)
{
	struct rpc_outcome *outcome = user;
	outcome->ends++;
	outcome->code = code;
	outcome->call = NULL;
	if (error)
		outcome->error = *error;
	if (result && result->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
		outcome->number = result->via.u64;
	if (outcome->on_end)
		outcome->on_end(outcome);
}

static void on_item(void *user, const msgpack_object *item)
{
	struct rpc_outcome *outcome = user;
	outcome->items++;
	outcome->item = item->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? item->via.u64 : 0;
	if (outcome->on_item)
		outcome->on_item(outcome);
}

int rpc_ask(struct rpc_end *end, const char *method, uint64_t number, uint32_t timeout_ms,
	    uint32_t credit, struct rpc_outcome *outcome)
{
	struct tfc__buf params = rpc_number(number);
	const struct tfc__rpc_options options = {
		.method = method,
		.params = &params,
		.timeout_ms = timeout_ms,
		.credit = credit,
		.item = on_item,
		.end = on_end,
		.user = outcome,
	};
	outcome->end = end;
	int code = tfc__rpc_call(end->rpc, &options, &outcome->error, &outcome->call);
	tfc__buf_fini(&params);
	return code;
}
