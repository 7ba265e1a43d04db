#include "feed_way.h"

#include <stdio.h>

#include "gateway/members.h"

static void serve(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		  const msgpack_object *params)
{
	const struct feed_way *way = end->user;
	struct tfc__feed_service *service = way->services[end->pair == &way->pairs[1]];
	if (service)
		tfc__feed_service_serve(service, NULL, end->rpc, request, method, params);
}

static void connect_gateway(tfc_gateway *gateway, const char *node, struct tfc__member_wait *wait)
{
	struct feed_way *way = tfc__container_of(gateway, struct feed_way, gateway);
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_EAGAIN, "gateway", 0, "the gateway is not connected");
	struct tfc__rpc *rpc = way->pairs[0].ends[0].rpc;
	wait->fn(wait, rpc, rpc ? NULL : &error);
}

static void connect_member(void *user, const char *node, struct tfc__member_wait *wait)
{
	struct feed_way *way = user;
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ELOST, "node", 0, "no connection");
	struct tfc__rpc *rpc = way->pairs[1].ends[0].rpc;
	wait->fn(wait, rpc, rpc ? NULL : &error);
}

static int check(void *user, const void *caller, const char *job, bool is_forwarded,
		 tfc_error *error)
{
	const struct feed_way *way = user;
	if (!way->refusal || is_forwarded)
		return TFC_OK;
	return tfc__fail(error, way->refusal, "gateway", 0, "not this producer");
}

int feed_way_open(struct feed_way *way, tfc_ctx *ctx, const char *node)
{
	static const struct tfc__gateway_ops gateway_ops = {.connect = connect_gateway};
	static const struct tfc__gateway_members_ops members_ops = {.connect = connect_member};
	*way = (struct feed_way){.gateway = {.ctx = ctx, .ops = &gateway_ops}};
	snprintf(way->node, sizeof(way->node), "%s", node);
	int code = rpc_pair_open(&way->pairs[0], ctx);
	if (code == TFC_OK && (code = rpc_pair_open(&way->pairs[1], ctx)) < 0)
		rpc_pair_close(&way->pairs[0]);
	if (code < 0)
		return code;
	for (int i = 0; i < 2 && code == TFC_OK; i++) {
		const struct tfc__feed_service_options options = {
			.node = i ? way->node : "g",
			.members = {i ? NULL : &members_ops, way, ""},
			.check = check,
			.user = way,
		};
		way->pairs[i].ends[1].serve = serve;
		way->pairs[i].ends[1].user = way;
		code = tfc__feed_service_open(ctx, &options, NULL, &way->services[i]);
	}
	if (code < 0)
		feed_way_close(way);
	return code;
}

void feed_way_close(struct feed_way *way)
{
	for (int i = 0; i < 2; i++) {
		tfc__feed_service_close(way->services[i]);
		way->services[i] = NULL;
	}
	for (int i = 0; i < 2; i++)
		rpc_pair_close(&way->pairs[i]);
}

struct tfc__feed_connect feed_way_connect(const struct feed_way *way)
{
	struct tfc__feed_connect connect = {
		.job = WAY_JOB,
		.task = "worker/0",
		.queue = "train",
	};
	snprintf(connect.node, sizeof(connect.node), "%s", way->node);
	return connect;
}
