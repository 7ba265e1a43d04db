/*
 * The port hold and the port pool, shared by the files of this module.
 */
#ifndef TFC_PORT_INTERNAL_H
#define TFC_PORT_INTERNAL_H

#include "base/list.h"
#include "ctx/ctx.h"
#include "port/owner.h"
#include "port/port.h"

struct tfc_port_pool {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	uint16_t first;
	uint16_t last;
	uint16_t next; /* where the next search for a free port begins */
	struct tfc__link holds;
	uint32_t own;                /* number of ports from first to last that have a hold */
	uint8_t has_hold[65536 / 8]; /* a bit per port, to skip held ports without a bind */
};

/* Which object has the hold's socket. */
enum tfc__hold_state {
	TFC__HOLD_OWN,  /* the hold, in fd */
	TFC__HOLD_KEPT, /* its keeper, under the name `kept` */
	TFC__HOLD_LOST, /* none: the keeper has ended, or the port was vacated */
};

struct tfc_port_hold {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	tfc_port_pool *pool;   /* NULL: the pool is closed */
	struct tfc__link link; /* in the pool's list */
	uint16_t port;
	enum tfc__hold_state state;
	struct tfc__noted_fd socket; /* none unless TFC__HOLD_OWN */
	const struct tfc__port_keeper *keeper_ops;
	void *kept;
	struct tfc__owner_search search; /* for the owner of a foreign listener */
};

/* Records in the pool whether the port has a hold (pool.c). */
void tfc__pool_mark(tfc_port_pool *pool, uint16_t port, bool has_hold);

#endif
