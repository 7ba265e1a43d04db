/*
 * Answers that may be long take turns: of one connection only a few questions are worked on at a
 * time, and none while the connection has no room for more that waits to be sent. The others wait
 * as questions, which are small.
 */
#ifndef TFC_GATEWAY_BULK_H
#define TFC_GATEWAY_BULK_H

#include "base/list.h"
#include "wire/rpc.h"

/* Questions of one connection that are worked on; of a client one, so that what it does not read
 * is one answer more than there is room for. */
#define TFC__BULK_MAX 4
#define TFC__BULK_CLIENT_MAX 1

struct tfc__bulk {
	struct tfc__link lines; /* of those connections that have any */
	bool is_closed;         /* nobody's turn comes any more */
};

struct tfc__bulk_line;

/* A question's place in the line; zeroed: in none. */
struct tfc__bulk_turn {
	struct tfc__link link;
	struct tfc__bulk_line *line;
	bool is_begun;
	/* Its turn has come: once, inside tfc__bulk_enter or later. */
	void (*go)(struct tfc__bulk_turn *turn);
};

void tfc__bulk_init(struct tfc__bulk *bulk);

/* TFC_OK: `go` was called, or will be, with less than `max` others of the connection under way;
 * TFC_ENOMEM: never. The connection must live until tfc__bulk_leave. */
int tfc__bulk_enter(struct tfc__bulk *bulk, struct tfc__rpc *rpc, uint32_t max,
		    struct tfc__bulk_turn *turn);

/* It is answered, or not wanted any more. Legal in `go`. In none: a no-op. */
void tfc__bulk_leave(struct tfc__bulk_turn *turn);

#endif
