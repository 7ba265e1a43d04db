/*
 * What a hold and its pool are, for the files of this module.
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
	uint16_t next; /* where the next search begins */
	struct tfc__link holds;
	uint32_t own;                /* ports from first to last that have a hold */
	uint8_t has_hold[65536 / 8]; /* a bit per port: no call to find out that it is taken */
};

/* Who has the socket. */
enum tfc__hold_state {
	TFC__HOLD_OWN,  /* the hold itself: fd */
	TFC__HOLD_KEPT, /* its keeper, as `kept` */
	TFC__HOLD_LOST, /* nobody: the keeper is gone */
};

struct tfc_port_hold {
	struct tfc__handle handle;
	tfc_ctx *ctx;
	tfc_port_pool *pool;   /* NULL: closed meanwhile */
	struct tfc__link link; /* in the pool's list */
	uint16_t port;
	enum tfc__hold_state state;
	int fd; /* -1 unless TFC__HOLD_OWN */
	const struct tfc__port_keeper *keeper_ops;
	void *kept;
	struct tfc__owner_search search; /* for who else listens there */
};

/* pool.c: a hold of this port is there, or is there no more. */
void tfc__pool_mark(tfc_port_pool *pool, uint16_t port, bool has_hold);

#endif
