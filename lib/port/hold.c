#include "port/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "ctx/ctx.h"
#include "port/bind.h"
#include "port/bind_window.h"

uint16_t tfc_port_hold_number(const tfc_port_hold *hold)
{
	return hold ? hold->port : 0;
}

int tfc_port_hold_set_open(tfc_port_hold *hold, int is_open)
{
	int code = tfc__ctx_enter(hold ? hold->ctx : NULL);
	if (code)
		return code;
	if (hold->state == TFC__HOLD_LOST)
		return tfc__ctx_fail(hold->ctx, TFC_ELOST, "port", 0,
				     "port %u is no longer held: its guard has ended, or the hold "
				     "was closed for a program (port_handover)",
				     hold->port);
	if (hold->state == TFC__HOLD_KEPT)
		return hold->keeper_ops->set_bind_window(hold->kept, is_open != 0);
	if (tfc__bind_window_set(hold->socket.fd, is_open != 0))
		return tfc__fail_errno(tfc__ctx_error(hold->ctx), "port", errno,
				       "cannot %s the bind window of port %u",
				       is_open ? "open" : "close", hold->port);
	return TFC_OK;
}

void tfc__port_hand_over(tfc_port_hold *hold)
{
	tfc__fd_close(&hold->socket);
	if (hold->state == TFC__HOLD_KEPT)
		hold->keeper_ops->release(hold->kept);
	hold->state = TFC__HOLD_LOST;
}

void tfc_port_hold_release(tfc_port_hold *hold)
{
	if (!hold || tfc__ctx_enter(hold->ctx))
		return;
	tfc__handle_closed(&hold->handle);
	tfc__port_hand_over(hold);
	if (hold->pool) {
		tfc__list_remove(&hold->link);
		tfc__pool_mark(hold->pool, hold->port, false);
	}
	free(hold);
}

/* ---- interface for the keeper */

int tfc__port_fd(const tfc_port_hold *hold)
{
	return hold->socket.fd;
}

void tfc__port_move(tfc_port_hold *hold, const struct tfc__port_keeper *ops, void *kept)
{
	tfc__fd_close(&hold->socket);
	hold->state = TFC__HOLD_KEPT;
	hold->keeper_ops = ops;
	hold->kept = kept;
}

void *tfc__port_kept(const tfc_port_hold *hold)
{
	return hold->state == TFC__HOLD_KEPT ? hold->kept : NULL;
}

void tfc__port_lose(tfc_port_hold *hold)
{
	if (hold->state != TFC__HOLD_KEPT)
		return;
	hold->state = TFC__HOLD_LOST;
	hold->keeper_ops = NULL;
	hold->kept = NULL;
}

int tfc__port_reacquire(tfc_port_hold *hold)
{
	if (hold->state != TFC__HOLD_LOST)
		return TFC_OK;
	int fd = tfc__hold_bind_fixed(hold->port, tfc__ctx_error(hold->ctx));
	if (fd < 0)
		return fd;
	tfc__fd_note(hold->ctx, &hold->socket, fd);
	hold->state = TFC__HOLD_OWN;
	return TFC_OK;
}

bool tfc__port_is_lost(const tfc_port_hold *hold)
{
	return hold->state == TFC__HOLD_LOST;
}
