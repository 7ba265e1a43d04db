#include "feed/service.h"

#include <stdlib.h>
#include <string.h>

#include "feed/served.h"

#define STREAMS_MAX 4096

static uint64_t served_number(const void *record)
{
	return ((const struct feed_served *)record)->number;
}

static void served_on_credit(void *user)
{
	struct feed_served *served = user;
	served->ops->resume(served);
}

static void served_on_cancel(void *user)
{
	tfc_error error = TFC_ERROR_INIT;
	tfc__fail(&error, TFC_ECANCELED, "feed", 0, "canceled");
	tfc__feed_served_end(user, &error);
}

int tfc__feed_served_add(struct feed_served *served, struct tfc__feed_service *service,
			 struct tfc__rpc_request *request, const struct feed_served_ops *ops,
			 tfc_error *error)
{
	if (service->streams.count >= STREAMS_MAX)
		return tfc__fail(error, TFC_EBUSY, "feed", 0,
				 "the node has %d streams of feeds, and takes no more",
				 STREAMS_MAX);
	served->ops = ops;
	served->service = service;
	served->request = request;
	served->number = ++service->last;
	if (!tfc__feed_table_add(&service->streams, served->number, served))
		return tfc__fail_nomem(error, "feed");
	tfc__rpc_watch(request, served_on_credit, served_on_cancel, served);
	return TFC_OK;
}

void tfc__feed_served_end(struct feed_served *served, const tfc_error *why)
{
	tfc__feed_table_remove(&served->service->streams, served->number, served_number);
	tfc__rpc_watch(served->request, NULL, NULL, NULL);
	tfc__rpc_fail(served->request, why);
	served->ops->free(served);
}

/* ---- calls */

static int check_connect(const struct tfc__feed_service *service, const void *caller,
			 const struct tfc__feed_connect *connect, tfc_error *error)
{
	const struct tfc__feed_service_options *options = &service->options;
	if (!tfc__is_job_id(connect->job) || !*connect->task ||
	    !tfc__feed_is_name(connect->queue) || !*connect->node ||
	    (!tfc__feed_is_name(connect->producer) && (connect->is_over || *connect->producer)))
		return tfc__fail(error, TFC_EINVAL, "feed", 0,
				 "the request names no job, task, queue or node");
	return options->check(options->user, caller, connect->job, connect->is_forwarded, error);
}

static void serve_connect(struct tfc__feed_service *service, const void *caller,
			  struct tfc__rpc_request *request, const msgpack_object *params)
{
	struct tfc__feed_connect connect = {0};
	tfc_error error = TFC_ERROR_INIT;
	int code = tfc__params_read(NULL, &tfc__feed_connect_fields, params, &error, &connect);
	if (code == TFC_OK)
		code = check_connect(service, caller, &connect, &error);
	if (code < 0)
		;
	else if (strcmp(connect.node, service->options.node) == 0)
		code = connect.is_over ? tfc__feed_serve_over(request, &connect, &error)
				       : tfc__feed_serve_here(service, request, &connect, &error);
	else if (connect.is_forwarded || !service->options.members.ops)
		code = tfc__fail(&error, TFC_ENOENT, "feed", 0, "node %s is not node %s",
				 service->options.node, connect.node);
	else
		code = tfc__feed_serve_forwarded(service, request, &connect, &error);
	if (code < 0)
		tfc__rpc_fail(request, &error);
}

/* A frame of a stream that has ended is ignored: the caller may not know that yet. */
static void serve_send(struct tfc__feed_service *service, const struct tfc__rpc *rpc,
		       const msgpack_object *params)
{
	struct tfc__feed_frame frame = {0};
	tfc_error error = TFC_ERROR_INIT;
	if (tfc__feed_frame_read(params, &error, &frame) < 0)
		return;
	struct feed_served *served = tfc__feed_table_find(&service->streams, frame.stream);
	uint64_t cost = tfc__feed_frame_cost(&frame);
	if (!served || tfc__rpc_of(served->request) != rpc)
		return;
	if (cost > served->credit) {
		tfc__fail(&error, TFC_EPARSE, "feed", 0,
			  "the producer has sent more than it was allowed to");
		tfc__feed_served_end(served, &error);
		return;
	}
	served->credit -= cost;
	served->ops->receive(served, &frame);
}

void tfc__feed_service_serve(struct tfc__feed_service *service, const void *caller,
			     struct tfc__rpc *rpc, struct tfc__rpc_request *request,
			     const char *method, const msgpack_object *params)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!request && strcmp(method, TFC__FEED_METHOD_SEND) == 0) {
		serve_send(service, rpc, params);
	} else if (request && strcmp(method, TFC__FEED_METHOD_CONNECT) == 0) {
		serve_connect(service, caller, request, params);
	} else if (request) {
		tfc__fail(&error, TFC_ENOTSUP, "feed", 0,
			  "the node's version does not support the request %s", method);
		tfc__rpc_fail(request, &error);
	}
}

/* ---- opening and closing */

int tfc__feed_service_open(tfc_ctx *ctx, const struct tfc__feed_service_options *options,
			   tfc_error *error, struct tfc__feed_service **ret_service)
{
	struct tfc__feed_service *service = calloc(1, sizeof(*service));
	if (!service)
		return tfc__fail_nomem(error, "feed");
	service->ctx = ctx;
	service->options = *options;
	*ret_service = service;
	return TFC_OK;
}

void tfc__feed_service_close(struct tfc__feed_service *service)
{
	tfc_error error = TFC_ERROR_INIT;
	if (!service)
		return;
	tfc__fail(&error, TFC_ELOST, "feed", 0, "the node was closed");
	while (service->streams.count)
		tfc__feed_served_end(service->streams.records[0], &error);
	tfc__feed_table_fini(&service->streams);
	free(service);
}
