/*
 * The home of a submit: the one node that creates the job, and recognizes a repeated submit by its
 * client key (doc/internals/gateway.md). The submit is repeated until the home responds or
 * patience_ms is over: directly, or through the node that is connected. A home belongs to a
 * remote request, which frees it.
 */
#ifndef TFC_GATEWAY_HOME_H
#define TFC_GATEWAY_HOME_H

#include "gateway/remote_request.h"

/* The node that is connected: node_id and name are its response to gateway.hello. */
#define TFC__METHOD_HELLO "gateway.hello"
struct tfc__server {
	char node_id[TFC__NODE_ID_SIZE];
	char name[64];
};
extern const struct tfc__fields tfc__server_fields;

/* Shared by the homes of one gateway; embedded in it. */
struct tfc__homes {
	tfc_ctx *ctx;
	uint32_t patience_ms; /* how long a home is retried */
	/* The back-off is over; must call tfc__home_send soon. */
	void (*send)(struct tfc__remote_request *remote_request);
	struct tfc__server server;
};

/* Adds a home to a submit. node_id: the host's choice, or NULL. False: out of memory, and the
 * remote request has failed. */
bool tfc__home_add(struct tfc__homes *homes, struct tfc__remote_request *remote_request,
		   const char *node_id);

/* Sends the submit over `rpc` to the connected node; backs off if that node cannot forward it to
 * the home. */
void tfc__home_send(struct tfc__remote_request *remote_request, struct tfc__rpc *rpc);

/* The submit's connection was lost. True: the submit is repeated after a back-off. False: nothing
 * was sent to a home yet, it must not be repeated, or the remote request is not a submit. */
bool tfc__home_retry(struct tfc__remote_request *remote_request, const tfc_error *why);

/* Logs, once, that a submit waits for its home. */
void tfc__home_note_wait(struct tfc__remote_request *remote_request, const tfc_error *why);

/* For any remote request. Whether it is a submit that was sent to its home; a submit that backs off
 * before it is sent again; a submit whose home is the connected node. */
bool tfc__home_is_queried(const struct tfc__remote_request *remote_request);
bool tfc__home_is_paused(const struct tfc__remote_request *remote_request);
bool tfc__home_is_here(const struct tfc__remote_request *remote_request);

#endif
