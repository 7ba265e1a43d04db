#include "gateway/member_calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "gateway/request_params.h"

struct member_call {
	struct tfc__member_calls *calls;
	struct tfc__member_wait wait; /* for the connection; then: */
	struct tfc__rpc_call *call;   /* NULL: it has ended */
	char node[64];
};

struct tfc__member_calls {
	const struct tfc__member_calls_ops *ops;
	void *user;
	struct tfc__work end;
	char method[TFC__METHOD_SIZE];
	struct tfc__buf params;
	uint32_t timeout_ms;
	uint32_t pending; /* they wait for the connection, or for the response */
	uint32_t count;
	struct member_call calls[];
};

static uint32_t count_members(const struct tfc__gateway_members *members)
{
	struct tfc__gateway_member member = {NULL};
	uint32_t count = 0;
	while (members && tfc__gateway_members_next(members, &member))
		count++;
	return count;
}

static void member_calls_on_end(struct tfc__work *work)
{
	struct tfc__member_calls *calls = tfc__container_of(work, struct tfc__member_calls, end);
	calls->ops->ended(calls->user);
}

static void member_call_on_response(void *user, int code, const msgpack_object *result,
				    const tfc_error *error)
{
	static const msgpack_object nil = {.type = MSGPACK_OBJECT_NIL};
	struct member_call *call = user;
	struct tfc__member_calls *calls = call->calls;
	call->call = NULL;
	if (--calls->pending == 0)
		tfc__work_schedule(&calls->end);
	if (code == TFC_OK)
		calls->ops->responded(calls->user, call->node, result ? result : &nil, NULL);
	else
		calls->ops->responded(calls->user, call->node, NULL, error);
}

static void member_call_on_connected(struct tfc__member_wait *wait, struct tfc__rpc *rpc,
				     const tfc_error *why)
{
	struct member_call *call = tfc__container_of(wait, struct member_call, wait);
	struct tfc__member_calls *calls = call->calls;
	const struct tfc__rpc_options options = {
		.method = calls->method,
		.params = &calls->params,
		.timeout_ms = calls->timeout_ms,
		.end = member_call_on_response,
		.user = call,
	};
	tfc_error error = TFC_ERROR_INIT;
	int code = rpc ? tfc__rpc_call(rpc, &options, &error, &call->call)
		       : tfc__fail(&error, TFC_ELOST, "gateway", 0, "unreachable: %s", why->text);
	if (code < 0)
		member_call_on_response(call, code, NULL, &error);
}

int tfc__member_calls_begin(tfc_ctx *ctx, const struct tfc__gateway_members *members,
			    const struct tfc__request_params *params, uint32_t timeout_ms,
			    const struct tfc__member_calls_ops *ops, void *user,
			    struct tfc__member_calls **ret_calls)
{
	uint32_t count = count_members(members);
	struct tfc__member_calls *calls = calloc(1, sizeof(*calls) + count * sizeof(*calls->calls));
	struct tfc__gateway_member member = {NULL};
	if (!calls)
		return TFC_ENOMEM;
	tfc__request_params_write(&calls->params, params);
	if (calls->params.is_failed) {
		tfc__buf_fini(&calls->params);
		free(calls);
		return TFC_ENOMEM;
	}
	tfc__verb_method(params->verb, calls->method);
	calls->ops = ops;
	calls->user = user;
	calls->timeout_ms = timeout_ms;
	tfc__work_init(&calls->end, ctx, member_calls_on_end);
	calls->pending = 1; /* until all were begun */
	*ret_calls = calls;
	while (calls->count < count && tfc__gateway_members_next(members, &member)) {
		struct member_call *call = &calls->calls[calls->count++];
		call->calls = calls;
		call->wait.fn = member_call_on_connected;
		tfc__list_init(&call->wait.link);
		snprintf(call->node, sizeof(call->node), "%s", member.name);
		calls->pending++;
		members->ops->connect(members->user, member.name, &call->wait);
	}
	if (--calls->pending == 0)
		tfc__work_schedule(&calls->end);
	return TFC_OK;
}

void tfc__member_calls_drop(struct tfc__member_calls *calls)
{
	if (!calls)
		return;
	tfc__work_cancel(&calls->end);
	for (uint32_t i = 0; i < calls->count; i++) {
		tfc__list_remove(&calls->calls[i].wait.link);
		if (calls->calls[i].call)
			tfc__rpc_drop(calls->calls[i].call);
	}
	tfc__buf_fini(&calls->params);
	free(calls);
}

size_t tfc__member_calls_bytes(const struct tfc__gateway_members *members)
{
	return count_members(members) * (sizeof(struct member_call) + TFC__RPC_CALL_BYTES);
}
