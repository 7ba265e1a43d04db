/*
 * Shared by service.c (calls), served_stream.c (a stream to a task of this node) and
 * forwarded_stream.c (one to another node).
 */
#ifndef TFC_FEED_SERVED_H
#define TFC_FEED_SERVED_H

#include "feed/frame.h"
#include "feed/service.h"
#include "feed/table.h"

struct tfc__feed_service {
	tfc_ctx *ctx;
	struct tfc__feed_service_options options;
	struct tfc__feed_table streams; /* struct feed_served, by number */
	uint64_t last;
};

struct feed_served;

struct feed_served_ops {
	/* Handles a frame of the caller; it may end the stream. */
	void (*receive)(struct feed_served *served, const struct tfc__feed_frame *frame);
	/* Items can be sent again. */
	void (*resume)(struct feed_served *served);
	void (*free)(struct feed_served *served);
};

/* A call of feed.connect. */
struct feed_served {
	const struct feed_served_ops *ops;
	struct tfc__feed_service *service;
	struct tfc__rpc_request *request;
	uint64_t number;
	uint64_t credit; /* bytes that the caller may send */
};

/* served_stream.c and forwarded_stream.c: TFC_OK, or an error; then nothing was made, and the
 * request has no response. */
int tfc__feed_serve_here(struct tfc__feed_service *service, struct tfc__rpc_request *request,
			 const struct tfc__feed_connect *connect, tfc_error *error);
int tfc__feed_serve_forwarded(struct tfc__feed_service *service, struct tfc__rpc_request *request,
			      const struct tfc__feed_connect *connect, tfc_error *error);
/* served_stream.c: the producer has left: notes it at the broker, and responds. */
int tfc__feed_serve_over(struct tfc__rpc_request *request, const struct tfc__feed_connect *connect,
			 tfc_error *error);

/* service.c: TFC_EBUSY, TFC_ENOMEM. */
int tfc__feed_served_add(struct feed_served *served, struct tfc__feed_service *service,
			 struct tfc__rpc_request *request, const struct feed_served_ops *ops,
			 tfc_error *error);
/* Responds to the call and frees the stream. */
void tfc__feed_served_end(struct feed_served *served, const tfc_error *why);

#endif
