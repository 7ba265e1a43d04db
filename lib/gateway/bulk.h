/*
 * Answers that may be long take turns: of one connection only a few questions are worked on at a
 * time, and none while much of what was answered before waits to be sent. The others wait as
 * questions, which are small.
 */
#ifndef TFC_GATEWAY_BULK_H
#define TFC_GATEWAY_BULK_H

#include "base/list.h"
#include "wire/rpc.h"

#define TFC__BULK_MAX 4                       /* questions of one connection that are worked on */
#define TFC__BULK_BACKLOG (UINT32_C(4) << 20) /* bytes to be sent; then the others wait */

struct tfc__bulk {
	tfc_ctx *ctx;
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

void tfc__bulk_init(struct tfc__bulk *bulk, tfc_ctx *ctx);

/* TFC_OK: `go` was called, or will be; TFC_ENOMEM: never. The connection must live until
 * tfc__bulk_leave. */
int tfc__bulk_enter(struct tfc__bulk *bulk, struct tfc__rpc *rpc, struct tfc__bulk_turn *turn);

/* It is answered, or not wanted any more. Legal in `go`. In none: a no-op. */
void tfc__bulk_leave(struct tfc__bulk_turn *turn);

#endif
