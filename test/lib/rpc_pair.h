/*
 * Two ends of a connection in one context, without a transport: what one sends waits in a queue and
 * is fed to the other in a later turn, unless the test holds it back.
 */
#ifndef TEST_LIB_RPC_PAIR_H
#define TEST_LIB_RPC_PAIR_H

#include "wire/rpc.h"

struct rpc_pair;

struct rpc_message {
	struct tfc__link link;
	char *data;
	size_t len;
};

struct rpc_end {
	struct rpc_pair *pair;
	struct rpc_end *other;
	struct tfc__rpc *rpc;   /* NULL once closed */
	struct tfc__link queue; /* what it sent and the other has not got yet */
	struct tfc__work work;
	bool is_held; /* the queue waits */
	uint32_t sent;
	tfc_error broken; /* code 0: it is not */
	/* A request or notification; NULL: requests are answered with their params. */
	void (*serve)(struct rpc_end *end, struct tfc__rpc_request *request, const char *method,
		      const msgpack_object *params);
	/* Sees each message that it sends; or NULL. */
	void (*on_send)(struct rpc_end *end, const void *data, size_t len);
	void *user;
};

struct rpc_pair {
	tfc_ctx *ctx;
	struct rpc_end ends[2];
};

/* TFC_OK or what the first that failed gave: then nothing is left. */
int rpc_pair_open(struct rpc_pair *pair, tfc_ctx *ctx);
/* Closes both ends and drops what is on the way. */
void rpc_pair_close(struct rpc_pair *pair);

/* One end, as its transport would at the end of the connection. Legal in callbacks. */
void rpc_end_close(struct rpc_end *end, const tfc_error *why);

void rpc_end_hold(struct rpc_end *end);
void rpc_end_release(struct rpc_end *end);

/* Feeds bytes to an end, as if the other had sent them. */
void rpc_end_feed(struct rpc_end *end, const void *data, size_t len);

/* Runs the context until nothing is due. */
void rpc_run(tfc_ctx *ctx);

/* ---- calls, and what became of them */

struct rpc_outcome {
	uint32_t ends; /* how often it ended */
	int code;
	tfc_error error;
	uint64_t number; /* the result, if it is a number */
	uint32_t items;  /* of the stream */
	uint64_t item;   /* the last one, if it is a number */
	struct tfc__rpc_call *call;
	void (*on_end)(struct rpc_outcome *outcome);  /* or NULL */
	void (*on_item)(struct rpc_outcome *outcome); /* or NULL */
	struct rpc_end *end;
};

/* Calls `method` with one number. */
int rpc_ask(struct rpc_end *end, const char *method, uint64_t number, uint32_t timeout_ms,
	    uint32_t credit, struct rpc_outcome *outcome);

/* A value that is one number. */
struct tfc__buf rpc_number(uint64_t number);

#endif
