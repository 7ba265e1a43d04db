#include "gateway/heartbeat.h"

#include <stdio.h>

#include "base/clock.h"
#include "gateway/home.h"
#include "gateway/request_params.h"

#define IDLE (2 * TFC__SECOND)  /* without a message, until a heartbeat is sent */
#define AWAIT (1 * TFC__SECOND) /* for its response */
/* This process was late itself, so messages may have arrived that it did not read yet. */
#define LATE (500 * TFC__MS)

static void heartbeat_check_after(struct tfc__heartbeat *heartbeat, uint64_t delay)
{
	heartbeat->due = tfc__now() + delay;
	tfc__timer_set(&heartbeat->timer, heartbeat->due);
}

static void heartbeat_on_response(void *user, int code, const msgpack_object *result,
				  const tfc_error *error)
{
	struct tfc__heartbeat *heartbeat = user;
	struct tfc__server server;
	bool was_silent = heartbeat->is_silent;
	heartbeat->call = NULL;
	heartbeat->is_silent = false;
	if (code == TFC_ELOST) /* its owner closes the connection */
		return;
	if (code == TFC_OK &&
	    tfc__fields_read(NULL, &tfc__server_fields, result, NULL, &server) == TFC_OK)
		snprintf(heartbeat->node, sizeof(heartbeat->node), "%s", server.name);
	heartbeat_check_after(heartbeat, IDLE);
	if (was_silent)
		heartbeat->changed(heartbeat);
}

static void heartbeat_send(struct tfc__heartbeat *heartbeat)
{
	const struct tfc__rpc_options call = {
		.method = TFC__METHOD_HELLO,
		.end = heartbeat_on_response,
		.user = heartbeat,
	};
	bool is_sent = tfc__rpc_call(heartbeat->rpc, &call, NULL, &heartbeat->call) == TFC_OK;
	heartbeat_check_after(heartbeat, is_sent ? AWAIT : IDLE);
}

static void heartbeat_on_timer(struct tfc__timer *timer)
{
	struct tfc__heartbeat *heartbeat = tfc__container_of(timer, struct tfc__heartbeat, timer);
	if (!heartbeat->is_needed(heartbeat)) /* perhaps the connection is no more */
		return;
	uint64_t received = tfc__rpc_received(heartbeat->rpc);
	bool has_received = received != heartbeat->received;
	heartbeat->received = received;
	if (has_received) {
		heartbeat_check_after(heartbeat, IDLE);
	} else if (!heartbeat->call) {
		heartbeat_send(heartbeat);
	} else if (tfc__now() > heartbeat->due + LATE) {
		heartbeat_check_after(heartbeat, AWAIT);
	} else {
		heartbeat->is_silent = true; /* until the response comes */
		heartbeat->changed(heartbeat);
	}
}

void tfc__heartbeat_init(struct tfc__heartbeat *heartbeat, tfc_ctx *ctx)
{
	tfc__timer_init(&heartbeat->timer, ctx, heartbeat_on_timer);
}

void tfc__heartbeat_begin(struct tfc__heartbeat *heartbeat, struct tfc__rpc *rpc)
{
	if (heartbeat->timer.at || heartbeat->is_silent)
		return;
	heartbeat->rpc = rpc;
	heartbeat->received = tfc__rpc_received(rpc);
	heartbeat_check_after(heartbeat, heartbeat->call ? AWAIT : IDLE);
}

void tfc__heartbeat_end(struct tfc__heartbeat *heartbeat)
{
	if (heartbeat->call)
		tfc__rpc_drop(heartbeat->call);
	tfc__timer_cancel(&heartbeat->timer);
	heartbeat->call = NULL;
	heartbeat->rpc = NULL;
	heartbeat->is_silent = false;
	heartbeat->node[0] = '\0';
}
